//! From v1alpha1 to v1 and back, where nothing changes. What v1alpha1 cannot say has its default in v1; [`crate::api::conversion`] keeps
//! what it was.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use super::{v1, v1alpha1};
use crate::api::conversion::{TwoVersions, Versions, Ways};

/// The condition that v1alpha1 has as a field.
const READY: &str = "Ready";

/// Both versions.
pub fn versions() -> impl Versions {
    let spec = Ways {
        on: to_v1,
        back: to_v1alpha1,
    };
    let status = Ways {
        on: status_to_v1,
        back: status_to_v1alpha1,
    };
    TwoVersions::new::<v1alpha1::Database, v1::Database>(spec, status)
}

/// The same database in v1.
pub fn to_v1(spec: &v1alpha1::DatabaseSpec) -> v1::DatabaseSpec {
    let v1alpha1::DatabaseSpec {
        version,
        size,
        backup_enabled,
        backup_schedule,
    } = spec;
    v1::DatabaseSpec {
        version: version.clone(),
        size: *size,
        backup: v1::Backup {
            enabled: *backup_enabled,
            schedule: backup_schedule.clone(),
        },
        ..v1::DatabaseSpec::default()
    }
}

/// What v1alpha1 can say of a database: its version, its size and its backups. Where instances or resources differ from those of the size, it says
/// the size all the same.
pub fn to_v1alpha1(spec: &v1::DatabaseSpec) -> v1alpha1::DatabaseSpec {
    v1alpha1::DatabaseSpec {
        version: spec.version.clone(),
        size: spec.size,
        backup_enabled: spec.backup.enabled,
        backup_schedule: spec.backup.schedule.clone(),
    }
}

/// The same status in v1. That a database is ready becomes a condition, of which nothing more is known: neither since when
/// (the epoch stands for that) nor for which generation.
pub fn status_to_v1(status: &v1alpha1::DatabaseStatus) -> v1::DatabaseStatus {
    let v1alpha1::DatabaseStatus {
        ready,
        endpoint,
        version,
        replicas,
        phase,
        error,
    } = status.clone();
    let ready = ready.then(|| Condition {
        type_: READY.to_owned(),
        status: "True".to_owned(),
        reason: "Converted".to_owned(),
        message: "v1alpha1 says that it is ready".to_owned(),
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
        observed_generation: None,
    });
    v1::DatabaseStatus {
        conditions: ready.into_iter().collect(),
        endpoint,
        version,
        replicas,
        phase,
        error,
        ..v1::DatabaseStatus::default()
    }
}

/// What v1alpha1 can say of a status. `ready` is the condition of that name, where it is true.
pub fn status_to_v1alpha1(status: &v1::DatabaseStatus) -> v1alpha1::DatabaseStatus {
    let is_ready = |condition: &Condition| condition.type_ == READY && condition.status == "True";
    v1alpha1::DatabaseStatus {
        ready: status.conditions.iter().any(is_ready),
        endpoint: status.endpoint.clone(),
        version: status.version.clone(),
        replicas: status.replicas,
        phase: status.phase.clone(),
        error: status.error.clone(),
    }
}

#[cfg(test)]
#[path = "convert_tests.rs"]
mod tests;
