//! What goes wrong between a client and the API server.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch as channel;

use super::Answer;
use super::request::{Request, Verb};
use super::status::Refusal;
use super::watch::Travel;

/// The connection broke before an answer came.
#[derive(Debug, thiserror::Error)]
#[error("the connection was lost")]
pub struct Broken;

/// What happens to one request.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// On its way, besides the usual.
    pub delay: Duration,
    /// It is answered so instead, and has no effect.
    pub refusal: Option<Refusal>,
    pub loss: Loss,
    /// For a watch.
    pub travel: Travel,
}

/// What is lost of an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loss {
    #[default]
    Nothing,
    /// The request: it has no effect, and no answer ever comes.
    Request,
    /// The answer: the request has its effect, and no answer ever comes.
    Answer,
    /// The answer, and the client is told so by a broken connection.
    Connection,
}

type Decide = dyn FnMut(&Request) -> Plan + Send;

/// What decides on the fate of each request. Clones decide together.
#[derive(Clone, Default)]
pub struct Faults {
    decide: Option<Arc<Mutex<Box<Decide>>>>,
}

impl Faults {
    pub fn new(decide: impl FnMut(&Request) -> Plan + Send + 'static) -> Self {
        Self {
            decide: Some(Arc::new(Mutex::new(Box::new(decide)))),
        }
    }

    pub fn plan(&self, request: &Request) -> Plan {
        match &self.decide {
            Some(decide) => decide.lock().unwrap_or_else(PoisonError::into_inner)(request),
            None => Plan::default(),
        }
    }
}

/// Carries a request to the server as `plan` says. Whoever asked may stop waiting: what was sent arrives all the same.
pub async fn deliver<F>(plan: Plan, send: impl FnOnce(Plan) -> F) -> Result<Answer, Broken>
where
    F: Future<Output = Answer> + Send + 'static,
{
    let loss = plan.loss;
    if loss == Loss::Request {
        return std::future::pending().await;
    }
    let answer = tokio::spawn(send(plan))
        .await
        .unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    match loss {
        Loss::Answer => std::future::pending().await,
        Loss::Connection => Err(Broken),
        Loss::Nothing | Loss::Request => Ok(answer),
    }
}

/// Where in its life an operator is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// Its n-th write never leaves it.
    Before(usize),
    /// Its n-th write takes effect, and it never hears so.
    After(usize),
}

/// Stops an operator at one of its writes; a write of the lease does not count. `crashed` says when.
pub fn crashing(crash: Crash) -> (Faults, channel::Receiver<bool>) {
    let (crashed, told) = channel::channel(false);
    let mut writes = 0;
    let faults = Faults::new(move |request| {
        let counts = request.verb.is_write() && !request.kind.is("Lease");
        if *crashed.borrow() {
            // It is dead already.
            return Plan {
                loss: Loss::Request,
                ..Plan::default()
            };
        }
        writes += usize::from(counts);
        let loss = match crash {
            Crash::Before(n) if counts && writes == n => Loss::Request,
            Crash::After(n) if counts && writes == n => Loss::Answer,
            _ => return Plan::default(),
        };
        crashed.send_replace(true);
        Plan {
            loss,
            ..Plan::default()
        }
    });
    (faults, told)
}

/// Whether a verb is one whose answer tells of an effect.
pub fn is_write(request: &Request) -> bool {
    request.verb.is_write() && request.verb != Verb::Watch
}
