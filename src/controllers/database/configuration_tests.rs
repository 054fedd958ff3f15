//! Of what an image, a rollout or a mistake keeps from being brought about, and how that is told.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use rstest::rstest;
use serde_json::{Value, json};

use super::tests::is;
use super::*;
use crate::controllers::database::error::Error;
use crate::controllers::database::scene::{Scene, pod};
use crate::runtime::apply::ApplyError;
use crate::runtime::key::ObjectKey;

/// Every pod is as the spec has it by now.
fn all_anew(scene: &mut Scene) {
    for ordinal in 0..scene.pods.len() {
        scene.anew(ordinal);
    }
}

fn growing() -> Arc<PersistentVolumeClaim> {
    let claim = json!({
        "metadata": {"name": "data-orders-0"},
        "spec": {"resources": {"requests": {"storage": "20Gi"}}},
        "status": {"phase": "Bound", "capacity": {"storage": "10Gi"}},
    });
    Arc::new(serde_json::from_value(claim).unwrap())
}

/// Its address is known before its image is there, so that it is asked in vain.
fn without_an_image(name: &str) -> Arc<Pod> {
    let mut pod = (*pod(name, false, None)).clone();
    let status = json!({"podIP": "10.0.0.9", "containerStatuses": [{
        "name": "postgres", "image": "nosuch:1", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"nosuch:1\": not found"}},
    }]});
    pod.status = serde_json::from_value(status).unwrap();
    Arc::new(pod)
}

#[test]
fn an_image_that_is_not_there_is_named_in_the_kubelets_words() {
    let scene = Scene::well().change(|scene| {
        scene.asked[0].answer = Err("Connection refused".into());
        scene.pods[0] = without_an_image("orders-0");
    });
    let words = "orders-0: ImagePullBackOff: Back-off pulling image \"nosuch:1\": not found";
    let (_, reason, message) = scene.said(AVAILABLE);
    assert_eq!(reason, "PrimaryNotRunning");
    assert!(
        message.ends_with(words.trim_start_matches("orders-0: ")),
        "{message}"
    );
    let (_, _, message) = scene.said(CONFIGURATION_APPLIED);
    assert!(message.ends_with(words), "{message}");
}

