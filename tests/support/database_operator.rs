//! The operator as instances of a database of processes know it.

use std::net::IpAddr;
use std::time::Duration;

use http::StatusCode;
use roadstead::api::database::agent::{INSTANCE_ROLE, OPERATOR_ROLE, Report, STATUS, meant_for};
use roadstead::runtime::mutual_tls::{Client, Credentials, Limit};
use serde_json::Value;

use super::authority::Authority;

/// What the operator is to instances: somebody with a certificate of its own.
pub struct Operator {
    client: Client,
    port: u16,
}

const LIMIT: Limit = Limit {
    time: Duration::from_secs(3),
    size: 64 << 10,
};

impl Operator {
    pub fn new(authority: &Authority, port: u16) -> Self {
        let (certificate, key) = authority.issue("operator", OPERATOR_ROLE, "operator");
        let ca = authority.certificate().as_bytes();
        let credentials = Credentials::from_pem(ca, certificate.as_bytes(), key.as_bytes()).unwrap();
        Self {
            client: Client::new(&credentials, INSTANCE_ROLE).unwrap(),
            port,
        }
    }

    pub async fn report(&self, address: IpAddr) -> Result<Report, String> {
        let answer = self
            .client
            .get_at((address, self.port).into(), &address.to_string(), STATUS, LIMIT)
            .await;
        let answer = answer.map_err(|error| error.to_string())?;
        serde_json::from_slice(&answer.body).map_err(|error| error.to_string())
    }

    pub async fn order(
        &self,
        (name, address): (&str, IpAddr),
        path: &str,
        what: Value,
    ) -> Result<(), String> {
        let path = meant_for(name, path);
        let (at, host, body) = ((address, self.port).into(), address.to_string(), what.to_string());
        let answer = self.client.post_at(at, &host, &path, body.into(), LIMIT).await;
        let answer = answer.map_err(|error| error.to_string())?;
        if answer.status == StatusCode::ACCEPTED {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&answer.body).into_owned())
    }
}
