//! The rules of a Database that its schema cannot say, and again those that it can: an object may have been stored before
//! a rule existed, or by an API server that does not know it.
//!
//! [`validate`] is the only way to a [`ValidDatabase`], and nothing else is rendered, so a string that could end a quote, a line
//! or an option never reaches a configuration, a statement or a command.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;

use super::limits::{
    MAX_CONNECTIONS, MAX_DATABASES, MAX_EXTENSIONS, MAX_INSTANCES, MAX_LAG, MAX_LEASE, MAX_MEMBER_OF,
    MAX_PARAMETERS, MAX_USERS, MIN_LEASE, MIN_MEMORY, MIN_STORAGE,
};
use super::names::{
    EXTENSION, EXTENSION_VERSION, IDENTIFIER, NAME, PREDEFINED_ROLES, SECRET, UNRESERVED, VERSION,
    is_database_name, is_extension, is_extension_version, is_identifier, is_reserved, major,
};
use super::v1::{Database, DatabaseSpec, Extension, Storage, Synchronous, Tls, User};
use super::valid::{ValidDatabase, ValidLogicalDatabase, ValidStorage};
use super::{cron, parameters};
use crate::api::placement::check_placement;
use crate::api::problem::{Found, Problems};
use crate::api::quantity::{self, nanos};
use crate::api::reference::check_key;
use crate::api::resources::Resources;
use crate::api::rules::{check_quantities, is_dns_name, is_image};

/// What is accepted, in words. `%s` stands for something of the object.
pub(super) mod expected {
    pub const SAME_MAJOR: &str =
        "of major version %s as before: changing the major version is not supported yet";
    pub const STORAGE: &str = "a whole number of bytes of at least 256Mi, such as 10Gi";
    pub const NOT_SMALLER: &str = "at least %s: volumes can grow, and never shrink";
    pub const SAME_CLASS: &str = "\"%s\" as before: a volume stays in its storage class";
    pub const LAG: &str = "a whole number of bytes from 0 to 1Gi, such as 1Mi";
    pub const OTHER_USER: &str = "unlike the object's own name: the operator makes that user, and its Secret";
    pub const OWNER: &str =
        "the name of one of spec.users, or left out in the database of the object's own name";
    pub const GROUP: &str = "another of spec.users, the object's own name, or a role of PostgreSQL such as pg_monitor that leads to no files or programs";
    pub const STANDBYS: &str =
        "off or preferred where there is one instance only: nothing could confirm a commit";
    pub const CREATE_ROLE: &str =
        "false below PostgreSQL 16: who may create users there may make himself a superuser";
    pub const WITHIN_LIMIT: &str = "at most the limit, which is %s";
    pub const CERTIFICATE: &str = "left out where spec.tls.enabled is false";
    pub const TLS: &str = "false where spec.tls.enabled is false";
}

/// The first major version in which whoever may create roles cannot give himself those of PostgreSQL: `pg_execute_server_program` of them starts programs
/// as the user of the system that is the superuser.
const CREATE_ROLE_SINCE: u32 = 16;
/// Names of what containers can be given.
const RESOURCES: [&str; 5] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "hugepages-1Gi",
    "hugepages-2Mi",
];

/// Checks a database and gives the form from which its objects are built.
///
/// # Errors
/// Every problem found, not only the first.
pub fn validate(database: &Database) -> Result<ValidDatabase, Problems> {
    let mut found = Found::default();
    let spec = &database.spec;
    let name = database.name_any();
    found.expect(is_database_name(&name), "metadata.name", &name, NAME);
    found.expect(!is_reserved(&name), "metadata.name", &name, UNRESERVED);
    let major = major(&spec.version);
    found.expect(major.is_some(), "spec.version", &spec.version, VERSION);
    if let Some(image) = &spec.image {
        let expected = "an image reference such as postgres:17";
        found.expect(is_image(image), "spec.image", image, expected);
    }
    let instances = check_instances(&mut found, spec);
    let resources = check_resources(&mut found, spec);
    let storage = check_storage(&mut found, &spec.storage);
    check_parameters(&mut found, &spec.parameters, &resources, major);
    let maximum_lag = check_lag(&mut found, &spec.maximum_lag_on_failover);
    let lease = check_lease(&mut found, spec.lease_duration_seconds);
    check_users(&mut found, &name, &spec.users, major);
    let databases = check_databases(&mut found, &name, spec);
    check_tls(&mut found, &spec.tls);
    check_placement(&mut found, "spec.placement", &spec.placement);
    found.expect(
        cron::is_schedule(&spec.backup.schedule),
        "spec.backup.schedule",
        &spec.backup.schedule,
        cron::SCHEDULE,
    );
    found.done()?;
    Ok(ValidDatabase {
        namespace: database.namespace().unwrap_or_default(),
        name,
        version: spec.version.clone(),
        major: major.unwrap_or_default(),
        image: spec.image.clone(),
        instances,
        resources,
        storage,
        parameters: spec.parameters.clone(),
        synchronous: spec.synchronous,
        maximum_lag,
        lease,
        users: spec.users.clone(),
        databases,
        tls: spec.tls.clone(),
        placement: spec.placement.clone(),
        backup_schedule: spec.backup.enabled.then(|| spec.backup.schedule.clone()),
        restarted_at: database.annotations().get(super::RESTARTED_AT).cloned(),
        paused: spec.paused,
        created: database.creation_timestamp().map(|made| made.0),
    })
}

