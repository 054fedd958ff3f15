//! For tests: what an API server says to an object that is written, by the schema and the rules of its definition.

use jsonschema::Validator;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_cel::{CompiledSchema, compile_schema};
use serde_json::{Value, json};

/// A definition of one version, as an API server goes by it.
pub struct Admission {
    schema: Value,
    structural: Validator,
    rules: CompiledSchema,
}

thread_local! {
    /// Made once: it holds all the functions that a rule may use.
    static CEL: kube_cel::Validator = kube_cel::Validator::new();
}

/// Why an object is refused.
#[derive(Debug, PartialEq)]
pub enum Refusal {
    /// By the schema, in words of the API server's own.
    Schema(String),
    /// By rules: how each is told with its place, and in its own words alone.
    Rules(Vec<(String, String)>),
}

impl Admission {
    /// # Panics
    /// With the rules that are no CEL.
    pub fn of(crd: &CustomResourceDefinition) -> Self {
        let crd = serde_json::to_value(crd).unwrap();
        let schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        let rules = compile_schema(&schema);
        assert!(!rules.has_errors(), "{:?}", rules.compilation_errors());
        let mut plain = schema.clone();
        as_json_schema(&mut plain);
        Self {
            structural: jsonschema::validator_for(&plain).unwrap(),
            schema,
            rules,
        }
    }

    /// Refuses a new object, or what becomes of the `old` one.
    pub fn admit(&self, object: &Value, old: Option<&Value>) -> Result<(), Refusal> {
        let with_defaults = |object: &Value| kube_cel::apply_defaults(&self.schema, object);
        let (object, old) = (with_defaults(object), old.map(with_defaults));
        // The API server does not ask the rules about what the schema refuses.
        if let Some(error) = self.structural.iter_errors(&object).next() {
            return Err(Refusal::Schema(format!("{}: {error}", error.instance_path())));
        }
        CEL.with(|cel| cel.validate_compiled(&self.rules, &object, old.as_ref()))
            .map_err(|errors| {
                let broken = errors
                    .iter()
                    .map(|error| (error.to_string(), error.message.clone()));
                Refusal::Rules(broken.collect())
            })
    }

    /// Why the object is refused, with the place; nothing if it is not.
    pub fn refusals(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        match self.admit(object, old) {
            Ok(()) => Vec::new(),
            Err(Refusal::Schema(refusal)) => vec![refusal],
            Err(Refusal::Rules(broken)) => broken.into_iter().map(|(told, _)| told).collect(),
        }
    }
}

/// What may be null, or a number or a text, says so in plain JSON Schema by its type.
fn as_json_schema(schema: &mut Value) {
    match schema {
        Value::Array(list) => list.iter_mut().for_each(as_json_schema),
        Value::Object(map) => {
            map.values_mut().for_each(as_json_schema);
            if map.get("x-kubernetes-int-or-string") == Some(&json!(true)) {
                map.insert("type".into(), json!(["integer", "string"]));
            }
            if map.get("nullable") == Some(&json!(true)) {
                let type_ = map.remove("type").unwrap_or_default();
                map.insert("type".into(), json!([type_, "null"]));
            }
        }
        _ => {}
    }
}
