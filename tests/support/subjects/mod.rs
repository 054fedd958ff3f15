//! The operators that are simulated. A new one is a [`Subject`], a new kind a [`Kind`]: how objects of it are drawn, and what has to be true
//! of them. Faults, storms, mutator and oracles take it from there.

#![allow(dead_code, reason = "each test binary uses what it needs of this")]

pub mod databases;
pub mod greeter;
pub mod proxies;

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use futures::future::LocalBoxFuture;
use k8s_openapi::api::rbac::v1::PolicyRule;
use roadstead::runtime::manager::Manager;
use serde_json::Value;

use crate::cases;
use crate::life::{Course, Undisturbed};
use crate::sample_proxy;
use crate::sim::cluster::Cluster;
use crate::sim::faults::Chance;
use crate::sim::store::Objects;
use crate::sim::world::World;

/// With this set to the name of one, that one alone is simulated.
const SUBJECT: &str = "SUBJECT";

/// All of them.
pub static ALL: [&Subject; 3] = [&proxies::PROXIES, &greeter::GREETER, &databases::DATABASES];

/// An operator that is simulated.
pub struct Subject {
    /// What it calls itself.
    pub name: &'static str,
    /// Adds its controllers to a manager; what they ask pods the cluster answers.
    pub register: fn(&mut Manager, &Cluster),
    /// What it may do, besides its Lease and Events.
    pub role: fn() -> Vec<PolicyRule>,
    /// What people give it.
    pub kinds: &'static [&'static dyn Kind],
    /// Kinds of its children whose own children it deletes too.
    pub through: &'static [&'static str],
    /// So many times fewer cases are tried of it than of the others, because they take longer.
    pub cost: usize,
    /// Has everything looked at that is written from here on, by what must never be.
    pub watched: fn(&World),
    /// The main life cycle of its kinds, compared step by step with how it is without faults.
    pub life: for<'a> fn(&'a mut World, &'a mut Course) -> LocalBoxFuture<'a, ()>,
    /// See [`crate::life::without_faults`].
    pub undisturbed: OnceLock<Option<Undisturbed>>,
}

/// A case of one subject, as `roadstead/17`.
#[derive(Clone)]
pub struct Of<C> {
    pub subject: &'static Subject,
    pub case: C,
}

impl Subject {
    /// Whether the short form leaves out what takes longest, since one life takes long already. Whoever asks for this one alone gets it.
    pub fn is_spared(&self) -> bool {
        self.cost > 1 && std::env::var(SUBJECT).is_err() && cases::extent([true, false, false])
    }
}

impl Of<u64> {
    /// So many seeds of each subject, and fewer where one takes longer: for `make check`, and otherwise.
    pub fn seeds(few: u64, many: u64) -> Vec<Self> {
        Of::each(|subject| {
            let cost = u64::try_from(subject.cost).unwrap_or(u64::MAX);
            cases::seeds(few.div_ceil(cost), many.div_ceil(cost))
        })
    }

    /// The case that a seed stands for.
    pub fn map<C>(self, case: impl FnOnce(u64) -> C) -> Of<C> {
        Of {
            subject: self.subject,
            case: case(self.case),
        }
    }
}

impl<C> Of<C> {
    /// The cases that `of` has of each subject.
    pub fn each<I: IntoIterator<Item = C>>(of: impl Fn(&'static Subject) -> I) -> Vec<Self> {
        let of = |subject| of(subject).into_iter().map(move |case| Self { subject, case });
        let asked = std::env::var(SUBJECT).ok();
        let is_asked = |subject: &&Subject| asked.as_ref().is_none_or(|asked| asked == subject.name);
        ALL.into_iter().filter(is_asked).flat_map(of).collect()
    }
}

impl<C: fmt::Display> fmt::Display for Of<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.subject.name, self.case)
    }
}

impl<C: FromStr<Err: fmt::Debug>> FromStr for Of<C> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (subject, case) = text
            .split_once('/')
            .ok_or("an operator and a case, as in roadstead/17")?;
        let found = ALL.into_iter().find(|known| known.name == subject);
        Ok(Self {
            subject: found.ok_or_else(|| format!("no operator is called {subject}"))?,
            case: case.parse().map_err(|error| format!("{case}: {error:?}"))?,
        })
    }
}

/// A kind that people use. The objects of a namespace are given as they are in the API server.
pub trait Kind: Sync {
    /// What it is called: `MyProxy`.
    fn name(&self) -> &'static str;

    /// A few names, so that they are used again and taken from each other.
    fn names(&self) -> &'static [&'static str];

    /// A spec with which an object is well.
    fn base(&self) -> Value;

    /// For each field, by its path in the spec as `routes[].path`, a change of the base that has an effect.
    fn changes(&self) -> Vec<(&'static str, Value)>;

    /// Those of these fields whose change has none, or cannot be.
    fn without_effect(&self) -> &'static [&'static str] {
        &[]
    }

    /// A spec that the API server accepts, whatever comes of it.
    fn valid(&self, chance: &mut Chance) -> Value;

    /// A spec that it refuses, for a new object and as a change of an old one.
    fn invalid(&self, chance: &mut Chance) -> Value;

    /// A change of the spec after which any object is going to be well.
    fn remedy(&self) -> Value;

    /// Objects of somebody else that have the names which the children of the object `name` are to have.
    fn strangers(&self, _name: &str) -> Vec<Value> {
        Vec::new()
    }

    /// What somebody does by hand to a child of this kind.
    fn tampering(&self, _child: &str) -> Vec<Value> {
        Vec::new()
    }

    /// Whether the status is about the present spec, and either all is well or it says what is not.
    fn is_told(&self, objects: &Objects, object: &Value) -> bool;

    /// Whether all is well, by the status and by what it is about.
    fn is_well(&self, objects: &Objects, object: &Value) -> bool;

    /// What has to be true besides of an object that is well, once nothing happens any more.
    fn says_what_is(&self, _world: &World, _name: &str) {}
}

/// The condition of this type.
pub fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    sample_proxy::condition(&object["status"], type_)
}
