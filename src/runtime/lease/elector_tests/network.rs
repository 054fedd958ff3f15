//! The lease as an API server keeps it, and the network between that and a candidate.

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

use super::super::{Elector, Leadership, LeaseConfig};
use crate::runtime::client::Clients;
use crate::runtime::clock::Clock;
use crate::runtime::jitter::Jitter;
use crate::runtime::metrics::RuntimeMetrics;
use crate::telemetry::metrics::Metrics;

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// What comes between a candidate and one of its writes.
pub enum Trouble {
    /// Somebody annotates the lease just before.
    Annotated,
    /// Somebody else writes this into `holderIdentity` just before.
    Handed(&'static str),
    /// The API server fails, and writes nothing.
    Failed,
}

/// The one lease, as an API server keeps it.
#[derive(Default)]
pub struct Server {
    pub lease: Option<Value>,
    version: u64,
    watches: Vec<UnboundedSender<Bytes>>,
    /// What happens to the next writes, in this order.
    pub troubles: VecDeque<Trouble>,
    /// Whether the namespace of the lease is missing, and how often it was tried to create one in it.
    pub homeless: Option<usize>,
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

    pub fn holder(&self) -> String {
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
pub struct Network {
    pub server: Arc<Mutex<Server>>,
    pub chance: Arc<Mutex<Jitter>>,
    /// Before this time requests are delayed, lost, or their answers are.
    pub faulty_until: Instant,
    /// Before this time nothing that this candidate sends is answered.
    pub cut_until: Arc<Mutex<Option<Instant>>>,
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

    pub fn elector(&self, identity: &str, leadership: &Leadership) -> Elector {
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

pub fn network(seed: u64, faulty_for: Duration) -> Network {
    Network {
        server: Arc::default(),
        chance: Arc::new(Mutex::new(Jitter::seeded(seed))),
        faulty_until: Instant::now() + faulty_for,
        cut_until: Arc::default(),
    }
}

/// A server whose answers to writes arrive `late`, or never if that is longer than the caller waits; the writes take effect at once.
pub fn late_answers(server: &Arc<Mutex<Server>>, late: Duration, leadership: &Leadership) -> Elector {
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
