//! The server: gRPC over plain HTTP/2, as OLM and the kubelet ask, with everything bounded that somebody at the other end decides.

use std::convert::Infallible;
use std::io::{self, Cursor};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, join};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};
use tonic::body::Body;
use tonic::service::Routes;
use tracing::{debug, info, warn};

use super::api::experimental_registry_server::ExperimentalRegistryServer;
use super::api::registry_server::RegistryServer;
use super::follow::follow;
use super::places::{Asking, Patience, Place, Places};
use super::{Answers, Index, Watched, api};

/// What bounds the server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Connections at once; others wait, most of them in the kernel.
    pub connections: usize,
    /// A connection has so long for the first bytes of HTTP/2.
    pub begin: Duration,
    /// Whose connection is ended where others wait.
    pub patience: Patience,
    /// Questions at once on a connection.
    pub streams: u32,
    /// The longest question, in bytes: they hold names alone.
    pub request: usize,
    /// Between two looks at the files.
    pub look: Duration,
    /// A connection that is silent for so long is asked whether it is there, and has as long to answer.
    pub silence: Duration,
    /// What is being answered when another catalog is served has this time to end: as long, the catalog of before is kept.
    pub leave: Duration,
    /// What is being answered when the server stops has this time to end.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            begin: Duration::from_secs(5),
            patience: Patience {
                idle: Duration::from_secs(2),
                stalled: Duration::from_secs(10),
            },
            streams: 64,
            request: 64 << 10,
            look: Duration::from_secs(2),
            silence: Duration::from_secs(60),
            leave: Duration::from_secs(30),
            grace: Duration::from_secs(5),
        }
    }
}

/// The server rests so long when the system gives it no connection.
const REST: Duration = Duration::from_secs(1);

/// So many bytes a client of HTTP/2 says first.
const PREFACE: usize = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();

/// Serves the catalog of a folder until `stop` is done. Whoever connects before it is read waits.
///
/// # Errors
/// When the catalog cannot be served to begin with, or reflection cannot be described, which is a defect.
pub async fn serve(
    folder: PathBuf,
    listener: TcpListener,
    limits: Limits,
    watched: Watched,
    stop: impl Future<Output = ()>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let first = Arc::new(read(folder.clone()).await?);
    watched.loaded(&first);
    let (catalogs, catalog) = watch::channel(first);
    let routes = routes(Answers::of(catalog.clone()), limits).await?;
    let mut watching = pin!(follow(folder, catalogs, watched.clone(), limits.look));
    let server = Server {
        routes,
        limits,
        catalog,
        watched,
    };
    let mut connections = JoinSet::new();
    let (end, ended) = watch::channel(false);
    {
        let mut accepting = pin!(server.accept(&listener, &mut connections, &ended));
        tokio::select! {
            () = &mut accepting => {}
            () = &mut watching => {}
            () = stop => {}
        }
    }
    drop(listener);
    end.send_replace(true);
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout(limits.grace, all).await.is_err() {
        warn!(
            connections = connections.len(),
            "questions to the registry are cut off"
        );
        connections.shutdown().await;
    }
    Ok(())
}

async fn read(folder: PathBuf) -> Result<Index, Box<dyn std::error::Error + Send + Sync>> {
    let (index, findings) = spawn_blocking(move || Index::read(&folder)).await??;
    let (packages, channels, bundles) = index.counts();
    info!(
        packages,
        channels,
        bundles,
        findings = findings.len(),
        "the catalog is served"
    );
    Ok(index)
}

async fn routes(
    answers: Answers,
    limits: Limits,
) -> Result<Routes, Box<dyn std::error::Error + Send + Sync>> {
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_serving::<RegistryServer<Answers>>().await;
    // Each version tells of both, as upstream's does
    let described = || {
        tonic_reflection::server::Builder::configure()
            .include_reflection_service(false)
            .register_encoded_file_descriptor_set(api::DESCRIPTION)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET)
    };
    let (v1, v1alpha) = (described().build_v1()?, described().build_v1alpha()?);
    let registry = RegistryServer::new(answers.clone()).max_decoding_message_size(limits.request);
    let experimental = ExperimentalRegistryServer::new(answers).max_decoding_message_size(limits.request);
    Ok(Routes::new(registry)
        .add_service(experimental)
        .add_service(health)
        .add_service(v1)
        .add_service(v1alpha)
        .prepare())
}

#[derive(Clone)]
struct Server {
    routes: Routes,
    limits: Limits,
    catalog: watch::Receiver<Arc<Index>>,
    watched: Watched,
}

