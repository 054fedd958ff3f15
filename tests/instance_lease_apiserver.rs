//! The Lease of a database and the labels of its pods, at a real API server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "support/apiserver.rs"]
mod apiserver;

use std::collections::BTreeMap;
use std::time::Duration;

use apiserver::{ApiServer, within};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, Config};
use roadstead::api::database::agent::{RECORD, ROLE_LABEL, Record, Role, Timing};
use roadstead::instance::postgres::bounded::RequestError;
use roadstead::instance::postgres::lease::{LeaseClient, LeaseError, Seen, Written, view};
use roadstead::instance::postgres::pods::{Labelled, PodClient};
use roadstead::instance::postgres::protocol::Write;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout};

const LIMIT: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_secs(1);
const NAME: &str = "orders";

struct Place {
    leases: Api<Lease>,
    namespace: String,
}

impl Place {
    /// A namespace with the Lease as the operator makes it: held by nobody, and nothing in it.
    async fn new(namespace: &str) -> Self {
        let server = ApiServer::shared();
        let namespace = server.namespace(namespace).await;
        let leases = Api::namespaced(server.client().await, &namespace);
        let place = Self { leases, namespace };
        place.make().await;
        place
    }

    async fn make(&self) -> Lease {
        let lease =
            json!({"metadata": {"name": NAME, "annotations": {"note": "theirs"}, "labels": {"team": "a"}}});
        let lease = serde_json::from_value(lease).unwrap();
        self.leases.create(&PostParams::default(), &lease).await.unwrap()
    }

    async fn client(&self) -> LeaseClient {
        LeaseClient::new(ApiServer::shared().client().await, &self.namespace, NAME, LIMIT)
    }
}

async fn write(client: &LeaseClient, seen: &Lease, holder: &str, why: Write) -> Result<Written, LeaseError> {
    let record = Record {
        primary: holder.to_owned(),
        ..Record::default()
    };
    client
        .write(seen, holder, &record, Timing::default(), Timestamp::now(), why)
        .await
}

fn lease_of(written: Written) -> Lease {
    match written {
        Written::Written(lease) => *lease,
        other => panic!("not written: {other:?}"),
    }
}

#[tokio::test]
async fn of_those_who_claim_at_once_one_gets_the_lease_and_what_others_keep_in_it_survives() {
    let place = Place::new("claims").await;
    let clients = [place.client().await, place.client().await];
    for round in 1..=10 {
        let mut seen = Vec::new();
        for client in &clients {
            seen.push(client.read().await.unwrap().unwrap());
        }
        let (one, other) = tokio::join!(
            write(&clients[0], &seen[0], "uid-a", Write::Claim),
            write(&clients[1], &seen[1], "uid-b", Write::Claim),
        );
        let outcomes = [one.unwrap(), other.unwrap()];
        assert_eq!(
            outcomes
                .iter()
                .filter(|outcome| **outcome == Written::Conflict)
                .count(),
            1,
            "{outcomes:?}"
        );
        let lease = place.leases.get(NAME).await.unwrap();
        let won = outcomes
            .iter()
            .any(|outcome| *outcome == Written::Written(Box::new(lease.clone())));
        assert!(won, "what was said to be written is there");
        let view = view(&lease);
        assert_eq!(view.transitions, round);
        assert_eq!(view.record.unwrap().primary, view.holder);
        assert_eq!(lease.metadata.annotations.unwrap()["note"], "theirs");
        assert_eq!(lease.metadata.labels.unwrap()["team"], "a");
    }
}

#[tokio::test]
async fn a_holder_renews_and_releases_what_it_has_claimed() {
    let place = Place::new("life").await;
    let client = place.client().await;
    let seen = client.subscribe();
    let claimed = client.read().await.unwrap().unwrap();
    let claimed = lease_of(write(&client, &claimed, "uid-a", Write::Claim).await.unwrap());
    let renewed = lease_of(write(&client, &claimed, "uid-a", Write::Renew).await.unwrap());
    let (before, after) = (claimed.spec.unwrap(), renewed.spec.clone().unwrap());
    assert!(before.renew_time < after.renew_time);
    assert_eq!(
        (before.acquire_time, before.lease_transitions),
        (after.acquire_time, after.lease_transitions)
    );
    assert_eq!(after.lease_duration_seconds, Some(6));
    let released = lease_of(write(&client, &renewed, "uid-a", Write::Release).await.unwrap());
    assert_eq!(
        (view(&released).holder.as_str(), view(&released).transitions),
        ("", 1)
    );
    assert_eq!(
        seen.borrow().lease,
        Some(released),
        "what is written is seen without being asked for"
    );
}

