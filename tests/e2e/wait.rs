//! Waiting with a deadline: every wait says what it waited for and what it saw instead.

use std::fmt::{Debug, Display};
use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use crate::outcome::{Failure, Outcome};

/// How often a probe is asked again.
const PAUSE: Duration = Duration::from_millis(200);

/// What a probe found: that which is waited for, or a description of what is there in its place.
pub enum Seen<T> {
    There(T),
    NotYet(String),
}

impl<T> Seen<T> {
    /// `There(value)` if the condition holds, otherwise `NotYet` with the description.
    pub fn when(holds: bool, value: T, instead: impl Display) -> Self {
        if holds {
            Self::There(value)
        } else {
            Self::NotYet(instead.to_string())
        }
    }
}

impl Seen<()> {
    /// There when the value is the wanted one; the description is the value.
    pub fn equal<V: PartialEq + Debug>(value: &V, wanted: &V) -> Self {
        Self::when(value == wanted, (), format_args!("{value:?}, not {wanted:?}"))
    }
}

/// Asks the probe until it finds what is waited for. A probe's error counts as "not yet": the object may not exist
/// yet, and a lasting error is in the message.
pub async fn until<T, F, Fut>(what: impl Display, limit: Duration, mut probe: F) -> Outcome<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Outcome<Seen<T>>>,
{
    let deadline = Instant::now() + limit;
    let mut last = "nothing yet".to_owned();
    loop {
        match timeout_at(deadline, probe()).await {
            Ok(Ok(Seen::There(value))) => return Ok(value),
            Ok(Ok(Seen::NotYet(seen))) => last = seen,
            Ok(Err(failure)) => last = failure.to_string(),
            Err(_) => {}
        }
        if Instant::now() + PAUSE >= deadline {
            return Err(Failure::new(format!(
                "waited {} s in vain for {what}; last seen: {last}",
                limit.as_secs()
            )));
        }
        sleep(PAUSE).await;
    }
}

/// Looks again and again for as long as `span`, and fails as soon as the condition no longer holds. For promises of
/// the form "nothing happens".
pub async fn throughout<F, Fut>(what: impl Display, span: Duration, mut probe: F) -> Outcome
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Outcome<Seen<()>>>,
{
    let end = Instant::now() + span;
    while Instant::now() < end {
        if let Seen::NotYet(seen) = probe().await? {
            return Err(Failure::new(format!("{what} did not last: {seen}")));
        }
        sleep(PAUSE).await;
    }
    Ok(())
}
