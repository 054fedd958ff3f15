//! The statements that make databases and their extensions what they are declared to be. Pure.

use std::collections::BTreeMap;

use super::super::prepare;
use super::super::session::{Rows, SqlError, identifier, literal};
use super::Step;
use crate::api::database::agent::{Extension, LogicalDatabase};

/// Where extensions go that do not say where: our own sessions look up names in pg_catalog alone, and would put them there.
const SCHEMA: &str = "public";
/// For a lock that others hold; whoever waits for one holds up all who come after.
const LOCK: &str = "SET LOCAL lock_timeout = '10s'";

/// The field that is about a database.
pub(super) fn field(database: &str) -> String {
    format!("spec.databases[{database}]")
}

/// Which of these databases there are, and whose. There has to be one at least.
pub(super) fn lookup(databases: &[LogicalDatabase]) -> String {
    let names = literals(databases.iter().map(|database| database.name.as_str()));
    format!("SELECT datname, pg_get_userbyid(datdba) FROM pg_database WHERE datname IN ({names})")
}

/// Each name with what was found beside it: a database with its owner, as was answered to [`lookup`], or an extension with its version, as to [`lookup_installed`].
pub(super) fn found(answers: &[Rows]) -> Option<BTreeMap<String, String>> {
    let [rows] = answers else {
        return None;
    };
    rows.iter()
        .map(|row| Some((text(row, 0)?.to_owned(), text(row, 1)?.to_owned())))
        .collect()
}

/// What has to be carried out so that they are there, and belong to whom they should. Nothing where they do.
pub(super) fn steps(
    databases: &[LogicalDatabase],
    found: &BTreeMap<String, String>,
) -> Result<Vec<Step>, SqlError> {
    let mut steps = Vec::new();
    for LogicalDatabase { name, owner, .. } in databases {
        match found.get(name) {
            None => steps.push(Step {
                is_needed: true,
                ..Step::new(field(name), prepare::database(name, owner)?)
            }),
            Some(present) if present != owner => {
                let statement = format!(
                    "ALTER DATABASE {} OWNER TO {}",
                    identifier(name)?,
                    identifier(owner)?
                );
                steps.push(Step::new(field(name), statement));
            }
            Some(_) => {}
        }
    }
    Ok(steps)
}

/// The versions of these extensions that are in the database. There has to be one at least.
pub(super) fn lookup_installed(extensions: &[Extension]) -> String {
    let names = literals(extensions.iter().map(|extension| extension.name.as_str()));
    format!("SELECT extname, extversion FROM pg_extension WHERE extname IN ({names})")
}

/// What the image has of these, which reads many files: of those alone that are to be made.
pub(super) fn lookup_available(extensions: &[&Extension]) -> String {
    let names = literals(extensions.iter().map(|extension| extension.name.as_str()));
    format!(
        "SELECT v.name, v.version, v.version = e.default_version, v.schema, array_to_string(v.requires, ' ') \
            FROM pg_available_extension_versions v JOIN pg_available_extensions e USING (name) WHERE v.name IN ({names})"
    )
}

/// A version of an extension that is in the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Available {
    name: String,
    version: String,
    is_default: bool,
    /// The schema that it has to be in, if it says so.
    schema: Option<String>,
    requires: Vec<String>,
}

/// What was answered to [`lookup_available`].
pub(super) fn available(answers: &[Rows]) -> Option<Vec<Available>> {
    let [rows] = answers else {
        return None;
    };
    let available = |row: &Vec<Option<String>>| {
        let requires = text(row, 4).unwrap_or_default().split(' ');
        Some(Available {
            name: text(row, 0)?.to_owned(),
            version: text(row, 1)?.to_owned(),
            is_default: text(row, 2) == Some("t"),
            schema: text(row, 3).map(str::to_owned),
            requires: requires
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
        })
    };
    rows.iter().map(available).collect()
}

/// Those that have to be made.
pub(super) fn missing<'a>(
    declared: &'a [Extension],
    installed: &BTreeMap<String, String>,
) -> Vec<&'a Extension> {
    let is_missing = |extension: &&Extension| !installed.contains_key(&extension.name);
    declared.iter().filter(is_missing).collect()
}

/// What has to be carried out in the database, in this order: those first that others require.
pub(super) fn extension_steps(
    database: &str,
    declared: &[Extension],
    installed: &BTreeMap<String, String>,
    available: &[Available],
) -> Result<Vec<Step>, SqlError> {
    let field = |extension: &Extension| format!("{}.extensions[{}]", field(database), extension.name);
    let mut steps = Vec::new();
    for extension in declared {
        let present = installed.get(&extension.name);
        if let Some((wanted, _)) = extension
            .version
            .as_ref()
            .zip(present)
            .filter(|(wanted, present)| wanted != present)
        {
            let (name, version) = (identifier(&extension.name)?, literal(wanted));
            let statement = format!("{LOCK}; ALTER EXTENSION {name} UPDATE TO {version}");
            steps.push(Step::new(field(extension), statement));
        }
    }
    let mut left = missing(declared, installed);
    while !left.is_empty() {
        let waits = |extension: &&Extension| {
            let requires = kind(extension, available).map_or(&[][..], |kind| &kind.requires);
            requires
                .iter()
                .any(|name| left.iter().any(|other| other.name == *name))
        };
        let (mut ready, mut rest): (Vec<_>, Vec<_>) = left.iter().copied().partition(|e| !waits(e));
        if ready.is_empty() {
            // They require each other, which PostgreSQL will say.
            ready = std::mem::take(&mut rest);
        }
        for extension in ready {
            steps.push(Step::new(field(extension), create(extension, available)?));
        }
        left = rest;
    }
    Ok(steps)
}

/// What the image says of the version that is to be made. Where it has no such version, what it says of another.
fn kind<'a>(extension: &Extension, available: &'a [Available]) -> Option<&'a Available> {
    let of_name = || available.iter().filter(|kind| kind.name == extension.name);
    let wanted = |kind: &&Available| match &extension.version {
        Some(version) => kind.version == *version,
        None => kind.is_default,
    };
    of_name()
        .find(wanted)
        .or_else(|| of_name().find(|kind| kind.is_default))
}

fn create(extension: &Extension, available: &[Available]) -> Result<String, SqlError> {
    let mut statement = format!("{LOCK}; CREATE EXTENSION {}", identifier(&extension.name)?);
    // One that says where it has to be makes that schema, and takes no other.
    if kind(extension, available).is_none_or(|kind| kind.schema.is_none()) {
        statement += &format!(" SCHEMA {SCHEMA}");
    }
    if let Some(version) = &extension.version {
        statement += &format!(" VERSION {}", literal(version));
    }
    Ok(statement)
}

fn literals<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(literal).collect::<Vec<_>>().join(", ")
}

fn text(row: &[Option<String>], at: usize) -> Option<&str> {
    row.get(at)?.as_deref()
}

#[cfg(test)]
#[path = "databases_tests.rs"]
mod tests;
