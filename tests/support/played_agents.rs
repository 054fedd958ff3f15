//! Plays the agents in the pods of one namespace: answers over HTTP on a loopback address for each pod. An agent says that its nginx
//! serves what the mounted ConfigMap holds, which is what a real one comes to, unless the test has it say something else.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use roadstead::api::my_proxy::agent::{REPORT, Report, config_hash};
use tokio::net::TcpListener;
use tokio::sync::OnceCell;
use tokio::task::JoinSet;

pub struct PlayedAgents {
    config_maps: Api<ConfigMap>,
    port: OnceCell<u16>,
    pods: Mutex<HashMap<String, Pod>>,
    serving: Mutex<JoinSet<()>>,
}

struct Pod {
    address: IpAddr,
    said: Arc<Mutex<Option<Report>>>,
}

#[derive(Clone)]
struct Agent {
    config_maps: Api<ConfigMap>,
    mounted: String,
    said: Arc<Mutex<Option<Report>>>,
}

impl PlayedAgents {
    pub fn new(config_maps: Api<ConfigMap>) -> Self {
        Self {
            config_maps,
            port: OnceCell::new(),
            pods: Mutex::default(),
            serving: Mutex::default(),
        }
    }

    /// The port on which all of them answer: one that was free, so that no other test has it.
    pub async fn port(&self) -> u16 {
        let free = async || {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            listener.local_addr().unwrap().port()
        };
        *self.port.get_or_init(free).await
    }

    /// The address of the pod, where from now on an agent answers that is given the ConfigMap of its Deployment.
    pub async fn of(&self, pod: &str, deployment: &str) -> IpAddr {
        if let Some(known) = self.pods.lock().unwrap().get(pod) {
            return known.address;
        }
        let number = u8::try_from(self.pods.lock().unwrap().len() + 1).unwrap();
        let address = IpAddr::from(Ipv4Addr::new(127, 0, 66, number));
        let listener = TcpListener::bind(SocketAddr::new(address, self.port().await))
            .await
            .unwrap();
        let said = Arc::default();
        let agent = Agent {
            config_maps: self.config_maps.clone(),
            mounted: format!("{deployment}-config"),
            said: Arc::clone(&said),
        };
        let routes = Router::new().route(REPORT, get(answer)).with_state(agent);
        let serving = async { axum::serve(listener, routes).await.unwrap() };
        self.serving.lock().unwrap().spawn(serving);
        self.pods
            .lock()
            .unwrap()
            .insert(pod.to_owned(), Pod { address, said });
        address
    }

    /// Has the agent of a pod say this from now on; nothing lets it say again what is so.
    pub fn say(&self, pod: &str, report: Option<Report>) {
        *self.pods.lock().unwrap()[pod].said.lock().unwrap() = report;
    }
}

async fn answer(State(agent): State<Agent>) -> Result<String, StatusCode> {
    let said = agent.said.lock().unwrap().clone();
    let report = match said {
        Some(report) => report,
        None => {
            let config_map = agent.config_maps.get(&agent.mounted).await;
            let config_map = config_map.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
            let config = Some(config_hash(&config_map.data.unwrap()["nginx.conf"]));
            Report {
                mounted: config.clone(),
                config,
                ..Report::default()
            }
        }
    };
    Ok(serde_json::to_string(&report).unwrap())
}
