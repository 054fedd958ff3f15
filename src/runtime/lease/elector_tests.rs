//! Candidates against a lease in memory, on a paused clock, over a network that delays, loses and cuts off.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep};
use tower::BoxError;

use super::{Elector, Leadership, LeaseConfig, LeaseLost, Outlook};
use crate::runtime::client::Clients;
use crate::runtime::clock::Clock;
use crate::runtime::jitter::Jitter;
use crate::runtime::metrics::RuntimeMetrics;
use crate::telemetry::metrics::Metrics;

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// What comes between a candidate and one of its writes.
enum Trouble {
    /// Somebody annotates the lease just before.
    Annotated,
    /// Somebody else writes this into `holderIdentity` just before.
    Handed(&'static str),
    /// The API server fails, and writes nothing.
    Failed,
}

/// The one lease, as an API server keeps it.
#[derive(Default)]
struct Server {
    lease: Option<Value>,
    version: u64,
    watches: Vec<UnboundedSender<Bytes>>,
    /// What happens to the next writes, in this order.
    troubles: VecDeque<Trouble>,
    /// Whether the namespace of the lease is missing, and how often it was tried to create one in it.
    homeless: Option<usize>,
}

impl Server {
    fn handle(&mut self, method: &Method, query: &str, body: &[u8]) -> Answer {
        if query.contains("watch=true") {
            return self.watch();
        }
        let sent = || serde_json::from_slice::<Value>(body).unwrap();
        if method == Method::PUT && self.is_troubled() {
            return status(500);
        }
        match (method, &self.lease) {
            (&Method::GET, Some(lease)) => json_answer(200, lease),
            (&Method::GET | &Method::PUT, None) => status(404),
            (&Method::POST, _) if let Some(tries) = &mut self.homeless => {
                *tries += 1;
                status(404)
            }
            (&Method::POST, Some(_)) => status(409),
            (&Method::POST, None) => self.store(sent(), "ADDED"),
            (&Method::PUT, Some(lease)) => {
                let sent = sent();
                let same = sent["metadata"]["resourceVersion"] == lease["metadata"]["resourceVersion"];
                if same {
                    self.store(sent, "MODIFIED")
                } else {
                    status(409)
                }
            }
            _ => status(405),
        }
    }

    /// Lets happen what is to happen to the next write. True when it fails of it.
    fn is_troubled(&mut self) -> bool {
        let (Some(trouble), Some(mut lease)) = (self.troubles.pop_front(), self.lease.clone()) else {
            return false;
        };
        match trouble {
            Trouble::Annotated => {
                lease["metadata"]["annotations"]["seen"] = json!(self.version.to_string());
            }
            Trouble::Handed(to) => lease["spec"]["holderIdentity"] = json!(to),
            Trouble::Failed => return true,
        }
        self.store(lease, "MODIFIED");
        false
    }

    fn store(&mut self, mut lease: Value, event: &str) -> Answer {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let line = format!("{}\n", json!({"type": event, "object": lease}));
        self.watches
            .retain(|watch| watch.send(line.clone().into()).is_ok());
        let answer = json_answer(200, &lease);
        self.lease = Some(lease);
        answer
    }

    fn watch(&mut self) -> Answer {
        let (send, receive) = unbounded_channel::<Bytes>();
        self.watches.push(send);
        let lines = futures::stream::unfold(receive, |mut receive| async {
            Some((receive.recv().await?, receive))
        });
        Response::new(StreamBody::new(lines.map(|line| Ok(Frame::data(line)))).boxed_unsync())
    }

    fn holder(&self) -> String {
        self.lease
            .as_ref()
            .and_then(|lease| lease["spec"]["holderIdentity"].as_str())
            .unwrap_or_default()
            .to_owned()
    }
}

fn json_answer(code: u16, value: &Value) -> Answer {
    let body = Full::new(Bytes::from(value.to_string())).boxed_unsync();
    Response::builder().status(code).body(body).unwrap()
}

fn status(code: u16) -> Answer {
    json_answer(
        code,
        &json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "", "reason": ""}),
    )
}

/// What lies between a candidate and the server.
#[derive(Clone)]
struct Network {
    server: Arc<Mutex<Server>>,
    chance: Arc<Mutex<Jitter>>,
    /// Before this time requests are delayed, lost, or their answers are.
    faulty_until: Instant,
    /// Before this time nothing that this candidate sends is answered.
    cut_until: Arc<Mutex<Option<Instant>>>,
}

