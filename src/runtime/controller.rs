//! A controller: one kind, one queue, some workers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Resource;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{Instrument, Span, debug, error, field, info_span, warn};

use super::backoff::Backoff;
use super::cache::{Cache, Change};
use super::events::EventType;
use super::key::{Object, ObjectKey};
use super::metrics::{ControllerMetrics, RuntimeMetrics};
use super::predicates::Predicate;
use super::queue::WorkQueue;
use super::reconcile::{Context, Next, Reconciler};
use super::retry::{ReconcileError, Retry};
use crate::telemetry::traces;

/// How a controller works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerOptions {
    /// How many objects are reconciled at once; at least one.
    pub concurrency: usize,
    /// How long an object waits after a failure.
    pub backoff: Backoff,
    /// A reconcile that takes longer is given up and counts as failed.
    pub timeout: Duration,
}

impl Default for ControllerOptions {
    fn default() -> Self {
        Self {
            concurrency: 4,
            backoff: Backoff::default(),
            timeout: Duration::from_secs(120),
        }
    }
}

/// That somebody else wrote first is settled by looking again. A conflict that this many attempts in a row (they take half a second) have not
/// settled will last, and has to be told like any other failure.
const CONFLICTS: u32 = 7;

type Link = Box<dyn FnOnce(&WorkQueue) + Send>;

/// A controller to be added to a manager.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
/// # use roadstead::runtime::{controller::*, manager::Manager, predicates, reconcile::*, cache::Watch};
/// # fn example<R: Reconciler<Kind = ConfigMap>>(manager: &mut Manager, reconciler: R) {
/// let primary = manager.cache::<ConfigMap>(Watch::all());
/// let children = manager.cache::<Deployment>(Watch::labelled("app.kubernetes.io/managed-by=roadstead"));
/// let controller = Controller::new("example", &primary, reconciler)
///     .when(predicates::generation().or(predicates::finalizers()))
///     .owns(&children)
///     .options(ControllerOptions { concurrency: 2, ..ControllerOptions::default() });
/// manager.add(controller);
/// # }
/// ```
pub struct Controller<R: Reconciler> {
    name: String,
    primary: Cache<R::Kind>,
    reconciler: R,
    predicate: Option<Predicate<R::Kind>>,
    links: Vec<Link>,
    options: ControllerOptions,
}

impl<R: Reconciler> Controller<R> {
    /// A controller of the objects in `primary`. `name` is what flags and metrics call it: lower case, one word.
    pub fn new(name: impl Into<String>, primary: &Cache<R::Kind>, reconciler: R) -> Self {
        Self {
            name: name.into(),
            primary: primary.clone(),
            reconciler,
            predicate: None,
            links: Vec::new(),
            options: ControllerOptions::default(),
        }
    }

    /// Reconciles after an update of the primary object only if `predicate` lets it pass.
    #[must_use]
    pub fn when(mut self, predicate: Predicate<R::Kind>) -> Self {
        self.predicate = Some(predicate);
        self
    }

    /// Reconciles the owner after every change of an object in `children` whose controller it is.
    #[must_use]
    pub fn owns<C: Object>(self, children: &Cache<C>) -> Self {
        self.watches(children, owner_of::<R::Kind, C>)
    }

    /// The same, but only after those updates of a child that `predicate` lets pass: for children that somebody else writes all the time.
    #[must_use]
    pub fn owns_when<C: Object>(self, children: &Cache<C>, predicate: Predicate<C>) -> Self {
        self.link(children, Some(predicate), owner_of::<R::Kind, C>)
    }

    /// Reconciles whatever `map` names after every change of an object in `others`. It is asked about both the old and the new version.
    #[must_use]
    pub fn watches<O, F>(self, others: &Cache<O>, map: F) -> Self
    where
        O: Object,
        F: Fn(&O) -> Vec<ObjectKey> + Send + Sync + 'static,
    {
        self.link(others, None, map)
    }

    fn link<O, F>(mut self, others: &Cache<O>, predicate: Option<Predicate<O>>, map: F) -> Self
    where
        O: Object,
        F: Fn(&O) -> Vec<ObjectKey> + Send + Sync + 'static,
    {
        let others = others.clone();
        self.links.push(Box::new(move |queue| {
            let queue = queue.clone();
            others.on_change(move |change: &Change<O>| {
                let passes = predicate
                    .as_ref()
                    .is_none_or(|predicate| predicate.passes(change.old.as_deref(), change.new.as_deref()));
                if passes {
                    change.sides().flat_map(&map).for_each(|key| queue.add(key));
                }
            });
        }));
        self
    }

    /// Sets how the controller works.
    #[must_use]
    pub fn options(mut self, options: ControllerOptions) -> Self {
        self.options = options;
        self
    }

