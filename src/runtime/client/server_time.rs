//! What time it is at the API server.
//!
//! The times in objects are the cluster's. A clock that differs from it by an hour makes whoever compares the two wait an hour too long, or
//! not at all; so what a controller calls now is the time that the API server writes into its answers.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::header::DATE;
use http::{HeaderMap, Request, Response};
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use tower::{Layer, Service};

use crate::runtime::clock::Clock;

/// An answer says its time in whole seconds, and several API servers say it each by its own clock: within this distance an answer says nothing
/// new, and the time goes on evenly.
const ROUGH: SignedDuration = SignedDuration::from_secs(2);

/// What time it is at the API server: by the `Date` of its answers and, between them, by the monotonic clock. Clones learn together.
#[derive(Clone, Debug, Default)]
pub struct ServerTime {
    heard: Arc<Mutex<Option<(Timestamp, Instant)>>>,
}

impl ServerTime {
    /// Learns from the headers of an answer that took this long, any part of which may have been its way back. One without a date, or with
    /// one that cannot be read, teaches nothing.
    pub fn hear(&self, headers: &HeaderMap, took: Duration) {
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        let Some(said) = date.and_then(|date| DateTimeParser::new().parse_timestamp(date).ok()) else {
            return;
        };
        let took = SignedDuration::try_from(took).unwrap_or(SignedDuration::MAX);
        let fits = |known: Timestamp| {
            let ahead = known.duration_since(said);
            -ROUGH <= ahead && ahead <= took.saturating_add(ROUGH)
        };
        if !self.now().is_some_and(fits) {
            *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some((said, Instant::now()));
        }
    }

    /// The time there; nothing before the first answer.
    pub fn now(&self) -> Option<Timestamp> {
        let (said, at) = (*self.heard.lock().unwrap_or_else(PoisonError::into_inner))?;
        let since = SignedDuration::try_from(at.elapsed()).unwrap_or(SignedDuration::MAX);
        Some(said.saturating_add(since).unwrap_or(Timestamp::MAX))
    }

    /// A clock that shows it, and before the first answer what `own` shows.
    pub fn clock(&self, own: Clock) -> Clock {
        let time = self.clone();
        Clock::telling(move || time.now().unwrap_or_else(|| own.now()))
    }
}

/// Has a client learn what time it is from every answer that it gets.
impl<S> Layer<S> for ServerTime {
    type Service = Hearing<S>;

    fn layer(&self, inner: S) -> Hearing<S> {
        let time = self.clone();
        Hearing { inner, time }
    }
}

/// What passes requests on, and learns from their answers.
#[derive(Debug)]
pub struct Hearing<S> {
    inner: S,
    time: ServerTime,
}

impl<S, Q, B> Service<Request<Q>> for Hearing<S>
where
    S: Service<Request<Q>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let (time, sent) = (self.time.clone(), Instant::now());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            time.hear(answer.headers(), sent.elapsed());
            Ok(answer)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use std::time::Duration;

    fn answer(date: &'static str) -> HeaderMap {
        [(DATE, HeaderValue::from_static(date))].into_iter().collect()
    }

    fn shown(clock: &Clock) -> String {
        clock.now().to_string()
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_is_ones_own_until_the_server_has_answered_and_goes_on_evenly_then() {
        let time = ServerTime::default();
        let clock = time.clock(Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap()));
        assert_eq!(shown(&clock), "2020-01-01T00:00:00Z");
        time.hear(&answer("Sat, 21 Nov 2026 08:49:37 GMT"), Duration::ZERO);
        assert_eq!(shown(&clock), "2026-11-21T08:49:37Z");
        tokio::time::advance(Duration::from_millis(2500)).await;
        for nothing_new in [
            "Sat, 21 Nov 2026 08:49:38 GMT",
            "Sat, 21 Nov 2026 08:49:41 GMT",
            "soon",
        ] {
            time.hear(&answer(nothing_new), Duration::ZERO);
            assert_eq!(shown(&clock), "2026-11-21T08:49:39.5Z");
        }
        time.hear(&HeaderMap::new(), Duration::ZERO);
        assert_eq!(shown(&clock), "2026-11-21T08:49:39.5Z");
    }

    #[tokio::test]
    async fn a_client_learns_from_each_answer() {
        let time = ServerTime::default();
        let answers = tower::service_fn(async |_: Request<()>| {
            let mut response = Response::new(());
            *response.headers_mut() = answer("Sat, 21 Nov 2026 08:49:37 GMT");
            Ok::<_, std::convert::Infallible>(response)
        });
        time.layer(answers).call(Request::new(())).await.unwrap();
        let clock = time.clock(Clock::system());
        assert!(shown(&clock).starts_with("2026-11-21T08:49:3"), "{clock:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_whose_clock_is_set_is_followed() {
        let time = ServerTime::default();
        let clock = time.clock(Clock::system());
        for date in ["Sat, 21 Nov 2026 08:49:37 GMT", "Sat, 21 Nov 2026 07:00:00 GMT"] {
            time.hear(&answer(date), Duration::ZERO);
        }
        assert_eq!(shown(&clock), "2026-11-21T07:00:00Z");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_was_long_under_way_does_not_put_the_clock_back() {
        let time = ServerTime::default();
        let clock = time.clock(Clock::system());
        time.hear(&answer("Sat, 21 Nov 2026 08:49:37 GMT"), Duration::ZERO);
        tokio::time::advance(Duration::from_secs(20)).await;
        time.hear(&answer("Sat, 21 Nov 2026 08:49:40 GMT"), Duration::from_secs(17));
        assert_eq!(shown(&clock), "2026-11-21T08:49:57Z");
    }
}
