//! Asks another part of the product, with everything bounded that it decides.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Either, select};
use http::{Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, OtherError, SignatureScheme};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tower::{BoxError, Service};

use super::{Credentials, unit_of};

/// A connection is there after this time, or never. Requests may give up earlier; this ends what goes on without them.
const CONNECT: Duration = Duration::from_secs(3);
/// A connection that nobody needed for so long is closed: before the server does it, so that no request meets its end.
const IDLE: Duration = Duration::from_secs(20);

/// How long an answer may take, and how long it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// From the beginning of the connection, if there is none yet, to the end of the answer.
    pub time: Duration,
    /// The body, in bytes.
    pub size: usize,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The body.
    pub body: Bytes,
}

/// There is no answer. Whether the request took effect is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// There can be no such address.
    #[error("{0:?} is no host")]
    Host(String),
    /// There is no connection, or it broke off.
    #[error("no answer: {0}")]
    Unreachable(String),
    /// It took too long.
    #[error("no complete answer within {} ms", .0.as_millis())]
    Late(Duration),
    /// It was too long.
    #[error("the answer has more than {0} bytes")]
    TooLong(usize),
}

/// Asks over HTTPS, without a proxy and without following redirects. Connections are kept for the next request. Clones share them.
#[derive(Clone, Debug)]
pub struct Client {
    tls: Arc<ClientConfig>,
    inner: legacy::Client<Patient<HttpsConnector<HttpConnector>>, Full<Bytes>>,
}

impl Client {
    /// Shows these credentials, and trusts servers that they vouch for, whose certificate names the host and is of the organisational unit `server`.
    ///
    /// # Errors
    /// When there is no TLS to be had.
    pub fn new(credentials: &Credentials, server: &'static str) -> Result<Self, rustls::Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let chain =
            WebPkiServerVerifier::builder_with_provider(credentials.authorities(), Arc::clone(&provider))
                .build()
                .map_err(|error| rustls::Error::General(error.to_string()))?;
        let verifier = OfUnit { chain, unit: server };
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(credentials.certified())));
        // Each connection with a handshake of its own, for what has been replaced since.
        config.resumption = rustls::client::Resumption::disabled();
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT));
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(config.clone())
            .https_only()
            .enable_http1()
            .wrap_connector(tcp);
        let inner = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(1)
            .build(Patient(https));
        let tls = Arc::new(config);
        Ok(Self { tls, inner })
    }

    /// GET of `path` at a host, which is a DNS name or an address.
    ///
    /// # Errors
    /// When there is no answer. One with another status than 200 is an answer.
    pub async fn get(&self, host: &str, port: u16, path: &str, limit: Limit) -> Result<Answer, CallError> {
        self.call(Method::GET, (host, port, path), Bytes::new(), limit)
            .await
    }

    /// POST of JSON to `path` at a host, which is a DNS name or an address.
    ///
    /// # Errors
    /// When there is no answer. One with another status than 200 is an answer.
    pub async fn post(
        &self,
        host: &str,
        port: u16,
        path: &str,
        json: Bytes,
        limit: Limit,
    ) -> Result<Answer, CallError> {
        self.call(Method::POST, (host, port, path), json, limit).await
    }

    /// GET of `path` at an address, whose server has to show a certificate for `host`: for where DNS may be late, as it is with pods.
    ///
    /// The connection is made for this request and ends with it. One that was kept might be to whoever had the address before, under another name.
    ///
    /// # Errors
    /// When there is no answer. One with another status than 200 is an answer.
    pub async fn get_at(
        &self,
        address: SocketAddr,
        host: &str,
        path: &str,
        limit: Limit,
    ) -> Result<Answer, CallError> {
        let request = Request::get(path)
            .header(header::HOST, host)
            .body(Full::default());
        self.call_at(address, host, request, limit).await
    }

    /// POST of JSON to `path` at an address, as [`Self::get_at`].
    ///
    /// # Errors
    /// When there is no answer. One with another status than 200 is an answer.
    pub async fn post_at(
        &self,
        address: SocketAddr,
        host: &str,
        path: &str,
        json: Bytes,
        limit: Limit,
    ) -> Result<Answer, CallError> {
        let request = Request::post(path)
            .header(header::HOST, host)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(json));
        self.call_at(address, host, request, limit).await
    }

    async fn call_at(
        &self,
        address: SocketAddr,
        host: &str,
        request: http::Result<Request<Full<Bytes>>>,
        limit: Limit,
    ) -> Result<Answer, CallError> {
        let no_host = || CallError::Host(host.to_owned());
        let name = ServerName::try_from(host.to_owned()).map_err(|_| no_host())?;
        let request = request.map_err(|_| no_host())?;
        match timeout(limit.time, self.answer_at(address, name, request, limit.size)).await {
            Ok(answer) => answer,
            Err(_) => Err(CallError::Late(limit.time)),
        }
    }

    async fn answer_at(
        &self,
        address: SocketAddr,
        name: ServerName<'static>,
        request: Request<Full<Bytes>>,
        size: usize,
    ) -> Result<Answer, CallError> {
        let unreachable = |error: &(dyn Error + 'static)| CallError::Unreachable(root_of(error));
        let stream = TcpStream::connect(address).await;
        let stream = stream.map_err(|error| unreachable(&error))?;
        let stream = TlsConnector::from(Arc::clone(&self.tls))
            .connect(name, stream)
            .await
            .map_err(|error| unreachable(&error))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| unreachable(&error))?;
        let answer = async {
            let response = sender.send_request(request).await;
            read(response.map_err(|error| unreachable(&error))?, size).await
        };
        match select(pin!(answer), pin!(connection)).await {
            Either::Left((answer, _)) => answer,
            // What came before the end is there still.
            Either::Right((_, answer)) => answer.await,
        }
    }

    async fn call(
        &self,
        method: Method,
        (host, port, path): (&str, u16, &str),
        body: Bytes,
        limit: Limit,
    ) -> Result<Answer, CallError> {
        let is_bare_v6 = host.contains(':') && !host.starts_with('[');
        let authority = if is_bare_v6 {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        };
        let no_host = || CallError::Host(host.to_owned());
        let uri = Uri::builder()
            .scheme("https")
            .authority(authority)
            .path_and_query(path);
        let mut request = Request::builder()
            .method(method)
            .uri(uri.build().map_err(|_| no_host())?);
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::new(body)).map_err(|_| no_host())?;
        match timeout(limit.time, self.answer(request, limit.size)).await {
            Ok(answer) => answer,
            Err(_) => Err(CallError::Late(limit.time)),
        }
    }

    async fn answer(&self, request: Request<Full<Bytes>>, size: usize) -> Result<Answer, CallError> {
        let response = self.inner.request(request).await;
        let response = response.map_err(|error| CallError::Unreachable(root_of(&error)))?;
        read(response, size).await
    }
}

