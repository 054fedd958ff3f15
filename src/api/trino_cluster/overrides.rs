//! What an author adds to Trino's own files.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::limits::{OWNED_CONFIG, OWNED_JVM, OWNED_NODE, SECRETS_OF_A_FILE, no_references};
use crate::api::problem::Found;
use crate::api::settings::{self, MAX_SETTING, MAX_SETTINGS, Names, VALUE, is_value};

/// Arguments of the JVM.
const MAX_ARGUMENTS: usize = 64;
/// What begins an argument that neither names a program nor takes the next argument for itself.
const ARGUMENTS: [&str; 5] = ["-D", "-X", "--add-", "--enable-", "-javaagent:"];
/// What an argument looks like, in a schema; the same as [`ARGUMENTS`], without spaces and what [`settings::is_value`] refuses.
const ARGUMENT_PATTERN: &str = r"^(-D|-X|--add-|--enable-|-javaagent:)[!#-&(-\[\]-~]*$";
/// Levels of a log.
const LEVELS: [&str; 5] = ["OFF", "ERROR", "WARN", "INFO", "DEBUG"];
const PROPERTY: &str =
    "the name of a property: at most 128 of letters, digits, '.', '_' and '-', beginning with a letter";
const NO_PASSWORD: &str = "without a password in it, which a ConfigMap would show";

/// What is added to the files, or stands there instead of what the operator would write.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigOverrides {
    /// Properties of etc/config.properties by name, at most 128, each of at most 1024 characters. The default is none. Trino does not start with one that it does not know.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::api::settings::schema")]
    #[x_kube(validation = OWNED_CONFIG.refused(), validation = SECRETS_OF_A_FILE.refused(), validation = no_references())]
    pub config_properties: BTreeMap<String, String>,

    /// Properties of etc/node.properties by name, at most 128, each of at most 1024 characters. The default is none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::api::settings::schema")]
    #[x_kube(validation = OWNED_NODE.refused(), validation = SECRETS_OF_A_FILE.refused(), validation = no_references())]
    pub node_properties: BTreeMap<String, String>,

    /// Levels of etc/log.properties by the name of the logger, at most 128: OFF, ERROR, WARN, INFO or DEBUG. The default is INFO for all.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "levels")]
    pub log_properties: BTreeMap<String, String>,

    /// Arguments of etc/jvm.config, at most 64, each of at most 1024 characters without spaces. The default is none. The heap is not among them: heapPercent sets it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "arguments")]
    #[x_kube(validation = OWNED_JVM.refused())]
    pub jvm_config: Vec<String>,
}

fn levels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object", "maxProperties": MAX_SETTINGS,
        "additionalProperties": {"type": "string", "enum": LEVELS},
    })
}

fn arguments(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "maxItems": MAX_ARGUMENTS, "x-kubernetes-list-type": "atomic",
        "items": {"type": "string", "maxLength": MAX_SETTING, "pattern": ARGUMENT_PATTERN, "description": "Each is an argument of at most 1024 characters."},
    })
}

impl ConfigOverrides {
    /// These with `more` on top: a property of the same name is the one in `more`, and its arguments come last.
    pub(super) fn with(&self, more: &Self) -> Self {
        let mut all = self.clone();
        all.config_properties.extend(more.config_properties.clone());
        all.node_properties.extend(more.node_properties.clone());
        all.log_properties.extend(more.log_properties.clone());
        all.jvm_config.extend(more.jvm_config.clone());
        all
    }

    pub(super) fn check(&self, found: &mut Found, field: &str) {
        let secrets = &SECRETS_OF_A_FILE;
        let at = format!("{field}.configProperties");
        check_properties(found, &at, &self.config_properties, &[&OWNED_CONFIG, secrets]);
        let at = format!("{field}.nodeProperties");
        check_properties(found, &at, &self.node_properties, &[&OWNED_NODE, secrets]);
        let at = format!("{field}.logProperties");
        check_properties(found, &at, &self.log_properties, &[]);
        for (name, level) in &self.log_properties {
            let is_level = LEVELS.contains(&level.as_str()) || !is_value(level);
            found.expect(
                is_level,
                &format!("{at}.{name}"),
                level,
                "OFF, ERROR, WARN, INFO or DEBUG",
            );
        }
        self.check_arguments(found, &format!("{field}.jvmConfig"));
    }

