//! A holder that cannot renew the Lease has the others promise not to take it.

use std::time::Duration;

use super::{Command, Moment, Pleading, Protocol, Situation, Tenure};
use crate::api::database::MAX_LEASE;
use crate::api::database::agent::{Plea, Record};

/// Nobody claims the Lease for longer.
const LONGEST: Duration = Duration::from_secs(MAX_LEASE as u64);

impl Protocol {
    /// Has the others promise once renewals fail. Nothing is won by that once PostgreSQL has ended for good here.
    pub(super) fn plead(
        &mut self,
        tenure: Tenure,
        record: &Record,
        situation: &Situation<'_>,
    ) -> Option<Command> {
        let now = situation.now;
        let retry = situation.settings.timing.retry();
        if self.has_stopped_for_good(situation) || now < tenure.renewed + retry * 2 {
            return None;
        }
        // A renewal that was not answered may have taken effect, and whom it names may lead.
        let mut others = self.named.clone();
        others.extend(record.others(situation.me).map(str::to_owned));
        if others.is_empty() {
            self.extend(now + tenure.timing.renew_deadline());
            return None;
        }
        let due = now >= tenure.pleaded + retry / 2;
        if situation.pleading || !due {
            return None;
        }
        self.tenure = Some(Tenure {
            pleaded: now,
            ..tenure
        });
        self.asks = tenure.timing;
        // Renewals have failed for longer than that, and what is read is read as often as the Lease is renewed.
        let hears = hears(situation, retry);
        let lease = self.asks.lease();
        Some(Command::Plead(Pleading { others, lease, hears }))
    }

    /// Every other member has promised, asked then.
    pub fn confirmed(&mut self, asked: Moment) {
        // A renewal that claims more may have succeeded meanwhile, and one that claims less may have been sent.
        let claimed = self.tenure.map_or(self.asks, |tenure| tenure.timing);
        self.extend(asked + self.asks.renew_deadline().min(claimed.renew_deadline()));
        if let Some(tenure) = &mut self.tenure {
            tenure.confirmed = tenure.confirmed.max(asked);
        }
    }

    fn extend(&mut self, until: Moment) {
        if let Some(tenure) = &mut self.tenure {
            tenure.until = tenure.until.max(until);
        }
    }

    /// Answers a holder that cannot renew. What is granted holds for one lease duration from now on, by whoever counts on the longest.
    ///
    /// # Errors
    /// For people: why not.
    pub fn promise(&mut self, plea: &Plea, situation: &Situation<'_>) -> Result<(), String> {
        let Some(seen) = situation.lease else {
            return Err("the Lease was never seen from here".to_owned());
        };
        if seen.holder != plea.holder || seen.transitions != plea.transitions {
            return Err(format!(
                "the Lease is held by '{}' as seen from here",
                seen.holder
            ));
        }
        if !plea.hears && hears(situation, situation.settings.timing.retry() * 2) {
            return Err("the API server answers here".to_owned());
        }
        if self.tenure.is_some() || situation.writing {
            return Err("the Lease is being written from here".to_owned());
        }
        let asked = Duration::from_millis(plea.lease_ms).min(LONGEST);
        let lease = situation.settings.timing.lease().max(seen.claimed).max(asked);
        self.promised = self.promised.max(situation.now + lease);
        Ok(())
    }
}

/// Whether the API server has answered this instance within this time.
fn hears(situation: &Situation<'_>, within: Duration) -> bool {
    let silent = situation.api.map(|api| situation.now.saturating_sub(api));
    silent.is_some_and(|silent| silent < within)
}
