//! JSON as upstream writes it, so that what is sent as text is the same text: keys sorted, nothing between them, and the characters escaped that it escapes.

mod tree;

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter};
use serde_json::value::RawValue;

pub(super) use tree::{Node, Tree, extremes};

/// What is in a document, as properties are kept: with sorted keys, and each number as the float that upstream has read.
pub(super) fn canonical(value: &RawValue) -> Result<String, serde_json::Error> {
    Tree::of(value).write(Escapes::LINES)
}

/// The same as upstream's encoder for web pages writes it.
pub(super) fn canonical_for_pages(value: &RawValue) -> Result<String, serde_json::Error> {
    Tree::of(value).write(Escapes::PAGES)
}

/// A value with sorted keys, whose whole numbers stay what they are.
pub(super) fn sorted(value: &Value) -> Result<String, serde_json::Error> {
    text(&Sorted(value), Escapes::LINES)
}

/// The same as upstream's encoder for web pages writes it, as objects are kept that were no JSON.
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
struct Sorted<'a>(&'a Value);

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
            Value::Array(items) => serializer.collect_seq(items.iter().map(Sorted)),
            other => other.serialize(serializer),
        }
    }
}

/// Whether each number of a text of JSON is one for upstream.
///
/// # Errors
/// Which is none.
pub(super) fn check_numbers(json: &str) -> Result<(), String> {
    let Some(number) = extremes(json).too_large else {
        return Ok(());
    };
    let most = f64::MAX;
    Err(format!(
        "{number:.40} is too large for a number; up to {most:e} is accepted"
    ))
}

/// The shortest digits that mean a number, with an exponent where Go writes one.
fn float(number: f64) -> String {
    let size = number.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return number.to_string();
    }
    let scientific = format!("{number:e}");
    match scientific.split_once('e') {
        Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
        _ => scientific,
    }
}

/// What is escaped besides what JSON demands.
#[derive(Clone, Copy)]
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
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(float(value).as_bytes())
    }

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
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(0.0, "0")]
    #[case(-0.0, "-0")]
    #[case(1.0, "1")]
    #[case(-1.5, "-1.5")]
    #[case(1e15, "1000000000000000")]
    #[case(12_345_678_901_234_567_890.0, "12345678901234567000")]
    #[case(1e20, "100000000000000000000")]
    #[case(1e21, "1e+21")]
    #[case(-1.25e100, "-1.25e+100")]
    #[case(0.000_001, "0.000001")]
    #[case(0.000_000_9, "9e-7")]
    #[case(5e-324, "5e-324")]
    #[case(0.1, "0.1")]
    fn numbers_are_written_as_go_does(#[case] number: f64, #[case] expected: &str) {
        assert_eq!(float(number), expected);
        assert_eq!(sorted(&json!(number)).unwrap(), expected);
    }

    #[test]
    fn whole_numbers_of_what_was_no_json_stay_what_they_are() {
        assert_eq!(
            sorted(&json!([u64::MAX, i64::MIN])).unwrap(),
            "[18446744073709551615,-9223372036854775808]"
        );
    }

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
