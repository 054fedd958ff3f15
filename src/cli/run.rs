//! `roadstead run`: Run the operator.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use clap::ArgAction;
use futures::FutureExt;
use kube::Config;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::info;

use super::Outcome;
use super::logging::Logging;
use super::operands::Operands;
use super::values::{ForKind, Listen, PerKind, concurrency, duration, for_kind, loopback, positive_duration};
use super::webhooks::Webhooks;
use crate::controllers;
use crate::package;
use crate::runtime::backoff::Backoff;
use crate::runtime::client::{Clients, REQUEST_TIMEOUT};
use crate::runtime::controller::ControllerOptions;
use crate::runtime::key::ObjectKey;
use crate::runtime::lease::{Leadership, LeaseConfig};
use crate::runtime::manager::{Manager, ManagerOptions};
use crate::runtime::metrics::RuntimeMetrics;
use crate::runtime::{admin, health, signals};
use crate::telemetry::metrics::Metrics;

/// The field manager of children, and the reporter of Events.
const NAME: &str = "roadstead";
/// Where the admin listener is if nothing else is said.
pub(super) const ADMIN_ADDRESS: &str = "127.0.0.1:8082";
/// Enough for the operator: it waits for the network nearly always. Two, so that a long computation in one reconcile cannot keep the
/// lease from being renewed or a probe from being answered; not more, because each costs memory.
const THREADS: usize = 2;
/// What is still running when the operator has ended is given this long.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Run the operator.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Namespaces to look after; repeat it or separate them by commas. Without it: all.
    #[arg(
        long,
        env = "WATCH_NAMESPACE",
        value_name = "NAMESPACE",
        value_delimiter = ','
    )]
    watch_namespace: Vec<String>,
    /// How long reconciles that are under way may take to end after SIGTERM.
    #[arg(long, default_value = "10s", value_name = "DURATION", value_parser = duration)]
    grace_period: Duration,
    /// Name of the OperatorCondition by which OLM is kept from updating the operator in the middle of something dangerous, in the operator's
    /// namespace. OLM sets the variable; without it, nothing is written.
    #[arg(long, env = "OPERATOR_CONDITION_NAME", value_name = "NAME")]
    operator_condition_name: Option<String>,
    #[command(flatten)]
    election: Election,
    #[command(flatten)]
    listeners: Listeners,
    #[command(flatten)]
    logging: Logging,
    #[command(flatten)]
    pace: Pace,
    #[command(flatten)]
    operands: Operands,
    #[command(flatten)]
    webhooks: Webhooks,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Leader election")]
struct Election {
    /// Work only while holding a Lease, so that several replicas can stand by.
    #[arg(long, env = "LEADER_ELECT", default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    leader_elect: bool,
    /// Name of the Lease.
    #[arg(long, default_value = package::OPERATOR, value_name = "NAME")]
    lease_name: String,
    /// Namespace of the Lease. Without it: the pod's own, or that of the kubeconfig's context.
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE")]
    lease_namespace: Option<String>,
    /// For how long a leader that fell silent keeps the Lease; whole seconds.
    #[arg(long, default_value = "15s", value_name = "DURATION", value_parser = positive_duration)]
    lease_duration: Duration,
    /// A leader that could not renew the Lease for this long stops writing and ends.
    #[arg(long, default_value = "10s", value_name = "DURATION", value_parser = positive_duration)]
    renew_deadline: Duration,
    /// How often the leader renews the Lease, and others look at it.
    #[arg(long, default_value = "2s", value_name = "DURATION", value_parser = positive_duration)]
    retry_period: Duration,
    /// Which replica this is. Without it: the host's name.
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pod_name: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Listeners")]
struct Listeners {
    /// Where /metrics is served; off for nowhere.
    #[arg(
        long,
        env = "METRICS_ADDRESS",
        default_value = ":8080",
        value_name = "ADDRESS"
    )]
    metrics_address: Listen,
    /// Where /healthz and /readyz are served; may be the same as for /metrics.
    #[arg(long, env = "HEALTH_ADDRESS", default_value = ":8080", value_name = "ADDRESS")]
    health_address: Listen,
    /// Where `roadstead log-level` reaches this process: a loopback address, or off.
    #[arg(long, env = "ADMIN_ADDRESS", default_value = ADMIN_ADDRESS, value_name = "ADDRESS", value_parser = loopback)]
    admin_address: Listen,
}

