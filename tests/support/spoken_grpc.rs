//! The registry, and questions to it as they are on the wire: what a client would never send can be made of them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use roadstead::olm::registry::api::GetPackageRequest;
use roadstead::olm::registry::api::registry_client::RegistryClient;
use roadstead::olm::registry::{Limits, Watched, serve};
use roadstead::telemetry::metrics::Metrics;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tonic::transport::Channel;

use crate::catalogs;

/// So long an answer is listened to.
const LISTEN: Duration = Duration::from_millis(15);
const METHODS: [&str; 4] = [
    "GetPackage",
    "GetBundle",
    "ListBundles",
    "GetChannelEntriesThatProvide",
];

/// A registry that serves.
pub struct Served {
    runtime: Runtime,
    address: SocketAddr,
    _folder: TempDir,
}

impl Served {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        catalogs::write(folder.path(), &catalogs::rich());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime
            .block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
            .unwrap();
        let address = listener.local_addr().unwrap();
        let watched = Watched::register(&Metrics::new());
        let place = folder.path().to_owned();
        runtime.spawn(async move {
            serve(
                place,
                listener,
                Limits::default(),
                watched,
                std::future::pending(),
            )
            .await
        });
        Self {
            runtime,
            address,
            _folder: folder,
        }
    }

    /// Says it, and listens for a moment. Others are answered all the same.
    pub fn bears(&self, said: &[u8]) -> Result<(), String> {
        let mut stream = TcpStream::connect(self.address).map_err(|error| error.to_string())?;
        stream.set_read_timeout(Some(LISTEN)).unwrap();
        // It may end the connection before all is said
        if stream.write_all(said).is_ok() {
            drop(stream.shutdown(Shutdown::Write));
        }
        let mut heard = [0; 4096];
        while stream.read(&mut heard).is_ok_and(|heard| heard > 0) {}
        self.runtime.block_on(async {
            let asked = async {
                let channel = Channel::from_shared(format!("http://{}", self.address))?
                    .connect()
                    .await?;
                let mut client = RegistryClient::new(channel);
                let name = "none".to_owned();
                Ok::<_, Box<dyn std::error::Error>>(client.get_package(GetPackageRequest { name }).await)
            };
            let answer = tokio::time::timeout(Duration::from_secs(10), asked).await;
            match answer {
                // There is no such package, and it says so
                Ok(Ok(_)) => Ok(()),
                Ok(Err(error)) => Err(format!("nobody else is answered: {error}")),
                Err(_) => Err("nobody else is answered".to_owned()),
            }
        })
    }
}

/// A connection's beginning, and a question in it.
pub fn questions() -> Vec<Vec<u8>> {
    let question = |method: &&str| {
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend(frame(4, 0, 0, &[]));
        let path = format!("/api.Registry/{method}");
        let headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", &path),
            (":authority", "registry"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ];
        // Literal, without an index and without Huffman's code
        let literal = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
        let headers = headers.map(|(name, value)| [vec![0], literal(name), literal(value)].concat());
        bytes.extend(frame(1, 4, 1, &headers.concat()));
        // Field 1 is a text in each of them
        let message = [&[0x0a, 7][..], b"widgets"].concat();
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        bytes.extend(frame(0, 1, 1, &[&[0][..], &length, &message].concat()));
        bytes
    };
    METHODS.iter().map(question).collect()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}