/// Checks what becomes of a database: what its volumes cannot follow, and what is not supported yet. The new one is to be checked by
/// [`validate`] besides; what that refuses is not compared here.
///
/// # Errors
/// Every problem found, not only the first.
pub fn validate_update(old: &Database, new: &Database) -> Result<(), Problems> {
    let mut found = Found::default();
    let (before, after) = (&old.spec, &new.spec);
    if let (Some(was), Some(is)) = (major(&before.version), major(&after.version)) {
        let expected = expected::SAME_MAJOR.replace("%s", &was.to_string());
        found.expect(was == is, "spec.version", &after.version, &expected);
    }
    let (before, after) = (&before.storage, &after.storage);
    // What was asked for and did not come about can be taken back.
    let has = old.status.as_ref().and_then(|status| status.volume_size.clone());
    let sizes = has.map(Quantity).into_iter().chain([before.size.clone()]);
    let least = sizes.filter(|size| bytes(size).is_some()).min_by_key(bytes);
    if let Some(least) = least
        && let (Some(was), Some(is)) = (bytes(&least), bytes(&after.size))
    {
        let expected = expected::NOT_SMALLER.replace("%s", &least.0);
        found.expect(is >= was, "spec.storage.size", &after.size.0, &expected);
    }
    let class = |storage: &Storage| storage.storage_class_name.clone().unwrap_or_default();
    let expected = expected::SAME_CLASS.replace("%s", &class(before));
    found.expect(
        before.storage_class_name == after.storage_class_name,
        "spec.storage.storageClassName",
        class(after),
        &expected,
    );
    found.done()
}

/// A quantity in whole bytes, up to the 8Ei that the API has numbers for.
fn bytes(quantity: &Quantity) -> Option<u64> {
    quantity::bytes(&quantity.0).filter(|bytes| i64::try_from(*bytes).is_ok())
}

fn check_instances(found: &mut Found, spec: &DatabaseSpec) -> i32 {
    let instances = spec.instances.unwrap_or(spec.size.instances());
    found.expect(
        (1..=MAX_INSTANCES).contains(&instances),
        "spec.instances",
        instances,
        "1 to 9",
    );
    found.expect(
        spec.synchronous != Synchronous::Required || instances >= 2,
        "spec.synchronous",
        "required",
        expected::STANDBYS,
    );
    instances
}

fn check_lease(found: &mut Found, seconds: i32) -> u32 {
    let field = "spec.leaseDurationSeconds";
    found.expect(
        (MIN_LEASE..=MAX_LEASE).contains(&seconds),
        field,
        seconds,
        "6 to 60",
    );
    u32::try_from(seconds).unwrap_or_default()
}

/// The size's resources with the author's instead, where there are any. A default request gives way to a limit below it.
fn check_resources(found: &mut Found, spec: &DatabaseSpec) -> Resources {
    let said = spec.resources.clone().unwrap_or_default();
    for (field, quantities) in [("requests", &said.requests), ("limits", &said.limits)] {
        let field = format!("spec.resources.{field}");
        check_quantities(found, &field, quantities);
        for name in quantities.keys() {
            let known = RESOURCES.contains(&name.as_str());
            found.expect(
                known,
                &field,
                name,
                "cpu, memory, ephemeral-storage, hugepages-1Gi or hugepages-2Mi",
            );
        }
    }
    let mut limits = spec.size.limits();
    limits.extend(said.limits.clone());
    let mut requests = spec.size.requests();
    for (name, request) in &mut requests {
        if let Some(limit) = limits.get(name).filter(|limit| exceeds(request, limit)) {
            *request = limit.clone();
        }
    }
    requests.extend(said.requests.clone());
    if let Some(memory) = limits.get("memory") {
        let field = "spec.resources.limits.memory";
        let enough = !exceeds(&Quantity(MIN_MEMORY.to_owned()), memory);
        found.expect(
            enough,
            field,
            &memory.0,
            "at least 128Mi: PostgreSQL does not start with less",
        );
    }
    for (name, request) in &requests {
        if let Some(limit) = limits.get(name) {
            let field = format!("spec.resources.requests.{name}");
            let expected = expected::WITHIN_LIMIT.replace("%s", &limit.0);
            found.expect(!exceeds(request, limit), &field, &request.0, &expected);
        }
    }
    Resources { requests, limits }
}

