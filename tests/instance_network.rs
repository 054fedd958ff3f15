//! Instances and the operator talk to each other over TLS, on loopback: who may ask what, and what one that misbehaves costs the others.

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
use futures::future::join_all;
use http::StatusCode;
use instances::{Authority, Instance, ask_as_nobody, member, misbehaving};
use roadstead::api::database::agent::{
    FAILSAFE, Handover, INSTANCE_ROLE, LIVENESS, METRICS, Member, OPERATOR_ROLE, Plea, READINESS, Report,
    STATUS, SWITCHOVER, meant_for,
};
use roadstead::instance::postgres::peers::{PeerError, Peers};
use roadstead::instance::postgres::server::{Request, Shown};
use roadstead::instance::postgres::tls::Tls;
use roadstead::runtime::mutual_tls::{Answer, CallError, Client, Credentials, Limit};
use tokio::net::TcpSocket;
use tokio::time::{Instant, sleep, timeout};

const LOCAL: &str = "127.0.0.1";
const LIMIT: Limit = Limit {
    time: Duration::from_secs(5),
    size: 64 << 10,
};
const PATHS: [&str; 6] = [LIVENESS, READINESS, METRICS, STATUS, FAILSAFE, SWITCHOVER];

async fn instance(authority: &Authority) -> Instance {
    Instance::begin(authority.tls(INSTANCE_ROLE, &[LOCAL]), Ipv4Addr::LOCALHOST, 0).await
}

fn client(credentials: &Credentials) -> Client {
    Client::new(credentials, INSTANCE_ROLE).unwrap()
}

fn plea() -> Plea {
    Plea {
        holder: "uid-0123456789abcdef".into(),
        transitions: 4,
        lease_ms: 6000,
        hears: false,
    }
}

/// A request to this path as it is meant to be.
async fn ask(client: &Client, port: u16, path: &str) -> Result<Answer, CallError> {
    let body = match path {
        FAILSAFE => serde_json::to_vec(&plea()).unwrap(),
        SWITCHOVER => serde_json::to_vec(&Handover::default()).unwrap(),
        path => return client.get(LOCAL, port, path, LIMIT).await,
    };
    let path = meant_for(LOCAL, path);
    client.post(LOCAL, port, &path, Bytes::from(body), LIMIT).await
}

/// Grants everything, for ever.
fn grant_all(instance: &mut Instance) {
    let (_, empty) = tokio::sync::mpsc::channel(1);
    let mut requests = std::mem::replace(&mut instance.requests, empty);
    tokio::spawn(async move {
        while let Some(request) = requests.recv().await {
            let (Request::Plea { answer, .. }
            | Request::Handover { answer, .. }
            | Request::Restart { answer, .. }) = request;
            let _ = answer.send(Ok(()));
        }
    });
}

