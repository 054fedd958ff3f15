use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::api::database::agent::{Lsn, Role};
use crate::controllers::database::scene::{Scene, pod, standby};
use crate::controllers::database::testing::at;

const OTHER_POD: &str = r#"{"resources": {"limits": {"memory": "4Gi"}}}"#;

fn outdated() -> Scene {
    Scene::of(serde_json::from_str(OTHER_POD).unwrap())
}

/// What is next, in a word and by the instance that it is done to.
fn next(scene: &Scene) -> (&'static str, String) {
    match scene.decided().course {
        Course::Done => ("done", String::new()),
        Course::Wait(what) => ("wait", what),
        Course::Take(Step::Replace { pod, .. }) => ("replace", pod.name_any()),
        Course::Take(Step::HandOver { from, to, .. }) => ("hand over", format!("{from} {to}")),
        Course::Take(Step::Restart { instance, .. }) => ("restart", instance),
        Course::Retry { .. } => panic!("nobody has tried yet"),
    }
}

fn is(what: &'static str, whom: &str) -> (&'static str, String) {
    (what, whom.to_owned())
}

#[test]
fn where_all_is_as_it_should_be_nothing_is_done() {
    assert_eq!(next(&Scene::well()), is("done", ""));
    assert!(Scene::well().decided().pending.is_empty());
}

#[test]
fn replicas_are_made_anew_one_by_one_then_another_takes_over_and_the_last_one_follows() {
    let mut scene = outdated();
    assert_eq!(scene.decided().pending.len(), 3);
    assert_eq!(next(&scene), is("replace", "orders-2"));
    scene.anew(2);
    assert_eq!(next(&scene), is("replace", "orders-1"));
    scene.anew(1);
    assert_eq!(next(&scene), is("hand over", "orders-0 orders-1"));
    scene.anew(0);
    assert_eq!(next(&scene), is("done", ""));
}

#[rstest]
#[case::a_pod_is_missing(|scene: &mut Scene| drop(scene.pods.pop()))]
#[case::a_replica_is_not_ready(|scene: &mut Scene| { scene.pods[1] = pod("orders-1", false, None); scene.anew(1) })]
#[case::a_replica_is_behind(|scene: &mut Scene| drop(scene.report(0).standbys.pop()))]
#[case::no_writes(|scene: &mut Scene| scene.report(0).wrote_ms = None)]
#[case::no_primary(|scene: &mut Scene| scene.lease.holder = None)]
#[case::one_goes_by_other_settings(|scene: &mut Scene| scene.report(2).settings = None)]
#[case::one_does_not_answer(|scene: &mut Scene| scene.asked[2].answer = Err("no route".into()))]
#[case::one_is_busy(|scene: &mut Scene| scene.report(2).state = Doing::Stopping)]
#[case::one_is_going(|scene: &mut Scene| {
    let mut pod = (*scene.pods[2]).clone();
    pod.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(50)));
    scene.pods[2] = Arc::new(pod);
})]
fn nobody_is_stopped_while_not_all_are_well(#[case] change: fn(&mut Scene)) {
    let scene = outdated().change(change);
    assert_eq!(next(&scene).0, "wait", "{:?}", next(&scene));
}

#[rstest]
#[case::it_is_not_ready(2, "orders-2")]
#[case::nor_is_the_next(1, "orders-1")]
fn a_replica_that_serves_nothing_is_made_anew_whatever_the_others_do(
    #[case] ordinal: usize,
    #[case] replaced: &str,
) {
    let scene = outdated().change(|scene| {
        scene.pods[ordinal] = pod(replaced, false, None);
        scene.asked[ordinal].answer = Err("no route".into());
        scene.lease.holder = None;
    });
    assert_eq!(next(&scene), is("replace", replaced));
}

