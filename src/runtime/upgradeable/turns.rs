//! Whether updates are held back: while something is under way, but never for too long. Pure: time is an argument.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{LONGEST, NOTICED, TAKEN_UP};

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Updates may come.
    Open,
    /// They are held back.
    Shut {
        /// Since when, but for pauses that OLM may not have noticed.
        since: Timestamp,
    },
    /// They are held back by a leader that was before this one, whose work this one may take up.
    Inherited {
        /// Since when they are.
        since: Timestamp,
        /// Since when this one leads.
        from: Timestamp,
    },
    /// They may come, for so short a time that OLM may not have noticed.
    Pause {
        /// Since when they were held back before.
        since: Timestamp,
        /// Since when they may come.
        from: Timestamp,
    },
    /// They were held back for too long, and may come whatever is under way.
    Forced {
        /// Since when they may.
        from: Timestamp,
    },
}

impl Turn {
    /// What follows at `now`, when something `is_under_way` or not.
    pub(super) fn step(self, is_under_way: bool, now: Timestamp) -> Self {
        let anew = if is_under_way {
            Self::Shut { since: now }
        } else {
            Self::Open
        };
        match self.back_to(now) {
            Self::Open => anew,
            Self::Shut { since } | Self::Inherited { since, .. } if has_passed(since, LONGEST, now) => {
                Self::Forced { from: now }
            }
            Self::Shut { since } | Self::Inherited { since, .. } if is_under_way => Self::Shut { since },
            Self::Inherited { from, .. } if !has_passed(from, TAKEN_UP, now) => self.back_to(now),
            Self::Shut { since } | Self::Inherited { since, .. } => Self::Pause { since, from: now },
            Self::Pause { from, .. } | Self::Forced { from } if has_passed(from, NOTICED, now) => anew,
            Self::Pause { since, from } if is_under_way && has_passed(since, LONGEST, now) => {
                Self::Forced { from }
            }
            Self::Pause { since, .. } if is_under_way => Self::Shut { since },
            still @ (Self::Pause { .. } | Self::Forced { .. }) => still,
        }
    }

    /// How long, at the longest, until time alone brings something else about; `None` when it never does.
    pub(super) fn lasts(self, now: Timestamp) -> Option<Duration> {
        let left = |from: Timestamp, limit: Duration| limit.saturating_sub(passed(from, now));
        match self {
            Self::Open => None,
            Self::Shut { since } => Some(left(since, LONGEST)),
            Self::Inherited { since, from } => Some(left(since, LONGEST).min(left(from, TAKEN_UP))),
            Self::Pause { from, .. } | Self::Forced { from } => Some(left(from, NOTICED)),
        }
    }

    /// No time of it is later than `now`: a clock that was set back, or a time in an object that somebody made up, must not make anything
    /// last longer.
    fn back_to(self, now: Timestamp) -> Self {
        match self {
            Self::Open => Self::Open,
            Self::Shut { since } => Self::Shut {
                since: since.min(now),
            },
            Self::Inherited { since, from } => Self::Inherited {
                since: since.min(now),
                from: from.min(now),
            },
            Self::Pause { since, from } => Self::Pause {
                since: since.min(now),
                from: from.min(now),
            },
            Self::Forced { from } => Self::Forced { from: from.min(now) },
        }
    }
}

fn has_passed(from: Timestamp, limit: Duration, now: Timestamp) -> bool {
    passed(from, now) >= limit
}