#[tokio::test]
async fn a_lease_that_was_deleted_is_gone_and_no_write_brings_it_back() {
    let place = Place::new("gone").await;
    let client = place.client().await;
    let seen = client.read().await.unwrap().unwrap();
    place.leases.delete(NAME, &DeleteParams::default()).await.unwrap();
    for why in [Write::Claim, Write::Renew, Write::Release] {
        assert_eq!(write(&client, &seen, "uid-a", why).await.unwrap(), Written::Gone);
        assert_eq!(client.subscribe().borrow().lease, None);
    }
    for strip in [
        |lease: &mut Lease| lease.metadata.uid = None,
        |lease: &mut Lease| lease.metadata.resource_version = None,
    ] {
        let mut stripped = seen.clone();
        strip(&mut stripped);
        let refused = write(&client, &stripped, "uid-a", Write::Claim).await;
        assert!(matches!(refused, Err(LeaseError::Unfit(_))), "{refused:?}");
    }
    assert_eq!(place.leases.get_opt(NAME).await.unwrap(), None);
    assert_eq!(client.read().await.unwrap(), None);
    place.make().await;
    assert_eq!(
        write(&client, &seen, "uid-a", Write::Claim).await.unwrap(),
        Written::Conflict,
        "it is another one"
    );
}

/// Waits until what is seen is so, and says how long it took.
async fn until(seen: &mut tokio::sync::watch::Receiver<Seen>, is_so: impl FnMut(&Seen) -> bool) -> Duration {
    let started = Instant::now();
    timeout(4 * LIMIT, seen.wait_for(is_so))
        .await
        .expect("in time")
        .unwrap();
    started.elapsed()
}

#[tokio::test]
async fn news_of_the_lease_arrives_by_watch_and_a_follower_survives_its_deletion() {
    let place = Place::new("news").await;
    let (holder, follower) = (place.client().await, place.client().await);
    let mut seen = follower.subscribe();
    // Nothing but the watch can bring news before the poll does.
    let poll = Duration::from_secs(10);
    let following = tokio::spawn(follower.follow(poll));
    until(&mut seen, |seen| seen.lease.is_some()).await;
    tokio::time::sleep(Duration::from_millis(500)).await;

    let mut lease = holder.read().await.unwrap().unwrap();
    for why in [Write::Claim, Write::Renew, Write::Renew, Write::Release] {
        let started = Instant::now();
        lease = lease_of(write(&holder, &lease, "uid-a", why).await.unwrap());
        until(&mut seen, |seen| seen.lease.as_ref() == Some(&lease)).await;
        assert!(
            started.elapsed() < Duration::from_secs(1),
            "{why:?}: {:?}",
            started.elapsed()
        );
        let seen = seen.borrow();
        assert!(seen.unchanged_since.unwrap() >= started && seen.answered.unwrap() >= started);
        assert_eq!(seen.failure, None);
    }
    let since = seen.borrow().unchanged_since;
    let label = Patch::Merge(json!({"metadata": {"labels": {"team": "b"}}}));
    let labelled = place
        .leases
        .patch(NAME, &PatchParams::default(), &label)
        .await
        .unwrap();
    until(&mut seen, |seen| seen.lease.as_ref() == Some(&labelled)).await;
    assert_eq!(seen.borrow().unchanged_since, since, "its holder did not do that");

    place.leases.delete(NAME, &DeleteParams::default()).await.unwrap();
    assert!(until(&mut seen, |seen| seen.lease.is_none()).await < Duration::from_secs(1));
    let anew = place.make().await;
    until(&mut seen, |seen| seen.lease.as_ref() == Some(&anew)).await;
    following.abort();
}

#[tokio::test]
async fn a_lease_that_nobody_changes_is_polled_and_a_record_that_cannot_be_read_is_seen_as_such() {
    let place = Place::new("poll").await;
    let client = place.client().await;
    let mut seen = client.subscribe();
    let following = tokio::spawn(client.follow(Duration::from_millis(200)));
    until(&mut seen, |seen| seen.lease.is_some()).await;
    let (since, first) = (seen.borrow().unchanged_since, seen.borrow().answered);
    let later = first.map(|first| first + Duration::from_secs(1));
    until(&mut seen, |seen| seen.answered >= later).await;
    assert_eq!(seen.borrow().unchanged_since, since);
    let broken = Patch::Merge(json!({"metadata": {"annotations": {RECORD: "{"}}}));
    place
        .leases
        .patch(NAME, &PatchParams::default(), &broken)
        .await
        .unwrap();
    until(&mut seen, |seen| {
        let view = view(seen.lease.as_ref().unwrap());
        view.record.is_none() && view.unreadable.is_some()
    })
    .await;
    following.abort();
}

