//! The rules of a RedisCluster that its schema cannot say, and again those that it can: an object may have been stored before
//! a rule existed, or by an API server that does not know it.
//!
//! [`validate`] is the only way to a [`ValidRedisCluster`], and redis.conf and the list of users are rendered from nothing else, so a
//! string that could end a line or a quoted text never reaches them.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;

use super::limits::{
    MAX_NAME, MAX_NODES, MAX_REPLICAS, MAX_SHARDS, MAX_USER, MAX_USERS, NAME, OPERATOR_USER, OWNED,
    PASSWORD_MARKS, PASSWORD_RULES, SIZE, USER_RULES,
};
use super::v1::{AclUser, Auth, Exporter, RedisCluster, Storage, Tls};
use crate::api::placement::{Placement, check_placement};
use crate::api::problem::{Found, Problems};
use crate::api::quantity::{check_bytes, check_resources, nanos};
use crate::api::reference::{check_key, check_object_name};
use crate::api::resources::Resources;
use crate::api::rules::{is_image, is_label};
use crate::api::settings::{self, MAX_SETTINGS, VALUE, is_value};

const IMAGE: &str = "an image reference such as redis:7.2";
const SETTING: &str = "the name of a setting in lower case: at most 128 of letters, digits, '-' and '_'";
const USER: &str = "at most 63 of letters, digits and ._@-, beginning with a letter or a digit";

/// A cluster whose every string is safe to put into Redis' configuration and into the names of Kubernetes objects.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidRedisCluster {
    /// The object's name: also that of its StatefulSet and its Service, and short enough for what is derived from them.
    pub name: String,
    /// The object's namespace.
    pub namespace: String,
    /// 1, or 3 to 500.
    pub shards: i32,
    /// 0 to 5; with the primaries at most 1000 nodes.
    pub replicas_per_shard: i32,
    /// The image that the author chose, if any.
    pub image: Option<String>,
    /// CPU and memory, if the author said.
    pub resources: Option<Resources>,
    /// The volumes; their size is a whole number of bytes.
    pub storage: Storage,
    /// The default user's password, if it has one.
    pub auth: Option<Auth>,
    /// Users with unique names, in the author's order. Their rules hold no password.
    pub acl_users: Vec<AclUser>,
    /// The certificate, if any.
    pub tls: Option<Tls>,
    /// Settings in lower case, without those that the operator sets. A value is as it stands in redis.conf, where an empty one has to be
    /// written as two quotes; it may be several arguments.
    pub config: BTreeMap<String, String>,
    /// Where the nodes run.
    pub placement: Placement,
    /// The exporter, if any.
    pub exporter: Option<Exporter>,
    /// Whether a lost shard may be replaced by an empty one.
    pub allow_data_loss: bool,
    /// Whether to leave it alone.
    pub paused: bool,
}

/// Checks a cluster and gives the form from which its objects are built.
///
/// # Errors
/// Every problem found, not only the first.
pub fn validate(cluster: &RedisCluster) -> Result<ValidRedisCluster, Problems> {
    let mut found = Found::default();
    let spec = &cluster.spec;
    let name = cluster.name_any();
    found.expect(
        is_label(&name) && name.len() <= MAX_NAME,
        "metadata.name",
        &name,
        NAME,
    );
    check_size(&mut found, spec.size, spec.replicas_per_shard);
    if let Some(image) = &spec.image {
        found.expect(is_image(image), "spec.image", image, IMAGE);
    }
    if let Some(resources) = &spec.resources {
        check_resources(&mut found, "spec.resources", resources);
    }
    check_bytes(&mut found, "spec.storage.size", &spec.storage.size.0);
    if let Some(class) = &spec.storage.storage_class_name {
        check_object_name(
            &mut found,
            "spec.storage.storageClassName",
            class,
            "a StorageClass",
        );
    }
    if let Some(secret) = spec.auth.as_ref().and_then(|auth| auth.password_secret.as_ref()) {
        check_key(&mut found, "spec.auth.passwordSecret", secret, "Secret");
    }
    check_users(&mut found, &spec.acl_users);
    if let Some(tls) = &spec.tls {
        check_object_name(
            &mut found,
            "spec.tls.secretName",
            &tls.secret_name,
            "a Secret in the same namespace",
        );
    }
    check_config(&mut found, &spec.config);
    if let Some(placement) = &spec.placement {
        check_placement(&mut found, "spec.placement", placement);
    }
    if let Some(exporter) = &spec.exporter {
        if let Some(image) = &exporter.image {
            found.expect(is_image(image), "spec.exporter.image", image, IMAGE);
        }
        if let Some(resources) = &exporter.resources {
            check_resources(&mut found, "spec.exporter.resources", resources);
        }
    }
    found.done()?;
    Ok(ValidRedisCluster {
        namespace: cluster.namespace().unwrap_or_default(),
        name,
        shards: spec.size,
        replicas_per_shard: spec.replicas_per_shard,
        image: spec.image.clone(),
        resources: spec.resources.clone(),
        storage: spec.storage.clone(),
        auth: spec.auth.clone(),
        acl_users: spec.acl_users.clone(),
        tls: spec.tls.clone(),
        config: spec.config.clone(),
        placement: spec.placement.clone().unwrap_or_default(),
        exporter: spec.exporter.clone(),
        allow_data_loss: spec.allow_data_loss,
        paused: spec.paused,
    })
}

