//! Settings that a spec hands on to a program's configuration file: which names and values are safe there, and which names the
//! operator keeps to itself.

use kube::core::{Message, Rule};
use schemars::{Schema, SchemaGenerator, json_schema};

/// Settings of a file.
pub const MAX_SETTINGS: usize = 128;
/// The longest name of a setting, in bytes.
pub const MAX_SETTING_NAME: usize = 128;
/// The longest value of a setting, in bytes.
pub const MAX_SETTING: usize = 1024;

/// What [`is_value`] accepts, in words.
pub(super) const VALUE: &str = "at most 1024 printable ASCII characters without quotes and backslashes";
/// The same as a pattern; its ranges leave out 0x22, 0x27 and 0x5c.
pub(super) const VALUE_PATTERN: &str = r"^[ -!#-&(-\[\]-~]*$";

/// Has nothing that ends a line, a quoted text or an escape in any of the files that settings go into.
pub(super) fn is_value(text: &str) -> bool {
    text.len() <= MAX_SETTING
        && text
            .bytes()
            .all(|b| (b' '..=b'~').contains(&b) && !b"\"'\\".contains(&b))
}

/// Begins with a letter; then letters, digits and `others`.
pub(super) fn is_name(text: &str, others: &[u8]) -> bool {
    text.len() <= MAX_SETTING_NAME
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || others.contains(&b))
}

/// A map of names to values, in a schema. A schema cannot say what the names look like.
pub(super) fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": MAX_SETTINGS,
        "additionalProperties": {"type": "string", "maxLength": MAX_SETTING, "pattern": VALUE_PATTERN},
    })
}

/// Names of settings, said once for [`Names::has`] and for the schema.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    pub(super) exact: &'static [&'static str],
    pub(super) prefixes: &'static [&'static str],
    pub(super) suffixes: &'static [&'static str],
    /// Why they are refused, and what to do instead; ends the sentence "NAME is refused: ".
    pub(super) because: &'static str,
}

impl Names {
    /// Whether it is among them. Programs that take their settings in any case have to be asked in lower case.
    pub(super) fn has(&self, name: &str) -> bool {
        self.exact.contains(&name)
            || self.prefixes.iter().any(|prefix| name.starts_with(prefix))
            || self.suffixes.iter().any(|suffix| name.ends_with(suffix))
    }

    /// For the schema of a map or a list of strings: none of these names is in it.
    ///
    /// The API server estimates what a rule may cost without bounds for the names in a map, so nothing is asked of them that reads them whole.
    pub(super) fn refused(&self) -> Rule {
        let mut tests = Vec::new();
        if !self.exact.is_empty() {
            tests.push(format!("name in ['{}']", self.exact.join("', '")));
        }
        tests.extend(
            self.prefixes
                .iter()
                .map(|prefix| format!("name.startsWith('{prefix}')")),
        );
        tests.extend(
            self.suffixes
                .iter()
                .map(|suffix| format!("name.endsWith('{suffix}')")),
        );
        let listed = tests.join(" || ");
        Rule::new(format!("!self.exists(name, {listed})")).message(Message::Expression(format!(
            "'%s is refused: {}'.format([self.filter(name, {listed})])",
            self.because
        )))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// What the API server accepts by the pattern and what the operator accepts is the same.
        #[test]
        fn the_pattern_says_the_same(text in "[ -~\\PC\n\t\"'\\\\]{0,12}") {
            let pattern = serde_json::json!({"type": "string", "pattern": VALUE_PATTERN});
            prop_assert_eq!(jsonschema::is_valid(&pattern, &text.clone().into()), is_value(&text));
        }
    }
}
