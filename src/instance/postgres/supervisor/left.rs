//! Up to where this instance wrote, as a primary, what whoever took over began without the last of.
//!
//! Nobody else can tell: a primary that fell silent may have written after it renewed the Lease for the last time. It is found out before the data is taken
//! back or put aside, after which the volume says nothing of it any more, and kept beside the data, so that an operator that is away hears of it later.

use std::path::PathBuf;

use super::super::files;
use super::super::log::newest_timeline;
use super::super::options::Options;
use super::super::protocol::{Data, Stored};
use super::work::{Tools, WorkError};
use crate::api::database::agent::{Lsn, Record};

/// A log to find the end of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    /// The timeline that began without it.
    since: u32,
    /// It is on this one or on a later one before that.
    on: u32,
    /// What is missing begins here.
    from: Lsn,
    /// The last checkpoint, and its timeline: from there on all of the log is there.
    checkpoint: (u32, Lsn),
    /// How many bytes each of its files has.
    segment: u64,
}

/// What was found out of a log that the timeline `since` began without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) since: u32,
    /// None where it is not here, or cannot be told.
    pub(super) end: Option<Lsn>,
}

impl Left {
    /// What a primary that comes back may have to say of what the Lease calls missing, unless that was looked for already.
    pub(super) fn of(record: &Record, data: &Data, found: Option<Found>) -> Option<Self> {
        let (from, _) = record.missing?;
        let since = record.missing_since;
        let Data::Present(stored @ Stored { standby: false, .. }) = data else {
            return None;
        };
        let is_found = found.is_some_and(|found| found.since == since);
        (!is_found).then_some(Self {
            since,
            on: record.missing_on,
            from,
            checkpoint: (stored.timeline, stored.end),
            segment: stored.segment,
        })
    }

    /// Where to begin to look, if this is the log of a primary that wrote last on `newest`. One that led before has nothing to do with it, and one that led
    /// later had it, or was told of.
    fn start(&self, newest: u32) -> Option<(u32, Lsn)> {
        let (of_checkpoint, checkpoint) = self.checkpoint;
        let start = if of_checkpoint == newest {
            checkpoint
        } else {
            self.from
        };
        (self.on..self.since).contains(&newest).then_some((newest, start))
    }
}

impl Tools {
    /// Finds the end, and keeps it. Data is made whether it can be told or not.
    pub(super) async fn find_end(&self, left: Left) -> Found {
        let since = left.since;
        let end = match self.look_for_end(left).await {
            Ok(Some(end)) => {
                tracing::warn!(
                    "timeline {since} began at {}, and the log here ended at {end}",
                    left.from
                );
                Some(end)
            }
            Ok(None) => {
                tracing::info!("where the log ended that timeline {since} began without cannot be told here");
                None
            }
            Err(error) => {
                tracing::warn!(%error, "cannot tell where the log ended that timeline {since} began without");
                None
            }
        };
        Found { since, end }
    }

    async fn look_for_end(&self, left: Left) -> Result<Option<Lsn>, WorkError> {
        let newest = self.on_disk(|tools| Ok(newest_timeline(&tools.options)?)).await?;
        let Some(start) = newest.and_then(|newest| left.start(newest)) else {
            return Ok(None);
        };
        let end = self
            .programs
            .log_end(&self.options, &self.volume, start, left.segment)
            .await?;
        if let Some(end) = end {
            let text = format!("{} {end}\n", left.since);
            self.on_disk(move |tools| Ok(files::write(&path(&tools.options), text, tools.options.user)?))
                .await?;
        }
        Ok(end)
    }
}

/// What was found before this process began.
pub(super) fn kept(options: &Options) -> Option<Found> {
    let text = std::fs::read_to_string(path(options)).ok()?;
    let (since, end) = text.trim_end().split_once(' ')?;
    Some(Found {
        since: since.parse().ok()?,
        end: Some(end.parse().ok()?),
    })
}

fn path(options: &Options) -> PathBuf {
    options.volume.join("wrote-up-to")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const LEFT: Left = Left {
        since: 4,
        on: 2,
        from: Lsn(100),
        checkpoint: (2, Lsn(120)),
        segment: 16,
    };

    #[rstest]
    #[case::a_primary(false, None, Some(LEFT))]
    #[case::a_replica_wrote_nothing(true, None, None)]
    #[case::it_was_found(false, Some(Found { since: 4, end: Some(Lsn(130)) }), None)]
    #[case::it_cannot_be_told(false, Some(Found { since: 4, end: None }), None)]
    #[case::another_was_found(false, Some(Found { since: 3, end: Some(Lsn(90)) }), Some(LEFT))]
    fn a_primary_that_comes_back_looks_once_for_the_end_of_its_log(
        #[case] standby: bool,
        #[case] found: Option<Found>,
        #[case] left: Option<Left>,
    ) {
        let record = Record {
            missing: Some((Lsn(100), Lsn(110))),
            missing_since: 4,
            missing_on: 2,
            ..Record::default()
        };
        let data = Data::Present(Stored {
            standby,
            timeline: 2,
            end: Lsn(120),
            segment: 16,
            ..Stored::default()
        });
        assert_eq!(Left::of(&record, &data, found), left);
        assert_eq!(
            Left::of(&Record::default(), &data, found),
            None,
            "nothing is missing"
        );
        assert_eq!(Left::of(&record, &Data::Empty, found), None);
    }

    /// One instance may have taken the Lease for timeline 3 and never begun it.
    #[rstest]
    #[case::it_led_before(1, None)]
    #[case::from_its_checkpoint(2, Some(120))]
    #[case::from_where_it_is_missing_without_a_checkpoint_of_its_own(3, Some(100))]
    #[case::it_led_later(4, None)]
    fn only_the_primary_before_wrote_what_is_missing(#[case] newest: u32, #[case] start: Option<u64>) {
        assert_eq!(LEFT.start(newest), start.map(|start| (newest, Lsn(start))));
    }
}