/// One lost answer, or a busy node, must not cost the only instance that could take over, or hours of a copy.
#[rstest]
#[case::nobody_leads(|scene: &mut Scene| scene.lease.holder = None)]
#[case::somebody_leads(|_: &mut Scene| ())]
fn a_replica_that_was_silent_once_is_not_made_anew_before_it_is_known_to_be_lost(
    #[case] change: fn(&mut Scene),
) {
    let silent_for = |seconds, state: Value| {
        outdated().change(|scene| {
            let mut pod = (*pod("orders-1", false, None)).clone();
            pod.status.as_mut().unwrap().container_statuses = serde_json::from_value(json!([{
                "name": "postgres", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state,
            }]))
            .unwrap();
            scene.pods[1] = Arc::new(pod);
            scene.asked[1].answer = Err("no answer in time".into());
            scene.asked[1].silent = Duration::from_secs(seconds);
            change(scene);
        })
    };
    let running = json!({"running": {"startedAt": "2030-01-01T00:00:00Z"}});
    let (just_now, for_long) = (silent_for(59, running.clone()), silent_for(60, running));
    assert_eq!(next(&just_now).0, "wait", "{:?}", next(&just_now));
    assert_eq!(next(&for_long), is("replace", "orders-1"));
    let ended = silent_for(0, json!({"terminated": {"exitCode": 1}}));
    assert_eq!(next(&ended), is("replace", "orders-1"));
}

#[rstest]
#[case::it_follows_nobody(|report: &mut Report| report.state = Doing::Detached)]
#[case::it_becomes_the_primary(|report: &mut Report| (report.role, report.state) = (Role::None, Doing::Promoting))]
fn a_replica_that_may_take_over_stays_while_there_is_no_primary(#[case] change: fn(&mut Report)) {
    let mut scene = outdated().change(|scene| {
        scene.pods[1] = pod("orders-1", false, None);
        change(scene.report(1));
    });
    assert_eq!(next(&scene), is("replace", "orders-1"), "somebody else leads");
    scene.asked[0].answer = Err("no route".into());
    assert_eq!(next(&scene).0, "wait", "{:?}", next(&scene));
}

/// The probes of a busy node fail, and whoever gives its pods more of it has changed them.
#[test]
fn of_replicas_that_stream_one_stays_though_its_pod_is_not_ready() {
    let mut scene = outdated().change(|scene| {
        for ordinal in [1, 2] {
            scene.pods[ordinal] = pod(&format!("orders-{ordinal}"), false, None);
        }
    });
    assert_eq!(next(&scene), is("replace", "orders-1"));
    scene.report(0).standbys.remove(0);
    scene.anew(1);
    assert_eq!(next(&scene).0, "wait", "{:?}", next(&scene));
}

/// Otherwise the next one would have to hand over as well, when it goes.
#[test]
fn where_instances_are_to_be_fewer_one_that_stays_takes_over() {
    let mut scene = Scene::of(json!({"instances": 2, "resources": {"limits": {"memory": "4Gi"}}}));
    scene.report(0).standbys[0].flushed = Some(Lsn(0x280_0000));
    scene.anew(1);
    assert_eq!(next(&scene), is("hand over", "orders-0 orders-1"));
}

#[test]
fn a_container_that_is_held_back_after_it_was_killed_gets_another_pod_and_not_at_once() {
    let held_back = |created: i64| {
        Scene::well().change(|scene| {
            let mut pod = (*scene.pods[1]).clone();
            let status = json!({"containerStatuses": [{
                "name": "postgres", "image": "", "imageID": "", "ready": false, "restartCount": 5,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": 137}},
            }]});
            pod.status = serde_json::from_value(status).unwrap();
            pod.metadata.creation_timestamp =
                Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(created)));
            scene.pods[1] = Arc::new(pod);
        })
    };
    assert_eq!(next(&held_back(0)), is("replace", "orders-1"));
    assert_eq!(next(&held_back(30)), is("done", ""));
}

