//! The rules of a TrinoCluster that its schema cannot say, and again those that it can: an object may have been stored before
//! a rule existed, or by an API server that does not know it.
//!
//! [`validate`] is the only way to a [`ValidTrinoCluster`], and Trino's files are rendered from nothing else, so a string that could end
//! a line or begin a reference never reaches them, nor does a secret.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;

use super::limits::{
    DAY, DEFAULT_MEMORY, MAX_CATALOG_NAME, MAX_CATALOGS, MAX_FOLDERS, MAX_GRACE, MAX_HEAP, MAX_NAME,
    MAX_QUERIES, MAX_VERSION, MAX_WORKERS, MIN_HEAP, MIN_MEMORY, NAME, OWNED_CATALOG, OWNED_EXCHANGE,
    SECRETS, VERSION,
};
use super::overrides::{ConfigOverrides, check_properties, check_property_name, check_property_value};
use super::v1::{Autoscaling, Catalog, Exchange, Spill, TrinoCluster};
use crate::api::placement::{Placement, check_placement};
use crate::api::problem::{Found, Problems};
use crate::api::quantity::{bytes, check_bytes, check_resources};
use crate::api::reference::{KeyReference, check_key, check_object_name};
use crate::api::resources::Resources;
use crate::api::rules::{is_image, is_label};
use crate::api::settings::{MAX_SETTING, MAX_SETTINGS, Names};

/// A cluster whose every string is safe to put into Trino's files and into the names of Kubernetes objects.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidTrinoCluster {
    /// The object's name, short enough for what is derived from it.
    pub name: String,
    /// The object's namespace.
    pub namespace: String,
    /// The version that the author chose, if any: safe as the tag of an image.
    pub version: Option<String>,
    /// The image that the author chose, if any.
    pub image: Option<String>,
    /// The coordinator.
    pub coordinator: ValidRole,
    /// Each worker.
    pub worker: ValidRole,
    /// Workers wanted, 0 to 1000; with autoscaling, at first.
    pub workers: i32,
    /// Bounds in order, if the number of workers follows the queries.
    pub autoscaling: Option<Autoscaling>,
    /// Catalogs with unique names, in the author's order. No property is said twice.
    pub catalogs: Vec<Catalog>,
    /// The Secret with the password file, if any; never without [`Self::tls_secret`].
    pub password_file: Option<KeyReference>,
    /// The ConfigMap with the rules of access, if any.
    pub access_rules: Option<KeyReference>,
    /// The Secret with certificate and key, if any.
    pub tls_secret: Option<String>,
    /// Room on disk, if any.
    pub spill: Option<Spill>,
    /// The exchange, if any.
    pub exchange: Option<Exchange>,
    /// Where the pods run.
    pub placement: Placement,
    /// 1 to 3600.
    pub grace_period_seconds: i32,
    /// 0 to 86400.
    pub drain_timeout_seconds: i32,
    /// Whether to leave it alone.
    pub paused: bool,
}

/// The coordinator, or a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidRole {
    /// With a limit of memory.
    pub resources: Resources,
    /// The JVM's heap, in bytes.
    pub heap: u64,
    /// Those of the cluster with those of the role on top.
    pub overrides: ConfigOverrides,
}

