//! An instance: a process, its PostgreSQL and its volume.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::super::{Data, Moment, Protocol, Running, Seen, Server};
use super::{Instance, Pending, Volume};
use crate::api::database::agent::{Lsn, Quorum, Settings};

impl Instance {
    pub(super) fn new(name: String, uid: u64, settings: &Settings) -> Self {
        Self {
            name,
            timing: settings.timing,
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
            looked: None,
            applied: Duration::ZERO,
            checkpoint: Duration::ZERO,
            peers: BTreeMap::new(),
            lease: None,
            plea: None,
            plea_sent: Duration::ZERO,
            work: None,
            hung: false,
            slow: false,
            blind: false,
            frozen: None,
            before: None,
            state: String::new(),
        }
    }

    pub(super) fn identity(&self) -> String {
        format!("{:x}-{:x}", self.uid, self.nonce)
    }

    pub(super) fn die(&mut self) {
        let settings = Settings {
            timing: self.timing,
            ..Settings::default()
        };
        self.stop(false);
        let (name, uid, volume) = (self.name.clone(), self.uid, std::mem::take(&mut self.volume));
        *self = Self {
            volume,
            frozen: self.frozen,
            slow: self.slow,
            blind: self.blind,
            ..Self::new(name, uid, &settings)
        };
    }

    pub(super) fn stop(&mut self, clean: bool) {
        if let Data::Present(stored) = &mut self.volume.data {
            stored.clean = clean;
            if clean {
                stored.end = Lsn(self.volume.log.len() as u64);
            }
        }
        (self.server, self.canary, self.before) = (Server::Stopped, None, None);
    }

    pub(super) fn start(
        &mut self,
        primary: bool,
        quorum: Option<Quorum>,
        upstream: Option<String>,
        at: Moment,
    ) {
        let Data::Present(stored) = &self.volume.data else {
            return;
        };
        let length = self.volume.log.len() as u64;
        // It says how far it has applied its log, which is less than it has.
        let known = Lsn(if primary { length } else { length / 2 });
        let running = Running {
            primary,
            system_identifier: stored.system_identifier.clone(),
            timeline: stored.timeline,
            checkpoint: 0,
            redo: Lsn::default(),
            received: known,
            replaying: !primary,
            replayed: known,
            upstream,
            streaming: false,
            receiving: false,
            prepared: true,
            standbys: Vec::new(),
            quorum,
        };
        self.server = Server::Starting;
        self.starts = Some(Pending {
            at,
            what: Server::Running(running),
        });
    }

    pub(super) fn mark(&mut self, timeline: u32, standby: bool) {
        if let Data::Present(stored) = &mut self.volume.data {
            (stored.timeline, stored.standby, stored.clean) = (timeline, standby, false);
        }
    }

    /// Unchanged is what has the same version.
    pub(super) fn see(&mut self, newest: Seen, version: u64, now: Moment) {
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