#[derive(Debug, clap::Args)]
#[command(
    next_help_heading = "Pace (VALUE for all kinds, KIND=VALUE for one, such as myproxy=10ms; repeatable)"
)]
struct Pace {
    /// An object waits this long after it failed, doubled with each failure in a row [default: 5ms].
    #[arg(long, value_name = "[KIND=]DURATION", value_delimiter = ',', value_parser = |text: &str| for_kind(text, positive_duration))]
    backoff_base: Vec<ForKind<Duration>>,
    /// No object waits longer than this [default: 1000s].
    #[arg(long, value_name = "[KIND=]DURATION", value_delimiter = ',', value_parser = |text: &str| for_kind(text, positive_duration))]
    backoff_max: Vec<ForKind<Duration>>,
    /// How many objects are reconciled at once [default: 4].
    #[arg(long, value_name = "[KIND=]NUMBER", value_delimiter = ',', value_parser = |text: &str| for_kind(text, concurrency))]
    concurrency: Vec<ForKind<usize>>,
    /// A reconcile that takes longer is given up, and counts as failed [default: 2m].
    #[arg(long, value_name = "[KIND=]DURATION", value_delimiter = ',', value_parser = |text: &str| for_kind(text, positive_duration))]
    reconcile_timeout: Vec<ForKind<Duration>>,
}

impl Election {
    /// The operator's own namespace.
    fn namespace(&self, config: &Config) -> String {
        let own = self.lease_namespace.as_ref();
        own.unwrap_or(&config.default_namespace).clone()
    }
}

/// How fast each kind is worked on.
struct Tuning {
    backoff_base: PerKind<Duration>,
    backoff_max: PerKind<Duration>,
    concurrency: PerKind<usize>,
    timeout: PerKind<Duration>,
}

impl Tuning {
    fn new(pace: &Pace, kinds: &[&str]) -> Result<Self, String> {
        let default = ControllerOptions::default();
        let tuning = Self {
            backoff_base: PerKind::new("backoff-base", default.backoff.base, &pace.backoff_base, kinds)?,
            backoff_max: PerKind::new("backoff-max", default.backoff.max, &pace.backoff_max, kinds)?,
            concurrency: PerKind::new("concurrency", default.concurrency, &pace.concurrency, kinds)?,
            timeout: PerKind::new(
                "reconcile-timeout",
                default.timeout,
                &pace.reconcile_timeout,
                kinds,
            )?,
        };
        for kind in kinds {
            let Backoff { base, max } = tuning.options(kind).backoff;
            if base > max {
                return Err(format!(
                    "--backoff-base: {base:?} for {kind} is more than --backoff-max; accepted is at most {max:?}"
                ));
            }
        }
        Ok(tuning)
    }

    fn options(&self, kind: &str) -> ControllerOptions {
        ControllerOptions {
            concurrency: self.concurrency.of(kind),
            backoff: Backoff {
                base: self.backoff_base.of(kind),
                max: self.backoff_max.of(kind),
            },
            timeout: self.timeout.of(kind),
        }
    }
}

/// Runs the subcommand.
pub fn main(args: Args) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(run(args));
    // Not dropped: that would wait for whatever still runs, and a process that lost its lease has to end now.
    runtime.shutdown_timeout(LAST_WORDS);
    outcome
}

