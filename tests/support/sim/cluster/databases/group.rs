//! The instances of one database among themselves: who leads, who follows, and what commits wait for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use roadstead::api::database::agent::{Lsn, Quorum, Record, State, Synchronous};
use tokio::time::Instant;

use super::board::{Key, Known};
use super::lease::{Lease, choose};
use super::{Databases, Disk, Instance, Phase};
use crate::sim::store::Store;

/// How long PostgreSQL takes to start, to be copied, to go back to where it parted, to become the primary, to begin, and to stop.
const START: Duration = Duration::from_secs(2);
const COPY: Duration = Duration::from_secs(3);
const REWIND: Duration = Duration::from_secs(2);
const PROMOTE: Duration = Duration::from_secs(1);
const BEGIN: Duration = Duration::from_secs(2);
pub const STOP: Duration = Duration::from_secs(1);
/// After which time a Lease is taken that was released, and one whose holder fell silent.
const RELEASED: Duration = Duration::from_secs(1);
const SILENT: Duration = Duration::from_secs(6);
/// For how long those that are not there are waited for before the very first data is made.
const GATHERING: Duration = Duration::from_secs(30);
/// After which time a primary has noticed that the Lease is not its own any more.
const NOTICE: Duration = Duration::from_secs(4);

/// What one database remembers.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Since when nobody leads.
    vacant: Option<Instant>,
    /// Since when the Lease is another one's than the primary's.
    usurped: Option<Instant>,
    /// Who is to take over.
    pub handover: Option<String>,
    /// The uid of the primary that PostgreSQL is started again for.
    pub restarting: Option<String>,
    /// Whether no commit is acknowledged.
    pub blocked: bool,
    /// For whom commits wait.
    pub waited_for: BTreeSet<String>,
}

impl Group {
    /// Does what is due; gives the times when something is due next.
    pub fn govern(&mut self, key: &Key, world: &mut Databases, store: &mut Store) -> Vec<Instant> {
        self.finish(key, world, store);
        self.elect(key, world, store);
        self.lead(key, world, store);
        self.follow(key, world);
        let busy = world
            .of(key)
            .into_iter()
            .filter_map(|instance| match instance.phase {
                Phase::Busy(_, until) => Some(until),
                _ => None,
            });
        let now = Instant::now();
        let vacant = self
            .vacant
            .into_iter()
            .flat_map(|since| [since + RELEASED, since + SILENT]);
        let usurped = self.usurped.map(|since| since + NOTICE);
        busy.chain(vacant)
            .chain(usurped)
            .filter(|due| *due > now)
            .collect()
    }

    /// What is so now.
    pub fn known(&self, key: &Key, world: &Databases) -> Known {
        let leader = leader(key, world);
        let instances = world.of(key);
        let names = |is: &dyn Fn(&Instance) -> bool| {
            let those = instances.iter().filter(|instance| is(instance));
            those.map(|instance| instance.name().to_owned()).collect()
        };
        let identifier = leader
            .as_ref()
            .and_then(|leader| Some(world.disk(leader)?.identifier.clone()));
        let has_all = |instance: &Instance| {
            let is_up = matches!(
                instance.phase,
                Phase::Leading | Phase::Replica | Phase::Busy(State::Promoting, _)
            );
            let disk = world.disk(instance).filter(|_| is_up && !instance.ending);
            disk.is_some_and(|disk| disk.commits >= world.acknowledged(&disk.identifier))
        };
        Known {
            leading: names(&|instance| instance.phase == Phase::Leading),
            streaming: names(&|instance| streams(instance, leader.as_ref(), world)),
            identifier,
            complete: names(&has_all),
        }
    }

