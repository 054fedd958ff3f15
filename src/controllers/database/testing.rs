//! What the tests of this folder share.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Settings;
use super::certificates::{INSTANCE, dns_names, operator};
use super::decide::decide;
use super::desired::{Decided, Owner, Parent, build};
use super::live::Ground;
use super::observe::Observed;
use crate::api::database::v1::Database;
use crate::api::database::{ValidDatabase, validate};
use crate::pki::authority::{Data, Identity, step};

/// Of version 17, unless the spec says another.
pub fn database(name: &str, spec: Value) -> Database {
    let mut whole = json!({"version": "17"});
    let fields = spec.as_object().cloned().unwrap_or_default();
    whole.as_object_mut().expect("an object").extend(fields);
    let object = json!({
        "apiVersion": "roadstead.dev/v1", "kind": "Database",
        "metadata": {"name": name, "namespace": "shop", "uid": "1", "generation": 1}, "spec": whole,
    });
    serde_json::from_value(object).expect("the test's spec has the right types")
}

pub fn valid(database: &Database) -> ValidDatabase {
    validate(database).expect("the test's spec is valid")
}

pub fn owner_of<'a>(database: &'a Database, valid: &'a ValidDatabase) -> Owner<'a> {
    Owner {
        object: database,
        database: valid,
        parent: Parent::of(database).expect("the test's database has a uid"),
    }
}

pub fn settings() -> Settings {
    Settings {
        agent_image: "registry.example/operator:v1".into(),
        cluster_domain: "cluster.local".into(),
        ..Settings::default()
    }
}

/// What the StatefulSet's and the settings' part of the children is once they are made.
pub fn children(database: &Database) -> Observed {
    let valid = valid(database);
    let resources =
        build(&owner_of(database, &valid), &settings(), &decided(&valid)).expect("settings are JSON");
    Observed {
        stateful_sets: vec![Arc::new(resources.stateful_set)],
        config_maps: vec![Arc::new(resources.settings)],
        ..Observed::default()
    }
}

/// What is decided of a new one.
pub fn decided(database: &ValidDatabase) -> Decided {
    let nothing = Ground::default();
    let live = nothing.live(&[], &[], true);
    decide(database, &Observed::default(), None, &live, false, at(0))
}

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).expect("a time in range")
}

/// The operator's, from an authority of its own.
pub fn identity() -> Identity {
    let names = dns_names("orders", "shop", "cluster.local");
    let step = step(&Data::new(), &INSTANCE, &names, at(0)).expect("keys can be made");
    operator(&step.write.expect("an authority").data, at(0)).expect("there is an authority")
}
