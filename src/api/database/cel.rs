//! The rules of a Database for the API server, made from the tables and the words that [`super::validate`] goes by.
//!
//! The API server estimates what a rule may cost from the limits in the schema, and refuses a definition beyond its budget. The keys of
//! a map and the quantities of a container's resources have no limit there, so it does not match or join them; what that leaves
//! out, [`super::validate`] refuses. Of `format` it thinks that it is cheap.

use kube::core::{Message, Rule};
use serde_json::json;

use super::cron;
use super::limits::{MAX_LAG, MAX_NAME, MIN_STORAGE};
use super::names::{
    EXTENSION, EXTENSION_VERSION, IDENTIFIER, NAME, PREDEFINED_ROLES, RESERVED, RESERVED_PREFIXES,
    UNRESERVED, VERSION, pattern,
};
use super::parameters::{
    BOUNDED, DIGITS_PATTERN, LEFT_OUT, OWNED, OWNED_PREFIXES, VALUE, VALUE_PATTERN, between,
};
use super::size::Size;
use super::validate::expected;

/// Refuses in the words of a [`super::Problem`]. `field` and `expected` may hold `%s`: `values` are what stands for it and for the value
/// refused, in the order of the message.
fn rule(rule: impl Into<String>, field: &str, values: &[&str], expected: &str) -> Rule {
    let expected = expected.replace('\\', "\\\\").replace('\'', "\\'");
    let values = values.join(", ");
    let message = format!(r#"'{field} is "%s"; it must be {expected}'.format([{values}])"#);
    Rule::new(rule).message(Message::Expression(message))
}

/// A text that may have several lines: instead of a message of several, the API server gives the rule itself.
const LINES: &str = r"self.replace('\n', '\\n')";

/// A literal of CEL, which JSON is.
fn list(texts: &[&str]) -> String {
    json!(texts).to_string()
}

/// `name` is neither reserved nor begins as a reserved one.
fn unreserved(name: &str) -> String {
    let prefixes: Vec<_> = RESERVED_PREFIXES
        .iter()
        .map(|prefix| format!("!{name}.startsWith('{prefix}')"))
        .collect();
    format!("!({name} in {}) && {}", list(&RESERVED), prefixes.join(" && "))
}

/// The name, from which those of other objects are derived.
pub(super) fn name() -> Rule {
    let accepted = format!(
        "self.metadata.name.size() <= {MAX_NAME} && self.metadata.name.matches('{}')",
        pattern::LABEL
    );
    rule(accepted, "metadata.name", &["self.metadata.name"], NAME)
}

/// The name is that of a database and a role too.
pub(super) fn name_is_free() -> Rule {
    rule(
        unreserved("self.metadata.name"),
        "metadata.name",
        &["self.metadata.name"],
        UNRESERVED,
    )
}

/// A version that works.
pub(super) fn version() -> Rule {
    let accepted = format!("self.matches('{}')", pattern::VERSION);
    rule(accepted, "spec.version", &[LINES], VERSION)
}

/// The major version stays.
pub(super) fn same_major() -> Rule {
    // What is no version at all is refused as that.
    let accepted = format!(
        "!self.matches('{}') || self.split('.')[0] == oldSelf.split('.')[0]",
        pattern::VERSION
    );
    rule(
        accepted,
        "spec.version",
        &[LINES, "oldSelf.split('.')[0]"],
        expected::SAME_MAJOR,
    )
}

/// A schedule, as far as a regular expression can say.
pub(super) fn schedule(field: &str) -> Rule {
    rule(
        format!("self.matches('{}')", cron::pattern()),
        field,
        &[LINES],
        cron::SCHEDULE,
    )
}

/// At least the smallest volume.
pub(super) fn storage_size() -> Rule {
    let accepted = format!(
        "isQuantity(self) && quantity(self).isInteger() && quantity(self).compareTo(quantity('{MIN_STORAGE}')) >= 0"
    );
    rule(accepted, "spec.storage.size", &[LINES], expected::STORAGE)
}

/// A volume stays where it is.
pub(super) fn same_storage_class() -> Rule {
    rule(
        "has(self.storageClassName) == has(oldSelf.storageClassName) && \
         (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",
        "spec.storage.storageClassName",
        &[
            "has(self.storageClassName) ? self.storageClassName : ''",
            "has(oldSelf.storageClassName) ? oldSelf.storageClassName : ''",
        ],
        expected::SAME_CLASS,
    )
}

/// A loss that may be agreed to.
pub(super) fn lag() -> Rule {
    let accepted = format!(
        "isQuantity(self) && quantity(self).isInteger() && !quantity(self).isLessThan(quantity('0')) && quantity(self).compareTo(quantity('{MAX_LAG}')) <= 0"
    );
    rule(accepted, "spec.maximumLagOnFailover", &[LINES], expected::LAG)
}

/// A setting that the operator does not own.
pub(super) fn parameters_are_free() -> Rule {
    let owned = format!(
        "(k in {} || {}.exists(p, k.startsWith(p)))",
        list(&OWNED),
        list(&OWNED_PREFIXES)
    );
    rule(
        format!("!self.exists(k, {owned})"),
        "spec.parameters.%s",
        &[
            &format!("self.filter(k, {owned})[0]"),
            &format!("self[self.filter(k, {owned})[0]]"),
        ],
        LEFT_OUT,
    )
}

/// Values that stay on their line.
pub(super) fn parameter_values() -> Rule {
    let kept = format!("self[k].matches('{VALUE_PATTERN}')");
    rule(
        format!("self.all(k, {kept})"),
        "spec.parameters.%s",
        &[
            &format!("self.filter(k, !{kept})[0]"),
            &format!(r"self[self.filter(k, !{kept})[0]].replace('\n', '\\n')"),
        ],
        VALUE,
    )
}

/// Numbers with which PostgreSQL starts.
pub(super) fn parameters_are_bounded() -> Rule {
    let each = |of: fn(&(&str, u32, u32, &str)) -> serde_json::Value| {
        let map: serde_json::Map<_, _> = BOUNDED
            .iter()
            .map(|bounds| (bounds.0.to_owned(), of(bounds)))
            .collect();
        json!(map).to_string()
    };
    let (least, most) = (each(|bounds| json!(bounds.1)), each(|bounds| json!(bounds.2)));
    let told = each(|(_, least, most, why)| json!(between(*least, *most, why)));
    let names = list(&BOUNDED.map(|(name, ..)| name));
    let lost = format!(
        "k in {names} && !(self[k].matches('{DIGITS_PATTERN}') && int(self[k]) >= {least}[k] && int(self[k]) <= {most}[k])"
    );
    let first = format!("self.filter(k, {lost})[0]");
    rule(
        format!("!self.exists(k, {lost})"),
        "spec.parameters.%s",
        &[
            &first,
            &format!(r"self[{first}].replace('\n', '\\n')"),
            &format!("{told}[{first}]"),
        ],
        "%s",
    )
}

/// The name of a role or a database, in a list.
pub(super) fn identifier() -> Rule {
    rule(
        format!("self.matches('{}')", pattern::IDENTIFIER),
        "name",
        &[LINES],
        IDENTIFIER,
    )
}

/// The same, and nobody else's.
pub(super) fn identifier_is_free() -> Rule {
    rule(unreserved("self"), "name", &[LINES], UNRESERVED)
}

/// The name of an extension.
pub(super) fn extension() -> Rule {
    rule(
        format!("self.matches('{}')", pattern::EXTENSION),
        "name",
        &[LINES],
        EXTENSION,
    )
}

/// The version of an extension.
pub(super) fn extension_version() -> Rule {
    rule(
        format!("self.matches('{}')", pattern::EXTENSION_VERSION),
        "version",
        &[LINES],
        EXTENSION_VERSION,
    )
}

/// The role of the object's name is made with it.
pub(super) fn users_are_others() -> Rule {
    rule(
        "!has(self.spec.users) || self.spec.users.all(u, u.name != self.metadata.name)",
        "spec.users[].name",
        &["self.metadata.name"],
        expected::OTHER_USER,
    )
}

/// Databases belong to somebody who is there.
pub(super) fn owners_exist() -> Rule {
    let lost = "has(d.owner) && d.owner != self.metadata.name && \
         (d.name == self.metadata.name || !has(self.spec.users) || !self.spec.users.exists(u, u.name == d.owner))";
    rule(
        format!("!has(self.spec.databases) || !self.spec.databases.exists(d, {lost})"),
        "spec.databases[].owner",
        &[&format!("self.spec.databases.filter(d, {lost})[0].owner")],
        expected::OWNER,
    )
}

/// Users are no members of roles of PostgreSQL that lead to files and programs. Whether other roles are there would cost too much here.
pub(super) fn groups() -> Rule {
    let lost = format!(
        "m == self.name || m.startsWith('pg_') && !(m in {})",
        list(&PREDEFINED_ROLES)
    );
    rule(
        format!("!has(self.memberOf) || !self.memberOf.exists(m, {lost})"),
        "memberOf",
        &[&format!("self.memberOf.filter(m, {lost})[0]")],
        expected::GROUP,
    )
}

/// Below PostgreSQL 16 nobody but a superuser makes roles.
pub(super) fn nobody_makes_himself_superuser() -> Rule {
    rule(
        "!(self.version.startsWith('14') || self.version.startsWith('15')) || \
         !has(self.users) || !self.users.exists(u, u.createRole)",
        "spec.users[].createRole",
        &["'true'"],
        expected::CREATE_ROLE,
    )
}

/// Somebody has to confirm.
pub(super) fn required_has_standbys() -> Rule {
    let sizes: serde_json::Map<_, _> = Size::ALL
        .map(|size| (size.name().to_owned(), json!(size.instances())))
        .into_iter()
        .collect();
    let instances = format!(
        "(has(self.instances) ? self.instances : {}[self.size])",
        json!(sizes)
    );
    rule(
        format!("self.synchronous != 'required' || {instances} >= 2"),
        "spec.synchronous",
        &["self.synchronous"],
        expected::STANDBYS,
    )
}

/// No pod is promised more of this resource than it may use. Each has its own rule, since the budget is for one.
pub(super) fn request_fits_limit(resource: &str) -> Rule {
    let sizes: serde_json::Map<_, _> = Size::ALL
        .map(|size| (size.name().to_owned(), json!(size.limits()[resource])))
        .into_iter()
        .collect();
    let request = format!("string(self.resources.requests['{resource}'])");
    let limit = format!(
        "(has(self.resources.limits) && '{resource}' in self.resources.limits ? string(self.resources.limits['{resource}']) : {}[self.size])",
        json!(sizes)
    );
    rule(
        format!(
            "!has(self.resources) || !has(self.resources.requests) || !('{resource}' in self.resources.requests) || \
             !isQuantity({request}) || !isQuantity({limit}) || !quantity({request}).isGreaterThan(quantity({limit}))"
        ),
        &format!("spec.resources.requests.{resource}"),
        &[&request, &limit],
        expected::WITHIN_LIMIT,
    )
}

/// A certificate is for those who use it.
pub(super) fn certificate_is_used() -> Rule {
    rule(
        "self.enabled || !has(self.certificateSecret)",
        "spec.tls.certificateSecret",
        &["self.certificateSecret"],
        expected::CERTIFICATE,
    )
}

/// Nobody is turned away from what there is not.
pub(super) fn encryption_can_be_required() -> Rule {
    rule(
        "self.enabled || !self.required",
        "spec.tls.required",
        &["'true'"],
        expected::TLS,
    )
}

/// The schema of the settings: a map of strings, on which the field's rules come besides.
pub(super) fn parameters_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "maxProperties": super::limits::MAX_PARAMETERS,
        "additionalProperties": {"type": "string", "maxLength": super::limits::MAX_VALUE},
    })
}