#[rstest]
#[case::applied(json!({}), |_: &mut Scene| {}, "True", "Applied", "True")]
#[case::invalid(json!({"version": "9"}), |_: &mut Scene| {}, "False", "InvalidSpec", "False")]
#[case::paused(json!({"paused": true}), |_: &mut Scene| {}, "Unknown", "Paused", "True")]
#[case::refused(json!({}), |scene: &mut Scene| scene.report(1).refused = Some("no".into()), "False", "Refused", "False")]
#[case::loading(json!({}), |scene: &mut Scene| scene.report(1).settings = Some("old".into()), "False", "Loading", "False")]
#[case::minor_version_on_its_way(json!({"version": "17.7"}), |_: &mut Scene| {}, "False", "RollingOut", "False")]
#[case::unsupported(json!({"version": "17.7"}), all_anew, "False", "Unsupported", "True")]
#[case::the_minor_version_that_is_in_the_image(json!({"version": "17.6"}), all_anew, "True", "Applied", "True")]
#[case::unsupported_and_loading(json!({"version": "17.7"}), |scene: &mut Scene| {
    all_anew(scene);
    scene.report(1).settings = None;
}, "False", "Loading", "False")]
#[case::certificate(json!({"tls": {"certificateSecret": "mine"}}), |_: &mut Scene| {}, "False", "RollingOut", "False")]
#[case::certificate_is_of_no_use(json!({"tls": {"certificateSecret": "mine"}}), |scene: &mut Scene| {
    scene.anew(1);
    scene.report(1).certificate = Some("it has no ca.crt".into());
}, "False", "CertificateRefused", "False")]
#[case::another_certificate_was(json!({"tls": {"certificateSecret": "mine"}}), |scene: &mut Scene| {
    scene.report(1).certificate = Some("it has no ca.crt".into());
}, "False", "RollingOut", "False")]
#[case::certificate_of_before(json!({}), |scene: &mut Scene| scene.report(1).certificate = Some("no".into()), "True", "Applied", "True")]
#[case::users(json!({"users": [{"name": "app"}]}), |_: &mut Scene| {}, "True", "Applied", "True")]
#[case::not_made_yet(json!({}), |scene: &mut Scene| scene.report(0).made = None, "False", "Loading", "True")]
#[case::made_before_the_last_change(json!({}), |scene: &mut Scene| scene.report(0).made = Some("old".into()), "False", "Loading", "True")]
#[case::some_cannot_be_made(json!({}), cannot_be_made, "False", "ContentIncomplete", "True")]
#[case::some_cannot_be_made_and_the_rest_is_loading(json!({}), |scene: &mut Scene| {
    cannot_be_made(scene);
    scene.report(1).settings = None;
}, "False", "ContentIncomplete", "False")]
#[case::a_former_primary_could_not(json!({}), |scene: &mut Scene| {
    scene.report(1).unmade = vec!["spec.users[app]: no".into()];
}, "True", "Applied", "True")]
#[case::not_made_yet_by_an_earlier_pod(json!({}), |scene: &mut Scene| {
    let mut pod = (*scene.pods[0]).clone();
    pod.metadata.labels.as_mut().unwrap().insert("controller-revision-hash".into(), "old".into());
    scene.pods[0] = Arc::new(pod);
    scene.report(0).made = None;
}, "False", "Loading", "True")]
#[case::nobody_leads(json!({}), |scene: &mut Scene| scene.lease.holder = None, "Unknown", "Waiting", "False")]
#[case::volumes_grow(json!({"storage": {"size": "20Gi"}}), |scene: &mut Scene| scene.volumes.claims = vec![growing()], "False", "Resizing", "True")]
#[case::volumes_do_not_during_a_rollout(json!({"storage": {"size": "20Gi"}, "resources": {"limits": {"memory": "4Gi"}}}), |scene: &mut Scene| {
    scene.volumes.refused = Some("no".into());
}, "False", "RollingOut", "False")]
#[case::volumes_do_not(json!({"storage": {"size": "20Gi"}}), |scene: &mut Scene| scene.volumes.refused = Some("no".into()), "False", "VolumesNotGrown", "True")]
#[case::fewer(json!({"instances": 2}), |_: &mut Scene| {}, "False", "RollingOut", "False")]
#[case::restart(json!({}), |scene: &mut Scene| scene.report(0).pending_restart = vec!["max_connections".into()], "False", "RollingOut", "False")]
#[case::other_pods(json!({"resources": {"limits": {"memory": "4Gi"}}}), |_: &mut Scene| {}, "False", "RollingOut", "False")]
#[case::of_an_earlier_operator(json!({}), |scene: &mut Scene| {
    let mut pod = (*scene.pods[1]).clone();
    pod.metadata.labels.as_mut().unwrap().insert("controller-revision-hash".into(), "old".into());
    scene.pods[1] = Arc::new(pod);
}, "True", "Applied", "True")]
#[case::does_not_run(json!({}), |scene: &mut Scene| {
    scene.asked[2].answer = Err("Connection refused".into());
    scene.pods[2] = without_an_image("orders-2");
}, "Unknown", "Waiting", "False")]
#[case::not_known(json!({}), |scene: &mut Scene| scene.asked[2].answer = Err("no route".into()), "Unknown", "InstancesUnreachable", "Unknown")]
#[case::blocked(json!({}), |scene: &mut Scene| scene.failure = Some(Error::Apply(ApplyError::NotOurs {
    kind: "Secret".into(), key: ObjectKey::namespaced("shop", "orders"), owner: "nobody known".into(),
})), "False", "NameTaken", "False")]
fn the_configuration_is_applied_only_if_all_of_it_is(
    #[case] spec: Value,
    #[case] change: fn(&mut Scene),
    #[case] status: &str,
    #[case] reason: &str,
    #[case] ready: &str,
) {
    let scene = Scene::of(spec).known().change(change);
    assert_eq!(scene.is(CONFIGURATION_APPLIED), is(status, reason));
    assert_eq!(scene.is(READY).0, ready, "{:?}", scene.said(READY));
}

