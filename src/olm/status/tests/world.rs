//! A cluster in which all is well, as OLM 0.34 and later writes it, to be broken one thing at a time.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::olm::status::{Deployed, Facts};

pub const NOW: &str = "2026-03-01T12:00:00Z";
/// Ten minutes before; whatever OLM does in seconds should be done.
pub const BEFORE: &str = "2026-03-01T11:50:00Z";
/// Seconds before.
pub const JUST: &str = "2026-03-01T11:59:30Z";

pub fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// A Subscription to `gadgets` whose version 1.1.0 runs.
pub fn well() -> Facts {
    Facts {
        subscription: subscription(),
        neighbours: Vec::new(),
        elsewhere: Vec::new(),
        source: Ok(Some(source())),
        source_pods: Ok(vec![pod("olm", "fair-x7k2p", "registry-server")]),
        package: Ok(Some(package())),
        groups: Ok(vec![group(&[""])]),
        jobs: Ok(vec![job("Complete")]),
        job_pods: Ok(Vec::new()),
        plan: Ok(Some(plan())),
        csvs: Ok(vec![csv("gadgets.v1.1.0", "gadgets.v1.0.0")]),
        conditions: Ok(vec![operator_condition("gadgets.v1.1.0", "True")]),
        deployments: vec![Deployed {
            name: "gadgets".to_owned(),
            deployment: Ok(Some(deployment())),
            pods: Ok(vec![pod("tools", "gadgets-6c9-b8w", "manager")]),
        }],
    }
}

pub fn subscription() -> Value {
    json!({
        "metadata": {"name": "gadgets", "namespace": "tools", "creationTimestamp": BEFORE},
        "spec": {"name": "gadgets", "channel": "stable", "source": "fair", "sourceNamespace": "olm", "installPlanApproval": "Automatic"},
        "status": {
            "catalogHealth": [{"catalogSourceRef": {"name": "fair", "namespace": "olm"}, "healthy": true, "lastUpdated": BEFORE}],
            "conditions": [
                {"type": "CatalogSourcesUnhealthy", "status": "False", "reason": "AllCatalogSourcesHealthy", "message": "all available catalogsources are healthy", "lastTransitionTime": BEFORE},
                // OLM leaves it there
                {"type": "BundleUnpacking", "status": "True", "reason": "UnpackingInProgress"},
            ],
            "currentCSV": "gadgets.v1.1.0",
            "installedCSV": "gadgets.v1.1.0",
            "installPlanGeneration": 1,
            "installPlanRef": {"kind": "InstallPlan", "name": "install-abcde", "namespace": "tools"},
            "lastUpdated": BEFORE,
            "state": "AtLatestKnown",
        },
    })
}

pub fn source() -> Value {
    json!({
        "metadata": {"name": "fair", "namespace": "olm"},
        "spec": {"sourceType": "grpc", "image": "example.org/fair:latest"},
        "status": {
            "connectionState": {"address": "fair.olm.svc:50051", "lastConnect": BEFORE, "lastObservedState": "READY"},
            "latestImageRegistryPoll": JUST,
        },
    })
}

pub fn package() -> Value {
    let modes = json!([
        {"type": "OwnNamespace", "supported": false}, {"type": "SingleNamespace", "supported": false},
        {"type": "MultiNamespace", "supported": false}, {"type": "AllNamespaces", "supported": true},
    ]);
    json!({
        "metadata": {"name": "gadgets", "namespace": "tools"},
        "status": {
            "catalogSource": "fair", "catalogSourceNamespace": "olm", "packageName": "gadgets", "defaultChannel": "stable",
            "channels": [
                {"name": "candidate", "currentCSV": "gadgets.v2.0.0", "currentCSVDesc": {"installModes": modes}, "entries": [{"name": "gadgets.v2.0.0"}]},
                {"name": "stable", "currentCSV": "gadgets.v1.1.0", "currentCSVDesc": {"installModes": modes},
                 "entries": [{"name": "gadgets.v1.1.0"}, {"name": "gadgets.v1.0.0"}]},
            ],
        },
    })
}

