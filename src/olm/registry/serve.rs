//! The server: gRPC over plain HTTP/2, as OLM and the kubelet ask, with everything bounded that somebody at the other end decides.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tonic::body::Body;
use tonic::service::Routes;
use tracing::{debug, error, info, warn};

use super::api::experimental_registry_server::ExperimentalRegistryServer;
use super::api::registry_server::RegistryServer;
use super::{Answers, Index, Refused, Watched, api};

/// What bounds the server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Connections at once; others wait in the kernel.
    pub connections: usize,
    /// Questions at once on a connection.
    pub streams: u32,
    /// The longest question, in bytes: they hold names alone.
    pub request: usize,
    /// Between two looks at the files.
    pub look: Duration,
    /// A connection that is silent for so long is asked whether it is there, and has as long to answer.
    pub silence: Duration,
    /// What is being answered when the server stops has this time to end.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            streams: 64,
            request: 64 << 10,
            look: Duration::from_secs(2),
            silence: Duration::from_secs(60),
            grace: Duration::from_secs(5),
        }
    }
}

/// The server rests so long when the system gives it no connection.
const REST: Duration = Duration::from_secs(1);

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
    let mut watching = pin!(follow(folder, catalogs, watched.clone(), limits));
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
    let described = |builder: tonic_reflection::server::Builder<'static>| {
        builder
            .register_encoded_file_descriptor_set(api::DESCRIPTION)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let v1 = described(tonic_reflection::server::Builder::configure()).build_v1()?;
    let v1alpha = described(tonic_reflection::server::Builder::configure()).build_v1alpha()?;
    let registry = RegistryServer::new(answers.clone()).max_decoding_message_size(limits.request);
    let experimental = ExperimentalRegistryServer::new(answers).max_decoding_message_size(limits.request);
    Ok(Routes::new(registry)
        .add_service(experimental)
        .add_service(health)
        .add_service(v1)
        .add_service(v1alpha)
        .prepare())
}

/// Has another catalog take the place of the one that is served when the files are others, and stay so for one look. Never ends.
async fn follow(folder: PathBuf, catalogs: watch::Sender<Arc<Index>>, watched: Watched, limits: Limits) {
    let mut looks = interval(limits.look);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut said = String::new();
    loop {
        looks.tick().await;
        let (index, path) = (Arc::clone(&catalogs.borrow()), folder.clone());
        let read = spawn_blocking(move || index.has_changed(&path).then(|| Index::read(&path)));
        match read.await {
            Ok(None) => said.clear(),
            Ok(Some(Ok((index, _)))) => {
                let (packages, channels, bundles) = index.counts();
                info!(
                    packages,
                    channels, bundles, "another catalog is served; clients are asked to connect again"
                );
                let index = Arc::new(index);
                watched.loaded(&index);
                catalogs.send_replace(index);
                said.clear();
            }
            Ok(Some(Err(Refused::Moving))) => debug!("the files of the catalog are being written"),
            Ok(Some(Err(refused))) => {
                let why = refused.to_string();
                if why != said {
                    watched.refused();
                    error!(
                        why,
                        "the files have changed to what cannot be served; the catalog of before is"
                    );
                    said = why;
                }
            }
            Err(error) => error!(%error, "cannot look at the files of the catalog"),
        }
    }
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
        let places = Arc::new(Semaphore::new(self.limits.connections));
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            while connections.try_join_next().is_some() {}
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let (server, ended) = (self.clone(), ended.clone());
                    connections.spawn(async move {
                        server.keep(stream, peer, ended).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    warn!(%error, "the registry gets no connection");
                    sleep(REST).await;
                }
            }
        }
    }

    /// A connection, until its client ends it, another catalog is served, or the server stops. Whoever is asked to connect again reads everything anew: so
    /// does OLM, which otherwise looks every half hour.
    async fn keep(mut self, stream: TcpStream, peer: SocketAddr, mut ended: watch::Receiver<bool>) {
        if let Err(error) = stream.set_nodelay(true) {
            return debug!(%peer, %error, "a connection broke off");
        }
        self.catalog.mark_unchanged();
        let (routes, watched) = (self.routes.clone(), self.watched.clone());
        let service = tower::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            watched.asked(request.uri().path());
            let mut routes = routes.clone();
            async move {
                let request = request.map(Body::new);
                Ok::<_, Infallible>(match tower::Service::call(&mut routes, request).await {
                    Ok(response) => response,
                    Err(never) => match never {},
                })
            }
        });
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.limits.streams)
            .max_header_list_size(16 << 10)
            .keep_alive_interval(self.limits.silence)
            .keep_alive_timeout(self.limits.silence)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        let mut connection = pin!(connection);
        let outcome = tokio::select! {
            outcome = connection.as_mut() => outcome,
            _ = self.catalog.changed() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            () = async { drop(ended.wait_for(|ended| *ended).await) } => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = outcome {
            debug!(%peer, %error, "a connection broke off");
        }
    }
}
