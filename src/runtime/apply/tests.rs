use super::*;
use std::collections::VecDeque;

use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

fn config_map(owner: Option<&str>) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some("a".into());
    object.metadata.namespace = Some("ns".into());
    object.metadata.owner_references = owner.map(|uid| {
        vec![OwnerReference {
            kind: "MyProxy".into(),
            name: "web".into(),
            uid: uid.into(),
            controller: Some(true),
            ..OwnerReference::default()
        }]
    });
    object
}

#[test]
fn an_object_of_another_owner_or_of_nobody_is_refused_and_named() {
    let key = ObjectKey::namespaced("ns", "a");
    let desired = config_map(Some("1"));
    assert!(check_ours(&desired, &config_map(Some("1")), &key).is_ok());
    let error = check_ours(&desired, &config_map(Some("2")), &key)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("ConfigMap ns/a exists and belongs to MyProxy web"),
        "{error}"
    );
    assert!(check_ours(&desired, &config_map(None), &key).is_err());
}

#[tokio::test]
async fn what_the_primary_does_not_control_is_not_deleted_even_if_it_names_it_as_an_owner() {
    let answer = |_: http::Request<kube::client::Body>| async {
        Ok::<_, std::convert::Infallible>(http::Response::new(http_body_util::Full::new(
            bytes::Bytes::from_static(b"{}"),
        )))
    };
    let client = Client::new(tower::service_fn(answer), "ns");
    let applier = Applier::new(client, "test", Caches::default());
    let mut primary = config_map(None);
    primary.metadata.uid = Some("1".into());
    let mut users = config_map(Some("1"));
    users
        .metadata
        .owner_references
        .iter_mut()
        .flatten()
        .for_each(|owner| owner.controller = None);
    for strange in [users, config_map(None), config_map(Some("2"))] {
        let pruned = applier.prune(&primary, &[Arc::new(strange)], [""; 0]).await;
        assert!(matches!(pruned, Err(ApplyError::NotOurs { .. })), "{pruned:?}");
    }
    let pruned = applier
        .prune(&primary, &[Arc::new(config_map(Some("1")))], [""; 0])
        .await;
    assert!(matches!(pruned, Ok(1)), "{pruned:?}");
}

/// What was asked.
type Asked = Arc<Mutex<Vec<(Method, Value)>>>;

/// Answers so, one after the other, and notes what it was asked.
fn played(answers: Vec<(u16, Value)>) -> (Applier, Asked) {
    let asked = Asked::default();
    let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
    let notes = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (notes, answers) = (Arc::clone(&notes), Arc::clone(&answers));
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            notes.lock().unwrap().push((parts.method, body));
            let (code, answer) = answers
                .lock()
                .unwrap()
                .pop_front()
                .expect("a request that was expected");
            let answer = Response::builder()
                .status(code)
                .body(Full::new(bytes::Bytes::from(answer.to_string())));
            Ok::<_, std::convert::Infallible>(answer.unwrap())
        }
    });
    (
        Applier::new(Client::new(service, "ns"), "test", Caches::default()),
        asked,
    )
}

fn refusal(code: u16, message: &str) -> (u16, Value) {
    let reason = if code == 409 { "Conflict" } else { "Invalid" };
    (
        code,
        json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}),
    )
}

#[tokio::test]
async fn what_is_made_once_is_never_written_over_even_if_the_cache_does_not_know_it() {
    let mut there = config_map(Some("1"));
    there.data = Some([("password".to_owned(), "first".to_owned())].into());
    let mut second = there.clone();
    second.data = Some([("password".to_owned(), "second".to_owned())].into());

    let (applier, asked) = played(vec![refusal(409, "there is one"), (200, json!(there))]);
    let found = applier.once(second.clone(), None).await.unwrap();
    assert_eq!(
        (found.object.data.as_ref(), found.outcome),
        (there.data.as_ref(), Outcome::Unchanged)
    );
    let methods: Vec<Method> = asked
        .lock()
        .unwrap()
        .iter()
        .map(|(method, _)| method.clone())
        .collect();
    assert_eq!(methods, [Method::PATCH, Method::GET]);

    // What is known is not even asked for, and what is somebody else's is refused.
    let (applier, _) = played(Vec::new());
    let known = applier
        .once(second.clone(), Some(&Arc::new(there)))
        .await
        .unwrap();
    assert_eq!(known.object.data.as_ref().unwrap()["password"], "first");
    let strange = applier.once(second, Some(&Arc::new(config_map(Some("2"))))).await;
    assert!(matches!(strange, Err(ApplyError::NotOurs { .. })), "{strange:?}");
}

/// How a desired object of the owner is brought about beside a live one of the same owner; what was asked for that.
async fn replaced(answers: Vec<(u16, Value)>) -> (Result<Outcome, ApplyError>, Vec<(Method, Value)>) {
    let mut owner = config_map(None);
    owner.metadata.uid = Some("1".into());
    let mut live = config_map(Some("1"));
    live.metadata.uid = Some("old".into());
    live.metadata.resource_version = Some("7".into());
    let (applier, asked) = played(answers);
    let outcome = applier
        .replace(&owner, config_map(Some("1")), Some(&Arc::new(live)))
        .await;
    let asked = std::mem::take(&mut *asked.lock().unwrap());
    (outcome.map(|applied| applied.outcome), asked)
}

