//! Certificates of one authority for a database, and instances on loopback that are played.

#![allow(dead_code, reason = "each test binary uses what it needs of this")]

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use roadstead::api::database::agent::{FAILSAFE, Member, Report, SWITCHOVER};
use roadstead::instance::postgres::server::{Request, Shown, serve};
use roadstead::instance::postgres::tls::Tls;
use roadstead::runtime::mutual_tls::Credentials;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

/// An authority of one database.
#[derive(Clone)]
pub struct Authority {
    issuer: Arc<Issuer<'static, KeyPair>>,
    pub pem: String,
}

impl Authority {
    pub fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate");
        Self {
            pem: certificate.pem(),
            issuer: Arc::new(Issuer::new(params, key)),
        }
    }

    /// A certificate of this organisational unit for these names and addresses, and its key.
    pub fn sign(&self, unit: &str, names: &[&str]) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("good names");
        params
            .distinguished_name
            .push(DnType::OrganizationalUnitName, unit);
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }

    pub fn credentials(&self, unit: &str, names: &[&str]) -> Credentials {
        let (chain, key) = self.sign(unit, names);
        Credentials::from_pem(self.pem.as_bytes(), chain.as_bytes(), key.as_bytes()).expect("our own")
    }

    pub fn tls(&self, unit: &str, names: &[&str]) -> Tls {
        let tls = Tls::default();
        tls.publish(self.credentials(unit, names)).expect("TLS");
        tls
    }
}

/// An instance that serves what a test shows.
pub struct Instance {
    pub address: SocketAddr,
    pub tls: Tls,
    pub shown: watch::Sender<Shown>,
    pub requests: mpsc::Receiver<Request>,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

impl Instance {
    pub async fn begin(tls: Tls, address: impl Into<IpAddr>, port: u16) -> Self {
        let listener = TcpListener::bind((address.into(), port))
            .await
            .expect("a free port");
        let address = listener.local_addr().expect("an address");
        let report = Report {
            name: address.ip().to_string(),
            ..Report::default()
        };
        let (shown, showing) = watch::channel(Shown {
            report,
            ..Shown::default()
        });
        let (asking, requests) = mpsc::channel(1);
        let (stop, stopped) = oneshot::channel();
        let serving = tls.clone();
        let ended = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            serve(listener, &serving, showing, asking, stopped).await;
        });
        Self {
            address,
            tls,
            shown,
            requests,
            stop,
            ended,
        }
    }

    pub async fn stop(self) {
        let _ = self.stop.send(());
        self.ended.await.expect("a server that ends");
    }
}

pub fn member(address: IpAddr) -> Member {
    Member {
        name: address.to_string(),
        host: address.to_string(),
    }
}

/// One that shows no certificate: curl, as it were. Gives the status and all of the answer.
pub async fn ask_as_nobody(authority: &Authority, port: u16, path: &str) -> (u16, String) {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap())
        .unwrap();
    let config = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut stream = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap();
    let method = if [FAILSAFE, SWITCHOVER].contains(&path) {
        "POST"
    } else {
        "GET"
    };
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}

/// Peers that misbehave, each at an address of its own.
pub mod misbehaving {
    use std::net::Ipv4Addr;

    use super::*;

    /// It takes connections and never says anything.
    pub async fn silent(address: Ipv4Addr, port: u16) {
        let listener = TcpListener::bind((address, port)).await.unwrap();
        let mut kept = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            kept.push(stream);
        }
    }

    /// It says something that is not TLS.
    pub async fn babbling(address: Ipv4Addr, port: u16) {
        let listener = TcpListener::bind((address, port)).await.unwrap();
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"SSH-2.0-dropbear\r\n").await;
            let _ = stream.read(&mut [0; 1024]).await;
        }
    }

    /// It has a good certificate, and answers every request so.
    pub async fn answering(tls: Tls, address: Ipv4Addr, port: u16, answer: axum::Router) {
        let listener = TcpListener::bind((address, port)).await.unwrap();
        let limits = roadstead::instance::postgres::server::limits();
        roadstead::webhook::serve_over(listener, tls.handshakes(), answer, limits, std::future::pending())
            .await;
    }
}