    /// What took its time is over.
    fn finish(&mut self, key: &Key, world: &mut Databases, store: &mut Store) {
        let now = Instant::now();
        let leader = leader(key, world);
        let of_it: Vec<Instance> = world.of(key).into_iter().cloned().collect();
        for instance in of_it {
            let Phase::Busy(state, until) = instance.phase else {
                continue;
            };
            if until > now {
                continue;
            }
            let uid = instance.uid.clone();
            let asked = instance.told.as_ref().map_or(0, super::Told::connections);
            match state {
                State::Promoting => world.set(&uid, Phase::Leading),
                State::Initialising => {
                    world.begun += 1;
                    let identifier = (7_000_000 + world.begun).to_string();
                    let disk = Disk {
                        identifier: identifier.clone(),
                        timeline: 1,
                        commits: 1,
                        floor: asked,
                    };
                    world.disks.insert(instance.volume.clone(), disk);
                    world.started_with(&uid, asked);
                    if let Some(lease) = Lease::read(store, key) {
                        let record = Record {
                            system_identifier: Some(identifier),
                            ..lease.record.clone()
                        };
                        lease.write(store, &instance.identity, record);
                    }
                    world.set(&uid, Phase::Leading);
                }
                State::Joining | State::Rewinding => {
                    let copied = leader.as_ref().and_then(|leader| world.disk(leader).cloned());
                    let next = match copied {
                        Some(disk) => {
                            world.disks.insert(instance.volume.clone(), disk);
                            Phase::Busy(State::Starting, now + START)
                        }
                        None => Phase::Idle,
                    };
                    world.set(&uid, next);
                }
                State::Stopping => {
                    self.stop(key, world, store, &uid);
                    world.set(&uid, Phase::Busy(State::Starting, now + START));
                }
                _ if self.restarting.as_ref() == Some(&uid) => {
                    self.restarting = None;
                    world.started_with(&uid, asked);
                    world.set(&uid, Phase::Leading);
                }
                _ => {
                    let floor = world.disk(&instance).map_or(0, |disk| disk.floor);
                    let floor = leader.as_ref().map_or(floor, |leader| leader.connections);
                    world.started_with(&uid, asked.max(floor));
                    world.set(&uid, Phase::Replica);
                }
            }
        }
    }

    /// Ends in order: those who follow get everything, then whoever leads releases the Lease.
    pub fn stop(&mut self, key: &Key, world: &mut Databases, store: &mut Store, uid: &str) {
        let Some(instance) = world.pods.get(uid).cloned() else {
            return;
        };
        let (Some(lease), Some(disk)) = (Lease::read(store, key), world.disk(&instance).cloned()) else {
            return;
        };
        if lease.holder() != instance.identity {
            return;
        }
        self.catch_up(key, world, &instance);
        self.restarting = self.restarting.take().filter(|restarting| restarting != uid);
        let record = Record {
            handover: self.handover.take(),
            stopped: Some(store.clock.now()),
            flushed: Lsn(disk.commits),
            ..lease.record.clone()
        };
        lease.write(store, "", record);
    }

    /// Those that stream have what `leader` has.
    pub fn catch_up(&self, key: &Key, world: &mut Databases, leader: &Instance) {
        let Some(commits) = world.disk(leader).map(|disk| disk.commits) else {
            return;
        };
        // Who is about to stop leads still, in the eyes of those who follow.
        let as_leader = Instance {
            phase: Phase::Leading,
            ..leader.clone()
        };
        let of_it: Vec<Instance> = world.of(key).into_iter().cloned().collect();
        for instance in of_it {
            if streams(&instance, Some(&as_leader), world)
                && let Some(disk) = world.disks.get_mut(&instance.volume)
            {
                disk.commits = commits;
            }
        }
    }

