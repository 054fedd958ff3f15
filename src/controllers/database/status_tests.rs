use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::api::database::agent::{Pause, State as Doing};
use crate::controllers::database::error::Error;
use crate::controllers::database::lease::{Held, Quorum};
use crate::controllers::database::scene::{Scene, pod};
use crate::controllers::database::testing::{at, valid};
use crate::runtime::apply::ApplyError;
use crate::runtime::key::ObjectKey;

pub(super) fn is(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[test]
fn a_database_that_serves_as_asked() {
    insta::assert_yaml_snapshot!(Scene::well().status());
}

#[test]
fn a_database_that_has_lost_its_primary() {
    let lost = Scene::well().known().change(|scene| {
        scene.lease.holder = None;
        scene.pods[0] = pod("orders-0", false, Some("primary"));
        scene.asked[0].answer = Err("Connection refused".into());
        for ordinal in [1, 2] {
            scene.report(ordinal).state = Doing::Detached;
        }
    });
    insta::assert_yaml_snapshot!(lost.status());
}

#[test]
fn the_same_said_twice_is_the_same_status() {
    let known = Scene::well().known();
    assert_eq!(known.database.status, Some(known.status()));
}

#[rstest]
#[case::writes(|_: &mut Scene| {}, "True", "Available")]
#[case::the_last_write_is_old(|scene: &mut Scene| scene.report(0).wrote_ms = Some(10_000), "False", "NoWrites")]
#[case::it_never_wrote(|scene: &mut Scene| scene.report(0).wrote_ms = None, "False", "NoWrites")]
#[case::nobody_holds_the_lease(|scene: &mut Scene| scene.lease.holder = None, "False", "NoPrimary")]
#[case::nobody_ever_did(|scene: &mut Scene| scene.lease = Held::default(), "False", "NoPrimary")]
#[case::another_process_of_that_name(|scene: &mut Scene| scene.report(0).identity = "uid-other".into(), "False", "Promoting")]
#[case::it_promotes(|scene: &mut Scene| scene.report(0).role = Role::None, "False", "Promoting")]
#[case::its_pod_is_gone(|scene: &mut Scene| { scene.pods.remove(0); }, "False", "PrimaryLost")]
#[case::its_pod_does_not_run(|scene: &mut Scene| { scene.asked.remove(0); }, "False", "PrimaryNotRunning")]
#[case::it_is_not_ready(|scene: &mut Scene| {
    scene.asked[0].answer = Err("refused".into());
    scene.pods[0] = pod("orders-0", false, None);
}, "False", "PrimaryNotReady")]
#[case::it_cannot_be_asked(|scene: &mut Scene| scene.asked[0].answer = Err("no route".into()), "Unknown", "InstancesUnreachable")]
#[case::nobody_asks(|scene: &mut Scene| { scene.asked.clear(); scene.asks = false; }, "Unknown", "NotAsked")]
fn it_is_available_only_if_the_primary_says_that_it_has_just_written(
    #[case] change: fn(&mut Scene),
    #[case] status: &str,
    #[case] reason: &str,
) {
    let scene = Scene::well().change(change);
    assert_eq!(scene.is(AVAILABLE), is(status, reason));
    // Ready never says more than Available.
    let ready = scene.is(READY).0;
    assert!(ready == status || ready == "False", "{ready}");
    assert_eq!(scene.status().error.is_none(), ready == "True");
}

/// That one of them starts explains nothing.
#[test]
fn without_a_primary_the_one_that_waits_for_another_is_quoted() {
    let scene = Scene::well().change(|scene: &mut Scene| {
        scene.lease = Held::default();
        let says = [
            (Doing::Starting, "waiting for PostgreSQL to say how far it is"),
            (Doing::Waiting, "waiting for orders-0 to say how far it is"),
            (Doing::Streaming, ""),
        ];
        for (index, (state, message)) in says.into_iter().enumerate() {
            let report = scene.report(index);
            (report.role, report.state) = (Role::None, state);
            report.message = Some(message.to_owned());
        }
    });
    let (_, reason, message) = scene.said(AVAILABLE);
    assert_eq!(reason, "NoPrimary");
    assert!(
        message.ends_with("orders-1: Waiting, waiting for orders-0 to say how far it is"),
        "{message}"
    );
}

fn waits_for(standbys: &[&str]) -> Quorum {
    Quorum {
        standbys: standbys.iter().map(|&name| name.to_owned()).collect(),
        need: 1,
    }
}