#[tokio::test]
async fn each_path_is_for_those_whose_certificate_says_so() {
    let authority = Authority::new();
    let mut instance = instance(&authority).await;
    instance.shown.send_modify(|shown| shown.ready = Ok(()));
    grant_all(&mut instance);
    let port = instance.address.port();
    for (unit, expected) in [
        (INSTANCE_ROLE, [200, 200, 200, 200, 200, 403]),
        (OPERATOR_ROLE, [200, 200, 200, 200, 403, 202]),
        ("another", [200, 200, 200, 403, 403, 403]),
    ] {
        let client = client(&authority.credentials(unit, &[LOCAL]));
        for (path, expected) in PATHS.into_iter().zip(expected) {
            let answer = ask(&client, port, path).await.unwrap();
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            assert_eq!(answer.status.as_u16(), expected, "{unit} at {path}: {text}");
            if expected == 403 {
                assert_eq!(text.lines().count(), 1, "{text}");
                assert!(
                    text.contains(path) && text.contains("organisational unit"),
                    "{text}"
                );
            }
        }
    }
    for (path, expected) in PATHS.into_iter().zip([200, 200, 200, 403, 403, 403]) {
        let (status, text) = ask_as_nobody(&authority, port, path).await;
        assert_eq!(status, expected, "nobody at {path}: {text}");
        assert!(expected == 200 || text.ends_with("there is none\n"), "{text}");
    }
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_not_even_heard() {
    let (authority, other) = (Authority::new(), Authority::new());
    let instance = instance(&authority).await;
    let (chain, key) = other.sign(OPERATOR_ROLE, &[LOCAL]);
    let foreign = Credentials::from_pem(authority.pem.as_bytes(), chain.as_bytes(), key.as_bytes()).unwrap();
    for path in PATHS {
        let refused = ask(&client(&foreign), instance.address.port(), path).await;
        assert!(
            matches!(refused, Err(CallError::Unreachable(_))),
            "{path}: {refused:?}"
        );
    }
}

#[tokio::test]
async fn a_client_trusts_only_an_instance_of_its_authority_at_the_host_that_it_asked() {
    let (authority, other) = (Authority::new(), Authority::new());
    let client = client(&authority.credentials(INSTANCE_ROLE, &[LOCAL]));
    for (tls, expected) in [
        (
            authority.tls(INSTANCE_ROLE, &["127.0.0.9"]),
            "certificate not valid for name",
        ),
        (
            authority.tls(INSTANCE_ROLE, &["orders-0.orders-instances.shop.svc"]),
            "certificate not valid for name",
        ),
        (
            authority.tls(OPERATOR_ROLE, &[LOCAL]),
            "is not of organisational unit instance",
        ),
        (other.tls(INSTANCE_ROLE, &[LOCAL]), "BadSignature"),
    ] {
        let instance = Instance::begin(tls, Ipv4Addr::LOCALHOST, 0).await;
        let refused = ask(&client, instance.address.port(), STATUS).await;
        let Err(CallError::Unreachable(reason)) = refused else {
            panic!("{expected}: {refused:?}");
        };
        assert!(reason.contains(expected), "{reason}");
    }
}

#[tokio::test]
async fn hosts_may_be_names_or_addresses_of_either_kind() {
    let authority = Authority::new();
    let names = ["localhost", LOCAL, "::1"];
    let client = client(&authority.credentials(INSTANCE_ROLE, &names));
    for (address, hosts) in [
        (IpAddr::from(Ipv4Addr::LOCALHOST), &["127.0.0.1", "localhost"][..]),
        (Ipv6Addr::LOCALHOST.into(), &["::1", "[::1]"]),
    ] {
        let instance = Instance::begin(authority.tls(INSTANCE_ROLE, &names), address, 0).await;
        for host in hosts {
            let answer = client.get(host, instance.address.port(), STATUS, LIMIT).await;
            assert_eq!(answer.unwrap().status, StatusCode::OK, "{host}");
        }
    }
    let refused = client.get("no host", 1, STATUS, LIMIT).await.unwrap_err();
    assert_eq!(refused.to_string(), "\"no host\" is no host");
}

#[tokio::test]
async fn a_certificate_is_replaced_without_a_request_lost_and_with_its_authority() {
    let (first, second) = (Authority::new(), Authority::new());
    let folder = tempfile::tempdir().unwrap();
    let write = |authority: &Authority, trusted: &str| {
        let (chain, key) = authority.sign(INSTANCE_ROLE, &[LOCAL]);
        for (name, text) in [
            ("ca.crt", trusted),
            ("tls.crt", chain.as_str()),
            ("tls.key", key.as_str()),
        ] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
    };
    let tls = Tls::default();
    let reload = || tls.reload(folder.path().to_owned());
    reload().unwrap_err();
    assert!(tls.client().is_none());

    write(&first, &first.pem);
    assert!(reload().unwrap());
    assert!(!reload().unwrap(), "the same again is no change");
    let instance = Instance::begin(tls.clone(), Ipv4Addr::LOCALHOST, 0).await;
    let port = instance.address.port();
    let (of_first, of_second) = (
        client(&first.credentials(INSTANCE_ROLE, &[LOCAL])),
        client(&second.credentials(INSTANCE_ROLE, &[LOCAL])),
    );
    assert_eq!(ask(&of_first, port, STATUS).await.unwrap().status, 200);
    ask(&of_second, port, STATUS).await.unwrap_err();

    std::fs::write(folder.path().join("tls.key"), "half writ").unwrap();
    let error = reload().unwrap_err().to_string();
    assert!(
        error.contains("the key is not a private key in PEM") && !error.contains("half writ"),
        "{error}"
    );
    assert_eq!(ask(&of_first, port, STATUS).await.unwrap().status, 200);

    write(&second, &second.pem);
    assert!(reload().unwrap());
    let kept = ask(&of_first, port, STATUS).await;
    assert_eq!(kept.unwrap().status, 200, "the connection that is there goes on");
    assert_eq!(ask(&of_second, port, STATUS).await.unwrap().status, 200);
    let anew = client(&first.credentials(INSTANCE_ROLE, &[LOCAL]));
    ask(&anew, port, STATUS).await.unwrap_err();
    let peers = Peers::on_port(tls.clone(), port);
    let survey = peers.survey(&[member(instance.address.ip())]).await;
    assert!(
        survey.values().all(Result::is_ok),
        "what it asks with is new as well: {survey:?}"
    );
}

#[tokio::test]
async fn without_a_certificate_nobody_is_answered_or_asked() {
    let authority = Authority::new();
    let instance = Instance::begin(Tls::default(), Ipv4Addr::LOCALHOST, 0).await;
    let client = client(&authority.credentials(INSTANCE_ROLE, &[LOCAL]));
    let port = instance.address.port();
    ask(&client, port, LIVENESS).await.unwrap_err();
    let survey = Peers::on_port(Tls::default(), port)
        .survey(&[member(instance.address.ip())])
        .await;
    assert!(
        survey
            .values()
            .all(|answer| answer == &Err(PeerError::NoCertificate))
    );
    instance
        .tls
        .publish(authority.credentials(INSTANCE_ROLE, &[LOCAL]))
        .unwrap();
    assert_eq!(ask(&client, port, LIVENESS).await.unwrap().status, 200);
}

#[tokio::test]
async fn probes_and_status_tell_what_is_shown_now() {
    let authority = Authority::new();
    let instance = instance(&authority).await;
    let port = instance.address.port();
    let client = client(&authority.credentials(OPERATOR_ROLE, &[LOCAL]));
    let answer = ask(&client, port, READINESS).await.unwrap();
    assert_eq!(
        (answer.status.as_u16(), &answer.body[..]),
        (503, &b"the instance has just begun\n"[..])
    );

    let report = Report {
        name: "orders-2".into(),
        timeline: Some(7),
        ..Report::default()
    };
    instance.shown.send_replace(Shown {
        made: tokio::time::Instant::now() - Duration::from_secs(31),
        report: report.clone(),
        ready: Ok(()),
    });
    assert_eq!(ask(&client, port, READINESS).await.unwrap().status, 200);
    let answer = ask(&client, port, LIVENESS).await.unwrap();
    assert_eq!(answer.status, 503);
    assert_eq!(answer.body, "the instance manager has said nothing for 31 s\n");
    let answer = ask(&client, port, STATUS).await.unwrap();
    assert_eq!(serde_json::from_slice::<Report>(&answer.body).unwrap(), report);
    let answer = ask(&client, port, METRICS).await.unwrap();
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    assert!(text.contains("roadstead_postgres_timeline 7\n"), "{text}");
}

#[tokio::test]
async fn a_plea_and_a_handover_reach_the_supervisor_and_its_answer_reaches_who_asked() {
    let authority = Authority::new();
    let mut instance = instance(&authority).await;
    let port = instance.address.port();
    let peers = Peers::on_port(authority.tls(INSTANCE_ROLE, &[LOCAL]), port);
    let operator = client(&authority.credentials(OPERATOR_ROLE, &[LOCAL]));
    let members = [member(instance.address.ip())];

    let asked = plea();
    let pleading = peers.plead(&members, &asked);
    let granting = async {
        let Some(Request::Plea { plea, answer }) = instance.requests.recv().await else {
            panic!("no plea");
        };
        assert_eq!(plea, asked);
        answer.send(Ok(())).unwrap();
    };
    let (granted, ()) = tokio::join!(pleading, granting);
    assert_eq!(granted, [(members[0].name.clone(), Ok(()))].into());

    let handover = Handover {
        to: Some("orders-1".into()),
        why: "an update".into(),
    };
    let json = Bytes::from(serde_json::to_vec(&handover).unwrap());
    let path = meant_for(LOCAL, SWITCHOVER);
    let asking = operator.post(LOCAL, port, &path, json, LIMIT);
    let refusing = async {
        let Some(Request::Handover {
            handover: asked,
            answer,
        }) = instance.requests.recv().await
        else {
            panic!("no handover");
        };
        assert_eq!(asked, handover);
        answer.send(Err("orders-1 is too far behind".into())).unwrap();
    };
    let (answer, ()) = tokio::join!(asking, refusing);
    let answer = answer.unwrap();
    assert_eq!(answer.status, StatusCode::CONFLICT);
    assert_eq!(answer.body, "orders-1 is too far behind\n");
}

#[tokio::test]
async fn a_request_that_the_supervisor_does_not_answer_is_given_up_and_a_second_one_at_once() {
    let authority = Authority::new();
    let mut instance = instance(&authority).await;
    let port = instance.address.port();
    let client = client(&authority.credentials(INSTANCE_ROLE, &[LOCAL]));
    let started = Instant::now();
    let first = ask(&client, port, FAILSAFE);
    let second = async {
        sleep(Duration::from_millis(500)).await;
        let answer = ask(&client, port, FAILSAFE).await.unwrap();
        (answer.status, started.elapsed())
    };
    let (first, (second, told_after)) = tokio::join!(first, second);
    assert_eq!(
        (first.unwrap().status, second),
        (StatusCode::SERVICE_UNAVAILABLE, StatusCode::SERVICE_UNAVAILABLE)
    );
    assert!(
        told_after < Duration::from_millis(1900),
        "the queue is full: {told_after:?}"
    );
    let all = started.elapsed();
    assert!(
        (Duration::from_secs(2)..Duration::from_secs(4)).contains(&all),
        "{all:?}"
    );

    // A supervisor that drops the request, and one that has ended.
    let dropping = async { drop(instance.requests.recv().await) };
    dropping.await;
    let asking = ask(&client, port, FAILSAFE);
    let dropping = async { drop(instance.requests.recv().await) };
    let (answer, ()) = tokio::join!(asking, dropping);
    assert_eq!(answer.unwrap().status, 503);
    instance.requests.close();
    assert_eq!(ask(&client, port, FAILSAFE).await.unwrap().status, 503);
    assert_eq!(ask(&client, port, STATUS).await.unwrap().status, 200);
}

/// Names may lead to where an instance was before, and certificates are all alike: what one says or promises must not count as another's.
#[tokio::test]
async fn nobody_is_heard_or_promises_in_the_name_of_another() {
    let authority = Authority::new();
    let mut instance = instance(&authority).await;
    instance
        .shown
        .send_modify(|shown| shown.report.name = "orders-1".into());
    let peers = Peers::on_port(authority.tls(INSTANCE_ROLE, &[LOCAL]), instance.address.port());
    let meant = |name: &str| Member {
        name: name.to_owned(),
        host: LOCAL.to_owned(),
    };
    let members = [meant("orders-0"), meant("orders-1")];
    let survey = peers.survey(&members).await;
    assert_eq!(survey["orders-0"], Err(PeerError::Another("orders-1".into())));
    assert_eq!(survey["orders-1"].as_ref().unwrap().0.name, "orders-1");
    let refused = peers.plead(&members[..1], &plea()).await;
    let Err(PeerError::Refused { status, reason }) = &refused["orders-0"] else {
        panic!("{refused:?}");
    };
    assert_eq!(*status, StatusCode::MISDIRECTED_REQUEST);
    assert_eq!(
        reason,
        "/failsafe?instance=orders-0 is for another instance; this is orders-1"
    );
    assert!(instance.requests.try_recv().is_err(), "it was passed on");
    grant_all(&mut instance);
    let granted = peers.plead(&members, &plea()).await;
    assert_eq!(granted["orders-1"], Ok(()));
    assert!(granted["orders-0"].is_err());
}

#[tokio::test]
async fn what_is_no_plea_is_refused_before_the_supervisor_hears_of_it() {
    let authority = Authority::new();
    let mut instance = instance(&authority).await;
    let port = instance.address.port();
    let client = client(&authority.credentials(INSTANCE_ROLE, &[LOCAL]));
    for (body, expected) in [
        ("{}".to_owned(), 400),
        ("x".to_owned(), 400),
        ("x".repeat(1 << 20), 413),
    ] {
        let path = meant_for(LOCAL, FAILSAFE);
        let answer = client.post(LOCAL, port, &path, Bytes::from(body), LIMIT).await;
        // A body that is not read to its end may break the connection before the answer is read.
        match answer {
            Ok(answer) => assert_eq!(answer.status.as_u16(), expected),
            Err(error) => assert!(
                expected == 413 && matches!(error, CallError::Unreachable(_)),
                "{error}"
            ),
        }
    }
    let answer = client.get(LOCAL, port, FAILSAFE, LIMIT).await.unwrap();
    assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(instance.requests.try_recv().is_err());
}

fn answers(body: impl Into<Bytes>) -> axum::Router {
    let body = body.into();
    axum::Router::new().fallback(async move || body)
}

#[tokio::test]
async fn a_peer_that_hangs_or_sends_garbage_or_megabytes_costs_only_its_own_time() {
    let addresses: Vec<Ipv4Addr> = (1..=7).map(|last| Ipv4Addr::new(127, 0, 8, last)).collect();
    let names: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let authority = Authority::new();
    let tls = authority.tls(INSTANCE_ROLE, &names);
    let mut good = Instance::begin(tls.clone(), addresses[0], 0).await;
    grant_all(&mut good);
    let port = good.address.port();
    let silence = tokio::spawn(misbehaving::silent(addresses[1], port));
    tokio::spawn(misbehaving::babbling(addresses[2], port));
    let hangs = axum::Router::new().fallback(std::future::pending::<Bytes>);
    for (address, answer) in [
        (addresses[3], hangs),
        (addresses[4], answers("no report")),
        (addresses[5], answers(vec![b' '; 8 << 20])),
    ] {
        tokio::spawn(misbehaving::answering(tls.clone(), address, port, answer));
    }
    // Nobody listens at the last one.
    sleep(Duration::from_millis(100)).await;
    let members: Vec<_> = addresses.iter().map(|&address| member(address.into())).collect();
    let (peers, peers_tls) = (Peers::on_port(tls.clone(), port), tls);

    let started = Instant::now();
    let survey = peers.survey(&members).await;
    let took = started.elapsed();
    assert!(took < Duration::from_millis(1500), "{took:?}");
    let (report, asked_at) = survey[&members[0].name].as_ref().unwrap();
    assert_eq!(report.name, members[0].host);
    assert!(*asked_at - started < Duration::from_millis(500));
    let error = |at: usize| survey[&members[at].name].as_ref().unwrap_err();
    let late = PeerError::Call(CallError::Late(Duration::from_secs(1)));
    assert_eq!((error(1), error(3)), (&late, &late));
    assert!(
        matches!(error(2), PeerError::Call(CallError::Unreachable(_))),
        "{}",
        error(2)
    );
    assert!(matches!(error(4), PeerError::Malformed(_)), "{}", error(4));
    assert_eq!(error(5), &PeerError::Call(CallError::TooLong(64 << 10)));
    assert!(
        error(6).to_string().contains("Connection refused"),
        "{}",
        error(6)
    );

    let started = Instant::now();
    let granted = peers.plead(&members, &plea()).await;
    let took = started.elapsed();
    assert!(took < Duration::from_millis(1300), "{took:?}");
    assert_eq!(granted[&members[0].name], Ok(()));
    let refused = |at: usize| granted[&members[at].name].is_err();
    assert!(refused(1) && refused(2) && refused(3) && refused(6));

    // One that answers goes on being heard, and one that has been silent is heard once it answers.
    let silent = members[1].clone();
    for round in 0..20 {
        let survey = peers.survey(&members[..1]).await;
        assert!(survey[&members[0].name].is_ok(), "round {round}: {survey:?}");
    }
    silence.abort();
    let _ = silence.await;
    let _awake = Instance::begin(peers_tls, addresses[1], port).await;
    let survey = tokio::spawn(async move { peers.survey(&[silent]).await })
        .await
        .unwrap();
    assert!(survey.values().all(Result::is_ok), "{survey:?}");
}

#[tokio::test]
async fn idle_connections_do_not_keep_a_server_from_ending() {
    let authority = Authority::new();
    let instance = instance(&authority).await;
    let client = client(&authority.credentials(INSTANCE_ROLE, &[LOCAL]));
    assert_eq!(
        ask(&client, instance.address.port(), STATUS)
            .await
            .unwrap()
            .status,
        200
    );
    let started = Instant::now();
    instance.stop().await;
    assert!(started.elapsed() < Duration::from_secs(1));
}

/// A kubelet that got no connection would take a database that is well for dead.
#[tokio::test]
async fn who_holds_on_to_connections_leaves_some_to_the_kubelet() {
    let authority = Authority::new();
    let instance = instance(&authority).await;
    let greedy = (0..100).map(|_| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::new(127, 0, 0, 9), 0).into()).unwrap();
        socket.connect(instance.address)
    });
    let _held = join_all(greedy).await;
    let kubelet = timeout(
        Duration::from_secs(2),
        ask_as_nobody(&authority, instance.address.port(), LIVENESS),
    );
    assert_eq!(kubelet.await.expect("it has a connection").0, 200);
}
