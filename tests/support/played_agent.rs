//! Plays the agent in a pod: answers over HTTP on a loopback address of its own, which the test gives to the pod.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::routing::get;
use k8s_openapi::api::core::v1::ConfigMap;
use roadstead::api::my_proxy::agent::{PORT, REPORT, Report, config_hash};
use tokio::task::JoinHandle;

pub struct PlayedAgent {
    pub address: IpAddr,
    report: Arc<Mutex<Report>>,
    serving: JoinHandle<()>,
}

impl PlayedAgent {
    /// On 127.0.66.`number`.
    pub async fn listen(number: u8) -> Self {
        let address = IpAddr::from(Ipv4Addr::new(127, 0, 66, number));
        let listener = tokio::net::TcpListener::bind((address, PORT)).await.unwrap();
        let report: Arc<Mutex<Report>> = Arc::default();
        let answer = Arc::clone(&report);
        let routes = Router::new().route(
            REPORT,
            get(async move || serde_json::to_string(&*answer.lock().unwrap()).unwrap()),
        );
        let serving = tokio::spawn(async { axum::serve(listener, routes).await.unwrap() });
        Self {
            address,
            report,
            serving,
        }
    }

    /// From now on, its nginx serves what this ConfigMap holds.
    pub fn serves(&self, config_map: &ConfigMap) {
        let hash = Some(hash_of(config_map));
        *self.report.lock().unwrap() = Report {
            config: hash.clone(),
            mounted: hash,
            ..Report::default()
        };
    }

    /// From now on, its nginx keeps what it has, and refuses what this ConfigMap holds.
    pub fn refuses(&self, config_map: &ConfigMap, reason: &str) {
        let mut report = self.report.lock().unwrap();
        report.mounted = Some(hash_of(config_map));
        report.refused = Some(reason.to_owned());
    }
}

impl Drop for PlayedAgent {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn hash_of(config_map: &ConfigMap) -> String {
    config_hash(&config_map.data.as_ref().unwrap()["nginx.conf"])
}
