//! The authority of a database of processes, and the operator as instances know it.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use http::StatusCode;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use roadstead::api::database::agent::{INSTANCE_ROLE, OPERATOR_ROLE, REPLICATION_USER, Report, STATUS};
use roadstead::runtime::mutual_tls::{Client, Credentials, Limit};
use serde_json::Value;

pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority");
        let certificate = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            certificate,
        }
    }

    pub fn mount(&self, folder: &Path, host: &str) {
        let (certificate, key) = self.issue(REPLICATION_USER, INSTANCE_ROLE, host);
        let files = [
            ("ca.crt", &self.certificate),
            ("tls.crt", &certificate),
            ("tls.key", &key),
        ];
        for (name, content) in files {
            std::fs::write(folder.join(name), content).unwrap();
        }
    }

    /// A certificate for both sides of a connection, and its key.
    fn issue(&self, name: &str, unit: &str, host: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params
            .distinguished_name
            .push(DnType::OrganizationalUnitName, unit);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ClientAuth,
            ExtendedKeyUsagePurpose::ServerAuth,
        ];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

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
        let ca = authority.certificate.as_bytes();
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

    pub async fn order(&self, address: IpAddr, path: &str, what: Value) -> Result<(), String> {
        let (at, host, body) = ((address, self.port).into(), address.to_string(), what.to_string());
        let answer = self.client.post_at(at, &host, path, body.into(), LIMIT).await;
        let answer = answer.map_err(|error| error.to_string())?;
        if answer.status == StatusCode::ACCEPTED {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&answer.body).into_owned())
    }
}
