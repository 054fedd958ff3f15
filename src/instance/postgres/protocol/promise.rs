//! A holder that cannot renew the Lease has the others promise not to take it.

use std::time::Duration;

use super::{Command, Pleading, Protocol, Server, Situation, Tenure, lease, retry};
use crate::api::database::agent::{Plea, Record};

impl Protocol {
    /// Has the others promise once renewals fail. Nothing is won by that once PostgreSQL has ended for good here.
    pub(super) fn plead(
        &mut self,
        tenure: Tenure,
        record: &Record,
        situation: &Situation<'_>,
    ) -> Option<Command> {
        let now = situation.now;
        let exits = self.leaving.as_ref().is_some_and(|leaving| leaving.exit);
        let has_ended = exits && matches!(situation.server, Server::Stopped);
        if has_ended || now < tenure.renewed + retry(situation.settings) * 2 {
            return None;
        }
        // A renewal that was not answered may have taken effect, and whom it names may lead.
        let mut others = self.named.clone();
        others.extend(record.others(situation.me).map(str::to_owned));
        if others.is_empty() {
            self.confirmed(now, situation.settings);
            return None;
        }
        let due = now >= tenure.pleaded + retry(situation.settings) / 2;
        if situation.pleading || !due {
            return None;
        }
        self.tenure = Some(Tenure {
            pleaded: now,
            ..tenure
        });
        // Renewals have failed for longer than that, and what is read is read as often as the Lease is renewed.
        let hears = hears(situation, retry(situation.settings));
        Some(Command::Plead(Pleading { others, hears }))
    }

    /// Answers a holder that cannot renew. What is granted holds for one lease duration from now on.
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
        if !plea.hears && hears(situation, retry(situation.settings) * 2) {
            return Err("the API server answers here".to_owned());
        }
        if self.tenure.is_some() || situation.writing {
            return Err("the Lease is being written from here".to_owned());
        }
        self.promised = self.promised.max(situation.now + lease(situation.settings));
        Ok(())
    }
}

/// Whether the API server has answered this instance within this time.
fn hears(situation: &Situation<'_>, within: Duration) -> bool {
    let silent = situation.api.map(|api| situation.now.saturating_sub(api));
    silent.is_some_and(|silent| silent < within)
}
