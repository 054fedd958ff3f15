//! How a webhook serves the kind.

use super::{validate, validate_update, versions};
use crate::api::served::{Rules, Served, Words};

/// What v1alpha1 calls the places of v1 that have another name there.
const WORDS: Words = &[
    ("spec.backup.enabled", "spec.backup_enabled"),
    ("spec.backup.schedule", "spec.backup_schedule"),
];

/// The kind with its versions, its rules and its words.
pub fn served() -> Served {
    let rules = Rules {
        object: |database| validate(database).map(drop),
        update: validate_update,
    };
    Served::new(versions(), rules, WORDS)
}
