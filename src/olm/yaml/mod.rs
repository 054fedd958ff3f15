//! YAML in and out: the one module that knows what reads and what writes it.
//!
//! What is written is canonical, so that the same value gives the same bytes in every build: keys are sorted (whatever map type
//! a library used underneath), lists keep their order, text of several lines is a literal block.

mod lines;
mod misplaced;
mod read;
mod tabs;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::RangeInclusive;

use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use serde_json::Value;

pub(in crate::olm) use lines::Lines;

use super::{Error, encoding};

/// Writes one document, without a leading `---`.
///
/// # Errors
/// [`Error::Unwritable`] when the value has no YAML form, such as a map whose keys are no strings.
pub fn document(value: &impl Serialize) -> Result<String, Error> {
    let value = serde_json::to_value(value).map_err(|error| Error::Unwritable(error.to_string()))?;
    let mark = unused(&value)?;
    let marked = Canonical { value: &value, mark };
    let text = serde_yaml::to_string(&marked).map_err(|error| Error::Unwritable(error.to_string()))?;
    Ok(revealed(&text, mark))
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

/// A value that serialises with sorted keys, and with those texts marked for which the library does not find the right quotes.
struct Canonical<'a> {
    value: &'a Value,
    mark: char,
}

impl<'a> Canonical<'a> {
    fn text(&self, text: &'a str) -> Cow<'a, str> {
        if is_breaking(text) {
            Cow::Owned(hidden(&escaped(text), self.mark))
        } else if is_ambiguous(text) {
            Cow::Owned(hidden(&format!("'{text}'"), self.mark))
        } else {
            Cow::Borrowed(text)
        }
    }

    fn within(&self, value: &'a Value) -> Self {
        Self { value, ..*self }
    }
}

impl Serialize for Canonical<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value {
            Value::Object(map) => {
                let sorted: BTreeMap<&String, &Value> = map.iter().collect();
                let pairs = sorted.into_iter();
                serializer.collect_map(pairs.map(|(key, value)| (self.text(key), self.within(value))))
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(|item| self.within(item))),
            Value::String(text) => serializer.serialize_str(&self.text(text)),
            other => other.serialize(serializer),
        }
    }
}

/// `kubectl` reads YAML 1.1, where these words are booleans, `1_000` is a number, and `<<` merges; `serde_yaml` writes YAML 1.2, where they
/// are plain text, and offers no way to ask for quotes. So they are marked with a character that the document does not hold, and what is marked becomes what is
/// in quotes in the text.
fn is_ambiguous(text: &str) -> bool {
    let word = matches!(
        text.to_ascii_lowercase().as_str(),
        "y" | "n" | "yes" | "no" | "on" | "off" | "<<" | "="
    );
    let number = text.contains('_')
        && text
            .chars()
            .all(|c| c.is_ascii_hexdigit() || matches!(c, '_' | 'x' | 'o' | '.' | '+' | '-'));
    word || number || !matches!(read::plain(text), Ok(Value::String(_)))
}

/// What ends a line in one version and not in the other, or may not be there as it is.
fn is_breaking(text: &str) -> bool {
    text.contains(is_escaped)
}

fn is_escaped(character: char) -> bool {
    let has_meaning = matches!(
        character,
        '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
    );
    has_meaning || (character.is_control() && !matches!(character, '\n' | '\t'))
}

/// In double quotes.
fn escaped(text: &str) -> String {
    let mut escaped = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => escaped += "\\\"",
            '\\' => escaped += "\\\\",
            '\n' => escaped += "\\n",
            '\t' => escaped += "\\t",
            other if is_escaped(other) => {
                let _ = write!(escaped, "\\u{:04X}", u32::from(other));
            }
            other => escaped.push(other),
        }
    }
    escaped + "\""
}

/// A text in its quotes as a word that the library writes as it is. It is longer than what becomes of it: a key that is too long for a line of its own is
/// written otherwise.
fn hidden(quoted: &str, mark: char) -> String {
    format!("{mark}{}{mark}", encoding::hex(quoted.as_bytes()))
}

fn revealed(text: &str, mark: char) -> String {
    let parts = text.split(mark).enumerate();
    let parts = parts.map(|(index, part)| match index % 2 {
        0 => Cow::Borrowed(part),
        _ => Cow::Owned(unhidden(part)),
    });
    parts.collect()
}