/// Checks what may not change. What is wrong with the new object by itself, [`validate`] says.
///
/// # Errors
/// Every problem found, not only the first.
pub fn validate_update(old: &RedisCluster, new: &RedisCluster) -> Result<(), Problems> {
    let mut found = Found::default();
    let (old, new) = (&old.spec, &new.spec);
    let (before, after) = (&old.storage.size.0, &new.storage.size.0);
    let shrinks = nanos(after)
        .zip(nanos(before))
        .is_some_and(|(after, before)| after < before);
    let expected = format!("at least what it was, {before}, since a volume cannot shrink");
    found.expect(!shrinks, "spec.storage.size", after, &expected);
    let name = |storage: &Storage| {
        storage
            .storage_class_name
            .clone()
            .unwrap_or_else(|| "left out".into())
    };
    let expected = format!(
        "{}, as it was, since a volume cannot change its class",
        name(&old.storage)
    );
    let is_same = old.storage.storage_class_name == new.storage.storage_class_name;
    found.expect(
        is_same,
        "spec.storage.storageClassName",
        name(&new.storage),
        &expected,
    );
    let verb = if new.tls.is_some() { "added" } else { "removed" };
    let expected = "as the cluster was created, since nodes with and without TLS do not find each other: another secretName, or a new cluster";
    found.expect(old.tls.is_some() == new.tls.is_some(), "spec.tls", verb, expected);
    found.done()
}

fn check_size(found: &mut Found, size: i32, replicas: i32) {
    if size == 2 {
        found.expect(false, "spec.size", size, SIZE);
    } else {
        let expected = format!("1, or 3 to {MAX_SHARDS}");
        found.expect((1..=MAX_SHARDS).contains(&size), "spec.size", size, &expected);
    }
    let field = "spec.replicasPerShard";
    let in_range = (0..=MAX_REPLICAS).contains(&replicas);
    found.expect(in_range, field, replicas, &format!("0 to {MAX_REPLICAS}"));
    let nodes = i64::from(size) * (1 + i64::from(replicas));
    if in_range && size <= MAX_SHARDS {
        let expected = format!("so few that there are at most {MAX_NODES} nodes, not {nodes}");
        found.expect(nodes <= i64::from(MAX_NODES), field, replicas, &expected);
    }
}

fn check_users(found: &mut Found, users: &[AclUser]) {
    let field = "spec.aclUsers";
    let count = format!("a list of {}", users.len());
    found.expect(
        users.len() <= MAX_USERS,
        field,
        count,
        &format!("at most {MAX_USERS} users"),
    );
    let mut taken = BTreeSet::new();
    for (i, user) in users.iter().take(MAX_USERS).enumerate() {
        let field = format!("{field}[{i}]");
        let name = &user.name;
        let at = format!("{field}.name");
        let is_name = name.len() <= MAX_USER
            && name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"._@-".contains(&b));
        found.expect(is_name, &at, name, USER);
        let is_free = !["default", OPERATOR_USER].contains(&name.as_str());
        let expected =
            "a name other than default, whose password is spec.auth, and roadstead, the operator itself";
        found.expect(is_free, &at, name, expected);
        found.expect(taken.insert(name), &at, name, "unlike the names of other users");
        check_key(
            found,
            &format!("{field}.passwordSecret"),
            &user.password_secret,
            "Secret",
        );
        let at = format!("{field}.rules");
        // They are not repeated where everybody reads it, for they may hold a password.
        if is_value(&user.rules) && !user.rules.is_empty() {
            found.expect(!sets_password(&user.rules), &at, "about the password", USER_RULES);
        } else {
            let length = format!("a text of {} bytes", user.rules.len());
            found.expect(false, &at, length, &format!("at least 1, and {VALUE}"));
        }
    }
}

/// Rules are parted by spaces; those of a selector stand in parentheses.
fn sets_password(rules: &str) -> bool {
    rules.split([' ', '(', ')']).any(|rule| {
        rule.starts_with(PASSWORD_MARKS) || PASSWORD_RULES.contains(&rule.to_ascii_lowercase().as_str())
    })
}

fn check_config(found: &mut Found, config: &BTreeMap<String, String>) {
    let field = "spec.config";
    let count = format!("{} settings", config.len());
    found.expect(
        config.len() <= MAX_SETTINGS,
        field,
        count,
        &format!("at most {MAX_SETTINGS} settings"),
    );
    for (name, value) in config.iter().take(MAX_SETTINGS) {
        // Redis takes names in any case, so that one in capitals could be one of those that the operator sets.
        let is_name = settings::is_name(name, b"-_") && !name.bytes().any(|b| b.is_ascii_uppercase());
        found.expect(is_name, field, name, SETTING);
        let expected = format!("left out: {}", OWNED.because);
        found.expect(!OWNED.has(name), field, name, &expected);
        found.expect(is_value(value), &format!("{field}.{name}"), value, VALUE);
    }
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