impl Network {
    async fn send(self, request: Request<Body>) -> Result<Answer, BoxError> {
        let cut = self.cut_until.lock().unwrap().to_owned();
        if cut.is_some_and(|until| Instant::now() < until) {
            std::future::pending::<()>().await;
        }
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let query = parts.uri.query().unwrap_or_default().to_owned();
        if Instant::now() >= self.faulty_until {
            return Ok(self.server.lock().unwrap().handle(&parts.method, &query, &body));
        }
        let (fate, there, back) = {
            let mut chance = self.chance.lock().unwrap();
            (chance.next_unit(), chance.next_unit(), chance.next_unit())
        };
        // Mostly quick, at times nearly too slow for the elector's patience, at times far beyond every deadline.
        let slow = match fate {
            0.8..0.9 => 20.0,
            0.6..0.8 => 5.0,
            _ => 0.2,
        };
        sleep(Duration::from_secs_f64(there * slow)).await;
        if fate >= 0.9 {
            // The line is cut for a while after this answer.
            let until = Instant::now() + Duration::from_secs_f64(back * 40.0);
            *self.cut_until.lock().unwrap() = Some(until.min(self.faulty_until));
        }
        if fate < 0.08 {
            return Err("lost on the way there".into());
        }
        let answer = self.server.lock().unwrap().handle(&parts.method, &query, &body);
        sleep(Duration::from_secs_f64(back * slow)).await;
        if fate < 0.2 {
            Err("lost on the way back".into())
        } else {
            Ok(answer)
        }
    }

    fn elector(&self, identity: &str, leadership: &Leadership) -> Elector {
        let metrics = RuntimeMetrics::register(&Metrics::new());
        let network = self.clone();
        let service = tower::service_fn(move |request| network.clone().send(request));
        let clients = Clients::over(service, leadership.clone(), Duration::from_secs(60), &metrics);
        Elector::new(
            clients.lease,
            LeaseConfig::new("ns", "lease", identity),
            leadership.clone(),
            Clock::system(),
            metrics,
        )
    }
}

fn network(seed: u64, faulty_for: Duration) -> Network {
    Network {
        server: Arc::default(),
        chance: Arc::new(Mutex::new(Jitter::seeded(seed))),
        faulty_until: Instant::now() + faulty_for,
        cut_until: Arc::default(),
    }
}

/// Stands for election again and again; leads for a while; is cut off, or gives up in order, or is killed.
async fn candidate(network: Network, name: usize, leadership: Leadership) {
    for life in 0_u32.. {
        let mut elector = network.elector(&format!("{name}-{life}"), &leadership);
        elector.acquire(std::future::pending()).await;
        let patience = network.chance.lock().unwrap().next_unit() * 60.0;
        let end = network.chance.lock().unwrap().next_unit();
        let lost = tokio::time::timeout(Duration::from_secs_f64(patience), elector.hold()).await;
        match lost {
            Ok(_) => {}
            Err(_) if end < 0.5 => elector.release().await,
            // Killed: whatever it had sent may still arrive, and nothing is given back. A dead process writes nothing.
            Err(_) => leadership.end(),
        }
    }
}

/// `SEEDS=first..last` tries others than the usual few: `make soak PART=random`.
fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("SEEDS") else {
        return 0..15;
    };
    let (first, last) = text.split_once("..").expect("SEEDS: first..last");
    first.parse().expect("SEEDS: a number")..last.parse().expect("SEEDS: a number")
}

