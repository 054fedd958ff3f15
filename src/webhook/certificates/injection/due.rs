//! What of a verdict is due by now. Pure.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::decide::{Left, Verdict};

/// What to do with an object now.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Nothing: it is right.
    Rest,
    /// Nothing, though it is not as it should be.
    Leave(Left),
    /// To look again at this time: it is wrong, but not for long enough.
    Wait(Instant),
    /// To close what must not be open meanwhile, and then to look again at this time.
    Close(Value, Instant),
    /// To put right what is wrong, by this patch.
    Heal(String, Value),
}

/// What to do with an object of which this is found `now`, and since when it has been wrong.
///
/// It is healed at once, or, if that can wait, once it has been wrong for at least `patience`, of which `since` holds the beginning if an earlier
/// look found it wrong. Whatever is due is one write: healed, a version may stay open.
pub(super) fn step(
    since: Option<Instant>,
    verdict: Verdict,
    now: Instant,
    patience: Duration,
) -> (Option<Instant>, Step) {
    let (wrong, patch, close, can_wait) = match verdict {
        Verdict::Right => return (None, Step::Rest),
        Verdict::Leave(left) => return (None, Step::Leave(left)),
        Verdict::Heal {
            wrong,
            patch,
            close,
            can_wait,
        } => (wrong, patch, close, can_wait),
    };
    let since = since.unwrap_or(now);
    let heal_at = if can_wait { since + patience } else { now };
    let step = match close {
        _ if heal_at <= now => Step::Heal(wrong, patch),
        Some(close) => Step::Close(close, heal_at),
        None => Step::Wait(heal_at),
    };
    (Some(since), step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    const PATIENCE: Duration = Duration::from_secs(5);

    fn heal(is_open: bool) -> Verdict {
        Verdict::Heal {
            wrong: "wrong".into(),
            patch: json!("heal"),
            close: is_open.then(|| json!("close")),
            can_wait: true,
        }
    }

    fn heal_at_once() -> Verdict {
        Verdict::Heal {
            wrong: "wrong".into(),
            patch: json!("heal"),
            close: None,
            can_wait: false,
        }
    }

    /// In seconds: since when it was known to be wrong, the time of the look, and since when it is known to be afterwards.
    #[rstest]
    #[case::right(Some(0), 9, Verdict::Right, None, "rest")]
    #[case::somebody_elses(Some(0), 9, Verdict::Leave(Left::Stranger("b".into())), None, "leave Stranger(\"b\")")]
    #[case::wrong_by_now(None, 9, heal(false), Some(9), "wait until 14")]
    #[case::not_for_long_enough(Some(5), 9, heal(false), Some(5), "wait until 10")]
    #[case::for_long_enough(Some(4), 9, heal(false), Some(4), "heal")]
    #[case::what_cannot_wait(None, 9, heal_at_once(), Some(9), "heal")]
    #[case::open_by_now(None, 9, heal(true), Some(9), "close, wait until 14")]
    #[case::opened_by_somebody_meanwhile(Some(5), 9, heal(true), Some(5), "close, wait until 10")]
    #[case::open_and_for_long_enough(Some(4), 9, heal(true), Some(4), "heal")]
    fn what_is_open_is_closed_at_once_and_what_is_wrong_is_healed_after_the_patience(
        #[case] since: Option<u64>,
        #[case] now: u64,
        #[case] verdict: Verdict,
        #[case] known: Option<u64>,
        #[case] expected: &str,
    ) {
        let begin = Instant::now();
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        let (since, step) = step(since.map(at), verdict, at(now), PATIENCE);
        let told = match step {
            Step::Rest => "rest".to_owned(),
            Step::Leave(left) => format!("leave {left:?}"),
            Step::Wait(until) => format!("wait until {}", (until - begin).as_secs()),
            Step::Close(patch, until) => {
                assert_eq!(patch, "close");
                format!("close, wait until {}", (until - begin).as_secs())
            }
            Step::Heal(_, patch) => {
                assert_eq!(patch, "heal");
                "heal".to_owned()
            }
        };
        assert_eq!((since, told.as_str()), (known.map(at), expected));
    }

    #[rstest]
    fn without_patience_everything_is_healed_at_once(#[values(false, true)] is_open: bool) {
        let now = Instant::now();
        let (_, step) = step(None, heal(is_open), now, Duration::ZERO);
        assert_eq!(step, Step::Heal("wrong".into(), json!("heal")));
    }
}
