//! A primary that hears from nobody, and whose commits wait for nobody, writes no more than may be lost.

use super::{Protocol, Server, Situation, Tenure};
use crate::api::database::agent::{Lsn, Record};

impl Protocol {
    /// How far another one has what this primary writes: it is remembered, since nobody says so any more once all have been cut off.
    pub(super) fn note_shared(&mut self, situation: &Situation<'_>) {
        self.shared = match (self.tenure, situation.server) {
            (None, _) => Lsn::default(),
            (Some(_), Server::Running(running)) if running.primary => {
                let flushed = running.standbys.iter().filter_map(|standby| standby.flushed);
                flushed.fold(self.shared, Lsn::max)
            }
            _ => self.shared,
        };
    }

    /// Whether this primary, which may do so for a second or two more, had better not write on: neither did a renewal succeed nor did the others promise for long
    /// enough to have tried both, one of them may take over, and what that one lacks is half of what may be lost. Only half, since it is looked at now and then,
    /// and writes until it has ended.
    pub(super) fn writes_too_much_alone(
        &self,
        tenure: Tenure,
        record: &Record,
        situation: &Situation<'_>,
    ) -> bool {
        let Server::Running(running) = situation.server else {
            return false;
        };
        let most = situation.settings.maximum_lag;
        let alone = situation.now >= tenure.confirmed + situation.settings.timing.retry() * 5 / 2;
        let is_succeeded =
            record.others(situation.me).next().is_some() && record.flushed.ahead_of(self.shared) <= most;
        let lacks = running.received.ahead_of(self.shared);
        alone && running.primary && record.asynchronous && is_succeeded && lacks > most / 2
    }
}
