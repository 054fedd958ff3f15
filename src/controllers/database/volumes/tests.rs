use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rstest::rstest;
use serde_json::{Value, json};

use super::growth::{Refusal, is_refusal};
use super::step::{Step, step};
use super::*;
use crate::controllers::database::decide::decide;
use crate::controllers::database::desired::Decided;
use crate::controllers::database::live::Ground;
use crate::controllers::database::step::Course;
use crate::controllers::database::testing::{at, children, database, valid};
use crate::runtime::apply::ApplyError;
use crate::runtime::key::ObjectKey;

/// A claim of `orders`: what it asks for, and what it has; none has no volume.
fn claim(ordinal: i32, asks: &str, has: Option<&str>) -> PersistentVolumeClaim {
    let status = has.map(|has| json!({"phase": "Bound", "capacity": {"storage": has}}));
    let claim = json!({
        "metadata": {"name": format!("data-orders-{ordinal}"), "namespace": "shop", "uid": ordinal.to_string()},
        "spec": {"resources": {"requests": {"storage": asks}}},
        "status": status.unwrap_or_else(|| json!({"phase": "Pending"})),
    });
    serde_json::from_value(claim).unwrap()
}

fn with_condition(mut claim: PersistentVolumeClaim, type_: &str, message: &str) -> PersistentVolumeClaim {
    let conditions = json!([{"type": type_, "status": "True", "message": message}]);
    claim.status.as_mut().unwrap().conditions = serde_json::from_value(conditions).unwrap();
    claim
}

fn pod(ordinal: i32) -> Pod {
    let pod = json!({
        "metadata": {
            "name": format!("orders-{ordinal}"), "labels": {POD_NAME: format!("orders-{ordinal}")},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "orders", "uid": "set", "controller": true}],
        },
        "status": {"phase": "Running"},
    });
    serde_json::from_value(pod).unwrap()
}

/// Two instances with volumes of 1Gi, and what the spec says now.
struct Scene {
    database: Database,
    observed: Observed,
    course: Course,
}

impl Scene {
    fn of(size: &str) -> Self {
        let spec = |size: &str| json!({"instances": 2, "storage": {"size": size}});
        let mut observed = children(&database("orders", spec("1Gi")));
        Arc::make_mut(&mut observed.stateful_sets[0]).metadata.uid = Some("set".into());
        observed.pods = (0..2).map(|ordinal| Arc::new(pod(ordinal))).collect();
        let scene = Self {
            database: database("orders", spec(size)),
            observed,
            course: Course::Done,
        };
        scene.claims([claim(0, "1Gi", Some("1Gi")), claim(1, "1Gi", Some("1Gi"))])
    }

    fn claims(mut self, claims: impl IntoIterator<Item = PersistentVolumeClaim>) -> Self {
        self.observed.claims = claims.into_iter().map(Arc::new).collect();
        self
    }

    /// All of them ask for it, and have it.
    fn grown(self, size: &str) -> Self {
        self.claims([claim(0, size, Some(size)), claim(1, size, Some(size))])
    }

    fn rolling_out(self) -> Self {
        Self {
            course: Course::Wait("all replicas to stream".into()),
            ..self
        }
    }

    fn change(mut self, change: impl FnOnce(&mut Observed)) -> Self {
        change(&mut self.observed);
        self
    }

    fn decided(&self) -> Decided {
        let ground = Ground {
            stateful_set: self.observed.stateful_sets.first().cloned(),
            ..Ground::default()
        };
        let live = ground.live(&self.observed.pods, &[], true);
        Decided {
            course: self.course.clone(),
            ..decide(&valid(&self.database), &self.observed, None, &live, false, at(60))
        }
    }

    fn step(&self) -> String {
        let set = self.observed.stateful_sets.first().map(|set| &**set);
        match step(&valid(&self.database), &self.decided(), &self.observed, set) {
            Step::Rest => "rest".to_owned(),
            Step::Renew => "renew".to_owned(),
            Step::Ask(claims) => claims
                .iter()
                .map(|claim| claim.name_any())
                .collect::<Vec<_>>()
                .join(" "),
        }
    }

