//! What an instance answers over HTTPS: probes and metrics to anybody, its report to instances and the operator, pleas to instances, handovers to the
//! operator.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http_body_util::{BodyExt as _, Limited};
use serde::de::DeserializeOwned;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout};

use super::exposition::exposition;
use super::tls::{Caller, Tls};
use crate::api::database::agent::{
    FAILSAFE, Handover, INSTANCE_ROLE, LIVENESS, METRICS, OPERATOR_ROLE, Plea, READINESS, RESTART, Report,
    Restart, STATUS, SWITCHOVER, meant_for,
};
use crate::telemetry::metrics::CONTENT_TYPE;
use crate::webhook::{ClientCertificate, Limits, serve_over};

/// What a plea or a handover may have, in bytes.
const BODY: usize = 16 << 10;
/// A body arrives within this time.
const BODY_TIME: Duration = Duration::from_secs(2);
/// The supervisor says several times a second how things are; one that has not for so long hangs.
const STUCK: Duration = Duration::from_secs(20);
/// The supervisor answers within this time, or the request is answered without it.
const ANSWER: Duration = Duration::from_secs(2);

/// What is told of this instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// What it says of itself. Times in it are those of the moment at which it was made.
    pub report: Report,
    /// When all this was said. A manager that says nothing any more does not work.
    pub made: Instant,
    /// Whether PostgreSQL serves in the role that this instance has; why not.
    pub ready: Result<(), String>,
}

impl Default for Shown {
    /// An instance that has just begun.
    fn default() -> Self {
        Self {
            report: Report::default(),
            made: Instant::now(),
            ready: Err("the instance has just begun".to_owned()),
        }
    }
}

/// Granted or begun; else the reason why not, for people.
pub type Granted = Result<(), String>;

/// What is asked of the supervisor. Whoever asks may have gone when it answers.
#[derive(Debug)]
pub enum Request {
    /// A holder that cannot reach the API server asks for time.
    Plea {
        /// What it asks.
        plea: Plea,
        /// Where the answer goes.
        answer: oneshot::Sender<Granted>,
    },
    /// The operator asks this instance to hand over.
    Handover {
        /// What it asks.
        handover: Handover,
        /// Where the answer goes.
        answer: oneshot::Sender<Granted>,
    },
    /// The operator asks for a restart of PostgreSQL, since settings wait for one.
    Restart {
        /// What it asks.
        restart: Restart,
        /// Where the answer goes.
        answer: oneshot::Sender<Granted>,
    },
}

#[derive(Clone, Debug)]
struct Desk {
    shown: watch::Receiver<Shown>,
    requests: mpsc::Sender<Request>,
}

/// How much the server takes on: its callers are a kubelet, Prometheus, the operator and a handful of instances. Some networks have those of another node
/// come from one address; whoever else holds on to connections there must leave some to the kubelet, or its probes fail and it ends a database that is well.
pub fn limits() -> Limits {
    Limits {
        connections: 64,
        connections_each: 20,
        handshake: Duration::from_secs(3),
        header: Duration::from_secs(30),
        body: BODY_TIME,
        request: Duration::from_secs(5),
        connection_age: Duration::from_secs(600),
        linger: Duration::ZERO,
        grace: Duration::from_secs(2),
        ..Limits::default()
    }
}

/// Serves until `stop` is done: what is `shown`, and pleas and handovers as the receiver of `requests` answers them.
pub async fn serve(
    listener: TcpListener,
    tls: &Tls,
    shown: watch::Receiver<Shown>,
    requests: mpsc::Sender<Request>,
    stop: impl Future<Output = ()> + Send,
) {
    serve_over(
        listener,
        tls.handshakes(),
        routes(shown, requests),
        limits(),
        stop,
    )
    .await;
}

fn routes(shown: watch::Receiver<Shown>, requests: mpsc::Sender<Request>) -> Router {
    Router::new()
        .route(LIVENESS, get(alive))
        .route(READINESS, get(ready))
        .route(METRICS, get(metrics))
        .route(STATUS, get(status))
        .route(FAILSAFE, post(failsafe))
        .route(SWITCHOVER, post(switchover))
        .route(RESTART, post(restart))
        .with_state(Arc::new(Desk { shown, requests }))
}

type Desked = State<Arc<Desk>>;

async fn alive(State(desk): Desked) -> Response {
    let silent = desk.shown.borrow().made.elapsed();
    if silent > STUCK {
        return line(
            StatusCode::SERVICE_UNAVAILABLE,
            &format!("the instance manager has said nothing for {} s", silent.as_secs()),
        );
    }
    line(StatusCode::OK, "ok")
}

async fn ready(State(desk): Desked) -> Response {
    match &desk.shown.borrow().ready {
        Ok(()) => line(StatusCode::OK, "ok"),
        Err(reason) => line(StatusCode::SERVICE_UNAVAILABLE, reason),
    }
}

