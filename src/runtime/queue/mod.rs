//! The work queue of a controller: one for each kind, with client-go's rules (see the tests of [`state`]) and metrics.
//!
//! It holds at most one entry for each object, so the number of objects bounds it.

mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::backoff::Backoff;
use super::key::ObjectKey;
use super::metrics::QueueMetrics;
use state::State;

/// A queue of objects to reconcile. Clones share it.
#[derive(Clone, Debug)]
pub struct WorkQueue {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    inner: Mutex<Inner>,
    /// Woken once for every item that becomes ready and for every change that moves the next due time.
    changed: Notify,
    backoff: Backoff,
    metrics: QueueMetrics,
}

#[derive(Debug, Default)]
struct Inner {
    state: State<ObjectKey>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// A standby does not collect work: whoever starts to lead begins with every object there is.
    #[default]
    Standby,
    Open,
    Closed,
}

impl WorkQueue {
    /// A queue that takes nothing until it is opened.
    pub fn new(backoff: Backoff, metrics: QueueMetrics) -> Self {
        let shared = Shared {
            inner: Mutex::default(),
            changed: Notify::new(),
            backoff,
            metrics,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Starts to take work.
    pub fn open(&self) {
        let mut inner = self.lock();
        if inner.phase == Phase::Standby {
            inner.phase = Phase::Open;
        }
    }

    /// Hands out no more work; whoever waits in [`Self::next`] gets `None`.
    pub fn close(&self) {
        self.lock().phase = Phase::Closed;
        self.shared.changed.notify_waiters();
        self.shared.changed.notify_one();
    }

    /// Asks for `key` to be reconciled now.
    pub fn add(&self, key: ObjectKey) {
        self.add_by(|state, now| state.add(key, now));
    }

    /// The same for what a failing object may wait with: one that fails comes again after its back-off, and no earlier for this. Should it not fail
    /// any more, it comes once more after that.
    pub fn add_patiently(&self, key: ObjectKey) {
        self.add_by(|state, now| state.add_patiently(key, now));
    }

    fn add_by(&self, add: impl FnOnce(&mut State<ObjectKey>, Instant) -> bool) {
        let mut inner = self.lock();
        if inner.phase != Phase::Open {
            return;
        }
        if add(&mut inner.state, Instant::now()) {
            self.shared.metrics.adds.inc();
        }
        self.note_depth(&inner);
        drop(inner);
        self.shared.changed.notify_one();
    }

    /// Asks for `key` to be reconciled in `delay`, or earlier if it is to be reconciled earlier anyway.
    pub fn add_after(&self, key: ObjectKey, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        let mut inner = self.lock();
        if inner.phase != Phase::Open {
            return;
        }
        let now = Instant::now();
        // A delay beyond what the clock can express is as good as none.
        if let Some(due) = now.checked_add(delay) {
            inner.state.add_at(key, due);
        }
        drop(inner);
        self.shared.changed.notify_one();
    }

    /// Counts a failure of `key`, asks for it to be reconciled after its back-off, and returns that.
    pub fn retry(&self, key: ObjectKey) -> Duration {
        let failures = self.lock().state.fail(&key);
        let delay = self.shared.backoff.delay(failures);
        self.shared.metrics.retries.inc();
        self.add_after(key, delay);
        delay
    }

    /// How often in a row `key` has failed.
    pub fn failures(&self, key: &ObjectKey) -> u32 {
        self.lock().state.failures(key)
    }

    /// Forgets the failures of `key`, which was handed out and not given back yet, and any delay that is still set for it. It is handed out again if it was
    /// added patiently meanwhile.
    pub fn forget(&self, key: &ObjectKey) {
        if self.lock().state.forget(key, Instant::now()) {
            self.shared.metrics.adds.inc();
        }
    }

    /// Waits for an object to reconcile; `None` once the queue is closed. Give it back with [`Self::done`].
    pub async fn next(&self) -> Option<ObjectKey> {
        loop {
            let next_due = {
                let mut inner = self.lock();
                if inner.phase == Phase::Closed {
                    // Pass the word on: a permit wakes one worker only.
                    self.shared.changed.notify_one();
                    return None;
                }
                let now = Instant::now();
                self.shared.metrics.adds.inc_by(inner.state.promote(now));
                if let Some((key, waited)) = inner.state.take(now) {
                    self.shared.metrics.queue_duration.observe(waited.as_secs_f64());
                    self.note_depth(&inner);
                    if inner.state.depth() > 0 {
                        self.shared.changed.notify_one();
                    }
                    return Some(key);
                }
                inner.state.next_due()
            };
            match next_due {
                Some(due) => tokio::select! {
                    () = sleep_until(due) => {}
                    () = self.shared.changed.notified() => {}
                },
                None => self.shared.changed.notified().await,
            }
        }
    }

    /// Gives `key` back after it was worked on.
    pub fn done(&self, key: &ObjectKey) {
        let mut inner = self.lock();
        let worked = inner.state.done(key, Instant::now());
        self.shared.metrics.work_duration.observe(worked.as_secs_f64());
        self.note_depth(&inner);
        let more = inner.state.depth() > 0;
        drop(inner);
        if more {
            self.shared.changed.notify_one();
        }
    }

    /// Brings the gauges that depend on the time up to date.
    pub fn refresh_metrics(&self) {
        let inner = self.lock();
        let (mut sum, mut longest) = (0.0, 0.0_f64);
        for unfinished in inner.state.unfinished(Instant::now()) {
            sum += unfinished.as_secs_f64();
            longest = longest.max(unfinished.as_secs_f64());
        }
        self.shared.metrics.unfinished.set(sum);
        self.shared.metrics.longest_running.set(longest);
        self.note_depth(&inner);
    }

    fn note_depth(&self, inner: &Inner) {
        self.shared
            .metrics
            .depth
            .set(i64::try_from(inner.state.depth()).unwrap_or(i64::MAX));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No method leaves the state half changed, so a poisoned lock guards a sound one.
        self.shared.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::metrics::RuntimeMetrics;
    use crate::telemetry::metrics::Metrics;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("ns", name)
    }

    fn queue() -> WorkQueue {
        let queue = WorkQueue::new(
            Backoff::default(),
            RuntimeMetrics::register(&Metrics::new()).queue("test"),
        );
        queue.open();
        queue
    }

    #[tokio::test(start_paused = true)]
    async fn a_delayed_item_comes_when_it_is_due() {
        let queue = queue();
        let start = Instant::now();
        queue.add_after(key("a"), Duration::from_secs(3));
        assert_eq!(queue.next().await, Some(key("a")));
        assert_eq!(start.elapsed(), Duration::from_secs(3));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_back_off_and_success_starts_over() {
        let queue = queue();
        let waits: Vec<_> = (0..3).map(|_| queue.retry(key("a")).as_millis()).collect();
        assert_eq!(waits, [5, 10, 20]);
        queue.forget(&key("a"));
        assert_eq!(queue.retry(key("a")).as_millis(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn every_waiting_worker_gets_its_share() {
        let queue = queue();
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move { queue.next().await })
            })
            .collect();
        tokio::task::yield_now().await;
        for name in ["a", "b", "c", "d"] {
            queue.add(key(name));
        }
        let mut taken = Vec::new();
        for worker in workers {
            taken.push(
                tokio::time::timeout(Duration::from_secs(1), worker)
                    .await
                    .unwrap()
                    .unwrap()
                    .unwrap()
                    .name,
            );
        }
        taken.sort();
        assert_eq!(taken, ["a", "b", "c", "d"]);
    }

    #[tokio::test(start_paused = true)]
    async fn closing_wakes_every_waiting_worker() {
        let queue = queue();
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move { queue.next().await })
            })
            .collect();
        tokio::task::yield_now().await;
        queue.close();
        for worker in workers {
            assert_eq!(
                tokio::time::timeout(Duration::from_secs(1), worker)
                    .await
                    .unwrap()
                    .unwrap(),
                None
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_standby_collects_nothing() {
        let queue = WorkQueue::new(
            Backoff::default(),
            RuntimeMetrics::register(&Metrics::new()).queue("test"),
        );
        queue.add(key("a"));
        queue.open();
        assert!(
            tokio::time::timeout(Duration::from_secs(60), queue.next())
                .await
                .is_err()
        );
    }
}
