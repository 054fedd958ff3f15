//! A webhook server with certificates of its own, and a client that trusts them.

#![allow(dead_code, reason = "each test binary uses what it needs of this")]

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake as speak};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use roadstead::webhook::certificates::{Certificates, Pair, Served as Serving, Trust};
use roadstead::webhook::{Limits, serve};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// An authority that signs certificates for 127.0.0.1.
#[derive(Clone)]
pub struct Authority {
    issuer: Arc<Issuer<'static, KeyPair>>,
    /// Its own certificate, for those who trust it.
    pub pem: String,
    der: CertificateDer<'static>,
}

impl Authority {
    pub fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate");
        Self {
            pem: certificate.pem(),
            der: certificate.der().clone(),
            issuer: Arc::new(Issuer::new(params, key)),
        }
    }

    fn sign(&self) -> Serving {
        let key = KeyPair::generate().expect("a key");
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let params = CertificateParams::new(names).expect("good names");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let (chain, key) = (certificate.pem(), key.serialize_pem());
        Serving {
            pair: Pair::from_pem(chain.as_bytes(), key.as_bytes()).expect("our own key"),
            trust: Trust::Theirs,
        }
    }
}

/// A server that runs.
pub struct Served {
    pub address: SocketAddr,
    certificates: Certificates,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

impl Served {
    pub async fn begin(authority: &Authority, limits: Limits, routes: Router) -> Self {
        Self::begin_at(authority, limits, routes, 0).await
    }

    pub async fn begin_at(authority: &Authority, limits: Limits, routes: Router, port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let certificates = Certificates::default();
        certificates.publish(authority.sign());
        let (stop, stopped) = oneshot::channel();
        let resolver = Arc::new(certificates.clone());
        let ended = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            serve(listener, resolver, routes, limits, stopped)
                .await
                .expect("TLS");
        });
        Self {
            address,
            certificates,
            stop,
            ended,
        }
    }

    pub fn replace(&self, authority: &Authority) {
        self.certificates.publish(authority.sign());
    }

    pub fn certificate(&self) -> Vec<u8> {
        self.certificates.current().expect("a certificate").pair.chain()[0].to_vec()
    }

    pub async fn stop(self) {
        let _ = self.stop.send(());
        self.ended.await.expect("a server that ends");
    }
}

pub async fn handshake(authority: &Authority, address: SocketAddr) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.der.clone()).expect("our own certificate");
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::from(address.ip());
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// A connection over which requests are sent.
pub struct Client {
    requests: SendRequest<Full<Bytes>>,
    certificate: Vec<u8>,
}

impl Client {
    pub async fn connect(authority: &Authority, address: SocketAddr) -> std::io::Result<Self> {
        let stream = handshake(authority, address).await?;
        let certificate = stream.get_ref().1.peer_certificates().expect("a certificate")[0].to_vec();
        let (requests, connection) = speak(TokioIo::new(stream)).await.expect("HTTP");
        tokio::spawn(connection);
        Ok(Self {
            requests,
            certificate,
        })
    }

    pub fn certificate(&self) -> Vec<u8> {
        self.certificate.clone()
    }

    pub async fn post(&mut self, path: &str, body: &str) -> hyper::Result<(u16, String)> {
        self.requests.ready().await?;
        let request = Request::post(path)
            .header("Host", "a")
            .header("Content-Type", "application/json");
        let request = request.body(Full::from(body.to_owned())).expect("a request");
        let response = self.requests.send_request(request).await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes();
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }
}
