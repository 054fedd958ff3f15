//! An API server in memory, behind a tower service, for the real client, caches and controllers on tokio's paused clock.
//!
//! It models the kinds, verbs and rules that the product uses and panics about all others. `tests/conformance_apiserver.rs` holds it to what a
//! real kube-apiserver does: both pass the same list of behaviours.
//!
//! [`cluster`] plays the built-in controllers and the kubelet, [`faults`] what goes wrong between a client and the server, [`storms`] a lot of
//! it.

#![allow(dead_code, reason = "each test binary uses what it needs of this")]

mod builtin;
pub mod cluster;
pub mod faults;
mod fields;
pub mod kinds;
mod ownership;
pub mod request;
pub mod schema;
mod selector;
mod shape;
pub mod status;
pub mod store;
pub mod storms;
mod watch;
pub mod world;
pub mod write;

use std::any::Any;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use http::Response;
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use roadstead::runtime::clock::Clock;
use serde_json::Value;
use tokio::sync::watch as channel;
use tokio::time::{Instant, sleep};

use faults::{Faults, Plan};
use ownership::Writer;
use request::{Request, Verb};
use status::Refusal;
use store::Store;
pub use watch::Travel;

/// When the simulated day begins.
const DAWN: &str = "2030-01-01T00:00:00Z";
/// How long a request and its answer are under way, each.
const LATENCY: Duration = Duration::from_millis(1);

pub type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// A request as it was answered.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Since the beginning.
    pub at: Duration,
    pub user: String,
    pub verb: Verb,
    pub kind: &'static str,
    pub name: String,
    /// Whether it was about the status alone.
    pub status: bool,
    pub summary: String,
    pub body: Value,
    /// What the HTTP answer said.
    pub code: u16,
    /// The version of the store after it.
    pub version: u64,
    /// What it deleted, as that was.
    pub deleted: Option<Arc<Value>>,
}

struct Shared {
    store: Mutex<Store>,
    news: channel::Sender<u64>,
    log: Mutex<Vec<Entry>>,
    panics: Mutex<Vec<String>>,
    start: Instant,
}

/// The API server. Clones are the same one.
#[derive(Clone)]
pub struct Sim {
    shared: Arc<Shared>,
}

