//! What [`super::validate`] leads to.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::v1::{Extension, Synchronous, Tls, User};
use crate::api::placement::Placement;
use crate::api::quantity;
use crate::api::resources::Resources;
use crate::api::retention::Retention;

/// A database whose every string is safe in PostgreSQL's configuration, between the quotes of a statement and in the names of Kubernetes
/// objects, and in which nothing is left to a default.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidDatabase {
    /// The object's name: also that of its primary's Service, of a database and of the owner's role. At most 52 characters.
    pub name: String,
    /// The object's namespace.
    pub namespace: String,
    /// As the author wrote it: `MAJOR` or `MAJOR.MINOR`.
    pub version: String,
    /// The major version.
    pub major: u32,
    /// The image that the author chose, if any.
    pub image: Option<String>,
    /// Instances wanted, the primary among them: 1 to 9.
    pub instances: i32,
    /// CPU and memory of each instance: the size's, with what the author said instead. No request is above its limit.
    pub resources: Resources,
    /// The volume of each instance.
    pub storage: ValidStorage,
    /// The author's settings: none that the operator owns, and no value that ends its quotes or its line.
    pub parameters: BTreeMap<String, String>,
    /// Whether a commit waits for a replica. With `Required` there are at least two instances.
    pub synchronous: Synchronous,
    /// How far behind a replica may be and still take over by itself, in bytes of WAL.
    pub maximum_lag: u64,
    /// For how long a primary that fell silent keeps the Lease, in seconds: 6 to 60.
    pub lease: u32,
    /// Users besides the owner, with unique names, in the author's order.
    pub users: Vec<User>,
    /// All databases with unique names, first the one that carries the object's name, then the others in the author's order.
    pub databases: Vec<ValidLogicalDatabase>,
    /// Encryption of clients' connections.
    pub tls: Tls,
    /// Which nodes the instances run on.
    pub placement: Placement,
    /// When backups are made, as a CronJob takes it; none where they are off.
    pub backup_schedule: Option<String>,
    /// What the annotation [`super::RESTARTED_AT`] says: another text asks for another start of every instance.
    pub restarted_at: Option<String>,
    /// Whether the operator leaves the database alone.
    pub paused: bool,
    /// When the object was made; none before it is stored.
    pub created: Option<Timestamp>,
}

impl ValidDatabase {
    /// How much memory each instance may use, in bytes; none where nothing limits it.
    pub fn memory(&self) -> Option<u64> {
        quantity::bytes(&self.resources.limits.get("memory")?.0)
    }
}

/// The volume of each instance.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidStorage {
    /// As the author wrote it.
    pub size: Quantity,
    /// The same in bytes.
    pub bytes: u64,
    /// The StorageClass, if not the cluster's default.
    pub class: Option<String>,
    /// What becomes of it when the database is deleted.
    pub when_deleted: Retention,
}

/// A database inside the Database.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidLogicalDatabase {
    /// Its name.
    pub name: String,
    /// The role that owns it: a user, or the owner that carries the object's name.
    pub owner: String,
    /// Extensions with unique names, in the author's order.
    pub extensions: Vec<Extension>,
}