    /// Has somebody take the Lease if nobody holds it.
    fn elect(&mut self, key: &Key, world: &mut Databases, store: &mut Store) {
        let Some(lease) = Lease::read(store, key) else {
            return;
        };
        let holder = lease.holder().to_owned();
        if !holder.is_empty() && world.of(key).iter().any(|instance| instance.identity == holder) {
            self.vacant = None;
            return;
        }
        let now = Instant::now();
        let since = *self.vacant.get_or_insert(now);
        let patience = if holder.is_empty() { RELEASED } else { SILENT };
        if since + patience > now {
            return;
        }
        let is_gathered = since + GATHERING <= now;
        let Some(winner) = choose(key, world, &lease.record, is_gathered) else {
            return;
        };
        self.vacant = None;
        let disk = world.disks.get_mut(&winner.volume);
        let mut record = Record {
            primary: winner.id.name.clone(),
            handover: None,
            missing: None,
            missing_since: 0,
            missing_on: 0,
            stopped: None,
            ..lease.record.clone()
        };
        record.members.insert(winner.id.name.clone());
        let phase = match disk {
            Some(disk) => {
                disk.timeline = record.timeline.max(disk.timeline) + 1;
                record.timeline = disk.timeline;
                record.system_identifier = Some(disk.identifier.clone());
                let (commits, identifier) = (disk.commits, disk.identifier.clone());
                assert!(
                    commits >= world.acknowledged(&identifier),
                    "{} leads and lacks what was acknowledged",
                    winner.id.name
                );
                Phase::Busy(State::Promoting, now + PROMOTE)
            }
            None => {
                record.timeline = 1;
                Phase::Busy(State::Initialising, now + BEGIN)
            }
        };
        lease.write(store, &winner.identity, record);
        world.set(&winner.uid, phase);
    }

    /// What the primary does: it says in the Lease for whom commits wait, and then commits.
    fn lead(&mut self, key: &Key, world: &mut Databases, store: &mut Store) {
        let leading: Vec<Instance> = world
            .of(key)
            .into_iter()
            .filter(|instance| instance.phase == Phase::Leading)
            .cloned()
            .collect();
        for leader in leading {
            if let Some(lease) = Lease::read(store, key) {
                let is_new = lease.holder().is_empty() && lease.record.primary.is_empty();
                if lease.holder() != leader.identity && !is_new {
                    let since = *self.usurped.get_or_insert_with(Instant::now);
                    if since + NOTICE <= Instant::now() {
                        self.usurped = None;
                        world.set(&leader.uid, Phase::Busy(State::Starting, Instant::now() + START));
                        continue;
                    }
                } else {
                    self.usurped = None;
                    let record = self.record(key, world, &leader, &lease.record);
                    lease.write(store, &leader.identity, record);
                }
            }
            self.commit(key, world, &leader);
        }
    }

    /// What the primary keeps in the Lease.
    fn record(&mut self, key: &Key, world: &Databases, leader: &Instance, before: &Record) -> Record {
        let of_it = world.of(key).into_iter();
        let streaming: BTreeSet<String> = of_it
            .filter(|instance| streams(instance, Some(leader), world))
            .map(|instance| instance.name().to_owned())
            .collect();
        let (members, excused, synchronous) = match &leader.told {
            Some(told) => (told.names(), &told.settings.excused, told.settings.synchronous),
            None => return before.clone(),
        };
        let here: BTreeSet<String> = streaming
            .iter()
            .filter(|name| members.contains(name.as_str()))
            .cloned()
            .collect();
        let needed: BTreeSet<String> = here.difference(excused).cloned().collect();
        self.waited_for = match synchronous {
            Synchronous::Off => BTreeSet::new(),
            Synchronous::Required if needed.is_empty() => here.clone(),
            _ => needed,
        };
        self.blocked = synchronous == Synchronous::Required && self.waited_for.is_empty();
        let mut named: BTreeSet<String> = before
            .members
            .iter()
            .filter(|name| members.contains(name.as_str()))
            .cloned()
            .collect();
        named.extend(here);
        named.insert(leader.name().to_owned());
        let others = members.iter().filter(|name| **name != leader.name());
        let others = others.map(|name| (*name).to_owned()).collect();
        let quorum = Quorum {
            standbys: self.waited_for.clone(),
            need: 1,
        };
        Record {
            primary: leader.name().to_owned(),
            system_identifier: world.disk(leader).map(|disk| disk.identifier.clone()),
            timeline: world.disk(leader).map_or(0, |disk| disk.timeline),
            members: named,
            quorums: if self.blocked && before.quorums.is_empty() {
                vec![Quorum {
                    standbys: others,
                    need: 1,
                }]
            } else if self.blocked {
                before.quorums.clone()
            } else if self.waited_for.is_empty() {
                Vec::new()
            } else {
                vec![quorum]
            },
            asynchronous: self.waited_for.is_empty() && (!self.blocked || before.asynchronous),
            flushed: before.flushed,
            flushed_on: before.flushed_on,
            handover: None,
            missing: None,
            missing_since: 0,
            missing_on: 0,
            stopped: None::<Timestamp>,
        }
    }

