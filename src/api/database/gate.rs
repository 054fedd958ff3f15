//! What an API server says to an object by its resource definition: the schema, and its rules.

use jsonschema::Validator;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_cel::{CompiledSchema, compile_schema};
use serde_json::{Map, Value, json};

/// A resource definition at work.
pub struct Gate {
    schema: Value,
    structural: Validator,
    rules: CompiledSchema,
}

/// Why an object is refused.
#[derive(Debug, PartialEq)]
pub enum Refusal {
    /// By the schema, in words of the API server's own.
    Schema(String),
    /// By rules, in these words.
    Rules(Vec<String>),
}

impl Gate {
    /// # Panics
    /// When a rule cannot be compiled.
    pub fn of(crd: &CustomResourceDefinition) -> Self {
        let crd = serde_json::to_value(crd).unwrap();
        let schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        let rules = compile_schema(&schema);
        assert!(!rules.has_errors(), "{:?}", rules.compilation_errors());
        Self {
            structural: jsonschema::options().build(&plain(&schema)).unwrap(),
            rules,
            schema,
        }
    }

    /// Refuses a new object, or what becomes of the `old` one.
    pub fn admit(&self, object: &Value, old: Option<&Value>) -> Result<(), Refusal> {
        let object = kube_cel::apply_defaults(&self.schema, object);
        if let Some(error) = self.structural.iter_errors(&object).next() {
            return Err(Refusal::Schema(format!("{}: {error}", error.instance_path())));
        }
        kube_cel::Validator::new()
            .validate_compiled(&self.rules, &object, old)
            .map_err(|errors| Refusal::Rules(errors.iter().map(|error| error.message.clone()).collect()))
    }
}

/// The same in plain JSON Schema.
fn plain(schema: &Value) -> Value {
    let mut plain = Map::new();
    for (name, value) in schema.as_object().into_iter().flatten() {
        let value = match name.as_str() {
            "properties" => {
                let fields = value.as_object().into_iter().flatten();
                fields
                    .map(|(name, field)| (name.clone(), self::plain(field)))
                    .collect()
            }
            "items" | "additionalProperties" => self::plain(value),
            "type" | "required" | "pattern" | "enum" => value.clone(),
            limit if limit.starts_with("min") || limit.starts_with("max") => value.clone(),
            _ => continue,
        };
        plain.insert(name.clone(), value);
    }
    if schema["x-kubernetes-int-or-string"] == true {
        plain.insert("type".to_owned(), json!(["integer", "string"]));
    }
    if schema["nullable"] == true {
        let with_null = json!([plain["type"], "null"]);
        plain.insert("type".to_owned(), with_null);
    }
    Value::Object(plain)
}
