//! How a webhook serves the kind, and how the reconciler goes by the same rules.

use std::sync::LazyLock;

use kube::{Resource, ResourceExt};
use serde_json::json;

use super::{MyProxy, Problems, ValidProxy, v1, validate, versions};
use crate::api::conversion::{ConversionError, convert};
use crate::api::served::{Rules, Served, Words};

/// What v1alpha1 calls the places of v1 that have another name there.
const WORDS: Words = &[
    ("spec.deploymentName", "spec.name"),
    ("spec.tls", "spec.tls_secret"),
    ("spec.tls.secretName", "spec.tls_secret"),
];

static SERVED: LazyLock<Served> = LazyLock::new(served);

/// The kind with its versions, its rules and its words.
pub fn served() -> Served {
    let rules = Rules {
        object: |proxy| validate(proxy).map(drop),
        update: |_, _| Ok(()),
    };
    Served::new(versions(), rules, WORDS)
}

/// An object as it is stored in the words of v1, with what was kept for that.
///
/// # Errors
/// Never of an object that an API server has admitted.
pub fn in_v1(proxy: &MyProxy) -> Result<v1::MyProxy, ConversionError> {
    let late = convert(&[SERVED.versions()], json!(proxy), "v1")?;
    serde_json::from_value(late).map_err(|source| ConversionError::Malformed {
        kind: "MyProxy".to_owned(),
        name: proxy.name_any(),
        source,
    })
}

/// Checks an object as it is stored. Problems are told in the words of the version in which it is stored, as conditions are read by everybody.
///
/// # Errors
/// As [`in_v1`].
pub fn validate_stored(proxy: &MyProxy) -> Result<Result<ValidProxy, Problems>, ConversionError> {
    let valid = validate(&in_v1(proxy)?);
    Ok(valid.map_err(|problems| SERVED.told(problems, &MyProxy::api_version(&()))))
}
