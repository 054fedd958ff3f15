//! How instances live: what they see, what they do, and what comes of it.

use super::super::super::{
    Command, Data, How, Peer, Pleading, Protocol, Server, Situation, Stored, Work, Write,
};
use super::{Answer, Pending, TICK, Volume, World};
use crate::api::database::agent::{Lsn, Plea, Record, Report, Settings, State};
use crate::instance::postgres::floors::Floors;

impl World {
    pub(super) fn with<T>(
        &mut self,
        index: usize,
        act: impl FnOnce(&mut Protocol, &Situation<'_>) -> T,
    ) -> T {
        let now = self.now;
        let settings = self.settings_of(index);
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

    /// What it knows of the settings.
    fn settings_of(&self, index: usize) -> Settings {
        Settings {
            timing: self.instances[index].timing,
            ..self.settings.clone()
        }
    }

    pub(super) fn live(&mut self, index: usize) {
        if self.instances[index].began.is_none() {
            // The lock of the volume is not to be had while processes wait for its disk.
            let frozen = self.instances[index].frozen.is_some_and(|until| until > self.now);
            if !frozen && self.instances[index].returns.is_some_and(|at| at <= self.now) {
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

    pub(super) fn begin(&mut self, index: usize) {
        let nonce = self.chance.next();
        let now = self.now;
        let settings = self.settings_of(index);
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
    pub(super) fn look(&mut self, index: usize) {
        let now = self.now;
        // Nothing is drawn where there is nothing to learn.
        if self.instances[index].timing != self.settings.timing && self.chance.below(200) == 0 {
            self.instances[index].timing = self.settings.timing;
        }
        if !self.api_cut.contains(&index) && self.chance.below(6) == 0 {
            self.instances[index].api = Some(now);
            let (newest, version) = (self.lease.seen.clone(), self.lease.version);
            self.instances[index].see(newest, version, now);
        }
        for other in 0..self.instances.len() {
            if other != index && self.reaches(index, other) && self.chance.below(6) == 0 {
                let report = self.report(other);
                let name = self.instances[other].name.clone();
                // Asked some ticks ago: what counts is when it was asked, and how old the answer was then.
                let asked = now - TICK;
                self.instances[index].peers.insert(name, Peer { report, asked });
            }
        }
        self.look_at_postgres(index);
        let instance = &mut self.instances[index];
        if instance.frozen.is_some_and(|until| until <= now) {
            (instance.frozen, instance.hung) = (None, false);
        }
        if instance.starts.as_ref().is_some_and(|starts| starts.at <= now) && instance.volume.spoilt {
            instance.starts = None;
            instance.stop(false);
            instance
                .protocol
                .ended("PANIC:  could not locate a valid checkpoint record");
        }
        // What hangs meanwhile goes on afterwards.
        if !instance.hung
            && instance.starts.as_ref().is_some_and(|starts| starts.at <= now)
            && let Some(starts) = instance.starts.take()
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

    /// PostgreSQL is looked at now and then, and applies what it had when it was started.
    fn look_at_postgres(&mut self, index: usize) {
        let looks = self.chance.below(12) == 0;
        let (now, instance) = (self.now, &mut self.instances[index]);
        let length = Lsn(instance.volume.log.len() as u64);
        let Server::Running(running) = &mut instance.server else {
            instance.looked = None;
            return;
        };
        if instance.hung {
            return;
        }
        if running.replaying && instance.applied <= now {
            (running.received, running.replayed, running.replaying) = (length, length, false);
        }
        if looks || instance.looked.is_none() {
            instance.looked = (!running.replaying).then_some((running.received, now));
        }
    }

    pub(super) fn report(&mut self, index: usize) -> Report {
        let (role, gone) = self.with(index, |protocol, situation| {
            (protocol.role(situation), protocol.is_gone(situation))
        });
        let (now, instance) = (self.now, &self.instances[index]);
        let mut report = Report {
            name: instance.name.clone(),
            identity: instance.identity(),
            gone,
            role,
            contents: instance.volume.data.contents(),
            api_ms: instance.api.map(|api| (now - api).as_millis() as u64),
            damaged: instance.protocol.is_damaged(),
            ..Report::default()
        };
        if let Data::Present(stored) = &instance.volume.data {
            report.system_identifier = Some(stored.system_identifier.clone());
            report.timeline = Some(stored.timeline);
            (report.led, report.lacks_up_to) = (!stored.standby, instance.protocol.lacks());
            report.end = Some(stored.end);
        }
        if let Server::Running(running) = &instance.server
            && !instance.hung
        {
            report.timeline = Some(running.timeline);
            let lags = running.primary && instance.checkpoint > now;
            report.checkpoint = Some(running.timeline - u32::from(lags));
            report.received = instance.looked.map(|(received, _)| received);
            report.looked_ms = instance.looked.map(|(_, at)| (now - at).as_millis() as u64);
            report.end = Some(running.received);
            report.led = running.primary;
            (report.streaming, report.receiving) = (running.streaming, running.receiving);
            report.state = if running.streaming {
                State::Streaming
            } else {
                State::Detached
            };
        }
        report
    }

    /// What was begun and has come to its end.
    pub(super) fn finish(&mut self, index: usize) {
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
                        Write::Claim | Write::Renew => instance.protocol.renewed(sent),
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
            let sent = self.instances[index].plea_sent;
            if granted {
                self.instances[index].protocol.confirmed(sent);
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

    pub(super) fn carry_out(&mut self, index: usize, command: Command) {
        let short = self.chance.millis(50, 400);
        let name = self.instances[index].name.clone();
        let told = format!("{command:?}");
        if self.instances[index].state != told && !matches!(command, Command::Write(Write::Renew, _)) {
            self.say(format!("{name}: {told}"));
            self.instances[index].state = told;
        }
        let work = match &command {
            Command::Idle | Command::Wait(_) | Command::Fail(_) => return,
            Command::Write(why, record) => return self.write(index, *why, record.clone()),
            Command::Plead(pleading) => return self.plead(index, pleading),
            Command::Exit => {
                let back = self.now + self.chance.millis(300, 3000);
                self.instances[index].die();
                self.instances[index].returns = Some(back);
                return;
            }
            Command::Stop(_) if self.is_stopping_for_long(index) => return,
            Command::Stop(_) if self.instances[index].frozen.is_some() => {
                let instance = &mut self.instances[index];
                instance.starts = None;
                instance.stop(false);
                let at = instance.frozen.unwrap_or_default();
                instance.work = Some((
                    Work::Stopping,
                    Pending {
                        at,
                        what: Command::Stop(How::Immediate),
                    },
                ));
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
            Command::Lead(_)
            | Command::Follow(_)
            | Command::Synchronise(_)
            | Command::Reach(_)
            | Command::Prove(..) => (Work::Other, short),
        };
        if matches!(work.0, Work::Initialising | Work::Joining | Work::Rewinding) {
            self.instances[index].volume.data = Data::Broken("unfinished".into());
        }
        let at = self.now + work.1;
        self.instances[index].work = Some((work.0, Pending { at, what: command }));
    }

    /// Its processes are killed, and wait for the disk.
    fn is_stopping_for_long(&self, index: usize) -> bool {
        let instance = &self.instances[index];
        instance.frozen.is_some() && matches!(instance.work, Some((Work::Stopping, _)))
    }

    pub(super) fn write(&mut self, index: usize, why: Write, record: Record) {
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
            self.lease.seen.claimed = self.instances[index].timing.lease();
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

    pub(super) fn plead(&mut self, index: usize, pleading: &Pleading) {
        let (seen, _) = self.instances[index].seen.clone().unwrap();
        let plea = Plea {
            holder: self.instances[index].identity(),
            transitions: seen.transitions,
            hears: pleading.hears,
            lease_ms: pleading.lease.as_millis() as u64,
        };
        let mut granted = true;
        for member in &pleading.others {
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
    pub(super) fn done(&mut self, index: usize, command: Command) {
        let now = self.now;
        match command {
            Command::Initialise => {
                let stored = Stored {
                    system_identifier: "1".into(),
                    timeline: 1,
                    standby: false,
                    clean: true,
                    end: Lsn::default(),
                    segment: 1,
                    floors: Floors::default(),
                };
                self.instances[index].volume = Volume {
                    log: vec![],
                    spoilt: false,
                    data: Data::Present(stored),
                    history: vec![(1, 0)],
                };
            }
            Command::Join(ref from) | Command::Rewind(ref from) => {
                let rewound = matches!(command, Command::Rewind(_));
                let from = self.index(from);
                let leads =
                    matches!(&self.instances[from].server, Server::Running(running) if running.primary);
                if !self.reaches(index, from) || !leads || self.instances[from].hung {
                    return;
                }
                if rewound && self.instances[from].checkpoint > now {
                    panic!("rewound to the timeline before\n{}", self.told());
                }
                let mut volume = self.instances[from].volume.clone();
                if let Data::Present(stored) = &mut volume.data {
                    stored.standby = true;
                }
                self.instances[index].volume = volume;
                self.instances[index].protocol.mended();
            }
            Command::Lead(quorum) => self.instances[index].start(true, quorum, None, now + TICK * 6),
            Command::Follow(upstream) => match &mut self.instances[index].server {
                Server::Running(running) => {
                    (running.upstream, running.streaming, running.receiving) = (upstream, false, false)
                }
                Server::Stopped => {
                    // A long record, a slow disk, a reader: for a while it may apply nothing.
                    let long = if self.chance.below(4) == 0 { 10_000 } else { 1500 };
                    self.instances[index].applied = now + TICK * 6 + self.chance.millis(0, long);
                    self.instances[index].start(false, None, upstream, now + TICK * 6);
                }
                Server::Starting | Server::Silent => {}
            },
            Command::Promote(after, quorum) => {
                let checkpoint = now + self.chance.millis(0, 2500);
                let instance = &mut self.instances[index];
                instance.checkpoint = checkpoint;
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
                // Each of PostgreSQL's processes learns of it by itself, and until then goes by what was before.
                let until = now + self.chance.millis(0, 1500);
                let instance = &mut self.instances[index];
                if let Server::Running(running) = &mut instance.server
                    && !instance.hung
                    && running.quorum != quorum
                {
                    let before = std::mem::replace(&mut running.quorum, quorum);
                    instance.before = Some(Pending {
                        at: until,
                        what: before,
                    });
                }
            }
            Command::Prove(timeline, end) => {
                let volume = &self.instances[index].volume;
                let is_on_it = volume.history.iter().any(|(number, _)| *number == timeline);
                let goes = is_on_it && volume.log.len() as u64 >= end.0;
                let instance = &mut self.instances[index];
                if instance.blind {
                    instance.protocol.unproved();
                } else {
                    instance.protocol.proved(timeline, end, goes);
                }
            }
            Command::Reach(to) => {
                let reached = self.reaches(index, self.index(&to));
                self.instances[index].protocol.reached(reached);
            }
            Command::Stop(How::Immediate) => self.instances[index].stop(false),
            // What does not stop in order within its time is killed.
            Command::Stop(_) if self.instances[index].hung => {
                self.instances[index].hung = false;
                self.instances[index].stop(false);
            }
            Command::Stop(_) => {
                self.stream();
                // What never came to work, recovers or hangs has not shut down in order.
                let works = matches!(self.instances[index].server, Server::Running(_));
                if works {
                    self.instances[index].stop(true);
                } else if !matches!(self.instances[index].server, Server::Stopped) {
                    self.instances[index].starts = None;
                    self.instances[index].stop(false);
                }
            }
            _ => {}
        }
    }
}
