//! How much a cluster may ask for, and what it may not set: in the schema, which the API server goes by, and in [`super::validate`],
//! which does not trust that.

use kube::core::{Message, Rule};

use crate::api::settings::Names;

/// The longest name of a cluster, in bytes: NAME-coordinator-service is the name of a Service, at most 63 bytes long.
pub const MAX_NAME: usize = 43;
/// The longest version, in bytes.
pub const MAX_VERSION: usize = 40;
/// What a version looks like, in a schema: it is also a tag of an image.
pub const VERSION_PATTERN: &str = r"^[0-9]+([.-][A-Za-z0-9]+)*$";
/// Workers of a cluster.
pub const MAX_WORKERS: i32 = 1000;
/// Workers when the author does not say.
pub const DEFAULT_WORKERS: i32 = 1;
/// Catalogs of a cluster.
pub const MAX_CATALOGS: usize = 64;
/// The longest name of a catalog or a connector, in bytes.
pub const MAX_CATALOG_NAME: usize = 63;
/// Folders of an exchange.
pub const MAX_FOLDERS: usize = 16;
/// What a folder of an exchange looks like, in a schema: a URL or an absolute path.
pub(super) const FOLDER_PATTERN: &str = r"^([a-z][a-z0-9]*:/)?/[A-Za-z0-9._~:/@-]+$";
/// What the name of a catalog or a connector looks like, in a schema.
pub(super) const CATALOG_PATTERN: &str = r"^[a-z][a-z0-9_-]*$";
/// The memory limit of a pod when the author does not say.
pub const DEFAULT_MEMORY: &str = "4Gi";
/// The least memory limit: what Trino takes beside the heap does not fit into less.
pub const MIN_MEMORY: &str = "512Mi";
/// The share of the memory limit that is heap when the author does not say, in percent.
pub const DEFAULT_HEAP: i32 = 80;
/// The least share of the memory limit that is heap, in percent.
pub const MIN_HEAP: i32 = 25;
/// The greatest share of the memory limit that is heap, in percent.
pub const MAX_HEAP: i32 = 90;
/// The greatest `queriesPerWorker`.
pub const MAX_QUERIES: i32 = 1000;
/// `queriesPerWorker` when the author does not say.
pub const DEFAULT_QUERIES: i32 = 4;
/// `coolDownSeconds` when the author does not say.
pub const DEFAULT_COOL_DOWN: i32 = 300;
/// `gracePeriodSeconds` when the author does not say.
pub const DEFAULT_GRACE: i32 = 30;
/// The greatest `gracePeriodSeconds`.
pub const MAX_GRACE: i32 = 3600;
/// `drainTimeoutSeconds` when the author does not say.
pub const DEFAULT_DRAIN: i32 = 3600;
/// The seconds of a day, the longest of all other times.
pub const DAY: i32 = 86_400;

/// What a name may be, in words.
pub(super) const NAME: &str = "a DNS label of at most 43 of a-z, 0-9 and '-', beginning with a letter and not ending in '-', since its Service is NAME-coordinator-service";
/// What a version may be, in words.
pub(super) const VERSION: &str = "a version of Trino such as 435: at most 40 characters, numbers first";

/// Ends of the names of properties that hold secrets, by Trino's own properties and those of its connectors.
const SECRET: &[&str] = &[
    "access-key",
    "account-key",
    "api-key",
    "credential",
    "credentials",
    "credentials-key",
    "json-key",
    "passphrase",
    "password",
    "private-key",
    "sas-key",
    "secret",
    "secret-key",
    "token",
];