#[rstest]
#[case::it_copies(Doing::Joining, "wait")]
#[case::it_goes_back(Doing::Rewinding, "wait")]
#[case::it_waits(Doing::Waiting, "replace")]
fn a_replica_that_joins_is_let_finish_and_gets_its_other_pod_then(
    #[case] state: Doing,
    #[case] expected: &'static str,
) {
    let scene = outdated().change(|scene| {
        scene.pods[2] = pod("orders-2", false, None);
        scene.report(0).standbys.pop();
        (scene.report(2).role, scene.report(2).state) = (Role::None, state);
    });
    assert_eq!(next(&scene).0, expected, "{:?}", next(&scene));
}

fn pends(scene: &mut Scene, ordinals: &[usize]) {
    for ordinal in ordinals {
        scene.report(*ordinal).pending_restart = vec!["max_connections".into()];
    }
}

#[test]
fn settings_that_wait_for_a_restart_get_one_replicas_first_and_the_primary_hands_over() {
    let mut scene = Scene::well().change(|scene| pends(scene, &[0, 1, 2]));
    assert_eq!(next(&scene), is("restart", "orders-2"));
    scene.report(2).pending_restart.clear();
    assert_eq!(next(&scene), is("restart", "orders-1"));
    scene.report(1).pending_restart.clear();
    assert_eq!(next(&scene), is("hand over", "orders-0 orders-1"));
}

#[test]
fn what_replicas_need_as_much_of_is_lowered_on_the_primary_first() {
    let mut scene = Scene::well().change(|scene| {
        pends(scene, &[0, 1, 2]);
        scene.report(0).lowered = true;
    });
    assert_eq!(next(&scene), is("restart", "orders-0"));
    scene.report(0).pending_restart.clear();
    scene.report(0).lowered = false;
    assert_eq!(next(&scene), is("restart", "orders-2"));
}

#[test]
fn it_is_lowered_first_on_a_primary_that_gets_another_pod_too() {
    let mut scene = outdated().change(|scene| {
        pends(scene, &[0, 1, 2]);
        scene.report(0).lowered = true;
        scene.anew(1);
        scene.anew(2);
    });
    assert_eq!(next(&scene), is("restart", "orders-0"));
    scene.report(0).pending_restart.clear();
    scene.report(0).lowered = false;
    assert_eq!(next(&scene), is("restart", "orders-2"));
}

fn with(instances: usize, spec: Value) -> Scene {
    let mut whole = json!({"instances": instances});
    whole
        .as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    Scene::of(whole).change(|scene| {
        scene.pods.truncate(instances);
        scene.asked.truncate(instances);
        scene.report(0).standbys.truncate(instances - 1);
        let count = i32::try_from(instances).unwrap();
        (scene.there, scene.told) = (count, count);
    })
}

#[test]
fn a_single_instance_has_nobody_to_hand_over_to() {
    let other: Value = serde_json::from_str(OTHER_POD).unwrap();
    assert_eq!(next(&with(1, other)), is("replace", "orders-0"));
    let pending = with(1, json!({})).change(|scene| pends(scene, &[0]));
    assert_eq!(next(&pending), is("restart", "orders-0"));
}

#[test]
fn commits_stop_waiting_for_the_only_replica_before_it_is_stopped() {
    let other: Value = serde_json::from_str(OTHER_POD).unwrap();
    let mut scene = with(2, other.clone());
    scene.report(0).standbys[0].synchronous = true;
    let decided = scene.decided();
    assert_eq!(decided.excused, ["orders-1".to_owned()].into());
    assert!(matches!(decided.course, Course::Wait(_)));

    assert_eq!(decided.excused_until, Some(at(120)));

    // The settings say so now, and not all instances go by them yet.
    scene.excused = decided.excused.clone();
    assert_eq!(scene.decided().excused_until, Some(at(90)), "as they say");
    scene.report(0).settings = None;
    assert_eq!(
        (scene.decided().excused, next(&scene).0),
        (decided.excused.clone(), "wait")
    );
    // What holds a rollout up may never end, and the replica streams all the while.
    let later = scene.decided_at(91);
    assert_eq!((later.excused, later.excused_until), (BTreeSet::new(), None));

    scene.report(0).settings = Some("hash".into());
    scene.report(0).standbys[0].synchronous = false;
    assert_eq!(next(&scene), is("replace", "orders-1"));

    scene.anew(1);
    assert!(scene.decided().excused.is_empty());
}

