//! What is begun with the instances in one reconcile: what somebody wishes, or what comes next. Pure.

use super::step::{Course, Step};
use super::switchover::Wish;
use crate::api::database::SWITCH_OVER_TO;

/// What is begun now, one thing at most. What is not is put off, since whatever the course says is told as if it were so.
pub fn turn(course: &mut Course, wish: Option<&Wish>, goes_by_present_settings: bool) -> Option<Step> {
    // What instances said of themselves holds only as long as the settings are those that they went by.
    if !goes_by_present_settings {
        course.put_off("instances to take the settings that were written just now");
        return None;
    }
    if let Some(wish) = wish {
        course.put_off(format!("{SWITCH_OVER_TO} to be answered first"));
        return match wish {
            Wish::Take(step) => Some(step.clone()),
            Wish::Granted | Wish::Refused(_) => None,
        };
    }
    match course {
        Course::Take(step) => Some(step.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn restart(instance: &str) -> Step {
        Step::Restart {
            instance: instance.to_owned(),
            why: "max_connections takes effect then".to_owned(),
        }
    }

    fn refused() -> Wish {
        Wish::Refused("it must be a replica that streams".to_owned())
    }

    const WISH_FIRST: &str = "waiting for roadstead.dev/switch-over-to to be answered first";

    #[rstest]
    #[case::its_turn(
        None,
        true,
        Some("a-2"),
        "PostgreSQL of a-2 is started again: max_connections takes effect then"
    )]
    #[case::other_settings(
        None,
        false,
        None,
        "waiting for instances to take the settings that were written just now"
    )]
    #[case::a_wish(Some(Wish::Take(restart("a-0"))), true, Some("a-0"), WISH_FIRST)]
    #[case::a_wish_that_is_granted(Some(Wish::Granted), true, None, WISH_FIRST)]
    #[case::a_wish_that_cannot_be(Some(refused()), true, None, WISH_FIRST)]
    fn nothing_is_told_as_begun_that_is_not(
        #[case] wish: Option<Wish>,
        #[case] goes_by_present_settings: bool,
        #[case] begun: Option<&str>,
        #[case] told: &str,
    ) {
        let mut course = Course::Take(restart("a-2"));
        let step = turn(&mut course, wish.as_ref(), goes_by_present_settings);
        assert_eq!(step, begun.map(restart));
        assert_eq!(course.told().as_deref(), Some(told));
    }

    #[test]
    fn what_waits_or_is_done_stays_so() {
        for course in [Course::Done, Course::Wait("a primary".to_owned())] {
            for (wish, goes_by_present_settings) in [(None, true), (None, false), (Some(refused()), true)] {
                let mut after = course.clone();
                assert_eq!(turn(&mut after, wish.as_ref(), goes_by_present_settings), None);
                assert_eq!(after, course);
            }
        }
    }

    #[test]
    fn what_could_not_be_begun_is_told_with_the_reason() {
        let step = restart("a-2");
        let why = "a-2: no answer".to_owned();
        assert_eq!(
            Course::Retry { step, why }.told().as_deref(),
            Some(
                "cannot begin yet (a-2: no answer): PostgreSQL of a-2 is started again: max_connections takes effect then"
            )
        );
    }
}