#[rstest]
#[case::they_stream("required", |_: &mut Scene| {}, "True")]
#[case::one_streams("required", |scene: &mut Scene| drop(scene.report(0).standbys.remove(0)), "True")]
#[case::none_streams("required", |scene: &mut Scene| scene.report(0).standbys.clear(), "False")]
#[case::they_catch_up("required", |scene: &mut Scene| {
    scene.report(0).standbys.iter_mut().for_each(|standby| standby.state = "catchup".into());
}, "False")]
#[case::none_ever_did("required", |scene: &mut Scene| {
    scene.report(0).standbys.clear();
    scene.lease.asynchronous = true;
}, "False")]
#[case::by_another_rule_that_may_go_already("required", |scene: &mut Scene| {
    scene.report(0).standbys.remove(0);
    scene.lease.quorums = vec![waits_for(&["orders-1"]), waits_for(&["orders-2"])];
}, "True")]
#[case::not_yet("preferred", |scene: &mut Scene| scene.report(0).standbys.clear(), "False")]
#[case::no_more("preferred", |scene: &mut Scene| {
    scene.report(0).standbys.clear();
    scene.lease.asynchronous = true;
}, "True")]
#[case::for_nobody("off", |scene: &mut Scene| {
    scene.report(0).standbys.clear();
    scene.lease.quorums.clear();
}, "True")]
fn writes_are_not_taken_while_no_commit_comes_to_an_end(
    #[case] synchronous: &str,
    #[case] change: fn(&mut Scene),
    #[case] status: &str,
) {
    let scene = Scene::of(json!({"synchronous": synchronous})).change(|scene| {
        scene.lease.quorums = vec![waits_for(&["orders-1", "orders-2"])];
        scene.lease.asynchronous = false;
        change(scene);
    });
    let reason = if status == "True" {
        "Available"
    } else {
        "CommitsWait"
    };
    assert_eq!(scene.is(AVAILABLE), is(status, reason));
    if status == "False" {
        let (_, _, message) = scene.said(AVAILABLE);
        assert!(
            message.contains("too few stream of orders-1, orders-2"),
            "{message}"
        );
        assert_ne!(scene.is(READY).0, "True");
    }
}

#[rstest]
#[case::stream(|_: &mut Scene| {}, "True", "Streaming")]
#[case::catches_up(|scene: &mut Scene| scene.report(0).standbys[1].state = "catchup".into(), "False", "ReplicasNotStreaming")]
#[case::does_not_follow(|scene: &mut Scene| { scene.report(0).standbys.pop(); }, "False", "ReplicasNotStreaming")]
#[case::has_no_pod(|scene: &mut Scene| { scene.pods.pop(); scene.asked.pop(); }, "False", "ReplicasNotStreaming")]
#[case::a_stranger_streams(|scene: &mut Scene| scene.report(0).standbys[1].name = "backup".into(), "False", "ReplicasNotStreaming")]
#[case::no_primary(|scene: &mut Scene| scene.lease.holder = None, "False", "NoPrimary")]
#[case::not_known(|scene: &mut Scene| scene.asked[0].answer = Err("no route".into()), "Unknown", "InstancesUnreachable")]
fn replication_is_healthy_only_if_every_replica_streams(
    #[case] change: fn(&mut Scene),
    #[case] status: &str,
    #[case] reason: &str,
) {
    let scene = Scene::well().change(change);
    assert_eq!(scene.is(REPLICATION_HEALTHY), is(status, reason));
    assert!(status == "True" || scene.is(READY).0 != "True");
}

#[test]
fn a_single_instance_needs_no_replica() {
    let single = Scene::well().change(|scene| {
        scene.database = Scene::of(json!({"size": "small", "paused": true})).database;
        scene.there = 1;
        scene.pods.truncate(1);
        scene.asked.truncate(1);
        scene.report(0).standbys.clear();
    });
    assert_eq!(single.is(REPLICATION_HEALTHY), is("True", "NoReplicas"));
    assert_eq!(single.is(READY), is("True", "Paused"));
}

/// Nothing is wrong with a database that nobody is to change.
#[rstest]
#[case::fewer(2)]
#[case::more(5)]
fn a_paused_database_is_as_well_as_what_there_is_whatever_its_spec_asks_for(#[case] asked: i32) {
    let paused = Scene::of(json!({"instances": asked, "paused": true}));
    assert_eq!(paused.is(REPLICATION_HEALTHY), is("True", "Streaming"));
    assert_eq!(paused.is(READY), is("True", "Paused"));
    assert_eq!(paused.is(DEGRADED), is("False", "AsExpected"));
    assert_eq!(paused.status().instances.len(), 3);
    let never_made = paused.change(|scene| scene.there = 0);
    assert_eq!(never_made.is(REPLICATION_HEALTHY), is("Unknown", "Waiting"));
}