#[test]
fn where_every_commit_must_wait_nobody_is_excused() {
    let scene = with(
        2,
        json!({"synchronous": "required", "resources": {"limits": {"memory": "4Gi"}}}),
    );
    assert!(scene.decided().excused.is_empty());
    assert_eq!(next(&scene), is("replace", "orders-1"));
}

#[test]
fn whoever_commits_wait_for_takes_over() {
    let scene = Scene::well().change(|scene| {
        pends(scene, &[0]);
        scene.report(0).standbys = vec![standby("orders-1", "streaming"), standby("orders-2", "streaming")];
        scene.report(0).standbys[1].synchronous = true;
    });
    assert_eq!(next(&scene), is("hand over", "orders-0 orders-2"));
}

#[test]
fn the_primary_is_not_stopped_while_it_would_wait_for_a_replica_that_is_far_behind() {
    let mut scene = Scene::well().change(|scene| {
        pends(scene, &[0]);
        scene.report(0).standbys[1].flushed = Some(Lsn(0));
    });
    let (what, why) = next(&scene);
    assert_eq!(what, "wait");
    assert!(why.starts_with("orders-2 to be at most 16777216 bytes"), "{why}");
    scene.report(0).lowered = true;
    assert_eq!(next(&scene).0, "wait");

    scene.report(0).standbys[1].flushed = Some(Lsn(0x300_0000));
    assert_eq!(next(&scene), is("restart", "orders-0"));
    scene.report(0).lowered = false;
    scene.report(0).standbys[0].flushed = Some(Lsn(0x280_0000));
    assert_eq!(next(&scene), is("hand over", "orders-0 orders-2"), "it has more");
}

#[test]
fn fewer_instances_wait_until_it_is_known_what_is_to_be_rolled_out() {
    let counts = |scene: &Scene| {
        let decided = scene.decided();
        (decided.members, decided.replicas)
    };
    let mut scene = Scene::of(json!({"size": "small"}));
    scene.is_new = true;
    assert_eq!(counts(&scene), (3, 3), "the StatefulSet is as it was");
    let behind = Scene::of(json!({"instances": 1})).change(|scene| scene.report(0).settings = None);
    assert_eq!(counts(&behind), (3, 3), "orders-0 has not taken the settings");
    assert_eq!(next(&behind).0, "wait");
    // An instance that goes, and is of no use, holds nothing up.
    let lost =
        Scene::of(json!({"instances": 2})).change(|scene| scene.asked[2].answer = Err("no route".into()));
    assert_eq!(counts(&lost), (2, 3));
}

#[test]
fn on_the_way_to_a_single_instance_it_is_brought_up_to_date_while_others_can_stand_in() {
    let mut scene = Scene::of(json!({"size": "small"}));
    assert_eq!(next(&scene), is("hand over", "orders-0 orders-1"));
    let decided = scene.decided();
    assert_eq!((decided.members, decided.replicas), (3, 3));

    // orders-1 leads now.
    let (first, second) = (scene.report(0).clone(), scene.report(1).clone());
    *scene.report(1) = Report {
        standbys: vec![standby("orders-0", "streaming"), standby("orders-2", "streaming")],
        identity: "uid-1".into(),
        ..first
    };
    *scene.report(0) = second;
    (scene.lease.primary, scene.lease.holder) = (Some("orders-1".into()), Some("uid-1".into()));
    assert_eq!(scene.report(1).role, Role::Primary);
    assert_eq!(next(&scene), is("replace", "orders-0"));
    scene.anew(0);
    assert_eq!(next(&scene), is("hand over", "orders-1 orders-0"));
}
