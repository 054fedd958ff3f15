//! What an instance is to do next, decided from what it knows: of itself, of the Lease, of the others. Pure: no client, no clock.
//!
//! # What is promised
//!
//! * At most one instance accepts writes. Whoever holds the Lease may, until the renew deadline after it sent its last renewal; everybody else waits for the
//!   lease duration after they saw that renewal, which is longer. Not before then, unless it is known that the holder has ended: its container has, or it gave
//!   the Lease back, or it says itself that its PostgreSQL has ended for good, or it was this very volume's last process.
//! * Whoever takes the Lease has every commit that was acknowledged under a quorum. What commits wait for is in the Lease before they do ([`Record::quorums`]),
//!   and a candidate sees so many of those replicas, all of them no further than itself, that one must have it.
//! * Where commits waited for nobody, a candidate is at most the agreed number of bytes behind what the last holder had flushed when it renewed the Lease for
//!   the last time. A holder that hears from nobody stops before it has written as much on top, unless it writes that much in the time that it takes to know.
//! * A holder that cannot renew goes on only if every other member promises not to take the Lease: since it cannot reach the API server either, or since that
//!   takes no writes from the holder, to whom it answers, and so from nobody.
//!
//! # How it is told
//!
//! [`Protocol::step`] is called whenever something is new, and several times a second. It answers with one [`Command`]; what came of it shows in the next
//! [`Situation`], or is told ([`Protocol::renewed`] and others). Writing the Lease, and work that takes long, go on beside the steps: a holder whose
//! time is up ends its PostgreSQL whatever else is under way.

mod alone;
mod beginning;
mod candidate;
mod command;
mod ending;
mod facts;
mod follower;
mod holder;
mod promise;
mod quorum;
mod state;
#[cfg(test)]
mod tests;
mod vacancy;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use command::{Command, How, Pleading, Work, Write};
pub use facts::{Data, Running, Server, Stored};
pub use follower::anew;
pub use holder::HUNG;
use state::{Leaving, Mending, Passing, Tenure};
use vacancy::Gone;

use crate::api::database::agent::{Lsn, Record, Report, Role, Settings, Timing};

/// A time of the monotonic clock: since this process began.
pub type Moment = Duration;

/// What another one said of itself is of no use any more after this time.
pub(super) const FRESH: Duration = Duration::from_secs(3);

/// Everything that is known at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// What time it is.
    pub now: Moment,
    /// The name of this instance.
    pub me: &'a str,
    /// How it appears in the Lease.
    pub identity: &'a str,
    /// What the operator has decided.
    pub settings: &'a Settings,
    /// The Lease as it was last seen; none if it never was.
    pub lease: Option<&'a Seen>,
    /// When the API server last answered without complaint.
    pub api: Option<Moment>,
    /// What is on the volume. It counts while PostgreSQL is stopped.
    pub data: &'a Data,
    /// What PostgreSQL is doing.
    pub server: &'a Server,
    /// What the others said last, by their names.
    pub peers: &'a BTreeMap<String, Peer>,
    /// When a write of our own was last seen to be committed, or answered at all.
    pub canary: Option<Moment>,
    /// When PostgreSQL was last looked at.
    pub looked: Moment,
    /// Whether a write of the Lease is under way.
    pub writing: bool,
    /// Whether the others are being asked to promise.
    pub pleading: bool,
    /// What is being worked on: nothing else is begun before it ends, but it can be cut off by stopping PostgreSQL.
    pub work: Option<Work>,
}

/// The Lease as it was seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// The identity of who holds it; empty when it was given back.
    pub holder: String,
    /// What is kept in it; none if nobody ever wrote that.
    pub record: Option<Record>,
    /// How often it has changed hands.
    pub transitions: i32,
    /// For how long its holder claims it from each renewal on.
    pub claimed: Duration,
    /// Since when it has not changed.
    pub since: Moment,
    /// Whether the holder's container is known to have ended.
    pub ended: bool,
}

