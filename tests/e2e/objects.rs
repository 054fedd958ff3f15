//! Objects as their users write and read them: JSON by kind. The tests know the shapes of the product from its
//! documentation, so they must not use its types.

use kube::api::{ApiResource, DynamicObject};
use serde_json::Value;

/// A kind of the API, enough to address its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub namespaced: bool,
}

impl Kind {
    const fn namespaced(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        Self {
            group,
            version,
            kind,
            plural,
            namespaced: true,
        }
    }

    const fn cluster(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        Self {
            group,
            version,
            kind,
            plural,
            namespaced: false,
        }
    }

    /// What kube needs to find the kind's address.
    pub fn resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.into(),
            version: self.version.into(),
            api_version: self.api_version(),
            kind: self.kind.into(),
            plural: self.plural.into(),
        }
    }

    fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.into()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The kind of a manifest, if it is one that these tests use.
    pub fn of(manifest: &Value) -> Option<Self> {
        let (api_version, kind) = (
            manifest.get("apiVersion")?.as_str()?,
            manifest.get("kind")?.as_str()?,
        );
        ALL.iter()
            .copied()
            .find(|it| it.kind == kind && it.api_version() == api_version)
    }
}

const OLM: &str = "operators.coreos.com";
const OLM_V1: &str = "olm.operatorframework.io";
const RBAC: &str = "rbac.authorization.k8s.io";

pub const CATALOG_SOURCE: Kind = Kind::namespaced(OLM, "v1alpha1", "CatalogSource", "catalogsources");
pub const CSV: Kind = Kind::namespaced(OLM, "v1alpha1", "ClusterServiceVersion", "clusterserviceversions");
pub const INSTALL_PLAN: Kind = Kind::namespaced(OLM, "v1alpha1", "InstallPlan", "installplans");
pub const OPERATOR: Kind = Kind::cluster(OLM, "v1", "Operator", "operators");
pub const OPERATOR_CONDITION: Kind = Kind::namespaced(OLM, "v2", "OperatorCondition", "operatorconditions");
pub const OPERATOR_GROUP: Kind = Kind::namespaced(OLM, "v1", "OperatorGroup", "operatorgroups");
pub const SUBSCRIPTION: Kind = Kind::namespaced(OLM, "v1alpha1", "Subscription", "subscriptions");

pub const CLUSTER_CATALOG: Kind = Kind::cluster(OLM_V1, "v1", "ClusterCatalog", "clustercatalogs");
pub const CLUSTER_EXTENSION: Kind = Kind::cluster(OLM_V1, "v1", "ClusterExtension", "clusterextensions");

pub const MY_PROXY_V1ALPHA1: Kind = Kind::namespaced("roadstead.dev", "v1alpha1", "MyProxy", "myproxies");
pub const MY_PROXY: Kind = Kind::namespaced("roadstead.dev", "v1", "MyProxy", "myproxies");
pub const DATABASE: Kind = Kind::namespaced("roadstead.dev", "v1", "Database", "databases");
pub const GREETING: Kind = Kind::namespaced("roadstead.dev", "v1alpha1", "Greeting", "greetings");
pub const PERSON: Kind = Kind::namespaced("roadstead.dev", "v1alpha1", "Person", "people");

pub const CONFIG_MAP: Kind = Kind::namespaced("", "v1", "ConfigMap", "configmaps");
pub const DEPLOYMENT: Kind = Kind::namespaced("apps", "v1", "Deployment", "deployments");
pub const JOB: Kind = Kind::namespaced("batch", "v1", "Job", "jobs");
pub const LEASE: Kind = Kind::namespaced("coordination.k8s.io", "v1", "Lease", "leases");
pub const NAMESPACE: Kind = Kind::cluster("", "v1", "Namespace", "namespaces");
pub const POD: Kind = Kind::namespaced("", "v1", "Pod", "pods");
pub const PV: Kind = Kind::cluster("", "v1", "PersistentVolume", "persistentvolumes");
pub const PVC: Kind = Kind::namespaced("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
pub const STORAGE_CLASS: Kind = Kind::cluster("storage.k8s.io", "v1", "StorageClass", "storageclasses");
pub const PDB: Kind = Kind::namespaced("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets");
pub const REPLICA_SET: Kind = Kind::namespaced("apps", "v1", "ReplicaSet", "replicasets");
pub const SECRET: Kind = Kind::namespaced("", "v1", "Secret", "secrets");
pub const SERVICE: Kind = Kind::namespaced("", "v1", "Service", "services");
pub const SERVICE_ACCOUNT: Kind = Kind::namespaced("", "v1", "ServiceAccount", "serviceaccounts");
pub const ROLE: Kind = Kind::namespaced(RBAC, "v1", "Role", "roles");
pub const ROLE_BINDING: Kind = Kind::namespaced(RBAC, "v1", "RoleBinding", "rolebindings");
pub const CLUSTER_ROLE: Kind = Kind::cluster(RBAC, "v1", "ClusterRole", "clusterroles");
pub const CLUSTER_ROLE_BINDING: Kind = Kind::cluster(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings");
pub const CRD: Kind = Kind::cluster(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
);
pub const VALIDATING_WEBHOOK: Kind = Kind::cluster(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
);
pub const MUTATING_WEBHOOK: Kind = Kind::cluster(
    "admissionregistration.k8s.io",
    "v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
);

/// Every kind that the tests create or that an installation may leave behind.
pub const ALL: &[Kind] = &[
    CATALOG_SOURCE,
    CSV,
    INSTALL_PLAN,
    OPERATOR,
    OPERATOR_CONDITION,
    OPERATOR_GROUP,
    SUBSCRIPTION,
    CLUSTER_CATALOG,
    CLUSTER_EXTENSION,
    MY_PROXY_V1ALPHA1,
    MY_PROXY,
    DATABASE,
    GREETING,
    PERSON,
    CONFIG_MAP,
    DEPLOYMENT,
    JOB,
    LEASE,
    NAMESPACE,
    POD,
    PV,
    STORAGE_CLASS,
    PDB,
    REPLICA_SET,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    ROLE,
    ROLE_BINDING,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CRD,
    VALIDATING_WEBHOOK,
    MUTATING_WEBHOOK,
];

/// The text at a JSON pointer such as `/status/phase`; empty when there is none.
pub fn text<'a>(object: &'a DynamicObject, pointer: &str) -> &'a str {
    object
        .data
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The status of a condition (`True`, `False`, `Unknown`), its reason and its message; empty when it is not there.
pub fn condition<'a>(object: &'a DynamicObject, kind: &str) -> Condition<'a> {
    let found = object
        .data
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .and_then(|all| all.iter().find(|it| it["type"] == kind));
    let field = |name: &str| found.and_then(|it| it[name].as_str()).unwrap_or_default();
    Condition {
        status: field("status"),
        reason: field("reason"),
        message: field("message"),
    }
}

/// One entry of `status.conditions`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition<'a> {
    pub status: &'a str,
    pub reason: &'a str,
    pub message: &'a str,
}

/// The names of the objects, sorted.
pub fn names(objects: &[DynamicObject]) -> Vec<String> {
    let mut names: Vec<String> = objects.iter().filter_map(|it| it.metadata.name.clone()).collect();
    names.sort();
    names
}

/// A field of the first container of a Deployment's pods, such as `/image`.
pub fn container_field<'a>(deployment: &'a DynamicObject, pointer: &str) -> Option<&'a Value> {
    deployment
        .data
        .pointer("/spec/template/spec/containers/0")?
        .pointer(pointer)
}
