//! Where a spec names a Secret or a ConfigMap beside it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::problem::Found;
use super::rules::{MAX_HOST, is_dns_name};

/// What a name of an object looks like, in a schema.
pub(super) const NAME_PATTERN: &str = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$";

/// Each names an object of the same namespace and a key of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyReference {
    /// Name of the object, at most 253 characters.
    #[schemars(length(min = 1, max = MAX_HOST), regex(pattern = NAME_PATTERN))]
    pub name: String,

    /// The key in it, at most 253 characters.
    #[schemars(length(min = 1, max = MAX_HOST), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    pub key: String,
}

/// Has to be able to be a name of `what`, such as `a Secret in the same namespace`.
pub(super) fn check_object_name(found: &mut Found, field: &str, name: &str, what: &str) {
    found.expect(is_dns_name(name), field, name, &format!("the name of {what}"));
}

/// Has to be able to be a key of a `kind`.
pub(super) fn check_key(found: &mut Found, field: &str, reference: &KeyReference, kind: &str) {
    let what = format!("a {kind} in the same namespace");
    check_object_name(found, &format!("{field}.name"), &reference.name, &what);
    let key = &reference.key;
    // What the API server takes for a key, which becomes the name of a file.
    let is_key = key.len() <= MAX_HOST
        && !key.is_empty()
        && key != "."
        && !key.starts_with("..")
        && key
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
    let expected = format!("a key of a {kind}: at most {MAX_HOST} of letters, digits and -._");
    found.expect(is_key, &format!("{field}.key"), key, &expected);
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("redis", "password", true)]
    #[case("a.b", "ca.crt", true)]
    #[case("Redis", "password", false)]
    #[case("", "password", false)]
    #[case("a/b", "password", false)]
    #[case("a", "", false)]
    #[case("a", ".", false)]
    #[case("a", "..data", false)]
    #[case("a", "b/c", false)]
    #[case("a", "b\n", false)]
    fn keys_are_those_of_the_api(#[case] name: &str, #[case] key: &str, #[case] accepted: bool) {
        let mut found = Found::default();
        let reference = KeyReference {
            name: name.into(),
            key: key.into(),
        };
        check_key(&mut found, "spec.x", &reference, "Secret");
        assert_eq!(found.done().is_ok(), accepted);
    }
}