    /// Connects the controller to its caches; from here on its queue follows them, and takes work once it is opened.
    pub(super) fn connect(self, metrics: &RuntimeMetrics) -> Connected<R> {
        let queue = WorkQueue::new(self.options.backoff, metrics.queue(&self.name));
        let metrics = metrics.controller(&self.name, &R::Kind::kind(&()));
        metrics
            .max_concurrent
            .set(i64::try_from(self.options.concurrency.max(1)).unwrap_or(i64::MAX));
        for link in self.links {
            link(&queue);
        }
        let (own, predicate) = (queue.clone(), self.predicate);
        self.primary.on_change(move |change: &Change<R::Kind>| {
            let passes = predicate
                .as_ref()
                .is_none_or(|predicate| predicate.passes(change.old.as_deref(), change.new.as_deref()));
            let Some(object) = change.sides().next().filter(|_| passes) else {
                return;
            };
            let key = ObjectKey::of(object);
            // What each failure says in the status must not go around the back-off.
            if is_of_status_alone(change) {
                own.add_patiently(key);
            } else {
                own.add(key);
            }
        });
        Connected {
            shared: Arc::new(Shared {
                primary: self.primary,
                reconciler: self.reconciler,
                options: self.options,
                queue,
                metrics,
            }),
        }
    }
}

/// The object of kind `Owner` that controls a child.
fn owner_of<Owner: Object, C: Object>(child: &C) -> Vec<ObjectKey> {
    ObjectKey::of_controller::<Owner, C>(child).into_iter().collect()
}

/// Whether neither what is asked for nor the life of the object has changed.
fn is_of_status_alone<K: Object>(change: &Change<K>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else {
        return false;
    };
    let (old, new) = (old.meta(), new.meta());
    old.uid == new.uid
        && old.generation == new.generation
        && old.finalizers == new.finalizers
        && old.deletion_timestamp == new.deletion_timestamp
        && old.labels == new.labels
        && old.annotations == new.annotations
}

impl<R: Reconciler> std::fmt::Debug for Controller<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.name)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// A controller that is connected to its caches, of whatever kind.
pub(super) trait Runnable: Send + Sync {
    /// Brings the gauges that depend on the time up to date.
    fn refresh_metrics(&self);
    /// Lists the objects that it reconciles anew, and waits until that is done.
    fn list_anew(&self) -> BoxFuture<'static, ()>;
    /// Begins with every object there is, and works until the queue is closed.
    fn work(&self, context: Context) -> BoxFuture<'static, ()>;
    /// Hands out no more work; [`Self::work`] ends once what is under way is done.
    fn close(&self);
}

pub(super) struct Connected<R: Reconciler> {
    shared: Arc<Shared<R>>,
}

struct Shared<R: Reconciler> {
    primary: Cache<R::Kind>,
    reconciler: R,
    options: ControllerOptions,
    queue: WorkQueue,
    metrics: ControllerMetrics,
}

impl<R: Reconciler> Runnable for Connected<R> {
    fn refresh_metrics(&self) {
        self.shared.queue.refresh_metrics();
        self.shared
            .metrics
            .objects
            .set(i64::try_from(self.shared.primary.len()).unwrap_or(i64::MAX));
    }

    fn list_anew(&self) -> BoxFuture<'static, ()> {
        let primary = self.shared.primary.clone();
        Box::pin(async move { primary.list_anew().await })
    }

    fn work(&self, context: Context) -> BoxFuture<'static, ()> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            shared.queue.open();
            for key in shared.primary.keys() {
                shared.queue.add(key);
            }
            let mut workers = JoinSet::new();
            for _ in 0..shared.options.concurrency.max(1) {
                workers.spawn(Arc::clone(&shared).work_off(context.clone()));
            }
            while let Some(ended) = workers.join_next().await {
                // A reconcile's panic is caught further in: this one is the runtime's own.
                if let Err(error) = ended
                    && error.is_panic()
                {
                    error!(%error, "a worker panicked; starting another");
                    workers.spawn(Arc::clone(&shared).work_off(context.clone()));
                }
            }
        })
    }

    fn close(&self) {
        self.shared.queue.close();
    }
}

/// How a reconcile ended.
enum Ended<E> {
    Done(Next),
    Failed(E),
    Panicked(String),
    TimedOut,
}

impl<R: Reconciler> Shared<R> {
    async fn work_off(self: Arc<Self>, context: Context) {
        while let Some(key) = self.queue.next().await {
            let in_hand = InHand::new(&self, key);
            self.process(&in_hand.key, &context).await;
        }
    }

    async fn process(&self, key: &ObjectKey, context: &Context) {
        let Some(object) = self.primary.get(key) else {
            self.queue.forget(key);
            self.forget(key);
            return;
        };
        let span = info_span!(
            "reconcile",
            kind = %R::Kind::kind(&()),
            namespace = key.namespace.as_deref().unwrap_or_default(),
            // Not `name`: that is what JSON logs call the span itself.
            object = key.name,
            trace_id = field::Empty,
            otel.status_code = field::Empty,
        );
        traces::note_trace_id(&span);
        self.reconcile(key, object, context).instrument(span).await;
    }

