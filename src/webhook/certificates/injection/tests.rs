use super::*;
use crate::pki::testing::{Issued, at};
use crate::telemetry::captured::Captured;
use crate::webhook::certificates::served::Trust;
use bytes::Bytes;
use http::{Method, Request as HttpRequest, Response};
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const HOUR: Duration = Duration::from_secs(3600);
const PATIENCE: Duration = Duration::from_secs(5);

/// An injector that keeps this patience with the definition of things, at an API server that a test plays.
fn injector<S>(service: S, patience: Duration) -> Injector
where
    S: tower::Service<HttpRequest<Body>, Response = Response<Full<Bytes>>, Error = Infallible>
        + Send
        + 'static,
    S::Future: Send + 'static,
{
    let webhook = WebhookService {
        namespace: "ns".into(),
        name: "a".into(),
        port: 443,
    };
    let definition = Converted {
        name: "things.test".into(),
        versions: vec!["v1".into(), "v2".into()],
    };
    let targets = Targets {
        definitions: vec![definition],
        conversion_path: "/convert".into(),
        opened: "example.com/opened",
        patience,
        ..Targets::default()
    };
    Injector::new(
        Client::new(service, "ns"),
        webhook,
        targets,
        Clock::telling(|| at(0)),
    )
}

/// Follows for so long.
async fn follow(injector: Injector, time: Duration) {
    let certificates = Certificates::default();
    certificates.publish(Served {
        pair: Issued::by_new_authority("a.ns.svc", at(0)).pair(),
        trust: Trust::Theirs,
    });
    let ended = tokio::time::timeout(time, injector.follow(certificates)).await;
    assert!(ended.is_err(), "it never ends");
}

/// How often an injector asks within an hour a server that gives this answer to a look at the definition, refuses every write as late,
/// and permits no watch.
async fn an_hour(code: u16, answer: Value) -> usize {
    let asked = Arc::<AtomicUsize>::default();
    let counter = Arc::clone(&asked);
    let service = tower::service_fn(move |request: HttpRequest<Body>| {
        counter.fetch_add(1, Ordering::Relaxed);
        let is_look = request.uri().path().ends_with("/things.test");
        let (code, answer) = match *request.method() {
            Method::PUT => (409, status(409, "another was first")),
            _ if is_look => (code, answer.clone()),
            _ => (403, status(403, "no watch for you")),
        };
        let response = response(code, &answer);
        async move { Ok::<_, Infallible>(response) }
    });
    follow(injector(service, Duration::ZERO), HOUR).await;
    asked.load(Ordering::Relaxed)
}

fn response(code: u16, answer: &Value) -> Response<Full<Bytes>> {
    let response = Response::builder().status(code);
    response.body(Full::new(Bytes::from(answer.to_string()))).unwrap()
}

/// A definition that is written as it is said, and who wrote what when.
#[derive(Clone)]
struct Played {
    definition: Arc<Mutex<Value>>,
    writes: Arc<Mutex<Vec<(Duration, Value)>>>,
    begin: Instant,
    conflicts: usize,
}

impl Played {
    /// v1 is stored, v2 is open, and nothing converts. The first so many writes are refused as late.
    fn open(conflicts: usize) -> Self {
        let metadata = json!({"resourceVersion": "1", "annotations": {"example.com/opened": "v2"}});
        let versions = json!([
            {"name": "v1", "served": true, "storage": true},
            {"name": "v2", "served": true, "storage": false},
        ]);
        let spec = json!({"conversion": {"strategy": "None"}, "versions": versions});
        Self {
            definition: Arc::new(Mutex::new(json!({"metadata": metadata, "spec": spec}))),
            writes: Arc::default(),
            begin: Instant::now(),
            conflicts,
        }
    }

    async fn answer(self, request: HttpRequest<Body>) -> Result<Response<Full<Bytes>>, Infallible> {
        if !request.uri().path().ends_with("/things.test") {
            return Ok(response(403, &status(403, "no watch for you")));
        }
        if request.method() == Method::PUT {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let patch: Value = serde_json::from_slice(&body).unwrap();
            let mut writes = self.writes.lock().unwrap();
            writes.push((self.begin.elapsed(), patch["spec"].clone()));
            if writes.len() <= self.conflicts {
                return Ok(response(409, &status(409, "another was first")));
            }
            let mut definition = self.definition.lock().unwrap();
            for (field, value) in patch["spec"].as_object().unwrap() {
                definition["spec"][field] = value.clone();
            }
        }
        Ok(response(200, &self.definition.lock().unwrap()))
    }

    /// What an injector with a patience of 5 s writes within this time: what is closed by it, or healed, and when.
    async fn written(&self, time: Duration) -> Vec<(&'static str, Duration)> {
        let played = self.clone();
        let service = tower::service_fn(move |request| played.clone().answer(request));
        follow(injector(service, PATIENCE), time).await;
        let writes = self.writes.lock().unwrap();
        let written = writes.iter().map(|(when, spec)| {
            let heals = spec["conversion"]["strategy"] == "Webhook";
            assert_eq!(
                spec["versions"][1]["served"], heals,
                "open only with a conversion"
            );
            (if heals { "heal" } else { "close" }, *when)
        });
        written.collect()
    }
}

/// Whether this happened at this time, but for what the look before it may take.
fn is_about((_, when): (&str, Duration), expected: Duration) -> bool {
    (expected..expected + 2 * GATHER).contains(&when)
}

