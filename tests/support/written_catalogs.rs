//! Catalogs whose documents are sound or broken by how they are written: marks, comments, lists in the place of objects, `null`, depth.

use serde_json::{Value, json};

use super::{Broken, add, deprecated, has, of, set, with, written};

/// More than upstream's parser of JSON goes down.
const TOO_DEEP: usize = 10_001;

fn nested(depth: usize) -> String {
    "[".repeat(depth) + &"]".repeat(depth)
}

/// A bundle of a package of its own, with a property as it is written.
fn with_value(kind: &str, value: &str) -> String {
    let package = super::package("b", "stable");
    let channel = super::channel("b", "stable", json!([{"name": "b.v1.0.0"}]));
    let bundle = super::bundle("b", "1.0.0", &[super::property(kind, json!("VALUE"))]);
    format!(
        "{package}{channel}{}",
        bundle.to_string().replace("\"VALUE\"", value)
    )
}

/// Texts of files that are sound beside [`super::plain`].
pub fn sound_files() -> Vec<(&'static str, String)> {
    let deep = format!("{{\"schema\": \"mine\", \"a\": {}}}", nested(20));
    [
        ("nothing", ""),
        ("a-mark-at-the-end", "schema: mine\n---\n"),
        ("a-mark-that-nothing-follows", "schema: mine\n---"),
        ("two-marks-between", "schema: mine\n---\n---\nschema: mine\n"),
        (
            "comments-at-marks",
            "--- # one\nschema: mine\n---# two\nschema: mine\n",
        ),
        ("a-comment-within", "---\n# C\nschema: mine\n"),
        (
            "lines-of-windows",
            "---\r\nschema: mine\r\n---\r\nschema: mine\r\n",
        ),
        (
            "marks-between-json",
            "{\"schema\": \"mine\"}\n---\n{\"schema\": \"mine\"}\n---\n{\"schema\": \"mine\"}\n",
        ),
        ("yaml-after-json", "{\"schema\": \"mine\"}\n---\nschema: mine\n"),
        (
            "yaml-after-json-without-a-mark",
            "{\"schema\": \"mine\"}\nschema: mine\n",
        ),
        ("json-after-yaml", "schema: mine\n---\n{\"schema\": \"mine\"}\n"),
        ("tabs-before-values", "schema:\tmine\na:\n- b:\tc\n  d:\t-1\n"),
        (
            "tabs-that-are-space",
            "schema: mine\na: {\n\t\"b\": 2\n}\nc: 'd\n\te'\nf: g\n  \th\n",
        ),
        ("yaml-in-braces", "{schema: mine}\n---\n{\"schema\": \"mine\"}\n"),
        ("deep-json", &deep),
        ("a-deep-property", &with_value("custom", &nested(200))),
        ("half-a-character", &with_value("custom", "\"\\ud800\"")),
    ]
    .map(|(name, text)| (name, text.to_owned()))
    .into()
}

fn changed(name: &'static str, change: impl FnOnce(&mut Vec<Value>)) -> (&'static str, Vec<Value>) {
    let mut documents = super::plain();
    change(&mut documents);
    (name, documents)
}

/// Changes after which [`super::plain`] is sound.
pub fn sound() -> Vec<(&'static str, Vec<Value>)> {
    let image = "registry.example.org/a:v1";
    vec![
        changed(
            "null-among-images",
            set(2, "/relatedImages", json!([null, {"name": null, "image": image}])),
        ),
        changed("null-as-a-value", has("custom", json!(null))),
        changed("null-as-metadata", has("olm.csv.metadata", json!(null))),
        changed(
            "null-within-metadata",
            has(
                "olm.csv.metadata",
                json!({
                    "keywords": [null], "labels": {"l": null}, "provider": null, "maintainers": [null], "links": null,
                    "installModes": [{"type": null, "supported": null}], "crdDescriptions": {"owned": [null], "required": null},
                    "apiServiceDefinitions": {"owned": [{"containerPort": null}]},
                }),
            ),
        ),
        changed(
            "a-whole-number-with-a-point",
            has(
                "olm.csv.metadata",
                json!({"apiServiceDefinitions": {"owned": [{"containerPort": 8443.0}]}}),
            ),
        ),
        changed(
            "bytes-as-numbers",
            add(
                0,
                "icon",
                json!({"base64data": [60, 115, 118, 103, 47, 62], "mediatype": "image/svg+xml"}),
            ),
        ),
        changed(
            "properties-of-a-package",
            add(0, "properties", json!([{"type": "x", "value": 1}, null])),
        ),
        changed(
            "properties-of-a-channel",
            add(1, "properties", json!([{"type": "x"}])),
        ),
        changed(
            "a-channels-priority",
            has("olm.channel", json!({"channelName": "stable", "priority": 1.0})),
        ),
    ]
}

/// Of a document whose end is told upstream reads no further.
const UNREAD: &str =
    "upstream drops what follows without a word, so that whoever wrote it finds nothing of it in the catalog";

