//! An operator as it runs in its pod, but on the simulated API server. The one place that knows how it is put together.

use std::sync::Arc;

use roadstead::runtime::client::{Clients, REQUEST_TIMEOUT};
use roadstead::runtime::clock::Clock;
use roadstead::runtime::lease::{Leadership, LeaseConfig};
use roadstead::runtime::manager::{Manager, ManagerOptions};
use roadstead::runtime::metrics::RuntimeMetrics;
use roadstead::telemetry::metrics::Metrics;

use super::World;
use crate::running::Running;
use crate::sim::faults::Faults;

/// Whose requests these are, in the log of the API server.
pub const USER: &str = "operator";
/// Where its lease is.
pub const OPERATORS: &str = "roadstead-system";

/// Starts one under the name `instance`, which no other may have had, with `faults` between it and the API server, in whose log its requests
/// are those of `user`.
pub fn start(world: &World, user: &str, instance: &str, faults: &Faults, clock: Clock) -> Running {
    let subject = world.subject;
    let metrics = Arc::new(Metrics::new());
    let runtime_metrics = RuntimeMetrics::register(&metrics);
    let service = world.sim.service(user, faults);
    let clients = Clients::over(service, Leadership::standby(), REQUEST_TIMEOUT, &runtime_metrics);
    let options = ManagerOptions {
        lease: Some(LeaseConfig::new(OPERATORS, subject.name, instance)),
        clock,
        ..ManagerOptions::new(subject.name, instance)
    };
    let mut manager = Manager::new(clients, options, Arc::clone(&metrics), runtime_metrics);
    (subject.register)(&mut manager, &world.cluster);
    Running::begin(manager, metrics)
}