    fn said(&self, refused: Option<&str>) -> (Option<String>, Option<String>) {
        let (valid, decided) = (valid(&self.database), self.decided());
        let volumes = Volumes {
            claims: claims("orders", &self.observed, decided.replicas),
            refused: refused.map(str::to_owned),
        };
        (
            not_grown(&valid, &decided, &volumes),
            resizing(&valid, &decided, &volumes),
        )
    }
}

fn set(observed: &mut Observed) -> &mut StatefulSet {
    Arc::make_mut(&mut observed.stateful_sets[0])
}

fn going() -> Option<Time> {
    Some(Time(at(0)))
}

#[rstest]
#[case::as_it_is(Scene::of("1Gi"), "rest")]
#[case::as_it_is_in_other_words(Scene::of("1024Mi"), "rest")]
#[case::larger(Scene::of("2Gi"), "data-orders-0 data-orders-1")]
#[case::one_asks_already(Scene::of("2Gi").claims([claim(0, "2Gi", Some("1Gi")), claim(1, "1Gi", Some("1Gi"))]), "data-orders-1")]
#[case::one_is_larger_than_asked_for(Scene::of("2Gi").claims([claim(0, "5Gi", Some("5Gi")), claim(1, "1Gi", Some("1Gi"))]), "data-orders-1")]
#[case::one_has_no_volume_yet(Scene::of("2Gi").claims([claim(0, "1Gi", Some("1Gi")), claim(1, "1Gi", None)]), "data-orders-0")]
#[case::one_has_none_and_the_other_asks(Scene::of("2Gi").claims([claim(0, "2Gi", Some("1Gi")), claim(1, "1Gi", None)]), "rest")]
#[case::one_goes(Scene::of("2Gi").change(|it| Arc::make_mut(&mut it.claims[1]).metadata.deletion_timestamp = going()), "data-orders-0")]
#[case::of_an_earlier_instance(Scene::of("1Gi").change(|it| it.claims.push(Arc::new(claim(2, "512Mi", Some("512Mi"))))), "rest")]
#[case::smaller(Scene::of("512Mi"), "rest")]
#[case::all_ask(Scene::of("2Gi").claims([claim(0, "2Gi", Some("1Gi")), claim(1, "2Gi", Some("1Gi"))]), "renew")]
#[case::all_have(Scene::of("2Gi").grown("2Gi"), "renew")]
#[case::the_template_is_larger(Scene::of("512Mi").grown("2Gi"), "rest")]
#[case::a_claim_is_missing(Scene::of("2Gi").claims([claim(0, "2Gi", Some("2Gi"))]), "rest")]
#[case::a_claim_goes(Scene::of("2Gi").grown("2Gi").change(|it| Arc::make_mut(&mut it.claims[1]).metadata.deletion_timestamp = going()), "rest")]
#[case::a_pod_is_missing(Scene::of("2Gi").grown("2Gi").change(|it| { it.pods.pop(); }), "rest")]
#[case::a_pod_goes(Scene::of("2Gi").grown("2Gi").change(|it| Arc::make_mut(&mut it.pods[1]).metadata.deletion_timestamp = going()), "rest")]
#[case::a_pod_does_not_run(Scene::of("2Gi").grown("2Gi").change(|it| Arc::make_mut(&mut it.pods[1]).status = None), "rest")]
#[case::a_pod_is_of_nobody_yet(Scene::of("2Gi").grown("2Gi").change(|it| Arc::make_mut(&mut it.pods[1]).metadata.owner_references = None), "rest")]
#[case::a_pod_too_many(Scene::of("2Gi").grown("2Gi").change(|it| it.pods.push(Arc::new(pod(2)))), "rest")]
#[case::the_set_scales(Scene::of("2Gi").grown("2Gi").change(|it| set(it).spec.as_mut().unwrap().replicas = Some(1)), "rest")]
#[case::the_set_goes(Scene::of("2Gi").grown("2Gi").change(|it| set(it).metadata.deletion_timestamp = going()), "rest")]
#[case::an_instance_is_about_to_be_made_anew(Scene::of("2Gi").grown("2Gi").rolling_out(), "rest")]
#[case::the_set_is_gone(Scene::of("2Gi").grown("2Gi").change(|it| it.stateful_sets.clear()), "rest")]
fn claims_grow_first_and_the_set_is_made_anew_only_when_nobody_misses_it(
    #[case] scene: Scene,
    #[case] expected: &str,
) {
    assert_eq!(scene.step(), expected);
}

