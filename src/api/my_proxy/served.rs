//! How a webhook serves the kind, and how the reconciler goes by the same rules.

use std::sync::LazyLock;

use kube::{Resource, ResourceExt};
use serde_json::json;

use super::convert::{to_v1, versions};
use super::{MyProxy, Problems, ValidProxy, v1, validate};
use crate::api::conversion::{ConversionError, KEPT, convert};
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

/// An object as it is stored in the words of v1, with what was kept for that, and without its status.
///
/// # Errors
/// Never of an object that an API server has admitted.
pub fn in_v1(proxy: &MyProxy) -> Result<v1::MyProxy, ConversionError> {
    // Of most objects nothing is kept, and every reconcile asks.
    if !proxy.annotations().contains_key(KEPT) {
        let mut late = v1::MyProxy::new(&proxy.name_any(), to_v1(&proxy.spec));
        late.metadata = proxy.metadata.clone();
        return Ok(late);
    }
    let mut early = proxy.clone();
    early.status = None;
    let late = convert(&[SERVED.versions()], json!(early), "v1")?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_for_v1_is_read_and_without_it_both_ways_say_the_same() {
        let object = |annotations: serde_json::Value| -> MyProxy {
            serde_json::from_value(json!({
                "apiVersion": "roadstead.dev/v1alpha1", "kind": "MyProxy",
                "metadata": {"name": "edge", "namespace": "shop", "generation": 3, "annotations": annotations},
                "spec": {"name": "front", "tls_secret": "cert", "replicas": 3},
                "status": {"pod_names": ["a"]},
            }))
            .unwrap()
        };
        let plain = in_v1(&object(json!({}))).unwrap();
        // Spoilt, so that nothing comes of it but the longer way.
        let mut other = in_v1(&object(json!({KEPT: "{}"}))).unwrap();
        other.metadata.annotations = plain.metadata.annotations.clone();
        assert_eq!(other, plain);
        assert_eq!(plain.spec.deployment_name.as_deref(), Some("front"));
        let kept = r#"{"v1":[{"at":["spec","paused"],"is":true}]}"#;
        assert!(in_v1(&object(json!({KEPT: kept}))).unwrap().spec.paused);
    }
}
