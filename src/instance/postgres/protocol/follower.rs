//! What everybody else does: follow whoever holds the Lease, or see whether to take it.

use std::time::Duration;

use super::{
    Command, Data, How, Mending, Moment, Passing, Protocol, Running, Server, Situation, Stored, Work,
};
use crate::api::database::agent::Record;

/// A replica that neither receives from a primary that is there nor replays for so long may have parted from it.
const PARTED: Duration = Duration::from_secs(10);
/// It has twice as much time for each attempt to mend it that did not get hold of the primary, so many times at most.
const FUTILE: u32 = 5;
/// A replica whose PostgreSQL can make nothing of its data for so many starts is copied anew.
pub(super) const STILLBORN: u32 = 3;
/// A replica that answers nothing for so long is started again.
const SILENT: Duration = Duration::from_secs(60);
/// One that has not answered yet recovers, which may take hours. It is started again if it has done nothing for so long, and says after how long.
const STUCK: Duration = Duration::from_secs(10 * 60);
const RESTS: Duration = Duration::from_secs(60);

impl Protocol {
    /// What is to be done without the Lease.
    pub(super) fn be_led(&mut self, situation: &Situation<'_>) -> Command {
        if self.leaving.as_ref().is_some_and(|leaving| leaving.exit) {
            return match situation.server {
                Server::Stopped if situation.work.is_none() => Command::Exit,
                _ if situation.work == Some(Work::Stopping) => Command::Wait("PostgreSQL to stop".to_owned()),
                _ => Command::Stop(How::Fast),
            };
        }
        self.leaving = None;
        if self.lasted(Passing::Silent, situation.now) > SILENT || self.rests(situation.now) > STUCK {
            return Command::Stop(How::Immediate);
        }
        let Some(seen) = situation.lease else {
            return Command::Wait("the Lease to be seen".to_owned());
        };
        if self.free.is_some() {
            return self.stand(seen, situation);
        }
        if let Some(work) = situation.work {
            let copies = matches!(work, Work::Joining | Work::Rewinding);
            let primary = seen.record.as_ref().map(|record| &record.primary);
            // What is made of the data of another may take hours, or hang with it, and would be of no use.
            if copies && primary.is_some_and(|primary| self.source.as_ref() != Some(primary)) {
                return Command::Stop(How::Fast);
            }
            return Command::Wait("what is under way".to_owned());
        }
        match &seen.record {
            Some(record) => self.follow(record, situation),
            None => Command::Wait("the Lease to say who is the primary".to_owned()),
        }
    }

    /// Becomes and stays a replica of the primary that the Lease names.
    pub(super) fn follow(&mut self, record: &Record, situation: &Situation<'_>) -> Command {
        let primary = &record.primary;
        match (situation.server, situation.data) {
            (Server::Stopped, data) => self.start_as_replica(record, data, situation),
            // It has applied all that it has, and that is too little to answer. Only a copy has what the primary does not have any more.
            (Server::Starting, _) if self.starved.as_ref() == Some(primary) && self.primary_of(situation).is_some() => {
                self.mending = Mending::Copy;
                Command::Stop(How::Immediate)
            }
            (Server::Starting, _) if self.rests(situation.now) > RESTS => {
                Command::Wait("PostgreSQL to answer, which does nothing that can be seen, and is started again if that lasts".to_owned())
            }
            (Server::Starting | Server::Silent, _) => Command::Wait("PostgreSQL to answer".to_owned()),
            (Server::Running(_), _) if self.restarting => Command::Stop(How::Fast),
            // It has written that itself, and has not had the answer yet.
            (Server::Running(_), _) if primary == situation.me => {
                Command::Wait("the Lease that it wrote to be its own".to_owned())
            }
            (Server::Running(running), _) if running.upstream.as_ref() != Some(primary) => {
                Command::Follow(Some(primary.clone()))
            }
            (Server::Running(running), _) => self.stay(primary, running, situation),
        }
    }

