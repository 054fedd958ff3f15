//! The ConfigMap that the pods mount, and the one that a check mounts.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;

use super::unit::{FILE, Unit};
use super::{Owner, names};

/// The active configuration: always one that nginx accepted.
pub fn active(owner: &Owner<'_>, unit: &Unit) -> ConfigMap {
    build(owner, names::config_map(owner.proxy), names::PROXY, unit)
}

/// The configuration of a check. Its name names its content, which cannot be changed, so no kubelet can mount an older one.
pub fn candidate(owner: &Owner<'_>, unit: &Unit) -> ConfigMap {
    let name = names::candidate(owner.proxy, &unit.key());
    ConfigMap {
        immutable: Some(true),
        ..build(owner, name, names::CHECKER, unit)
    }
}

fn build(owner: &Owner<'_>, name: String, component: &str, unit: &Unit) -> ConfigMap {
    let mut metadata = owner.metadata(name, component);
    metadata.annotations = Some(unit.annotations());
    ConfigMap {
        metadata,
        data: Some(BTreeMap::from([(FILE.to_owned(), unit.config.clone())])),
        ..ConfigMap::default()
    }
}