    /// One more commit: whoever leads has it, and one of those for whom it waits; the others are a step behind.
    fn commit(&self, key: &Key, world: &mut Databases, leader: &Instance) {
        if self.blocked {
            return;
        }
        let Some(disk) = world.disks.get_mut(&leader.volume) else {
            return;
        };
        disk.commits += 1;
        let (commits, identifier) = (disk.commits, disk.identifier.clone());
        let count = self.waited_for.len() as u64;
        let turn = commits
            .checked_rem(count)
            .and_then(|turn| usize::try_from(turn).ok());
        let first = turn.and_then(|turn| self.waited_for.iter().nth(turn));
        let of_it: Vec<Instance> = world.of(key).into_iter().cloned().collect();
        for instance in of_it {
            if streams(&instance, Some(leader), world)
                && let Some(disk) = world.disks.get_mut(&instance.volume)
            {
                let has = if first == Some(&instance.id.name) {
                    commits
                } else {
                    commits - 1
                };
                disk.commits = disk.commits.max(has);
            }
        }
        let known = world.acknowledged.entry(identifier).or_default();
        *known = commits.max(*known);
    }

    /// What all others do where somebody leads.
    fn follow(&self, key: &Key, world: &mut Databases) {
        let Some(leader) = leader(key, world) else {
            return;
        };
        let Some(ahead) = world.disk(&leader).cloned() else {
            return;
        };
        let now = Instant::now();
        let of_it: Vec<Instance> = world.of(key).into_iter().cloned().collect();
        for instance in of_it {
            let is_free = matches!(instance.phase, Phase::Idle | Phase::Replica);
            if !is_free || instance.ending || instance.told.is_none() {
                continue;
            }
            let next = match world.disks.get_mut(&instance.volume) {
                None => Phase::Busy(State::Joining, now + COPY),
                Some(disk) if disk.identifier != ahead.identifier => Phase::Idle,
                Some(disk) if disk.commits > ahead.commits || disk.timeline > ahead.timeline => {
                    Phase::Busy(State::Rewinding, now + REWIND)
                }
                Some(disk) => {
                    disk.timeline = ahead.timeline;
                    disk.floor = leader.connections;
                    match instance.phase {
                        Phase::Replica => Phase::Replica,
                        _ => Phase::Busy(State::Starting, now + START),
                    }
                }
            };
            world.set(&instance.uid, next);
        }
    }
}

/// Who leads, if anybody does.
pub fn leader(key: &Key, world: &Databases) -> Option<Instance> {
    let mut of_it = world.of(key).into_iter();
    of_it.find(|instance| instance.phase == Phase::Leading).cloned()
}

/// Whether an instance follows that one.
pub fn streams(instance: &Instance, leader: Option<&Instance>, world: &Databases) -> bool {
    let Some(leader) = leader.filter(|leader| leader.uid != instance.uid) else {
        return false;
    };
    let (Some(own), Some(ahead)) = (world.disk(instance), world.disk(leader)) else {
        return false;
    };
    instance.phase == Phase::Replica
        && !instance.ending
        && own.identifier == ahead.identifier
        && own.timeline == ahead.timeline
        // With fewer than its primary, PostgreSQL does not replay.
        && instance.connections >= leader.connections
}

impl Databases {
    fn set(&mut self, uid: &str, phase: Phase) {
        if let Some(instance) = self.pods.get_mut(uid) {
            instance.phase = phase;
        }
    }

    fn started_with(&mut self, uid: &str, connections: u64) {
        if let Some(instance) = self.pods.get_mut(uid) {
            instance.connections = connections;
        }
    }

    /// How many commits of these data were acknowledged.
    pub(super) fn acknowledged(&self, identifier: &str) -> u64 {
        self.acknowledged.get(identifier).copied().unwrap_or(0)
    }
}

/// By identifier of the data.
pub type Acknowledged = BTreeMap<String, u64>;
