//! Wins, keeps and gives back the lease.

use std::time::Duration;

use futures::future::Shared;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{PostParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, info, warn};

use super::decide::{Decision, Known, Record, decide};
use super::{Leadership, LeaseConfig, LeaseLost, Outlook};
use crate::runtime::client::{is_conflict, is_not_found};
use crate::runtime::clock::Clock;
use crate::runtime::jitter::Jitter;
use crate::runtime::metrics::RuntimeMetrics;

/// client-go's: a standby that polls waits up to 2.2 times the retry period.
const JITTER: f64 = 1.2;
/// How long the server may keep a watch of the lease open, in seconds.
const WATCH_SECONDS: u32 = 240;
/// Giving the lease back must not hold up the end of the process.
const RELEASE_PATIENCE: Duration = Duration::from_secs(3);

/// A candidate for the lease.
pub struct Elector {
    api: Api<Lease>,
    config: LeaseConfig,
    leadership: Leadership,
    clock: Clock,
    metrics: RuntimeMetrics,
    jitter: Jitter,
    /// The lease as last seen, with the `resourceVersion` that the next write is guarded by; `None` when there is none.
    lease: Option<Lease>,
    observed: Option<Observed>,
    /// Whether a claim was sent that may have taken effect, even if its answer never came.
    claimed: bool,
    outlook: Outlook,
}

impl std::fmt::Debug for Elector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Elector")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// A record and since when, by the local monotonic clock, it is known.
#[derive(Debug)]
struct Observed {
    record: Record,
    since: Instant,
}

/// What came of acting on the lease.
#[derive(Debug)]
enum Attempt {
    /// It is ours now.
    Ours,
    /// The write met a conflict: the lease is not as we last saw it, which tells nothing of who holds it.
    Contended,
    /// Somebody else holds it, for this long if it is not renewed.
    Held { expires_in: Duration },
}

type LeaseEvents = BoxStream<'static, Result<WatchEvent<Lease>, kube::Error>>;

impl Elector {
    /// A candidate. `client` should carry nothing but this, so that nothing can delay a renewal.
    pub fn new(
        client: Client,
        config: LeaseConfig,
        leadership: Leadership,
        clock: Clock,
        metrics: RuntimeMetrics,
    ) -> Self {
        metrics.set_leader(&config.name, false);
        Self {
            api: Api::namespaced(client, &config.namespace),
            jitter: Jitter::named(&config.identity),
            config,
            leadership,
            clock,
            metrics,
            lease: None,
            observed: None,
            claimed: false,
            outlook: Outlook::default(),
        }
    }

    /// Has `outlook` tell from here on whether the lease can be had at all.
    #[must_use]
    pub fn with_outlook(self, outlook: Outlook) -> Self {
        Self { outlook, ..self }
    }

    /// Waits until the lease is ours, however long that takes: being a standby has no end. False when `stop` was done first; then the lease
    /// is not ours, and a claim that was under way has been taken back.
    ///
    /// It asks at every retry period, as client-go does, and watches the lease besides: a release is seen at once.
    pub async fn acquire(&mut self, stop: impl Future<Output = ()>) -> bool {
        info!(lease = %self.config, identity = %self.config.identity, "waiting for the lease");
        let stop = stop.shared();
        let mut events: Option<LeaseEvents> = None;
        let mut has_news = false;
        loop {
            // A claim that is dropped halfway may be in effect all the same, and would keep the lease from others until it expires.
            let attempt = tokio::select! {
                attempt = self.attempt(has_news) => attempt,
                () = long_after(stop.clone()) => break,
            };
            if stop.clone().now_or_never().is_some() {
                break;
            }
            let mut wait = self.jitter.stretch(self.config.retry_period, JITTER);
            match attempt {
                Ok(Attempt::Ours) => return true,
                Ok(Attempt::Contended) => wait = Duration::ZERO,
                Ok(Attempt::Held { expires_in }) => wait = wait.min(expires_in),
                Err(error) => warn!(lease = %self.config, %error, "cannot get hold of the lease yet"),
            }
            has_news = tokio::select! {
                has_news = self.wait_for_news(&mut events, wait) => has_news,
                () = stop.clone() => break,
            };
        }
        self.release().await;
        false
    }

    /// Renews the lease, and returns when it is lost: not renewed within the renew deadline, or in other hands. May be dropped at any point.
    pub async fn hold(&mut self) -> LeaseLost {
        let lost = self.renew_until_lost().await;
        self.stop_leading();
        lost
    }

    /// Stops leading and gives the lease back, so that a standby need not wait for its end. Does nothing when it cannot be ours.
    pub async fn release(&mut self) {
        // First of all: whatever still runs must not write once another one may.
        self.stop_leading();
        if !self.claimed {
            return;
        }
        match timeout(RELEASE_PATIENCE, self.write_release()).await {
            Ok(Ok(())) => {
                self.claimed = false;
                info!(lease = %self.config, "released the lease");
            }
            Ok(Err(error)) => {
                warn!(lease = %self.config, %error, "could not release the lease; it will expire")
            }
            Err(_) => warn!(lease = %self.config, "could not release the lease in time; it will expire"),
        }
    }

