//! The StatefulSet: pods with names and volumes of their own. It replaces no pod by itself when the template changes, since which instance may go
//! when is not for it to know.

use k8s_openapi::api::apps::v1::{
    StatefulSet, StatefulSetPersistentVolumeClaimRetentionPolicy, StatefulSetSpec, StatefulSetUpdateStrategy,
};
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use super::{Owner, names, pod};
use crate::controllers::database::Settings;

/// The volume of each instance.
pub const DATA: &str = "data";

/// What becomes of volumes without their StatefulSet, or without their instance: nothing.
const RETAIN: &str = "Retain";

/// What of a StatefulSet cannot be changed once there is one.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    /// How large a new volume is.
    pub size: Quantity,
    /// Its StorageClass, if not the cluster's default.
    pub class: Option<String>,
}

impl Volume {
    /// As a StatefulSet has it.
    pub fn of(stateful_set: &StatefulSet) -> Option<Self> {
        let templates = stateful_set.spec.as_ref()?.volume_claim_templates.as_ref()?;
        let data = templates
            .iter()
            .find(|template| template.metadata.name.as_deref() == Some(DATA))?;
        let spec = data.spec.as_ref()?;
        let requests = spec.resources.as_ref()?.requests.as_ref()?;
        Some(Self {
            size: requests.get("storage")?.clone(),
            class: spec.storage_class_name.clone(),
        })
    }
}

/// Builds the StatefulSet of so many instances with such volumes.
pub fn build(owner: &Owner<'_>, settings: &Settings, replicas: i32, volume: &Volume) -> StatefulSet {
    StatefulSet {
        metadata: owner.metadata(owner.name().to_owned()),
        spec: Some(StatefulSetSpec {
            replicas: Some(replicas),
            service_name: Some(names::instances(owner.name())),
            selector: LabelSelector {
                match_labels: Some(names::selector(owner.name())),
                ..LabelSelector::default()
            },
            pod_management_policy: Some("Parallel".to_owned()),
            update_strategy: Some(StatefulSetUpdateStrategy {
                type_: Some("OnDelete".to_owned()),
                ..StatefulSetUpdateStrategy::default()
            }),
            revision_history_limit: Some(2),
            persistent_volume_claim_retention_policy: Some(StatefulSetPersistentVolumeClaimRetentionPolicy {
                // Whoever deletes the StatefulSet and not the database means no data.
                when_deleted: Some(RETAIN.to_owned()),
                when_scaled: Some(RETAIN.to_owned()),
            }),
            volume_claim_templates: Some(vec![claim(owner, volume)]),
            template: pod::template(owner, settings),
            ..StatefulSetSpec::default()
        }),
        ..StatefulSet::default()
    }
}

fn claim(owner: &Owner<'_>, volume: &Volume) -> PersistentVolumeClaim {
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(DATA.to_owned()),
            labels: Some(names::labels(owner.name())),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            storage_class_name: volume.class.clone(),
            resources: Some(VolumeResourceRequirements {
                requests: Some([("storage".to_owned(), volume.size.clone())].into()),
                ..VolumeResourceRequirements::default()
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    }
}
