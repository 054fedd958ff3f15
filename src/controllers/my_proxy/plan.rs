//! What is to be done about a proxy, from its spec and from what is observed. Pure: time is an argument.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kube::ResourceExt;

use super::Settings;
use super::check::{Verdict, judge, last_attempt};
use super::desired::unit::{KEY, Unit};
use super::desired::{Owner, Resources, build, names};
use super::observe::{Observed, named};
use super::rollout::is_available;
use crate::api::my_proxy::Problems;

/// What is to exist, what is to stay, and what is known about the configuration.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the spec asks for.
    pub unit: Unit,
    /// What is known about it.
    pub verdict: Verdict,
    /// What serves, if anything does: the unit itself once nginx accepted it, the last good one until then.
    pub active: Option<Unit>,
    /// The children to apply.
    pub resources: Resources,
    /// Names of children that are not applied now and stay all the same. Every other child goes.
    pub keep: Keep,
}

/// What is made of a spec.
#[derive(Clone, Copy, Debug)]
pub enum Intent<'a> {
    /// The plan is carried out.
    CarryOut(&'a Plan),
    /// It makes no sense: what serves goes on serving, and nothing is changed until somebody mends it.
    Refuse(&'a Problems),
    /// Its author asks that nothing be changed.
    Pause,
}

impl<'a> Intent<'a> {
    /// What is carried out.
    pub fn plan(self) -> Option<&'a Plan> {
        match self {
            Self::CarryOut(plan) => Some(plan),
            Self::Refuse(_) | Self::Pause => None,
        }
    }
}

/// Names of children that stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Deployments of earlier names that still serve.
    pub deployments: BTreeSet<String>,
    /// The mounted configuration and the candidate of a check that is not over.
    pub config_maps: BTreeSet<String>,
    /// The last attempt at the unit.
    pub jobs: BTreeSet<String>,
}

/// Makes the plan.
pub fn plan(owner: &Owner<'_>, observed: &Observed, settings: &Settings, now: Timestamp) -> Plan {
    let unit = Unit::of(owner.proxy, settings);
    let key = unit.key();
    let mounted = named(&observed.config_maps, &names::config_map(owner.proxy));
    // The key alone: if the rest was changed by somebody, what nginx accepted under this key is put back.
    let accepted = mounted.is_some_and(|mounted| mounted.annotations().get(KEY) == Some(&key));
    let verdict = if accepted {
        Verdict::Active
    } else {
        judge(&key, observed, now)
    };
    let active = match verdict {
        Verdict::Active | Verdict::Passed => Some(unit.clone()),
        _ => mounted.and_then(|mounted| Unit::read(mounted)),
    };
    let check = match verdict {
        Verdict::Due { attempt } => Some((&unit, Some(attempt))),
        // Its pod waits for the candidate until the deadline, should somebody take that away.
        Verdict::Running { .. } => Some((&unit, None)),
        _ => None,
    };
    let resources = build(owner, active.as_ref(), check);
    let keep = keep(owner, observed, &key, &verdict, active.is_some());
    Plan {
        unit,
        verdict,
        active,
        resources,
        keep,
    }
}

fn keep(owner: &Owner<'_>, observed: &Observed, key: &str, verdict: &Verdict, serves: bool) -> Keep {
    let mut keep = Keep::default();
    let current = named(&observed.deployments, &owner.proxy.deployment);
    if !serves || !current.is_some_and(|deployment| is_available(deployment)) {
        keep.deployments.extend(
            observed
                .deployments
                .iter()
                .map(|deployment| deployment.name_any()),
        );
    }
    keep.config_maps.insert(names::config_map(owner.proxy));
    // The Job of a check goes only once its result is seen in the ConfigMap: judged by an older copy of that, it would be done again.
    if *verdict != Verdict::Active {
        keep.config_maps.insert(names::candidate(owner.proxy, key));
        keep.jobs
            .extend(last_attempt(key, &observed.jobs).map(|(_, job)| job.name_any()));
    }
    keep
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
