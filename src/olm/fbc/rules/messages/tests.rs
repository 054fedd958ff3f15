//! What is too long to be sent, and that nothing becomes longer than was worked out.

use super::*;
use crate::olm::fbc;
use rstest::rstest;
use serde_json::{Value, json};

const MB: usize = 1_000_000;
const ERROR: Option<&str> = Some("message-size");
const WARNING: Option<&str> = Some("package-message-size");

fn property(kind: &str, value: Value) -> Value {
    json!({"type": kind, "value": value})
}

fn object(value: &str) -> Value {
    property("olm.bundle.object", json!({"data": STANDARD.encode(value)}))
}

fn csv(length: usize) -> String {
    json!({"kind": "ClusterServiceVersion", "text": "x".repeat(length)}).to_string()
}

/// A package of one channel and one bundle with an image.
fn plain() -> Vec<Value> {
    let version = property("olm.package", json!({"packageName": "a", "version": "1.0.0"}));
    vec![
        json!({"schema": "olm.package", "name": "a", "defaultChannel": "c"}),
        json!({"schema": "olm.channel", "package": "a", "name": "c", "entries": [{"name": "a.v1"}]}),
        json!({"schema": "olm.bundle", "package": "a", "name": "a.v1", "image": "b/c:1", "properties": [version]}),
    ]
}

fn has(all: &[Value]) -> Vec<Value> {
    let mut documents = plain();
    let properties = documents[2]["properties"].as_array_mut().unwrap();
    properties.extend(all.iter().cloned());
    documents
}

fn inline(all: &[Value]) -> Vec<Value> {
    let mut documents = has(all);
    documents[2]["image"] = json!("");
    documents
}

fn set(document: usize, field: &str, value: Value) -> Vec<Value> {
    let mut documents = has(&[property("olm.csv.metadata", json!({}))]);
    documents[document][field] = value;
    documents
}

fn icon(length: usize) -> Value {
    let image = [&b"GIF8"[..], &vec![0; length]].concat();
    json!({"base64data": STANDARD.encode(image), "mediatype": "image/gif"})
}

fn with(document: Value) -> Vec<Value> {
    let mut documents = plain();
    documents.push(document);
    documents
}

fn deprecated(schema: &str, name: &str, length: usize) -> Vec<Value> {
    let reference = json!({"schema": schema, "name": name});
    let entry = json!({"reference": reference, "message": "x".repeat(length)});
    with(json!({"schema": "olm.deprecations", "package": "a", "entries": [entry]}))
}

fn gvk(length: usize) -> Value {
    json!({"group": "x".repeat(length), "version": "v1", "kind": "A"})
}

/// As many as make a list of so many bytes.
fn times(one: Value, length: usize) -> Value {
    let count = length / (one.to_string().len() + 1);
    json!(vec![one; count])
}

