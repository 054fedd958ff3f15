//! HTTPS, with everything bounded that somebody at the other end decides.
//!
//! HTTP/1.1 alone: an API server speaks nothing else to webhooks, so that its requests are spread over their replicas.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::server::{NoServerSessionStorage, ResolvesServerCert, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;
use tracing::{debug, warn};

use super::Limits;
use super::places::{Place, Places};

/// How long the server rests when the system gives it no connection, for want of file descriptors perhaps.
const REST: Duration = Duration::from_secs(1);
/// The longest header, in bytes, and what is written before it is sent.
const BUFFER: usize = 32 << 10;

/// The server could not be begun.
#[derive(Debug, thiserror::Error)]
#[error("no TLS for the HTTPS server: {0}")]
pub struct ServeError(#[from] rustls::Error);

/// What the next handshake goes by; none while there is no certificate.
pub type Handshakes = Arc<dyn Fn() -> Option<Arc<ServerConfig>> + Send + Sync>;

/// The certificate that the client has shown, verified as the configuration of the handshake says: an extension of each request of its connection.
#[derive(Clone, Debug)]
pub struct ClientCertificate(pub CertificateDer<'static>);

/// What a server is doing.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Serving,
    /// It takes requests still, one for each connection.
    Leaving,
    /// What is under way is ended.
    Ending,
}

/// Serves `routes` until `stop` is done, and then for as long as [`Limits::linger`] says. Each handshake asks `certificate` anew.
///
/// # Errors
/// When there is no TLS to be had, before anything is served.
pub async fn serve(
    listener: TcpListener,
    certificate: Arc<dyn ResolvesServerCert>,
    routes: Router,
    limits: Limits,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(certificate);
    let config = Arc::new(without_memory(config));
    serve_over(
        listener,
        Arc::new(move || Some(Arc::clone(&config))),
        routes,
        limits,
        stop,
    )
    .await;
    Ok(())
}

/// HTTP/1.1 alone, and each connection with a handshake of its own: a session that is taken up again would go on with a certificate that has been
/// replaced.
pub fn without_memory(mut config: ServerConfig) -> ServerConfig {
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config
}

/// As [`serve`], with TLS as `handshakes` says, which is asked anew for each. Requests carry a [`ClientCertificate`] where there was one.
pub async fn serve_over(
    listener: TcpListener,
    handshakes: Handshakes,
    routes: Router,
    limits: Limits,
    stop: impl Future<Output = ()> + Send,
) {
    let (tell, stage) = watch::channel(Stage::Serving);
    let server = Server {
        handshakes,
        routes,
        limits,
        stage,
    };
    let mut connections = JoinSet::new();
    {
        let mut accepting = pin!(server.accept(&listener, &mut connections));
        let leave = async {
            stop.await;
            tell.send_replace(Stage::Leaving);
            sleep(limits.linger).await;
        };
        tokio::select! {
            () = &mut accepting => {}
            () = leave => {}
        }
    }
    drop(listener);
    tell.send_replace(Stage::Ending);
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout(limits.grace, all).await.is_err() {
        warn!(connections = connections.len(), grace = ?limits.grace, "requests to the HTTPS server are cut off");
        connections.shutdown().await;
    }
}

#[derive(Clone)]
struct Server {
    handshakes: Handshakes,
    routes: Router,
    limits: Limits,
    stage: watch::Receiver<Stage>,
}

impl Server {
    /// Takes connections for ever. None waits for the handshake of another.
    async fn accept(&self, listener: &TcpListener, connections: &mut JoinSet<()>) {
        let places = Places::new(self.limits.connections, self.limits.connections_each);
        while let Some(free) = places.free().await {
            while connections.try_join_next().is_some() {}
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let Some(place) = places.take(free, peer.ip()) else {
                        debug!(%peer, limit = self.limits.connections_each, "a connection was refused: its address has as many as it may");
                        continue;
                    };
                    connections.spawn(self.clone().keep(stream, peer, place));
                }
                Err(error) => {
                    warn!(%error, "the HTTPS server gets no connection");
                    sleep(REST).await;
                }
            }
        }
    }

    /// A connection, from its handshake to its end.
    async fn keep(self, stream: TcpStream, peer: SocketAddr, _place: Place) {
        // Without it the end of an answer waits for the other side to confirm the beginning. Where it fails, the connection has.
        if let Err(error) = stream.set_nodelay(true) {
            return debug!(%peer, %error, "a connection broke off");
        }
        let Some(config) = (self.handshakes)() else {
            return debug!(%peer, "a connection was refused: there is no certificate yet");
        };
        let accepted = TlsAcceptor::from(config).accept(stream);
        let stream = match timeout(self.limits.handshake, accepted).await {
            Ok(Ok(stream)) => stream,
            // Not a warning: whoever scans ports does this, and the API server tells its own side.
            Ok(Err(error)) => return debug!(%peer, %error, "a TLS handshake failed"),
            Err(_) => return debug!(%peer, limit = ?self.limits.handshake, "a TLS handshake was given up"),
        };
        let client = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let client = client.map(|certificate| ClientCertificate(certificate.clone().into_owned()));
        let born = Instant::now();
        let service = service_fn(|mut request: hyper::Request<Incoming>| {
            if let Some(client) = &client {
                request.extensions_mut().insert(client.clone());
            }
            self.answer(request, born)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header)
            .max_buf_size(BUFFER)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let mut stage = self.stage.clone();
        let kept = async {
            tokio::select! {
                ended = connection.as_mut() => return ended,
                // Fails when the server is gone, which means the same.
                _ = stage.wait_for(|stage| *stage == Stage::Ending) => {}
            }
            connection.as_mut().graceful_shutdown();
            connection.await
        };
        match timeout(self.limits.cut_off(), kept).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!(%peer, %error, "a connection broke off"),
            Err(_) => debug!(%peer, limit = ?self.limits.cut_off(), "a connection was cut off"),
        }
    }

    async fn answer(
        &self,
        request: hyper::Request<Incoming>,
        born: Instant,
    ) -> Result<axum::response::Response, std::convert::Infallible> {
        let mut response = self.routes.clone().oneshot(request.map(Body::new)).await?;
        let is_leaving = *self.stage.borrow() != Stage::Serving;
        if is_leaving || born.elapsed() >= self.limits.connection_age {
            let headers = response.headers_mut();
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }
}
