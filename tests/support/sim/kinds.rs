//! The kinds that the product uses, what may be done to them, and how the API server treats each. Whatever is not here panics: a
//! simulation that guesses would prove nothing.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::core::ApiResource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A kind, and how the API server treats its objects.
#[derive(Debug)]
pub struct Kind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    /// Its status is a subresource: a write of the object leaves it alone, and the other way round.
    pub status: bool,
    /// Changes of anything but metadata and status are counted.
    pub generation: bool,
    /// An update need not say which version it is based on.
    pub unconditional: bool,
    /// An update of what is not there creates it.
    pub create_on_update: bool,
    /// What a deletion without a word about dependents means: they stay, for Jobs alone.
    pub orphans: bool,
    /// Reads an object as the API server's own type would; a custom resource has its definition instead.
    pub decode: Option<fn(Value) -> Result<Value, String>>,
    /// The file with the definition of a custom resource.
    pub definition: &'static str,
}

impl Kind {
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// As it is called in messages: `deployments.apps`.
    pub fn resource(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    pub fn is(&self, kind: &str) -> bool {
        self.kind == kind
    }

    /// For a client that has no type of it.
    pub fn api_resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            api_version: self.api_version(),
            kind: self.kind.to_owned(),
            plural: self.plural.to_owned(),
        }
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        (self.group, self.kind) == (other.group, other.kind)
    }
}

const PLAIN: Kind = Kind {
    group: "",
    version: "v1",
    kind: "",
    plural: "",
    status: false,
    generation: false,
    unconditional: true,
    create_on_update: false,
    orphans: false,
    decode: None,
    definition: "",
};

/// One of the product's own.
const CUSTOM: Kind = Kind {
    group: "roadstead.dev",
    version: "v1alpha1",
    status: true,
    generation: true,
    unconditional: false,
    ..PLAIN
};

/// Every kind that is modelled.
pub static KINDS: [Kind; 19] = [
    Kind {
        version: "v1",
        kind: "MyProxy",
        plural: "myproxies",
        definition: "crds/roadstead.dev_myproxies.yaml",
        ..CUSTOM
    },
    Kind {
        version: "v1",
        kind: "Database",
        plural: "databases",
        definition: "crds/roadstead.dev_databases.yaml",
        ..CUSTOM
    },
    Kind {
        kind: "Greeting",
        plural: "greetings",
        definition: "examples/greeter/crds/roadstead.dev_greetings.yaml",
        ..CUSTOM
    },
    Kind {
        kind: "Person",
        plural: "people",
        definition: "examples/greeter/crds/roadstead.dev_people.yaml",
        ..CUSTOM
    },
    Kind {
        group: "apps",
        kind: "Deployment",
        plural: "deployments",
        status: true,
        generation: true,
        decode: Some(typed::<Deployment>),
        ..PLAIN
    },
    Kind {
        group: "apps",
        kind: "ReplicaSet",
        plural: "replicasets",
        status: true,
        generation: true,
        decode: Some(typed::<ReplicaSet>),
        ..PLAIN
    },
    Kind {
        group: "apps",
        kind: "StatefulSet",
        plural: "statefulsets",
        status: true,
        generation: true,
        decode: Some(typed::<StatefulSet>),
        ..PLAIN
    },
    Kind {
        kind: "Service",
        plural: "services",
        status: true,
        decode: Some(typed::<Service>),
        ..PLAIN
    },
    Kind {
        kind: "ConfigMap",
        plural: "configmaps",
        decode: Some(typed::<ConfigMap>),
        ..PLAIN
    },
    Kind {
        kind: "Secret",
        plural: "secrets",
        decode: Some(typed::<Secret>),
        ..PLAIN
    },
    Kind {
        kind: "ServiceAccount",
        plural: "serviceaccounts",
        decode: Some(typed::<ServiceAccount>),
        ..PLAIN
    },
    Kind {
        kind: "PersistentVolumeClaim",
        plural: "persistentvolumeclaims",
        status: true,
        decode: Some(typed::<PersistentVolumeClaim>),
        ..PLAIN
    },
    Kind {
        group: "rbac.authorization.k8s.io",
        kind: "Role",
        plural: "roles",
        decode: Some(typed::<Role>),
        ..PLAIN
    },
    Kind {
        group: "rbac.authorization.k8s.io",
        kind: "RoleBinding",
        plural: "rolebindings",
        decode: Some(typed::<RoleBinding>),
        ..PLAIN
    },
    Kind {
        group: "batch",
        kind: "Job",
        plural: "jobs",
        status: true,
        generation: true,
        orphans: true,
        decode: Some(typed::<Job>),
        ..PLAIN
    },
    Kind {
        group: "policy",
        kind: "PodDisruptionBudget",
        plural: "poddisruptionbudgets",
        status: true,
        generation: true,
        unconditional: false,
        decode: Some(typed::<PodDisruptionBudget>),
        ..PLAIN
    },
    Kind {
        kind: "Pod",
        plural: "pods",
        status: true,
        generation: true,
        decode: Some(typed::<Pod>),
        ..PLAIN
    },
    Kind {
        group: "coordination.k8s.io",
        kind: "Lease",
        plural: "leases",
        unconditional: false,
        create_on_update: true,
        decode: Some(typed::<Lease>),
        ..PLAIN
    },
    Kind {
        group: "events.k8s.io",
        kind: "Event",
        plural: "events",
        create_on_update: true,
        decode: Some(typed::<Event>),
        ..PLAIN
    },
];

/// The kind behind a path, which names its group, version and plural.
pub fn of_path(group: &str, version: &str, plural: &str) -> &'static Kind {
    let found = KINDS
        .iter()
        .find(|kind| (kind.group, kind.version, kind.plural) == (group, version, plural));
    found.unwrap_or_else(|| {
        panic!("{plural} of {group:?} {version} are not simulated: see tests/support/sim/kinds.rs")
    })
}

/// The kind of this name.
pub fn named(name: &str) -> &'static Kind {
    let found = KINDS.iter().find(|kind| kind.kind == name);
    found.unwrap_or_else(|| panic!("{name} is not simulated: see tests/support/sim/kinds.rs"))
}

/// Through the type and back: unknown fields are lost, a wrong type is an error, what is empty is not stored.
fn typed<K: Serialize + DeserializeOwned>(object: Value) -> Result<Value, String> {
    let object: K = serde_json::from_value(object).map_err(|error| error.to_string())?;
    let mut object = serde_json::to_value(object).map_err(|error| error.to_string())?;
    drop_empty(&mut object);
    Ok(object)
}

/// What the API server's types leave out when they are written: nulls, empty lists and empty maps. An object that is a struct stays, as in
/// `emptyDir: {}`.
fn drop_empty(value: &mut Value) {
    const MAPS: [&str; 8] = [
        "labels",
        "annotations",
        "matchLabels",
        "nodeSelector",
        "data",
        "limits",
        "requests",
        "selector",
    ];
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(drop_empty);
            map.retain(|field, value| match value {
                Value::Null => false,
                Value::Array(list) => !list.is_empty(),
                Value::Object(inner) => !inner.is_empty() || !MAPS.contains(&field.as_str()),
                _ => true,
            });
        }
        Value::Array(list) => list.iter_mut().for_each(drop_empty),
        _ => {}
    }
}
