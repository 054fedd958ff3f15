//! What there is of a database: before the writes, for what is decided, and after them, for what is said. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::desired::names;
use super::desired::pod::SHAPE;
use super::error::Error;
use super::instances::Asked;
use super::lease::{Held, Quorum};
use super::volumes::{self, Volumes};
use crate::api::database::agent::{Report, Role};
use crate::api::text::shorten;
use crate::controllers::common::pod::{is_ready, unscheduled, words};

/// As much of what a kubelet or a scheduler says is told, in bytes.
const MAX_WORDS: usize = 300;

/// The instances of a database, what they say, and what kept a child from being written.
#[derive(Clone, Copy, Debug)]
pub struct Live<'a> {
    /// As it was applied or, where that was not written, as it is.
    pub stateful_set: Option<&'a StatefulSet>,
    /// The instances' pods, sorted by name.
    pub pods: &'a [Arc<Pod>],
    /// Who leads.
    pub lease: &'a Held,
    /// What those said that were asked.
    pub asked: &'a [Asked],
    /// Whether anybody is asked at all.
    pub asks: bool,
    /// The hash of the settings that instances should go by.
    pub settings: Option<&'a str>,
    /// Whether these have every commit wait for a replica, always.
    pub required: bool,
    /// What has become of the volumes.
    pub volumes: &'a Volumes,
    /// What kept a child from being written.
    pub failure: Option<&'a Error>,
}

/// What instances are judged by: children as they are known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ground {
    /// The StatefulSet.
    pub stateful_set: Option<Arc<StatefulSet>>,
    /// The Lease.
    pub lease: Held,
    /// The hash of the settings.
    pub settings: Option<String>,
    /// Whether they have every commit wait for a replica, always.
    pub required: bool,
}

impl Ground {
    /// The instances on it, with what those said that were asked; none of them if nobody `asks`.
    pub fn live<'a>(&'a self, pods: &'a [Arc<Pod>], asked: &'a [Asked], asks: bool) -> Live<'a> {
        Live {
            stateful_set: self.stateful_set.as_deref(),
            pods,
            lease: &self.lease,
            asked,
            asks,
            settings: self.settings.as_deref(),
            required: self.required,
            volumes: &volumes::UNKNOWN,
            failure: None,
        }
    }
}

