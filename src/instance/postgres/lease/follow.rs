//! Keeps what is seen of the Lease up to date.

use std::convert::Infallible;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{WatchEvent, WatchParams};
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::{debug, info, warn};

use super::super::bounded::Limit;
use super::{LeaseClient, view};
use crate::telemetry::told::Told;

/// How long the server may keep a watch of the Lease open, in seconds.
const WATCH_SECONDS: u32 = 240;
/// A watch that the server should have ended so long ago has died silently.
const WATCH_GRACE: Duration = Duration::from_secs(5);

struct Watch {
    events: BoxStream<'static, Result<WatchEvent<Lease>, kube::Error>>,
    ends: Instant,
}

/// What has been said in the log.
#[derive(Default)]
struct Said {
    failure: Told,
    unreadable: Told,
}

impl LeaseClient {
    /// Watches the Lease, and reads it whenever the watch has brought nothing for `retry`; never returns. What is seen goes to those who
    /// [subscribe](Self::subscribe). May be dropped at any point.
    pub async fn follow(self, retry: impl Into<Limit>) -> Infallible {
        let retry = retry.into();
        let mut watch = None;
        let mut said = Said::default();
        loop {
            let known = self.seen.borrow().version().map(str::to_owned);
            // Its failure is in what was seen.
            let _ = self.read().await;
            // What the watch should have brought shows that it brings nothing any more.
            if self.seen.borrow().version() != known.as_deref() {
                watch = None;
            }
            self.tell(&mut said);
            let deadline = retry.begin().at;
            while self.wait_for_news(&mut watch, deadline).await {
                self.tell(&mut said);
            }
        }
    }

    /// Waits until then, or for news of the Lease. True when there was some.
    async fn wait_for_news(&self, watch: &mut Option<Watch>, deadline: Instant) -> bool {
        if watch.is_none() {
            *watch = self.watch(deadline).await;
        }
        let Some(Watch { events, ends }) = watch.as_mut() else {
            sleep_until(deadline).await;
            return false;
        };
        let next = match timeout_at(deadline.min(*ends), events.next()).await {
            Ok(next) => next,
            Err(_) => {
                if Instant::now() >= *ends {
                    *watch = None;
                }
                return false;
            }
        };
        match next {
            Some(Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease))) => {
                self.note(|seen, now| seen.lease(lease, now));
                true
            }
            Some(Ok(WatchEvent::Deleted(lease))) => {
                self.note(|seen, now| seen.gone(Some(&lease), now));
                true
            }
            Some(Ok(WatchEvent::Bookmark(_))) => true,
            Some(Ok(WatchEvent::Error(_)) | Err(_)) | None => {
                debug!(lease = self.name, "watch of the Lease ended");
                *watch = None;
                sleep_until(deadline).await;
                false
            }
        }
    }

    /// News of the Lease from what was seen on; `None` when there cannot be any now: then there is still the poll.
    async fn watch(&self, deadline: Instant) -> Option<Watch> {
        let version = self.seen.borrow().version()?.to_owned();
        let params = WatchParams::default()
            .fields(&format!("metadata.name={}", self.name))
            .timeout(WATCH_SECONDS);
        let limit = deadline.min(self.limit.begin().at);
        match timeout_at(limit, self.api.watch(&params, &version)).await {
            Ok(Ok(events)) => Some(Watch {
                events: events.boxed(),
                ends: Instant::now() + Duration::from_secs(WATCH_SECONDS.into()) + WATCH_GRACE,
            }),
            Ok(Err(error)) => {
                debug!(lease = self.name, %error, "cannot watch the Lease");
                None
            }
            Err(_) => {
                debug!(lease = self.name, "cannot watch the Lease in time");
                None
            }
        }
    }

    fn tell(&self, said: &mut Said) {
        let (failure, unreadable) = {
            let seen = self.seen.borrow();
            let unreadable = seen.lease.as_ref().and_then(|lease| view(lease).unreadable);
            (seen.failure.clone(), unreadable)
        };
        match failure {
            Some(error) if said.failure.note(&error) => {
                warn!(lease = self.name, error, "no news of the Lease");
            }
            None if said.failure.clear() => info!(lease = self.name, "there is news of the Lease again"),
            _ => {}
        }
        match unreadable {
            Some(error) if said.unreadable.note(&error) => {
                warn!(lease = self.name, error, "the record in the Lease cannot be read");
            }
            None => drop(said.unreadable.clear()),
            Some(_) => {}
        }
    }
}
