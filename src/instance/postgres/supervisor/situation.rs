//! What is known at one moment, as the protocol wants it.

use tokio::time::Instant;

use super::super::lease::view;
use super::super::protocol::{Peer, Protocol, Seen, Server, Situation};
use super::{SILENT, Supervisor};

impl Supervisor {
    /// Asks the protocol something, with all that is known now.
    pub(super) fn with<T>(&mut self, ask: impl FnOnce(&mut Protocol, &Situation<'_>) -> T) -> T {
        let mut protocol = std::mem::take(&mut self.protocol);
        let now = Instant::now();
        let lease = self.lease_seen();
        let moment = |at: Instant| at.saturating_duration_since(self.began);
        let (server, looked) = self.server(now);
        let identity = self.identity.to_string();
        let answers = self.senses.answers.borrow().clone();
        let peers = answers.into_iter().map(|(name, (report, asked))| {
            let asked = moment(asked);
            (name, Peer { report, asked })
        });
        let peers = peers.collect();
        let canary = self.canary();
        let situation = Situation {
            now: moment(now),
            me: &self.options.name,
            identity: &identity,
            settings: &self.mounted.settings,
            lease: lease.as_ref(),
            api: self.api.map(moment),
            data: &self.data,
            server: &server,
            peers: &peers,
            canary: canary.map(moment),
            looked: looked.map(moment).unwrap_or_default(),
            writing: self.writing.is_some(),
            pleading: self.pleading.is_some(),
            work: self.work.as_ref().map(|(work, _)| *work),
        };
        let outcome = ask(&mut protocol, &situation);
        self.protocol = protocol;
        outcome
    }

    /// When a primary last showed that it is alive, which takes a write, or the refusal of one: to answer anything else it needs no disk. One that has just
    /// begun has not had the time.
    pub(super) fn canary(&self) -> Option<Instant> {
        let began = *self.senses.leads.borrow();
        let alive = self.senses.beats.borrow().alive;
        began.map(|began| alive.map_or(began, |alive| alive.max(began)))
    }

    /// What PostgreSQL is doing, and when it last said so.
    pub(super) fn server(&self, now: Instant) -> (Server, Option<Instant>) {
        if self.process.postmaster.is_none() {
            return (Server::Stopped, Some(now));
        }
        let observed = self.senses.observed.borrow();
        match &observed.running {
            Some((running, asked)) if observed.start == self.process.starts => {
                let server = if now.saturating_duration_since(*asked) > SILENT {
                    Server::Silent
                } else {
                    Server::Running(running.clone())
                };
                (server, Some(*asked))
            }
            _ => (Server::Starting, None),
        }
    }

    /// What is decided by it is written over this very Lease, whatever is seen of it meanwhile.
    fn lease_seen(&mut self) -> Option<Seen> {
        let unchanged_since = {
            let seen = self.seen.borrow();
            self.judged.clone_from(&seen.lease);
            seen.unchanged_since
        };
        let view = view(self.judged.as_ref()?);
        // There was a record, so the database is not new: nobody begins one for want of it.
        if view.unreadable.is_some() {
            return None;
        }
        let since = unchanged_since?.saturating_duration_since(self.began);
        let ended = !view.holder.is_empty() && self.senses.ended.borrow().as_ref() == Some(&view.holder);
        Some(Seen {
            holder: view.holder,
            record: view.record,
            transitions: view.transitions,
            claimed: view.duration.unwrap_or_default(),
            since,
            ended,
        })
    }
}
