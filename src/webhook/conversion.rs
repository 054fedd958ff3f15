//! `/convert`: objects from one version to another, one by one.
//!
//! A review may hold every object of a kind: an API server sends a list that nobody asked for in pages as one. So of all of them there is the text
//! of the request, and of one alone a tree; the answer is written while it is sent, and what is not taken is not written yet.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use kube::core::Status;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use tracing::warn;

use super::answer::{JSON, Refused, shortened};
use super::body::Held;
use super::object::{Glimpse, Object};
use super::review::{Reviewed, parse};
use super::{Hook, HttpRequest};
use crate::api::conversion::{Versions, convert};
use crate::api::served::Served;

/// How much is written before it is sent.
const CHUNK: usize = 32 << 10;
/// Objects in one review.
const MAX_OBJECTS: usize = 20_000;
/// The longest message, in characters.
const MAX_MESSAGE: usize = 1000;
/// The longest reason in the log, in characters.
const MAX_LOGGED: usize = 400;

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow, rename = "desiredAPIVersion")]
    desired: Cow<'a, str>,
    #[serde(borrow, default)]
    objects: Objects<'a>,
}

impl<'a> Reviewed<'a> for Request<'a> {
    const API_VERSION: &'static str = "apiextensions.k8s.io/v1";
    const KIND: &'static str = "ConversionReview";
    const FIELDS: &'static str = "uid, desiredAPIVersion and objects";

    fn uid(&self) -> &str {
        &self.uid
    }
}

/// The objects as they stand in the body; [`MAX_OBJECTS`] at most, for a list of short numbers would take many times the memory of its text.
#[derive(Default)]
struct Objects<'a>(Vec<&'a RawValue>);

/// A piece of an answer; nothing is its end. One that stops without has failed.
type Piece = Option<Bytes>;

/// Answers a review. The answer begins as soon as the body has turned out to be one.
pub(super) async fn answer(hook: &Arc<Hook>, request: HttpRequest, deadline: Instant) -> Response {
    let held = match hook.memory.take(request, deadline).await {
        Ok(held) => held,
        Err(refused) => return refused.into_response(),
    };
    let (judged, is_review) = oneshot::channel();
    let (pieces, written) = mpsc::channel(1);
    let hook = Arc::clone(hook);
    // A task of its own, for it has to give back the memory in time even when nobody takes the answer.
    tokio::spawn(async move {
        let _ = timeout_at(deadline, write(&hook, held, judged, pieces)).await;
    });
    match is_review.await {
        Ok(Ok(())) => ([(header::CONTENT_TYPE, JSON)], stream(written)).into_response(),
        Ok(Err(refused)) => refused.into_response(),
        Err(_) => Refused::new(
            StatusCode::GATEWAY_TIMEOUT,
            "there was no time to read the review",
        )
        .into_response(),
    }
}

fn stream(mut written: mpsc::Receiver<Piece>) -> Body {
    Body::from_stream(futures::stream::poll_fn(move |context| {
        written.poll_recv(context).map(|piece| match piece {
            Some(Some(bytes)) => Some(Ok(bytes)),
            Some(None) => None,
            // The connection is broken off, so that nobody takes what there is for all of it.
            None => Some(Err(io::Error::other("there was no time to convert all objects"))),
        })
    }))
}

async fn write(
    hook: &Hook,
    held: Held,
    judged: oneshot::Sender<Result<(), Refused>>,
    pieces: mpsc::Sender<Piece>,
) {
    let request = match parse::<Request>(held.bytes()) {
        Ok(request) => request,
        Err(refused) => {
            let _ = judged.send(Err(refused));
            return;
        }
    };
    if judged.send(Ok(())).is_err() {
        return;
    }
    let answer = Answer {
        buffer: Vec::with_capacity(CHUNK),
        pieces,
    };
    // It breaks off when nobody takes it any more, and then there is nobody to tell.
    let _ = write_answer(hook, &request, answer).await;
}

/// An answer as it is written.
struct Answer {
    buffer: Vec<u8>,
    pieces: mpsc::Sender<Piece>,
}

/// Nobody takes the answer any more, or there is a defect in what writes it.
struct Broken;

impl Answer {
    fn put(&mut self, text: &str) {
        self.buffer.extend_from_slice(text.as_bytes());
    }

    fn put_json(&mut self, value: &impl Serialize) -> Result<(), Broken> {
        serde_json::to_writer(&mut self.buffer, value).map_err(|_| Broken)
    }

    async fn send(&mut self) -> Result<(), Broken> {
        let piece = std::mem::replace(&mut self.buffer, Vec::with_capacity(CHUNK));
        self.pieces.send(Some(piece.into())).await.map_err(|_| Broken)
    }

    async fn end(mut self) -> Result<(), Broken> {
        self.send().await?;
        self.pieces.send(None).await.map_err(|_| Broken)
    }
}

