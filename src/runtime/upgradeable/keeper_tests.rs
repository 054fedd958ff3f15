use super::*;
use crate::runtime::client::Clients;
use crate::runtime::clock::Clock;
use crate::runtime::lease::Leadership;
use crate::runtime::metrics::RuntimeMetrics;
use crate::telemetry::captured::Captured;
use crate::telemetry::metrics::Metrics;
use http::{Method, Request, Response};
use http_body_util::Full;
use jiff::Timestamp;
use kube::client::Body;
use serde_json::{Value, json};
use std::convert::Infallible;
use tokio::task::JoinSet;
use tokio::time::sleep;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
/// The latest that an end is written after it.
const SOON: Duration = Duration::from_secs(6);

fn dawn() -> Timestamp {
    "2030-01-01T00:00:00Z".parse().unwrap()
}

/// The one OperatorCondition, as an API server keeps it.
struct Server {
    object: Option<Value>,
    version: u64,
    reads: usize,
    /// What was written of us, and when.
    history: Vec<(Duration, String)>,
    start: Instant,
    /// So many writes find that somebody else was first.
    conflicts: u32,
    /// With this code everything is refused.
    refuses: Option<u16>,
    /// Nothing is answered.
    hangs: bool,
}

impl Server {
    fn answer(&mut self, method: &Method, body: &[u8]) -> (u16, Value) {
        if let Some(code) = self.refuses {
            return status(code);
        }
        if *method == Method::GET {
            self.reads += 1;
            return self
                .object
                .clone()
                .map_or_else(|| status(404), |object| (200, object));
        }
        assert_eq!(
            *method,
            Method::PATCH,
            "OLM gives the right to get, update and patch"
        );
        let patch: Value = serde_json::from_slice(body).unwrap();
        let Some(object) = &mut self.object else {
            return status(404);
        };
        if self.conflicts > 0 {
            self.conflicts -= 1;
            self.version += 1;
            let others = json!({"type": "Others", "status": "True", "version": self.version});
            object["spec"]["conditions"] = json!([others]);
            object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        }
        if patch["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] {
            return status(409);
        }
        self.version += 1;
        object["spec"]["conditions"] = patch["spec"]["conditions"].clone();
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let answer = object.clone();
        let said = self.said();
        self.history.push((self.start.elapsed(), said));
        (200, answer)
    }

    /// `STATUS REASON MESSAGE`.
    fn said(&self) -> String {
        let conditions = self.object.as_ref().map(|object| &object["spec"]["conditions"]);
        let mut conditions = conditions.and_then(Value::as_array).into_iter().flatten();
        let ours = conditions.find(|condition| condition["type"] == UPGRADEABLE);
        let word = |ours: &Value, field: &str| ours[field].as_str().unwrap_or_default().to_owned();
        ours.map_or_else(String::new, |ours| {
            ["status", "reason", "message"]
                .map(|field| word(ours, field))
                .join(" ")
        })
    }
}

fn status(code: u16) -> (u16, Value) {
    (
        code,
        json!({"kind": "Status", "status": "Failure", "code": code, "reason": "", "message": "no"}),
    )
}

/// An OperatorCondition that says so.
fn object(conditions: Value) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v2",
        "kind": "OperatorCondition",
        "metadata": {"name": "roadstead.v0.1.0", "namespace": "operators", "uid": "1", "resourceVersion": "1"},
        "spec": {"deployments": ["roadstead-operator"], "conditions": conditions},
    })
}

fn saying(status: &str, reason: &str, time: &str) -> Value {
    object(json!([{
        "type": UPGRADEABLE, "status": status, "reason": reason, "message": "of a", "lastTransitionTime": time,
    }]))
}

/// A leader that keeps the condition, and what it writes to.
struct World {
    server: Arc<Mutex<Server>>,
    upgradeable: Upgradeable,
    keeper: JoinSet<Infallible>,
}

impl World {
    fn new(object: Option<Value>) -> Self {
        Self::led(object, &Leadership::unneeded())
    }

    fn led(object: Option<Value>, leadership: &Leadership) -> Self {
        let server = Arc::new(Mutex::new(Server {
            object,
            version: 1,
            reads: 0,
            history: Vec::new(),
            start: Instant::now(),
            conflicts: 0,
            refuses: None,
            hangs: false,
        }));
        let key = ObjectKey::namespaced("operators", "roadstead.v0.1.0");
        let mut world = Self {
            server,
            upgradeable: Upgradeable::new(Some(key)),
            keeper: JoinSet::new(),
        };
        world.start(leadership);
        world
    }

