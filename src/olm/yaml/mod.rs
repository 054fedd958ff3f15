//! YAML in and out: the one module that knows what reads and what writes it.
//!
//! What is written is canonical, so that the same value gives the same bytes in every build: keys are sorted (whatever map type
//! a library used underneath), lists keep their order, text of several lines is a literal block.

mod lines;
mod read;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::de::DeserializeOwned;
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use serde_json::Value;

pub(in crate::olm) use lines::Lines;

use super::Error;

/// Writes one document, without a leading `---`.
///
/// # Errors
/// [`Error::Unwritable`] when the value has no YAML form, such as a map whose keys are no strings.
pub fn document(value: &impl Serialize) -> Result<String, Error> {
    let value = serde_json::to_value(value).map_err(|error| Error::Unwritable(error.to_string()))?;
    let text =
        serde_yaml::to_string(&Canonical(&value)).map_err(|error| Error::Unwritable(error.to_string()))?;
    Ok(quote_marked(&text))
}

/// Writes several documents, each with a leading `---`, as `opm` does.
///
/// # Errors
/// As [`document`].
pub fn documents<T: Serialize>(values: impl IntoIterator<Item = T>) -> Result<String, Error> {
    let mut text = String::new();
    for value in values {
        let _ = write!(text, "---\n{}", document(&value)?);
    }
    Ok(text)
}

/// Reads every document of a text; empty ones are left out. `source` names the text in an error.
///
/// # Errors
/// [`Error::Unreadable`] with the place in the text.
pub fn parse<T: DeserializeOwned>(source: &str, text: &str) -> Result<Vec<T>, Error> {
    let unreadable = |line: usize, why: &dyn std::fmt::Display| Error::Unreadable {
        source_name: source.to_owned(),
        message: format!("{why} (line {line})"),
    };
    let documents = read::all(text).map_err(|(line, why)| unreadable(line, &why))?;
    let documents = documents.into_iter().filter(|(_, value)| !value.is_null());
    documents
        .map(|(line, value)| serde_json::from_value(value).map_err(|error| unreadable(line, &error)))
        .collect()
}

/// Reads a text of one document, or of none.
///
/// # Errors
/// The line in the text, from 1, and what is wrong there.
pub fn value(text: &str) -> Result<Value, (usize, String)> {
    let mut documents = read::all(text)?.into_iter();
    let value = documents.next().map_or(Value::Null, |(_, value)| value);
    match documents.next() {
        None => Ok(value),
        Some((line, _)) => Err((line, "another document begins".to_owned())),
    }
}

/// Where the fields of a document are, as far as it can be read.
pub(in crate::olm) fn lines(text: &str) -> Lines {
    read::lines(text)
}

/// A value that serialises with sorted keys and with its ambiguous words marked.
struct Canonical<'a>(&'a Value);

impl Serialize for Canonical<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(map) => {
                let sorted: BTreeMap<&str, Canonical> = map
                    .iter()
                    .map(|(key, value)| (key.as_str(), Canonical(value)))
                    .collect();
                sorted.serialize(serializer)
            }
            Value::Array(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(&Canonical(item))?;
                }
                list.end()
            }
            Value::String(text) if is_ambiguous(text) => {
                serializer.serialize_str(&format!("{OPEN}{text}{CLOSE}"))
            }
            other => other.serialize(serializer),
        }
    }
}

/// `kubectl` reads YAML 1.1, where these words are booleans and `1_000` is a number; `serde_yaml` writes YAML 1.2, where they
/// are plain text, and offers no way to ask for quotes. So they are marked with two characters that no manifest holds (private
/// use of Unicode), and the marks become quotes in the text.
fn is_ambiguous(text: &str) -> bool {
    let word = matches!(
        text.to_ascii_lowercase().as_str(),
        "y" | "n" | "yes" | "no" | "on" | "off"
    );
    let number = text.contains('_')
        && text
            .chars()
            .all(|c| c.is_ascii_hexdigit() || matches!(c, '_' | 'x' | 'o' | '.' | '+' | '-'));
    word || number
}

const OPEN: char = '\u{e000}';
const CLOSE: char = '\u{e001}';

fn quote_marked(text: &str) -> String {
    text.replace([OPEN, CLOSE], "'")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_sorted_and_lists_keep_their_order() {
        let text = document(&json!({"b": 1, "a": {"d": [2, 1], "c": "x\ny\n"}})).unwrap();
        assert_eq!(text, "a:\n  c: |\n    x\n    y\n  d:\n  - 2\n  - 1\nb: 1\n");
    }

    #[test]
    fn text_that_yaml_1_1_reads_as_something_else_is_quoted() {
        for text in [
            "yes", "no", "On", "y", "1_000", "0x1f", "010", "1e3", "true", "null", "~", "1", "",
        ] {
            let written = document(&json!([text])).unwrap();
            assert!(written.starts_with("- '"), "{text} is written as {written}");
            assert_eq!(
                parse::<Vec<String>>("test", &written).unwrap(),
                [[text]],
                "{text}"
            );
        }
        assert_eq!(document(&json!("pod_names")).unwrap(), "pod_names\n");
    }

    #[test]
    fn several_documents_come_back_as_they_went() {
        let values = [json!({"a": 1}), json!({"b": "- x: |"})];
        assert_eq!(
            parse::<Value>("test", &documents(&values).unwrap()).unwrap(),
            values
        );
    }

    #[test]
    fn an_unreadable_text_is_named_with_the_place() {
        let error = parse::<Value>("config/x.yaml", "a: [1").unwrap_err().to_string();
        assert!(
            error.starts_with("config/x.yaml: ") && error.contains("line 2"),
            "{error}"
        );
    }
}