#[test]
fn there_are_as_many_instances_as_before_while_the_set_is_away_whatever_the_spec_says_meanwhile() {
    let mut fewer = Scene::of("2Gi")
        .grown("2Gi")
        .change(|it| it.stateful_sets.clear());
    fewer.database.spec.instances = Some(1);
    let decided = fewer.decided();
    assert_eq!((decided.replicas, decided.volume.size.0.as_str()), (2, "2Gi"));
}

#[rstest]
#[case::none(vec![], 2 << 30)]
#[case::not_yet(vec![claim(0, "2Gi", Some("1Gi")), claim(1, "2Gi", Some("2Gi"))], 1 << 30)]
#[case::larger_than_asked_for(vec![claim(0, "5Gi", Some("5Gi")), claim(1, "5Gi", Some("5Gi"))], 2 << 30)]
#[case::of_an_earlier_instance(vec![claim(7, "1Gi", Some("1Gi"))], 2 << 30)]
fn what_is_kept_of_wal_goes_by_the_smallest_volume_and_by_the_spec_at_most(
    #[case] claims: Vec<PersistentVolumeClaim>,
    #[case] room: u64,
) {
    assert_eq!(Scene::of("2Gi").claims(claims).decided().room, room);
}

#[rstest]
#[case::well(Scene::of("1Gi"), None, None, None)]
#[case::asked_soon(
    Scene::of("2Gi"),
    None,
    None,
    Some("claim data-orders-0 is about to be asked to grow to 2Gi")
)]
#[case::unbound(
    Scene::of("2Gi").claims([claim(0, "2Gi", Some("2Gi")), claim(1, "1Gi", None)]),
    None, None, Some("claim data-orders-1 has no volume yet, and can be asked for 2Gi only then")
)]
#[case::new(Scene::of("1Gi").claims([claim(0, "1Gi", None), claim(1, "1Gi", None)]), None, None, None)]
#[case::growing(
    Scene::of("2Gi").claims([claim(0, "2Gi", Some("2Gi")), claim(1, "2Gi", Some("1Gi"))]),
    None, None, Some("claim data-orders-1 grows from 1Gi to 2Gi")
)]
#[case::file_system(
    Scene::of("2Gi").claims([with_condition(claim(0, "2Gi", Some("1Gi")), "FileSystemResizePending", "Waiting for the pod")]),
    None, None,
    Some("claim data-orders-0 grows from 1Gi to 2Gi: FileSystemResizePending: Waiting for the pod; unless the storage can do it before, its file system grows when pod orders-0 is started again")
)]
#[case::the_storage_cannot(
    Scene::of("2Gi").claims([with_condition(claim(0, "2Gi", Some("1Gi")), "ControllerResizeError", "no room")]),
    None, Some("claim data-orders-0 does not grow: ControllerResizeError: no room"), None
)]
#[case::refused(
    Scene::of("2Gi"),
    Some("forbidden"),
    Some("spec.storage.size: volumes do not grow to 2Gi: forbidden"),
    None
)]
#[case::one_is_refused_and_the_other_grows(
    Scene::of("2Gi").claims([claim(0, "2Gi", Some("1Gi")), claim(1, "1Gi", Some("1Gi"))]),
    Some("forbidden"), Some("spec.storage.size: volumes do not grow to 2Gi: forbidden"), Some("claim data-orders-0 grows from 1Gi to 2Gi")
)]
#[case::the_set_is_left(
    Scene::of("2Gi").grown("2Gi"),
    None, None, Some("the StatefulSet is made anew for new volumes of 2Gi as soon as all wanted instances run")
)]
#[case::done(Scene::of("2Gi").grown("2Gi").change(|it| it.stateful_sets.clear()), None, None, None)]
#[case::smaller(
    Scene::of("512Mi"),
    None,
    Some("spec.storage.size: volumes stay at 1Gi, since none can be made smaller"),
    None
)]
fn what_hinders_volumes_and_what_they_wait_for_is_told(
    #[case] scene: Scene,
    #[case] refused: Option<&str>,
    #[case] hinders: Option<&str>,
    #[case] waits: Option<&str>,
) {
    let (not_grown, resizing) = scene.said(refused);
    assert_eq!((not_grown.as_deref(), resizing.as_deref()), (hinders, waits));
}

