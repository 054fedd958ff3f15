//! Puts it all together: caches first, then the lease, then the controllers.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{error, info, warn};

use super::apply::Applier;
use super::cache::{Cache, Caches, Source, Trim, Watch, WatchedCache};
use super::client::Clients;
use super::clock::Clock;
use super::controller::{Controller, Runnable};
use super::events::Events;
use super::health::Health;
use super::key::{Object, ObjectKey};
use super::lease::{Elector, LeaseConfig, LeaseLost, Outlook};
use super::metrics::RuntimeMetrics;
use super::reconcile::{Context, Reconciler};
use super::upgradeable::{Keeper, Upgradeable};
use crate::telemetry::metrics::Metrics;

/// How a manager works.
#[derive(Clone, Debug)]
pub struct ManagerOptions {
    /// Namespaces to watch; all of them if there are none here.
    pub namespaces: Vec<String>,
    /// The lease to hold while working; `None` to work without one, alone.
    pub lease: Option<LeaseConfig>,
    /// Kinds whose objects this process may have to convert before the API server can list them. The probes do not wait for their caches, unless the
    /// API server refuses to list them at all: who is not ready is not asked, and nobody else may be there to convert. Work waits for them all the same.
    pub converts: Vec<String>,
    /// The OperatorCondition that OLM has named for this operator, if it has; it is in the operator's own namespace.
    pub operator_condition: Option<ObjectKey>,
    /// In whose name children are applied and Events published.
    pub name: String,
    /// Which process of that name this is: the pod's name.
    pub instance: String,
    /// The time of day, for the Lease's timestamps, and for all else until the API server has said its own.
    pub clock: Clock,
    /// How long the caches may take to fill.
    pub sync_timeout: Duration,
    /// How long reconciles that are under way may take to end after the manager was told to stop.
    pub grace: Duration,
}

impl ManagerOptions {
    /// Options for the operator `name`, of which this process is `instance`: all namespaces, no election, no conversion, no
    /// OperatorCondition, 2 minutes for the caches, 10 s for what is under way at the end.
    pub fn new(name: impl Into<String>, instance: impl Into<String>) -> Self {
        Self {
            namespaces: Vec::new(),
            lease: None,
            converts: Vec::new(),
            operator_condition: None,
            name: name.into(),
            instance: instance.into(),
            clock: Clock::system(),
            sync_timeout: Duration::from_secs(120),
            grace: Duration::from_secs(10),
        }
    }
}