#[tokio::test(start_paused = true)]
async fn what_is_open_unconverted_is_closed_at_once_and_healed_after_the_patience() {
    let written = Played::open(0).written(HOUR).await;
    let [close, heal] = written[..] else {
        panic!("{written:?}");
    };
    assert_eq!((close.0, heal.0), ("close", "heal"));
    assert!(is_about(close, Duration::ZERO), "{close:?}");
    assert!(is_about(heal, close.1 + PATIENCE), "{heal:?}");
}

#[tokio::test(start_paused = true)]
async fn what_somebody_else_puts_right_within_the_patience_is_not_healed() {
    let played = Played::open(0);
    let somebody = played.clone();
    tokio::spawn(async move {
        sleep(Duration::from_secs(2)).await;
        let client_config = json!({"service": {"namespace": "ns", "name": "b"}, "caBundle": "bm9uZQ=="});
        let webhook = json!({"strategy": "Webhook", "webhook": {"clientConfig": client_config}});
        somebody.definition.lock().unwrap()["spec"]["conversion"] = webhook;
    });
    let written = played.written(HOUR).await;
    assert!(matches!(written[..], [("close", _)]), "{written:?}");
}

/// Somebody wrote between the look and the write, so it has to be decided anew, and not in the same breath.
#[tokio::test(start_paused = true)]
async fn a_conflict_ends_the_round() {
    let written = Played::open(1).written(HOUR).await;
    let [refused, close, heal] = written[..] else {
        panic!("{written:?}");
    };
    assert_eq!((refused.0, close.0, heal.0), ("close", "close", "heal"));
    assert!(close.1 - refused.1 >= GATHER, "{written:?}");
    assert!(close.1 - refused.1 <= RETRY.base + GATHER, "{written:?}");
    assert!(is_about(heal, refused.1 + PATIENCE), "{written:?}");
}

fn status(code: u16, message: &str) -> Value {
    json!({"kind": "Status", "status": "Failure", "code": code, "reason": "Forbidden", "message": message})
}

#[tokio::test(start_paused = true)]
async fn trouble_is_told_once_and_not_hammered_on() {
    let logged = Captured::begin();
    let asked = an_hour(500, status(500, "etcd is away")).await;
    let told =
        logged.lines_with("cannot read the CustomResourceDefinition things.test: ApiError: etcd is away");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!((60..700).contains(&asked), "{asked} requests in an hour");
}

#[tokio::test(start_paused = true)]
async fn whom_it_leads_to_is_told_once_if_not_to_us() {
    let logged = Captured::begin();
    let asked = an_hour(200, of_somebody_else()).await;
    let told = logged.lines_with("the Service ns/b");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!((60..700).contains(&asked), "{asked} requests in an hour");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_others_write_each_time_is_given_up_for_now() {
    let logged = Captured::begin();
    let definition = json!({"metadata": {"resourceVersion": "1"}, "spec": {}});
    let asked = an_hour(200, definition).await;
    let told = logged.lines_with("others wrote it each time");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!((60..2000).contains(&asked), "{asked} requests in an hour");
}

/// A definition that leads to somebody else, of which there is nothing to do.
fn of_somebody_else() -> Value {
    let client_config = json!({"service": {"namespace": "ns", "name": "b"}, "caBundle": "bm9uZQ=="});
    let conversion = json!({"strategy": "Webhook", "webhook": {"clientConfig": client_config}});
    json!({"metadata": {"resourceVersion": "1"}, "spec": {"conversion": conversion}})
}

/// OLM looks at the definition soon after it has written it.
#[tokio::test(start_paused = true)]
async fn the_first_change_after_a_while_is_answered_at_once_and_the_next_are_gathered() {
    let begin = Instant::now();
    let (looks, changed) = (
        Arc::<Mutex<Vec<Duration>>>::default(),
        Arc::<Mutex<Vec<Duration>>>::default(),
    );
    let (noted, told) = (Arc::clone(&looks), Arc::clone(&changed));
    let service = tower::service_fn(move |request: HttpRequest<Body>| {
        let (noted, told) = (Arc::clone(&noted), Arc::clone(&told));
        async move {
            if request.uri().path().ends_with("/things.test") {
                noted.lock().unwrap().push(begin.elapsed());
                return Ok::<_, Infallible>(response(200, &of_somebody_else()));
            }
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch"));
            if !is_watch {
                let items = json!({"metadata": {"resourceVersion": "1"}, "items": []});
                return Ok(response(200, &items));
            }
            let is_first = told.lock().unwrap().is_empty();
            if !is_first {
                std::future::pending::<()>().await;
            }
            sleep(Duration::from_secs(2)).await;
            told.lock().unwrap().push(begin.elapsed());
            let change = |version: &str| {
                let metadata = json!({"name": "things.test", "resourceVersion": version});
                let object = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata});
                format!("{}\n", json!({"type": "MODIFIED", "object": object}))
            };
            let changes = ["2", "3", "4"].map(change).concat();
            Ok(Response::new(Full::new(Bytes::from(changes))))
        }
    });
    follow(injector(service, PATIENCE), Duration::from_secs(5)).await;
    let (looks, changed) = (looks.lock().unwrap(), changed.lock().unwrap()[0]);
    let of_changes: Vec<Duration> = looks.iter().copied().filter(|when| *when >= changed).collect();
    assert!(
        of_changes[0] < changed + Duration::from_millis(10),
        "{changed:?}: {looks:?}"
    );
    assert!(of_changes.len() <= 3, "{looks:?}");
    assert!(looks.windows(2).all(|two| two[1] - two[0] >= GATHER), "{looks:?}");
}
