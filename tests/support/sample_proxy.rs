//! The proxy that most tests have, and what its operator is told.

#![allow(dead_code, reason = "each test binary uses what it needs of this")]

use roadstead::controllers::my_proxy::Settings;
use serde_json::{Value, json};

pub fn settings() -> Settings {
    Settings {
        nginx_image: "nginx:1.29".into(),
        agent_image: "registry.example/operator:v1".into(),
        cluster_domain: "cluster.local".into(),
    }
}

/// The spec of a proxy that leads to this port.
pub fn spec(port: u16) -> Value {
    leading_to("backend", port)
}

pub fn leading_to(host: &str, port: u16) -> Value {
    json!({
        "replicas": 2,
        "upstreams": [{"name": "up", "servers": [{"host": host, "port": port}]}],
        "routes": [{"path": "/", "upstream": "up"}],
    })
}

/// The condition of this type in a status.
pub fn condition<'a>(status: &'a Value, type_: &str) -> &'a Value {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let found = conditions.find(|condition| condition["type"] == type_);
    found.unwrap_or(&Value::Null)
}