/// Why a manager ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// A cache could not be filled.
    #[error("not everything could be listed within {} s: {}", .after.as_secs(), .missing.join("; "))]
    NotSynced {
        /// How long it was tried.
        after: Duration,
        /// Each kind that is missing, with the last error.
        missing: Vec<String>,
    },
    /// The lease is no longer ours. Whoever runs the manager must end the process.
    #[error(transparent)]
    LeaseLost(#[from] LeaseLost),
    /// A task of the runtime itself ended, which it never should.
    #[error("{0} ended unexpectedly")]
    TaskEnded(&'static str),
}

/// The caches and controllers of one operator.
pub struct Manager {
    clients: Clients,
    options: ManagerOptions,
    metrics: Arc<Metrics>,
    runtime_metrics: RuntimeMetrics,
    caches: Caches,
    sources: Arc<std::sync::RwLock<Vec<Arc<dyn Source>>>>,
    controllers: Vec<Arc<dyn Runnable>>,
    health: Health,
    outlook: Outlook,
    upgradeable: Upgradeable,
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manager")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Manager {
    /// A manager without caches and controllers.
    ///
    /// With [`ManagerOptions::lease`], `clients` must have been made with [`super::lease::Leadership::standby`], without it with
    /// [`super::lease::Leadership::unneeded`]. `runtime_metrics` must be registered in `metrics`.
    pub fn new(
        clients: Clients,
        options: ManagerOptions,
        metrics: Arc<Metrics>,
        runtime_metrics: RuntimeMetrics,
    ) -> Self {
        let sources = Arc::<std::sync::RwLock<Vec<Arc<dyn Source>>>>::default();
        let checked = Arc::clone(&sources);
        let outlook = Outlook::default();
        let election = options
            .lease
            .as_ref()
            .map(|lease| (outlook.clone(), lease.lease_duration));
        let converts = options.converts.clone();
        let health = Health::new(move || {
            let sources = checked.read().unwrap_or_else(std::sync::PoisonError::into_inner);
            let mut missing = missing(&sources, |source| {
                source.is_synced() || (converts.contains(&source.kind()) && !source.is_refused())
            });
            if let Some((outlook, patience)) = &election {
                missing.extend(outlook.check(*patience).err());
            }
            if missing.is_empty() {
                Ok(())
            } else {
                Err(missing.join("\n"))
            }
        });
        let upgradeable = Upgradeable::new(options.operator_condition.clone());
        Self {
            clients,
            options,
            metrics,
            runtime_metrics,
            caches: Caches::default(),
            sources,
            controllers: Vec::new(),
            health,
            outlook,
            upgradeable,
        }
    }

    /// The clients that it works with.
    pub fn clients(&self) -> &Clients {
        &self.clients
    }

    /// What holds updates of this operator back; reconciles get it from their context.
    pub fn upgradeable(&self) -> &Upgradeable {
        &self.upgradeable
    }

    /// A cache of the kind `K`, filled once the manager runs. Controllers that ask for the same share one.
    pub fn cache<K: Object>(&mut self, watch: Watch) -> Cache<K> {
        self.keep(watch, None)
    }

    /// The same, of objects from which `trim` has taken what nobody reads: for kinds of which there are many. Such an object must not be
    /// handed to the applier as the live one, which would find fields missing. `trim` must leave the metadata alone.
    pub fn trimmed_cache<K: Object>(&mut self, watch: Watch, trim: fn(&mut K)) -> Cache<K> {
        self.keep(watch, Some(trim))
    }

    fn keep<K: Object>(&mut self, watch: Watch, trim: Option<Trim<K>>) -> Cache<K> {
        if let Some(kept) = self.caches.get(&watch, trim) {
            return kept;
        }
        let cache = Cache::trimmed(trim);
        self.caches.add(watch.clone(), cache.clone());
        let source = Arc::new(WatchedCache {
            cache: cache.clone(),
            watch,
        });
        self.sources
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .push(source);
        cache
    }

    /// Adds a controller.
    pub fn add<R: Reconciler>(&mut self, controller: Controller<R>) {
        let connected: Arc<dyn Runnable> = Arc::new(controller.connect(&self.runtime_metrics));
        let refreshed = Arc::clone(&connected);
        self.metrics.on_scrape(move || refreshed.refresh_metrics());
        self.controllers.push(connected);
    }

    /// What the probes are to be answered by.
    pub fn health(&self) -> Health {
        self.health.clone()
    }

    /// Fills the caches, waits for the lease, lists once more what is to be reconciled, works until `shutdown` is done, lets running reconciles
    /// end, gives the lease back. When some do not end within the grace period, the lease is left to expire, because what they sent may still
    /// take effect.
    ///
    /// # Errors
    /// When a cache cannot be filled, and as soon as the lease is lost: then nothing is waited for, writes are refused already, and the
    /// process has to end.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), ManagerError> {
        let health = self.health.clone();
        tokio::select! {
            outcome = self.run_to_the_end(shutdown) => outcome,
            never = health.beat() => match never {},
        }
    }

    async fn run_to_the_end(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), ManagerError> {
        let shutdown = shutdown.shared();
        // Dropped, and with them everything that watches, whichever way this function ends.
        let mut watches = self.start_caches();
        tokio::select! {
            synced = self.wait_for_caches() => synced?,
            () = shutdown.clone() => return Ok(()),
            _ = watches.join_next(), if !watches.is_empty() => return Err(ManagerError::TaskEnded("a watch")),
        }
        let mut elector = self.options.lease.clone().map(|lease| {
            let Clients {
                lease: client,
                leadership,
                ..
            } = self.clients.clone();
            Elector::new(
                client,
                lease,
                leadership,
                self.options.clock.clone(),
                self.runtime_metrics.clone(),
            )
            .with_outlook(self.outlook.clone())
        });
        if let Some(elector) = &mut elector {
            tokio::select! {
                leads = self.begin_to_lead(elector, shutdown.clone()) => if !leads? { return Ok(()) },
                _ = watches.join_next(), if !watches.is_empty() => return Err(ManagerError::TaskEnded("a watch")),
            }
        }
        let mut keeper = self.start_keeper();
        let mut work = self.start_controllers();
        tokio::select! {
            lost = hold(&mut elector) => return Err(lost.into()),
            () = shutdown.clone() => {}
            _ = watches.join_next(), if !watches.is_empty() => return Err(ManagerError::TaskEnded("a watch")),
            _ = work.join_next(), if !work.is_empty() => return Err(ManagerError::TaskEnded("a controller")),
            _ = keeper.join_next() => return Err(ManagerError::TaskEnded("the keeper of the OperatorCondition")),
        }
        info!("stopping: no more work is taken");
        for controller in &self.controllers {
            controller.close();
        }
        let drained = tokio::select! {
            lost = hold(&mut elector) => return Err(lost.into()),
            drained = self.drain(&mut work) => drained,
        };
        // What it has sent is guarded by the version that it read, so the next leader need not wait for that.
        keeper.shutdown().await;
        match &mut elector {
            Some(elector) if drained => elector.release().await,
            Some(elector) => elector.leave(),
            None => {}
        }
        // What is cut off here is fenced already.
        work.shutdown().await;
        Ok(())
    }

    fn sources(&self) -> Vec<Arc<dyn Source>> {
        self.sources
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }

    fn start_caches(&self) -> JoinSet<()> {
        let mut watches = JoinSet::new();
        for source in self.sources() {
            let (client, namespaces) = (self.clients.fenced.clone(), self.options.namespaces.clone());
            watches.spawn(source.follow(client, namespaces, &self.options.instance));
        }
        watches
    }

    async fn wait_for_caches(&self) -> Result<(), ManagerError> {
        let (sources, after) = (self.sources(), self.options.sync_timeout);
        let all = join_all(sources.iter().map(|source| source.synced()));
        timeout(after, all)
            .await
            .map(drop)
            .map_err(|_| ManagerError::NotSynced {
                after,
                missing: missing(&sources, |source| source.is_synced()),
            })
    }

    /// Waits for the lease, and then until what is reconciled has been listed anew: a watch may still have to tell of the last leader's
    /// time, and by an earlier spec and the present children one would bring that spec about again. False when told to stop meanwhile.
    async fn begin_to_lead(
        &self,
        elector: &mut Elector,
        shutdown: impl Future<Output = ()> + Clone,
    ) -> Result<bool, LeaseLost> {
        if !elector.acquire(shutdown.clone()).await {
            return Ok(false);
        }
        let patience = elector.lease_duration();
        tokio::select! {
            lost = elector.hold() => Err(lost),
            () = self.list_anew(patience) => Ok(true),
            () = shutdown => {
                elector.release().await;
                Ok(false)
            }
        }
    }

    /// Where that takes longer, what the watches have told is better than to do nothing at all; the lists are waited for no more, but still come.
    async fn list_anew(&self, patience: Duration) {
        let lists = join_all(self.controllers.iter().map(|controller| controller.list_anew()));
        if timeout(patience, lists).await.is_err() {
            let missing = missing(&self.sources(), |source| source.is_listed()).join("; ");
            warn!(after = ?patience, missing, "working with what the watches have told so far, since not everything could be listed anew");
        }
    }

    fn clock(&self) -> Clock {
        self.clients.time.clock(self.options.clock.clone())
    }

    fn start_keeper(&self) -> JoinSet<Infallible> {
        let keeper = Keeper::new(&self.upgradeable, self.clients.fenced.clone(), self.clock());
        let mut running = JoinSet::new();
        running.spawn(keeper.run());
        running
    }

    fn start_controllers(&self) -> JoinSet<()> {
        let (client, clock) = (self.clients.fenced.clone(), self.clock());
        let context = Context {
            applier: Applier::new(client.clone(), &self.options.name, self.caches.clone()),
            events: Events::new(
                client.clone(),
                &self.options.name,
                &self.options.instance,
                clock.clone(),
            ),
            clock,
            client,
            upgradeable: self.upgradeable.clone(),
        };
        let mut work = JoinSet::new();
        for controller in &self.controllers {
            work.spawn(controller.work(context.clone()));
        }
        info!(controllers = self.controllers.len(), "working");
        work
    }

    /// Lets what is under way end. False when some of it did not in time.
    async fn drain(&self, work: &mut JoinSet<()>) -> bool {
        let all = async {
            while let Some(ended) = work.join_next().await {
                if let Err(error) = ended {
                    error!(%error, "a controller did not end well");
                }
            }
        };
        let drained = timeout(self.options.grace, all).await.is_ok();
        if !drained {
            warn!(after = ?self.options.grace, "some reconciles did not end in time and are cut off");
        }
        drained
    }
}

/// Returns when the lease is lost; never when there is none to lose.
async fn hold(elector: &mut Option<Elector>) -> LeaseLost {
    match elector {
        Some(elector) => elector.hold().await,
        None => std::future::pending().await,
    }
}

/// Those that are not so, with the reasons.
fn missing(sources: &[Arc<dyn Source>], is_so: impl Fn(&dyn Source) -> bool) -> Vec<String> {
    let others = sources.iter().filter(|source| !is_so(source.as_ref()));
    others
        .map(|source| {
            let why = source.last_error().unwrap_or_else(|| "not listed yet".to_owned());
            format!("{}: {why}", source.kind())
        })
        .collect()
}

#[cfg(test)]
#[path = "manager_tests.rs"]
mod tests;
