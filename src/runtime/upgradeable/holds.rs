//! What is under way that an update would endanger. Pure: time is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::LONGEST;

/// So many count at once. More than that hardly are, and while so many last, updates are held back in any case.
pub(super) const MOST: usize = 4096;
/// Of what is said of one operation, and of all together, in bytes. The API's limit for a message is 32 KiB; this one is for people.
const PART_LIMIT: usize = 200;
const MESSAGE_LIMIT: usize = 1024;
/// The API's limit for a reason, in bytes, is longer; nobody reads a word of that length.
const REASON_LIMIT: usize = 128;
/// The reason where operations of several reasons are under way.
const SEVERAL: &str = "SeveralOperations";
/// The reason in the place of one that the API would refuse.
const OTHER: &str = "OperationUnderWay";

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) until: Instant,
}

/// All together, as a condition says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnderWay {
    pub(super) reason: String,
    pub(super) message: String,
}

/// The operations that are under way, at most [`MOST`].
#[derive(Debug, Default)]
pub(super) struct Holds {
    held: BTreeMap<u64, Held>,
    last: u64,
}

impl Holds {
    /// Counts one more, and gives its number; `None` when there are too many.
    pub(super) fn begin(
        &mut self,
        reason: &str,
        message: &str,
        limit: Duration,
        now: Instant,
    ) -> Option<u64> {
        if self.held.len() >= MOST {
            return None;
        }
        let message = &message[..message.floor_char_boundary(PART_LIMIT)];
        let held = Held {
            reason: if is_reason(reason) { reason } else { OTHER }.to_owned(),
            message: message.to_owned(),
            until: now + limit.min(LONGEST),
        };
        self.last += 1;
        self.held.insert(self.last, held);
        Some(self.last)
    }

    /// Counts this one no more. False when it had run out before.
    pub(super) fn end(&mut self, number: u64) -> bool {
        self.held.remove(&number).is_some()
    }

    /// Takes out those whose time is over.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<Held> {
        let over = self.held.extract_if(.., |_, held| held.until <= now);
        over.map(|(_, held)| held).collect()
    }

    /// When the next one runs out.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.held.values().map(|held| held.until).min()
    }

    /// The number of the one that began last.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// What they are, if there are any: the same words in whichever order they began.
    pub(super) fn under_way(&self) -> Option<UnderWay> {
        let reasons: BTreeSet<&str> = self.held.values().map(|held| held.reason.as_str()).collect();
        let reason = match (reasons.first(), reasons.len()) {
            (None, _) => return None,
            (Some(only), 1) => only,
            (Some(_), _) => SEVERAL,
        };
        let messages = self.held.values().map(|held| held.message.as_str()).collect();
        Some(UnderWay {
            reason: reason.to_owned(),
            message: listed(&messages),
        })
    }
}

/// As many as there is room for, and the number of the others.
fn listed(messages: &BTreeSet<&str>) -> String {
    let mut text = String::new();
    for (said, message) in messages.iter().enumerate() {
        // Room for the number is kept.
        if text.len() + message.len() > MESSAGE_LIMIT - 32 {
            text.push_str(&format!("; and {} more", messages.len() - said));
            break;
        }
        if said > 0 {
            text.push_str("; ");
        }
        text.push_str(message);
    }
    text
}