impl<'a> Live<'a> {
    /// What an instance said, or why that is not known; none if it was not asked.
    pub fn answer(&self, pod: &str) -> Option<&'a Result<Report, String>> {
        let asked = self.asked.iter().find(|asked| asked.pod == pod);
        asked.map(|asked| &asked.answer)
    }

    /// For how long an instance has been asked in vain, if it was just now.
    pub fn silent(&self, pod: &str) -> Option<Duration> {
        let mut silent = self.asked.iter().filter(|asked| asked.answer.is_err());
        silent.find(|asked| asked.pod == pod).map(|asked| asked.silent)
    }

    /// What those said who answered.
    pub fn reports(&self) -> impl Iterator<Item = (&'a str, &'a Report)> + use<'a> {
        let reported = |asked: &'a Asked| Some((asked.pod.as_str(), asked.answer.as_ref().ok()?));
        self.asked.iter().filter_map(reported)
    }

    /// What the holder of the Lease says of itself, if it is the primary in its own eyes too.
    pub fn primary(&self) -> Option<&'a Report> {
        let answer = self.answer(self.lease.leader()?)?;
        let is_holder = |report: &&Report| {
            report.role == Role::Primary && Some(&report.identity) == self.lease.holder.as_ref()
        };
        answer.as_ref().ok().filter(is_holder)
    }

    /// For whom commits wait in vain: whatever goes by now is in the Lease, and by none of that a commit comes to an end with those that stream. The primary's
    /// own writes tell nothing of it, since they wait for nobody.
    pub fn missed(&self, primary: &Report) -> Option<BTreeSet<&'a str>> {
        let Held {
            quorums,
            asynchronous,
            ..
        } = self.lease;
        // Where commits need not wait they stop it after a moment, and the Lease says that before.
        if quorums.is_empty() || *asynchronous && !self.required {
            return None;
        }
        let is_missed = |quorum: &Quorum| {
            let standbys = quorum.standbys.iter();
            standbys.filter(|name| primary.streams_to(name)).count() < quorum.need.max(1)
        };
        let all = quorums.iter().flat_map(|quorum| &quorum.standbys);
        quorums
            .iter()
            .all(is_missed)
            .then(|| all.map(String::as_str).collect())
    }

    /// Whether every instance streams that ever did: if any do not, they are new.
    pub fn only_grows(&self) -> bool {
        let leader = self.lease.leader();
        let mut others = self
            .lease
            .named
            .iter()
            .filter(|name| Some(name.as_str()) != leader);
        self.primary()
            .is_some_and(|primary| others.all(|name| primary.streams_to(name)))
    }

    /// The pod of that name.
    pub fn pod(&self, name: &str) -> Option<&'a Pod> {
        let mut pods = self.pods.iter();
        pods.find(|pod| pod.name_any() == name).map(|pod| &**pod)
    }

    /// Whether the pod of that name is there, and of this shape.
    pub fn has_shape(&self, pod: &str, shape: &str) -> bool {
        self.pod(pod).is_some_and(|pod| has_shape(&pod.metadata, shape))
    }

    /// How many pods are ready and stay.
    pub fn ready(&self) -> usize {
        let stays = |pod: &&Arc<Pod>| pod.metadata.deletion_timestamp.is_none() && is_ready(pod);
        self.pods.iter().filter(stays).count()
    }

    /// The names of the pods.
    pub fn names(&self) -> impl Iterator<Item = String> + use<'a> {
        self.pods.iter().map(|pod| pod.name_any())
    }

    /// Whether pods that are made from now on are of this shape.
    pub fn is_rolled_out(&self, shape: &str) -> bool {
        self.stateful_set.is_some_and(|set| {
            let template = set.spec.as_ref().and_then(|spec| spec.template.metadata.as_ref());
            let observed = set.status.as_ref().and_then(|status| status.observed_generation);
            template.is_some_and(|template| has_shape(template, shape)) && observed >= set.metadata.generation
        })
    }

    /// How many instances the StatefulSet is to have.
    pub fn replicas(&self) -> Option<i32> {
        self.stateful_set?.spec.as_ref()?.replicas
    }

    /// The pods that are of an earlier revision of the template, as far as the StatefulSet's controller has seen the present one.
    pub fn outdated(&self) -> Vec<String> {
        let revision = self.stateful_set.and_then(|set| {
            let status = set.status.as_ref()?;
            let is_observed = status.observed_generation >= set.metadata.generation;
            status.update_revision.as_ref().filter(|_| is_observed)
        });
        let Some(revision) = revision else {
            return Vec::new();
        };
        let of_another = |pod: &&Arc<Pod>| {
            let own = pod.labels().get("controller-revision-hash");
            own.is_some_and(|own| own != revision)
        };
        self.pods
            .iter()
            .filter(of_another)
            .map(|pod| pod.name_any())
            .collect()
    }
}

/// The pods of those that stay, of those that are to go and count no more, and what the former said.
pub fn part(
    pods: &[Arc<Pod>],
    asked: Vec<Asked>,
    members: i32,
) -> (Vec<Arc<Pod>>, Vec<Arc<Pod>>, Vec<Asked>) {
    let stays = |name: &str| names::ordinal(name).is_none_or(|ordinal| ordinal < members);
    let (stay, leave) = pods.iter().cloned().partition(|pod| stays(&pod.name_any()));
    let asked = asked.into_iter().filter(|asked| stays(&asked.pod));
    (stay, leave, asked.collect())
}

/// Whether that is what of the spec has shaped a pod, or a template of pods.
pub fn has_shape(metadata: &ObjectMeta, shape: &str) -> bool {
    let annotations = metadata.annotations.as_ref();
    let own = annotations.and_then(|annotations| annotations.get(SHAPE));
    own.is_some_and(|own| own == shape)
}

/// Why a pod does not run, in the kubelet's or the scheduler's words. In what the kubelet says of a container that ends again and again the time changes, and nothing else is told.
pub fn waiting(pod: &Pod) -> Option<String> {
    let told = |reason: &str, message: Option<&str>| {
        let message = message.map(|message| shorten(message, MAX_WORDS));
        words(Some(reason), message.as_deref())
    };
    let status = pod.status.as_ref()?;
    let containers = [&status.init_container_statuses, &status.container_statuses];
    let mut containers = containers.into_iter().flatten().flatten();
    let of_container = containers.find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.as_deref()?;
        let message = waiting
            .message
            .as_deref()
            .filter(|_| reason != "CrashLoopBackOff");
        Some(told(reason, message))
    });
    let of_scheduler = || {
        let condition = unscheduled(pod)?;
        let reason = condition.reason.as_deref().unwrap_or("Unschedulable");
        Some(told(reason, condition.message.as_deref()))
    };
    of_container.or_else(of_scheduler)
}
