//! What has been seen of the Lease, and since when.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use tokio::time::Instant;

/// What is known of the Lease and of the API server, by the local monotonic clock. Whether the Lease has expired is judged by that alone, never by the
/// times in it.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// As it was last seen; `None` before, and when it was deleted.
    pub lease: Option<Lease>,
    /// Since when holder, renewal and transitions are known to be what they were last seen to be; `None` before it was seen. A Lease that was deleted still
    /// counts: its holder may not know yet.
    pub unchanged_since: Option<Instant>,
    /// When the API server last answered anything, be it a refusal.
    pub answered: Option<Instant>,
    /// Why the last request brought nothing, if it did not. That there is no Lease, or that it is another than was thought, is no failure.
    pub failure: Option<String>,
    mark: Option<Mark>,
    /// What was read last is older than what was seen before.
    is_behind: bool,
}

/// What its holder changes with each renewal.
#[derive(Clone, Debug, PartialEq)]
struct Mark {
    holder: Option<String>,
    renewed: Option<MicroTime>,
    transitions: Option<i32>,
}

impl Mark {
    fn of(lease: &Lease) -> Self {
        let spec = lease.spec.as_ref();
        Self {
            holder: spec.and_then(|spec| spec.holder_identity.clone()),
            renewed: spec.and_then(|spec| spec.renew_time.clone()),
            transitions: spec.and_then(|spec| spec.lease_transitions),
        }
    }
}

impl Seen {
    /// The API server has answered, and it knows this Lease.
    pub(super) fn lease(&mut self, lease: Lease, now: Instant) {
        self.well(now);
        // A write's answer and the watch come on different ways, and the watch may be the later one.
        if !self.lease.as_ref().is_some_and(|known| is_older(&lease, known)) {
            self.take(lease, now);
        }
    }

    /// The API server was asked, and knows this Lease. Two such answers in a row, of which each was asked for once the one before had come, cannot both be late: what was
    /// seen before is not so any more, as when the cluster's own store was restored from a copy.
    pub(super) fn read(&mut self, lease: Lease, now: Instant) {
        let is_older = self.lease.as_ref().is_some_and(|known| is_older(&lease, known));
        if !is_older || self.is_behind {
            self.well(now);
            self.take(lease, now);
        } else {
            self.lease(lease, now);
            self.is_behind = true;
        }
    }

    fn take(&mut self, lease: Lease, now: Instant) {
        self.is_behind = false;
        let mark = Mark::of(&lease);
        if self.mark.as_ref() != Some(&mark) {
            self.mark = Some(mark);
            self.unchanged_since = Some(now);
        }
        self.lease = Some(lease);
    }

    /// The API server has answered, and there is no Lease any more. `deleted` is the last of it, where that is known.
    pub(super) fn gone(&mut self, deleted: Option<&Lease>, now: Instant) {
        self.well(now);
        let is_another = |known: &Lease| {
            deleted
                .is_some_and(|deleted| deleted.metadata.uid != known.metadata.uid || is_older(deleted, known))
        };
        if !self.lease.as_ref().is_some_and(is_another) {
            self.lease = None;
        }
    }

    /// The API server has answered, and nothing is wrong.
    pub(super) fn well(&mut self, now: Instant) {
        self.answered = Some(now);
        self.failure = None;
    }

    /// The API server has refused.
    pub(super) fn refused(&mut self, why: String, now: Instant) {
        self.answered = Some(now);
        self.failure = Some(why);
    }

    /// There was no answer.
    pub(super) fn failed(&mut self, why: String) {
        self.failure = Some(why);
    }

    pub(super) fn version(&self) -> Option<&str> {
        self.lease.as_ref()?.metadata.resource_version.as_deref()
    }
}

/// Whether `one` is an earlier state of the same Lease. Versions are numbers, whatever else they are; what is none is taken as it comes.
fn is_older(one: &Lease, other: &Lease) -> bool {
    let version = |lease: &Lease| lease.metadata.resource_version.as_ref()?.parse::<u64>().ok();
    let is_same = one.metadata.uid == other.metadata.uid;
    is_same
        && version(one)
            .zip(version(other))
            .is_some_and(|(one, other)| one < other)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use serde_json::json;

    fn lease(uid: &str, version: u64, holder: &str, renewed: u32) -> Lease {
        let lease = json!({
            "metadata": {"uid": uid, "resourceVersion": version.to_string()},
            "spec": {"holderIdentity": holder, "renewTime": format!("2026-01-01T00:00:{renewed:02}.000000Z")},
        });
        serde_json::from_value(lease).unwrap()
    }

    #[test]
    fn silence_is_counted_from_the_last_renewal_and_not_from_what_others_change() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut seen = Seen::default();
        let mut since = |lease: Lease, seconds: u32| {
            seen.lease(lease, start + seconds * second);
            seen.unchanged_since.unwrap() - start
        };
        assert_eq!(since(lease("u", 1, "a", 0), 0), Duration::ZERO);
        assert_eq!(since(lease("u", 2, "a", 1), 1), second);
        assert_eq!(since(lease("u", 3, "a", 1), 2), second, "somebody labelled it");
        assert_eq!(
            since(lease("u", 4, "b", 1), 3),
            3 * second,
            "the same moment, but another holder"
        );
        assert_eq!(since(lease("u", 4, "b", 1), 9), 3 * second);
    }

    #[test]
    fn what_comes_late_does_not_take_the_place_of_what_is_newer() {
        let now = Instant::now();
        let mut seen = Seen::default();
        seen.lease(lease("u", 10, "b", 5), now);
        seen.lease(lease("u", 9, "a", 4), now);
        seen.gone(Some(&lease("t", 11, "a", 4)), now);
        assert_eq!(seen.version(), Some("10"), "it was another that was deleted");
        seen.lease(lease("v", 3, "", 0), now);
        assert_eq!(seen.version(), Some("3"), "one that was made anew");
        seen.gone(Some(&lease("v", 4, "", 0)), now);
        assert_eq!(seen.lease, None);
        assert!(seen.unchanged_since.is_some());
    }

    #[test]
    fn what_is_read_twice_is_so_even_if_it_was_newer_before() {
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        let mut seen = Seen::default();
        seen.read(lease("u", 10, "a", 5), now);
        seen.read(lease("u", 7, "b", 3), later);
        assert_eq!(seen.version(), Some("10"), "it may have been late");
        seen.lease(lease("u", 7, "b", 3), later);
        assert_eq!(seen.version(), Some("10"), "so may a watch for ever");
        seen.read(lease("u", 7, "b", 3), later);
        assert_eq!((seen.version(), seen.unchanged_since), (Some("7"), Some(later)));
        seen.read(lease("u", 6, "b", 2), later);
        assert_eq!(seen.version(), Some("7"), "and so on");
    }

    #[test]
    fn a_refusal_is_an_answer_and_silence_is_none() {
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        let mut seen = Seen::default();
        seen.failed("late".into());
        assert_eq!((seen.answered, seen.failure.as_deref()), (None, Some("late")));
        seen.refused("no".into(), now);
        assert_eq!((seen.answered, seen.failure.as_deref()), (Some(now), Some("no")));
        seen.failed("late".into());
        assert_eq!(seen.answered, Some(now));
        seen.gone(None, later);
        assert_eq!((seen.answered, seen.failure), (Some(later), None));
    }
}