/// Whether both are quantities and the first is the greater.
fn exceeds(quantity: &Quantity, other: &Quantity) -> bool {
    matches!((nanos(&quantity.0), nanos(&other.0)), (Some(quantity), Some(other)) if quantity > other)
}

fn check_storage(found: &mut Found, storage: &Storage) -> ValidStorage {
    let least = bytes(&Quantity(MIN_STORAGE.to_owned()));
    let size = bytes(&storage.size);
    found.expect(
        size.is_some() && size >= least,
        "spec.storage.size",
        &storage.size.0,
        expected::STORAGE,
    );
    if let Some(class) = &storage.storage_class_name {
        let expected = "the name of a StorageClass";
        found.expect(
            is_dns_name(class),
            "spec.storage.storageClassName",
            class,
            expected,
        );
    }
    ValidStorage {
        size: storage.size.clone(),
        bytes: size.unwrap_or_default(),
        class: storage.storage_class_name.clone(),
        when_deleted: storage.when_deleted,
    }
}

fn check_lag(found: &mut Found, lag: &Quantity) -> u64 {
    let most = bytes(&Quantity(MAX_LAG.to_owned()));
    let size = bytes(lag);
    found.expect(
        size.is_some() && size <= most,
        "spec.maximumLagOnFailover",
        &lag.0,
        expected::LAG,
    );
    size.unwrap_or_default()
}

fn check_parameters(
    found: &mut Found,
    parameters: &BTreeMap<String, String>,
    resources: &Resources,
    major: Option<u32>,
) {
    let limits = &resources.limits;
    let is_huge = |(name, limit): (&String, &Quantity)| {
        name.starts_with("hugepages-") && bytes(limit).is_some_and(|bytes| bytes > 0)
    };
    let room = parameters::Room {
        memory: limits.get("memory").and_then(bytes),
        huge_pages: limits.iter().any(is_huge),
    };
    found.expect(
        parameters.len() <= MAX_PARAMETERS,
        "spec.parameters",
        format!("a map of {}", parameters.len()),
        "at most 100 settings",
    );
    for (name, value) in parameters.iter().take(MAX_PARAMETERS) {
        if !parameters::is_name(name) && !parameters::is_owned(name) {
            found.expect(false, "spec.parameters", name, parameters::NAME);
            continue;
        }
        let field = format!("spec.parameters.{name}");
        let owned = parameters::is_owned(name);
        found.expect(!owned, &field, value, parameters::LEFT_OUT);
        if let Some(expected) = parameters::unknown(name, major).filter(|_| !owned) {
            found.expect(false, "spec.parameters", name, &expected);
        }
        found.expect(parameters::is_value(value), &field, value, parameters::VALUE);
        if let Some(expected) = parameters::objection(name, value, room) {
            found.expect(false, &field, value, &expected);
        }
    }
}

/// A name in a list: well-formed, free, and the only one.
fn check_name<'a>(
    found: &mut Found,
    field: &str,
    name: &'a str,
    taken: &mut BTreeSet<&'a str>,
    others: &str,
) {
    found.expect(is_identifier(name), field, name, IDENTIFIER);
    found.expect(!is_reserved(name), field, name, UNRESERVED);
    let expected = format!("unlike the names of the other {others}");
    found.expect(taken.insert(name), field, name, &expected);
}

