//! How a webhook serves the kind.

use super::{validate, validate_update, versions};
use crate::api::served::{Rules, Served, Words};

/// What v1alpha1 calls the places of v1 that have another name there.
const WORDS: Words = &[("spec.workers.replicas", "spec.workers")];

/// The kind with its versions, its rules and its words.
pub fn served() -> Served {
    let rules = Rules {
        object: |cluster| validate(cluster).map(drop),
        update: validate_update,
    };
    Served::new(versions(), rules, WORDS)
}