async fn write_answer(hook: &Hook, request: &Request<'_>, mut answer: Answer) -> Result<(), Broken> {
    answer.put(r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":"#);
    answer.put_json(&request.uid)?;
    answer.put(r#","convertedObjects":["#);
    // The result comes last, when it is known. An API server reads it first, and looks at no object if it is a failure.
    let result = match desired(&hook.kinds, &request.desired) {
        Ok(version) => write_objects(hook, request, version, &mut answer).await?,
        Err(message) => failure(&message),
    };
    answer.put(r#"],"result":"#);
    answer.put_json(&result)?;
    answer.put("}}");
    answer.end().await
}

async fn write_objects(
    hook: &Hook,
    request: &Request<'_>,
    version: &str,
    answer: &mut Answer,
) -> Result<Status, Broken> {
    let kinds: Vec<&dyn Versions> = hook.kinds.iter().map(Served::versions).collect();
    for (at, raw) in request.objects.0.iter().enumerate() {
        let start = answer.buffer.len();
        if at > 0 {
            answer.put(",");
        }
        let one = || write_object(&kinds, raw, version, hook.limits.object, &mut answer.buffer);
        if let Err(why) = hook.memory.at_the_bench(one).await {
            answer.buffer.truncate(start);
            if let Some(times) = hook.failures.admit(Instant::now()) {
                let why = shortened(&why, MAX_LOGGED);
                warn!(version, times, why, "a list of objects was not converted");
            }
            return Ok(failure(&format!("request.objects[{at}]: {why}")));
        }
        if answer.buffer.len() >= CHUNK {
            answer.send().await?;
        }
    }
    Ok(Status::success())
}

fn write_object(
    kinds: &[&dyn Versions],
    raw: &RawValue,
    version: &str,
    limit: usize,
    buffer: &mut Vec<u8>,
) -> Result<(), String> {
    let told = |why: &dyn fmt::Display| format!("{}: {why}", Glimpse::of(raw).name());
    let Object { value, managed } = Object::read(raw, limit).map_err(|why| told(&why))?;
    let value = convert(kinds, value, version).map_err(|why| told(&why))?;
    let converted = Object { value, managed };
    serde_json::to_writer(buffer, &converted).map_err(|why| told(&why))
}

/// The version that is asked for, which some kind has to have.
fn desired<'a>(kinds: &[Served], desired: &'a str) -> Result<&'a str, String> {
    let of = |kind: &Served| {
        kind.versions()
            .names()
            .map(|name| format!("{}/{name}", kind.versions().group()))
    };
    let known: BTreeSet<String> = kinds.iter().flat_map(of).collect();
    match desired.split_once('/') {
        Some((_, version)) if known.contains(desired) => Ok(version),
        _ => {
            let desired = shortened(desired, 100);
            let known = Vec::from_iter(known).join(", ");
            Err(format!(
                "request.desiredAPIVersion is {desired:?}; it must be one of {known}"
            ))
        }
    }
}

fn failure(message: &str) -> Status {
    Status::failure(&shortened(message, MAX_MESSAGE), "BadRequest")
}

impl<'de: 'a, 'a> Deserialize<'de> for Objects<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Gather(PhantomData))
    }
}

struct Gather<'a>(PhantomData<&'a ()>);

impl<'de: 'a, 'a> Visitor<'de> for Gather<'a> {
    type Value = Objects<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MAX_OBJECTS} objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut objects = Vec::new();
        while let Some(object) = list.next_element()? {
            if objects.len() == MAX_OBJECTS {
                return Err(A::Error::custom(format_args!(
                    "request.objects is longer than {MAX_OBJECTS}; it must have at most {MAX_OBJECTS} objects"
                )));
            }
            objects.push(object);
        }
        Ok(Objects(objects))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::telemetry::captured::Captured;
    use crate::webhook::{Limits, WebhookMetrics, routes};

    #[tokio::test]
    async fn the_log_names_the_object_that_fails_a_list_and_says_why() {
        use tower::ServiceExt;
        let object = json!({
            "apiVersion": "roadstead.dev/v1", "kind": "MyProxy", "metadata": {"namespace": "a", "name": "bad"},
            "spec": {"replicas": "x".repeat(100_000)},
        });
        let review = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": "1", "desiredAPIVersion": "roadstead.dev/v1alpha1", "objects": [object]},
        });
        let request = HttpRequest::post(super::super::CONVERT).header(header::CONTENT_TYPE, JSON);
        let request = request.body(Body::from(review.to_string())).unwrap();
        let router = routes(
            crate::api::served::all(),
            Limits::default(),
            WebhookMetrics::default(),
        );
        let log = Captured::begin();
        let answer = router.oneshot(request).await.unwrap();
        axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        let lines = log.lines_with("was not converted");
        assert_eq!(lines.len(), 1);
        assert!(
            lines[0].contains("a/bad: MyProxy bad does not fit its schema"),
            "{}",
            lines[0]
        );
        assert!(lines[0].len() < 1000, "{}", lines[0].len());
    }
}
