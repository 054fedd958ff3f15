//! A network and an API server that are bad for a minute and well for one, again and again, from some moment on.
//!
//! What befalls a request hangs on the seed, on what is asked for, and on how often that was asked for before; not on what befell others. So a
//! storm can be had with some of its mishaps alone, and those stay what they were.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::faults::{Chance, Faults, Loss, Plan, too_many};
use super::request::{Request, Verb};
use super::status::Refusal;
use super::watch::Travel;
use crate::cases::shrink::Steps;
use crate::subjects::Of;

/// How long it is bad, and how long it is calm after it.
const BAD: Duration = Duration::from_secs(60);
const CALM: Duration = Duration::from_secs(60);

/// All mishaps of a seed, as `17`, or some of them, as `17:3f20a1,9bc410`.
///
/// With an even seed the lease is spared: an operator that loses it is started again and looks at everything, which would hide that it forgot
/// something.
#[derive(Clone)]
pub struct Storms {
    seed: u64,
    only: Option<BTreeSet<Name>>,
    dealt: Arc<Mutex<Vec<Dealt>>>,
}

/// What befell a request.
#[derive(Clone, Debug)]
pub struct Dealt {
    name: Name,
    /// Since the storms began.
    at: Duration,
    request: String,
    plan: Plan,
}

/// What a mishap is called. Two that share a name happen both or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name(u32);

impl Storms {
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            only: None,
            dealt: Arc::default(),
        }
    }

    /// They begin now.
    pub fn faults(&self) -> Faults {
        let storms = self.clone();
        storms.dealt().clear();
        let start = Instant::now();
        let mut asked: BTreeMap<String, u64> = BTreeMap::new();
        Faults::new(move |request| {
            let what = what(request);
            let before = asked.entry(what.clone()).or_default();
            let fate = storms.fate(&what, *before);
            *before += 1;
            let name = Name::of(fate);
            let at = start.elapsed();
            let happens = match &storms.only {
                // Whenever it is asked for: without the other mishaps that may be sooner.
                Some(only) => only.contains(&name),
                None => storms.is_bad(at, request),
            };
            if !happens {
                return Plan::default();
            }
            let plan = bad(&mut Chance::new(fate), request);
            storms.dealt().push(Dealt {
                name,
                at,
                request: request.summary(),
                plan: plan.clone(),
            });
            plan
        })
    }

    fn dealt(&self) -> MutexGuard<'_, Vec<Dealt>> {
        self.dealt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_bad(&self, at: Duration, request: &Request) -> bool {
        let round = BAD + CALM;
        let first = Chance::new(self.seed).up_to(round);
        let into = (at + first).as_millis() % round.as_millis();
        let is_spared = self.seed.is_multiple_of(2) && request.kind.is("Lease");
        into < BAD.as_millis() && !is_spared
    }

    /// A seed for what befalls a request that was made so often before.
    fn fate(&self, what: &str, before: u64) -> u64 {
        let parts = what.bytes().map(u64::from).chain([before]);
        parts.fold(self.seed, |mixed, part| Chance::new(mixed ^ part).next())
    }
}

impl Name {
    fn of(fate: u64) -> Self {
        Self((fate & 0xff_ffff) as u32)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06x}", self.0)
    }
}

impl fmt::Display for Storms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.seed)?;
        let Some(only) = &self.only else {
            return Ok(());
        };
        let names: Vec<_> = only.iter().map(Name::to_string).collect();
        write!(f, ":{}", names.join(","))
    }
}

impl FromStr for Storms {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (seed, only) = match text.split_once(':') {
            Some((seed, names)) => (seed, Some(names)),
            None => (text, None),
        };
        let name = |text: &str| {
            let number = u32::from_str_radix(text, 16);
            number.map(Name).map_err(|error| format!("{text}: {error}"))
        };
        let names = |text: &str| {
            let names = text.split(',').filter(|text| !text.is_empty());
            names.map(name).collect()
        };
        let seed = seed.parse().map_err(|error| format!("{seed}: {error}"))?;
        Ok(Self {
            only: only.map(names).transpose()?,
            ..Self::new(seed)
        })
    }
}

impl Steps for Of<Storms> {
    type Step = Dealt;

    fn steps(&self) -> Vec<Dealt> {
        self.case.dealt().clone()
    }

    fn is_listed(&self) -> bool {
        self.case.only.is_some()
    }

    fn only(&self, dealt: &[Dealt]) -> Self {
        let only = Some(dealt.iter().map(|dealt| dealt.name).collect());
        let case = Storms {
            only,
            ..Storms::new(self.case.seed)
        };
        Self { case, ..*self }
    }

    fn line(dealt: &Dealt) -> String {
        let Dealt {
            name,
            at,
            request,
            plan,
        } = dealt;
        format!("{name} {:>10.3} s  {request}: {plan}", at.as_secs_f64())
    }
}

/// What is asked for; of a creation without the name, since that of an Event is made of the time.
fn what(request: &Request) -> String {
    let Request {
        verb,
        kind,
        namespace,
        name,
        status,
        ..
    } = request;
    format!("{verb:?} {} {namespace:?} {name} {status}", kind.kind)
}

/// What befalls a request in a storm.
fn bad(chance: &mut Chance, request: &Request) -> Plan {
    if request.verb == Verb::Watch {
        return Plan {
            travel: bad_travel(chance),
            ..Plan::default()
        };
    }
    let mut plan = Plan {
        delay: chance.up_to(Duration::from_secs(2)),
        ..Plan::default()
    };
    match chance.below(12) {
        0 => plan.loss = Loss::Request,
        1 => plan.loss = Loss::Answer,
        2 => plan.loss = Loss::Connection,
        3 => plan.refusal = Some(too_many(1 + chance.below(5))),
        4 => {
            plan.refusal = Some(Refusal::new(
                500,
                "InternalError",
                "etcdserver: request timed out",
            ))
        }
        5 if request.verb.is_write() => plan.refusal = Some(Refusal::modified(request.kind, &request.name)),
        5 => plan.refusal = Some(Refusal::new(503, "ServiceUnavailable", "apiserver not ready")),
        6 if request.verb == Verb::List => plan.refusal = Some(Refusal::expired()),
        _ => {}
    }
    plan
}

fn bad_travel(chance: &mut Chance) -> Travel {
    let some =
        |chance: &mut Chance| (chance.below(4) == 0).then(|| usize::try_from(chance.below(5)).unwrap_or(0));
    Travel {
        delay: chance.up_to(Duration::from_secs(3)),
        behind: Duration::ZERO,
        coalesced: chance.below(2) == 0,
        twice: chance.below(4) == 0,
        lost_after: some(chance),
        cut_after: some(chance),
    }
}
