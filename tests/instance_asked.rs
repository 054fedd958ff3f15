//! The operator asks instances how they are, over real TLS on loopback: by a pod's address, and believed by its name.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "support/instances.rs"]
mod instances;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use bytes::Bytes;
use instances::{Authority, Instance, misbehaving};
use roadstead::api::database::agent::{INSTANCE_ROLE, OPERATOR_ROLE, Restart};
use roadstead::controllers::database::https::HttpsInstances;
use roadstead::controllers::database::instances::{Instances, Order, Target};
use roadstead::instance::postgres::server::Request;
use roadstead::pki::Pair;
use roadstead::pki::authority::Identity;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::time::{Instant, sleep};

const LOCAL: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// What the certificates of a database's instances are for, and one of these.
const NAMES: &str = "*.orders-instances.shop.svc.cluster.local";
const HOST: &str = "orders-0.orders-instances.shop.svc.cluster.local";

fn identity_of(authority: &Authority, unit: &str) -> Identity {
    let (chain, key) = authority.sign(unit, &["roadstead"]);
    Identity {
        pair: Pair::from_pem(chain.as_bytes(), key.as_bytes()).unwrap(),
        authorities: vec![CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap()],
    }
}

fn identity(authority: &Authority) -> Identity {
    identity_of(authority, OPERATOR_ROLE)
}

async fn instance(authority: &Authority, address: impl Into<IpAddr>) -> Instance {
    Instance::begin(authority.tls(INSTANCE_ROLE, &[NAMES]), address, 0).await
}

fn target(address: impl Into<IpAddr>, host: &str) -> Target {
    Target {
        pod: host.split('.').next().unwrap().to_owned(),
        uid: "uid".to_owned(),
        address: address.into(),
        host: host.to_owned(),
    }
}

#[tokio::test]
async fn an_instance_is_found_by_its_address_and_believed_by_its_name() {
    let authority = Authority::new();
    for address in [IpAddr::from(LOCAL), Ipv6Addr::LOCALHOST.into()] {
        let instance = instance(&authority, address).await;
        let instances = HttpsInstances::on_port(instance.address.port());
        let identity = identity(&authority);
        for host in [HOST, "orders-1.orders-instances.shop.svc.cluster.local"] {
            let report = instances.report(&identity, &target(address, host)).await.unwrap();
            assert_eq!(report.name, address.to_string());
        }
        for other in [
            "users-0.users-instances.shop.svc.cluster.local",
            "orders-0.orders-instances.elsewhere.svc.cluster.local",
            "localhost",
            &address.to_string(),
        ] {
            let refused = instances
                .report(&identity, &target(address, other))
                .await
                .unwrap_err();
            assert!(
                refused.contains("certificate not valid for name"),
                "{other}: {refused}"
            );
        }
        let refused = instances.report(&identity, &target(address, "no host")).await;
        assert_eq!(refused.unwrap_err(), "\"no host\" is no host");
    }
}

#[tokio::test]
async fn whoever_is_no_instance_of_the_database_is_not_believed_and_does_not_believe() {
    let (authority, other) = (Authority::new(), Authority::new());
    for (tls, expected) in [
        (
            authority.tls(OPERATOR_ROLE, &[NAMES]),
            "is not of organisational unit instance",
        ),
        (other.tls(INSTANCE_ROLE, &[NAMES]), "BadSignature"),
    ] {
        let instance = Instance::begin(tls, LOCAL, 0).await;
        let instances = HttpsInstances::on_port(instance.address.port());
        let refused = instances
            .report(&identity(&authority), &target(LOCAL, HOST))
            .await
            .unwrap_err();
        assert!(refused.contains(expected), "{refused}");
    }
    let instance = instance(&authority, LOCAL).await;
    let instances = HttpsInstances::on_port(instance.address.port());
    let stranger = identity_of(&authority, "another");
    let refused = instances
        .report(&stranger, &target(LOCAL, HOST))
        .await
        .unwrap_err();
    assert!(refused.starts_with("403 Forbidden: "), "{refused}");
}