impl Sim {
    /// An empty API server. Must be made on the runtime whose clock it is to follow.
    pub fn new() -> Self {
        let clock = Clock::starting_at(DAWN.parse::<Timestamp>().expect("a timestamp"));
        let shared = Shared {
            store: Mutex::new(Store::new(clock)),
            news: channel::Sender::new(0),
            log: Mutex::default(),
            panics: Mutex::default(),
            start: Instant::now(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    pub fn clock(&self) -> Clock {
        self.with(|store| store.clock.clone())
    }

    /// Does something to the objects at once, past the network, and tells the watches.
    pub fn with<T>(&self, step: impl FnOnce(&mut Store) -> T) -> T {
        let mut store = self.shared.store.lock().unwrap_or_else(PoisonError::into_inner);
        let before = store.version();
        let done = step(&mut store);
        if store.version() != before {
            self.shared.news.send_replace(store.version());
        }
        done
    }

    /// From here on `holds` is looked at after every change. It panics when it does not hold.
    pub fn always(&self, holds: impl FnMut(&Store) + Send + 'static) {
        self.with(|store| store.always(holds));
    }

    /// Changes whenever anything does.
    pub fn news(&self) -> channel::Receiver<u64> {
        self.shared.news.subscribe()
    }

    /// What was asked and answered so far.
    pub fn log(&self) -> Vec<Entry> {
        self.shared
            .log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// What the API server panicked about. The product catches panics of its reconciles, so nobody else would tell.
    pub fn panics(&self) -> Vec<String> {
        self.shared
            .panics
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    async fn noting_panics<T>(&self, step: impl Future<Output = T>) -> T {
        let done = AssertUnwindSafe(step).catch_unwind().await;
        done.unwrap_or_else(|panic| {
            self.note_panic(panic.as_ref());
            std::panic::resume_unwind(panic)
        })
    }

    fn note_panic(&self, panic: &(dyn Any + Send)) {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        self.shared
            .panics
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(text.unwrap_or_default());
    }

    /// A plain client, in whose way nothing comes.
    pub fn client(&self, user: &str) -> Client {
        Client::new(self.service(user, &Faults::default()), "default")
    }

    /// What answers the requests of `user`, with `faults` in between.
    pub fn service(
        &self,
        user: &str,
        faults: &Faults,
    ) -> impl tower::Service<
        http::Request<Body>,
        Response = Answer,
        Error = faults::Broken,
        Future: Send + 'static,
    > + Clone
    + Send
    + 'static {
        let (sim, user, faults) = (self.clone(), user.to_owned(), faults.clone());
        tower::service_fn(move |request: http::Request<Body>| {
            let (sim, user, faults) = (sim.clone(), user.clone(), faults.clone());
            async move {
                let request = sim.noting_panics(read(request)).await;
                let plan = faults.plan(&request);
                // What arrives is answered though nobody waits for it any more, and a panic in it would go with its task.
                let send = move |plan: Plan| async move {
                    sim.noting_panics(sim.answer(&user, request, &plan)).await
                };
                faults::deliver(plan, send).await
            }
        })
    }

    async fn answer(&self, user: &str, request: Request, plan: &Plan) -> Answer {
        sleep(LATENCY + plan.delay).await;
        let mut answer = match &plan.refusal {
            Some(refusal) => {
                let answer = Err(refusal.clone());
                self.note(user, &request, &answer, None);
                refused(refusal)
            }
            None if request.verb == Verb::Watch => {
                self.note(user, &request, &Ok(Arc::default()), None);
                self.watch(&request, plan.travel)
            }
            None => {
                let (answer, deleted) = self.with(|store| {
                    let target = store.get(&request.id()).cloned();
                    let answer = store.as_user(user, |store| handle(store, &request));
                    let deletes = request.verb == Verb::Delete && answer.is_ok();
                    (answer, target.filter(|_| deletes))
                });
                self.note(user, &request, &answer, deleted);
                match answer {
                    Ok(object) => respond(
                        if request.verb == Verb::Create { 201 } else { 200 },
                        &object,
                        None,
                    ),
                    Err(refusal) => refused(&refusal),
                }
            }
        };
        let date = self
            .clock()
            .now()
            .strftime("%a, %d %b %Y %H:%M:%S GMT")
            .to_string();
        let date = http::HeaderValue::from_str(&date).expect("a date");
        answer.headers_mut().insert(http::header::DATE, date);
        sleep(LATENCY).await;
        answer
    }

    fn watch(&self, request: &Request, travel: Travel) -> Answer {
        let lines = watch::watch(self, request, travel);
        let frames = lines.map(|line| Ok::<_, Infallible>(Frame::data(line)));
        let mut answer = Response::new(StreamBody::new(frames).boxed_unsync());
        answer
            .headers_mut()
            .insert("content-type", http::HeaderValue::from_static("application/json"));
        answer
    }

    fn note(
        &self,
        user: &str,
        request: &Request,
        answer: &Result<Arc<Value>, Refusal>,
        deleted: Option<Arc<Value>>,
    ) {
        let code = answer.as_ref().map_or_else(|refusal| refusal.code, |_| 200);
        let body = &request.body;
        let entry = Entry {
            at: self.shared.start.elapsed(),
            user: user.to_owned(),
            verb: request.verb,
            kind: request.kind.kind,
            name: request.name.clone(),
            status: request.status,
            summary: request.summary(),
            body: if request.verb.is_write() {
                body.clone()
            } else {
                Value::Null
            },
            code,
            version: self.with(|store| store.version()),
            deleted,
        };
        self.shared
            .log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(entry);
    }
}

async fn read(request: http::Request<Body>) -> Request {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.expect("a body in memory").to_bytes();
    let content_type = parts
        .headers
        .get("content-type")
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    Request::parse(
        &parts.method,
        parts.uri.path(),
        parts.uri.query(),
        content_type,
        &body,
    )
}

/// Everything but watches.
fn handle(store: &mut Store, request: &Request) -> Result<Arc<Value>, Refusal> {
    let kind = request.kind;
    let namespace = request.namespace.as_deref();
    let id = request.id();
    let writer = Writer {
        manager: request.manager(),
        applies: request.verb == Verb::Apply,
        status: request.status,
    };
    let query = |name: &str| request.query.get(name).map(String::as_str);
    match request.verb {
        Verb::Get => store
            .get(&id)
            .cloned()
            .ok_or_else(|| Refusal::not_found(kind, &id.name)),
        Verb::List => {
            let limit = query("limit").and_then(|limit| limit.parse().ok());
            let list = store.list(kind, namespace, &request.selector(), limit, query("continue"));
            list.map(Arc::new)
        }
        Verb::Create => write::create(store, kind, &id.namespace, &request.body, &writer),
        Verb::Update => write::update(store, &id, &request.body, request.status, &writer),
        Verb::MergePatch => write::merge_patch(store, &id, &request.body, request.status, &writer),
        Verb::Apply => {
            let force = query("force") == Some("true");
            write::apply(store, &id, &request.body, force, &writer)
        }
        Verb::Delete => write::delete(store, &id, &request.body),
        Verb::Watch => unreachable!("a watch is answered elsewhere"),
    }
}

fn refused(refusal: &Refusal) -> Answer {
    respond(refusal.code, &refusal.status(), refusal.retry_after)
}

fn respond(code: u16, body: &Value, retry_after: Option<u64>) -> Answer {
    let body = Full::new(Bytes::from(body.to_string()));
    let mut answer = Response::builder()
        .status(code)
        .header("content-type", "application/json");
    if let Some(seconds) = retry_after {
        answer = answer.header("retry-after", seconds);
    }
    answer.body(body.boxed_unsync()).expect("a response")
}