fn unhidden(hidden: &str) -> String {
    let digits = hidden.as_bytes().chunks(2);
    let digit = |digit: &u8| char::from(*digit).to_digit(16).unwrap_or_default() as u8;
    let bytes: Vec<u8> = digits
        .map(|pair| pair.iter().fold(0, |byte, next| byte << 4 | digit(next)))
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A character that is in none of the texts. Those for private use mean something to their author alone, who may have used any of them.
fn unused(value: &Value) -> Result<char, Error> {
    let mut used = BTreeSet::new();
    collect_private(value, &mut used);
    let mut private = PRIVATE.into_iter().flatten();
    let unused = private.find(|character| !used.contains(character));
    unused.ok_or_else(|| {
        Error::Unwritable("it holds every character that Unicode leaves to private use".to_owned())
    })
}

const PRIVATE: [RangeInclusive<char>; 2] = ['\u{e000}'..='\u{f8ff}', '\u{f0000}'..='\u{ffffd}'];

fn collect_private(value: &Value, used: &mut BTreeSet<char>) {
    let mut look = |text: &str| {
        let is_private = |character: &char| PRIVATE.iter().any(|range| range.contains(character));
        used.extend(text.chars().filter(is_private));
    };
    match value {
        Value::String(text) => look(text),
        Value::Array(items) => items.iter().for_each(|item| collect_private(item, used)),
        Value::Object(map) => {
            map.keys().for_each(|key| look(key));
            map.values().for_each(|value| collect_private(value, used));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;
    use serde_json::json;

    use super::*;

    /// What means something to one version of YAML or to another, and what is made of it.
    const WORDS: [&str; 48] = [
        "y",
        "N",
        "on",
        "Off",
        "yes",
        "no",
        "true",
        "null",
        "~",
        "",
        "<<",
        "=",
        "1_000",
        "0644",
        "0o17",
        "0x1f",
        "0b1",
        "089",
        "1e3",
        ".5",
        "5.",
        "-",
        "+1",
        "-1_0",
        ".inf",
        ".nan",
        "1:20",
        "2001-01-01",
        "---",
        "...",
        "- a",
        "a: b",
        "a #b",
        "#a",
        "&a",
        "*a",
        "!a",
        "|",
        ">",
        "%a",
        "@a",
        "`a",
        "'",
        "\"",
        "\\",
        "{",
        "[]",
        "a,b",
    ];
    const PARTS: [&str; 22] = [
        " ",
        "  ",
        "\n",
        "\n\n",
        "\r",
        "\r\n",
        "\t",
        "\0",
        "\u{7}",
        "\u{7f}",
        "\u{85}",
        "\u{2028}",
        "\u{2029}",
        "\u{feff}",
        "\u{fffe}",
        "\u{e000}",
        "\u{e001}",
        "\u{f8ff}",
        "\u{f0000}",
        "\u{10ffff}",
        "é",
        "a",
    ];

    fn any_text() -> impl Strategy<Value = String> {
        let parts = prop_oneof![2 => select(&WORDS[..]), 3 => select(&PARTS[..])];
        let mixed = proptest::collection::vec(parts, 0..7).prop_map(|parts| parts.concat());
        prop_oneof![
            3 => select(&WORDS[..]).prop_map(str::to_owned),
            4 => mixed,
            1 => "[0-9_.eExXob+-]{1,8}",
            1 => any::<String>(),
            1 => (100_usize..1200).prop_map(|length| "1_".repeat(length)),
        ]
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let number = prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
        ];
        let leaf = prop_oneof![
            1 => Just(Value::Null),
            1 => any::<bool>().prop_map(Value::from),
            2 => number,
            8 => any_text().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let list = proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from);
            let map = proptest::collection::hash_map(any_text(), inner, 0..4);
            prop_oneof![list, map.prop_map(|map| Value::Object(map.into_iter().collect()))]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

        #[test]
        fn what_is_written_is_read_as_it_was(written in any_value()) {
            let text = document(&written).unwrap();
            prop_assert_eq!(value(&text), Ok(written), "{}", text);
        }
    }

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
    fn keys_are_quoted_as_texts_are() {
        let written =
            document(&json!({"data": {"on": "1", "y": "2", "1_000": "3", "<<": "4", "name": "5"}})).unwrap();
        let expected = "data:\n  '1_000': '3'\n  '<<': '4'\n  name: '5'\n  'on': '1'\n  'y': '2'\n";
        assert_eq!(written, expected);
    }

    #[test]
    fn no_character_is_taken_for_a_quote() {
        let written = document(&json!({"a\u{e000}": "\u{e000}x\u{e001}", "b": "yes"})).unwrap();
        assert_eq!(written, "a\u{e000}: \u{e000}x\u{e001}\nb: 'yes'\n");
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
