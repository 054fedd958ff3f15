//! JSON as upstream writes it, so that what is sent as text is the same text: keys sorted, nothing between them, and the characters escaped that it escapes.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter};

/// A value with sorted keys, as properties are kept.
pub(super) fn sorted(value: &Value) -> Result<String, serde_json::Error> {
    text(&Sorted(value), Escapes::LINES)
}

/// The same as upstream's encoder for web pages writes it, as objects and ClusterServiceVersions are kept.
pub(super) fn sorted_for_pages(value: &Value) -> Result<String, serde_json::Error> {
    text(&Sorted(value), Escapes::PAGES)
}

/// Anything, in its own order.
pub(super) fn for_pages(value: &impl Serialize) -> Result<String, serde_json::Error> {
    text(value, Escapes::PAGES)
}

fn text(value: &impl Serialize, escapes: Escapes) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, escapes))?;
    // What is written as JSON from text is text
    String::from_utf8(bytes).map_err(serde::ser::Error::custom)
}

/// A value that is written with sorted keys.
pub(super) struct Sorted<'a>(pub(super) &'a Value);

impl Serialize for Sorted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(map) => {
                let sorted: BTreeMap<&str, Sorted<'_>> = map
                    .iter()
                    .map(|(key, value)| (key.as_str(), Sorted(value)))
                    .collect();
                sorted.serialize(serializer)
            }
            Value::Array(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(&Sorted(item))?;
                }
                list.end()
            }
            // Upstream reads every number as a float
            Value::Number(number) => match number.as_f64() {
                Some(float) if float.fract() == 0.0 && float.abs() < 1e15 => {
                    serializer.serialize_i64(float as i64)
                }
                _ => number.serialize(serializer),
            },
            other => other.serialize(serializer),
        }
    }
}

/// What is escaped besides what JSON demands.
struct Escapes {
    pages: bool,
}

impl Escapes {
    const LINES: Self = Self { pages: false };
    const PAGES: Self = Self { pages: true };

    fn escape(&self, character: char) -> Option<&'static str> {
        match character {
            '\u{2028}' => Some("\\u2028"),
            '\u{2029}' => Some("\\u2029"),
            '<' if self.pages => Some("\\u003c"),
            '>' if self.pages => Some("\\u003e"),
            '&' if self.pages => Some("\\u0026"),
            _ => None,
        }
    }
}

impl Formatter for Escapes {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut formatter = CompactFormatter;
        let mut begin = 0;
        for (at, character) in fragment.char_indices() {
            if let Some(escape) = self.escape(character) {
                formatter.write_string_fragment(writer, &fragment[begin..at])?;
                writer.write_all(escape.as_bytes())?;
                begin = at + character.len_utf8();
            }
        }
        formatter.write_string_fragment(writer, &fragment[begin..])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_sorted_and_what_upstream_escapes_is() {
        let value = json!({"b": [1.0, "<a&b>\u{2028}"], "a": {"d": null, "c": "é"}});
        assert_eq!(
            sorted(&value).unwrap(),
            r#"{"a":{"c":"é","d":null},"b":[1,"<a&b>\u2028"]}"#
        );
        assert_eq!(
            sorted_for_pages(&value).unwrap(),
            r#"{"a":{"c":"é","d":null},"b":[1,"\u003ca\u0026b\u003e\u2028"]}"#
        );
    }
}
