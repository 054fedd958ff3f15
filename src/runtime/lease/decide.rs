//! What to do about the lease, given what is known of it. Pure: no client, and time only as a length.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// The part of a lease that changes when its holder renews it or another one takes it.
///
/// The times are those of the holder's clock, which may be wrong: they are compared with each other for equality and never with a clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// Who holds it; empty when it was released.
    pub holder: String,
    /// For how long the holder claims it from each renewal on; zero when it does not say.
    pub duration: Duration,
    /// When the holder took it, by its clock.
    pub acquired: Option<MicroTime>,
    /// When the holder last renewed it, by its clock.
    pub renewed: Option<MicroTime>,
    /// How often it went from one holder to another.
    pub transitions: i32,
}

impl From<&Lease> for Record {
    fn from(lease: &Lease) -> Self {
        let spec = lease.spec.clone().unwrap_or_default();
        let seconds = spec
            .lease_duration_seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .unwrap_or(0);
        Self {
            holder: spec.holder_identity.unwrap_or_default(),
            duration: Duration::from_secs(seconds),
            acquired: spec.acquire_time,
            renewed: spec.renew_time,
            transitions: spec.lease_transitions.unwrap_or(0),
        }
    }
}

impl Record {
    /// Writes the record into `spec`, leaving the other fields of it as they are.
    pub(super) fn write_to(&self, spec: &mut LeaseSpec) {
        // The API wants whole seconds, at least one: rounded up, so that a standby never waits for less than was claimed.
        let seconds = self.duration.as_secs() + u64::from(self.duration.subsec_nanos() > 0);
        spec.holder_identity = Some(self.holder.clone());
        spec.lease_duration_seconds = Some(i32::try_from(seconds.max(1)).unwrap_or(i32::MAX));
        spec.acquire_time = self.acquired.clone();
        spec.renew_time = self.renewed.clone();
        spec.lease_transitions = Some(self.transitions);
    }
}

/// What is known of the lease.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The record as it was last seen; `None` when none ever was.
    pub record: Option<&'a Record>,
    /// For how long, by the local monotonic clock, it has not been seen to change.
    pub unchanged_for: Duration,
    /// Whether the lease exists: it may have been deleted since the record was seen.
    pub exists: bool,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// There is no lease: make one and hold it.
    Create {
        /// How often the lease has changed hands, to write into it.
        transitions: i32,
    },
    /// It is ours: renew it.
    Renew,
    /// It was released, or its holder has not renewed it for as long as it claimed it: take it.
    Take {
        /// How often the lease has changed hands, to write into it.
        transitions: i32,
    },
    /// Somebody else holds it, for this long if it is not renewed.
    Wait {
        /// When to look again at the latest.
        expires_in: Duration,
    },
}

/// Decides for the candidate `identity`, which claims the lease for `own_duration` at a time.
///
/// A lease is expired when its record has not changed for as long as its holder claimed it, whatever the times in it say. One that was deleted
/// still counts for that long: its holder may not know yet.
pub fn decide(identity: &str, known: Known<'_>, own_duration: Duration) -> Decision {
    let Some(record) = known.record else {
        return Decision::Create { transitions: 0 };
    };
    let claimed = if record.duration.is_zero() {
        own_duration
    } else {
        record.duration
    };
    let is_free = record.holder.is_empty() || known.unchanged_for >= claimed;
    let is_ours = record.holder == identity;
    let after_a_change = record.transitions.saturating_add(1);
    match (known.exists, is_ours, is_free) {
        (true, true, _) => Decision::Renew,
        (true, false, true) => Decision::Take {
            transitions: after_a_change,
        },
        (false, true, _) => Decision::Create {
            transitions: record.transitions,
        },
        (false, false, true) => Decision::Create {
            transitions: after_a_change,
        },
        (_, false, false) => Decision::Wait {
            expires_in: claimed - known.unchanged_for,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    const OWN: Duration = Duration::from_secs(15);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn record(holder: &str, duration: u64) -> Record {
        Record {
            holder: holder.into(),
            duration: seconds(duration),
            transitions: 3,
            ..Record::default()
        }
    }

    #[rstest]
    #[case::ours("me", 15, 0, true, Decision::Renew)]
    #[case::ours_and_late("me", 15, 60, true, Decision::Renew)]
    #[case::held_by_another("other", 15, 0, true, Decision::Wait { expires_in: seconds(15) })]
    #[case::held_and_nearly_expired("other", 15, 14, true, Decision::Wait { expires_in: seconds(1) })]
    #[case::expired("other", 15, 15, true, Decision::Take { transitions: 4 })]
    #[case::released("", 1, 0, true, Decision::Take { transitions: 4 })]
    #[case::the_holders_own_duration_counts("other", 60, 59, true, Decision::Wait { expires_in: seconds(1) })]
    #[case::a_holder_that_names_none("other", 0, 14, true, Decision::Wait { expires_in: seconds(1) })]
    #[case::deleted_under_its_holder("other", 15, 3, false, Decision::Wait { expires_in: seconds(12) })]
    #[case::deleted_and_expired("other", 15, 15, false, Decision::Create { transitions: 4 })]
    #[case::deleted_under_us("me", 15, 3, false, Decision::Create { transitions: 3 })]
    fn the_decision_follows_from_holder_and_silence(
        #[case] holder: &str,
        #[case] duration: u64,
        #[case] unchanged: u64,
        #[case] exists: bool,
        #[case] expected: Decision,
    ) {
        let record = record(holder, duration);
        let known = Known {
            record: Some(&record),
            unchanged_for: seconds(unchanged),
            exists,
        };
        assert_eq!(decide("me", known, OWN), expected);
    }

    #[test]
    fn a_lease_that_never_was_is_created() {
        let known = Known {
            record: None,
            unchanged_for: Duration::ZERO,
            exists: false,
        };
        assert_eq!(decide("me", known, OWN), Decision::Create { transitions: 0 });
    }

    #[rstest]
    #[case(15_000, 15)]
    #[case(1_500, 2)]
    #[case(300, 1)]
    fn the_claim_is_rounded_up_to_whole_seconds(#[case] milliseconds: u64, #[case] expected: i32) {
        let mut spec = LeaseSpec::default();
        let record = Record {
            duration: Duration::from_millis(milliseconds),
            ..Record::default()
        };
        record.write_to(&mut spec);
        assert_eq!(spec.lease_duration_seconds, Some(expected));
    }

    #[test]
    fn a_record_survives_the_way_through_a_lease() {
        let mut lease = Lease::default();
        record("me", 15).write_to(lease.spec.get_or_insert_default());
        assert_eq!(Record::from(&lease), record("me", 15));
    }

    proptest! {
        /// Nobody takes a lease from a holder that has been silent for less than it claimed, whatever the times in the record are.
        #[test]
        fn a_lease_is_never_taken_from_a_holder_in_time(
            duration in 0_u64..100, unchanged in 0_u64..200, exists in any::<bool>(), transitions in any::<i32>()
        ) {
            let record = Record { transitions, ..record("other", duration) };
            let known = Known { record: Some(&record), unchanged_for: seconds(unchanged), exists };
            let claimed = if duration == 0 { OWN } else { seconds(duration) };
            match decide("me", known, OWN) {
                Decision::Wait { expires_in } => prop_assert_eq!(seconds(unchanged) + expires_in, claimed),
                Decision::Take { .. } => prop_assert!(exists && seconds(unchanged) >= claimed),
                Decision::Create { .. } => prop_assert!(!exists && seconds(unchanged) >= claimed),
                Decision::Renew => prop_assert!(false, "renewed what another holds"),
            }
        }
    }
}
