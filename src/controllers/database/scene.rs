//! A database and its instances, as tests of this folder look at them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::decide::{Intent, decide};
use super::desired::pod::{SHAPE, shape};
use super::desired::{Decided, settings};
use super::error::Error;
use super::instances::Asked;
use super::lease::Held;
use super::live::Live;
use super::observe::Observed;
use super::status::{Seen, compute};
use super::testing::{at, children, database, decided, owner_of, valid};
use super::volumes::Volumes;
use crate::api::database::agent::{Lsn, ROLE_LABEL, Report, Role, Standby, State as Doing};
use crate::api::database::v1::{Database, DatabaseStatus, Synchronous};
use crate::api::database::{ValidDatabase, validate};
use crate::runtime::conditions::find;

/// Three instances, of which orders-0 leads.
pub struct Scene {
    pub database: Database,
    pub pods: Vec<Arc<Pod>>,
    pub lease: Held,
    pub asked: Vec<Asked>,
    pub asks: bool,
    pub volumes: Volumes,
    pub failure: Option<Error>,
    /// How many instances the StatefulSet has, and how many the settings name.
    pub there: i32,
    pub told: i32,
    pub excused: BTreeSet<String>,
    /// Nothing was done about the spec yet, and the StatefulSet is as an earlier one had it.
    pub is_new: bool,
}

/// Three instances.
fn large(spec: Value) -> Database {
    let mut whole = json!({"size": "large"});
    let fields = spec.as_object().cloned().unwrap_or_default();
    whole.as_object_mut().unwrap().extend(fields);
    database("orders", whole)
}

