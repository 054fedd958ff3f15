//! A database in memory: instances with their volumes, the API server with the Lease, networks that part, and clients that write.
//!
//! A position in the log is how many entries there are before it. Each tick takes [`TICK`]; whatever takes longer ends in a later one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::{
    Command, Data, How, Moment, Peer, Protocol, Running, Seen, Server, Situation, Stored, Work, Write,
};
use crate::api::database::agent::{Lsn, Member, Plea, Report, Settings, Standby, State, Synchronous};
use crate::instance::postgres::record::{Quorum, Record};

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
    peers: BTreeMap<String, Peer>,
    lease: Option<Pending<Option<Answer>>>,
    plea: Option<Pending<bool>>,
    plea_sent: Moment,
    work: Option<(Work, Pending<Command>)>,
    pub hung: bool,
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

    fn reaches(&self, a: usize, b: usize) -> bool {
        !self.cut.contains(&(a.min(b), a.max(b)))
            && self.instances[a].began.is_some()
            && self.instances[b].began.is_some()
    }

    fn index(&self, name: &str) -> usize {
        self.instances
            .iter()
            .position(|instance| instance.name == name)
            .unwrap()
    }

    // What befalls them

    /// The container ends, and PostgreSQL with it. The kubelet says so and starts another one after a while.
    pub fn kill(&mut self, index: usize) {
        let back = self.now + self.chance.millis(300, 3000);
        self.say(format!("{} is killed", self.instances[index].name));
        let identity = self.instances[index].identity();
        self.instances[index].die();
        self.instances[index].returns = Some(back);
        // The kubelet tells by and by. It only counts for those who look.
        if self.chance.below(2) == 0 && self.lease.seen.holder == identity {
            self.lease.seen.ended = true;
        }
    }

    /// The pod is gone, and another of the same name takes over its volume once the old processes are gone.
    pub fn delete(&mut self, index: usize) {
        let back = self.now + self.chance.millis(1000, 8000);
        self.say(format!("{} is deleted", self.instances[index].name));
        let uid = self.chance.next();
        let instance = &mut self.instances[index];
        instance.die();
        instance.uid = uid;
        instance.returns = Some(back);
    }

    /// The same, and the volume is lost.
    pub fn wipe(&mut self, index: usize) {
        self.delete(index);
        self.instances[index].volume = Volume::default();
    }

    pub fn kill_postgres(&mut self, index: usize) {
        let name = self.instances[index].name.clone();
        self.say(format!("PostgreSQL of {name} is killed"));
        let instance = &mut self.instances[index];
        instance.starts = None;
        instance.stop(false);
    }

    pub fn stop(&mut self, index: usize) {
        let name = self.instances[index].name.clone();
        self.say(format!("{name} is asked to stop"));
        self.instances[index].protocol.asked_to_stop();
    }

    pub fn hand_over(&mut self, index: usize) {
        let answer = self.with(index, |protocol, situation| {
            protocol.asked_to_hand_over(None, situation)
        });
        let name = self.instances[index].name.clone();
        self.say(format!("{name} is asked to hand over: {answer:?}"));
    }

    pub fn hang(&mut self, index: usize) {
        let name = self.instances[index].name.clone();
        self.say(format!("PostgreSQL of {name} hangs"));
        let instance = &mut self.instances[index];
        instance.hung = !matches!(instance.server, Server::Stopped);
    }

    // How they live

    fn with<T>(&mut self, index: usize, act: impl FnOnce(&mut Protocol, &Situation<'_>) -> T) -> T {
        let now = self.now;
        let settings = self.settings.clone();
        let instance = &mut self.instances[index];
        let identity = instance.identity();
        let server = if instance.hung && !matches!(instance.server, Server::Stopped) {
            Server::Silent
        } else {
            instance.server.clone()
        };
        let mut protocol = std::mem::take(&mut instance.protocol);
        let situation = Situation {
            now,
            me: &instance.name,
            identity: &identity,
            settings: &settings,
            lease: instance.seen.as_ref().map(|(seen, _)| seen),
            api: instance.api,
            data: &instance.volume.data,
            server: &server,
            peers: &instance.peers,
            canary: instance.canary,
            looked: now,
            writing: instance.lease.is_some(),
            pleading: instance.plea.is_some(),
            work: instance.work.as_ref().map(|(work, _)| *work),
        };
        let outcome = act(&mut protocol, &situation);
        self.instances[index].protocol = protocol;
        outcome
    }

    fn live(&mut self, index: usize) {
        if self.instances[index].began.is_none() {
            if self.instances[index].returns.is_some_and(|at| at <= self.now) {
                self.begin(index);
            }
            return;
        }
        self.look(index);
        self.finish(index);
        // Not everybody acts in every tick.
        if self.chance.below(4) == 0 {
            return;
        }
        let command = self.with(index, |protocol, situation| protocol.step(situation));
        self.carry_out(index, command);
    }

    fn begin(&mut self, index: usize) {
        let nonce = self.chance.next();
        let now = self.now;
        let settings = self.settings.clone();
        let instance = &mut self.instances[index];
        instance.nonce = nonce;
        // The clock of a process begins with it; here they all share one, so its promise does too.
        instance.protocol = Protocol::new(&settings);
        instance.protocol.promised += now;
        instance.began = Some(now);
        instance.returns = None;
        let name = instance.name.clone();
        self.say(format!("{name} begins"));
    }

    /// What it sees of the Lease, of the others and of its own PostgreSQL.
    fn look(&mut self, index: usize) {
        let now = self.now;
        if !self.api_cut.contains(&index) && self.chance.below(6) == 0 {
            self.instances[index].api = Some(now);
            let (newest, version) = (self.lease.seen.clone(), self.lease.version);
            self.instances[index].see(newest, version, now);
        }
        for other in 0..self.instances.len() {
            if other != index && self.reaches(index, other) && self.chance.below(6) == 0 {
                let report = self.report(other);
                let name = self.instances[other].name.clone();
                // Asked some ticks ago: what is answered is of now, what counts is when it was asked.
                let asked = now - TICK;
                self.instances[index].peers.insert(name, Peer { report, asked });
            }
        }
        let instance = &mut self.instances[index];
        if instance.starts.as_ref().is_some_and(|starts| starts.at <= now)
            && let Some(starts) = instance.starts.take()
            && !instance.hung
        {
            instance.server = starts.what;
            if matches!(&instance.server, Server::Running(running) if running.primary) {
                instance.canary = Some(now);
            }
        }
        if !instance.hung && matches!(&instance.server, Server::Running(running) if running.primary) {
            instance.canary = Some(now);
        }
    }

    fn report(&mut self, index: usize) -> Report {
        let role = self.with(index, |protocol, situation| protocol.role(situation));
        let instance = &self.instances[index];
        let mut report = Report {
            name: instance.name.clone(),
            role,
            ..Report::default()
        };
        if let Data::Present(stored) = &instance.volume.data {
            report.system_identifier = Some(stored.system_identifier.clone());
            report.timeline = Some(stored.timeline);
            report.led = !stored.standby;
        }
        if let Server::Running(running) = &instance.server
            && !instance.hung
        {
            report.timeline = Some(running.timeline);
            report.received = Some(running.received);
            report.streaming = running.streaming;
            report.state = if running.streaming {
                State::Streaming
            } else {
                State::Detached
            };
        }
        report
    }

    /// What was begun and has come to its end.
    fn finish(&mut self, index: usize) {
        let now = self.now;
        if self.instances[index]
            .lease
            .as_ref()
            .is_some_and(|pending| pending.at <= now)
        {
            let answer = self.instances[index]
                .lease
                .take()
                .and_then(|pending| pending.what);
            let settings = self.settings.clone();
            let instance = &mut self.instances[index];
            match answer {
                Some(Answer::Written {
                    why,
                    sent,
                    seen,
                    version,
                }) => {
                    instance.api = Some(now);
                    instance.see(seen, version, now);
                    match why {
                        Write::Release => instance.protocol.released(),
                        Write::Claim | Write::Renew => instance.protocol.renewed(sent, &settings),
                    }
                }
                Some(Answer::Refused { seen, version }) => {
                    instance.api = Some(now);
                    instance.see(seen, version, now);
                }
                None => {}
            }
        }
        if self.instances[index]
            .plea
            .as_ref()
            .is_some_and(|pending| pending.at <= now)
        {
            let granted = self.instances[index]
                .plea
                .take()
                .is_some_and(|pending| pending.what);
            let (sent, settings) = (self.instances[index].plea_sent, self.settings.clone());
            if granted {
                self.instances[index].protocol.confirmed(sent, &settings);
            }
        }
        if self.instances[index]
            .work
            .as_ref()
            .is_some_and(|(_, pending)| pending.at <= now)
            && let Some((_, pending)) = self.instances[index].work.take()
        {
            self.done(index, pending.what);
        }
    }

    fn carry_out(&mut self, index: usize, command: Command) {
        let short = self.chance.millis(50, 400);
        let name = self.instances[index].name.clone();
        let told = format!("{command:?}");
        if self.instances[index].state != told && !matches!(command, Command::Write(Write::Renew, _)) {
            self.say(format!("{name}: {told}"));
            self.instances[index].state = told;
        }
        let work = match &command {
            Command::Wait(_) | Command::Fail(_) => return,
            Command::Write(why, record) => return self.write(index, *why, record.clone()),
            Command::Plead => return self.plead(index),
            Command::Exit => {
                let back = self.now + self.chance.millis(300, 3000);
                self.instances[index].die();
                self.instances[index].returns = Some(back);
                return;
            }
            Command::Stop(How::Immediate) => {
                self.instances[index].work = None;
                self.instances[index].starts = None;
                self.instances[index].hung = false;
                return self.instances[index].stop(false);
            }
            Command::Stop(How::Fast) => (Work::Stopping, short),
            Command::Initialise => (Work::Initialising, self.chance.millis(500, 2000)),
            Command::Join(_) => (Work::Joining, self.chance.millis(500, 4000)),
            Command::Rewind(_) => {
                self.instances[index].stop(true);
                (Work::Rewinding, self.chance.millis(300, 2000))
            }
            Command::Promote(..) => (Work::Promoting, short),
            Command::Lead(_) | Command::Follow(_) | Command::Synchronise(_) => (Work::Other, short),
        };
        if matches!(work.0, Work::Initialising | Work::Joining | Work::Rewinding) {
            self.instances[index].volume.data = Data::Broken("unfinished".into());
        }
        let at = self.now + work.1;
        self.instances[index].work = Some((work.0, Pending { at, what: command }));
    }

    fn write(&mut self, index: usize, why: Write, record: Record) {
        let at = self.now + self.chance.millis(50, 300);
        let cut = self.api_cut.contains(&index);
        // Some writes take effect although nobody hears of it.
        let lost = self.chance.below(40) == 0;
        let known = self.instances[index].seen.as_ref().map(|(_, version)| *version);
        let identity = self.instances[index].identity();
        let answer = if cut {
            None
        } else if known != Some(self.lease.version) {
            Some(Answer::Refused {
                seen: self.lease.seen.clone(),
                version: self.lease.version,
            })
        } else {
            self.lease.version += 1;
            let took = self.lease.seen.holder != identity;
            self.lease.seen.transitions += i32::from(why == Write::Claim && took);
            self.lease.seen.holder = if why == Write::Release {
                String::new()
            } else {
                identity
            };
            self.lease.seen.ended &= !took;
            self.lease.seen.record = Some(record);
            self.lease.renewed = self.now;
            let (seen, version) = (self.lease.seen.clone(), self.lease.version);
            Some(Answer::Written {
                why,
                sent: self.now,
                seen,
                version,
            })
        };
        let what = if lost { None } else { answer };
        self.instances[index].lease = Some(Pending { at, what });
    }

    fn plead(&mut self, index: usize) {
        let (seen, _) = self.instances[index].seen.clone().unwrap();
        let plea = Plea {
            holder: self.instances[index].identity(),
            transitions: seen.transitions,
        };
        let mut granted = true;
        let record = seen.record.unwrap();
        let name = self.instances[index].name.clone();
        for member in record.others(&name) {
            let other = self.index(member);
            granted &= self.reaches(index, other)
                && self
                    .with(other, |protocol, situation| protocol.promise(&plea, situation))
                    .is_ok();
        }
        let at = self.now + self.chance.millis(50, 400);
        let sent = self.now;
        let instance = &mut self.instances[index];
        instance.plea = Some(Pending { at, what: granted });
        instance.plea_sent = sent;
    }

    /// What a command has brought about.
    fn done(&mut self, index: usize, command: Command) {
        let now = self.now;
        match command {
            Command::Initialise => {
                let stored = Stored {
                    system_identifier: "1".into(),
                    timeline: 1,
                    standby: false,
                    clean: true,
                };
                self.instances[index].volume = Volume {
                    log: vec![],
                    data: Data::Present(stored),
                    history: vec![(1, 0)],
                };
            }
            Command::Join(from) | Command::Rewind(from) => {
                let from = self.index(&from);
                let leads =
                    matches!(&self.instances[from].server, Server::Running(running) if running.primary);
                if !self.reaches(index, from) || !leads || self.instances[from].hung {
                    return;
                }
                let mut volume = self.instances[from].volume.clone();
                if let Data::Present(stored) = &mut volume.data {
                    stored.standby = true;
                }
                self.instances[index].volume = volume;
            }
            Command::Lead(quorum) => self.instances[index].start(true, quorum, None, now + TICK * 6),
            Command::Follow(upstream) => match &mut self.instances[index].server {
                Server::Running(running) => (running.upstream, running.streaming) = (upstream, false),
                Server::Stopped => self.instances[index].start(false, None, upstream, now + TICK * 6),
                Server::Starting | Server::Silent => {}
            },
            Command::Promote(after, quorum) => {
                let instance = &mut self.instances[index];
                if let Server::Running(running) = &mut instance.server
                    && !instance.hung
                {
                    let timeline = after.max(running.timeline) + 1;
                    let at = instance.volume.log.len();
                    instance.volume.history.push((timeline, at));
                    (running.primary, running.timeline, running.upstream) = (true, timeline, None);
                    (running.quorum, running.streaming) = (quorum, false);
                    instance.mark(timeline, false);
                }
            }
            Command::Synchronise(quorum) => {
                let instance = &mut self.instances[index];
                if let Server::Running(running) = &mut instance.server
                    && !instance.hung
                {
                    running.quorum = quorum;
                }
            }
            // What does not stop in order within its time is killed.
            Command::Stop(_) if self.instances[index].hung => {
                self.instances[index].hung = false;
                self.instances[index].stop(false);
            }
            Command::Stop(_) => {
                self.stream();
                self.instances[index].stop(true);
            }
            _ => {}
        }
    }

    /// Replicas receive from their primaries what those have.
    fn stream(&mut self) {
        for primary in 0..self.instances.len() {
            let Server::Running(running) = &self.instances[primary].server else {
                continue;
            };
            if !running.primary || self.instances[primary].hung {
                continue;
            }
            let mut standbys = Vec::new();
            for replica in 0..self.instances.len() {
                if replica != primary && self.reaches(primary, replica) && self.receive(primary, replica) {
                    let instance = &self.instances[replica];
                    let flushed = Some(Lsn(instance.volume.log.len() as u64));
                    standbys.push(Standby {
                        name: instance.name.clone(),
                        state: "streaming".into(),
                        flushed,
                        ..Standby::default()
                    });
                }
            }
            let length = self.instances[primary].volume.log.len() as u64;
            if let Server::Running(running) = &mut self.instances[primary].server {
                running.standbys = standbys;
                (running.received, running.replayed) = (Lsn(length), Lsn(length));
            }
        }
        for index in 0..self.instances.len() {
            let upstream = match &self.instances[index].server {
                Server::Running(running) if !running.primary => running.upstream.clone(),
                _ => continue,
            };
            let fed = upstream.is_some_and(|upstream| {
                let from = self.index(&upstream);
                let me = &self.instances[index].name;
                matches!(&self.instances[from].server, Server::Running(running) if running.primary && running.standbys.iter().any(|standby| standby.name == *me))
            });
            if let Server::Running(running) = &mut self.instances[index].server {
                running.streaming = fed;
            }
        }
    }

    /// Whether the replica follows, which it only can if its log is a beginning of the primary's. It gets some of what it lacks.
    fn receive(&mut self, primary: usize, replica: usize) -> bool {
        let name = self.instances[primary].name.clone();
        let follows = matches!(&self.instances[replica].server, Server::Running(running) if !running.primary && running.upstream.as_ref() == Some(&name));
        if !follows || self.instances[replica].hung {
            return false;
        }
        let theirs = self.instances[primary].volume.clone();
        let mine = &self.instances[replica].volume.log;
        if !theirs.log.starts_with(mine) {
            return false;
        }
        let some = mine.len() + self.chance.below(12) as usize;
        let log = theirs.log[..some.min(theirs.log.len())].to_vec();
        let timeline = theirs.history.last().map_or(1, |(timeline, _)| *timeline);
        let instance = &mut self.instances[replica];
        instance.volume.history = theirs.history;
        if let Server::Running(running) = &mut instance.server {
            (running.received, running.replayed, running.timeline) =
                (Lsn(log.len() as u64), Lsn(log.len() as u64), timeline);
        }
        instance.volume.log = log;
        instance.mark(timeline, true);
        true
    }

    /// Whoever takes writes gets some, and those that enough replicas have are acknowledged.
    fn clients(&mut self) {
        for index in 0..self.instances.len() {
            let leads = matches!(&self.instances[index].server, Server::Running(running) if running.primary);
            if !leads || self.instances[index].hung {
                continue;
            }
            let entry = self.next_entry;
            self.next_entry += 1;
            let instance = &mut self.instances[index];
            let timeline = instance
                .volume
                .history
                .last()
                .map_or(1, |(timeline, _)| *timeline);
            instance.volume.log.push((timeline, entry));
            let at = instance.volume.log.len();
            self.waiting.push((index, timeline, entry, at));
        }
        let waiting = std::mem::take(&mut self.waiting);
        for (index, timeline, entry, at) in waiting {
            let instance = &self.instances[index];
            let Server::Running(running) = &instance.server else {
                continue;
            };
            if !running.primary || instance.volume.log.get(at - 1) != Some(&(timeline, entry)) {
                continue;
            }
            let having = |quorum: &Quorum| {
                let have = running
                    .standbys
                    .iter()
                    .filter(|standby| quorum.standbys.contains(&standby.name));
                have.filter(|standby| standby.flushed >= Some(Lsn(at as u64)))
                    .count()
                    >= quorum.need
            };
            if !instance.hung && running.quorum.as_ref().is_none_or(having) {
                self.acknowledged.push((entry, self.now));
            } else {
                self.waiting.push((index, timeline, entry, at));
            }
        }
    }

    /// Acknowledged entries that the primary does not have.
    pub fn lost(&self) -> Vec<(u64, Moment)> {
        let Some(primary) = self.primary() else {
            return self.acknowledged.clone();
        };
        let there: BTreeSet<u64> = self.instances[primary]
            .volume
            .log
            .iter()
            .map(|(_, entry)| *entry)
            .collect();
        self.acknowledged
            .iter()
            .filter(|(entry, _)| !there.contains(entry))
            .copied()
            .collect()
    }
}

