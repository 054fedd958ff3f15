//! What the tests of all kinds share.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

/// Every limit of the schema and every default stands in the description of its field; `kubectl explain` shows nothing else of them.
///
/// # Panics
/// With all fields that are silent.
pub fn explains_itself(crd: &CustomResourceDefinition) {
    let crd = serde_json::to_value(crd).unwrap();
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let mut silent = Vec::new();
    look("spec", spec, &mut silent);
    assert!(silent.is_empty(), "{silent:#?}");
}

fn look(path: &str, field: &Value, silent: &mut Vec<String>) {
    let said = field["description"].as_str().unwrap_or_default();
    let numbers = ["maximum", "maxLength", "maxItems", "default"]
        .into_iter()
        .filter_map(|limit| field[limit].as_f64());
    let numbers = numbers
        .chain(field["minimum"].as_f64())
        .map(|number| number.to_string());
    for number in numbers.filter(|number| !said.split([' ', ',', '.', ':']).any(|word| word == number)) {
        silent.push(format!("{path} does not say {number}: {said:?}"));
    }
    if !said.ends_with('.') || said.contains('\n') {
        silent.push(format!("{path} is no line of sentences: {said:?}"));
    }
    for (name, field) in field["properties"].as_object().into_iter().flatten() {
        look(&format!("{path}.{name}"), field, silent);
    }
    if field["items"].is_object() {
        look(&format!("{path}[]"), &field["items"], silent);
    }
}
