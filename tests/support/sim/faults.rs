//! What goes wrong between a client and the API server.

use std::fmt;
use std::future::Future;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch as channel;
use tokio::time::Instant;

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

/// In a few words, for people.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        if !self.delay.is_zero() {
            words.push(format!("{:.3} s late", self.delay.as_secs_f64()));
        }
        if let Some(refusal) = &self.refusal {
            words.push(format!("refused: {} {}", refusal.code, refusal.reason));
        }
        match self.loss {
            Loss::Nothing => {}
            Loss::Request => words.push("never arrives".to_owned()),
            Loss::Answer => words.push("never answered".to_owned()),
            Loss::Connection => words.push("takes effect, but the connection breaks".to_owned()),
        }
        words.extend(self.travel.words());
        f.write_str(&words.join(", "))
    }
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

/// What happens to one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// The operator stops, and it never leaves it.
    Before,
    /// It takes effect, and the operator stops before it hears so.
    After,
    /// The operator stops, and it arrives only when another one has taken over.
    Late,
    /// The operator stops, and one that sees everything late takes over.
    Behind,
    /// It is refused, as if somebody else had written first.
    Conflict,
    /// The API server is to be left alone for a while.
    TooMany,
    /// The API server fails.
    Error,
    /// It takes effect, and no answer ever comes.
    Unanswered,
    /// The API server, or somebody who judges for it, does not like it.
    Invalid,
}

const MISHAPS: [(&str, Mishap); 9] = [
    ("before", Mishap::Before),
    ("after", Mishap::After),
    ("late", Mishap::Late),
    ("behind", Mishap::Behind),
    ("conflict", Mishap::Conflict),
    ("too-many", Mishap::TooMany),
    ("error", Mishap::Error),
    ("unanswered", Mishap::Unanswered),
    ("invalid", Mishap::Invalid),
];

/// Longer than a lease lasts and the next operator needs for its work.
const LATE: Duration = Duration::from_secs(25);

/// A mishap at the n-th write of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    pub mishap: Mishap,
    pub write: usize,
}

impl At {
    /// Whether the operator stops there.
    pub fn stops(self) -> bool {
        matches!(
            self.mishap,
            Mishap::Before | Mishap::After | Mishap::Late | Mishap::Behind
        )
    }

    fn plan(self, request: &Request) -> Plan {
        let (loss, delay) = match self.mishap {
            Mishap::Before => (Loss::Request, Duration::ZERO),
            Mishap::After | Mishap::Behind | Mishap::Unanswered => (Loss::Answer, Duration::ZERO),
            Mishap::Late => (Loss::Answer, LATE),
            Mishap::Conflict | Mishap::TooMany | Mishap::Error | Mishap::Invalid => {
                (Loss::Nothing, Duration::ZERO)
            }
        };
        let refusal = match self.mishap {
            Mishap::Conflict => Some(Refusal::modified(request.kind, &request.name)),
            Mishap::TooMany => Some(too_many(3)),
            Mishap::Invalid => Some(Refusal::new(
                422,
                "Invalid",
                "admission webhook \"moody.example\" denied the request",
            )),
            Mishap::Error => Some(Refusal::new(
                500,
                "InternalError",
                "etcdserver: request timed out",
            )),
            _ => None,
        };
        Plan {
            delay,
            refusal,
            loss,
            ..Plan::default()
        }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = MISHAPS.iter().find(|(_, mishap)| *mishap == self.mishap);
        write!(f, "{}:{}", name.map_or("", |(name, _)| name), self.write)
    }
}

impl FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, write) = text
            .split_once(':')
            .ok_or("a mishap and the number of a write, as in before:17")?;
        let mishap = MISHAPS.iter().find(|(known, _)| *known == name);
        Ok(Self {
            mishap: mishap.ok_or(format!("no mishap is called {name}"))?.1,
            write: write.parse().map_err(|error| format!("{write}: {error}"))?,
        })
    }
}

/// Has something happen to one write of an operator; those of its lease do not count. The second of the pair says when it has happened.
pub fn at(at: At) -> (Faults, channel::Receiver<bool>) {
    let (happened, told) = channel::channel(false);
    let mut writes = 0;
    let faults = Faults::new(move |request| {
        if at.stops() && *happened.borrow() {
            return Plan {
                loss: Loss::Request,
                ..Plan::default()
            };
        }
        let counts = request.verb.is_write() && !request.kind.is("Lease");
        writes += usize::from(counts);
        if !counts || writes != at.write {
            return Plan::default();
        }
        happened.send_replace(true);
        at.plan(request)
    });
    (faults, told)
}

/// From `after` on, requests of this sort never arrive.
pub fn cut_off(sort: impl Fn(&Request) -> bool + Send + 'static, after: Duration) -> Faults {
    let start = Instant::now();
    Faults::new(move |request| {
        let lost = start.elapsed() >= after && sort(request);
        Plan {
            loss: if lost { Loss::Request } else { Loss::Nothing },
            ..Plan::default()
        }
    })
}

/// Watches of these kinds tell everything so late; whoever takes over meanwhile works on what is no longer so.
pub fn behind(kinds: impl Fn(&str) -> bool + Send + 'static, late: Duration) -> Faults {
    Faults::new(move |request| {
        let mut plan = Plan::default();
        if request.verb == Verb::Watch && kinds(request.kind.kind) {
            plan.travel.behind = late;
        }
        plan
    })
}

pub(super) fn too_many(seconds: u64) -> Refusal {
    let refusal = Refusal::new(429, "TooManyRequests", "please try again later");
    Refusal {
        retry_after: Some(seconds),
        ..refusal
    }
}

/// Numbers that are the same for the same seed (SplitMix64).
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to one less than `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn up_to(&mut self, limit: Duration) -> Duration {
        let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(self.below(limit + 1))
    }
}
