//! Requests and answers, by HTTP/1.1 with TLS.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout;

use super::failure::Failure;
use super::payload::Body;
use super::proxy::Connector;
use super::{Limits, Options, told as told_of};
use crate::olm::oci::Error;

const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("roadstead/", env!("CARGO_PKG_VERSION")));
/// A connection that nobody needed for so long is closed, before the registry does it.
const IDLE: Duration = Duration::from_secs(10);

pub(super) struct Transport {
    client: Client<HttpsConnector<Connector>, Body>,
    pub(super) limits: Limits,
}

impl Transport {
    pub(super) fn new(options: &Options) -> Result<Self, Error> {
        let limits = options.limits;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(limits.connect));
        let tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::content("TLS", error.to_string()))?
            .with_root_certificates(roots(options.authorities.as_deref())?)
            .with_no_client_auth();
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(Connector {
                tcp,
                proxies: options.proxies.clone(),
            });
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(1)
            .build(https);
        Ok(Self { client, limits })
    }

    /// Sends a request, and waits for the head of the answer.
    pub(super) async fn send(
        &self,
        mut request: Request<Body>,
        time: Duration,
    ) -> Result<Response<Incoming>, Failure> {
        request.headers_mut().insert(header::USER_AGENT, USER_AGENT);
        let asked = told_of(request.method(), request.uri());
        match timeout(time, self.client.request(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(unreachable(&asked, &error)),
            Err(_) => Err(Failure::soon(
                &asked,
                format!("there was no answer within {} s", time.as_secs_f64()),
            )),
        }
    }
}

/// Why there is no answer. A certificate that is not believed is not believed the next time either.
fn unreachable(asked: &str, error: &hyper_util::client::legacy::Error) -> Failure {
    let why = told(error);
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        match inner.downcast_ref() {
            Some(rustls::Error::InvalidCertificate(_)) => {
                return Failure::never(asked, why)
                    .with_remedy("give the authority of its certificate with --ca");
            }
            Some(rustls::Error::InvalidMessage(_)) => {
                return Failure::never(asked, why)
                    .with_remedy("it does not speak TLS there; --plain-http asks it without");
            }
            _ => cause = below(inner),
        }
        let io: Option<&std::io::Error> = inner.downcast_ref();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused) {
            return Failure::soon(asked, why).with_remedy(
                "nothing listens there: see that the registry runs, and that its name and port are meant",
            );
        }
    }
    Failure::soon(asked, why)
}

/// The innermost reason, which is the one that people know: "Connection refused".
pub(super) fn told(error: &(dyn std::error::Error + 'static)) -> String {
    let mut root = error;
    while let Some(source) = below(root) {
        root = source;
    }
    root.to_string()
}

/// What an error was made of. One of input and output that wraps another calls that one's own cause its source.
fn below<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a (dyn std::error::Error + 'static)> {
    let wrapped = error
        .downcast_ref::<std::io::Error>()
        .and_then(std::io::Error::get_ref);
    match wrapped {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

/// Whom to trust: the system's authorities, and those that were given.
fn roots(authorities: Option<&[u8]>) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    // What the system lacks is told by the first certificate that is not believed
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let Some(pem) = authorities else {
        return Ok(roots);
    };
    let wrong = |why: String| Error::content("--ca", why);
    let mut count = 0;
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| wrong(format!("it is no PEM: {error}")))?;
        roots
            .add(certificate)
            .map_err(|error| wrong(format!("certificate {} of it is none: {error}", count + 1)))?;
        count += 1;
    }
    if count == 0 {
        return Err(wrong(
            "it holds no certificate; accepted is PEM (BEGIN CERTIFICATE)".to_owned(),
        ));
    }
    Ok(roots)
}