fn cannot_be_made(scene: &mut Scene) {
    let primary = scene.report(0);
    primary.made = None;
    primary.unmade = ["spec.users[app]: no", "spec.databases[more]: neither"]
        .map(str::to_owned)
        .to_vec();
}

#[test]
fn what_could_not_be_made_is_told_in_the_primarys_words() {
    let lacks = Scene::well().change(cannot_be_made);
    let (_, _, message) = lacks.said(CONFIGURATION_APPLIED);
    assert_eq!(message, "spec.users[app]: no; spec.databases[more]: neither");
}

#[test]
fn a_certificate_that_is_not_shown_is_told_with_its_secret_and_the_instances_words() {
    let mut scene = Scene::of(json!({"tls": {"certificateSecret": "mine"}}));
    scene.anew(1);
    scene.report(1).certificate = Some("it has no ca.crt; the one before is shown".into());
    let (_, _, message) = scene.said(CONFIGURATION_APPLIED);
    assert_eq!(
        message,
        "spec.tls.certificateSecret: Secret mine is not taken: it has no ca.crt; the one before is shown"
    );
}

#[test]
fn what_is_not_done_is_told_by_its_name() {
    let asks = Scene::of(json!({"version": "17.7", "backup": {"enabled": true}})).change(all_anew);
    let (_, _, message) = asks.said(CONFIGURATION_APPLIED);
    assert_eq!(
        message,
        "spec.version: PostgreSQL 17.6 runs, since that is in the image"
    );
    assert_eq!(asks.is(BACKUPS_CONFIGURED), is("False", "Unsupported"));
    let without = Scene::well().status();
    assert!(
        without
            .conditions
            .iter()
            .all(|condition| condition.type_ != BACKUPS_CONFIGURED)
    );
}

/// One must not hide another: each is somebody's to mend.
#[test]
fn all_that_is_not_as_the_spec_says_is_told_under_the_first_reason() {
    let scene = Scene::of(json!({"version": "17.99", "storage": {"size": "20Gi"}})).change(|scene| {
        all_anew(scene);
        scene.volumes.refused = Some("no room".into());
        scene.report(0).unmade = vec!["spec.users[app]: no Secret".into()];
    });
    let (_, reason, message) = scene.said(CONFIGURATION_APPLIED);
    assert_eq!(reason, "ContentIncomplete");
    for part in [
        "spec.users[app]: ",
        "no room",
        "spec.version: PostgreSQL 17.6 runs",
    ] {
        assert!(message.contains(part), "{message}");
    }
}

/// Replicas are away by turns: that is one reason, and nothing that is wrong.
#[test]
fn a_change_that_is_rolled_out_is_the_one_reason_for_which_a_database_is_not_ready() {
    let spec = json!({"resources": {"limits": {"memory": "4Gi"}}});
    let scene = Scene::of(spec.clone()).known();
    let (_, reason, _) = scene.said(READY);
    assert_eq!((&*reason, scene.status().error), ("RollingOut", None));
    let stuck = Scene::of(spec).known().change(|scene| {
        scene.report(0).standbys.pop();
        scene.report(2).state = Doing::Failed;
    });
    let (_, reason, message) = stuck.said(READY);
    assert_eq!(
        (&*reason, stuck.status().error),
        ("RollingOut", Some(message.clone()))
    );
    assert!(message.contains("1 of 2 replicas stream"), "{message}");
}

/// Whatever a claim was asked for once, it stays at.
#[test]
fn the_size_of_volumes_is_that_of_the_largest_claim_also_while_nobody_looks_at_claims() {
    let spec = json!({"storage": {"size": "20Gi"}});
    let mut scene = Scene::of(spec).change(|scene| scene.volumes.claims = vec![growing()]);
    let status = scene.status();
    assert_eq!(status.volume_size.as_deref(), Some("20Gi"));
    scene.database.status = Some(status);
    let source = kube::Error::Service("no answer".into());
    scene.volumes.claims.clear();
    scene.failure = Some(Error::Apply(ApplyError::Api {
        kind: "Secret".into(),
        key: ObjectKey::namespaced("shop", "orders"),
        source: Box::new(source),
    }));
    assert_eq!(scene.status().volume_size.as_deref(), Some("20Gi"));
}