#[rstest]
#[case::first(1, 29, 30)]
#[case::second(2, 59, 60)]
#[case::third(3, 119, 120)]
#[case::tenth(10, 299, 300)]
#[case::hundredth(100, 299, 300)]
fn what_was_refused_is_asked_again_later_and_later_but_at_least_every_five_minutes(
    #[case] times: u32,
    #[case] waits: i64,
    #[case] asks: i64,
) {
    let refusal = Refusal {
        asked: (2, false),
        said: "forbidden".into(),
        at: at(0),
        times,
    };
    assert!(refusal.holds(at(0)) && refusal.holds(at(waits)));
    assert!(!refusal.holds(at(asks)));
    assert!(
        !refusal.holds(at(-1)),
        "a clock that was set back holds nothing up"
    );
}

#[test]
fn an_answer_that_is_no_is_a_refusal_and_silence_or_a_loss_of_the_lead_is_not() {
    let key = ObjectKey::namespaced("shop", "data-orders-0");
    let kind = || "PersistentVolumeClaim".to_owned();
    let status = serde_json::from_value(json!({"status": "Failure", "code": 500, "reason": "InternalError"}));
    let api = |source: kube::Error| ApplyError::Api {
        kind: kind(),
        key: key.clone(),
        source: source.into(),
    };
    let rejected = ApplyError::Rejected {
        kind: kind(),
        key: key.clone(),
        message: "forbidden".into(),
    };
    assert!(is_refusal(&rejected));
    assert!(is_refusal(&api(kube::Error::Api(status.unwrap()))));
    assert!(!is_refusal(&api(kube::Error::LinesCodecMaxLineLengthExceeded)));
    let fenced = ApplyError::Fenced {
        kind: kind(),
        key: key.clone(),
        source: kube::Error::LinesCodecMaxLineLengthExceeded.into(),
    };
    assert!(!is_refusal(&fenced));
}

#[test]
fn pods_that_a_set_has_left_are_ended_with_their_database_and_no_others() {
    let named = |pods: &[Arc<Pod>], sets: &[Arc<StatefulSet>]| -> Vec<String> {
        strays(sets, pods).into_iter().map(|pod| pod.name_any()).collect()
    };
    let mut left = pod(0);
    left.metadata.owner_references = None;
    let mut of_somebody = left.clone();
    of_somebody.metadata.name = Some("debug".into());
    let mut unlabelled = left.clone();
    unlabelled.metadata.labels = None;
    let pods: Vec<_> = [left, pod(1), of_somebody, unlabelled]
        .into_iter()
        .map(Arc::new)
        .collect();
    assert_eq!(named(&pods, &[]), ["orders-0"]);
    assert!(named(&pods, &Scene::of("1Gi").observed.stateful_sets).is_empty());
}

#[test]
fn a_trimmed_claim_has_all_that_is_read() {
    let whole = json!({
        "metadata": {"name": "data-orders-0", "annotations": {"volume.kubernetes.io/selected-node": "a"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}, "volumeName": "pvc-1"},
        "status": {
            "phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "conditions": [{"type": "Resizing", "status": "True"}],
        },
    });
    let mut claim: PersistentVolumeClaim = serde_json::from_value(whole).unwrap();
    trim(&mut claim);
    let kept: Value = json!(claim);
    assert_eq!(
        kept["spec"],
        json!({"resources": {"requests": {"storage": "2Gi"}}})
    );
    assert_eq!(kept["metadata"], json!({"name": "data-orders-0"}));
    assert!(is_bound(&claim) && grows(&claim) && condition(&claim).is_some());
}

#[test]
fn instances_are_told_whose_volumes_were_there_before_the_database() {
    let made = |claim: PersistentVolumeClaim, second: i64| {
        let mut claim = claim;
        claim.metadata.creation_timestamp = Some(Time(at(second)));
        Arc::new(claim)
    };
    let mut database = database("orders", json!({"instances": 3}));
    database.metadata.creation_timestamp = Some(Time(at(10)));
    let observed = Observed {
        claims: vec![
            made(claim(0, "1Gi", None), 10),
            made(claim(1, "1Gi", None), 9),
            made(claim(2, "1Gi", None), 11),
        ],
        ..Observed::default()
    };
    let valid = valid(&database);
    assert_eq!(retained(&valid, &observed), ["orders-1".to_owned()].into());
}
