//! Whether the Lease is to be had: what is known of the end of whoever holds it.

use super::candidate::Reach;
use super::{Protocol, Seen, Server, Situation};
use crate::api::database::agent::Record;

/// A holder that said that it has ended.
#[derive(Clone, Debug)]
pub(super) struct Gone {
    /// As which it is in the Lease.
    holder: String,
    /// How far its data goes, at least.
    reach: Option<Reach>,
}

impl Protocol {
    /// Whether PostgreSQL has ended, never to be started again by this process.
    pub(super) fn has_stopped_for_good(&self, situation: &Situation<'_>) -> bool {
        let exits = self.leaving.as_ref().is_some_and(|leaving| leaving.exit);
        exits && matches!(situation.server, Server::Stopped)
    }

    /// Whether that is certain: nothing is under way that might still have to do with it.
    pub fn is_gone(&self, situation: &Situation<'_>) -> bool {
        self.has_stopped_for_good(situation) && situation.work.is_none()
    }

    /// Remembers what a holder says that has ended: whoever comes after it under its name says nothing of that.
    pub(super) fn note_gone(&mut self, holder: &str, situation: &Situation<'_>) {
        let mut reports = situation.peers.values().map(|peer| &peer.report);
        if let Some(report) = reports.find(|report| report.gone && report.identity == holder) {
            self.gone = Some(Gone {
                holder: holder.to_owned(),
                reach: report.timeline.zip(report.end),
            });
        }
    }

    /// What the Lease says, and where commits waited for nobody how far its holder went by what that said itself at its end, which may be further: it had no
    /// chance to write that down.
    pub(super) fn with_last_words(&self, record: &Record, seen: &Seen) -> Record {
        let mut record = record.clone();
        let gone = self.gone.as_ref().filter(|gone| gone.holder == seen.holder);
        if let Some((timeline, end)) = gone.and_then(|gone| gone.reach)
            && record.asynchronous
            && (timeline, end) > (record.flushed_on, record.flushed)
        {
            (record.flushed_on, record.flushed) = (timeline, end);
        }
        record
    }

    /// Whether anybody may take the Lease, as far as its holder is concerned.
    pub(super) fn is_free(&self, situation: &Situation<'_>) -> bool {
        let Some(seen) = situation.lease else { return false };
        seen.holder.is_empty()
            || self.has_ended(seen)
            || situation.now.saturating_sub(seen.since) >= situation.settings.timing.lease().max(seen.claimed)
            || is_predecessor(&seen.holder, situation.identity)
            || self.is_own(seen, situation)
    }

    /// Whether the holder is known to have ended, with its PostgreSQL: the kubelet says so of its container, or it has said so itself.
    pub(super) fn has_ended(&self, seen: &Seen) -> bool {
        let mut gone = self.gone.iter();
        seen.ended || gone.any(|gone| gone.holder == seen.holder)
    }

    /// Whether it is held by this very process, which does not know: the answer to its claim was lost, or its time was up.
    pub(super) fn is_own(&self, seen: &Seen, situation: &Situation<'_>) -> bool {
        let is_idle = self.tenure.is_none() && self.leaving.is_none() && !situation.writing;
        is_idle && seen.holder == situation.identity
    }
}

/// The process before this one in the same pod. It had the volume that this one has locked, so it has ended.
pub(super) fn is_predecessor(holder: &str, identity: &str) -> bool {
    let pod = |identity: &str| identity.rsplit_once('-').map(|(pod, _)| pod.to_owned());
    holder != identity && pod(holder).is_some() && pod(holder) == pod(identity)
}
