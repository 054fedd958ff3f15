//! How a webhook serves the kind. The reconciler goes by the same rules.

use super::convert::versions;
use super::validate;
use crate::api::served::{Rules, Served, Words};

/// What v1alpha1 calls the places of v1 that have another name there.
const WORDS: Words = &[
    ("spec.deploymentName", "spec.name"),
    ("spec.tls", "spec.tls_secret"),
    ("spec.tls.secretName", "spec.tls_secret"),
];

/// The kind with its versions, its rules and its words.
pub fn served() -> Served {
    let rules = Rules {
        object: |proxy| validate(proxy).map(drop),
        update: |_, _| Ok(()),
    };
    Served::new(versions(), rules, WORDS)
}