fn passed(from: Timestamp, now: Timestamp) -> Duration {
    let passed: SignedDuration = now.duration_since(from);
    Duration::try_from(passed).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    const LIMIT: i64 = LONGEST.as_secs() as i64;
    const BREAK: i64 = NOTICED.as_secs() as i64;
    const WAIT: i64 = TAKEN_UP.as_secs() as i64;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn shut(since: i64) -> Turn {
        Turn::Shut { since: at(since) }
    }

    fn inherited(since: i64, from: i64) -> Turn {
        Turn::Inherited {
            since: at(since),
            from: at(from),
        }
    }

    fn pause(since: i64, from: i64) -> Turn {
        Turn::Pause {
            since: at(since),
            from: at(from),
        }
    }

    fn forced(from: i64) -> Turn {
        Turn::Forced { from: at(from) }
    }

    #[rstest]
    #[case::idle(Turn::Open, false, 0, Turn::Open)]
    #[case::begins(Turn::Open, true, 5, shut(5))]
    #[case::goes_on(shut(0), true, LIMIT - 1, shut(0))]
    #[case::ends(shut(0), false, 60, pause(0, 60))]
    #[case::too_long(shut(0), true, LIMIT, forced(LIMIT))]
    #[case::a_pause_goes_on(pause(0, 60), false, 61, pause(0, 60))]
    #[case::a_short_pause_is_none(pause(0, 60), true, 60 + BREAK - 1, shut(0))]
    #[case::a_long_pause_is_one(pause(0, 60), false, 60 + BREAK, Turn::Open)]
    #[case::after_a_long_pause_it_begins_anew(pause(0, 60), true, 60 + BREAK, shut(60 + BREAK))]
    #[case::too_long_but_for_a_short_pause(pause(0, LIMIT - 60), true, LIMIT, forced(LIMIT - 60))]
    #[case::let_through_for_a_while(forced(0), true, BREAK - 1, forced(0))]
    #[case::let_through_for_long_enough(forced(0), true, BREAK, shut(BREAK))]
    #[case::let_through_and_done(forced(0), false, BREAK, Turn::Open)]
    #[case::not_taken_up_yet(inherited(0, 50), false, 50 + WAIT - 1, inherited(0, 50))]
    #[case::not_taken_up(inherited(0, 50), false, 50 + WAIT, pause(0, 50 + WAIT))]
    #[case::taken_up(inherited(0, 50), true, 51, shut(0))]
    #[case::inherited_too_late(inherited(0, LIMIT), true, LIMIT, forced(LIMIT))]
    #[case::a_time_to_come(shut(100_000), true, 0, shut(0))]
    #[case::a_break_to_come(forced(100_000), true, 0, forced(0))]
    fn the_next_turn_follows_from_what_is_under_way_and_the_time(
        #[case] turn: Turn,
        #[case] is_under_way: bool,
        #[case] now: i64,
        #[case] expected: Turn,
    ) {
        assert_eq!(turn.step(is_under_way, at(now)), expected);
    }

    #[rstest]
    #[case(Turn::Open, None)]
    #[case(shut(0), Some(LIMIT - 10))]
    #[case(inherited(0, 10), Some(WAIT))]
    #[case(inherited(5 - LIMIT, 10), Some(0))]
    #[case(pause(0, 10), Some(BREAK))]
    #[case(forced(0), Some(BREAK - 10))]
    fn who_waits_is_told_how_long(#[case] turn: Turn, #[case] expected: Option<i64>) {
        assert_eq!(turn.lasts(at(10)).map(|wait| wait.as_secs() as i64), expected);
    }

    proptest! {
        /// Whatever is under way and whoever leads, OLM finds updates let through for long enough within the longest time.
        #[test]
        fn updates_are_let_through_again_and_again(
            under_way in proptest::collection::vec((any::<bool>(), 1_i64..20 * 60), 200), inherits in any::<bool>()
        ) {
            let mut turn = if inherits { inherited(0, 0) } else { Turn::Open };
            let (mut now, mut noticed, mut open) = (0, 0, None);
            for (is_under_way, wait) in under_way {
                turn = turn.step(is_under_way, at(now));
                let is_open = !matches!(turn, Turn::Shut { .. } | Turn::Inherited { .. });
                // As the keeper does: it looks again when time alone changes something.
                let until = turn.lasts(at(now)).map_or(wait, |lasts| wait.min(lasts.as_secs() as i64));
                if is_open {
                    let since = *open.get_or_insert(now);
                    if now + until - since >= BREAK {
                        noticed = now + until;
                    }
                } else {
                    open = None;
                }
                now += until;
                prop_assert!(now - noticed <= LIMIT + BREAK, "not for {} s at {now}: {turn:?}", now - noticed);
            }
        }
    }
}