fn as_it_is() -> (u16, Value) {
    let mut live = config_map(Some("1"));
    live.metadata.uid = Some("old".into());
    live.metadata.resource_version = Some("8".into());
    (200, json!(live))
}

const IMMUTABLE: &str = "Job a is invalid: spec.template: Invalid value: {}: field is immutable";

#[tokio::test]
async fn what_cannot_be_changed_is_deleted_as_it_is_known_and_made_anew() {
    let answers = vec![refusal(422, IMMUTABLE), as_it_is(), (200, json!({})), as_it_is()];
    let (outcome, asked) = replaced(answers).await;
    assert!(matches!(outcome, Ok(Outcome::Created)), "{outcome:?}");
    let methods: Vec<_> = asked.iter().map(|(method, _)| method.clone()).collect();
    assert_eq!(
        methods,
        [Method::PATCH, Method::GET, Method::DELETE, Method::PATCH]
    );
    assert_eq!(
        asked[2].1["preconditions"],
        json!({"uid": "old", "resourceVersion": "8"})
    );
}

#[tokio::test]
async fn what_is_refused_for_another_reason_stays() {
    for (code, message) in [
        (403, "a policy forbids it"),
        (422, "spec.replicas: Invalid value: -1"),
    ] {
        let (outcome, asked) = replaced(vec![refusal(code, message)]).await;
        assert!(matches!(outcome, Err(ApplyError::Rejected { .. })), "{outcome:?}");
        assert_eq!(asked.len(), 1, "{asked:?}");
    }
}

#[tokio::test]
async fn while_somebody_holds_the_earlier_one_its_refusal_is_what_is_told() {
    let answers = vec![
        refusal(422, IMMUTABLE),
        as_it_is(),
        as_it_is(),
        refusal(409, "it is there"),
    ];
    let (outcome, _) = replaced(answers).await;
    assert!(
        matches!(&outcome, Err(ApplyError::Rejected { message, .. }) if message == IMMUTABLE),
        "{outcome:?}"
    );
}

/// One of nobody's, as it is known.
fn known(owner: Option<&str>) -> ConfigMap {
    let mut live = config_map(owner);
    live.metadata.uid = Some("this".into());
    live.metadata.resource_version = Some("7".into());
    live
}

#[tokio::test]
async fn what_another_made_for_a_child_is_amended_as_it_is_known_and_a_refusal_is_told_in_the_words_of_the_api_server()
 {
    let spec = json!({"size": 2});
    let (applier, asked) = played(vec![
        (200, json!(known(None))),
        refusal(403, "the class forbids it"),
    ]);
    let amended = applier.amend(&known(None), spec.clone()).await.unwrap();
    assert_eq!(amended.as_deref(), Some(&known(None)));
    let (method, body) = asked.lock().unwrap()[0].clone();
    assert_eq!(method, Method::PATCH);
    assert_eq!(
        body,
        json!({"metadata": {"uid": "this", "resourceVersion": "7"}, "spec": spec})
    );
    let refused = applier.amend(&known(None), spec.clone()).await;
    assert!(
        matches!(&refused, Err(ApplyError::Rejected { message, .. }) if message == "the class forbids it"),
        "{refused:?}"
    );
    // One that is gone need not be changed.
    let (applier, _) = played(vec![(
        404,
        json!({"code": 404, "reason": "NotFound", "status": "Failure"}),
    )]);
    assert_eq!(applier.amend(&known(None), spec).await.unwrap(), None);
}

#[tokio::test]
async fn what_is_released_is_deleted_as_it_is_known_and_what_it_controls_stays() {
    let mut owner = config_map(None);
    owner.metadata.uid = Some("1".into());
    let (applier, asked) = played(vec![(200, json!({}))]);
    assert!(applier.release(&owner, &known(Some("1"))).await.unwrap());
    let (method, body) = asked.lock().unwrap()[0].clone();
    assert_eq!(
        (method, &body["propagationPolicy"]),
        (Method::DELETE, &json!("Orphan"))
    );
    assert_eq!(
        body["preconditions"],
        json!({"uid": "this", "resourceVersion": "7"})
    );

    let (applier, _) = played(Vec::new());
    for strange in [known(None), known(Some("2"))] {
        let released = applier.release(&owner, &strange).await;
        assert!(
            matches!(released, Err(ApplyError::NotOurs { .. })),
            "{released:?}"
        );
    }
    let mut going = known(Some("1"));
    going.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    assert!(!applier.release(&owner, &going).await.unwrap());
}

#[tokio::test]
async fn what_was_left_is_deleted_as_it_is_known_and_never_what_somebody_controls() {
    let (applier, asked) = played(vec![(200, json!({}))]);
    assert!(applier.delete_stray(&known(None)).await.unwrap());
    let (_, body) = asked.lock().unwrap()[0].clone();
    assert_eq!(
        body["preconditions"],
        json!({"uid": "this", "resourceVersion": "7"})
    );
    let (applier, _) = played(Vec::new());
    let refused = applier.delete_stray(&known(Some("2"))).await;
    assert!(matches!(refused, Err(ApplyError::NotOurs { .. })), "{refused:?}");
}
