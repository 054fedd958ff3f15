//! `olm.constraint`: what a bundle needs besides itself, as OLM's resolver reads it.

use serde::Deserialize;
use serde_json::Value;

use super::fold;
use super::range::Range;
use crate::olm::cel::{self, Environment, Type};

/// The longest that OLM reads, in bytes.
const MAX: usize = 128 << 10;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Constraint {
    #[serde(default)]
    #[allow(dead_code, reason = "only its type counts")]
    failure_message: Option<String>,
    cel: Option<Cel>,
    package: Option<Package>,
    gvk: Option<Gvk>,
    all: Option<Compound>,
    any: Option<Compound>,
    not: Option<Compound>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cel {
    #[serde(default)]
    rule: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Package {
    #[serde(default)]
    package_name: String,
    #[serde(default)]
    version_range: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Gvk {
    #[serde(default)]
    group: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    version: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Compound {
    #[serde(default)]
    constraints: Vec<Constraint>,
}

/// Whether OLM could make something of it.
///
/// # Errors
/// What it could not.
pub fn check(json: &str) -> Result<(), String> {
    if json.len() > MAX {
        return Err(format!("it has {} bytes; {MAX} are accepted", json.len()));
    }
    let constraint: Constraint = fold::from_str(json).map_err(|error| error.to_string())?;
    constraint.check("")
}

impl Constraint {
    fn check(&self, place: &str) -> Result<(), String> {
        let Self {
            failure_message: _,
            cel,
            package,
            gvk,
            all,
            any,
            not,
        } = self;
        let named = [
            cel.is_some(),
            package.is_some(),
            gvk.is_some(),
            all.is_some(),
            any.is_some(),
            not.is_some(),
        ];
        let count = named.into_iter().filter(|&is_there| is_there).count();
        if count != 1 {
            return Err(format!(
                "{place}it names {count} of cel, package, gvk, all, any and not; exactly one is accepted"
            ));
        }
        if let Some(cel) = cel {
            if cel.rule.trim().is_empty() {
                return Err(format!("{place}cel.rule is empty"));
            }
            cel::check(&cel.rule, Environment::Constraint, &Type::Bool)
                .map_err(|why| format!("{place}cel.rule is no rule of CEL: {why}"))?;
        }
        if let Some(package) = package {
            if package.package_name.is_empty() {
                return Err(format!("{place}package.packageName is empty"));
            }
            let range: Result<Range, _> = package.version_range.parse();
            range.map_err(|error| format!("{place}package.versionRange is no range of versions: {error}"))?;
        }
        if let Some(gvk) = gvk
            && (gvk.group.is_empty() || gvk.kind.is_empty() || gvk.version.is_empty())
        {
            return Err(format!("{place}gvk needs group, kind and version"));
        }
        for (name, compound) in [("all", all), ("any", any), ("not", not)] {
            let Some(compound) = compound else { continue };
            if compound.constraints.is_empty() {
                return Err(format!("{place}{name}.constraints is empty"));
            }
            for (index, constraint) in compound.constraints.iter().enumerate() {
                constraint.check(&format!("{place}{name}.constraints[{index}]: "))?;
            }
        }
        Ok(())
    }
}

/// Whether a `versionRange` of `olm.package.required` can be fulfilled at all.
///
/// # Errors
/// Why not.
pub fn check_required(name: &str, range: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("packageName is empty".to_owned());
    }
    let read: Result<Range, _> = range.parse();
    read.map(drop)
        .map_err(|error| format!("versionRange is {:?}: {error}", Value::from(range)))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(r#"{"failureMessage":"x","cel":{"rule":"properties.exists(p, p.type == 'a')"}}"#)]
    #[case(r#"{"package":{"packageName":"a","versionRange":">=1.0.0"}}"#)]
    #[case(r#"{"all":{"constraints":[{"gvk":{"group":"g","kind":"K","version":"v1"}}]}}"#)]
    fn what_olm_knows_is_accepted(#[case] json: &str) {
        assert_eq!(check(json), Ok(()));
    }

    #[rstest]
    #[case(r#"{}"#, "names 0 of")]
    #[case(r#"{"cel":{"rule":""}}"#, "cel.rule is empty")]
    #[case(
        r#"{"cel":{"rule":"true"},"gvk":{"group":"g","kind":"K","version":"v1"}}"#,
        "names 2 of"
    )]
    #[case(r#"{"cel":{"rule":"properties.exists(p, p.type =="}}"#, "no rule of CEL")]
    #[case(
        r#"{"cel":{"rule":"properties.size()"}}"#,
        "it comes to an int, and must come to a bool"
    )]
    #[case(r#"{"celRule":{}}"#, "unknown field")]
    #[case(
        r#"{"package":{"packageName":"a","versionRange":"new"}}"#,
        "no range of versions"
    )]
    #[case(r#"{"any":{"constraints":[]}}"#, "any.constraints is empty")]
    #[case(
        r#"{"not":{"constraints":[{"gvk":{"group":"g"}}]}}"#,
        "not.constraints[0]: gvk needs"
    )]
    fn what_it_does_not_know_is_told(#[case] json: &str, #[case] told: &str) {
        let error = check(json).unwrap_err();
        assert!(error.contains(told), "{error}");
    }
}