/// What another instance said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Peer {
    /// What it said.
    pub report: Report,
    /// When it was asked.
    pub asked: Moment,
}

/// What has to be remembered from one step to the next.
#[derive(Clone, Debug, Default)]
pub struct Protocol {
    /// Set while this instance may be primary.
    tenure: Option<Tenure>,
    /// Until then it takes the Lease from nobody.
    promised: Moment,
    /// For how long whoever was last seen to hold the Lease claimed it.
    claimed: Duration,
    /// The last holder of whom it was heard that it has ended.
    gone: Option<Gone>,
    /// Since when the Lease has been seen to be free.
    free: Option<Moment>,
    /// Since when a replica has not received from a primary that is there.
    detached: Option<Moment>,
    /// What is to be done with data that does not receive.
    mending: Mending,
    /// The primary from which it does not receive can be connected to.
    reached: bool,
    /// How often its data was to be mended and the primary could not be connected to, since it last received.
    futile: u32,
    /// From whom its data is being made.
    source: Option<String>,
    /// When a PostgreSQL that has not answered yet was last seen to do something, if that can be seen.
    worked: Option<Moment>,
    /// The primary that does not have any more what such a one lacks.
    starved: Option<String>,
    /// How often PostgreSQL could make nothing of its data, since it last streamed.
    stillborn: u32,
    /// How often PostgreSQL ended by itself, for whatever reason but a full volume, since it last ran.
    failed: u32,
    /// Up to where, on which timeline, its log is known to go.
    proved: Option<(u32, Lsn)>,
    /// How often that could not be found out.
    unproven: u32,
    /// Its log does not go as far as the Lease says that it did: the volume is an older one, or lost what was written to it.
    /// What it was found to lack.
    bereft: Option<(u32, Lsn)>,
    /// One that has more and does not hear from the API server, how far it is, and since when nothing has changed about that.
    further: Option<(String, (u32, Lsn), Moment)>,
    /// How often others were let take over, since PostgreSQL was last the primary.
    retreats: u32,
    /// How often because what comes before a start took too long.
    delays: u32,
    /// How far a replica has received and replayed, and since when.
    moved: Option<((Lsn, Lsn), Moment)>,
    /// Since when PostgreSQL has been in a state that should pass.
    lasting: Option<(Passing, Moment)>,
    /// Since when something has been under way that is soon over.
    busy: Option<Moment>,
    /// Since when PostgreSQL has been the primary.
    leading: Option<Moment>,
    /// How far, as primary, it knows another one to have what it wrote.
    shared: Lsn,
    /// Since when each replica that commits may wait for has not streamed.
    away: BTreeMap<String, Moment>,
    /// What the Lease said last while it was held.
    said: Option<Record>,
    /// The others whom the last write of the Lease names as those who may lead, and whom any does that may have taken effect.
    written: BTreeSet<String>,
    named: BTreeSet<String>,
    /// For how long that write claims the Lease, and for how long the others were last asked to leave it alone.
    claims: Timing,
    asks: Timing,
    /// Since when PostgreSQL has had commits wait for what it has them wait for now, and how far it had flushed then.
    applied: Option<quorum::Applied>,
    /// Somebody asked for the end, or for another primary.
    leaving: Option<Leaving>,
    /// PostgreSQL hung or did not start here: until then others are to take the Lease.
    shy: Moment,
    /// PostgreSQL is to be stopped in order, and started again.
    restarting: bool,
}

impl Protocol {
    /// Of a process that begins now. It takes the Lease from nobody for a lease duration: the one before it may have promised that.
    pub fn new(settings: &Settings) -> Self {
        Self {
            promised: settings.timing.lease(),
            ..Self::default()
        }
    }

    /// What to do.
    pub fn step(&mut self, situation: &Situation<'_>) -> Command {
        self.note(situation);
        if let Some(fence) = self.fence(situation) {
            return fence;
        }
        match self.tenure {
            Some(tenure) => match self.cut_short(situation) {
                Some(end) => end,
                None => self.hold(tenure, situation),
            },
            None => self.be_led(situation),
        }
    }