/// Checks a cluster and gives the form from which its objects are built.
///
/// # Errors
/// Every problem found, not only the first.
pub fn validate(cluster: &TrinoCluster) -> Result<ValidTrinoCluster, Problems> {
    let mut found = Found::default();
    let spec = &cluster.spec;
    let name = cluster.name_any();
    found.expect(
        is_label(&name) && name.len() <= MAX_NAME,
        "metadata.name",
        &name,
        NAME,
    );
    if let Some(version) = &spec.version {
        found.expect(is_version(version), "spec.version", version, VERSION);
    }
    if let Some(image) = &spec.image {
        found.expect(
            is_image(image),
            "spec.image",
            image,
            "an image reference such as trinodb/trino:435",
        );
    }
    let shared = spec.config_overrides.clone().unwrap_or_default();
    shared.check(&mut found, "spec.configOverrides");
    let of = &spec.coordinator;
    let coordinator = Role(&of.resources, of.heap_percent, &of.config_overrides);
    let coordinator = coordinator.check(&mut found, "spec.coordinator", &shared);
    let of = &spec.workers;
    in_range(&mut found, "spec.workers.replicas", of.replicas, 0, MAX_WORKERS);
    let worker = Role(&of.resources, of.heap_percent, &of.config_overrides);
    let worker = worker.check(&mut found, "spec.workers", &shared);
    if let Some(autoscaling) = &spec.autoscaling {
        check_autoscaling(&mut found, autoscaling);
    }
    check_catalogs(&mut found, &spec.catalogs);
    if let Some(authentication) = &spec.authentication {
        let (field, secret) = ("spec.authentication", &authentication.password_file_secret);
        let expected = "left out, or spec.tls be set: Trino takes passwords over HTTPS only";
        found.expect(spec.tls.is_some(), field, "set without spec.tls", expected);
        check_key(
            &mut found,
            &format!("{field}.passwordFileSecret"),
            secret,
            "Secret",
        );
    }
    if let Some(access) = &spec.access_control {
        let field = "spec.accessControl.rulesConfigMap";
        check_key(&mut found, field, &access.rules_config_map, "ConfigMap");
    }
    if let Some(tls) = &spec.tls {
        check_object_name(
            &mut found,
            "spec.tls.secretName",
            &tls.secret_name,
            "a Secret in the same namespace",
        );
    }
    if let Some(spill) = &spec.spill {
        check_bytes(&mut found, "spec.spill.size", &spill.size.0);
        if let Some(class) = &spill.storage_class_name {
            check_object_name(&mut found, "spec.spill.storageClassName", class, "a StorageClass");
        }
    }
    if let Some(exchange) = &spec.exchange {
        check_exchange(&mut found, exchange);
    }
    if let Some(placement) = &spec.placement {
        check_placement(&mut found, "spec.placement", placement);
    }
    in_range(
        &mut found,
        "spec.gracePeriodSeconds",
        spec.grace_period_seconds,
        1,
        MAX_GRACE,
    );
    in_range(
        &mut found,
        "spec.drainTimeoutSeconds",
        spec.drain_timeout_seconds,
        0,
        DAY,
    );
    found.done()?;
    Ok(ValidTrinoCluster {
        namespace: cluster.namespace().unwrap_or_default(),
        name,
        version: spec.version.clone(),
        image: spec.image.clone(),
        coordinator,
        worker,
        workers: spec.workers.replicas,
        autoscaling: spec.autoscaling.clone(),
        catalogs: spec.catalogs.clone(),
        password_file: spec
            .authentication
            .as_ref()
            .map(|one| one.password_file_secret.clone()),
        access_rules: spec
            .access_control
            .as_ref()
            .map(|one| one.rules_config_map.clone()),
        tls_secret: spec.tls.as_ref().map(|tls| tls.secret_name.clone()),
        spill: spec.spill.clone(),
        exchange: spec.exchange.clone(),
        placement: spec.placement.clone().unwrap_or_default(),
        grace_period_seconds: spec.grace_period_seconds,
        drain_timeout_seconds: spec.drain_timeout_seconds,
        paused: spec.paused,
    })
}

/// Checks what may not change: nothing, for a TrinoCluster holds no data, and every pod of it can be made anew. It is here so that
/// all kinds are admitted alike.
///
/// # Errors
/// None.
pub fn validate_update(_old: &TrinoCluster, _new: &TrinoCluster) -> Result<(), Problems> {
    Ok(())
}

fn in_range(found: &mut Found, field: &str, value: i32, least: i32, most: i32) {
    found.expect(
        (least..=most).contains(&value),
        field,
        value,
        &format!("{least} to {most}"),
    );
}

/// Numbers first, then parts of letters and digits, joined by dots and dashes: also a tag of an image.
fn is_version(text: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric());
    let number = text.split(['.', '-']).next().unwrap_or_default();
    text.len() <= MAX_VERSION
        && number.bytes().all(|b| b.is_ascii_digit())
        && text.split(['.', '-']).all(is_part)
}

/// What coordinator and workers both say of their pods.
struct Role<'a>(&'a Option<Resources>, i32, &'a Option<ConfigOverrides>);

impl Role<'_> {
    fn check(self, found: &mut Found, field: &str, shared: &ConfigOverrides) -> ValidRole {
        let Self(resources, percent, overrides) = self;
        let mut resources = resources.clone().unwrap_or_else(|| Resources {
            limits: BTreeMap::from([("memory".to_owned(), Quantity(DEFAULT_MEMORY.into()))]),
            ..Default::default()
        });
        let at = format!("{field}.resources");
        check_resources(found, &at, &resources);
        let at = format!("{at}.limits.memory");
        let memory = resources.limits.entry("memory".to_owned()).or_default();
        let limit = bytes(&memory.0);
        let expected = format!("at least {MIN_MEMORY}, for the heap is a share of it");
        if memory.0.is_empty() {
            found.expect(false, &at, "left out", &expected);
        } else if let Some(limit) = limit.filter(|limit| *limit > 0) {
            found.expect(Some(limit) >= bytes(MIN_MEMORY), &at, &memory.0, &expected);
        }
        in_range(
            found,
            &format!("{field}.heapPercent"),
            percent,
            MIN_HEAP,
            MAX_HEAP,
        );
        let overrides = overrides.clone().unwrap_or_default();
        overrides.check(found, &format!("{field}.configOverrides"));
        let share = u64::try_from(percent).unwrap_or_default();
        ValidRole {
            resources,
            heap: (limit.unwrap_or_default() / 100).saturating_mul(share),
            overrides: shared.with(&overrides),
        }
    }
}