pub fn group(namespaces: &[&str]) -> Value {
    json!({
        "metadata": {"name": "tools", "namespace": "tools", "creationTimestamp": BEFORE},
        "spec": {"upgradeStrategy": "Default"},
        "status": {"lastUpdated": BEFORE, "namespaces": namespaces},
    })
}

pub fn job(outcome: &str) -> Value {
    let condition = json!({"type": outcome, "status": "True", "lastTransitionTime": JUST});
    json!({
        "metadata": {"name": "5dd1f", "namespace": "olm", "uid": "job", "creationTimestamp": BEFORE},
        "spec": {"template": {"spec": {"initContainers": [
            {"name": "util", "image": "example.org/olm"}, {"name": "pull", "image": "example.org/gadgets-bundle:v1.1.0"},
        ]}}},
        "status": {"conditions": [condition]},
    })
}

pub fn plan() -> Value {
    json!({
        "metadata": {"name": "install-abcde", "namespace": "tools", "creationTimestamp": BEFORE},
        "spec": {"approval": "Automatic", "approved": true, "clusterServiceVersionNames": ["gadgets.v1.1.0"], "generation": 1},
        "status": {
            "phase": "Complete",
            "bundleLookups": [{"identifier": "gadgets.v1.1.0", "path": "example.org/gadgets-bundle:v1.1.0", "replaces": "gadgets.v1.0.0",
                "catalogSourceRef": {"name": "fair", "namespace": "olm"}}],
            "conditions": [{"type": "Installed", "status": "True", "lastTransitionTime": BEFORE}],
            "plan": [step("ClusterServiceVersion", "gadgets.v1.1.0", "Created"), step("CustomResourceDefinition", "gadgets.example.org", "Present")],
        },
    })
}

pub fn step(kind: &str, name: &str, status: &str) -> Value {
    json!({"resolving": "gadgets.v1.1.0", "status": status, "resource": {"kind": kind, "name": name, "version": "v1"}})
}

pub fn csv(name: &str, replaces: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "tools", "creationTimestamp": BEFORE},
        "spec": {
            "replaces": replaces,
            "install": {"strategy": "deployment", "spec": {"deployments": [{"name": "gadgets"}]}},
            "installModes": [
                {"type": "OwnNamespace", "supported": false}, {"type": "SingleNamespace", "supported": false},
                {"type": "MultiNamespace", "supported": false}, {"type": "AllNamespaces", "supported": true},
            ],
        },
        "status": {
            "phase": "Succeeded", "reason": "InstallSucceeded", "message": "install strategy completed with no errors",
            "lastTransitionTime": BEFORE,
            "requirementStatus": [{"kind": "CustomResourceDefinition", "name": "gadgets.example.org", "status": "Present",
                "message": "CRD is present and Established condition is true"}],
        },
    })
}

/// A version in another phase.
pub fn csv_in(name: &str, replaces: &str, phase: &str, reason: &str, message: &str) -> Value {
    let mut csv = csv(name, replaces);
    for (field, value) in [("phase", phase), ("reason", reason), ("message", message)] {
        csv["status"][field] = json!(value);
    }
    csv
}

pub fn operator_condition(name: &str, upgradeable: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "tools", "generation": 3},
        "spec": {"deployments": ["gadgets"]},
        "status": {"conditions": [{"type": "Upgradeable", "status": upgradeable, "reason": "Resharding", "message": "slot 7 is on its way",
            "observedGeneration": 3, "lastTransitionTime": BEFORE}]},
    })
}

pub fn deployment() -> Value {
    json!({
        "metadata": {"name": "gadgets", "namespace": "tools", "generation": 2},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "gadgets"}},
            "template": {"spec": {"containers": [{"name": "manager", "resources": {"limits": {"memory": "128Mi"}}}]}},
        },
        "status": {
            "observedGeneration": 2, "replicas": 1, "readyReplicas": 1, "updatedReplicas": 1, "availableReplicas": 1,
            "conditions": [{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable",
                "message": "ReplicaSet \"gadgets-6c9\" has successfully progressed.", "lastUpdateTime": BEFORE}],
        },
    })
}

