//! Plays the agents in the pods of one namespace: answers over HTTP on a loopback address for each pod. An agent says that its nginx
//! serves what the mounted ConfigMap holds, which is what a real one comes to, unless the test has it say something else.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use k8s_openapi::api::core::v1::{ConfigMap, PodSpec};
use kube::api::Api;
use roadstead::api::my_proxy::agent::{REPORT, Report, config_hash};
use roadstead::controllers::my_proxy::desired::unit::FILE;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::OnceCell;
use tokio::task::JoinSet;

/// The name of the ConfigMap that holds the configuration of a pod.
pub fn mounted(pod: &PodSpec) -> Option<&str> {
    let mut volumes = pod.volumes.iter().flatten();
    let volume = volumes.find(|volume| volume.name == "config")?;
    Some(&volume.config_map.as_ref()?.name)
}

/// The status of a pod that is ready, and has this address.
pub fn ready_at(address: IpAddr) -> Value {
    let (ready, address) = (json!({"type": "Ready", "status": "True"}), address.to_string());
    json!({"phase": "Running", "conditions": [ready], "podIP": address, "podIPs": [{"ip": address}]})
}

pub struct PlayedAgents {
    config_maps: Api<ConfigMap>,
    /// Has the port on which all of them answer, and keeps it from other tests.
    port: OnceCell<TcpListener>,
    pods: Mutex<Pods>,
}

#[derive(Default)]
struct Pods {
    /// How many there ever were; each has another address.
    made: u16,
    present: HashMap<String, Pod>,
}

struct Pod {
    address: IpAddr,
    said: Arc<Mutex<Option<Report>>>,
    /// Ends when this is dropped.
    _serving: JoinSet<()>,
}

#[derive(Clone)]
struct Agent {
    config_maps: Api<ConfigMap>,
    mounted: String,
    said: Arc<Mutex<Option<Report>>>,
    /// What nginx has loaded.
    loaded: Arc<Mutex<Option<String>>>,
}

impl PlayedAgents {
    pub fn new(config_maps: Api<ConfigMap>) -> Self {
        Self {
            config_maps,
            port: OnceCell::new(),
            pods: Mutex::default(),
        }
    }

    /// The port on which all of them answer: one that was free, so that no other test has it.
    pub async fn port(&self) -> u16 {
        let free = async || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let listener = self.port.get_or_init(free).await;
        listener.local_addr().unwrap().port()
    }

    /// The address of the pod, where from now on an agent answers that is given the ConfigMap which the pod mounts.
    pub async fn of(&self, pod: &str, spec: &PodSpec) -> IpAddr {
        let address = {
            let mut pods = self.pods.lock().unwrap();
            if let Some(known) = pods.present.get(pod) {
                return known.address;
            }
            pods.made = pods.made.wrapping_add(1);
            let [high, low] = pods.made.to_be_bytes();
            IpAddr::from(Ipv4Addr::new(127, 66, high, low))
        };
        let listener = TcpListener::bind(SocketAddr::new(address, self.port().await))
            .await
            .unwrap();
        let said = Arc::default();
        let agent = Agent {
            config_maps: self.config_maps.clone(),
            mounted: mounted(spec).unwrap().to_owned(),
            said: Arc::clone(&said),
            loaded: Arc::default(),
        };
        let routes = Router::new().route(REPORT, get(answer)).with_state(agent);
        let mut serving = JoinSet::new();
        serving.spawn(async { axum::serve(listener, routes).await.unwrap() });
        let known = Pod {
            address,
            said,
            _serving: serving,
        };
        self.pods.lock().unwrap().present.insert(pod.to_owned(), known);
        address
    }

    /// Has the agent of a pod say this from now on; nothing lets it say again what is so.
    pub fn say(&self, pod: &str, report: Option<Report>) {
        *self.pods.lock().unwrap().present[pod].said.lock().unwrap() = report;
    }

    /// Ends the agent of a pod that is gone.
    pub fn end(&self, pod: &str) {
        self.pods.lock().unwrap().present.remove(pod);
    }

    /// How many answer.
    pub fn count(&self) -> usize {
        self.pods.lock().unwrap().present.len()
    }
}

impl Agent {
    /// The hash of what nginx serves, which is what it has loaded when the mounted file is lost.
    async fn serves(&self) -> Option<String> {
        let config_map = self.config_maps.get_opt(&self.mounted).await.ok().flatten();
        let config = config_map.and_then(|config_map| config_map.data?.remove(FILE));
        let mut loaded = self.loaded.lock().unwrap();
        if let Some(config) = config {
            *loaded = Some(config_hash(config));
        }
        loaded.clone()
    }
}

async fn answer(State(agent): State<Agent>) -> Result<String, StatusCode> {
    let said = agent.said.lock().unwrap().clone();
    let report = match said {
        Some(report) => report,
        None => {
            let config = Some(agent.serves().await.ok_or(StatusCode::SERVICE_UNAVAILABLE)?);
            Report {
                mounted: config.clone(),
                config,
                ..Report::default()
            }
        }
    };
    Ok(serde_json::to_string(&report).unwrap())
}
