//! What instances answer the operator, and what they do when it tells them to.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use roadstead::api::database::agent::{Lsn, Report, Role, Standby, State};
use roadstead::controllers::database::instances::{Instances, Order, Target};
use roadstead::pki::authority::Identity;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::super::{Memory, every, text};
use super::group::{Group, STOP, leader, streams};
use super::{Databases, Instance, Phase, is_instance};
use crate::sim::Sim;

/// How long PostgreSQL takes to stop and to start again.
const RESTART: Duration = Duration::from_secs(3);

/// Answers for every instance of a cluster.
pub struct PlayedInstances {
    pub(in super::super) sim: Sim,
    pub(in super::super) memory: Arc<Mutex<Memory>>,
    pub(in super::super) told: Arc<Notify>,
}

impl std::fmt::Debug for PlayedInstances {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PlayedInstances")
    }
}

impl Instances for PlayedInstances {
    fn report<'a>(
        &'a self,
        identity: &'a Identity,
        target: &'a Target,
    ) -> BoxFuture<'a, Result<Report, String>> {
        assert!(
            !identity.authorities.is_empty(),
            "the operator knows whom to trust"
        );
        let answer = self.with(target, |databases, uid| Ok(report(databases, uid)));
        async move { answer }.boxed()
    }

    fn order<'a>(
        &'a self,
        _: &'a Identity,
        target: &'a Target,
        order: &'a Order,
    ) -> BoxFuture<'a, Result<(), String>> {
        let done = self.with(target, |databases, uid| obey(databases, uid, order));
        self.told.notify_one();
        async move { done }.boxed()
    }
}

impl PlayedInstances {
    /// Of the instance that is there, if its certificate is for the host.
    fn with<T>(
        &self,
        target: &Target,
        step: impl FnOnce(&mut Databases, &str) -> Result<T, String>,
    ) -> Result<T, String> {
        let nobody = || "No route to host".to_owned();
        let pods = self.sim.with(|store| every(store, "Pod"));
        let mut pods = pods.into_iter().filter(|(_, pod)| is_instance(pod));
        let (id, pod) = pods
            .find(|(_, pod)| text(pod, "/status/podIP") == target.address.to_string())
            .ok_or_else(nobody)?;
        assert_eq!(target.pod, id.name, "who is asked at {}", target.host);
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let uid = text(&pod, "/metadata/uid");
        let runs = memory.databases.pods.get(uid).is_some_and(Instance::runs);
        if !runs {
            return Err(nobody());
        }
        step(&mut memory.databases, uid)
    }
}

fn report(databases: &Databases, uid: &str) -> Report {
    let instance = &databases.pods[uid];
    let key = instance.key();
    let leader = leader(&key, databases);
    let nothing = Group::default();
    let group = databases.groups.get(&key).unwrap_or(&nothing);
    let disk = databases.disk(instance);
    let streaming = streams(instance, leader.as_ref(), databases);
    let (role, state) = match instance.phase {
        Phase::Leading => (Role::Primary, State::Leading),
        Phase::Replica if streaming => (Role::Replica, State::Streaming),
        Phase::Replica => (Role::Replica, State::Detached),
        Phase::Busy(state, _) => (Role::None, state),
        _ => (Role::None, State::Waiting),
    };
    let others = databases.of(&key).into_iter();
    let standbys = others
        .filter(|other| instance.phase == Phase::Leading && streams(other, Some(instance), databases))
        .map(|other| Standby {
            name: other.name().to_owned(),
            state: "streaming".to_owned(),
            synchronous: group.waited_for.contains(other.name()),
            flushed: databases.disk(other).map(|disk| Lsn(disk.commits)),
            ..Standby::default()
        });
    let pending = pending(instance, leader.as_ref());
    // Where the tag is the version, it is in the image.
    let tag = instance.image.rsplit(':').next().filter(|tag| tag.contains('.'));
    Report {
        name: instance.name().to_owned(),
        identity: instance.identity.clone(),
        role,
        state,
        system_identifier: disk.map(|disk| disk.identifier.clone()),
        led: instance.phase == Phase::Leading,
        timeline: disk.map(|disk| disk.timeline),
        received: disk.map(|disk| Lsn(disk.commits)),
        replayed: disk.map(|disk| Lsn(disk.commits)),
        streaming,
        standbys: standbys.collect(),
        // Its own writes wait for nobody.
        wrote_ms: (instance.phase == Phase::Leading).then_some(500),
        version: Some(tag.unwrap_or("17.6").to_owned()),
        settings: instance.told.as_ref().map(|told| told.hash.clone()),
        // At once, whatever it is.
        made: instance
            .told
            .as_ref()
            .filter(|_| instance.phase == Phase::Leading)
            .map(|told| told.hash.clone()),
        lowered: instance.phase == Phase::Leading && pending == Some(true),
        pending_restart: pending
            .map(|_| "max_connections".to_owned())
            .into_iter()
            .collect(),
        ..Report::default()
    }
}

/// Whether PostgreSQL has to be started again for its settings, and then whether they are less than what it has.
fn pending(instance: &Instance, leader: Option<&Instance>) -> Option<bool> {
    let asked = instance.told.as_ref()?.connections();
    let wanted = match instance.phase {
        Phase::Leading => asked,
        // With fewer than its primary it would not start.
        Phase::Replica => asked.max(leader.map_or(0, |leader| leader.connections)),
        _ => return None,
    };
    (wanted != instance.connections).then_some(wanted < instance.connections)
}

fn obey(databases: &mut Databases, uid: &str, order: &Order) -> Result<(), String> {
    let instance = databases.pods[uid].clone();
    let key = instance.key();
    let leader = leader(&key, databases);
    let leads = instance.phase == Phase::Leading;
    let now = Instant::now();
    let phase = match order {
        Order::HandOver(handover) => {
            let of_it = databases.of(&key).into_iter();
            let mut able = of_it.filter(|other| streams(other, leader.as_ref(), databases));
            let to = handover.to.clone().unwrap_or_default();
            if !leads || !able.any(|other| other.name() == to) {
                return Err(format!("{to} cannot take over"));
            }
            databases.groups.entry(key).or_default().handover = Some(to);
            Phase::Busy(State::Stopping, now + STOP)
        }
        Order::Restart(_) => {
            if pending(&instance, leader.as_ref()).is_none() {
                return Err("nothing waits for a restart".to_owned());
            }
            let known = databases.board.of(&key.0, &key.1);
            let out = databases.of(&key).into_iter();
            let out =
                out.filter(|other| other.uid != uid && !known.serving().any(|name| name == other.name()));
            let out: Vec<&str> = out.map(Instance::name).collect();
            assert!(
                out.is_empty()
                    || databases.board.is_disturbed()
                    || !known.serving().any(|name| name == instance.name()),
                "{} is to be started again while {out:?} are out of service",
                instance.name()
            );
            if leads {
                let mut group = databases.groups.remove(&key).unwrap_or_default();
                group.catch_up(&key, databases, &instance);
                group.restarting = Some(uid.to_owned());
                databases.groups.insert(key, group);
            }
            Phase::Busy(State::Starting, now + RESTART)
        }
    };
    if let Some(instance) = databases.pods.get_mut(uid) {
        instance.phase = phase;
    }
    databases.refresh();
    Ok(())
}