async fn read(response: Response<Incoming>, size: usize) -> Result<Answer, CallError> {
    let status = response.status();
    match Limited::new(response.into_body(), size).collect().await {
        Ok(body) => Ok(Answer {
            status,
            body: body.to_bytes(),
        }),
        Err(error) if error.is::<LengthLimitError>() => Err(CallError::TooLong(size)),
        Err(error) => Err(CallError::Unreachable(root_of(&*error))),
    }
}

/// The innermost reason, which is the one that people know: "Connection refused".
fn root_of(error: &(dyn Error + 'static)) -> String {
    let mut root = error;
    while let Some(source) = root.source() {
        root = source;
    }
    root.to_string()
}

/// A connector that ends by itself: the pool may let it go on after the request that it was for has been given up.
#[derive(Clone, Debug)]
struct Patient<S>(S);

impl<S> Service<Uri> for Patient<S>
where
    S: Service<Uri>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connected = self.0.call(uri);
        async move { timeout(CONNECT, connected).await?.map_err(Into::into) }.boxed()
    }
}

/// Verifies the chain and the name as usual, and that the certificate is of this organisational unit.
#[derive(Debug)]
struct OfUnit {
    chain: Arc<WebPkiServerVerifier>,
    unit: &'static str,
}

#[derive(thiserror::Error)]
#[error("the server's certificate is not of organisational unit {0}")]
struct OtherUnit(&'static str);

/// In words: this is what rustls prints of it.
impl fmt::Debug for OtherUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl ServerCertVerifier for OfUnit {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified =
            self.chain
                .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)?;
        if unit_of(end_entity).as_deref() == Some(self.unit) {
            return Ok(verified);
        }
        let error = OtherError(Arc::new(OtherUnit(self.unit)));
        Err(CertificateError::Other(error).into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}
