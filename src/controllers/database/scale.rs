//! How many instances there are to be next, on the way to as many as the spec asks for. Pure.
//!
//! More of them are made at once. Fewer take three steps, each of which rests on what is seen and none on what was remembered: the primary is moved to an
//! instance that stays; the settings name those that stay, so that commits wait for no other, nor does anybody else take over; and once the Lease says
//! the same, the StatefulSet shrinks. So no commit is ever where only those have it that go.

use super::desired::names;
use super::handover::{self, NEAR};
use super::live::Live;
use super::step::{Course, Step};
use super::verdict;
use crate::runtime::conditions::State;

/// How many there are to be next.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// Those that the settings name.
    pub members: i32,
    /// Those that the StatefulSet has.
    pub replicas: i32,
    /// What comes next if these are too many.
    pub course: Course,
}

impl Scale {
    /// As many as there are, or more.
    pub fn hold(wanted: i32, told: Option<i32>, live: &Live<'_>) -> Self {
        let there = there(live);
        Self {
            members: told.unwrap_or(there).max(wanted),
            replicas: there.max(wanted),
            course: Course::Done,
        }
    }
}

/// Of a database named `database` that is to have `wanted` instances, where the settings name `told`.
pub fn scale(database: &str, wanted: i32, told: Option<i32>, live: &Live<'_>) -> Scale {
    let mut scale = Scale::hold(wanted, told, live);
    let told = scale.members;
    if scale.members.max(scale.replicas) <= wanted {
        return scale;
    }
    let goes = |ordinal: i32| names::pod(database, ordinal);
    let leaving: Vec<String> = (wanted..told.max(scale.replicas)).map(goes).collect();
    scale.course = course(wanted, &leaving, live);
    let named = leaving.iter().any(|name| live.lease.named.contains(name));
    if scale.course != Course::Done {
        // Until the Lease forgets them, those that stay may have to hear from those that go before one of them takes over.
        if named {
            scale.members = scale.members.max(scale.replicas);
        }
        return scale;
    }
    // From here on nothing is asked of those that go.
    scale.members = wanted;
    let taken = live.primary().and_then(|primary| primary.settings.as_deref()) == live.settings;
    if told > wanted || named || !taken {
        let what = format!("the Lease to name {} no more", leaving.join(", "));
        scale.course = Course::Wait(what);
    } else {
        scale.replicas = wanted;
    }
    scale
}

/// How many instances there are. Where the StatefulSet is gone, its pods may be there still.
pub fn there(live: &Live<'_>) -> i32 {
    live.replicas().unwrap_or_else(|| names::count_with(live.names()))
}