    fn start(&mut self, leadership: &Leadership) {
        let server = Arc::clone(&self.server);
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = Arc::clone(&server);
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                if server.lock().unwrap().hangs {
                    std::future::pending::<()>().await;
                }
                sleep(Duration::from_millis(1)).await;
                let (code, answer) = server.lock().unwrap().answer(&parts.method, &body);
                let answer = Full::new(bytes::Bytes::from(answer.to_string()));
                Ok::<_, Infallible>(Response::builder().status(code).body(answer).unwrap())
            }
        });
        let metrics = RuntimeMetrics::register(&Metrics::new());
        let clients = Clients::over(service, leadership.clone(), HOUR, &metrics);
        let keeper = Keeper::new(&self.upgradeable, clients.fenced, Clock::starting_at(dawn()));
        self.keeper.spawn(keeper.run());
    }

    /// What is written when all has been quiet for a while.
    async fn said_after(&self, wait: Duration) -> String {
        sleep(wait).await;
        self.server.lock().unwrap().said()
    }

    fn failover(&self, limit: Duration) -> Hold {
        self.upgradeable.hold("Failover", "of a", limit)
    }

    fn writes(&self) -> usize {
        self.server.lock().unwrap().history.len()
    }

    fn change(&self, change: impl FnOnce(&mut Server)) {
        change(&mut self.server.lock().unwrap());
    }
}

const IDLE: &str = "True NothingUnderWay nothing is under way that an update would endanger";

#[tokio::test(start_paused = true)]
async fn it_says_from_the_beginning_that_updates_may_come_and_writes_no_more_while_nothing_happens() {
    let world = World::new(Some(object(json!([]))));
    assert_eq!(world.said_after(HOUR).await, IDLE);
    assert_eq!(world.writes(), 1);
    let reads = world.server.lock().unwrap().reads;
    assert!((55..=65).contains(&reads), "{reads} reads in an hour");
}