    /// Stops leading and leaves the lease to expire: for when a write may still be on its way to the API server. Whoever leads next
    /// begins only once the lease has run out, and the write has landed, or failed, long before.
    pub fn leave(&mut self) {
        self.stop_leading();
        warn!(
            lease = %self.config,
            expires_within = ?self.config.lease_duration,
            "not releasing the lease, since a write may still be under way; it will expire"
        );
    }

    /// For how long the lease holds without being renewed.
    pub fn lease_duration(&self) -> Duration {
        self.config.lease_duration
    }

    fn stop_leading(&mut self) {
        self.leadership.end();
        self.metrics.set_leader(&self.config.name, false);
    }

    /// Acts on the lease, as the watch has just shown it or, without news, as it is now.
    async fn attempt(&mut self, has_news: bool) -> Result<Attempt, kube::Error> {
        let attempt = self.look_and_try(has_news).await;
        self.outlook.note(attempt.as_ref().err());
        attempt
    }

    async fn look_and_try(&mut self, has_news: bool) -> Result<Attempt, kube::Error> {
        if !has_news {
            self.look().await?;
        }
        self.try_once().await
    }

    async fn look(&mut self) -> Result<(), kube::Error> {
        let found = match self.limited(self.api.get(&self.config.name)).await {
            Ok(lease) => Some(lease),
            Err(error) if is_not_found(&error) => None,
            Err(error) => return Err(error),
        };
        self.observe(found);
        Ok(())
    }

    /// Acts on the lease as it was last seen.
    async fn try_once(&mut self) -> Result<Attempt, kube::Error> {
        let now = Instant::now();
        let known = Known {
            record: self.observed.as_ref().map(|observed| &observed.record),
            unchanged_for: self
                .observed
                .as_ref()
                .map_or(Duration::ZERO, |observed| now.duration_since(observed.since)),
            exists: self.lease.is_some(),
        };
        let known_exists = known.exists;
        let written = match decide(&self.config.identity, known, self.config.lease_duration) {
            Decision::Wait { expires_in } => return Ok(Attempt::Held { expires_in }),
            Decision::Renew => self.write_renewal(now).await,
            Decision::Take { transitions } | Decision::Create { transitions } => {
                self.write_claim(now, transitions).await
            }
        };
        match written {
            Ok(()) => Ok(Attempt::Ours),
            // Another candidate was faster, or somebody labelled the lease, or deleted it: look again. One that was to be created and is
            // not found lacks its namespace, and that is no race.
            Err(error) if is_conflict(&error) || (known_exists && is_not_found(&error)) => {
                Ok(Attempt::Contended)
            }
            Err(error) => Err(error),
        }
    }