    /// For how long a PostgreSQL that has not answered yet has done nothing, if that is known.
    fn rests(&self, now: Moment) -> Duration {
        let rests = self.worked.map(|worked| now.saturating_sub(worked));
        rests.unwrap_or_default().min(self.lasted(Passing::Starting, now))
    }

    fn start_as_replica(&mut self, record: &Record, data: &Data, situation: &Situation<'_>) -> Command {
        let primary = &record.primary;
        if primary == situation.me {
            return Command::Wait(format!("the Lease, which {} held last, to run out", situation.me));
        }
        // The primary has all that this data might hold, and it is put aside until the copy is of use.
        if (self.bereft.is_some() || self.stillborn >= STILLBORN) && self.primary_of(situation).is_some() {
            self.mending = Mending::Copy;
        }
        match data {
            Data::Unreadable(why) => Command::Fail(why.clone()),
            Data::Present(stored) if !is_ours(stored, record) => {
                Command::Fail(foreign(stored, record, situation.me))
            }
            Data::Present(stored)
                if stored.standby && matches!(self.mending, Mending::Nothing | Mending::Rewound) =>
            {
                Command::Follow(Some(primary.clone()))
            }
            _ if self.primary_of(situation).is_none() => {
                Command::Wait(format!("the primary {primary} to say that it is one"))
            }
            // Until then its control file tells of the timeline before, to which it would be rewound, and would not start on the present one.
            Data::Present(_) if self.mending != Mending::Copy && !self.has_checkpoint(situation) => {
                Command::Wait(format!("a checkpoint of the primary {primary}"))
            }
            Data::Present(_) if self.mending != Mending::Copy => {
                self.source = Some(primary.clone());
                Command::Rewind(primary.clone())
            }
            Data::Present(_) | Data::Empty | Data::Broken(_) => {
                self.source = Some(primary.clone());
                Command::Join(primary.clone())
            }
        }
    }

    /// Whether the primary has written a checkpoint since it was promoted.
    fn has_checkpoint(&self, situation: &Situation<'_>) -> bool {
        let primary = self.primary_of(situation);
        primary.is_some_and(|primary| primary.report.checkpoint >= primary.report.timeline)
    }

    fn stay(&mut self, primary: &str, running: &Running, situation: &Situation<'_>) -> Command {
        if std::mem::take(&mut self.reached) {
            self.mending = match self.mending {
                Mending::Nothing | Mending::Rewind => Mending::Rewind,
                Mending::Rewound | Mending::Copy => Mending::Copy,
            };
            return Command::Stop(How::Fast);
        }
        let times = 2_u32.pow(self.futile.min(FUTILE));
        let patience = match self.mending {
            Mending::Nothing | Mending::Rewind => PARTED * times,
            Mending::Rewound | Mending::Copy => PARTED * times * 2,
        };
        // As long as it replays what it has, it does not even ask for more.
        if let Some(since) = self.detached
            && situation.now.saturating_sub(since).min(self.still(situation.now)) > patience
            && self.primary_of(situation).is_some()
        {
            self.detached = None;
            return Command::Reach(primary.to_owned());
        }
        if running.streaming {
            Command::Idle
        } else {
            Command::Wait(format!("the primary {primary} to send"))
        }
    }
}

/// Whether this data may be served under what the Lease says.
pub(super) fn is_ours(stored: &Stored, record: &Record) -> bool {
    record
        .system_identifier
        .as_ref()
        .is_none_or(|ours| *ours == stored.system_identifier)
}

/// For people: whose data there is.
pub(super) fn foreign(stored: &Stored, record: &Record, me: &str) -> String {
    format!(
        "the volume holds the data of another database: its system identifier is {}, and this database's is {}; put its own data back, or, if another instance leads, have it copied anew: {}",
        stored.system_identifier,
        record.system_identifier.as_deref().unwrap_or("not known"),
        anew(me),
    )
}

/// For people: the command that has the data of this instance copied anew. A claim goes only once no pod uses it, so nobody may wait for that.
pub fn anew(name: &str) -> String {
    format!("kubectl delete --wait=false pvc data-{name} && kubectl delete pod {name}")
}