pub fn pod(name: &str, ready: bool, role: Option<&str>) -> Arc<Pod> {
    let pod = json!({
        "metadata": {
            "name": name, "uid": name, "labels": {ROLE_LABEL: role, "controller-revision-hash": "new"},
            "annotations": {SHAPE: shape(&valid(&large(json!({}))))}, "creationTimestamp": at(0).to_string(),
        },
        "status": {
            "phase": "Running", "podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
        },
    });
    let mut pod = pod;
    if role.is_none() {
        pod["metadata"]["labels"]
            .as_object_mut()
            .unwrap()
            .remove(ROLE_LABEL);
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

pub fn standby(name: &str, state: &str) -> Standby {
    Standby {
        name: name.into(),
        state: state.into(),
        flushed: Some(Lsn(0x300_0000)),
        replayed: Some(Lsn(0x300_0000)),
        ..Standby::default()
    }
}

fn report(ordinal: usize) -> Report {
    let name = format!("orders-{ordinal}");
    let common = Report {
        identity: format!("uid-{ordinal}"),
        name,
        timeline: Some(2),
        system_identifier: Some("7".into()),
        received: Some(Lsn(0x300_0000)),
        replayed: Some(Lsn(0x300_0000)),
        version: Some("17.6".into()),
        settings: Some("hash".into()),
        ..Report::default()
    };
    if ordinal > 0 {
        return Report {
            role: Role::Replica,
            state: Doing::Streaming,
            streaming: true,
            ..common
        };
    }
    Report {
        role: Role::Primary,
        state: Doing::Leading,
        wrote_ms: Some(800),
        standbys: vec![standby("orders-1", "streaming"), standby("orders-2", "streaming")],
        made: Some("hash".into()),
        ..common
    }
}

impl Scene {
    pub fn well() -> Self {
        let role = |ordinal| if ordinal == 0 { "primary" } else { "replica" };
        let asked = |ordinal| Asked {
            pod: format!("orders-{ordinal}"),
            answer: Ok(report(ordinal)),
            silent: Duration::ZERO,
        };
        Self {
            database: large(json!({})),
            pods: (0..3)
                .map(|i| pod(&format!("orders-{i}"), true, Some(role(i))))
                .collect(),
            lease: Held {
                holder: Some("uid-0".into()),
                primary: Some("orders-0".into()),
                system_identifier: Some("7".into()),
                timeline: Some(2),
                named: (0..3).map(|i| format!("orders-{i}")).collect(),
                quorums: Vec::new(),
                missing: None,
                stopped: None,
                asynchronous: true,
            },
            asked: (0..3).map(asked).collect(),
            asks: true,
            volumes: Volumes::default(),
            failure: None,
            there: 3,
            told: 3,
            excused: BTreeSet::new(),
            is_new: false,
        }
    }

    /// The same with another spec.
    pub fn of(spec: Value) -> Self {
        Self {
            database: large(spec),
            ..Self::well()
        }
    }

    /// The same once it was said to be so.
    pub fn known(mut self) -> Self {
        let status = Self::well().status();
        self.database.status = Some(status);
        self
    }

    pub fn change(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// The pod is as the spec has it by now.
    pub fn anew(&mut self, ordinal: usize) {
        let mut pod = (*self.pods[ordinal]).clone();
        pod.annotations_mut()
            .insert(SHAPE.to_owned(), shape(&valid(&self.database)));
        self.pods[ordinal] = Arc::new(pod);
    }

    pub fn report(&mut self, ordinal: usize) -> &mut Report {
        self.asked[ordinal].answer.as_mut().unwrap()
    }

    /// What there is.
    pub fn observed(&self) -> Observed {
        let spec = if validate(&self.database).is_ok() {
            self.database.clone()
        } else {
            large(json!({}))
        };
        let before = large(json!({}));
        let mut observed = children(if self.is_new { &before } else { &spec });
        let mut set = (*observed.stateful_sets[0]).clone();
        set.status = serde_json::from_value(json!({"replicas": 3, "updateRevision": "new"})).unwrap();
        set.spec.as_mut().unwrap().replicas = Some(self.there);
        observed.stateful_sets = vec![Arc::new(set)];
        let told = Decided {
            members: self.told,
            excused: self.excused.clone(),
            excused_until: (!self.excused.is_empty()).then(|| at(90)),
            ..decided(&valid(&spec))
        };
        let told = settings::settings(&valid(&spec), &told, "cluster.local");
        let owner = valid(&spec);
        let owner = owner_of(&spec, &owner);
        let told = settings::config_map(&owner, settings::file(&told).unwrap());
        observed.config_maps = vec![Arc::new(told)];
        observed.pods.clone_from(&self.pods);
        observed
    }

    /// Looks at it.
    pub fn see<T>(&self, look: impl FnOnce(&Live<'_>) -> T) -> T {
        let observed = self.observed();
        look(&Live {
            stateful_set: Some(&observed.stateful_sets[0]),
            pods: &self.pods,
            lease: &self.lease,
            asked: &self.asked,
            asks: self.asks,
            settings: Some("hash"),
            required: self.database.spec.synchronous == Synchronous::Required,
            volumes: &self.volumes,
            failure: self.failure.as_ref(),
        })
    }

    /// What is made of the spec then; it has to be valid.
    pub fn decided(&self) -> Decided {
        self.decided_at(60)
    }

    /// The same at another second.
    pub fn decided_at(&self, second: i64) -> Decided {
        let status = self.database.status.as_ref();
        let valid = valid(&self.database);
        self.see(|live| decide(&valid, &self.observed(), status, live, self.is_new, at(second)))
    }

    pub fn status(&self) -> DatabaseStatus {
        self.seen(|_, status| status.clone())
    }

    /// Looks at it, and at what is said of it.
    pub fn seen<T>(&self, look: impl FnOnce(&Seen<'_>, &DatabaseStatus) -> T) -> T {
        let valid: Result<ValidDatabase, _> = validate(&self.database);
        let decided = valid.is_ok().then(|| self.decided());
        let intent = match (&valid, &decided) {
            (Err(problems), _) => Intent::Refuse(problems),
            (Ok(valid), Some(decided)) if !valid.paused => Intent::CarryOut(valid, decided),
            (Ok(_), _) => Intent::Pause,
        };
        self.see(|live| {
            let seen = Seen {
                intent,
                live: *live,
                leaving: &[],
                cluster_domain: "cluster.local",
            };
            look(&seen, &compute(&self.database, &seen, at(60)))
        })
    }

    pub fn said(&self, type_: &str) -> (String, String, String) {
        let status = self.status();
        let condition = find(&status.conditions, type_);
        let condition = condition.unwrap_or_else(|| panic!("{type_} is not said"));
        (
            condition.status.clone(),
            condition.reason.clone(),
            condition.message.clone(),
        )
    }

    pub fn is(&self, type_: &str) -> (String, String) {
        let (status, reason, _) = self.said(type_);
        (status, reason)
    }
}