fn check_users(found: &mut Found, own: &str, users: &[User], major: Option<u32>) {
    found.expect(
        users.len() <= MAX_USERS,
        "spec.users",
        format!("a list of {}", users.len()),
        "at most 64 users",
    );
    let users = &users[..users.len().min(MAX_USERS)];
    let names: BTreeSet<_> = users.iter().map(|user| user.name.as_str()).collect();
    let circle = in_a_circle(users);
    let mut taken = BTreeSet::new();
    for (i, user) in users.iter().enumerate() {
        let field = format!("spec.users[{i}]");
        check_name(found, &format!("{field}.name"), &user.name, &mut taken, "users");
        found.expect(
            user.name != own,
            &format!("{field}.name"),
            &user.name,
            expected::OTHER_USER,
        );
        if let Some(secret) = &user.password_secret {
            let field = format!("{field}.passwordSecret");
            check_key(found, &field, secret, "Secret");
        }
        if let Some(limit) = user.connection_limit {
            let fits = (0..=MAX_CONNECTIONS).contains(&limit);
            found.expect(fits, &format!("{field}.connectionLimit"), limit, "0 to 262143");
        }
        found.expect(
            !user.create_role || major.is_none_or(|major| major >= CREATE_ROLE_SINCE),
            &format!("{field}.createRole"),
            user.create_role,
            expected::CREATE_ROLE,
        );
        let field = format!("{field}.memberOf");
        found.expect(
            user.member_of.len() <= MAX_MEMBER_OF,
            &field,
            format!("a list of {}", user.member_of.len()),
            "at most 16 roles",
        );
        for role in user.member_of.iter().take(MAX_MEMBER_OF) {
            let known =
                role == own || names.contains(role.as_str()) || PREDEFINED_ROLES.contains(&role.as_str());
            found.expect(known && *role != user.name, &field, role, expected::GROUP);
        }
        let members = user.member_of.join(", ");
        found.expect(
            !circle.contains(user.name.as_str()),
            &field,
            members,
            "without circles: no user is a member of itself by way of others",
        );
    }
}

/// Users that are members of each other in a circle, or of one that is; a user that names itself is not looked at.
fn in_a_circle(users: &[User]) -> BTreeSet<&str> {
    let mut left: BTreeSet<&str> = users.iter().map(|user| user.name.as_str()).collect();
    loop {
        let leads_on = |user: &&User| {
            user.member_of
                .iter()
                .any(|role| *role != user.name && left.contains(role.as_str()))
        };
        let next: BTreeSet<&str> = users
            .iter()
            .filter(|user| left.contains(user.name.as_str()))
            .filter(leads_on)
            .map(|user| user.name.as_str())
            .collect();
        if next.len() == left.len() {
            return left;
        }
        left = next;
    }
}

fn check_databases(found: &mut Found, own: &str, spec: &DatabaseSpec) -> Vec<ValidLogicalDatabase> {
    let databases = &spec.databases;
    found.expect(
        databases.len() <= MAX_DATABASES,
        "spec.databases",
        format!("a list of {}", databases.len()),
        "at most 32 databases",
    );
    let mut valid = vec![ValidLogicalDatabase {
        name: own.to_owned(),
        owner: own.to_owned(),
        extensions: Vec::new(),
    }];
    let mut taken = BTreeSet::new();
    for (i, database) in databases.iter().take(MAX_DATABASES).enumerate() {
        let field = format!("spec.databases[{i}]");
        check_name(
            found,
            &format!("{field}.name"),
            &database.name,
            &mut taken,
            "databases",
        );
        let owner = database.owner.as_deref().unwrap_or(own);
        let is_user = spec.users.iter().any(|user| user.name == owner);
        found.expect(
            owner == own || is_user && database.name != own,
            &format!("{field}.owner"),
            owner,
            expected::OWNER,
        );
        check_extensions(found, &format!("{field}.extensions"), &database.extensions);
        if database.name == own {
            valid[0].extensions.clone_from(&database.extensions);
        } else {
            valid.push(ValidLogicalDatabase {
                name: database.name.clone(),
                owner: owner.to_owned(),
                extensions: database.extensions.clone(),
            });
        }
    }
    valid
}

fn check_extensions(found: &mut Found, field: &str, extensions: &[Extension]) {
    found.expect(
        extensions.len() <= MAX_EXTENSIONS,
        field,
        format!("a list of {}", extensions.len()),
        "at most 32 extensions",
    );
    let mut taken = BTreeSet::new();
    for (i, extension) in extensions.iter().take(MAX_EXTENSIONS).enumerate() {
        let field = format!("{field}[{i}]");
        let name = &extension.name;
        found.expect(is_extension(name), &format!("{field}.name"), name, EXTENSION);
        found.expect(
            taken.insert(name),
            &format!("{field}.name"),
            name,
            "unlike the names of the other extensions",
        );
        if let Some(version) = &extension.version {
            let fits = is_extension_version(version);
            found.expect(fits, &format!("{field}.version"), version, EXTENSION_VERSION);
        }
    }
}

fn check_tls(found: &mut Found, tls: &Tls) {
    if let Some(secret) = &tls.certificate_secret {
        let field = "spec.tls.certificateSecret";
        found.expect(is_dns_name(secret), field, secret, SECRET);
        found.expect(tls.enabled, field, secret, expected::CERTIFICATE);
    }
    found.expect(
        tls.enabled || !tls.required,
        "spec.tls.required",
        tls.required,
        expected::TLS,
    );
}

#[cfg(test)]
#[path = "any_text_tests.rs"]
mod any_text_tests;
#[cfg(test)]
#[path = "content_tests.rs"]
mod content_tests;
#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