#[tokio::test]
async fn an_api_server_that_does_not_answer_is_noticed_and_so_is_one_that_refuses() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let accepting = tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((stream, _)) = silent.accept().await {
            kept.push(stream);
        }
    });
    let client = Client::try_from(Config::new(format!("http://{address}").parse().unwrap())).unwrap();
    let limit = Duration::from_millis(500);
    let client = LeaseClient::new(client, "any", NAME, limit);
    let mut seen = client.subscribe();
    let started = Instant::now();
    let following = tokio::spawn(client.clone().follow(RETRY));
    until(&mut seen, |seen| seen.failure.is_some()).await;
    assert!(started.elapsed() < 3 * limit, "{:?}", started.elapsed());
    assert_eq!(seen.borrow().answered, None);
    let mut lease = Lease::default();
    lease.metadata.uid = Some("u".into());
    lease.metadata.resource_version = Some("1".into());
    let late = write(&client, &lease, "uid-a", Write::Claim).await;
    assert!(
        matches!(late, Err(LeaseError::Request(RequestError::Late(_)))),
        "{late:?}"
    );
    following.abort();
    accepting.abort();

    let mut config = ApiServer::shared().config().await;
    config.auth_info.token = Some("nobody's".to_owned().into());
    let client = LeaseClient::new(Client::try_from(config).unwrap(), "default", NAME, LIMIT);
    let seen = client.subscribe();
    client.read().await.unwrap_err();
    let seen = seen.borrow();
    assert!(
        seen.answered.is_some() && seen.failure.is_some(),
        "a refusal is an answer: {seen:?}"
    );
}

#[tokio::test]
async fn a_pod_has_the_label_of_its_role_and_none_of_that_name_that_came_after_it() {
    let server = ApiServer::shared();
    let namespace = server.namespace("pods").await;
    let pods: Api<Pod> = Api::namespaced(server.client().await, &namespace);
    let make = async || {
        let pod = json!({
            "metadata": {"name": "orders-0", "labels": {"app": "orders"}},
            "spec": {"containers": [{"name": "postgres", "image": "none"}]},
        });
        let pod = serde_json::from_value(pod).unwrap();
        let pod: Pod = pods.create(&PostParams::default(), &pod).await.unwrap();
        pod.metadata.uid.unwrap()
    };
    let client = PodClient::new(server.client().await, &namespace, LIMIT);
    let set = async |uid: Option<&str>, role| client.set_role("orders-0", uid, role).await.unwrap();
    let labels = async || {
        client
            .read("orders-0")
            .await
            .unwrap()
            .unwrap()
            .metadata
            .labels
            .unwrap()
    };
    assert_eq!(set(None, Role::Primary).await, Labelled::Gone);
    let former = make().await;
    for (role, label) in [
        (Role::Replica, Some("replica")),
        (Role::Primary, Some("primary")),
        (Role::None, None),
    ] {
        assert_eq!(set(Some(&former), role).await, Labelled::Written);
        assert_eq!(set(None, role).await, Labelled::Already);
        let mut expected = BTreeMap::from([("app".to_owned(), "orders".to_owned())]);
        expected.extend(label.map(|label| (ROLE_LABEL.to_owned(), label.to_owned())));
        assert_eq!(labels().await, expected);
    }
    pods.delete("orders-0", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    within(LIMIT, "the pod is gone", async || {
        client.read("orders-0").await.unwrap().is_none()
    })
    .await;
    make().await;
    assert_eq!(set(Some(&former), Role::Primary).await, Labelled::Other);
    // What the patch itself says of it, when the pod is replaced after it was read.
    let patch = Patch::Merge(json!({"metadata": {"uid": former, "labels": {ROLE_LABEL: "primary"}}}));
    let error = pods
        .patch("orders-0", &PatchParams::default(), &patch)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, kube::Error::Api(status) if [409, 422].contains(&status.code)),
        "{error:?}"
    );
    assert!(!labels().await.contains_key(ROLE_LABEL));
}