    /// The Lease was claimed or renewed by a request that was sent then.
    pub fn renewed(&mut self, sent: Moment) {
        let timing = self.claims;
        let until = sent + timing.renew_deadline();
        let tenure = self.tenure.get_or_insert(Tenure {
            timing,
            until,
            renewed: sent,
            tried: sent,
            pleaded: sent,
            confirmed: sent,
        });
        tenure.timing = timing;
        tenure.until = tenure.until.max(until);
        tenure.renewed = tenure.renewed.max(sent);
        tenure.confirmed = tenure.confirmed.max(sent);
        // It was written over whatever came before it, so no earlier write takes effect any more.
        self.named.clone_from(&self.written);
    }

    /// The Lease was given back.
    pub fn released(&mut self) {
        self.tenure = None;
        self.free = None;
        self.named.clear();
        (self.applied, self.said) = (None, None);
        // Whoever only wanted another primary is a replica like any other from here on.
        self.leaving.take_if(|leaving| !leaving.exit);
    }

    /// The data was rewound, or copied.
    pub fn mended(&mut self) {
        self.mending = Mending::Rewound;
        (self.stillborn, self.futile, self.unproven) = (0, 0, 0);
    }

    /// Whether the log goes up to there, as [`Command::Prove`] asks.
    pub fn proved(&mut self, timeline: u32, end: Lsn, goes: bool) {
        self.bereft = (!goes).then_some((timeline, end));
        self.proved = goes.then_some((timeline, end));
        self.unproven = 0;
    }

    /// That could not be found out. It is tried again; whoever holds the Lease lets others lead after some times.
    pub fn unproved(&mut self) {
        self.unproven = self.unproven.saturating_add(1);
    }

    /// Up to where, on which timeline, the log of its data does not go, although it once did.
    pub fn lacks(&self) -> Option<(u32, Lsn)> {
        self.bereft
    }

    /// Whether PostgreSQL can make nothing of its data.
    pub fn is_damaged(&self) -> bool {
        self.stillborn >= follower::STILLBORN
    }

    /// Whether the primary can be connected to, as [`Command::Reach`] asks. Where it cannot, nothing can be mended, and the replica is of more use as it is.
    pub fn reached(&mut self, reached: bool) {
        self.reached = reached;
    }

    /// The data was to be mended, and is as it was: the primary could not be connected to. It may be elected, which it cannot be while it is mended.
    pub fn unmended(&mut self) {
        self.futile = self.futile.saturating_add(1);
        self.mending = match self.mending {
            Mending::Nothing | Mending::Rewind => Mending::Nothing,
            Mending::Rewound | Mending::Copy => Mending::Rewound,
        };
    }

    /// PostgreSQL, which has not answered yet, was seen then to do more than wait.
    pub fn works(&mut self, at: Moment) {
        self.worked = self.worked.max(Some(at));
    }

    /// PostgreSQL, which has not answered yet, complains that this primary does not have any more what it lacks.
    pub fn starves(&mut self, primary: &str) {
        self.starved = Some(primary.to_owned());
    }

    /// PostgreSQL ended by itself, with these words. What it panics about is its data, unless there is no room, and so is what does not fit the histories
    /// of timelines; anything else may be its configuration, with which a copy would not start either.
    pub fn ended(&mut self, words: &str) {
        if !is_full(words) {
            self.failed = self.failed.saturating_add(1);
        }
        let damaged = words.starts_with("PANIC") && !is_full(words) || is_of_another_history(words);
        self.stillborn = if damaged {
            self.stillborn.saturating_add(1)
        } else {
            0
        };
    }

    /// Somebody asks for the end of this process, and perhaps leaves it a second or two at most.
    pub fn asked_to_stop(&mut self, hurry: bool) {
        let leaving = self.leaving.get_or_insert_default();
        (leaving.exit, leaving.hurry) = (true, hurry);
    }

