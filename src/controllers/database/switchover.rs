//! Another primary, as somebody asks for one by an annotation. Pure.

use kube::ResourceExt;

use super::announce::Announcement;
use super::desired::names;
use super::handover::{self, NEAR};
use super::live::Live;
use super::step::Step;
use crate::api::database::SWITCH_OVER_TO;
use crate::api::database::v1::Database;
use crate::runtime::events::EventType;

/// What is made of such a wish.
#[derive(Clone, Debug, PartialEq)]
pub enum Wish {
    /// That instance is the primary.
    Granted,
    /// This is to be done for it.
    Take(Step),
    /// It cannot be; why, for people.
    Refused(String),
}

/// The wish of whoever wrote the annotation, for one of as many instances as there are to be; none if there is none.
pub fn wish(database: &Database, instances: i32, live: &Live<'_>) -> Option<Wish> {
    let to = database.annotations().get(SWITCH_OVER_TO)?;
    let refused = |why: String| Some(Wish::Refused(format!("{SWITCH_OVER_TO} is \"{to}\": {why}")));
    let (Some(leader), Some(primary)) = (live.lease.leader(), live.primary()) else {
        return refused("no instance is the primary at present".to_owned());
    };
    if leader == to {
        return Some(Wish::Granted);
    }
    let stays = |name: &str| names::ordinal(name).is_none_or(|ordinal| ordinal < instances);
    if !primary.streams_to(to) || !stays(to) {
        let able = live
            .names()
            .filter(|name| primary.streams_to(name) && stays(name));
        let able: Vec<String> = able.collect();
        let accepted = if able.is_empty() {
            "a replica that streams, and none does at present".to_owned()
        } else {
            format!("a replica that streams: {}", able.join(" or "))
        };
        return refused(format!("it must be {accepted}"));
    }
    let mut standbys = primary.standbys.iter().filter(|standby| standby.name == *to);
    let far = standbys.find(|standby| !handover::is_near(primary, standby));
    let far = far.map(|standby| (to.as_str(), handover::behind(primary, standby)));
    let far = far.or_else(|| handover::straggler(primary).map(|(name, behind)| (name, Some(behind))));
    if let Some((name, behind)) = far {
        let behind = behind.map_or_else(|| "an unknown number of".to_owned(), |behind| behind.to_string());
        return refused(format!(
            "{name} is {behind} bytes of WAL behind, and the primary would wait for it; try again when it is at most {NEAR} behind"
        ));
    }
    Some(Wish::Take(Step::HandOver {
        from: leader.to_owned(),
        to: to.clone(),
        why: "somebody asks for it".to_owned(),
    }))
}

/// What is told of a wish, and of what came of carrying it out.
pub fn answered(wish: Wish, outcome: Option<Result<Announcement, String>>) -> Option<Announcement> {
    let refusal = match (wish, outcome) {
        (Wish::Refused(reason), _) | (_, Some(Err(reason))) => reason,
        (_, Some(Ok(announcement))) => return Some(announcement),
        (_, None) => return None,
    };
    Some(Announcement {
        type_: EventType::Warning,
        reason: "SwitchoverRefused".to_owned(),
        action: "HandOver",
        note: refusal,
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::api::database::agent::Lsn;
    use crate::controllers::database::scene::Scene;
    use crate::controllers::database::testing::valid;

    fn wished(to: &str, change: fn(&mut Scene)) -> Option<Wish> {
        let scene = Scene::well().change(change).change(|scene| {
            let annotations = scene.database.annotations_mut();
            annotations.insert(SWITCH_OVER_TO.to_owned(), to.to_owned());
        });
        seen(&scene)
    }

    fn seen(scene: &Scene) -> Option<Wish> {
        let instances = valid(&scene.database).instances;
        scene.see(|live| wish(&scene.database, instances, live))
    }

    #[test]
    fn nobody_wishes_nothing_happens() {
        assert_eq!(seen(&Scene::well()), None);
    }

    #[test]
    fn a_replica_that_streams_takes_over_and_the_primary_is_it_already() {
        let Some(Wish::Take(Step::HandOver { from, to, .. })) = wished("orders-2", |_| {}) else {
            panic!("orders-2 streams");
        };
        assert_eq!((from.as_str(), to.as_str()), ("orders-0", "orders-2"));
        assert_eq!(wished("orders-0", |_| {}), Some(Wish::Granted));
    }

    #[rstest]
    #[case::nobody("orders-9", |_: &mut Scene| {}, "it must be a replica that streams: orders-1 or orders-2")]
    #[case::behind("orders-2", |scene: &mut Scene| drop(scene.report(0).standbys.pop()), "streams: orders-1")]
    #[case::all_behind("orders-2", |scene: &mut Scene| scene.report(0).standbys.clear(), "none does at present")]
    #[case::leaving("orders-2", |scene: &mut Scene| scene.database.spec.instances = Some(2), "streams: orders-1")]
    #[case::far("orders-2", |scene: &mut Scene| scene.report(0).standbys[1].flushed = Some(Lsn(0)),
        "orders-2 is 50331648 bytes of WAL behind, and the primary would wait for it; try again when it is at most 16777216 behind")]
    #[case::another_is_far("orders-2", |scene: &mut Scene| scene.report(0).standbys[0].flushed = Some(Lsn(0)), "orders-1 is 50331648 bytes")]
    #[case::nobody_knows_how_far("orders-2", |scene: &mut Scene| scene.report(0).standbys[1].flushed = None, "an unknown number of bytes")]
    #[case::no_primary("orders-2", |scene: &mut Scene| scene.lease.holder = None, "no instance is the primary")]
    fn a_wish_that_cannot_be_is_refused_with_what_could(
        #[case] to: &str,
        #[case] change: fn(&mut Scene),
        #[case] told: &str,
    ) {
        let Some(Wish::Refused(reason)) = wished(to, change) else {
            panic!("{to} cannot take over");
        };
        assert!(reason.contains(told) && reason.contains(to), "{reason}");
    }
}