/// Whether the API takes it: one word that begins with a letter and does not end with a comma or colon.
fn is_reason(reason: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b',' | b':');
    reason.len() <= REASON_LIMIT
        && reason.bytes().all(inner)
        && reason.starts_with(|first: char| first.is_ascii_alphabetic())
        && !reason.ends_with([',', ':'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    const MINUTE: Duration = Duration::from_secs(60);

    fn holding(held: &[(&str, &str)]) -> Holds {
        let (mut holds, now) = (Holds::default(), Instant::now());
        for (reason, message) in held {
            holds.begin(reason, message, MINUTE, now);
        }
        holds
    }

    #[rstest]
    #[case::none(&[], None)]
    #[case::one(&[("Failover", "of a")], Some(("Failover", "of a")))]
    #[case::of_a_kind(&[("Failover", "of b"), ("Failover", "of a")], Some(("Failover", "of a; of b")))]
    #[case::of_two_kinds(&[("Resharding", "of r"), ("Failover", "of a")], Some(("SeveralOperations", "of a; of r")))]
    #[case::twice_the_same(&[("Failover", "of a"), ("Failover", "of a")], Some(("Failover", "of a")))]
    #[case::a_reason_that_is_none(&[("two words", "of a")], Some(("OperationUnderWay", "of a")))]
    #[case::no_reason(&[("", "of a")], Some(("OperationUnderWay", "of a")))]
    #[case::a_reason_that_ends_badly(&[("Failover:", "of a")], Some(("OperationUnderWay", "of a")))]
    fn what_is_under_way_is_said_in_the_order_of_the_words(
        #[case] held: &[(&str, &str)],
        #[case] expected: Option<(&str, &str)>,
    ) {
        let said = holding(held).under_way();
        let said = said
            .as_ref()
            .map(|said| (said.reason.as_str(), said.message.as_str()));
        assert_eq!(said, expected);
    }

    #[test]
    fn one_that_ends_or_runs_out_counts_no_more_and_runs_out_but_once() {
        let (mut holds, now) = (Holds::default(), Instant::now());
        let first = holds.begin("Failover", "of a", MINUTE, now).unwrap();
        let second = holds.begin("Failover", "of b", 2 * MINUTE, now).unwrap();
        assert_eq!(holds.next_expiry(), Some(now + MINUTE));
        assert_eq!(holds.expire(now + MINUTE - Duration::from_nanos(1)), []);
        let over = holds.expire(now + MINUTE);
        assert_eq!(
            over.iter().map(|held| held.message.as_str()).collect::<Vec<_>>(),
            ["of a"]
        );
        assert_eq!(holds.expire(now + MINUTE), []);
        assert!(!holds.end(first), "it had run out");
        assert!(holds.end(second));
        assert_eq!(
            (holds.under_way(), holds.next_expiry(), holds.last()),
            (None, None, second)
        );
    }

    #[test]
    fn none_lasts_longer_than_all_together_may() {
        let (mut holds, now) = (Holds::default(), Instant::now());
        holds.begin("Failover", "of a", Duration::MAX, now);
        assert_eq!(holds.next_expiry(), Some(now + LONGEST));
    }

    #[test]
    fn there_are_never_more_than_so_many() {
        let (mut holds, now) = (Holds::default(), Instant::now());
        let numbers = (0..MOST + 10).filter_map(|_| holds.begin("Failover", "of a", MINUTE, now));
        assert_eq!(numbers.count(), MOST);
        holds.end(1);
        assert!(holds.begin("Failover", "of a", MINUTE, now).is_some());
    }

    #[test]
    fn of_too_many_the_first_are_named_and_the_others_counted() {
        let names: Vec<_> = (0..100)
            .map(|n| format!("failover of the database shop/orders-{n:02}"))
            .collect();
        let said = listed(&names.iter().map(String::as_str).collect());
        assert!(
            said.starts_with("failover of the database shop/orders-00; failover"),
            "{said}"
        );
        let named = said.matches("failover").count();
        assert!(
            named > 20 && said.ends_with(&format!("; and {} more", 100 - named)),
            "{said}"
        );
    }

    proptest! {
        #[test]
        fn whatever_is_said_the_api_takes_it(
            mut held in proptest::collection::vec((".{0,20}|[A-Z][a-z]{0,200}", ".{0,400}"), 1..40)
        ) {
            let said = |held: &[(String, String)]| {
                let held: Vec<_> = held.iter().map(|(reason, message)| (reason.as_str(), message.as_str())).collect();
                holding(&held).under_way().unwrap()
            };
            let one_way = said(&held);
            held.reverse();
            prop_assert_eq!(&one_way, &said(&held));
            prop_assert!(is_reason(&one_way.reason), "{}", one_way.reason);
            prop_assert!(one_way.message.len() <= MESSAGE_LIMIT, "{}", one_way.message.len());
        }
    }
}
