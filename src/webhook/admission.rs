//! `/validate/KIND` and `/mutate/KIND`: whether an object may be written, and what is put back into it first.
//!
//! The rules are [`Served::check`], pure, and the same that the reconciler goes by. A deletion is never refused, and neither are the writes that an
//! object needs to go: so nothing that this server says, or fails to say, holds an object back that its owner wants gone.

use std::borrow::Cow;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use k8s_openapi::ByteString;
use kube::core::Status;
use kube::core::response::{StatusCause, StatusDetails};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::answer::{JSON, Refused, shortened};
use super::object::{Glimpse, Object};
use super::review::{Reviewed, parse};
use super::{Hook, HttpRequest};
use crate::api::conversion::{KEPT, carry_over};
use crate::api::problem::{Problem, Problems};
use crate::api::served::{Refusal, Served};

/// How many problems are listed one by one beside the message.
const MAX_CAUSES: usize = 20;
/// The longest message about an object that cannot be read, in characters.
const MAX_MESSAGE: usize = 1000;

/// What is asked. Types of our own, since those of kube read both objects into trees, however dear.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow)]
    operation: Cow<'a, str>,
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
    #[serde(borrow, default)]
    old_object: Option<&'a RawValue>,
}

impl<'a> Reviewed<'a> for Request<'a> {
    const API_VERSION: &'static str = "admission.k8s.io/v1";
    const KIND: &'static str = "AdmissionReview";
    const FIELDS: &'static str = "uid, operation and object";

    fn uid(&self) -> &str {
        &self.uid
    }
}

/// What a webhook decides of an object, and of the one that it takes the place of.
pub(super) type Decide = fn(&Served, Value, Option<Value>) -> Decision;

/// Whether an object is admitted, and with what.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Decision {
    /// Why not, if it is not.
    refusal: Option<Status>,
    /// A JSON patch.
    patch: Option<Value>,
}

impl Decision {
    fn refused(kind: &Served, name: &str, message: String, problems: &[Problem]) -> Self {
        let details = StatusDetails {
            name: name.to_owned(),
            group: kind.versions().group().to_owned(),
            kind: kind.versions().kind().to_owned(),
            uid: String::new(),
            causes: causes(problems, &message),
            retry_after_seconds: 0,
        };
        let status = Status::failure(&message, kube::core::response::reason::INVALID);
        Self {
            refusal: Some(status.with_code(422).with_details(details)),
            ..Self::default()
        }
    }
}

/// kubectl shows these instead of the message, so there has to be one.
fn causes(problems: &[Problem], message: &str) -> Vec<StatusCause> {
    let cause = |field: &str, message: String| StatusCause {
        reason: "FieldValueInvalid".to_owned(),
        message,
        field: field.to_owned(),
    };
    let listed = problems.iter().take(MAX_CAUSES);
    let mut causes: Vec<_> = listed
        .map(|problem| {
            let told = format!("{:?}; it must be {}", problem.value, problem.expected);
            cause(&problem.field, told)
        })
        .collect();
    if let more @ 1.. = problems.len().saturating_sub(MAX_CAUSES) {
        causes.push(cause("spec", format!("{more} more problems")));
    }
    if causes.is_empty() {
        causes.push(cause("<object>", message.to_owned()));
    }
    causes
}

/// Refuses an object that breaks rules.
pub(super) fn validate(kind: &Served, object: Value, old: Option<Value>) -> Decision {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let Err(refusal) = kind.check(object, old) else {
        return Decision::default();
    };
    let problems = match &refusal {
        Refusal::Invalid(problems) => Problems::list(problems),
        Refusal::Unreadable(_) => &[],
    };
    Decision::refused(kind, &name, refusal.to_string(), problems)
}

/// Puts back the annotation in which v1alpha1 keeps what it cannot say, when a client has left it out that replaces the object by what it knows.
pub(super) fn mutate(_: &Served, mut object: Value, old: Option<Value>) -> Decision {
    let is_annotated = object["metadata"]["annotations"].is_object();
    if !old.is_some_and(|old| carry_over(&old, &mut object)) {
        return Decision::default();
    }
    let kept = &object["metadata"]["annotations"][KEPT];
    let patch = if is_annotated {
        let name = KEPT.replace('~', "~0").replace('/', "~1");
        json!([{"op": "add", "path": format!("/metadata/annotations/{name}"), "value": kept}])
    } else {
        json!([{"op": "add", "path": "/metadata/annotations", "value": {KEPT: kept}}])
    };
    Decision {
        patch: Some(patch),
        ..Decision::default()
    }
}

/// Answers a review.
pub(super) async fn answer(
    hook: &Hook,
    kind: &Served,
    decide: Decide,
    request: HttpRequest,
    deadline: Instant,
) -> Response {
    let held = match hook.memory.take(request, deadline).await {
        Ok(held) => held,
        Err(refused) => return refused.into_response(),
    };
    let review = hook
        .memory
        .at_the_bench(|| review(held.bytes(), kind, decide, hook.limits.object));
    match review.await {
        Ok(body) => ([(header::CONTENT_TYPE, JSON)], body).into_response(),
        Err(refused) => refused.into_response(),
    }
}

fn review(body: &[u8], kind: &Served, decide: Decide, limit: usize) -> Result<Vec<u8>, Refused> {
    let request: Request = parse(body)?;
    let decision = match &*request.operation {
        "CREATE" | "UPDATE" => admit(&request, kind, decide, limit),
        _ => Decision::default(),
    };
    write(&request.uid, decision).map_err(|_| {
        Refused::new(
            axum::http::StatusCode::INTERNAL_SERVER_ERROR,
            "the answer could not be written",
        )
    })
}

fn admit(request: &Request<'_>, kind: &Served, decide: Decide, limit: usize) -> Decision {
    let refused = |field: &str, why: &str| {
        let message = shortened(&format!("{field}: {why}"), MAX_MESSAGE);
        Decision::refused(kind, "", message, &[])
    };
    let Some(object) = request.object else {
        return refused(
            "request.object",
            "it is missing; it must be the object that is written",
        );
    };
    let object = match Object::read(object, limit) {
        Ok(object) => object.value,
        // Too dear for the rules, which do not hold what is leaving: it would never lose its finalizer.
        Err(_) if Glimpse::of(object).is_leaving() => return Decision::default(),
        Err(why) => return refused("request.object", &why),
    };
    // What was stored once may be anything, and is no reason to refuse what takes its place.
    let old = request.old_object.and_then(|old| Object::read(old, limit).ok());
    decide(kind, object, old.map(|old| old.value))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: AnswerTo<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AnswerTo<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    /// In base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<ByteString>,
}

fn write(uid: &str, decision: Decision) -> Result<Vec<u8>, serde_json::Error> {
    let patch = decision.patch.as_ref().map(serde_json::to_vec).transpose()?;
    serde_json::to_vec(&Answer {
        api_version: "admission.k8s.io/v1",
        kind: "AdmissionReview",
        response: AnswerTo {
            uid,
            allowed: decision.refusal.is_none(),
            status: decision.refusal,
            patch_type: patch.as_ref().map(|_| "JSONPatch"),
            patch: patch.map(ByteString),
        },
    })
}