impl Instance {
    fn new(name: String, uid: u64, settings: &Settings) -> Self {
        Self {
            name,
            uid,
            nonce: 0,
            volume: Volume::default(),
            protocol: Protocol::new(settings),
            server: Server::Stopped,
            starts: None,
            began: None,
            returns: None,
            seen: None,
            api: None,
            canary: None,
            peers: BTreeMap::new(),
            lease: None,
            plea: None,
            plea_sent: Duration::ZERO,
            work: None,
            hung: false,
            state: String::new(),
        }
    }

    fn identity(&self) -> String {
        format!("{:x}-{:x}", self.uid, self.nonce)
    }

    fn die(&mut self) {
        let settings = Settings::default();
        self.stop(false);
        let (name, uid, volume) = (self.name.clone(), self.uid, std::mem::take(&mut self.volume));
        *self = Self {
            volume,
            ..Self::new(name, uid, &settings)
        };
    }

    fn stop(&mut self, clean: bool) {
        if let Data::Present(stored) = &mut self.volume.data {
            stored.clean = clean;
        }
        (self.server, self.canary) = (Server::Stopped, None);
    }

    fn start(&mut self, primary: bool, quorum: Option<Quorum>, upstream: Option<String>, at: Moment) {
        let Data::Present(stored) = &self.volume.data else {
            return;
        };
        let length = Lsn(self.volume.log.len() as u64);
        let running = Running {
            primary,
            system_identifier: stored.system_identifier.clone(),
            timeline: stored.timeline,
            received: length,
            replayed: length,
            upstream,
            streaming: false,
            standbys: Vec::new(),
            quorum,
        };
        self.server = Server::Starting;
        self.starts = Some(Pending {
            at,
            what: Server::Running(running),
        });
    }

    fn mark(&mut self, timeline: u32, standby: bool) {
        if let Data::Present(stored) = &mut self.volume.data {
            (stored.timeline, stored.standby, stored.clean) = (timeline, standby, false);
        }
    }

    /// Unchanged is what has the same version.
    fn see(&mut self, newest: Seen, version: u64, now: Moment) {
        let (since, ended) = match &self.seen {
            Some((before, known)) if *known == version => (before.since, newest.ended || before.ended),
            Some((_, known)) if *known > version => return,
            _ => (now, newest.ended),
        };
        self.seen = Some((
            Seen {
                since,
                ended,
                ..newest
            },
            version,
        ));
    }
}