/// The next one may be done; a second one in a row is told.
#[test]
fn one_write_that_the_api_server_could_not_do_takes_nothing_from_a_database_that_serves() {
    let fails = |scene: &mut Scene| {
        let source = kube::Error::Service("no answer".into());
        scene.failure = Some(Error::Apply(ApplyError::Api {
            kind: "Secret".into(),
            key: ObjectKey::namespaced("shop", "orders"),
            source: Box::new(source),
        }));
    };
    let mut scene = Scene::well().known().change(fails);
    assert_eq!(scene.is(CONFIGURATION_APPLIED), is("False", "Blocked"));
    assert_eq!(scene.is(READY).0, "True");
    scene.database.status = Some(scene.status());
    assert_eq!(scene.is(READY), is("False", "Blocked"));
}

fn nothing_yet(scene: &mut Scene) {
    scene.pods.clear();
    scene.asked.clear();
    scene.lease = Held::default();
}

fn a_replica_joins(scene: &mut Scene) {
    scene.report(0).standbys.pop();
    scene.report(2).state = Doing::Joining;
}

fn a_new_one_joins(scene: &mut Scene) {
    a_replica_joins(scene);
    scene.lease.named.remove("orders-2");
}

fn a_new_one_joins_and_another_is_away(scene: &mut Scene) {
    a_new_one_joins(scene);
    scene.report(0).standbys.clear();
}

fn the_primary_is_lost(scene: &mut Scene) {
    scene.lease.holder = None;
    scene.pods.remove(0);
    scene.asked.remove(0);
}

#[rstest]
#[case::new(false, json!({}), nothing_yet, "Creating", "False")]
#[case::joins_at_first(false, json!({}), a_replica_joins, "Creating", "False")]
#[case::well(false, json!({}), |_: &mut Scene| {}, "Running", "False")]
#[case::joins_again(true, json!({}), a_replica_joins, "Updating", "True")]
#[case::grows(true, json!({}), a_new_one_joins, "Updating", "False")]
#[case::grows_and_lacks_another(true, json!({}), a_new_one_joins_and_another_is_away, "Updating", "True")]
#[case::lost(true, json!({}), the_primary_is_lost, "Degraded", "True")]
#[case::all_is_lost(true, json!({}), nothing_yet, "Degraded", "True")]
#[case::paused(true, json!({"paused": true}), |_: &mut Scene| {}, "Paused", "False")]
#[case::invalid_from_the_beginning(false, json!({"version": "9"}), nothing_yet, "Failed", "False")]
#[case::invalid_and_serving(true, json!({"version": "9"}), |_: &mut Scene| {}, "Blocked", "False")]
#[case::failed(true, json!({}), |scene: &mut Scene| {
    scene.lease.holder = None;
    (0..3).for_each(|ordinal| scene.report(ordinal).state = Doing::Failed);
}, "Failed", "True")]
fn the_phase_says_what_goes_on(
    #[case] known: bool,
    #[case] spec: Value,
    #[case] change: fn(&mut Scene),
    #[case] phase: &str,
    #[case] degraded: &str,
) {
    let scene = Scene::of(spec).change(change);
    let scene = if known { scene.known() } else { scene };
    assert_eq!(scene.status().phase.as_deref(), Some(phase));
    assert_eq!(scene.is(DEGRADED).0, degraded);
}

/// Its data may be there already, and its phase is another one meanwhile.
#[rstest]
#[case::paused(json!({"paused": true}), "Paused")]
#[case::invalid(json!({"version": "9"}), "Failed")]
fn a_database_that_was_stopped_on_its_way_has_not_served(#[case] spec: Value, #[case] phase: &str) {
    let mut scene = Scene::well().change(|scene| scene.lease.holder = None);
    for spec in [spec, json!({})] {
        let status = scene.status();
        assert_eq!(status.system_identifier.as_deref(), Some("7"));
        scene.database = Scene::of(spec).database;
        scene.database.status = Some(status);
    }
    let stopped = scene.database.status.clone();
    assert_eq!(stopped.unwrap().phase.as_deref(), Some(phase));
    assert_eq!(scene.is(DEGRADED), is("False", "Creating"));
    assert_eq!(scene.status().phase.as_deref(), Some("Creating"));
}