async fn run(args: Args) -> Outcome {
    let told_to_stop = signals::shutdown()?.shared();
    let tuning = Tuning::new(&args.pace, controllers::KINDS)?;
    let (logs, traces) = args.logging.begin()?;
    info!(version = env!("CARGO_PKG_VERSION"), "roadstead starts");

    let metrics = Arc::new(Metrics::with_build_info(env!("CARGO_PKG_VERSION")));
    let config = Config::infer()
        .await
        .map_err(|error| format!("no cluster to work on: {error}"))?;
    let namespace = args.election.namespace(&config);
    let mut manager = manager(&args, config, &metrics)?;
    args.operands.register(&mut manager, |kind| tuning.options(kind));
    args.webhooks.move_stored_objects(&mut manager);

    let (stop, stopped) = watch::channel(false);
    let webhooks = args.webhooks.start(
        &manager,
        &namespace,
        args.operands.cluster_domain(),
        &metrics,
        told_to_stop.clone(),
    );
    let webhooks = webhooks.await?;
    let health = match &webhooks {
        Some(webhooks) => manager.health().and(webhooks.readiness()),
        None => manager.health(),
    };
    let mut servers = JoinSet::new();
    for (address, purpose, routes) in listeners(
        &args.listeners,
        health.routes(),
        health::metrics_routes(metrics),
        admin::routes(logs),
    ) {
        let listener = health::listen(address, purpose).await?;
        servers.spawn(health::serve(listener, routes, wait_for(stopped.clone())));
    }
    let outcome = manager.run(told_to_stop).await;
    stop.send_replace(true);
    // A process that may still be asked goes on answering until everybody has noticed; one that lost its lease has to end now.
    if let (Some(webhooks), Ok(())) = (webhooks, &outcome) {
        webhooks.end().await;
    }
    if tokio::time::timeout(LAST_WORDS, async { while servers.join_next().await.is_some() {} })
        .await
        .is_err()
    {
        servers.abort_all();
    }
    if let Some(traces) = traces {
        tokio::task::spawn_blocking(move || traces.flush()).await?;
    }
    info!("roadstead ends");
    Ok(outcome?)
}

fn manager(
    args: &Args,
    config: Config,
    metrics: &Arc<Metrics>,
) -> Result<Manager, Box<dyn std::error::Error + Send + Sync>> {
    let instance = instance(args.election.pod_name.as_deref());
    let lease = lease(&args.election, &config, &instance)?;
    let leadership = if lease.is_some() {
        Leadership::standby()
    } else {
        Leadership::unneeded()
    };
    let operator_condition = operator_condition(args, &config);
    let runtime_metrics = RuntimeMetrics::register(metrics);
    info!(cluster = %config.cluster_url, namespaces = ?args.watch_namespace, "working on");
    let clients = Clients::connect(config, leadership, REQUEST_TIMEOUT, &runtime_metrics)?;
    let options = ManagerOptions {
        namespaces: args
            .watch_namespace
            .iter()
            .filter(|namespace| !namespace.is_empty())
            .cloned()
            .collect(),
        lease,
        converts: args.webhooks.kinds(),
        operator_condition,
        grace: args.grace_period,
        ..ManagerOptions::new(NAME, instance)
    };
    Ok(Manager::new(
        clients,
        options,
        Arc::clone(metrics),
        runtime_metrics,
    ))
}

/// The OperatorCondition that OLM has named: it is in the operator's namespace.
fn operator_condition(args: &Args, config: &Config) -> Option<ObjectKey> {
    let name = args
        .operator_condition_name
        .as_ref()
        .filter(|name| !name.is_empty())?;
    Some(ObjectKey::namespaced(args.election.namespace(config), name))
}

fn lease(election: &Election, config: &Config, instance: &str) -> Result<Option<LeaseConfig>, String> {
    if !election.leader_elect {
        return Ok(None);
    }
    let namespace = election.namespace(config);
    // A container that is started again in the same pod is another process: it must not take its predecessor's lease for its own.
    let identity = format!("{instance}_{}", nonce());
    let lease = LeaseConfig {
        lease_duration: election.lease_duration,
        renew_deadline: election.renew_deadline,
        retry_period: election.retry_period,
        ..LeaseConfig::new(namespace, &election.lease_name, identity)
    };
    lease
        .validate()
        .map_err(|error| format!("--{}: {error}", error.field().replace(' ', "-")))?;
    Ok(Some(lease))
}

/// The pod's name, or the host's, which is the same in a pod.
fn instance(pod_name: Option<&str>) -> String {
    let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_owned());
    pod_name
        .map(str::to_owned)
        .or_else(|| host().ok())
        .unwrap_or_else(|| "roadstead".to_owned())
}

/// What no other process has: the time at which this one began, and its number.
fn nonce() -> String {
    format!(
        "{:x}-{:x}",
        jiff::Timestamp::now().as_nanosecond(),
        std::process::id()
    )
}