async fn metrics(State(desk): Desked) -> Response {
    let text = exposition(&desk.shown.borrow());
    match text {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(error) => line(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

async fn status(State(desk): Desked, request: HttpRequest) -> Response {
    if let Err(refused) = permit(&request, &[Caller::Instance, Caller::Operator]) {
        return refused.into_response();
    }
    let report = {
        let shown = desk.shown.borrow();
        let age = milliseconds(shown.made.elapsed());
        let mut report = shown.report.clone();
        report.looked_ms = report.looked_ms.map(|ms| ms.saturating_add(age));
        report
    };
    match serde_json::to_vec(&report) {
        Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Err(error) => line(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// As a report has times.
pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

async fn failsafe(State(desk): Desked, request: HttpRequest) -> Response {
    let pass = |plea, answer| Request::Plea { plea, answer };
    desk.ask(request, Caller::Instance, StatusCode::OK, pass).await
}

async fn switchover(State(desk): Desked, request: HttpRequest) -> Response {
    let pass = |handover, answer| Request::Handover { handover, answer };
    desk.ask(request, Caller::Operator, StatusCode::ACCEPTED, pass)
        .await
}

async fn restart(State(desk): Desked, request: HttpRequest) -> Response {
    let pass = |restart, answer| Request::Restart { restart, answer };
    desk.ask(request, Caller::Operator, StatusCode::ACCEPTED, pass)
        .await
}

impl Desk {
    /// Whether it is this instance that is asked, and not one that had its address before.
    fn is_meant(&self, request: &HttpRequest) -> Result<(), Refused> {
        let uri = request.uri();
        let path_and_query = uri.path_and_query().map(ToString::to_string).unwrap_or_default();
        let name = &self.shown.borrow().report.name;
        if path_and_query == meant_for(name, uri.path()) {
            return Ok(());
        }
        let message = format!("{path_and_query} is for another instance; this is {name}");
        Err(Refused(StatusCode::MISDIRECTED_REQUEST, message))
    }

    /// Passes what is asked on to the supervisor, and its answer back.
    async fn ask<T: DeserializeOwned>(
        &self,
        request: HttpRequest,
        by: Caller,
        granted: StatusCode,
        pass: impl FnOnce(T, oneshot::Sender<Granted>) -> Request,
    ) -> Response {
        let permitted = permit(&request, &[by]).and_then(|()| self.is_meant(&request));
        if let Err(refused) = permitted {
            return refused.into_response();
        }
        let asked = match read(request.into_body()).await {
            Ok(asked) => asked,
            Err(refused) => return refused.into_response(),
        };
        let (answer, answered) = oneshot::channel();
        if self.requests.try_send(pass(asked, answer)).is_err() {
            return line(
                StatusCode::SERVICE_UNAVAILABLE,
                "the instance is busy; it can be asked again",
            );
        }
        match timeout(ANSWER, answered).await {
            Ok(Ok(Ok(()))) => line(granted, "ok"),
            Ok(Ok(Err(reason))) => line(StatusCode::CONFLICT, &reason),
            Ok(Err(_)) | Err(_) => line(
                StatusCode::SERVICE_UNAVAILABLE,
                "the instance did not answer in time; it can be asked again",
            ),
        }
    }
}

/// A request that is not passed on, and why.
struct Refused(StatusCode, String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        line(self.0, &self.1)
    }
}

/// Whether the caller is one of these.
fn permit(request: &HttpRequest, callers: &[Caller]) -> Result<(), Refused> {
    let certificate = request.extensions().get::<ClientCertificate>();
    let caller = certificate.map_or(Caller::Anybody, |ClientCertificate(certificate)| {
        Caller::of(certificate)
    });
    if callers.contains(&caller) {
        return Ok(());
    }
    let units: Vec<&str> = callers.iter().filter_map(|caller| unit(*caller)).collect();
    let found = match (certificate, unit(caller)) {
        (None, _) => "there is none".to_owned(),
        (Some(_), Some(unit)) => format!("this one is of {unit}"),
        (Some(_), None) => "this one is not".to_owned(),
    };
    let message = format!(
        "{} is for client certificates of organisational unit {}; {found}",
        request.uri().path(),
        units.join(" or "),
    );
    Err(Refused(StatusCode::FORBIDDEN, message))
}

fn unit(caller: Caller) -> Option<&'static str> {
    match caller {
        Caller::Anybody => None,
        Caller::Instance => Some(INSTANCE_ROLE),
        Caller::Operator => Some(OPERATOR_ROLE),
    }
}

async fn read<T: DeserializeOwned>(body: Body) -> Result<T, Refused> {
    let bytes = match timeout(BODY_TIME, Limited::new(body, BODY).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(_)) => {
            let message = format!("the body broke off, or has more than {BODY} bytes");
            return Err(Refused(StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        Err(_) => {
            let message = format!("the body did not arrive within {BODY_TIME:?}");
            return Err(Refused(StatusCode::REQUEST_TIMEOUT, message));
        }
    };
    serde_json::from_slice(&bytes).map_err(|error| Refused(StatusCode::BAD_REQUEST, error.to_string()))
}

fn line(status: StatusCode, text: &str) -> Response {
    (status, format!("{text}\n")).into_response()
}