    /// Somebody asks for another primary.
    ///
    /// # Errors
    /// For people: why not.
    pub fn asked_to_hand_over(&mut self, to: Option<&str>, situation: &Situation<'_>) -> Result<(), String> {
        if self.tenure.is_none() {
            return Err(format!("{} is not the primary", situation.me));
        }
        if !self.could_be_succeeded(situation) {
            return Err(format!(
                "what commits wait for under {} has changed just now, and whoever took over would have to hear from it; ask again in a moment",
                situation.me
            ));
        }
        let target = self.successor(to, situation);
        let target = target.ok_or_else(|| match to {
            Some(to) => format!("{to} does not stream from {}", situation.me),
            None => format!("nobody streams from {}", situation.me),
        })?;
        self.leaving.get_or_insert_default().to = Some(target);
        Ok(())
    }

    /// Somebody asks to have PostgreSQL started again, here and in the role that it has.
    ///
    /// # Errors
    /// For people: why not.
    pub fn asked_to_restart(&mut self, situation: &Situation<'_>) -> Result<(), String> {
        if !matches!(situation.server, Server::Running(_)) || situation.work.is_some() {
            return Err(format!("PostgreSQL does not run on {}, or is busy", situation.me));
        }
        self.restarting = true;
        Ok(())
    }

    /// Until when this instance may be primary, as far as is known, and for how much longer all others leave it alone; none if it may not.
    pub fn until(&self) -> Option<(Moment, Duration)> {
        let rest = |timing: Timing| timing.lease().saturating_sub(timing.renew_deadline());
        self.tenure.map(|tenure| (tenure.until, rest(tenure.timing)))
    }

    /// Whether this instance may be primary at this moment.
    pub fn leads(&self, now: Moment) -> bool {
        self.tenure.is_some_and(|tenure| now < tenure.until)
    }

    /// Which role the instance has, for whoever looks for one in that role.
    pub fn role(&self, situation: &Situation<'_>) -> Role {
        let running = match situation.server {
            Server::Running(running) => running,
            // It may have too much to do to answer, and takes writes all the same: whether it does its own writes show.
            Server::Silent if self.leading.is_some() && self.leads(situation.now) => return Role::Primary,
            _ => return Role::None,
        };
        let led_by = situation
            .lease
            .and_then(|seen| seen.record.as_ref())
            .map(|record| &record.primary);
        match (running.primary, self.leads(situation.now)) {
            (true, true) => Role::Primary,
            (false, false) if running.upstream.is_some() && running.upstream.as_ref() == led_by => {
                Role::Replica
            }
            _ => Role::None,
        }
    }

    /// A replica's data was copied, or taken back, and lacks nothing. But whoever led, and said how far it was, had become a primary's: then it is the
    /// volume of before that.
    fn note_older(&mut self, situation: &Situation<'_>) {
        if !matches!(situation.data, Data::Present(stored) if stored.standby) {
            return;
        }
        let record = situation.lease.and_then(|seen| seen.record.as_ref());
        let led = record.filter(|record| record.primary == situation.me && record.flushed_on > 0);
        match led {
            // What is known of the data is of before PostgreSQL was started, and a promotion has changed it since.
            Some(record)
                if holder::others(record, situation).next().is_some()
                    && matches!(situation.server, Server::Stopped)
                    && situation.work.is_none() =>
            {
                self.bereft = Some((record.flushed_on, record.flushed));
            }
            Some(_) => {}
            None => self.bereft = None,
        }
    }

