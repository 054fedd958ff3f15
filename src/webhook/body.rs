//! The bodies of requests, all of which together fit into a fixed share of the memory.

use std::sync::Arc;

use axum::http::{StatusCode, header};
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use super::answer::{JSON, Refused, shortened};
use super::{HttpRequest, Limits};

/// What requests share.
#[derive(Debug)]
pub(super) struct Memory {
    limits: Limits,
    bytes: Arc<Semaphore>,
    /// Where one object at a time is taken apart, which takes several times the size of its text.
    bench: Semaphore,
}

/// A body, with its share of the memory, which is given back when it is dropped.
#[derive(Debug)]
pub(super) struct Held {
    bytes: Vec<u8>,
    _share: OwnedSemaphorePermit,
}

impl Held {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Memory {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            limits: *limits,
            bytes: Arc::new(Semaphore::new(limits.memory)),
            bench: Semaphore::new(1),
        }
    }

    /// Takes a body of JSON, once there is memory for it.
    pub(super) async fn take(&self, request: HttpRequest, deadline: Instant) -> Result<Held, Refused> {
        check_type(&request)?;
        let (length, share_of) = self.length(&request)?;
        let share = timeout_at(deadline, Arc::clone(&self.bytes).acquire_many_owned(share_of)).await;
        let share = share.ok().and_then(Result::ok).ok_or_else(|| {
            let limit = self.limits.request;
            let message = format!(
                "there was no memory for a body of {length} bytes within {limit:?}; it can be sent again"
            );
            Refused::new(StatusCode::SERVICE_UNAVAILABLE, message)
        })?;
        let limit = self.limits.body;
        match timeout(limit, collect(request, length)).await {
            Ok(bytes) => Ok(Held {
                bytes: bytes?,
                _share: share,
            }),
            Err(_) => Err(Refused::new(
                StatusCode::REQUEST_TIMEOUT,
                format!("the body of {length} bytes did not arrive within {limit:?}"),
            )),
        }
    }

    /// Does what takes memory by the object, once nobody else does.
    pub(super) async fn at_the_bench<T>(&self, work: impl FnOnce() -> T) -> T {
        let _place = self.bench.acquire().await;
        work()
    }

    /// The length of a body, which has to be known before it is taken, for the semaphore too.
    fn length(&self, request: &HttpRequest) -> Result<(usize, u32), Refused> {
        let exact = http_body::Body::size_hint(request.body()).exact();
        let length = exact.ok_or_else(|| {
            let message = "the header Content-Length is missing; it must be the length of the body in bytes";
            Refused::new(StatusCode::LENGTH_REQUIRED, message)
        })?;
        let most = self.limits.memory;
        let fitting = usize::try_from(length).ok().filter(|length| *length <= most);
        fitting
            .and_then(|length| Some((length, u32::try_from(length).ok()?)))
            .ok_or_else(|| {
                let message = format!(
                    "the body has {length} bytes; it must have at most {most}: a list can be read in pages, as with kubectl's --chunk-size=100"
                );
                Refused::new(StatusCode::PAYLOAD_TOO_LARGE, message)
            })
    }
}

fn check_type(request: &HttpRequest) -> Result<(), Refused> {
    let header = request.headers().get(header::CONTENT_TYPE);
    let told = header.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = told.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case(JSON) {
        return Ok(());
    }
    let told = shortened(told, 100);
    let message = format!("the header Content-Type is {told:?}; it must be {JSON}");
    Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message))
}

async fn collect(request: HttpRequest, length: usize) -> Result<Vec<u8>, Refused> {
    let mut bytes = Vec::with_capacity(length);
    let mut body = request.into_body();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Refused::malformed(format!("the body broke off: {error}")))?;
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes)
}