#[tokio::test(start_paused = true)]
async fn updates_are_held_back_from_the_first_hold_to_the_end_of_the_last() {
    let world = World::new(Some(object(Value::Null)));
    assert_eq!(world.said_after(MINUTE).await, IDLE);
    let first = world.failover(HOUR);
    assert_eq!(first.written(MINUTE).await, Ok(Gate::Shut));
    assert_eq!(world.said_after(Duration::ZERO).await, "False Failover of a");
    let second = world.upgradeable.hold("Resharding", "of r", HOUR);
    assert!(
        second.written(Duration::ZERO).await.is_err(),
        "nobody has looked yet"
    );
    assert_eq!(
        second.written(Duration::from_millis(1)).await,
        Ok(Gate::Shut),
        "they are held back already"
    );
    assert_eq!(world.said_after(SOON).await, "False SeveralOperations of a; of r");
    drop(first);
    assert_eq!(world.said_after(SOON).await, "False Resharding of r");
    drop(second);
    assert_eq!(world.said_after(SOON).await, IDLE);
    let server = world.server.lock().unwrap();
    let ours = &server.object.as_ref().unwrap()["spec"]["conditions"][0];
    assert_eq!(ours["lastTransitionTime"], "2030-01-01T00:01:15Z");
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_kept_too_long_ends_by_itself_and_is_told_once() {
    let log = Captured::begin();
    let world = World::new(Some(object(json!([]))));
    let _kept = world.failover(10 * MINUTE);
    assert_eq!(world.said_after(10 * MINUTE - SOON).await, "False Failover of a");
    assert_eq!(world.said_after(2 * SOON).await, IDLE);
    assert_eq!(world.said_after(HOUR).await, IDLE);
    let lines = log.lines_with("has not ended in its time");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains("WARN") && lines[0].contains("\"of a\""),
        "{lines:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn whatever_is_held_updates_are_let_through_for_a_while_after_the_longest_time() {
    let world = World::new(Some(object(json!([]))));
    sleep(MINUTE).await;
    // A new hold each minute, with a pause after each that OLM would not notice.
    let held = async {
        loop {
            let hold = world.failover(HOUR);
            sleep(MINUTE).await;
            drop(hold);
            sleep(2 * SOON).await;
        }
    };
    let _ = tokio::time::timeout(2 * LONGEST, held).await;
    let server = world.server.lock().unwrap();
    let forced = server
        .history
        .iter()
        .position(|(_, said)| said.starts_with("True HeldTooLong"))
        .unwrap();
    // The pause before it is part of it.
    let shut = server.history[..forced]
        .iter()
        .rposition(|(_, said)| said.starts_with("False"))
        .unwrap();
    let (from, next) = (server.history[shut + 1].0, server.history[forced + 1].clone());
    assert!(from <= LONGEST + 2 * MINUTE, "{from:?}");
    assert!(
        next.0 - from >= NOTICED && next.1.starts_with("False"),
        "{next:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_time_for_which_updates_are_let_through_begins_when_that_is_written() {
    let world = World::new(Some(object(json!([]))));
    let _first = world.failover(HOUR + LONGEST);
    sleep(LONGEST - Duration::from_secs(1)).await;
    // Its words are written now, so that what comes in a second has to wait.
    let _second = world.failover(HOUR);
    let _third = world.upgradeable.hold("Resharding", "of r", HOUR);
    sleep(2 * NOTICED).await;
    let server = world.server.lock().unwrap();
    let [.., (_, shut), (from, forced), (until, again)] = server.history.as_slice() else {
        panic!("{:?}", server.history);
    };
    assert_eq!(shut, "False SeveralOperations of a; of r");
    assert!(
        forced.starts_with("True HeldTooLong") && *from > LONGEST + Duration::from_secs(3),
        "{from:?}: {forced}"
    );
    assert!(
        again.starts_with("False") && *until - *from >= NOTICED - Duration::from_millis(10),
        "{until:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_met_with_what_is_there_by_then_and_what_others_say_stays() {
    let world = World::new(Some(object(json!([]))));
    world.change(|server| server.conflicts = 2);
    assert_eq!(world.said_after(Duration::from_secs(1)).await, IDLE);
    let server = world.server.lock().unwrap();
    let conditions = &server.object.as_ref().unwrap()["spec"]["conditions"];
    assert_eq!(
        conditions[0],
        json!({"type": "Others", "status": "True", "version": 3})
    );
    assert_eq!(
        (conditions.as_array().unwrap().len(), server.history.len()),
        (2, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn where_there_is_no_condition_nobody_waits_and_one_line_says_so_and_one_that_comes_is_found() {
    let log = Captured::begin();
    let world = World::new(None);
    let hold = world.failover(HOUR);
    assert_eq!(hold.written(MINUTE).await, Ok(Gate::Absent));
    let another = world.failover(HOUR);
    assert_eq!(another.written(Duration::from_millis(1)).await, Ok(Gate::Absent));
    sleep(10 * MINUTE).await;
    let lines = log.lines_with("there is no OperatorCondition");
    assert!(lines.len() == 1 && lines[0].contains("INFO"), "{lines:?}");
    assert!(log.lines_with("WARN").is_empty());

    world.change(|server| server.object = Some(object(json!([]))));
    assert_eq!(world.said_after(MINUTE).await, "False Failover of a");
    world.change(|server| server.object = None);
    sleep(2 * MINUTE).await;
    assert_eq!(world.failover(HOUR).written(MINUTE).await, Ok(Gate::Absent));
    assert!(log.lines_with("WARN").is_empty());
}

#[tokio::test(start_paused = true)]
async fn without_a_name_nothing_is_asked_and_nobody_waits() {
    let refuse =
        |_: Request<Body>| async { panic!("asked") as Result<Response<Full<bytes::Bytes>>, Infallible> };
    let client = kube::Client::new(tower::service_fn(refuse), "ns");
    let upgradeable = Upgradeable::new(None);
    let hold = upgradeable.hold("Failover", "of a", MINUTE);
    assert_eq!(hold.written(Duration::from_millis(1)).await, Ok(Gate::Absent));
    let log = Captured::begin();
    let keeper = Keeper::new(&upgradeable, client, Clock::starting_at(dawn())).run();
    assert!(tokio::time::timeout(HOUR, keeper).await.is_err());
    assert_eq!(log.lines_with("has not ended in its time").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_leader_held_back_comes_through_unless_its_successor_takes_it_up() {
    let left = || Some(saying("False", "Failover", "2029-12-31T23:50:00Z"));
    let world = World::new(left());
    assert_eq!(world.said_after(TAKEN_UP - SOON).await, "False Failover of a");
    assert_eq!(world.said_after(2 * SOON).await, IDLE);

    let world = World::new(left());
    sleep(MINUTE).await;
    let hold = world.failover(2 * LONGEST);
    assert_eq!(hold.written(MINUTE).await, Ok(Gate::Shut));
    assert_eq!(world.said_after(HOUR).await, "False Failover of a");
    assert_eq!(world.writes(), 0, "it says so already");
    // Ten minutes of the longest time had passed under the one before.
    let said = world.said_after(LONGEST - HOUR - 10 * MINUTE).await;
    assert!(said.starts_with("True HeldTooLong"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_does_not_cut_short_the_time_for_which_updates_are_let_through() {
    let world = World::new(Some(saying("True", "HeldTooLong", "2029-12-31T23:55:00Z")));
    let hold = world.failover(HOUR);
    assert_eq!(hold.written(MINUTE).await, Ok(Gate::Open));
    let said = world.said_after(9 * MINUTE).await;
    assert!(said.starts_with("True HeldTooLong"), "{said}");
    assert_eq!(world.said_after(2 * MINUTE).await, "False Failover of a");
}

#[tokio::test(start_paused = true)]
async fn many_short_operations_become_few_writes() {
    let world = World::new(Some(object(json!([]))));
    sleep(MINUTE).await;
    for _ in 0..600 {
        let hold = world.failover(MINUTE);
        sleep(Duration::from_millis(50)).await;
        drop(hold);
        sleep(Duration::from_millis(50)).await;
    }
    assert!(
        world.writes() <= 1 + 2 * 12 + 2,
        "{} writes in a minute",
        world.writes()
    );
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_written_is_tried_now_and_then_and_told_once_and_whoever_waits_is_told() {
    let log = Captured::begin();
    let world = World::new(Some(object(json!([]))));
    world.change(|server| server.refuses = Some(403));
    let hold = world.failover(HOUR);
    let error = hold.written(MINUTE).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "the OperatorCondition operators/roadstead.v0.1.0 could not be written within 60000 ms"
    );
    sleep(10 * MINUTE).await;
    let lines = log.lines_with("is not as it should be");
    assert!(
        lines.len() == 1 && lines[0].contains("could not read it"),
        "{lines:?}"
    );
    let tries = log.lines_with("still not").len();
    assert!((20..=40).contains(&tries), "{tries} tries in 11 minutes");

    world.change(|server| server.refuses = None);
    assert_eq!(
        world.said_after(Duration::from_secs(31)).await,
        "False Failover of a"
    );
    assert_eq!(hold.written(Duration::from_millis(1)).await, Ok(Gate::Shut));
    assert_eq!(log.lines_with("as it should be again").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_given_up_and_asked_again() {
    let log = Captured::begin();
    let world = World::new(Some(object(json!([]))));
    world.change(|server| server.hangs = true);
    sleep(Duration::from_secs(5)).await;
    sleep(Duration::from_millis(1)).await;
    assert_eq!(log.lines_with("could not read it within 5 s").len(), 1);
    world.change(|server| server.hangs = false);
    assert_eq!(world.said_after(SOON).await, IDLE);
}

#[tokio::test(start_paused = true)]
async fn one_that_does_not_lead_writes_nothing() {
    let leadership = Leadership::standby();
    let world = World::led(Some(object(json!([]))), &leadership);
    assert_eq!(world.said_after(MINUTE).await, "");
    leadership.lead_until(Instant::now() + HOUR);
    assert_eq!(world.said_after(MINUTE).await, IDLE);
}

#[tokio::test(start_paused = true)]
async fn what_somebody_writes_in_its_place_is_put_right_within_a_minute_or_so() {
    let world = World::new(Some(object(json!([]))));
    let _hold = world.failover(HOUR);
    sleep(SOON).await;
    world.change(|server| {
        let object = server.object.as_mut().unwrap();
        object["spec"]["conditions"][0]["status"] = json!("True");
    });
    assert_eq!(world.said_after(MINUTE + SOON).await, "False Failover of a");
}