    /// Keeps track of since when things are as they are.
    fn note(&mut self, situation: &Situation<'_>) {
        let now = situation.now;
        if let Some(seen) = situation.lease.filter(|seen| !seen.holder.is_empty()) {
            self.claimed = seen.claimed;
            self.note_gone(&seen.holder, situation);
        }
        if self.is_free(situation) {
            self.free.get_or_insert(now);
        } else {
            self.free = None;
        }
        if matches!(situation.server, Server::Stopped) {
            self.restarting = false;
        }
        self.note_older(situation);
        self.note_shared(situation);
        if !matches!(situation.server, Server::Starting) {
            (self.worked, self.starved) = (None, None);
        }
        let passing = match (situation.server, situation.work) {
            (_, Some(Work::Promoting)) => Some(Passing::Promoting),
            (Server::Stopped, _) if self.tenure.is_some() => Some(Passing::Stopped),
            (Server::Starting, _) => Some(Passing::Starting),
            (Server::Silent, _) => Some(Passing::Silent),
            // An attempt that fails is followed by another, and all together may take no longer than one.
            (Server::Running(running), _) if !running.primary && self.tenure.is_some() => {
                Some(Passing::Promoting)
            }
            _ => None,
        };
        self.lasting = passing.map(|passing| match self.lasting {
            Some((before, since)) if before == passing => (passing, since),
            _ => (passing, now),
        });
        self.busy = match situation.work {
            Some(Work::Other) => self.busy.or(Some(now)),
            _ => None,
        };
        self.leading = match situation.server {
            Server::Running(running) if running.primary => self.leading.or(Some(now)),
            // It hangs, perhaps, and is the primary as it was
            Server::Silent => self.leading,
            _ => None,
        };
        let attached = self.is_attached(situation);
        self.reached &= !attached;
        self.detached = if attached {
            None
        } else {
            self.detached.or(Some(now))
        };
        if let Server::Running(running) = situation.server {
            if running.primary || running.streaming && attached {
                self.mending = Mending::Nothing;
                (self.stillborn, self.futile) = (0, 0);
            }
            (self.failed, self.unproven) = (0, 0);
            if running.primary {
                (self.retreats, self.delays) = (0, 0);
            }
        }
        self.moved = match situation.server {
            Server::Running(running) if !running.primary => {
                let reach = (running.received, running.replayed);
                let same = self.moved.filter(|(before, _)| *before == reach);
                same.or(Some((reach, now)))
            }
            _ => None,
        };
    }

    /// Whether a replica receives what the primary writes, or there is none, or it is told to follow nobody. One that has parted from it is sent again and again, every few seconds, what both have of the
    /// timeline before, and streams for a moment each time.
    fn is_attached(&self, situation: &Situation<'_>) -> bool {
        let (Server::Running(running), Some(primary)) = (situation.server, self.primary_of(situation)) else {
            return true;
        };
        let is_on_its_timeline = primary
            .report
            .timeline
            .is_none_or(|timeline| running.timeline >= timeline);
        running.primary || running.upstream.is_none() || running.streaming && is_on_its_timeline
    }

    /// For how long a replica has received and replayed nothing: it receives only once it has replayed what it has.
    fn still(&self, now: Moment) -> Duration {
        self.moved
            .map_or(Duration::MAX, |(_, since)| now.saturating_sub(since))
    }

    /// For how long it has been in this state.
    fn lasted(&self, passing: Passing, now: Moment) -> Duration {
        match self.lasting {
            Some((what, since)) if what == passing => now.saturating_sub(since),
            _ => Duration::ZERO,
        }
    }

    /// What the primary said, if it said so not long ago, and that it is one.
    fn primary_of<'a>(&self, situation: &Situation<'a>) -> Option<&'a Peer> {
        let record = situation.lease?.record.as_ref()?;
        let peer = situation.peers.get(&record.primary)?;
        (is_fresh(peer, situation.now) && peer.report.role == Role::Primary).then_some(peer)
    }
}

/// Whether PostgreSQL complains, in these words, that there is no room on its volume.
pub fn is_full(words: &str) -> bool {
    words.contains("No space left on device") || words.contains("Disk quota exceeded")
}

/// Whether PostgreSQL complains, in these words, that its data goes on where the timeline does not on which it is to be.
fn is_of_another_history(words: &str) -> bool {
    words.contains("is not a child of this server's history")
        || words.contains("does not contain minimum recovery point")
}

fn is_fresh(peer: &Peer, now: Moment) -> bool {
    now.saturating_sub(peer.asked) <= FRESH
}