#[tokio::test]
async fn another_identity_of_the_same_database_is_shown_at_once() {
    let (first, second) = (Authority::new(), Authority::new());
    let instance = instance(&first, LOCAL).await;
    let instances = HttpsInstances::on_port(instance.address.port());
    let (old, new) = (identity(&first), identity(&second));
    let target = &target(LOCAL, HOST);
    instances.report(&old, target).await.unwrap();
    instances.report(&new, target).await.unwrap_err();
    instance
        .tls
        .publish(second.credentials(INSTANCE_ROLE, &[NAMES]))
        .unwrap();
    instances.report(&new, target).await.unwrap();
    instances.report(&old, target).await.unwrap_err();
}

/// Its address may have been another's, and the certificates of a database are all alike.
#[tokio::test]
async fn only_the_instance_that_is_meant_does_what_it_is_told() {
    let authority = Authority::new();
    let mut instance = instance(&authority, LOCAL).await;
    instance
        .shown
        .send_modify(|shown| shown.report.name = "orders-1".into());
    let instances = HttpsInstances::on_port(instance.address.port());
    let (identity, order) = (identity(&authority), Order::Restart(Restart::default()));
    let another = target(LOCAL, HOST);
    let refused = instances.order(&identity, &another, &order).await.unwrap_err();
    let expected =
        "421 Misdirected Request: /restart?instance=orders-0 is for another instance; this is orders-1";
    assert_eq!(refused, expected);
    assert!(instance.requests.try_recv().is_err(), "it was passed on");
    let meant = target(LOCAL, &HOST.replace("orders-0", "orders-1"));
    let granting = async {
        let Some(Request::Restart { answer, .. }) = instance.requests.recv().await else {
            panic!("no restart");
        };
        answer.send(Ok(())).unwrap();
    };
    let (done, ()) = tokio::join!(instances.order(&identity, &meant, &order), granting);
    assert_eq!(done, Ok(()));
}

#[tokio::test]
async fn one_that_hangs_or_sends_garbage_or_megabytes_costs_a_second_at_most() {
    let authority = Authority::new();
    let tls = authority.tls(INSTANCE_ROLE, &[NAMES]);
    let good = Instance::begin(tls.clone(), [127, 0, 9, 1], 0).await;
    let port = good.address.port();
    let address = |last| Ipv4Addr::new(127, 0, 9, last);
    let answers = |body: Vec<u8>| {
        let body = Bytes::from(body);
        axum::Router::new().fallback(async move || body)
    };
    let hangs = axum::Router::new().fallback(std::future::pending::<Bytes>);
    tokio::spawn(misbehaving::silent(address(2), port));
    tokio::spawn(misbehaving::babbling(address(3), port));
    for (last, answer) in [
        (4, hangs),
        (5, answers(b"no report".to_vec())),
        (6, answers(vec![b' '; 8 << 20])),
    ] {
        tokio::spawn(misbehaving::answering(tls.clone(), address(last), port, answer));
    }
    sleep(Duration::from_millis(100)).await;
    let (instances, identity) = (HttpsInstances::on_port(port), identity(&authority));
    let started = Instant::now();
    // Nobody listens at the last one.
    let targets: Vec<_> = (1..=7).map(|last| target(address(last), HOST)).collect();
    let asked = targets.iter().map(|target| instances.report(&identity, target));
    let answers = futures::future::join_all(asked).await;
    let took = started.elapsed();
    assert!(took < Duration::from_millis(1500), "{took:?}");
    assert_eq!(answers[0].as_ref().unwrap().name, "127.0.9.1");
    let told: Vec<&str> = answers[1..]
        .iter()
        .map(|answer| answer.as_ref().unwrap_err().as_str())
        .collect();
    let late = "no complete answer within 1000 ms";
    assert_eq!((told[0], told[2]), (late, late));
    for (at, expected) in [
        (1, "no answer: "),
        (3, "its answer is no report: "),
        (4, "the answer has more than 65536 bytes"),
        (5, "Connection refused"),
    ] {
        assert!(told[at].contains(expected), "{}", told[at]);
    }
}
