//! Catalogs with one thing wrong each: the code by which it is found, and where `opm validate` judges otherwise, why.

#[path = "written_catalogs.rs"]
pub mod written_catalogs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::catalogs::{bundle, channel, package, property};

/// A catalog as its files, and what is wrong with it.
pub struct Broken {
    pub name: &'static str,
    pub code: &'static str,
    /// Why upstream accepts what we refuse, or the other way around.
    pub differs: Option<&'static str>,
    pub files: Vec<(String, String)>,
}

/// Three versions in a row, in one channel.
pub fn plain() -> Vec<Value> {
    vec![
        package("a", "stable"),
        channel(
            "a",
            "stable",
            json!([
                {"name": "a.v1.2.0", "replaces": "a.v1.1.0"},
                {"name": "a.v1.1.0", "replaces": "a.v1.0.0"},
                {"name": "a.v1.0.0"},
            ]),
        ),
        bundle("a", "1.0.0", &[]),
        bundle("a", "1.1.0", &[]),
        bundle("a", "1.2.0", &[]),
    ]
}

/// The same, written as one may. Each is sound, and so are all together.
pub fn sound() -> Vec<(&'static str, Vec<Value>)> {
    let of = |name, change: fn(&mut Vec<Value>)| {
        let mut documents = plain();
        change(&mut documents);
        (name, documents)
    };
    let mut sound = vec![
        of("plain", |_| {}),
        of("package-in-capitals", |documents| {
            documents[0] = json!({"SCHEMA": "olm.package", "NAME": "a", "defaultchannel": "stable"});
        }),
        of("schema-not-at-first", |documents| {
            documents[0] = json!({"defaultChannel": "stable", "Name": "a", "\u{17f}chema": "olm.package"});
        }),
        of("channel-in-capitals", |documents| {
            documents[1] = json!({"Schema": "olm.channel", "Package": "a", "Name": "stable", "ENTRIES": [
                {"NAME": "a.v1.2.0", "Replaces": "a.v1.1.0", "SKIPS": [], "SkipRange": "<1.2.0"},
                {"Name": "a.v1.1.0", "replaces": "a.v1.0.0", "skips": null, "skipRange": null},
                {"name": "a.v1.0.0", "replaces": null},
            ]});
        }),
        of("bundle-in-capitals", |documents| {
            let image = documents[2]["image"].clone();
            documents[2] = json!({"Schema": "olm.bundle", "Package": "a", "Name": "a.v1.0.0", "IMAGE": image, "Properties": [
                {"Type": "olm.package", "VALUE": {"PackageName": "a", "VERSION": "1.0.0"}},
                {"Type": "olm.gvk", "Value": {"Group": "g", "Kind": "K", "Version": "v1"}},
                {"Type": "olm.csv.metadata", "Value": {"InstallModes": [{"Type": "AllNamespaces", "Supported": true}]}},
                {"Type": "olm.constraint", "Value": {"FailureMessage": "x", "CEL": {"Rule": "true"}}},
            ], "RelatedImages": [{"Name": "a", "Image": image}]});
        }),
        of("deprecations-in-capitals", |documents| {
            documents.push(json!({"Schema": "olm.deprecations", "Package": "a", "Entries": [
                {"Reference": {"Schema": "olm.channel", "Name": "stable"}, "MESSAGE": "m"}]}));
        }),
        of("objects-in-lines", |documents| {
            has("olm.bundle.object", json!({"data": "eyJr\naW5k\r\nIjoi\nQSJ9\n"}))(documents);
        }),
        of("an-icon-in-lines", |documents| {
            documents[0]["icon"] = json!({"base64data": "PHN2\nZy8+", "MediaType": "image/svg+xml"});
        }),
    ];
    sound.extend(written_catalogs::sound());
    sound
}

fn text(documents: &[Value]) -> String {
    documents
        .iter()
        .map(|it| serde_json::to_string_pretty(it).unwrap() + "\n")
        .collect()
}

