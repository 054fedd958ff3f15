//! The agents in the pods, as the operator asks them.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use roadstead::api::my_proxy::agent::{Report, config_hash};
use roadstead::controllers::my_proxy::agents::Agents;
use roadstead::controllers::my_proxy::loaded::AskError;

use super::{Memory, every, text};
use crate::sim::Sim;

/// Answers for every pod of a cluster.
pub struct PlayedAgents {
    pub(super) sim: Sim,
    pub(super) memory: Arc<Mutex<Memory>>,
}

impl std::fmt::Debug for PlayedAgents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PlayedAgents")
    }
}

impl Agents for PlayedAgents {
    fn report(&self, pod: IpAddr) -> BoxFuture<'_, Result<Report, AskError>> {
        async move { self.answer(&pod.to_string()) }.boxed()
    }
}

impl PlayedAgents {
    fn answer(&self, address: &str) -> Result<Report, AskError> {
        let nobody = || AskError::Unreachable("No route to host".to_owned());
        let pods = self.sim.with(|store| every(store, "Pod"));
        let mut pods = pods.into_iter();
        let (id, _) = pods
            .find(|(_, pod)| text(pod, "/status/podIP") == address)
            .ok_or_else(nobody)?;
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let serving = memory.kubelet.serving();
        let config = serving.get(&(id.namespace, id.name)).ok_or_else(nobody)?;
        let config = Some(config_hash(config));
        Ok(Report {
            mounted: config.clone(),
            config,
            ..Report::default()
        })
    }
}
