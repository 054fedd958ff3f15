//! The ConfigMap with what the operator has decided for all instances.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;

use super::{Decided, Owner, names};
use crate::api::database::agent::{Extension, LogicalDatabase, Member, SETTINGS, Settings, Timing, User};
use crate::api::database::v1;
use crate::api::database::{ValidDatabase, ValidLogicalDatabase};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The settings of all members.
pub fn settings(database: &ValidDatabase, decided: &Decided, cluster_domain: &str) -> Settings {
    let member = |ordinal| {
        let name = names::pod(&database.name, ordinal);
        let host = names::instance_host(&database.name, &name, &database.namespace, cluster_domain);
        Member { name, host }
    };
    let mut parameters = by_size(database.memory(), decided.room);
    parameters.extend(database.parameters.clone());
    Settings {
        database: database.name.clone(),
        namespace: database.namespace.clone(),
        major: database.major,
        members: (0..decided.members).map(member).collect(),
        parameters,
        synchronous: database.synchronous,
        maximum_lag: database.maximum_lag,
        system_identifier: decided.system_identifier.clone(),
        retained: decided.retained.clone(),
        tls: database.tls.enabled,
        tls_required: database.tls.required,
        timing: Timing::of(database.lease),
        excused: decided.excused.clone(),
        excused_until: decided.excused_until,
        users: database.users.iter().map(user).collect(),
        databases: database.databases.iter().map(logical).collect(),
    }
}

fn user(user: &v1::User) -> User {
    User {
        name: user.name.clone(),
        password_secret: user.password_secret.clone(),
        login: user.login,
        create_database: user.create_database,
        create_role: user.create_role,
        member_of: user.member_of.clone(),
        connection_limit: user.connection_limit,
    }
}

fn logical(database: &ValidLogicalDatabase) -> LogicalDatabase {
    let extension = |extension: &v1::Extension| Extension {
        name: extension.name.clone(),
        version: extension.version.clone(),
    };
    LogicalDatabase {
        name: database.name.clone(),
        owner: database.owner.clone(),
        extensions: database.extensions.iter().map(extension).collect(),
    }
}

/// The file as instances read it.
///
/// # Errors
/// None that could be thought of; the library has one.
pub fn file(settings: &Settings) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(settings)
}

/// The ConfigMap with this file.
pub fn config_map(owner: &Owner<'_>, file: String) -> ConfigMap {
    ConfigMap {
        metadata: owner.metadata(names::settings(owner.name())),
        data: Some([(SETTINGS.to_owned(), file)].into()),
        ..ConfigMap::default()
    }
}

/// What is in the file of a ConfigMap, if it can be read.
pub fn read(config_map: &ConfigMap) -> Option<Settings> {
    serde_json::from_str(config_map.data.as_ref()?.get(SETTINGS)?).ok()
}

/// What depends on how much memory and disk there is; PostgreSQL's own defaults are for a machine of 1998 with a disk that is never full.
fn by_size(memory: Option<u64>, volume: u64) -> BTreeMap<String, String> {
    let mut parameters = vec![
        // Said, since a replica must not have fewer than its primary.
        ("max_connections", "100".to_owned()),
        // WAL between two checkpoints. A small volume must have room for data too.
        ("max_wal_size", size((volume / 8).clamp(80 * MIB, GIB))),
        // WAL before that, for replicas that were away: they use no slots. One that is gone for longer costs a new copy, and not the volume of its primary;
        // and whatever is written while that copy is made has to be there still when it is done.
        ("wal_keep_size", size((volume / 8).clamp(32 * MIB, 16 * GIB))),
        // The same for slots that somebody else makes.
        ("max_slot_wal_keep_size", size((volume / 5).max(80 * MIB))),
    ];
    if let Some(memory) = memory {
        parameters.extend([
            // A quarter, as PostgreSQL's manual says; the rest is for connections and for the kernel's cache, which counts to the container.
            ("shared_buffers", size(memory / 4)),
            ("effective_cache_size", size(memory / 4 * 3)),
            // Three of autovacuum and an index may take it at once.
            ("maintenance_work_mem", size((memory / 16).clamp(8 * MIB, GIB))),
        ]);
    }
    parameters
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// As PostgreSQL writes sizes.
fn size(bytes: u64) -> String {
    if bytes.is_multiple_of(MIB) {
        format!("{}MB", bytes / MIB)
    } else {
        format!("{}kB", bytes / KIB)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::controllers::database::testing::{database, decided, valid};

    #[rstest]
    #[case::smallest(Some(128 * MIB), 256 * MIB, ["32MB", "96MB", "8MB", "80MB", "32MB", "80MB"])]
    #[case::small(Some(512 * MIB), 10 * GIB, ["128MB", "384MB", "32MB", "1024MB", "1280MB", "2048MB"])]
    #[case::odd(Some(1_000_000_000), 10 * GIB, ["244140kB", "732421kB", "61035kB", "1024MB", "1280MB", "2048MB"])]
    #[case::huge(Some(256 * GIB), 1024 * GIB, ["65536MB", "196608MB", "1024MB", "1024MB", "16384MB", "214748364kB"])]
    fn memory_and_disk_are_used_and_not_overdrawn(
        #[case] memory: Option<u64>,
        #[case] volume: u64,
        #[case] expected: [&str; 6],
    ) {
        let parameters = by_size(memory, volume);
        let names = [
            "shared_buffers",
            "effective_cache_size",
            "maintenance_work_mem",
            "max_wal_size",
            "wal_keep_size",
            "max_slot_wal_keep_size",
        ];
        let found = names.map(|name| parameters[name].as_str());
        assert_eq!(found, expected);
    }

    #[rstest]
    #[case(256 * MIB)]
    #[case(GIB)]
    #[case(10 * GIB)]
    fn the_log_leaves_most_of_a_volume_to_data(#[case] volume: u64) {
        let parameters = by_size(None, volume);
        let megabytes = |name: &str| {
            let value = parameters[name].strip_suffix("MB").unwrap();
            value.parse::<u64>().unwrap() * MIB
        };
        let log = megabytes("max_wal_size") + megabytes("wal_keep_size");
        assert!(log * 2 < volume, "{log} of {volume}");
    }

    #[test]
    fn what_the_author_says_of_the_log_goes_before() {
        let database = database("orders", json!({"parameters": {"wal_keep_size": "1GB"}}));
        let valid = valid(&database);
        let told = settings(&valid, &decided(&valid), "cluster.local");
        assert_eq!(told.parameters["wal_keep_size"], "1GB");
    }
}