fn of(name: &'static str, code: &'static str, change: impl FnOnce(&mut Vec<Value>)) -> Broken {
    let mut documents = plain();
    change(&mut documents);
    let files = vec![("catalog.json".to_owned(), text(&documents))];
    Broken {
        name,
        code,
        differs: None,
        files,
    }
}

/// Set a field of a document by its place and its pointer.
fn set(document: usize, pointer: &'static str, value: Value) -> impl FnOnce(&mut Vec<Value>) {
    move |documents| *documents[document].pointer_mut(pointer).unwrap() = value
}

fn add(document: usize, field: &'static str, value: Value) -> impl FnOnce(&mut Vec<Value>) {
    move |documents| documents[document][field] = value
}

fn with(document: Value) -> impl FnOnce(&mut Vec<Value>) {
    move |documents| documents.push(document)
}

fn has(kind: &'static str, value: Value) -> impl FnOnce(&mut Vec<Value>) {
    move |documents| {
        documents[2]["properties"]
            .as_array_mut()
            .unwrap()
            .push(property(kind, value))
    }
}

/// Gives the only version that nothing replaces this version and release, and its name by both.
fn released(version: &'static str, release: &'static str) -> impl FnOnce(&mut Vec<Value>) {
    move |documents| {
        let name = format!("a-v{version}-{release}");
        documents[1]["entries"][0]["name"] = json!(name);
        documents[4]["name"] = json!(name);
        documents[4]["properties"][1]["value"] =
            json!({"packageName": "a", "version": version, "release": release});
    }
}

fn written(name: &'static str, code: &'static str, file: &str, text: &str) -> Broken {
    let mut broken = of(name, code, |_| {});
    broken.files.push((file.to_owned(), text.to_owned()));
    broken
}

fn without(field: &'static str, document: usize) -> impl FnOnce(&mut Vec<Value>) {
    move |documents| drop(documents[document].as_object_mut().unwrap().remove(field))
}

fn deprecated(entries: Value) -> impl FnOnce(&mut Vec<Value>) {
    with(json!({"schema": "olm.deprecations", "package": "a", "entries": entries}))
}

impl Broken {
    fn differs(mut self, why: &'static str) -> Self {
        self.differs = Some(why);
        self
    }
}

const ACCEPTED: &str = "upstream does not look; it comes to light in OLM";
const LATER: &str = "later versions of upstream refuse it, as OLM's resolver does";
const WARNED: &str = "a warning or a note: upstream accepts it, and so do we";

