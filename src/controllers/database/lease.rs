//! What the operator reads of a database's Lease, which instances write.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;

pub use crate::api::database::agent::Quorum;
use crate::api::database::agent::{Lsn, RECORD, Record};

/// Who holds the Lease, and what the operator wants to know of the record beside it. What instances write with every renewal is not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The identity of the process that holds it; none if nobody does.
    pub holder: Option<String>,
    /// The instance that holds it or held it last; none if none ever did.
    pub primary: Option<String>,
    /// PostgreSQL's identifier of the data; none before there is any.
    pub system_identifier: Option<String>,
    /// The latest timeline.
    pub timeline: Option<i64>,
    /// The instances that may take over, or that a commit may have waited for.
    pub named: BTreeSet<String>,
    /// What commits wait for. There are several while that is being changed.
    pub quorums: Vec<Quorum>,
    /// Whether commits may have been acknowledged that no replica has.
    pub asynchronous: bool,
    /// The part of a primary's log that the next one lacked when it last happened.
    pub missing: Option<Missing>,
    /// Since when no write is accepted, if the last primary was stopped in order and none is one since.
    pub stopped: Option<Timestamp>,
}

/// A part of a primary's log that the next one lacked when it took over: commits in it, and after it, may have been acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Where it begins.
    pub from: Lsn,
    /// Up to where that log was known to have been written; no less than `from`.
    pub to: Lsn,
    /// The timeline that began without it.
    pub since: i64,
}

impl Held {
    /// What a Lease says. An annotation that cannot be read says nothing.
    pub fn of(lease: &Lease) -> Self {
        let annotation = lease
            .metadata
            .annotations
            .as_ref()
            .and_then(|annotations| annotations.get(RECORD));
        let record = annotation.and_then(|text| serde_json::from_str::<Record>(text).ok());
        let Record {
            primary,
            system_identifier,
            timeline,
            mut members,
            quorums,
            asynchronous,
            missing,
            missing_since,
            stopped,
            // They change with every renewal, or concern instances alone.
            flushed: _,
            flushed_on: _,
            handover: _,
            missing_on: _,
        } = record.unwrap_or_default();
        members.extend(quorums.iter().flat_map(|quorum| quorum.standbys.clone()));
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
        Self {
            holder: holder.filter(|holder| !holder.is_empty()),
            primary: Some(primary).filter(|primary| !primary.is_empty()),
            system_identifier,
            timeline: (timeline > 0).then_some(i64::from(timeline)),
            named: members,
            quorums,
            asynchronous,
            missing: missing.map(|(from, to)| Missing {
                from,
                to,
                since: i64::from(missing_since),
            }),
            stopped,
        }
    }

    /// The instance that may take writes: that of the holder.
    pub fn leader(&self) -> Option<&str> {
        self.holder.as_ref().and(self.primary.as_deref())
    }
}

/// Whether the step from one version of a Lease to the next matters: it is renewed every second.
pub fn matters(old: &Lease, new: &Lease) -> bool {
    let meta = |lease: &Lease| {
        let meta = lease.metadata.clone();
        (meta.labels, meta.owner_references)
    };
    Held::of(old) != Held::of(new) || meta(old) != meta(new)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn lease(holder: &str, record: Value) -> Lease {
        let lease = json!({
            "metadata": {"name": "orders", "annotations": {RECORD: record.to_string()}},
            "spec": {"holderIdentity": holder, "renewTime": "2026-01-01T00:00:00.000000Z"},
        });
        serde_json::from_value(lease).unwrap()
    }

    #[test]
    fn what_instances_write_is_read() {
        let written = Record {
            primary: "orders-1".into(),
            system_identifier: Some("7".into()),
            timeline: 3,
            members: names(&["orders-0", "orders-1"]),
            quorums: vec![Quorum {
                standbys: names(&["orders-2"]),
                need: 1,
            }],
            stopped: Some(Timestamp::UNIX_EPOCH),
            ..Record::default()
        };
        let held = Held::of(&lease("uid-nonce", json!(written)));
        assert_eq!(held.leader(), Some("orders-1"));
        assert_eq!(
            (held.system_identifier.as_deref(), held.timeline),
            (Some("7"), Some(3))
        );
        assert_eq!(held.named, names(&["orders-0", "orders-1", "orders-2"]));
        let waited_for = Quorum {
            standbys: names(&["orders-2"]),
            need: 1,
        };
        assert_eq!((held.quorums, held.asynchronous), (vec![waited_for], false));
        assert_eq!(held.stopped, Some(Timestamp::UNIX_EPOCH));
        // Released in order.
        assert_eq!(Held::of(&lease("", json!(written))).leader(), None);
        assert_eq!(Held::of(&lease("uid", json!("nonsense"))).leader(), None);
        assert_eq!(Held::of(&Lease::default()), Held::default());
    }

    #[test]
    fn a_renewal_does_not_matter_and_another_holder_does() {
        let at = |flushed| {
            let written = Record {
                primary: "orders-0".into(),
                flushed: Lsn(flushed),
                ..Record::default()
            };
            lease("uid-nonce", json!(written))
        };
        let mut renewed = at(2);
        if let Some(spec) = &mut renewed.spec {
            spec.renew_time = None;
        }
        assert!(!matters(&at(1), &renewed));
        assert!(matters(&at(1), &lease("other", json!({"primary": "orders-0"}))));
    }
}