pub fn pod(namespace: &str, name: &str, container: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": [{"kind": "Job", "uid": "job"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": container, "ready": true, "restartCount": 0, "lastState": {}, "state": {"running": {"startedAt": BEFORE}}}],
        },
    })
}

/// A pod one of whose containers is in this state, and ended so before.
pub fn pod_with(namespace: &str, name: &str, container: &str, state: Value, last: Value) -> Value {
    let mut pod = pod(namespace, name, container);
    pod["status"]["conditions"][1]["status"] = json!("False");
    let status = &mut pod["status"]["containerStatuses"][0];
    status["ready"] = json!(false);
    status["state"] = state;
    status["lastState"] = last;
    pod
}

pub fn waiting(reason: &str, message: &str) -> Value {
    json!({"waiting": {"reason": reason, "message": message}})
}

pub fn terminated(reason: &str, code: i64) -> Value {
    json!({"terminated": {"reason": reason, "exitCode": code, "finishedAt": JUST}})
}

/// Sets a condition of an object, or takes the place of what it says.
pub fn condition(object: &mut Value, kind: &str, reason: &str, message: &str) {
    let conditions = object["status"]["conditions"].as_array_mut().unwrap();
    conditions.retain(|condition| condition["type"] != kind);
    conditions.push(json!({"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": BEFORE}));
}

impl Facts {
    pub(super) fn source_mut(&mut self) -> &mut Value {
        self.source.as_mut().unwrap().as_mut().unwrap()
    }

    pub(super) fn plan_mut(&mut self) -> &mut Value {
        self.plan.as_mut().unwrap().as_mut().unwrap()
    }

    pub(super) fn csv_mut(&mut self) -> &mut Value {
        &mut self.csvs.as_mut().unwrap()[0]
    }

    pub(super) fn deployment_mut(&mut self) -> &mut Value {
        self.deployments[0].deployment.as_mut().unwrap().as_mut().unwrap()
    }

    /// Nothing is installed yet, and there is no plan.
    pub(super) fn nothing_installed(&mut self) {
        let status = self.subscription["status"].as_object_mut().unwrap();
        for field in ["currentCSV", "installedCSV", "installPlanRef", "state"] {
            status.remove(field);
        }
        self.plan = Ok(None);
        self.csvs = Ok(Vec::new());
        self.conditions = Ok(Vec::new());
        self.deployments = Vec::new();
        self.jobs = Ok(Vec::new());
    }

    /// The one pod of the Deployment is like this, and none is ready.
    pub(super) fn operator_pod(&mut self, pod: Value) {
        self.deployments[0].pods = Ok(vec![pod]);
        self.deployment_mut()["status"]["readyReplicas"] = json!(0);
    }

    /// OLM installs version 1.1.0.
    pub(super) fn upgrade_installs(&mut self) {
        let new = csv_in(
            "gadgets.v1.1.0",
            "gadgets.v1.0.0",
            "Installing",
            "InstallWaiting",
            "",
        );
        self.upgrade("Replacing", new);
    }

    /// Version 1.0.0 does not let 1.1.0 take its place.
    pub(super) fn upgrade_is_held_back(&mut self) {
        let why = "operator is not upgradeable: slot 7 is on its way";
        let reason = "OperatorConditionNotUpgradeable";
        let new = csv_in("gadgets.v1.1.0", "gadgets.v1.0.0", "Pending", reason, why);
        self.upgrade("Replacing", new);
        self.conditions = Ok(vec![operator_condition("gadgets.v1.0.0", "False")]);
    }

    /// Version 1.1.0 is about to take the place of 1.0.0, which is the one that runs.
    pub(super) fn upgrade(&mut self, old: &str, new: Value) {
        let old = csv_in("gadgets.v1.0.0", "", old, "", "");
        self.csvs = Ok(vec![new, old]);
        self.conditions = Ok(vec![operator_condition("gadgets.v1.0.0", "True")]);
    }
}