/// What has to be done before these may go.
fn course(wanted: i32, leaving: &[String], live: &Live<'_>) -> Course {
    let available = verdict::available(live);
    let Some(primary) = live.primary().filter(|_| available.state == State::True) else {
        return Course::Wait(format!("the primary to take writes: {}", available.message));
    };
    let leader = live.lease.leader().unwrap_or_default();
    let stay = live.names().filter(|name| !leaving.contains(name));
    if leaving.iter().any(|name| name == leader) {
        let stay: Vec<String> = stay.collect();
        return match handover::successor(primary, |name| stay.iter().any(|other| other == name)) {
            Ok(to) => Course::Take(Step::HandOver {
                from: leader.to_owned(),
                to,
                why: format!("the database is to have {wanted} instances"),
            }),
            Err(what) => Course::Wait(format!("{what}, since {leader} is to go")),
        };
    }
    let others = usize::try_from(wanted).unwrap_or_default().saturating_sub(1);
    let there = stay
        .filter(|name| name != leader && handover::has_near(primary, name))
        .count();
    if there < others {
        return Course::Wait(format!(
            "every replica that stays to stream, and to be at most {NEAR} bytes of WAL behind: {there} of {others} are"
        ));
    }
    Course::Done
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::api::database::agent::Lsn;
    use crate::controllers::database::scene::Scene;

    /// Three instances, of which the spec asks for fewer; orders-0 leads.
    fn scaled(wanted: i32, change: impl FnOnce(&mut Scene)) -> Scale {
        let scene = Scene::of(json!({"instances": wanted})).change(change);
        let told = Some(scene.told).filter(|told| *told > 0);
        scene.see(|live| scale("orders", wanted, told, live))
    }

    fn counts(scale: &Scale) -> (i32, i32) {
        (scale.members, scale.replicas)
    }

    #[rstest]
    #[case::at_once(5, 3, 3)]
    #[case::grown_half(5, 5, 3)]
    #[case::somebody_scaled_down(3, 3, 1)]
    #[case::settings_are_lost(3, 0, 3)]
    fn more_instances_are_made_at_once(#[case] wanted: i32, #[case] told: i32, #[case] there: i32) {
        let scale = scaled(wanted, |scene| (scene.told, scene.there) = (told, there));
        assert_eq!((counts(&scale), scale.course), ((wanted, wanted), Course::Done));
    }

    #[test]
    fn the_way_to_fewer_goes_by_the_settings_then_the_lease_then_the_stateful_set() {
        let first = scaled(2, |_| {});
        assert_eq!(counts(&first), (2, 3));
        assert_eq!(
            first.course,
            Course::Wait("the Lease to name orders-2 no more".into())
        );
        let second = scaled(2, |scene| scene.told = 2);
        assert_eq!((counts(&second), second.course), ((2, 3), first.course));
        let third = scaled(2, |scene| {
            scene.told = 2;
            scene.lease.named.remove("orders-2");
        });
        assert_eq!((counts(&third), third.course), ((2, 2), Course::Done));
        // It may have begun to stream since.
        let late = scaled(2, |scene| {
            scene.told = 2;
            scene.lease.named.remove("orders-2");
            scene.report(0).settings = Some("old".into());
        });
        assert_eq!(counts(&late), (2, 3));
    }

    #[test]
    fn the_primary_never_goes_and_somebody_who_stays_takes_over_first() {
        let moved = |scene: &mut Scene| {
            scene.lease.primary = Some("orders-2".into());
            scene.lease.holder = Some("uid-2".into());
            let (first, last) = (scene.report(0).clone(), scene.report(2).clone());
            *scene.report(0) = last;
            *scene.report(2) = first;
            scene.report(2).identity = "uid-2".into();
            for (standby, name) in scene.report(2).standbys.iter_mut().zip(["orders-1", "orders-0"]) {
                name.clone_into(&mut standby.name);
            }
        };
        let scale = scaled(1, moved);
        assert_eq!(counts(&scale), (3, 3));
        let Course::Take(Step::HandOver { from, to, .. }) = scale.course else {
            panic!("{:?}", scale.course);
        };
        assert_eq!((from.as_str(), to.as_str()), ("orders-2", "orders-0"));

        let nobody = scaled(1, |scene| {
            moved(scene);
            scene.report(2).standbys.pop();
        });
        assert_eq!(counts(&nobody), (3, 3));
        assert!(matches!(nobody.course, Course::Wait(_)), "{:?}", nobody.course);
    }

    #[rstest]
    #[case::no_primary(|scene: &mut Scene| scene.lease.holder = None)]
    #[case::no_writes(|scene: &mut Scene| scene.report(0).wrote_ms = None)]
    #[case::one_that_stays_does_not_stream(|scene: &mut Scene| drop(scene.report(0).standbys.remove(0)))]
    #[case::one_that_stays_is_behind(|scene: &mut Scene| scene.report(0).standbys[0].flushed = Some(Lsn(0x1FF_FFFF)))]
    #[case::nobody_is_asked(|scene: &mut Scene| (scene.asks, scene.asked) = (false, Vec::new()))]
    fn nobody_goes_before_those_who_stay_have_everything(#[case] change: fn(&mut Scene)) {
        let named = scaled(2, |scene| {
            scene.told = 2;
            change(scene);
        });
        assert_eq!(counts(&named), (3, 3), "those that stay may need to hear from it");
        for told in [2, 3] {
            let scale = scaled(2, |scene| {
                scene.told = told;
                scene.lease.named.remove("orders-2");
                change(scene);
            });
            assert_eq!(counts(&scale), (told, 3));
            assert!(matches!(scale.course, Course::Wait(_)), "{:?}", scale.course);
        }
    }
}
