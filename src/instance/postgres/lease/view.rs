//! What a Lease says, and what is written into one. Pure: no client, and time as an argument.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::super::protocol::Write;
use crate::api::database::agent::{RECORD, Record, Timing};

/// What a Lease says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeaseView {
    /// The identity of the holder; empty when nobody holds it.
    pub holder: String,
    /// What the instances keep in it; `None` when there is nothing, or nothing that can be read.
    pub record: Option<Record>,
    /// Why the record cannot be read. Then there was one: the database is not new.
    pub unreadable: Option<String>,
    /// How often it has changed hands.
    pub transitions: i32,
    /// For how long its holder claims it from each renewal on; `None` when it does not say.
    pub duration: Option<Duration>,
}

/// Reads a Lease.
pub fn view(lease: &Lease) -> LeaseView {
    let spec = lease.spec.as_ref();
    let annotations = lease.metadata.annotations.as_ref();
    let text = annotations.and_then(|annotations| annotations.get(RECORD));
    let (record, unreadable) = match text.map(|text| serde_json::from_str(text)) {
        None => (None, None),
        Some(Ok(record)) => (Some(record), None),
        Some(Err(error)) => (None, Some(error.to_string())),
    };
    let seconds = spec.and_then(|spec| spec.lease_duration_seconds);
    LeaseView {
        holder: spec
            .and_then(|spec| spec.holder_identity.clone())
            .unwrap_or_default(),
        record,
        unreadable,
        transitions: spec.and_then(|spec| spec.lease_transitions).unwrap_or(0),
        duration: seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map(Duration::from_secs),
    }
}

/// The Lease as it is to be, with all that others keep in it. `now` is for people alone.
///
/// # Errors
/// When the record cannot be written as JSON, which is a defect.
pub(super) fn changed(
    seen: &Lease,
    holder: &str,
    record: &Record,
    timing: Timing,
    now: Timestamp,
    why: Write,
) -> Result<Lease, serde_json::Error> {
    let record = serde_json::to_string(record)?;
    let mut lease = seen.clone();
    let annotations = lease.metadata.annotations.get_or_insert_default();
    annotations.insert(RECORD.to_owned(), record);
    let spec = lease.spec.get_or_insert_default();
    // The API wants whole seconds, at least one: rounded up, so that nobody waits for less than was claimed.
    let seconds = timing.lease_ms.div_ceil(1000).max(1);
    spec.lease_duration_seconds = Some(i32::try_from(seconds).unwrap_or(i32::MAX));
    spec.renew_time = Some(MicroTime(now));
    spec.holder_identity = Some(holder.to_owned());
    match why {
        Write::Renew => {}
        Write::Claim => {
            spec.acquire_time = Some(MicroTime(now));
            spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(0).saturating_add(1));
        }
        Write::Release => {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
        }
    }
    Ok(lease)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn lease() -> Lease {
        let lease = json!({
            "metadata": {
                "name": "orders", "uid": "u", "resourceVersion": "7", "labels": {"team": "a"},
                "annotations": {"note": "theirs"}, "ownerReferences": [],
            },
            "spec": {
                "holderIdentity": "uid-1", "leaseTransitions": 4, "leaseDurationSeconds": 6,
                "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:09.000000Z",
            },
        });
        serde_json::from_value(lease).unwrap()
    }

    fn record() -> Record {
        Record {
            primary: "orders-1".into(),
            timeline: 3,
            ..Record::default()
        }
    }

    fn written(why: Write, lease_ms: u64) -> Lease {
        let timing = Timing {
            lease_ms,
            ..Timing::default()
        };
        let now = "2026-02-02T00:00:00Z".parse().unwrap();
        changed(&lease(), "uid-2", &record(), timing, now, why).unwrap()
    }

    const THEN: &str = "2026-01-01T00:00:00.000000Z";
    const NOW: &str = "2026-02-02T00:00:00.000000Z";

    #[rstest]
    #[case::a_claim_counts(Write::Claim, json!({
        "holderIdentity": "uid-2", "leaseTransitions": 5, "leaseDurationSeconds": 6, "acquireTime": NOW, "renewTime": NOW,
    }))]
    #[case::a_renewal_does_not(Write::Renew, json!({
        "holderIdentity": "uid-2", "leaseTransitions": 4, "leaseDurationSeconds": 6, "acquireTime": THEN, "renewTime": NOW,
    }))]
    #[case::a_release_leaves_nobody(Write::Release, json!({
        "holderIdentity": "", "leaseTransitions": 4, "leaseDurationSeconds": 1, "acquireTime": THEN, "renewTime": NOW,
    }))]
    fn a_write_changes_what_it_is_for_and_nothing_of_others(#[case] why: Write, #[case] spec: Value) {
        let written = written(why, 6000);
        assert_eq!(serde_json::to_value(&written.spec).unwrap(), spec);
        let mut expected = lease().metadata;
        let text = serde_json::to_string(&record()).unwrap();
        expected
            .annotations
            .as_mut()
            .unwrap()
            .insert(RECORD.to_owned(), text);
        assert_eq!(written.metadata, expected);
        assert_eq!(view(&written).record, Some(record()));
    }

    #[rstest]
    #[case(6000, 6)]
    #[case(1500, 2)]
    #[case(0, 1)]
    #[case(u64::MAX, i32::MAX)]
    fn the_claim_is_rounded_up_to_whole_seconds(#[case] lease_ms: u64, #[case] seconds: i32) {
        let spec = written(Write::Renew, lease_ms).spec.unwrap();
        assert_eq!(spec.lease_duration_seconds, Some(seconds));
    }

    #[rstest]
    #[case::none(None, None, false)]
    #[case::one(
        Some(r#"{"primary": "orders-1", "timeline": 3, "later": 1}"#),
        Some(record()),
        false
    )]
    #[case::no_json(Some("primary"), None, true)]
    #[case::of_another_shape(Some(r#"{"timeline": "three"}"#), None, true)]
    fn a_record_that_cannot_be_read_is_not_taken_for_none(
        #[case] text: Option<&str>,
        #[case] record: Option<Record>,
        #[case] is_unreadable: bool,
    ) {
        let mut lease = lease();
        lease.metadata.annotations = text.map(|text| [(RECORD.to_owned(), text.to_owned())].into());
        let view = view(&lease);
        assert_eq!((view.record, view.unreadable.is_some()), (record, is_unreadable));
        assert_eq!((view.holder.as_str(), view.transitions), ("uid-1", 4));
        assert_eq!(view.duration, Some(Duration::from_secs(6)));
    }

    #[test]
    fn a_lease_that_was_just_made_is_held_by_nobody() {
        assert_eq!(view(&Lease::default()), LeaseView::default());
    }
}