#[test]
fn the_systems_identifier_stays_once_it_is_known() {
    let forgotten = Scene::well().known().change(nothing_yet);
    assert_eq!(forgotten.status().system_identifier.as_deref(), Some("7"));
    let other = Scene::well()
        .known()
        .change(|scene| scene.lease.system_identifier = Some("8".into()));
    assert_eq!(other.status().system_identifier.as_deref(), Some("7"));
}

#[rstest]
#[case::none(0x300_0000, Some(0))]
#[case::little(0x2F8_0000, Some(0))]
#[case::some(0x200_0001, Some(1 << 24))]
#[case::much(0, Some(1 << 26))]
fn the_lag_of_a_replica_is_coarse_so_that_it_is_seldom_written(
    #[case] replayed: u64,
    #[case] lag: Option<i64>,
) {
    let scene = Scene::well().change(|scene| scene.report(1).replayed = Some(Lsn(replayed)));
    let instances = scene.status().instances;
    assert_eq!((instances[0].lag, instances[1].lag), (None, lag));
}

#[rstest]
#[case::some(0x300_0158, Some("0/3000158"))]
#[case::nobody_knows_how_much(0x300_0000, None)]
fn what_a_primary_goes_on_without_is_told_for_good(#[case] written: u64, #[case] to: Option<&str>) {
    let missing = Some(Missing {
        from: Lsn(0x300_0000),
        to: Lsn(written),
        since: 3,
    });
    let nobody = Scene::well().known().change(|scene| {
        scene.lease.missing = missing;
        scene.lease.holder = None;
    });
    assert_eq!(nobody.status().last_loss, None, "nobody goes on without it yet");
    let told = Scene::well()
        .known()
        .change(|scene| scene.lease.missing = missing);
    let loss = Loss {
        timeline: 3,
        from: "0/3000000".to_owned(),
        to: to.map(str::to_owned),
        measured: false,
    };
    assert_eq!(told.status().last_loss.as_ref(), Some(&loss));
    let forgotten = Scene::well().change(|scene| scene.database.status = Some(told.status()));
    assert_eq!(forgotten.status().last_loss, Some(loss), "its Lease was deleted");
}

#[rstest]
#[case::of_this(3, 0x300_0200, true)]
#[case::nothing_is_lost(3, 0x300_0158, true)]
#[case::of_another(2, 0x300_0200, false)]
#[case::its_volume_is_an_older_one(3, 0x300_0100, false)]
fn where_a_lost_log_ended_is_told_for_good_once_its_writer_is_back(
    #[case] since: u32,
    #[case] end: u64,
    #[case] measured: bool,
) {
    let lacks = |scene: &mut Scene| {
        scene.lease.missing = Some(Missing {
            from: Lsn(0x300_0000),
            to: Lsn(0x300_0158),
            since: 3,
        });
    };
    let back = Scene::well().known().change(lacks).change(|scene| {
        scene.report(0).wrote_up_to = Some((3, Lsn(0x300_0100)));
        scene.report(1).wrote_up_to = Some((since, Lsn(end)));
    });
    let loss = back.status().last_loss.unwrap();
    let to = if measured { Lsn(end) } else { Lsn(0x300_0158) };
    assert_eq!((loss.measured, loss.to), (measured, Some(to.to_string())));
    let later = Scene::well().known().change(lacks).change(|scene| {
        scene.database.status = Some(back.status());
    });
    assert_eq!(later.status().last_loss, back.status().last_loss);
}

fn pause(milliseconds: u64, ended: i64) -> Pause {
    let ended = at(ended);
    Pause { milliseconds, ended }
}

#[test]
fn of_the_pauses_of_one_change_the_longest_is_told_and_the_next_change_has_its_own() {
    let mut scene = Scene::well().known();
    let mut told = |milliseconds, ended, since, is_under_way| {
        let status = scene.database.status.as_mut().unwrap();
        let mut conditions = status.conditions.iter_mut();
        let progressing = conditions
            .find(|condition| condition.type_ == PROGRESSING)
            .unwrap();
        progressing.status = if is_under_way { "True" } else { "False" }.to_owned();
        progressing.last_transition_time = Time(at(since));
        scene.report(0).pause = Some(pause(milliseconds, ended));
        let pause = scene.status().last_write_pause;
        scene
            .database
            .status
            .as_mut()
            .unwrap()
            .last_write_pause
            .clone_from(&pause);
        pause.unwrap().milliseconds
    };
    assert_eq!(told(900, 10, 5, true), 900);
    assert_eq!(told(1500, 20, 5, true), 1500);
    assert_eq!(told(700, 30, 5, true), 1500, "a shorter one of the same change");
    assert_eq!(told(700, 30, 40, false), 1500, "it is over");
    assert_eq!(told(700, 30, 50, true), 1500, "another has begun");
    assert_eq!(told(300, 55, 50, true), 300, "and has a pause of its own");
    assert_eq!(told(300, 55, 60, false), 300);
    assert_eq!(told(200, 70, 60, false), 200, "nobody noticed that it began");
}

