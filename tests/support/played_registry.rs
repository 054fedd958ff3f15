//! A registry in memory, on a loopback port of its own, that does what a test wants it to do wrong.

#![allow(dead_code, reason = "each test binary uses what it needs of this")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use sha2::{Digest as _, Sha256};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// A request, as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: Method,
    /// With its query.
    pub path: String,
    pub authorization: Option<String>,
    pub body: Bytes,
}

impl Seen {
    pub fn is(&self, method: Method, part: &str) -> bool {
        self.method == method && self.path.contains(part)
    }
}

/// What is answered.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: Vec<(&'static str, String)>,
    pub body: Bytes,
    pub after: Duration,
}

impl Reply {
    pub fn new(status: u16, body: impl Into<Bytes>) -> Self {
        Self {
            status: StatusCode::from_u16(status).unwrap(),
            headers: Vec::new(),
            body: body.into(),
            after: Duration::ZERO,
        }
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

type Rule = Box<dyn FnMut(&Seen) -> Option<Reply> + Send>;

#[derive(Default)]
struct State {
    blobs: HashMap<String, Bytes>,
    /// By tag and by digest: the type and the bytes.
    manifests: HashMap<String, (String, Bytes)>,
    seen: Vec<Seen>,
    rules: Vec<Rule>,
}

/// It serves until the runtime ends.
#[derive(Clone)]
pub struct Played {
    /// `127.0.0.1:PORT`
    pub host: String,
    state: Arc<Mutex<State>>,
}

/// A certificate for loopback, in PEM, and what serves it.
pub struct Tls {
    pub authority: String,
    config: Arc<ServerConfig>,
}

impl Tls {
    pub fn new() -> Self {
        Self::of("127.0.0.1")
    }

    pub fn of(host: &str) -> Self {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed([host.to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let config =
            ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![cert.der().clone()], key)
                .unwrap();
        Self {
            authority: cert.pem(),
            config: Arc::new(config),
        }
    }
}

impl Played {
    pub async fn start(tls: Option<&Tls>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let played = Self {
            host: listener.local_addr().unwrap().to_string(),
            state: Arc::default(),
        };
        let acceptor = tls.map(|tls| TlsAcceptor::from(Arc::clone(&tls.config)));
        let serving = played.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().connection(stream, acceptor.clone()));
            }
        });
        played
    }

    /// From now on a rule is asked first. The latest one goes before the others.
    pub fn on(&self, rule: impl FnMut(&Seen) -> Option<Reply> + Send + 'static) {
        self.state.lock().unwrap().rules.insert(0, Box::new(rule));
    }

    /// What has been asked so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.state.lock().unwrap().seen.clone()
    }

    pub fn forget(&self) {
        self.state.lock().unwrap().seen.clear();
    }

    /// How many requests of a kind there were.
    pub fn count(&self, method: Method, part: &str) -> usize {
        let seen = self.seen();
        seen.iter().filter(|seen| seen.is(method.clone(), part)).count()
    }

    async fn connection(self, stream: TcpStream, acceptor: Option<TlsAcceptor>) {
        let service = service_fn(|request| self.answer(request));
        // Clients that give up are what some tests are about
        match acceptor {
            None => drop(
                http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await,
            ),
            Some(acceptor) => {
                if let Ok(stream) = acceptor.accept(stream).await {
                    drop(
                        http1::Builder::new()
                            .serve_connection(TokioIo::new(stream), service)
                            .await,
                    );
                }
            }
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let (parts, body) = request.into_parts();
        let body = body
            .collect()
            .await
            .map(|body| body.to_bytes())
            .unwrap_or_default();
        let header = |name: &str| {
            let value = parts.headers.get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        let seen = Seen {
            method: parts.method.clone(),
            path: parts.uri.to_string(),
            authorization: header("authorization"),
            body,
        };
        let media_type = header("content-type").unwrap_or_default();
        let reply = {
            let mut state = self.state.lock().unwrap();
            state.seen.push(seen.clone());
            let mut rules = std::mem::take(&mut state.rules);
            let ruled = rules.iter_mut().find_map(|rule| rule(&seen));
            state.rules = rules;
            ruled.unwrap_or_else(|| state.answer(&seen, &media_type))
        };
        tokio::time::sleep(reply.after).await;
        let mut response = Response::builder().status(reply.status);
        for (name, value) in reply.headers {
            response = response.header(name, value);
        }
        Ok(response.body(Full::new(reply.body)).unwrap())
    }
}

pub fn digest_of(bytes: &[u8]) -> String {
    let digits: String = Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("sha256:{digits}")
}

impl State {
    /// As a registry answers that has nothing against anybody.
    fn answer(&mut self, seen: &Seen, media_type: &str) -> Reply {
        let missing = |code: &str| {
            Reply::new(
                404,
                format!(r#"{{"errors":[{{"code":"{code}","message":"there is none"}}]}}"#),
            )
        };
        let path = seen.path.split('?').next().unwrap();
        let last = path.rsplit('/').next().unwrap();
        let is_manifest = path.contains("/manifests/");
        match seen.method {
            Method::POST if path.ends_with("/blobs/uploads/") => {
                Reply::new(202, "").with("location", format!("{path}a-session?_state=geheim"))
            }
            Method::PUT if is_manifest => {
                let digest = digest_of(&seen.body);
                let kept = (media_type.to_owned(), seen.body.clone());
                self.manifests.insert(digest.clone(), kept.clone());
                self.manifests.insert(last.to_owned(), kept);
                Reply::new(201, "").with("docker-content-digest", digest)
            }
            Method::PUT => {
                let digest = digest_of(&seen.body);
                if !seen.path.ends_with(&format!("digest={digest}")) {
                    return Reply::new(400, r#"{"errors":[{"code":"DIGEST_INVALID"}]}"#);
                }
                self.blobs.insert(digest.clone(), seen.body.clone());
                Reply::new(201, "").with("docker-content-digest", digest)
            }
            _ if is_manifest => match self.manifests.get(last) {
                Some((media_type, bytes)) => Reply::new(200, bytes.clone())
                    .with("content-type", media_type)
                    .with("docker-content-digest", digest_of(bytes)),
                None => missing("MANIFEST_UNKNOWN"),
            },
            _ => match self.blobs.get(last) {
                Some(bytes) => Reply::new(200, bytes.clone()),
                None => missing("BLOB_UNKNOWN"),
            },
        }
    }
}