fn check_autoscaling(found: &mut Found, autoscaling: &Autoscaling) {
    let field = |name: &str| format!("spec.autoscaling.{name}");
    let (least, most) = (autoscaling.min_workers, autoscaling.max_workers);
    in_range(found, &field("maxWorkers"), most, 1, MAX_WORKERS);
    in_range(found, &field("minWorkers"), least, 0, MAX_WORKERS);
    if (0..=MAX_WORKERS).contains(&least) && (1..=MAX_WORKERS).contains(&most) {
        let expected = format!("at most maxWorkers, which is {most}");
        found.expect(least <= most, &field("minWorkers"), least, &expected);
    }
    let queries = autoscaling.queries_per_worker;
    in_range(found, &field("queriesPerWorker"), queries, 1, MAX_QUERIES);
    in_range(
        found,
        &field("coolDownSeconds"),
        autoscaling.cool_down_seconds,
        0,
        DAY,
    );
}

fn check_catalogs(found: &mut Found, catalogs: &[Catalog]) {
    let count = format!("a list of {}", catalogs.len());
    let expected = format!("at most {MAX_CATALOGS} catalogs");
    found.expect(catalogs.len() <= MAX_CATALOGS, "spec.catalogs", count, &expected);
    let mut taken = BTreeSet::new();
    for (i, catalog) in catalogs.iter().take(MAX_CATALOGS).enumerate() {
        let field = format!("spec.catalogs[{i}]");
        let words = "at most 63 of a-z, 0-9, '_' and '-', beginning with a letter";
        let (at, name) = (format!("{field}.name"), &catalog.name);
        found.expect(is_catalog_name(name), &at, name, words);
        found.expect(
            name != "system",
            &at,
            name,
            "a name other than system, Trino's own catalog",
        );
        found.expect(
            taken.insert(name),
            &at,
            name,
            "unlike the names of other catalogs",
        );
        let (at, connector) = (format!("{field}.connector"), &catalog.connector);
        found.expect(is_catalog_name(connector), &at, connector, words);
        let at = format!("{field}.properties");
        check_properties(found, &at, &catalog.properties, &[&OWNED_CATALOG, &SECRETS]);
        let at = format!("{field}.secretProperties");
        check_secret_properties(
            found,
            &at,
            &catalog.secret_properties,
            &catalog.properties,
            &OWNED_CATALOG,
        );
    }
}

fn is_catalog_name(text: &str) -> bool {
    text.len() <= MAX_CATALOG_NAME
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b))
}

fn check_secret_properties(
    found: &mut Found,
    field: &str,
    secrets: &BTreeMap<String, KeyReference>,
    properties: &BTreeMap<String, String>,
    owned: &Names,
) {
    let (count, expected) = (
        format!("{} properties", secrets.len()),
        format!("at most {MAX_SETTINGS} properties"),
    );
    found.expect(secrets.len() <= MAX_SETTINGS, field, count, &expected);
    for (name, secret) in secrets.iter().take(MAX_SETTINGS) {
        check_property_name(found, field, name);
        found.expect(
            !owned.has(name),
            field,
            name,
            &format!("left out: {}", owned.because),
        );
        let is_once = !properties.contains_key(name);
        found.expect(
            is_once,
            field,
            name,
            "in properties or in secretProperties, not in both",
        );
        check_key(found, &format!("{field}.{name}"), secret, "Secret");
    }
}

fn check_exchange(found: &mut Found, exchange: &Exchange) {
    let field = "spec.exchange.baseDirectories";
    let folders = &exchange.base_directories;
    let (count, expected) = (
        format!("a list of {}", folders.len()),
        format!("1 to {MAX_FOLDERS} folders"),
    );
    found.expect(
        (1..=MAX_FOLDERS).contains(&folders.len()),
        field,
        count,
        &expected,
    );
    let mut taken = BTreeSet::new();
    for (i, folder) in folders.iter().take(MAX_FOLDERS).enumerate() {
        let field = format!("{field}[{i}]");
        let expected =
            "a URL such as s3://bucket/exchange or an absolute path, of letters, digits and ._~:/@-";
        found.expect(is_folder(folder), &field, folder, expected);
        check_property_value(found, &field, folder);
        found.expect(taken.insert(folder), &field, folder, "unlike the other folders");
    }
    let (properties, secrets) = (&exchange.properties, &exchange.secret_properties);
    let refused = [&OWNED_EXCHANGE, &SECRETS];
    check_properties(found, "spec.exchange.properties", properties, &refused);
    let field = "spec.exchange.secretProperties";
    check_secret_properties(found, field, secrets, properties, &OWNED_EXCHANGE);
}

/// Trino takes the folders in one line, parted by commas.
fn is_folder(text: &str) -> bool {
    let rest = match text.split_once(":/") {
        Some((scheme, rest)) if !scheme.starts_with('/') => {
            let is_scheme = scheme.starts_with(|c: char| c.is_ascii_lowercase())
                && scheme
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
            rest.strip_prefix('/').filter(|_| is_scheme)
        }
        _ => text.strip_prefix('/'),
    };
    text.len() <= MAX_SETTING
        && rest.is_some_and(|rest| {
            !rest.is_empty()
                && rest
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"._~:/@-".contains(&b))
        })
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