#[test]
fn a_handover_is_under_way_from_the_end_of_one_primary_until_there_is_another() {
    let mut scene = Scene::well().known();
    let said = |scene: &Scene| {
        let (status, reason, message) = scene.said(PROGRESSING);
        assert_eq!((status.as_str(), reason.as_str()), ("True", "Promoting"));
        message
    };
    scene.report(0).state = Doing::Waiting;
    assert_eq!(said(&scene), "orders-0: Waiting", "it still has the Lease");
    (scene.lease.holder, scene.lease.stopped) = (None, Some(at(5)));
    let none = "the primary was stopped in order at 2027-01-15T08:00:05Z, and there is none since";
    assert_eq!(said(&scene), none);
    scene.lease.holder = Some("uid-1".into());
    scene.lease.primary = Some("orders-1".into());
    assert_eq!(said(&scene), none, "the next one does not say yet that it is");
    scene.lease.stopped = None;
    assert_eq!(scene.said(PROGRESSING).0, "False");
}

#[rstest]
#[case::initialising(Doing::Initialising, "Initialising")]
#[case::joining(Doing::Joining, "Joining")]
#[case::rewinding(Doing::Rewinding, "Rewinding")]
#[case::starting(Doing::Starting, "Starting")]
#[case::promoting(Doing::Promoting, "Promoting")]
#[case::stopping(Doing::Stopping, "Stopping")]
fn what_an_instance_is_on_its_way_with_is_called_by_its_name(#[case] state: Doing, #[case] reason: &str) {
    let scene = Scene::well().change(|scene| scene.report(2).state = state);
    assert_eq!(scene.is(PROGRESSING), is("True", reason));
}

/// What the next primary lacks is told when its timeline is new.
#[test]
fn a_timeline_that_nobody_leads_is_not_known_yet() {
    let mut scene = Scene::well();
    (scene.lease.timeline, scene.lease.holder) = (Some(3), None);
    scene.database.status.get_or_insert_default().timeline = Some(2);
    assert_eq!(scene.status().timeline, Some(2));
    scene.lease.holder = Some("uid-1".into());
    assert_eq!(scene.status().timeline, Some(3));
}

#[test]
fn an_instance_manager_of_another_version_is_named_and_nothing_is_done_about_it() {
    let scene = Scene::well().change(|scene| {
        scene.report(0).manager = env!("CARGO_PKG_VERSION").into();
        scene.report(2).manager = "0.0.1".into();
    });
    let (status, reason, message) = scene.said(CONFIGURATION_APPLIED);
    assert_eq!((status.as_str(), reason.as_str()), ("True", "Applied"));
    let expected = concat!(
        "all instances go by the present settings; orders-2 runs instance manager 0.0.1; ",
        env!("CARGO_PKG_VERSION"),
        " is installed when its pod is next recreated"
    );
    assert_eq!(message, expected);
    assert!(scene.decided().pending.is_empty());
    let two = scene.change(|scene| scene.report(1).manager = "0.0.2".into());
    let (_, _, message) = two.said(CONFIGURATION_APPLIED);
    let both = "orders-1 runs instance manager 0.0.2, orders-2 runs instance manager 0.0.1; ";
    assert!(
        message.contains(both) && message.ends_with("their pods are next recreated"),
        "{message}"
    );
}

#[test]
fn an_instance_that_does_not_answer_has_the_role_of_its_label_and_no_state() {
    let scene = Scene::well().change(|scene| scene.asked[1].answer = Err("no route".into()));
    let found = scene.status().instances[1].clone();
    assert_eq!((found.role.as_deref(), found.state), (Some("replica"), None));
}

#[test]
fn while_it_is_deleted_nothing_is_said_to_serve() {
    let known = Scene::well().known();
    let status = deleting(&known.database, &known.pods[..1], at(90));
    assert_eq!((status.phase.as_deref(), status.replicas), (Some(DELETING), 1));
    assert_eq!(status.system_identifier.as_deref(), Some("7"));
    let _ = valid(&known.database);
    assert!(!is_ready_in(&status) && is_ready_in(&known.status()));
}