impl Server {
    /// Takes connections for ever.
    async fn accept(
        &self,
        listener: &TcpListener,
        connections: &mut JoinSet<()>,
        ended: &watch::Receiver<bool>,
    ) {
        let places = Places::new(self.limits.connections, self.limits.patience);
        loop {
            while connections.try_join_next().is_some() {}
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let Some(place) = places.take().await else { return };
                    let (server, ended) = (self.clone(), ended.clone());
                    connections.spawn(server.keep(stream, peer, place, ended));
                }
                Err(error) => {
                    warn!(%error, "the registry gets no connection");
                    sleep(REST).await;
                }
            }
        }
    }

    /// A connection, until its client ends it, another catalog is served, its place is wanted, or the server stops. Whoever is asked to connect again reads
    /// everything anew: so does OLM, which otherwise looks every half hour.
    async fn keep(
        mut self,
        stream: TcpStream,
        peer: SocketAddr,
        place: Place,
        mut ended: watch::Receiver<bool>,
    ) {
        self.catalog.mark_unchanged();
        let begun = tokio::select! {
            begun = timeout(self.limits.begin, begun(stream)) => begun,
            () = place.is_wanted() => return debug!(%peer, "a connection that said nothing is ended for another"),
        };
        let stream = match begun {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return debug!(%peer, %error, "a connection broke off"),
            Err(_) => return debug!(%peer, "a connection is ended: it says nothing"),
        };
        let service = self.service(place.asking());
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.limits.streams)
            .max_header_list_size(16 << 10)
            .keep_alive_interval(self.limits.silence)
            .keep_alive_timeout(self.limits.silence)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        let mut connection = pin!(connection);
        let told = |outcome: hyper::Result<()>| {
            if let Err(error) = outcome {
                debug!(%peer, %error, "a connection broke off");
            }
        };
        let allowed = tokio::select! {
            outcome = connection.as_mut() => return told(outcome),
            _ = self.catalog.changed() => self.limits.leave,
            () = place.is_wanted() => self.limits.patience.idle,
            () = async { drop(ended.wait_for(|ended| *ended).await) } => self.limits.grace,
        };
        connection.as_mut().graceful_shutdown();
        // A stream that is only listened to, or not read, would keep it for ever
        match timeout(allowed, connection).await {
            Ok(outcome) => told(outcome),
            Err(_) => debug!(%peer, "a connection is cut off: it was asked to end, and did not"),
        }
    }

    /// Answers, and counts what is being answered.
    fn service(
        &self,
        asking: Asking,
    ) -> impl tower::Service<
        hyper::Request<Incoming>,
        Response = hyper::Response<Body>,
        Error = Infallible,
        Future: Send + 'static,
    > + Clone
    + Send
    + use<> {
        let (routes, watched) = (self.routes.clone(), self.watched.clone());
        tower::service_fn(move |request: hyper::Request<Incoming>| {
            watched.asked(request.uri().path());
            let (mut routes, question) = (routes.clone(), asking.one());
            async move {
                let response = match tower::Service::call(&mut routes, request.map(Body::new)).await {
                    Ok(response) => response,
                    Err(never) => match never {},
                };
                // It is answered when nothing of the answer is left
                let until_its_end = move |frame| {
                    question.moves();
                    frame
                };
                Ok(response.map(|body| Body::new(body.map_frame(until_its_end))))
            }
        })
    }
}

/// A connection whose client has said the first bytes, which are the same for all; what they are is looked at with the rest.
async fn begun(stream: TcpStream) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin> {
    stream.set_nodelay(true)?;
    let (mut reader, writer) = stream.into_split();
    let mut first = [0; PREFACE];
    reader.read_exact(&mut first).await?;
    Ok(join(Cursor::new(first).chain(reader), writer))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::net::Ipv4Addr;
    use std::sync::Weak;

    use tonic::transport::Channel;

    use super::api::registry_client::RegistryClient;
    use super::*;
    use crate::telemetry::metrics::Metrics;
    use serde_json::json;

    const SOON: Duration = Duration::from_secs(10);

    /// More bundles than fit into what a connection holds of an answer that nobody reads.
    fn large() -> Arc<Index> {
        let name = |number: usize| format!("a.v1.{number}.0");
        let entries: Vec<_> = (0..3000)
            .map(|number| match number {
                0 => json!({"name": name(0)}),
                _ => json!({"name": name(number), "replaces": name(number - 1)}),
            })
            .collect();
        let mut text = json!({"schema": "olm.package", "name": "a", "defaultChannel": "b"}).to_string();
        let channel = json!({"schema": "olm.channel", "package": "a", "name": "b", "entries": entries});
        write!(text, "{channel}").unwrap();
        for number in 0..3000 {
            let version = json!({"type": "olm.package", "value": {"packageName": "a", "version": format!("1.{number}.0")}});
            let long = json!({"type": "long", "value": "x".repeat(500)});
            let bundle = json!({
                "schema": "olm.bundle", "package": "a", "name": name(number), "image": "a/b:1", "properties": [version, long]
            });
            write!(text, "{bundle}").unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("catalog.json"), text).unwrap();
        Arc::new(Index::read(folder.path()).unwrap().0)
    }

    async fn until_gone(index: &Weak<Index>) {
        while index.strong_count() > 0 {
            sleep(Duration::from_millis(20)).await;
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_catalog_of_before_is_not_kept_for_somebody_who_does_not_read() {
        let limits = Limits {
            leave: Duration::from_millis(200),
            ..Limits::default()
        };
        let before = large();
        let (weak, (catalogs, catalog)) = (Arc::downgrade(&before), watch::channel(before));
        let server = Server {
            routes: routes(Answers::of(catalog.clone()), limits).await.unwrap(),
            limits,
            catalog,
            watched: Watched::register(&Metrics::new()),
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (_end, ended) = watch::channel(false);
        let mut connections = JoinSet::new();
        let asked = async {
            // It takes less at a time than there is
            let endpoint = Channel::from_shared(address)
                .unwrap()
                .initial_stream_window_size(1 << 14);
            let channel = endpoint.connect().await.unwrap();
            let mut client = RegistryClient::new(channel);
            let mut bundles = client
                .list_bundles(api::ListBundlesRequest {})
                .await
                .unwrap()
                .into_inner();
            assert!(bundles.message().await.unwrap().is_some());
            catalogs.send_replace(large());
            timeout(SOON, until_gone(&weak)).await.expect("it is kept");
        };
        tokio::select! {
            () = server.accept(&listener, &mut connections, &ended) => {}
            () = asked => {}
        }
    }
}