    /// Waits for `wait`, or for news of the lease. True when there was some.
    async fn wait_for_news(&mut self, events: &mut Option<LeaseEvents>, wait: Duration) -> bool {
        // Two candidates that lost to each other must not chase each other without a pause.
        let deadline = Instant::now() + wait.max(Duration::from_millis(10));
        if events.is_none() {
            *events = self.watch().await;
        }
        loop {
            let Some(stream) = events.as_mut() else {
                sleep_until(deadline).await;
                return false;
            };
            let event = tokio::select! {
                () = sleep_until(deadline) => return false,
                event = stream.next() => event,
            };
            match event {
                Some(Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease))) => self.observe(Some(lease)),
                Some(Ok(WatchEvent::Deleted(_))) => self.observe(None),
                Some(Ok(WatchEvent::Bookmark(_))) => continue,
                Some(Ok(WatchEvent::Error(_)) | Err(_)) | None => {
                    debug!(lease = %self.config, "watch of the lease ended");
                    *events = None;
                    continue;
                }
            }
            return true;
        }
    }

    /// News of the lease from here on; `None` when there cannot be any now: then there is still the poll.
    async fn watch(&self) -> Option<LeaseEvents> {
        let version = self.lease.as_ref()?.metadata.resource_version.clone()?;
        let params = WatchParams::default()
            .fields(&format!("metadata.name={}", self.config.name))
            .timeout(WATCH_SECONDS);
        match self.limited(self.api.watch(&params, &version)).await {
            Ok(events) => Some(events.boxed()),
            Err(error) => {
                debug!(lease = %self.config, %error, "cannot watch the lease");
                None
            }
        }
    }

    async fn renew_until_lost(&mut self) -> LeaseLost {
        while let Some(deadline) = self.leadership.valid_until() {
            let next = Instant::now() + self.config.retry_period;
            sleep_until(next.min(deadline)).await;
            // A process that was stopped wakes up here, at times long after the deadline.
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match timeout(left, self.renew()).await {
                Ok(Ok(Attempt::Ours)) => {}
                // Still ours for all we know, until the deadline: whoever takes it shows in the next look.
                Ok(Ok(Attempt::Contended)) => {
                    warn!(lease = %self.config, "could not renew the lease: it is being changed by others");
                }
                Ok(Ok(Attempt::Held { .. })) => {
                    return LeaseLost::Taken {
                        lease: self.config.to_string(),
                        by: self.holder(),
                    };
                }
                Ok(Err(error)) => warn!(lease = %self.config, %error, "could not renew the lease"),
                Err(_) => break,
            }
        }
        LeaseLost::NotRenewed {
            lease: self.config.to_string(),
            deadline: self.config.renew_deadline,
        }
    }

    /// Renews once, by the same rules as a candidate acts: a lease that no longer names us is not renewed but taken back, if it is free.
    async fn renew(&mut self) -> Result<Attempt, kube::Error> {
        let attempt = self.try_once().await?;
        if !matches!(attempt, Attempt::Contended) {
            return Ok(attempt);
        }
        // Our last write may have taken effect although its answer was lost; somebody may have labelled the lease.
        self.look().await?;
        self.try_once().await
    }

    async fn write_renewal(&mut self, now: Instant) -> Result<(), kube::Error> {
        let mut record = self
            .observed
            .as_ref()
            .map(|observed| observed.record.clone())
            .unwrap_or_default();
        record.duration = self.config.lease_duration;
        record.renewed = Some(self.now());
        self.write(now, record).await
    }

    async fn write_claim(&mut self, now: Instant, transitions: i32) -> Result<(), kube::Error> {
        let time = self.now();
        let record = Record {
            holder: self.config.identity.clone(),
            duration: self.config.lease_duration,
            acquired: Some(time.clone()),
            renewed: Some(time),
            transitions,
        };
        self.claimed = true;
        self.write(now, record).await?;
        info!(lease = %self.config, transitions, "leading");
        Ok(())
    }

    /// Writes `record`, and leads from `started` on for the renew deadline: the time is counted from before the request was sent,
    /// so that nobody can have seen the renewal earlier than we count it.
    async fn write(&mut self, started: Instant, record: Record) -> Result<(), kube::Error> {
        let params = PostParams::default();
        let written = if let Some(mut lease) = self.lease.clone() {
            record.write_to(lease.spec.get_or_insert_default());
            self.limited(self.api.replace(&self.config.name, &params, &lease))
                .await?
        } else {
            let metadata = ObjectMeta {
                name: Some(self.config.name.clone()),
                ..ObjectMeta::default()
            };
            let mut lease = Lease { metadata, spec: None };
            record.write_to(lease.spec.get_or_insert_default());
            self.limited(self.api.create(&params, &lease)).await?
        };
        self.observe(Some(written));
        self.leadership.lead_until(started + self.config.renew_deadline);
        self.metrics.set_leader(&self.config.name, true);
        Ok(())
    }

    async fn write_release(&mut self) -> Result<(), kube::Error> {
        // The answer to our claim may have been lost, so that only the API server knows that the lease is ours.
        if self.holder() != self.config.identity {
            self.look().await?;
        }
        loop {
            let Some(mut lease) = self.lease.clone() else {
                return Ok(());
            };
            let mut record = Record::from(&lease);
            if record.holder != self.config.identity {
                return Ok(());
            }
            let time = self.now();
            record.holder.clear();
            record.duration = Duration::from_secs(1);
            record.acquired = Some(time.clone());
            record.renewed = Some(time);
            record.write_to(lease.spec.get_or_insert_default());
            match self
                .api
                .replace(&self.config.name, &PostParams::default(), &lease)
                .await
            {
                Ok(_) => return Ok(()),
                // A renewal was under way when we were told to stop. The patience of the caller bounds this.
                Err(error) if is_conflict(&error) => self.look().await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes note of the lease as it is now, and of since when it has been so.
    fn observe(&mut self, lease: Option<Lease>) {
        if let Some(lease) = &lease {
            let record = Record::from(lease);
            if self
                .observed
                .as_ref()
                .is_none_or(|observed| observed.record != record)
            {
                self.observed = Some(Observed {
                    record,
                    since: Instant::now(),
                });
            }
        }
        self.lease = lease;
    }

    fn holder(&self) -> String {
        self.observed
            .as_ref()
            .map_or_else(String::new, |observed| observed.record.holder.clone())
    }

    fn now(&self) -> MicroTime {
        MicroTime(self.clock.now())
    }

    /// One request may take half of the renew deadline, as in client-go: a second one still fits in.
    async fn limited<T>(
        &self,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, kube::Error> {
        let limit = self.config.renew_deadline / 2;
        match timeout(limit, request).await {
            Ok(outcome) => outcome,
            Err(elapsed) => Err(kube::Error::Service(Box::new(elapsed))),
        }
    }
}

/// Done some time after `stop`: as long as an answer that is on its way may take, when the process is to end.
async fn long_after(stop: Shared<impl Future<Output = ()>>) {
    stop.await;
    sleep(RELEASE_PATIENCE).await;
}