/// One for each way to break a rule.
#[allow(clippy::too_many_lines, reason = "a table")]
pub fn all() -> Vec<Broken> {
    let missing = |name, text: &str| written(name, "schema-missing", "x.yaml", text);
    let syntax = |name, text: &str| written(name, "document-syntax", "x.yaml", text);
    let deep = format!("{{\"schema\": \"mine\", \"a\": {}}}", nested(TOO_DEEP));
    vec![
        // Where documents begin and end
        missing(
            "a-comment-before-the-first-mark",
            "# Copyright\n---\nschema: mine\n",
        ),
        missing("a-comment-alone", "# nothing\n"),
        missing("a-comment-after-the-last-mark", "schema: mine\n---\n# nothing\n"),
        missing("blank-lines-alone", "\n\n"),
        missing("a-blank-line-before-the-first-mark", "\n---\nschema: mine\n"),
        missing("a-blank-line-after-the-last-mark", "schema: mine\n---\n\n"),
        missing("a-mark-alone", "---\n"),
        missing("two-marks-at-first", "---\n---\nschema: mine\n"),
        missing(
            "three-marks-between",
            "schema: mine\n---\n---\n---\nschema: mine\n",
        ),
        missing("null", "null\n"),
        missing("a-tilde", "schema: mine\n---\n~\n"),
        missing("null-after-json", "{\"schema\": \"mine\"} null"),
        missing("a-mark-after-json", "{\"schema\": \"mine\"}\n---\n"),
        missing(
            "blank-lines-after-json",
            "{\"schema\": \"mine\"}\n\n\n---\n{\"schema\": \"mine\"}\n",
        ),
        missing("a-comment-after-json", "{\"schema\": \"mine\"}\n# nothing\n"),
        syntax("a-document-on-the-marks-line", "--- {schema: mine}\n"),
        syntax("a-type-on-the-marks-line", "--- !!map\nschema: mine\n"),
        syntax("a-word-on-the-marks-line", "schema: mine\n---foo: 1\n"),
        syntax("a-tab-at-first", "\tschema:\tmine\n"),
        syntax("a-tab-in-a-blank-line", "schema: mine\n\t\n"),
        syntax("a-tab-behind-a-dash", "schema: mine\na:\n-\tb: c\n"),
        syntax("a-tab-in-a-block", "schema: mine\na: |\n  b\n\t\nc: 1\n"),
        syntax("a-comment-as-part-of-a-mark", "---# C\nschema: mine\n"),
        syntax("behind-an-end", "schema: mine\n...\n[\n").differs(UNREAD),
        syntax("a-document-behind-an-end", "schema: mine\n...\nschema: mine\n").differs(UNREAD),
        syntax(
            "two-objects-behind-a-mark",
            "---\n{\"schema\": \"mine\"}\n{\"schema\": \"mine\"}\n",
        )
        .differs(UNREAD),
        syntax("a-longer-mark", "schema: mine\n----\nschema: mine\n"),
        syntax(
            "a-mark-after-much-json",
            "{\"schema\": \"mine\"}{\"schema\": \"mine\"}\n---\nschema: mine\n",
        ),
        syntax(
            "a-mark-in-a-line-of-json",
            "{\"schema\": \"mine\"} --- {\"schema\": \"mine\"}\n",
        ),
        written("too-deep", "document-syntax", "x.json", &deep),
        // What would not arrive
        of("a-document-too-deep-to-send", "message-depth", |documents| {
            let deep: Value = serde_json::from_str(&nested(126)).unwrap();
            documents.push(json!({"schema": "mine", "a": [[deep]]}));
        })
        .differs(super::WARNED),
        written(
            "a-number-too-large",
            "field-type",
            "x.json",
            "{\"schema\": \"mine\"}{\"schema\": \"mine\"}{\"schema\": \"mine\", \"a\": 1e999}",
        ),
        written(
            "a-number-too-large-in-a-property",
            "property-value",
            "x.json",
            &with_value("custom", "[1, -1e999]"),
        ),
        // Lists where objects belong, which hold the fields in their order
        of(
            "a-list-as-icon",
            "field-type",
            add(0, "icon", json!(["iVBORw0KGgo=", "image/png"])),
        ),
        of(
            "a-list-as-entry",
            "field-type",
            set(1, "/entries/2", json!(["a.v1.0.0"])),
        ),
        of(
            "a-list-as-image",
            "field-type",
            set(2, "/relatedImages", json!([["x", "registry.example.org/a"]])),
        ),
        of(
            "a-list-as-property",
            "field-type",
            set(
                2,
                "/properties/0",
                json!(["olm.gvk", {"group": "a", "kind": "B", "version": "v1"}]),
            ),
        ),
        of(
            "a-list-as-deprecation",
            "field-type",
            deprecated(json!([[{"schema": "olm.package"}, "m"]])),
        ),
        of(
            "a-list-as-reference",
            "field-type",
            deprecated(json!([{"reference": ["olm.package"], "message": "m"}])),
        ),
        of("a-list-as-document", "field-type", with(json!(["olm.package"]))),
        of(
            "a-list-as-provider",
            "property-value",
            has("olm.csv.metadata", json!({"provider": []})),
        ),
        of(
            "a-list-as-maintainer",
            "property-value",
            has("olm.csv.metadata", json!({"maintainers": [[]]})),
        ),
        of(
            "a-list-as-owned-kind",
            "property-value",
            has(
                "olm.csv.metadata",
                json!({"crdDescriptions": {"owned": [["a.b"]]}}),
            ),
        ),
        // Properties of what is no bundle
        of(
            "properties-of-a-package-no-list",
            "field-type",
            add(0, "properties", json!("x")),
        ),
        of(
            "property-of-a-package-no-object",
            "field-type",
            add(0, "properties", json!(["x"])),
        ),
        of(
            "properties-of-a-channel-no-list",
            "field-type",
            add(1, "properties", json!("x")),
        ),
        of(
            "property-of-a-channel-without-a-type",
            "field-type",
            add(1, "properties", json!([{"type": 1}])),
        ),
        of(
            "a-priority-that-is-text",
            "property-value",
            has("olm.channel", json!({"channelName": "stable", "priority": "1"})),
        ),
        of(
            "a-priority-with-a-part",
            "property-value",
            has("olm.channel", json!({"channelName": "stable", "priority": 1.5})),
        ),
        of("a-property-that-is-null", "property-value", |documents| {
            documents[2]["properties"]
                .as_array_mut()
                .unwrap()
                .push(json!(null));
        }),
    ]
}
