//! Label and field selectors, as far as the product and its tests use them.

use serde_json::Value;

/// What of a list or watch is wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq)]
enum Term {
    Label(String, String),
    Field(&'static str, String),
}

impl Selector {
    pub fn parse(labels: Option<&str>, fields: Option<&str>) -> Self {
        let parts = |text: Option<&str>| -> Vec<String> {
            let parts = text.into_iter().flat_map(|text| text.split(','));
            parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
        };
        let labels = parts(labels).into_iter().map(|part| {
            let (name, value) = equality(&part);
            Term::Label(name, value)
        });
        let fields = parts(fields).into_iter().map(|part| match equality(&part) {
            (name, value) if name == "metadata.name" => Term::Field("name", value),
            (name, value) if name == "metadata.namespace" => Term::Field("namespace", value),
            (name, _) => panic!("the field selector {name} is not simulated"),
        });
        Self {
            terms: labels.chain(fields).collect(),
        }
    }

    pub fn matches(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        self.terms.iter().all(|term| match term {
            Term::Label(name, value) => metadata["labels"][name] == value.as_str(),
            Term::Field(name, value) => metadata[name] == value.as_str(),
        })
    }
}

fn equality(part: &str) -> (String, String) {
    let (name, value) = part
        .split_once("==")
        .or_else(|| part.split_once('='))
        .unwrap_or_else(|| panic!("the selector {part:?} is not simulated: equality alone is"));
    assert!(
        !name.contains(['!', ' ', '(']),
        "the selector {part:?} is not simulated"
    );
    (name.to_owned(), value.to_owned())
}
