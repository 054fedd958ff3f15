//! A database in memory: instances with their volumes, the API server with the Lease, networks that part, and clients that write.
//!
//! A position in the log is how many entries there are before it. Each tick takes [`TICK`]; whatever takes longer ends in a later one.

mod befalls;
mod instance;
mod lives;
mod streams;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::{Command, Data, Moment, Peer, Protocol, Seen, Server, Work, Write};
use crate::api::database::agent::{Lsn, Member, Quorum, Settings, Synchronous, Timing};

pub const TICK: Duration = Duration::from_millis(50);

/// SplitMix64: the same for the same seed on every machine.
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from + 1))
    }
}

/// An entry of the log: on which timeline it was written, and which it is.
type Entry = (u32, u64);

#[derive(Clone, Debug, Default)]
pub struct Volume {
    pub log: Vec<Entry>,
    pub data: Data,
    /// PostgreSQL panics when it is started on it.
    pub spoilt: bool,
    /// The timelines of its history, with how far each goes.
    history: Vec<(u32, usize)>,
}

/// What has been begun and ends at some time.
struct Pending<T> {
    at: Moment,
    what: T,
}

enum Answer {
    Written {
        why: Write,
        sent: Moment,
        seen: Seen,
        version: u64,
    },
    Refused {
        seen: Seen,
        version: u64,
    },
}

pub struct Instance {
    pub name: String,
    /// The times that it goes by: it learns of others sooner or later.
    timing: Timing,
    uid: u64,
    nonce: u64,
    pub volume: Volume,
    protocol: Protocol,
    server: Server,
    starts: Option<Pending<Server>>,
    /// When this process began; none while there is none.
    pub began: Option<Moment>,
    returns: Option<Moment>,
    seen: Option<(Seen, u64)>,
    api: Option<Moment>,
    canary: Option<Moment>,
    /// How far PostgreSQL was when it was last looked at, and when that was: that is what others are told.
    looked: Option<(Lsn, Moment)>,
    /// When a replica has applied what it had when it was started.
    applied: Moment,
    /// From when on the control file tells of the timeline.
    checkpoint: Moment,
    peers: BTreeMap<String, Peer>,
    lease: Option<Pending<Option<Answer>>>,
    plea: Option<Pending<bool>>,
    plea_sent: Moment,
    work: Option<(Work, Pending<Command>)>,
    pub hung: bool,
    /// It receives less than is written.
    pub slow: bool,
    /// Nobody can tell how far its log goes.
    pub blind: bool,
    /// Its disk answers nothing before then, and the kernel keeps whoever waits for it.
    frozen: Option<Moment>,
    /// What its commits waited for until not long ago.
    before: Option<Pending<Option<Quorum>>>,
    pub state: String,
}

/// The Lease as the API server has it.
#[derive(Clone, Default)]
struct Stored_ {
    seen: Seen,
    version: u64,
    renewed: Moment,
}

pub struct World {
    pub now: Moment,
    pub settings: Settings,
    pub instances: Vec<Instance>,
    lease: Stored_,
    pub chance: Chance,
    /// Who does not reach the API server.
    pub api_cut: BTreeSet<usize>,
    /// Who does not reach each other.
    pub cut: BTreeSet<(usize, usize)>,
    next_entry: u64,
    /// Entries that a client was told are safe, and when.
    pub acknowledged: Vec<(u64, Moment)>,
    waiting: Vec<(usize, u32, u64, usize)>,
    pub trace: Vec<String>,
}

impl World {
    pub fn new(seed: u64, instances: usize, synchronous: Synchronous) -> Self {
        let names: Vec<String> = (0..instances).map(|i| format!("a-{i}")).collect();
        let members = names.iter().map(|name| Member {
            name: name.clone(),
            host: name.clone(),
        });
        let settings = Settings {
            database: "a".into(),
            members: members.collect(),
            synchronous,
            maximum_lag: 50,
            ..Settings::default()
        };
        let mut world = Self {
            now: Duration::ZERO,
            instances: Vec::new(),
            lease: Stored_::default(),
            chance: Chance(seed),
            api_cut: BTreeSet::new(),
            cut: BTreeSet::new(),
            next_entry: 1,
            acknowledged: Vec::new(),
            waiting: Vec::new(),
            trace: Vec::new(),
            settings,
        };
        for name in names {
            let uid = world.chance.next();
            world.instances.push(Instance::new(name, uid, &world.settings));
        }
        for index in 0..instances {
            let delay = world.chance.millis(0, 1500);
            world.instances[index].returns = Some(delay);
        }
        world
    }

    pub fn say(&mut self, text: String) {
        self.trace.push(format!("{:7.2} {text}", self.now.as_secs_f64()));
    }

    pub fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.tick();
        }
    }

    pub fn tick(&mut self) {
        self.now += TICK;
        for index in 0..self.instances.len() {
            self.live(index);
        }
        self.stream();
        self.clients();
        let primaries: Vec<_> = self.primaries().collect();
        assert!(
            primaries.len() <= 1,
            "two primaries: {primaries:?}\n{}",
            self.told()
        );
    }

    pub fn told(&self) -> String {
        let tail = self.trace.len().saturating_sub(80);
        self.trace[tail..].join("\n")
    }

    /// Who takes writes at this moment.
    pub fn primaries(&self) -> impl Iterator<Item = &str> {
        let leads = |instance: &&Instance| {
            !instance.hung && matches!(&instance.server, Server::Running(running) if running.primary)
        };
        self.instances
            .iter()
            .filter(leads)
            .map(|instance| instance.name.as_str())
    }

    pub fn primary(&self) -> Option<usize> {
        let name = self.primaries().next()?;
        self.instances.iter().position(|instance| instance.name == name)
    }

    /// Whether there is a primary that everybody else streams from.
    pub fn is_whole(&self) -> bool {
        let Some(primary) = self.primary() else {
            return false;
        };
        let Server::Running(running) = &self.instances[primary].server else {
            return false;
        };
        running.standbys.len() + 1 == self.instances.len()
    }

    /// Whether the Lease says one thing alone of what commits wait for.
    pub fn is_settled(&self) -> bool {
        self.lease
            .seen
            .record
            .as_ref()
            .is_some_and(|record| record.quorums.len() == 1)
    }

    pub fn states(&self) -> String {
        let states = self.instances.iter().map(|i| {
            format!(
                "{}: {} {:?} {:?} log {}",
                i.name,
                i.state,
                i.server,
                i.volume.data,
                i.volume.log.len()
            )
        });
        states.collect::<Vec<_>>().join("\n") + &format!("\n{:?}", self.lease.seen)
    }

    pub(super) fn reaches(&self, a: usize, b: usize) -> bool {
        !self.cut.contains(&(a.min(b), a.max(b)))
            && self.instances[a].began.is_some()
            && self.instances[b].began.is_some()
    }

    pub(super) fn index(&self, name: &str) -> usize {
        self.instances
            .iter()
            .position(|instance| instance.name == name)
            .unwrap()
    }
}