    async fn reconcile(&self, key: &ObjectKey, object: Arc<R::Kind>, context: &Context) {
        let started = tokio::time::Instant::now();
        let attempt =
            AssertUnwindSafe(self.reconciler.reconcile(Arc::clone(&object), context)).catch_unwind();
        let ended = match timeout(self.options.timeout, attempt).await {
            Ok(Ok(Ok(next))) => Ended::Done(next),
            Ok(Ok(Err(error))) => Ended::Failed(error),
            Ok(Err(panic)) => Ended::Panicked(panic_message(panic.as_ref())),
            Err(_) => Ended::TimedOut,
        };
        self.metrics.time.observe(started.elapsed().as_secs_f64());
        match ended {
            Ended::Done(next) => self.succeeded(key, next),
            Ended::Failed(error) => self.failed(key, object.as_ref(), &error, context).await,
            Ended::Panicked(message) => {
                self.metrics.panics.inc();
                let note = format!("the operator has a defect: {message}");
                self.back_off(key, object.as_ref(), "panic", &note, context).await;
            }
            Ended::TimedOut => {
                self.metrics.timeouts.inc();
                let note = format!("not done within {:?}", self.options.timeout);
                self.back_off(key, object.as_ref(), "timeout", &note, context)
                    .await;
            }
        }
    }

    /// Tells the reconciler that there is no object of this key any more.
    fn forget(&self, key: &ObjectKey) {
        let told = catch_unwind(AssertUnwindSafe(|| self.reconciler.gone(key)));
        if let Err(panic) = told {
            self.metrics.panics.inc();
            let message = panic_message(panic.as_ref());
            error!(kind = %R::Kind::kind(&()), object = %key, message, "panicked over an object that is gone");
        }
    }

    fn succeeded(&self, key: &ObjectKey, next: Next) {
        self.queue.forget(key);
        match next {
            Next::OnChange => {
                self.metrics.success.inc();
                debug!("reconciled");
            }
            Next::After(delay) => {
                self.metrics.requeue_after.inc();
                self.queue.add_after(key.clone(), delay);
                debug!(again_in = ?delay, "reconciled");
            }
        }
    }

    async fn failed(&self, key: &ObjectKey, object: &R::Kind, error: &R::Error, context: &Context) {
        let (category, note) = (error.category(), error.to_string());
        match error.retry() {
            Retry::Again if self.queue.failures(key) < CONFLICTS => {
                self.metrics.requeue.inc();
                let delay = self.queue.retry(key.clone());
                debug!(category, reason = note, again_in = ?delay, "somebody else wrote first");
            }
            Retry::Again | Retry::BackOff => self.back_off(key, object, category, &note, context).await,
            Retry::After(delay) => {
                self.queue.forget(key);
                self.queue.add_after(key.clone(), delay);
                warn!(category, error = note, again_in = ?delay, "reconcile failed");
                self.tell(object, category, &note, context).await;
            }
            Retry::OnChange => {
                self.queue.forget(key);
                warn!(category, error = note, "reconcile failed; waiting for a change");
                self.tell(object, category, &note, context).await;
            }
        }
    }

    async fn back_off(
        &self,
        key: &ObjectKey,
        object: &R::Kind,
        category: &'static str,
        note: &str,
        context: &Context,
    ) {
        let delay = self.queue.retry(key.clone());
        warn!(category, error = note, again_in = ?delay, "reconcile failed");
        self.tell(object, category, note, context).await;
    }

    /// Counts a failure and says it where people look.
    async fn tell(&self, object: &R::Kind, category: &'static str, note: &str, context: &Context) {
        self.metrics.failed(category);
        context
            .events()
            .publish(object, EventType::Warning, "ReconcileFailed", "Reconcile", note)
            .await;
        Span::current().record("otel.status_code", "ERROR");
    }
}

/// An object that a worker has taken from the queue, which gets it back whatever happens: one that were kept would never be reconciled again.
struct InHand<'a, R: Reconciler> {
    shared: &'a Shared<R>,
    key: ObjectKey,
}

impl<'a, R: Reconciler> InHand<'a, R> {
    fn new(shared: &'a Shared<R>, key: ObjectKey) -> Self {
        shared.metrics.active.inc();
        Self { shared, key }
    }
}

impl<R: Reconciler> Drop for InHand<'_, R> {
    fn drop(&mut self) {
        self.shared.metrics.active.dec();
        if std::thread::panicking() {
            // Whatever was to come after it did not happen.
            self.shared.queue.retry(self.key.clone());
        }
        self.shared.queue.done(&self.key);
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic without a message".to_owned())
}

#[cfg(test)]
#[path = "controller_tests.rs"]
mod tests;