/// Properties of a catalog that the operator sets.
pub(super) const OWNED_CATALOG: Names = Names {
    exact: &["connector.name"],
    prefixes: &[],
    suffixes: &[],
    because: "the operator sets it from connector; accepted are other properties of the connector",
};
/// Properties that would put a secret where everybody reads it.
pub(super) const SECRETS: Names = Names {
    exact: &[],
    prefixes: &[],
    suffixes: SECRET,
    because: "it holds a secret, which a ConfigMap would show; accepted is the same name in secretProperties, with the Secret and its key",
};
/// The same where nothing takes a Secret.
pub(super) const SECRETS_OF_A_FILE: Names = Names {
    because: "it holds a secret, which a ConfigMap would show; accepted are properties without secrets",
    ..SECRETS
};
/// Properties of config.properties that the operator sets.
pub(super) const OWNED_CONFIG: Names = Names {
    exact: &[
        "access-control.config-files",
        "catalog.config-dir",
        "catalog.management",
        "coordinator",
        "discovery-server.enabled",
        "discovery.uri",
        "http-server.authentication.allow-insecure-over-http",
        "http-server.authentication.type",
        "log.levels-file",
        "node-scheduler.include-coordinator",
        "password-authenticator.config-files",
        "plugin.dir",
        "retry-policy",
        "shutdown.grace-period",
        "spill-enabled",
        "spiller-spill-path",
    ],
    prefixes: &[
        "http-server.http.",
        "http-server.https.",
        "internal-communication.",
        "node.",
    ],
    suffixes: &[],
    because: "the operator sets it; accepted are other properties of config.properties, such as query.max-memory",
};
/// Properties of node.properties that the operator sets.
pub(super) const OWNED_NODE: Names = Names {
    exact: &[
        "catalog.config-dir",
        "node.bind-ip",
        "node.data-dir",
        "node.environment",
        "node.external-address",
        "node.id",
        "node.internal-address",
        "node.internal-address-source",
        "node.launcher-log-file",
        "node.server-log-file",
        "plugin.dir",
    ],
    prefixes: &[],
    suffixes: &[],
    because: "the operator sets it; accepted are other properties of node.properties",
};
/// Properties of exchange-manager.properties that the operator sets.
pub(super) const OWNED_EXCHANGE: Names = Names {
    exact: &["exchange-manager.name", "exchange.base-directories"],
    prefixes: &[],
    suffixes: &[],
    because: "the operator sets it, from baseDirectories; accepted are other properties of the filesystem exchange",
};
/// Arguments of the JVM that the operator gives, or that run something else.
pub(super) const OWNED_JVM: Names = Names {
    exact: &[],
    prefixes: &[
        "-Dcatalog.",
        "-Dconfig",
        "-Djdk.attach.allowAttachSelf",
        "-Dlog.levels-file",
        "-Dnode.",
        "-Dplugin.dir",
        "-XX:+ExitOnOutOfMemoryError",
        "-XX:-ExitOnOutOfMemoryError",
        "-XX:Flags",
        "-XX:InitialHeapSize",
        "-XX:InitialRAM",
        "-XX:MaxHeapSize",
        "-XX:MaxRAM",
        "-XX:MinRAM",
        "-XX:OnError",
        "-XX:OnOutOfMemoryError",
        "-XX:VMOptionsFile",
        "-Xms",
        "-Xmx",
    ],
    suffixes: &[],
    because: "the operator gives it, the heap by heapPercent; accepted are other arguments, such as -XX:+UseG1GC",
};

/// For the schema of both versions: a name that fits.
pub(super) fn name_rule() -> Rule {
    Rule::new(format!(
        "self.metadata.name.size() <= {MAX_NAME} && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')"
    ))
    .message(Message::Expression(format!(
        "'metadata.name is %s; it must be {}'.format([self.metadata.name])",
        NAME.replace('\'', "")
    )))
}

/// For the schema of a pod's resources: a limit of memory, from which the heap follows.
pub(super) fn memory_rule() -> Rule {
    let memory = "string(self.limits['memory'])";
    Rule::new(format!(
        "has(self.limits) && 'memory' in self.limits && (!isQuantity({memory}) || quantity({memory}).compareTo(quantity('{MIN_MEMORY}')) >= 0)"
    ))
    .message(Message::Expression(format!(
        "'limits.memory is %s; it must be at least {MIN_MEMORY}, for the heap is a share of it'.format([has(self.limits) && 'memory' in self.limits ? {memory} : 'left out'])"
    )))
}

/// For the schema of a map: no value takes anything from the environment, where secrets are.
pub(super) fn no_references() -> Rule {
    Rule::new("!self.exists(name, self[name].contains('${'))").message(Message::Expression(
        "'%s: the value has a reference like ${ENV:NAME}; it must be the value itself'.format([self.filter(name, self[name].contains('${'))])".into(),
    ))
}