/// One for each way to break a rule.
#[allow(clippy::too_many_lines, reason = "a table")]
pub fn all() -> Vec<Broken> {
    let image = |documents: &mut Vec<Value>| documents[2]["image"] = json!("registry.example.org/a:v1");
    let mut all = vec![
        // Files and documents
        written("not-utf8-json", "document-syntax", "x.json", "{\"schema\": "),
        written("yaml-syntax", "document-syntax", "x.yaml", "schema: [1\n"),
        written("yaml-tab", "document-syntax", "x.yaml", "schema: a\n\tname: b\n"),
        written("a-list", "field-type", "x.yaml", "- schema: olm.package\n"),
        written("a-text", "field-type", "x.yaml", "just text\n"),
        written("no-schema", "schema-missing", "x.yaml", "name: b\n"),
        written(
            "empty-schema",
            "schema-missing",
            "x.json",
            "{\"schema\": \"\", \"name\": \"b\"}",
        ),
        written("schema-no-text", "field-type", "x.json", "{\"schema\": 1}"),
        written("readme", "field-type", "README.md", "A catalog\n"),
        written(
            "twice-by-case",
            "duplicate-key",
            "x.json",
            "{\"schema\": \"olm.package\", \"name\": \"b\", \"Name\": \"b\"}",
        ),
        of("twice-by-case-unknown", "duplicate-key", |documents| {
            documents[2]["foo"] = json!(1);
            documents[2]["Foo"] = json!(1);
        }),
        of("twice-as-unicode-folds-it", "duplicate-key", |documents| {
            documents[2]["ss"] = json!(1);
            documents[2]["ß"] = json!(1);
        }),
        written(
            "twice",
            "duplicate-key",
            "x.json",
            "{\"schema\": \"mine\", \"name\": \"b\", \"name\": \"c\"}",
        )
        .differs("upstream takes the last and forgets the others, so that a word is lost without a trace"),
        of(
            "twice-by-case-within",
            "duplicate-key",
            set(1, "/entries/2", json!({"name": "a.v1.0.0", "Name": "b"})),
        )
        .differs("upstream takes the last in the order of bytes, which nobody who writes them has in mind"),
        of("name-no-text", "field-type", set(0, "/name", json!(1))),
        of("name-null", "field-type", set(0, "/name", json!(null))),
        of("name-of-what-has-none", "field-type", add(0, "Package", json!(1))),
        of(
            "icon-no-base64",
            "field-type",
            add(0, "icon", json!({"base64data": "?", "mediatype": "image/png"})),
        ),
        of("entries-no-list", "field-type", set(1, "/entries", json!({}))),
        of(
            "entry-no-object",
            "field-type",
            set(1, "/entries/0", json!("a.v1.2.0")),
        ),
        of(
            "skips-no-list",
            "field-type",
            set(
                1,
                "/entries/0",
                json!({"name": "a.v1.2.0", "replaces": "a.v1.1.0", "skips": "a"}),
            ),
        ),
        of(
            "properties-no-list",
            "field-type",
            set(2, "/properties", json!({})),
        ),
        of("image-no-text", "field-type", set(2, "/image", json!(["a"]))),
        of(
            "schema-name",
            "schema-name",
            with(json!({"schema": "my schema!", "name": "x"})),
        )
        .differs(WARNED),
        // Packages
        of("package-nameless", "package-name", |documents| {
            documents.push(json!({"schema": "olm.package", "defaultChannel": "stable"}));
        }),
        of("package-upper", "package-name", |documents| {
            for document in documents.iter_mut() {
                let field = if document["schema"] == "olm.package" {
                    "name"
                } else {
                    "package"
                };
                document[field] = json!("A");
                for property in document["properties"].as_array_mut().into_iter().flatten() {
                    if property["type"] == "olm.package" {
                        property["value"]["packageName"] = json!("A");
                    }
                }
            }
        }),
        of("package-twice", "package-duplicate", with(package("a", "stable"))),
        of(
            "channel-of-nobody",
            "package-unknown",
            with(channel("b", "stable", json!([{"name": "b.v1.0.0"}]))),
        ),
        of(
            "bundle-of-nobody",
            "package-unknown",
            with(bundle("b", "1.0.0", &[])),
        ),
        of("bundle-of-none", "package-unknown", set(2, "/package", json!(""))),
        of(
            "deprecations-of-nobody",
            "package-unknown",
            with(json!({"schema": "olm.deprecations", "package": "b", "entries": []})),
        ),
        of(
            "deprecations-of-none",
            "package-unknown",
            with(json!({"schema": "olm.deprecations", "entries": []})),
        ),
        of(
            "package-without-channel",
            "package-without-channel",
            with(package("b", "stable")),
        ),
        of(
            "no-default-channel",
            "default-channel",
            without("defaultChannel", 0),
        ),
        of(
            "default-channel-unknown",
            "default-channel",
            set(0, "/defaultChannel", json!("beta")),
        ),
        of(
            "version-twice",
            "version-duplicate",
            set(3, "/properties/1/value/version", json!("1.0.0")),
        ),
        of("version-twice-by-its-release", "version-duplicate", |documents| {
            released("1.0.0", "1")(documents);
            set(3, "/properties/1/value/version", json!("1.0.0-1"))(documents);
        }),
        of(
            "icon-type",
            "icon",
            add(
                0,
                "icon",
                json!({"base64data": "AAAA", "mediatype": "text/plain"}),
            ),
        )
        .differs(WARNED),
        of(
            "icon-other",
            "icon",
            add(0, "icon", json!({"base64data": "AAAA", "mediatype": "image/png"})),
        )
        .differs(WARNED),
        // Channels
        of(
            "channel-nameless",
            "channel-name",
            with(channel("a", "", json!([{"name": "a.v1.0.0"}]))),
        ),
        of(
            "channel-twice",
            "channel-duplicate",
            with(channel("a", "stable", json!([{"name": "a.v1.0.0"}]))),
        ),
        of(
            "channel-empty",
            "channel-empty",
            with(channel("a", "beta", json!([]))),
        ),
        of(
            "channel-without-entries",
            "channel-empty",
            with(json!({"schema": "olm.channel", "package": "a", "name": "beta"})),
        ),
        of("entry-twice", "entry-duplicate", |documents| {
            documents[1]["entries"]
                .as_array_mut()
                .unwrap()
                .push(json!({"name": "a.v1.0.0"}));
        }),
        of("entry-without-bundle", "entry-without-bundle", |documents| {
            drop(documents.pop())
        }),
        of(
            "entry-without-bundle-in-the-first-channel",
            "entry-without-bundle",
            |documents| {
                documents[1]["entries"][0]["name"] = json!("a.v1.3.0");
                documents.push(channel("a", "beta", json!([{"name": "a.v1.2.0"}])));
            },
        ),
        of(
            "two-heads",
            "channel-heads",
            set(1, "/entries/0", json!({"name": "a.v1.2.0"})),
        ),
        of("no-head", "channel-heads", |documents| {
            documents[1]["entries"][2]["replaces"] = json!("a.v1.2.0")
        }),
        of("circle-below-the-head", "channel-cycle", |documents| {
            documents[1]["entries"][2]["replaces"] = json!("a.v1.1.0")
        }),
        of("stranded", "entry-stranded", |documents| {
            documents[1]["entries"] = json!([
                {"name": "a.v1.2.0", "replaces": "a.v0.9.0"},
                {"name": "a.v1.1.0", "replaces": "a.v1.0.0"},
                {"name": "a.v1.0.0", "replaces": "a.v1.1.0"},
            ]);
        }),
        of("skipped-by-what-nobody-gets", "upgrade-path", |documents| {
            documents[1]["entries"] = json!([
                {"name": "a.v1.2.0"},
                {"name": "a.v1.1.0", "skips": ["a.v1.0.0"]},
                {"name": "a.v1.0.0", "skips": ["a.v1.1.0"]},
            ]);
        }),
        of("range-with-what-is-higher", "upgrade-path", |documents| {
            documents[1]["entries"][1]["skipRange"] = json!(">=1.0.0 <2.0.0")
        }),
        Broken {
            differs: Some(
                "opm looks no further than the first that is skipped; OLM fails on the circle below it, for the whole namespace",
            ),
            ..of("circle-among-what-is-skipped", "channel-cycle", |documents| {
                documents[1]["entries"] = json!([
                    {"name": "a.v1.2.0", "replaces": "a.v1.1.0", "skips": ["a.v1.1.0", "a.v1.0.0"]},
                    {"name": "a.v1.1.0", "replaces": "a.v1.0.0"},
                    {"name": "a.v1.0.0", "replaces": "a.v1.1.0"},
                ]);
            })
        },
        of("skips-itself", "replaces-itself", |documents| {
            documents[1]["entries"][2]["skips"] = json!(["a.v1.0.0"]);
        })
        .differs(WARNED),
        of("skip-empty", "skip-empty", |documents| {
            documents[1]["entries"][0]["skips"] = json!([""])
        }),
        of("channel-of-two-words", "channel-word", |documents| {
            let entries = documents[1]["entries"].clone();
            documents.push(channel("a", "very fast", entries));
        })
        .differs(WARNED),
        of("skip-dangling", "skip-dangling", |documents| {
            documents[1]["entries"][0]["skips"] = json!(["a.v9"])
        })
        .differs(WARNED),
        of("tail-dangling", "replaces-dangling", |documents| {
            documents[1]["entries"][2]["replaces"] = json!("a.v0.9.0")
        })
        .differs(WARNED),
        of("skip-range-word", "skip-range", |documents| {
            documents[1]["entries"][0]["skipRange"] = json!("new")
        })
        .differs(LATER),
        of("skip-range-caret", "skip-range", |documents| {
            documents[1]["entries"][0]["skipRange"] = json!("^1.0.0")
        })
        .differs(LATER),
        of("skip-range-or", "skip-range", |documents| {
            documents[1]["entries"][0]["skipRange"] = json!(">=1.0.0 ||")
        })
        .differs(LATER),
        of("skip-range-short", "skip-range", |documents| {
            documents[1]["entries"][0]["skipRange"] = json!(">=1.0 <1.2.0")
        })
        .differs(LATER),
        // Bundles
        of("bundle-nameless", "bundle-name", without("name", 2)),
        of("bundle-twice", "bundle-duplicate", |documents| {
            documents.push(documents[2].clone())
        }),
        of(
            "bundle-in-no-channel",
            "bundle-without-entry",
            with(bundle("a", "1.3.0", &[])),
        ),
        of("no-image", "bundle-image", set(2, "/image", json!(""))),
        of("image-missing", "bundle-image", without("image", 2)),
        of(
            "image-upper",
            "image-reference",
            set(2, "/image", json!("registry.example.org/A/b:v1")),
        ),
        of(
            "image-space",
            "image-reference",
            set(2, "/image", json!("registry.example.org/a b")),
        ),
        of(
            "image-digest",
            "image-reference",
            set(2, "/image", json!("registry.example.org/a@sha256:abc")),
        ),
        of(
            "image-tag",
            "image-reference",
            set(2, "/image", json!("registry.example.org/a:")),
        ),
        of(
            "related-image",
            "image-reference",
            set(2, "/relatedImages/0/image", json!("registry.example.org/a@")),
        ),
        of("image-by-tag", "image-by-tag", image).differs(WARNED),
        of(
            "no-package-property",
            "package-property",
            set(2, "/properties", json!([])),
        ),
        of(
            "two-package-properties",
            "package-property",
            has("olm.package", json!({"packageName": "a", "version": "1.0.0"})),
        ),
        of(
            "of-another-package",
            "package-property",
            set(2, "/properties/1/value/packageName", json!("b")),
        ),
        of(
            "version-v",
            "version",
            set(2, "/properties/1/value/version", json!("v1.0.0")),
        ),
        of(
            "version-short",
            "version",
            set(2, "/properties/1/value/version", json!("1.0")),
        ),
        of(
            "version-zero",
            "version",
            set(2, "/properties/1/value/version", json!("01.0.0")),
        ),
        of(
            "version-empty",
            "version",
            set(2, "/properties/1/value/version", json!("")),
        ),
        of("release-shape", "release", released("1.0.0", "a_b")),
        of("release-beside-build", "release", released("1.0.0+b", "1")),
        of(
            "release-long",
            "release",
            released("1.0.0", "aaaaaaaaaaaaaaaaaaaaa"),
        )
        .differs(LATER),
        of(
            "property-package-shape",
            "property-value",
            set(2, "/properties/1/value", json!("1.0.0")),
        ),
        of(
            "property-gvk-shape",
            "property-value",
            set(2, "/properties/0/value", json!(["Widget"])),
        ),
        of(
            "property-gvk-number",
            "property-value",
            set(2, "/properties/0/value/kind", json!(1)),
        ),
        of(
            "property-required-shape",
            "property-value",
            has("olm.package.required", json!("b")),
        ),
        of(
            "property-gvk-required-shape",
            "property-value",
            has("olm.gvk.required", json!(1)),
        ),
        of(
            "property-metadata-shape",
            "property-value",
            has("olm.csv.metadata", json!({"annotations": {"a": 1}})),
        ),
        of(
            "property-metadata-modes",
            "property-value",
            has(
                "olm.csv.metadata",
                json!({"installModes": [{"type": "AllNamespaces", "supported": "yes"}]}),
            ),
        ),
        of(
            "property-metadata-owned",
            "property-value",
            has("olm.csv.metadata", json!({"crdDescriptions": {"owned": {}}})),
        ),
        of(
            "property-object-base64",
            "property-value",
            has("olm.bundle.object", json!({"data": "?"})),
        ),
        of(
            "property-object-shape",
            "property-value",
            has("olm.bundle.object", json!({"data": 1})),
        ),
        of(
            "property-channel-shape",
            "property-value",
            has("olm.channel", json!("stable")),
        ),
        of("property-without-value", "property-value", |documents| {
            documents[2]["properties"]
                .as_array_mut()
                .unwrap()
                .push(json!({"type": "olm.gvk"}));
        }),
        of("metadata-twice", "csv-metadata-duplicate", |documents| {
            has("olm.csv.metadata", json!({}))(documents);
            has("olm.csv.metadata", json!({}))(documents);
        })
        .differs("opm validate accepts it, and opm serve does not start with it"),
        of(
            "required-range",
            "required-range",
            has(
                "olm.package.required",
                json!({"packageName": "b", "versionRange": "newest"}),
            ),
        )
        .differs(WARNED),
        of(
            "required-nameless",
            "required-range",
            has("olm.package.required", json!({"versionRange": ">=1.0.0"})),
        )
        .differs(WARNED),
        of("constraint-empty", "constraint", has("olm.constraint", json!({}))).differs(WARNED),
        of(
            "constraint-unknown",
            "constraint",
            has("olm.constraint", json!({"failureMessage": "x", "rule": "true"})),
        )
        .differs(WARNED),
        of(
            "constraint-cel",
            "constraint",
            has(
                "olm.constraint",
                json!({"failureMessage": "x", "cel": {"rule": "properties.exists(p, p.type =="}}),
            ),
        )
        .differs(WARNED),
        of(
            "constraint-two",
            "constraint",
            has(
                "olm.constraint",
                json!({"cel": {"rule": "true"}, "gvk": {"group": "a", "version": "v1", "kind": "B"}}),
            ),
        )
        .differs(WARNED),
        of(
            "message-size",
            "message-size",
            has("custom.big", json!("x".repeat(5 << 20))),
        )
        .differs(ACCEPTED),
        of("plan-size", "plan-size", |documents| {
            documents[2]["image"] = json!("");
            let manifest =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "x".repeat(1 << 20)}});
            let data = STANDARD.encode(manifest.to_string());
            has("olm.bundle.object", json!({"data": data}))(documents);
        })
        .differs(WARNED),
        of(
            "package-message-size",
            "package-message-size",
            has("olm.csv.metadata", json!({"description": "x".repeat(3 << 20)})),
        )
        .differs(WARNED),
        // Deprecations
        of("deprecations-twice", "deprecation-duplicate", |documents| {
            for _ in 0..2 {
                deprecated(json!([{"reference": {"schema": "olm.package"}, "message": "x"}]))(documents);
            }
        }),
        of(
            "deprecated-twice",
            "deprecation-duplicate",
            deprecated(json!([
                {"reference": {"schema": "olm.package"}, "message": "x"}, {"reference": {"schema": "olm.package"}, "message": "y"},
            ])),
        ),
        of(
            "deprecated-package-named",
            "deprecation-reference",
            deprecated(json!([{"reference": {"schema": "olm.package", "name": "a"}, "message": "x"}])),
        ),
        of(
            "deprecated-channel-unknown",
            "deprecation-reference",
            deprecated(json!([{"reference": {"schema": "olm.channel", "name": "beta"}, "message": "x"}])),
        ),
        of(
            "deprecated-bundle-unknown",
            "deprecation-reference",
            deprecated(json!([{"reference": {"schema": "olm.bundle", "name": "a.v9"}, "message": "x"}])),
        ),
        of(
            "deprecated-schemaless",
            "deprecation-reference",
            deprecated(json!([{"reference": {"name": "stable"}, "message": "x"}])),
        ),
        of(
            "deprecated-other-schema",
            "deprecation-reference",
            deprecated(json!([{"reference": {"schema": "olm.crd", "name": "x"}, "message": "x"}])),
        ),
        of(
            "deprecated-without-message",
            "deprecation-message",
            deprecated(json!([{"reference": {"schema": "olm.package"}, "message": ""}])),
        ),
    ];
    all.extend(written_catalogs::all());
    all
}