#[rstest]
#[case::icon_twice(set(0, "icon", icon(3 * MB)), WARNING)]
#[case::icon_that_fits(set(0, "icon", icon(14 * MB / 10)), None)]
#[case::description_escaped(set(0, "description", json!("<".repeat(MB / 2))), WARNING)]
#[case::description_that_fits(set(0, "description", json!("x".repeat(2 * MB))), None)]
#[case::metadata_escaped(has(&[property("olm.csv.metadata", json!({"description": "&".repeat(MB / 2)}))]), WARNING)]
#[case::metadata_of_the_same_length(has(&[property("olm.csv.metadata", json!({"description": "x".repeat(MB / 2)}))]), None)]
#[case::inline_csv_twice(inline(&[object(&csv(25 * MB / 10))]), ERROR)]
#[case::inline_csv_that_fits(inline(&[object(&csv(2 * MB))]), None)]
#[case::other_object_once(inline(&[object(&csv(9)), object(&json!({"kind": "x".repeat(3 * MB)}).to_string())]), None)]
#[case::yaml_escaped(inline(&[object(&format!("kind: ClusterServiceVersion\ntext: {}\n", "<".repeat(MB / 2)))]), ERROR)]
#[case::kind_twice(has(&[property("olm.gvk", gvk(25 * MB / 10))]), ERROR)]
#[case::kind_that_fits(has(&[property("olm.gvk", gvk(2 * MB))]), None)]
#[case::required_kind_thrice(has(&[property("olm.gvk.required", gvk(15 * MB / 10))]), ERROR)]
#[case::required_package_twice(has(&[property("olm.package.required", json!({"packageName": "x".repeat(25 * MB / 10), "versionRange": "1"}))]), ERROR)]
#[case::skips(set(1, "entries", json!([{"name": "a.v1", "skips": times(json!("x".repeat(50)), 5 * MB)}])), ERROR)]
#[case::deprecated_bundle(deprecated("olm.bundle", "a.v1", 5 * MB), ERROR)]
#[case::deprecated_channel(deprecated("olm.channel", "c", 5 * MB), WARNING)]
#[case::deprecated_package(deprecated("olm.package", "", 5 * MB), WARNING)]
#[case::own_document(with(json!({"schema": "own", "numbers": times(json!(1), MB)})), WARNING)]
#[case::own_document_that_fits(with(json!({"schema": "own", "text": "x".repeat(4 * MB)})), None)]
fn what_does_not_fit_into_a_message_is_told(#[case] documents: Vec<Value>, #[case] expected: Option<&str>) {
    let folder = tempfile::tempdir().unwrap();
    let text: String = documents.iter().map(Value::to_string).collect();
    std::fs::write(folder.path().join("catalog.json"), text).unwrap();
    let found = fbc::validate(folder.path()).unwrap();
    let codes: Vec<&str> = found
        .iter()
        .map(|it| it.code)
        .filter(|code| code.ends_with("message-size"))
        .collect();
    assert_eq!(codes, Vec::from_iter(expected), "{:?}", found.first());
}

#[rstest]
#[case::plain(plain())]
#[case::kinds(has(&[property("olm.csv.metadata", json!({"crdDescriptions": {"owned": times(json!({}), 9000)}}))]))]
#[case::many_kinds(has(&[property("olm.csv.metadata", json!({"crdDescriptions": {"owned": times(json!({}), MB)}}))]))]
#[case::services(has(&[property("olm.csv.metadata", json!({"apiServiceDefinitions": {"required": times(json!({}), MB)}}))]))]
#[case::nothing(has(&[property("olm.csv.metadata", json!({"nativeAPIs": times(json!(null), 90_000)}))]))]
#[case::much_nothing(has(&[property("olm.csv.metadata", json!({"apiServiceDefinitions": {"owned": times(json!(null), MB)}}))]))]
#[case::escapes(has(&[property("olm.csv.metadata", json!({"displayName": "<\u{2028}>\u{7}\"".repeat(10_000)}))]))]
#[case::few_escapes(has(&[property("olm.csv.metadata", json!({"displayName": "<".repeat(20_000)}))]))]
#[case::numbers(has(&[property("olm.csv.metadata", json!({"crdDescriptions": {"owned": [{"specDescriptors": [{"value": times(json!(1e20), 90_000)}]}]}}))]))]
#[case::images(set(2, "relatedImages", times(json!({}), 90_000)))]
#[case::icon(set(0, "icon", icon(MB)))]
#[case::description(set(0, "description", json!("<&>".repeat(9999))))]
#[case::required(has(&[property("olm.gvk.required", json!({"group": "", "version": "", "kind": "", "a": times(json!(1e20), MB)}))]))]
#[case::csv(inline(&[object(&csv(MB))]))]
#[case::csv_in_yaml(inline(&[object("kind: ClusterServiceVersion\nb: '<<<<<<<<<<'")]))]
fn nothing_becomes_longer_than_was_worked_out(#[case] documents: Vec<Value>) {
    let texts: Vec<String> = documents.iter().map(Value::to_string).collect();
    let (Blob::Package(package), Blob::Bundle(bundle)) =
        (Blob::of(&texts[0]).unwrap(), Blob::of(&texts[2]).unwrap())
    else {
        panic!("they are others");
    };
    let sizes = sizes::of_bundle(&bundle, &package).unwrap();
    let most = of_bundle(&bundle) + of_package(&package);
    assert!(
        sizes.told + sizes.large <= most,
        "{} and {} are more than {most}",
        sizes.told,
        sizes.large
    );
}