    fn check_arguments(&self, found: &mut Found, field: &str) {
        let count = format!("a list of {}", self.jvm_config.len());
        let expected = format!("at most {MAX_ARGUMENTS} arguments");
        found.expect(self.jvm_config.len() <= MAX_ARGUMENTS, field, count, &expected);
        for (i, argument) in self.jvm_config.iter().take(MAX_ARGUMENTS).enumerate() {
            let field = format!("{field}[{i}]");
            // What stands behind the name is not told: it may be what ought to be in a Secret.
            let told = argument.split('=').next().unwrap_or_default();
            let is_argument = ARGUMENTS.iter().any(|start| argument.starts_with(start))
                && is_value(argument)
                && !argument.contains(' ');
            let expected = format!(
                "an argument that begins with {}, of {VALUE}, and without spaces",
                ARGUMENTS.join(", ")
            );
            found.expect(is_argument, &field, told, &expected);
            let expected = format!("left out: {}", OWNED_JVM.because);
            found.expect(!OWNED_JVM.has(argument), &field, told, &expected);
            found.expect(!holds_password(argument), &field, told, NO_PASSWORD);
        }
    }
}

/// Has to be what a properties file takes, without references to the environment and without what is `refused`. A value is not told: it
/// may be what ought to be in a Secret.
pub(super) fn check_properties(
    found: &mut Found,
    field: &str,
    properties: &BTreeMap<String, String>,
    refused: &[&Names],
) {
    let count = format!("{} properties", properties.len());
    let expected = format!("at most {MAX_SETTINGS} properties");
    found.expect(properties.len() <= MAX_SETTINGS, field, count, &expected);
    for (name, value) in properties.iter().take(MAX_SETTINGS) {
        check_property_name(found, field, name);
        for names in refused {
            found.expect(
                !names.has(name),
                field,
                name,
                &format!("left out: {}", names.because),
            );
        }
        check_property_value(found, &format!("{field}.{name}"), value);
    }
}

pub(super) fn check_property_name(found: &mut Found, field: &str, name: &str) {
    found.expect(settings::is_name(name, b".-_"), field, name, PROPERTY);
}

pub(super) fn check_property_value(found: &mut Found, field: &str, value: &str) {
    let length = format!("a text of {} bytes", value.len());
    found.expect(is_value(value), field, &length, VALUE);
    let expected = "the value itself, without a reference like ${ENV:NAME}";
    found.expect(!value.contains("${"), field, &length, expected);
    found.expect(!holds_password(value), field, &length, NO_PASSWORD);
}

/// As URLs of databases have it: `?password=x`, or `//user:password@host`.
fn holds_password(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let mut authorities = lower
        .split("//")
        .skip(1)
        .filter_map(|rest| rest.split(['/', '?']).next());
    lower.contains("password=")
        || authorities.any(|authority| {
            authority
                .rsplit_once('@')
                .is_some_and(|(user, _)| user.contains(':'))
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("jdbc:postgresql://db:5432/shop", false)]
    #[case("jdbc:postgresql://db/shop?user=a&Password=b", true)]
    #[case("mongodb://app:secret@db:27017/", true)]
    #[case("mongodb://app@db:27017/", false)]
    #[case("abfs://container@account.dfs.core.windows.net/x", false)]
    #[case("thrift://a:1,thrift://b:2", false)]
    fn urls_with_a_password_are_told_apart(#[case] url: &str, #[case] expected: bool) {
        assert_eq!(holds_password(url), expected);
    }

    #[test]
    fn a_roles_own_overrides_win() {
        let of = |value: &str| ConfigOverrides {
            config_properties: BTreeMap::from([("query.max-memory".to_owned(), value.to_owned())]),
            jvm_config: vec![format!("-Da={value}")],
            ..Default::default()
        };
        let both = of("1GB").with(&of("2GB"));
        assert_eq!(both.config_properties["query.max-memory"], "2GB");
        assert_eq!(both.jvm_config, ["-Da=1GB", "-Da=2GB"]);
    }

    proptest! {
        /// What the API server accepts by the pattern and what the operator accepts is the same.
        #[test]
        fn the_pattern_of_arguments_says_the_same(text in "(-D|-X|-XX:|--add-|-javaagent:|-cp|@|)[ -~\\PC\n\"'\\\\]{0,9}") {
            let pattern = serde_json::json!({"type": "string", "pattern": ARGUMENT_PATTERN});
            let mut found = Found::default();
            let overrides = ConfigOverrides { jvm_config: vec![text.clone()], ..Default::default() };
            overrides.check(&mut found, "x");
            let accepted = found.done().is_ok() || OWNED_JVM.has(&text) || holds_password(&text);
            prop_assert!(!jsonschema::is_valid(&pattern, &text.clone().into()) || accepted, "{:?}", text);
            prop_assert!(jsonschema::is_valid(&pattern, &text.clone().into()) || !accepted || OWNED_JVM.has(&text), "{:?}", text);
        }
    }
}