/// What is served where. One listener serves both the metrics and the probes when their addresses are the same.
fn listeners(
    listeners: &Listeners,
    health: Router,
    metrics: Router,
    admin: Router,
) -> Vec<(SocketAddr, &'static str, Router)> {
    let mut served = Vec::new();
    match (listeners.health_address.0, listeners.metrics_address.0) {
        (Some(both), Some(metrics_address)) if both == metrics_address && both.port() != 0 => {
            served.push((both, "probes and metrics", health.merge(metrics)));
        }
        (health_address, metrics_address) => {
            served.extend(health_address.map(|address| (address, "probes", health)));
            served.extend(metrics_address.map(|address| (address, "metrics", metrics)));
        }
    }
    served.extend(listeners.admin_address.0.map(|address| (address, "admin", admin)));
    served
}

async fn wait_for(mut stopped: watch::Receiver<bool>) {
    // Fails when the sender is gone, which means the same.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        run: Args,
    }

    fn parse(flags: &[&str]) -> Result<Args, String> {
        let flags = std::iter::once(&"run").chain(flags);
        Command::try_parse_from(flags)
            .map(|command| command.run)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn every_flag_has_a_default() {
        let args = parse(&[]).unwrap();
        assert!(args.election.leader_elect);
        assert_eq!(args.election.lease_duration, Duration::from_secs(15));
        assert!(args.watch_namespace.is_empty());
        let tuning = Tuning::new(&args.pace, &["myproxy"]).unwrap();
        assert_eq!(tuning.options("myproxy"), ControllerOptions::default());
    }

    #[test]
    fn a_bad_value_names_the_flag_the_value_and_what_is_accepted() {
        for (flags, parts) in [
            (["--lease-duration=soon"], ["--lease-duration", "soon", "15s"]),
            (["--concurrency=0"], ["--concurrency", "\"0\"", "from 1 to 256"]),
            (["--log-level=loud"], ["--log-level", "loud", "debug"]),
            (["--metrics-address=here"], ["--metrics-address", "here", ":PORT"]),
            (
                ["--admin-address=0.0.0.0:1"],
                ["--admin-address", "0.0.0.0:1", "127.0.0.1:PORT"],
            ),
        ] {
            let message = parse(&flags).unwrap_err();
            assert!(parts.iter().all(|part| message.contains(part)), "{message}");
        }
    }

    #[test]
    fn a_base_above_its_maximum_is_refused() {
        let args = parse(&["--backoff-max=1s", "--backoff-base=myproxy=2s"]).unwrap();
        let error = Tuning::new(&args.pace, &["myproxy"]).err().unwrap();
        assert_eq!(
            error,
            "--backoff-base: 2s for myproxy is more than --backoff-max; accepted is at most 1s"
        );
    }

    #[test]
    fn the_operator_condition_is_in_the_operators_namespace_and_an_empty_name_is_none() {
        let config = Config::new("http://localhost".parse().unwrap());
        let condition = |name: &str| {
            let args = parse(&["--lease-namespace=operators", name]).unwrap();
            operator_condition(&args, &config).map(|key| key.to_string())
        };
        let named = condition("--operator-condition-name=roadstead.v0.1.0");
        assert_eq!(named.as_deref(), Some("operators/roadstead.v0.1.0"));
        assert_eq!(condition("--operator-condition-name="), None);
    }

    #[test]
    fn namespaces_may_be_repeated_or_separated_by_commas() {
        let args = parse(&["--watch-namespace=a,b", "--watch-namespace=c"]).unwrap();
        assert_eq!(args.watch_namespace, ["a", "b", "c"]);
    }

    #[test]
    fn probes_and_metrics_share_a_listener_when_they_share_an_address() {
        let served = |flags: &[&str]| {
            let args = parse(flags).unwrap();
            let all = listeners(&args.listeners, Router::new(), Router::new(), Router::new());
            all.into_iter().map(|(_, purpose, _)| purpose).collect::<Vec<_>>()
        };
        assert_eq!(served(&[]), ["probes and metrics", "admin"]);
        assert_eq!(
            served(&["--health-address=:8081", "--admin-address=off"]),
            ["probes", "metrics"]
        );
    }
}