#[tokio::test(start_paused = true)]
async fn whatever_the_network_does_there_are_never_two_leaders_and_in_the_end_there_is_one() {
    for seed in seeds() {
        let network = network(seed, Duration::from_secs(200));
        let leaderships: Vec<Leadership> = (0..3).map(|_| Leadership::standby()).collect();
        let mut candidates = tokio::task::JoinSet::new();
        for (name, leadership) in leaderships.iter().enumerate() {
            let line = Network {
                cut_until: Arc::default(),
                ..network.clone()
            };
            candidates.spawn(candidate(line, name, leadership.clone()));
        }
        let leaders = || {
            leaderships
                .iter()
                .filter(|leadership| leadership.is_leader())
                .count()
        };
        let mut led = 0;
        while Instant::now() < network.faulty_until {
            sleep(Duration::from_millis(20)).await;
            assert!(leaders() <= 1, "two leaders with seed {seed}");
            led += leaders();
        }
        assert!(
            led > 0,
            "nobody ever led with seed {seed}: the test tests nothing"
        );
        // Once it is quiet, somebody leads after a lease has run out at the latest.
        let mut without = Duration::ZERO;
        for _ in 0..3_000 {
            sleep(Duration::from_millis(20)).await;
            assert!(leaders() <= 1, "two leaders with seed {seed}");
            without = if leaders() == 0 {
                without + Duration::from_millis(20)
            } else {
                Duration::ZERO
            };
            assert!(without < Duration::from_secs(25), "nobody leads with seed {seed}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_given_back_is_taken_at_once() {
    let network = network(0, Duration::ZERO);
    let (first, second) = (Leadership::standby(), Leadership::standby());
    let mut leader = network.elector("first", &first);
    leader.acquire(std::future::pending()).await;
    let mut standby = network.elector("second", &second);
    let waiting = tokio::spawn(async move {
        standby.acquire(std::future::pending()).await;
        Instant::now()
    });
    let _ = tokio::time::timeout(Duration::from_secs(60), leader.hold()).await;
    assert!(!second.is_leader() && !waiting.is_finished());
    leader.release().await;
    let released = Instant::now();
    assert!(!first.is_leader());
    assert!(waiting.await.unwrap().duration_since(released) < Duration::from_millis(100));
    assert_eq!(network.server.lock().unwrap().holder(), "second");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_falls_silent_keeps_the_lease_for_its_whole_length_and_no_longer() {
    let network = network(0, Duration::ZERO);
    let (first, second) = (Leadership::standby(), Leadership::standby());
    let mut leader = network.elector("first", &first);
    leader.acquire(std::future::pending()).await;
    let silent = Instant::now();
    drop(leader);
    network
        .elector("second", &second)
        .acquire(std::future::pending())
        .await;
    let took = silent.elapsed();
    assert!(
        took >= Duration::from_secs(15) && took < Duration::from_millis(15_100),
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_an_answer_ends_at_its_deadline() {
    let network = network(0, Duration::ZERO);
    let leadership = Leadership::standby();
    let mut leader = network.elector("first", &leadership);
    leader.acquire(std::future::pending()).await;
    let renewed = Instant::now();
    *network.cut_until.lock().unwrap() = Some(Instant::now() + Duration::from_secs(1_000));
    let lost = leader.hold().await;
    assert!(
        lost.to_string().contains("could not be renewed within 10000 ms"),
        "{lost}"
    );
    assert_eq!(renewed.elapsed(), Duration::from_secs(10));
    assert!(!leadership.is_leader());
}

/// A leader, and the network to the server, where this befalls its writes from now on.
async fn leader_in(
    troubles: impl IntoIterator<Item = Trouble>,
    leadership: &Leadership,
) -> (Elector, Network) {
    let network = network(0, Duration::ZERO);
    let mut leader = network.elector("first", leadership);
    leader.acquire(std::future::pending()).await;
    network.server.lock().unwrap().troubles.extend(troubles);
    (leader, network)
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_is_annotated_again_and_again_goes_on_leading() {
    let leadership = Leadership::standby();
    let troubles = (0..5).map(|_| Trouble::Annotated);
    let (mut leader, network) = leader_in(troubles, &leadership).await;
    let lost = tokio::time::timeout(Duration::from_secs(60), leader.hold()).await;
    assert!(lost.is_err(), "{lost:?}");
    assert!(leadership.is_leader());
    let server = network.server.lock().unwrap();
    assert!(server.troubles.is_empty(), "this tests nothing");
    assert_eq!(server.holder(), "first");
    assert_eq!(
        server.lease.as_ref().unwrap()["spec"]["leaseTransitions"],
        json!(0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_only_meets_conflicts_ends_at_its_deadline() {
    let leadership = Leadership::standby();
    let troubles = (0..100).map(|_| Trouble::Annotated);
    let (mut leader, _) = leader_in(troubles, &leadership).await;
    let begun = Instant::now();
    let lost = leader.hold().await;
    assert!(matches!(lost, LeaseLost::NotRenewed { .. }), "{lost}");
    assert_eq!(begun.elapsed(), Duration::from_secs(10));
    assert!(!leadership.is_leader());
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_somebody_else_holds_stops_and_names_who() {
    for troubles in [
        vec![Trouble::Handed("other")],
        vec![Trouble::Annotated, Trouble::Handed("other")],
    ] {
        let leadership = Leadership::standby();
        let (mut leader, network) = leader_in(troubles, &leadership).await;
        let lost = leader.hold().await;
        assert!(
            matches!(&lost, LeaseLost::Taken { by, .. } if by == "other"),
            "{lost}"
        );
        assert!(!leadership.is_leader());
        assert_eq!(network.server.lock().unwrap().holder(), "other");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_never_leads_by_a_lease_that_names_nobody() {
    // Somebody clears the holder; the leader sees it, and its first try to take the lease back fails.
    let leadership = Leadership::standby();
    let troubles = [Trouble::Handed(""), Trouble::Failed];
    let (mut leader, network) = leader_in(troubles, &leadership).await;
    let lost = tokio::time::timeout(Duration::from_secs(60), leader.hold()).await;
    assert!(lost.is_err(), "{lost:?}");
    assert!(leadership.is_leader());
    assert_eq!(network.server.lock().unwrap().holder(), "first");
}

#[tokio::test(start_paused = true)]
async fn a_lease_without_a_namespace_is_tried_at_the_pace_of_retries() {
    let network = network(0, Duration::ZERO);
    network.server.lock().unwrap().homeless = Some(0);
    let mut candidate = network.elector("first", &Leadership::standby());
    assert!(!candidate.acquire(sleep(Duration::from_secs(60))).await);
    let tries = network.server.lock().unwrap().homeless.unwrap();
    assert!((10..=30).contains(&tries), "{tries} tries in a minute");
}

/// A server whose answers to writes arrive `late`, or never if that is longer than the caller waits; the writes take effect at once.
fn late_answers(server: &Arc<Mutex<Server>>, late: Duration, leadership: &Leadership) -> Elector {
    let metrics = RuntimeMetrics::register(&Metrics::new());
    let server = Arc::clone(server);
    let service = tower::service_fn(move |request: Request<Body>| {
        let server = Arc::clone(&server);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let query = parts.uri.query().unwrap_or_default().to_owned();
            let answer = server.lock().unwrap().handle(&parts.method, &query, &body);
            if parts.method == Method::POST {
                sleep(late).await;
            }
            Ok::<_, BoxError>(answer)
        }
    });
    let clients = Clients::over(service, leadership.clone(), Duration::from_secs(60), &metrics);
    let config = LeaseConfig::new("ns", "lease", "first");
    Elector::new(
        clients.lease,
        config,
        leadership.clone(),
        Clock::system(),
        metrics,
    )
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_is_stopped_during_its_claim_leaves_the_lease_free() {
    for late in [1, 4, 1_000].map(Duration::from_secs) {
        let (server, leadership) = (Arc::default(), Leadership::standby());
        let mut elector = late_answers(&server, late, &leadership);
        let stop = sleep(Duration::from_millis(100));
        let won = tokio::time::timeout(Duration::from_secs(7), elector.acquire(stop)).await;
        assert_eq!(won, Ok(false), "answer after {late:?}");
        assert!(!leadership.is_leader());
        let server = server.lock().unwrap();
        assert!(
            server.lease.is_some(),
            "the claim took effect: else this tests nothing"
        );
        assert_eq!(server.holder(), "", "answer after {late:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_work_was_cut_off_stops_writing_and_keeps_the_lease() {
    let network = network(0, Duration::ZERO);
    let leadership = Leadership::standby();
    let mut leader = network.elector("first", &leadership);
    leader.acquire(std::future::pending()).await;
    leader.leave();
    assert!(!leadership.is_leader());
    assert_eq!(network.server.lock().unwrap().holder(), "first");
}

#[tokio::test(start_paused = true)]
async fn who_cannot_reach_the_lease_for_long_is_not_ready_and_a_standby_is() {
    let network = network(0, Duration::ZERO);
    let (first, second) = (Outlook::default(), Outlook::default());
    let patience = Duration::from_secs(15);
    let leadership = Leadership::standby();
    let mut leader = network.elector("first", &leadership);
    leader.acquire(std::future::pending()).await;
    tokio::spawn(async move { leader.hold().await });

    let mut standby = network
        .elector("second", &Leadership::standby())
        .with_outlook(first.clone());
    tokio::spawn(async move { standby.acquire(std::future::pending()).await });
    let line = Network {
        cut_until: Arc::new(Mutex::new(Some(Instant::now() + Duration::from_secs(60)))),
        ..network.clone()
    };
    let mut lonely = line
        .elector("third", &Leadership::standby())
        .with_outlook(second.clone());
    tokio::spawn(async move { lonely.acquire(std::future::pending()).await });

    sleep(Duration::from_secs(10)).await;
    assert_eq!(second.check(patience), Ok(()), "a short outage is none");
    sleep(Duration::from_secs(20)).await;
    assert_eq!(first.check(patience), Ok(()));
    assert!(
        second
            .check(patience)
            .unwrap_err()
            .starts_with("Lease: no success for")
    );
    sleep(Duration::from_secs(60)).await;
    assert_eq!(second.check(patience), Ok(()), "it is over");
}
