//! Bodies that nobody should send: reviews in which something is wrong.

use std::time::Duration;

use axum::Router;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use roadstead::api::conversion::KEPT;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::reviews::{admission, conversion, post, proxy};

/// What is put in place of something else, as text: what no tree could hold is among it.
const INSTEAD: [&str; 19] = [
    "null",
    "true",
    "0",
    "-1",
    "1e308",
    "1e999",
    "123456789012345678901234567890",
    "-0.0",
    "\"\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "[]",
    "{}",
    "[[]]",
    "{\"\":{}}",
    "[null,1,\"a\"]",
    "{\"kind\":1,\"kind\":2}",
    "nul",
    "",
];

/// What is wrong.
#[derive(Clone, Debug)]
pub enum Wrong {
    /// Nothing: the router has to bear that too.
    Nothing,
    /// It ends early.
    CutOff(Index),
    /// A value is another.
    Instead(Index, String),
    /// A field is twice there.
    Twice(Index),
    /// Some bytes are others.
    Bytes(Vec<(Index, u8)>),
    /// It is nothing of the kind.
    Noise(Vec<u8>),
    /// Not the review itself is wrong, but what is inside an annotation that conversion reads.
    Inside(Box<Wrong>),
}

pub fn wrong() -> impl Strategy<Value = Wrong> {
    let inside = any_wrong().prop_map(|wrong| Wrong::Inside(Box::new(wrong)));
    prop_oneof![4 => any_wrong(), 1 => inside]
}

fn any_wrong() -> impl Strategy<Value = Wrong> {
    let at = any::<Index>;
    let deep = (1_usize..5000, select(vec!["[", "{\"a\":"])).prop_map(|(depth, open)| open.repeat(depth));
    let giant = (1_usize..50_000).prop_map(|length| format!("{:?}", "é".repeat(length)));
    let many = (1_usize..20_000, select(vec!["1", "{}", "[]", "\"\"", "{\"\":0}"]))
        .prop_map(|(count, one)| format!("[{}]", vec![one; count].join(",")));
    prop_oneof![
        1 => Just(Wrong::Nothing),
        4 => at().prop_map(Wrong::CutOff),
        20 => (at(), select(&INSTEAD[..])).prop_map(|(at, text)| Wrong::Instead(at, text.to_owned())),
        1 => (at(), deep).prop_map(|(at, text)| Wrong::Instead(at, text)),
        1 => (at(), giant).prop_map(|(at, text)| Wrong::Instead(at, text)),
        1 => (at(), many).prop_map(|(at, text)| Wrong::Instead(at, text)),
        4 => at().prop_map(Wrong::Twice),
        8 => vec((at(), any::<u8>()), 1..4).prop_map(Wrong::Bytes),
        2 => vec(any::<u8>(), 0..200).prop_map(Wrong::Noise),
    ]
}

/// Reviews as an API server sends them.
pub fn reviews() -> Vec<Value> {
    let kept = |version: &str, kept: Value| {
        let mut object = proxy(version, "kept", 300);
        object["metadata"]["annotations"] = json!({KEPT: kept.to_string(), "other": "1"});
        object["metadata"]["managedFields"] = json!([{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]);
        object
    };
    let place = json!(["spec", "upstreams", {"name": "upstream-0"}, "novel"]);
    let early = kept(
        "v1alpha1",
        json!({"v1": [{"at": ["spec", "paused"], "is": true}, {"at": place, "is": 1}]}),
    );
    let late = kept(
        "v1",
        json!({"v1alpha1": [{"at": ["status", "conditions"], "left": []}]}),
    );
    let database = json!({
        "apiVersion": "roadstead.dev/v1", "kind": "Database", "metadata": {"name": "db"},
        "spec": {"version": "17", "size": "small", "users": [{"name": "app"}], "resources": {"limits": {"cpu": "1"}}},
    });
    let plain = proxy("v1alpha1", "plain", 300);
    vec![
        conversion("roadstead.dev/v1", &[early.clone(), plain.clone(), late.clone()]),
        conversion("roadstead.dev/v1alpha1", &[late.clone(), database.clone()]),
        admission("CREATE", &late, &Value::Null),
        admission("CREATE", &database, &Value::Null),
        admission("UPDATE", &plain, &early),
    ]
}

/// A review with something wrong in it.
pub fn spoilt(review: &Value, wrong: &Wrong) -> Vec<u8> {
    let text = review.to_string();
    match wrong {
        Wrong::Nothing => text.into_bytes(),
        Wrong::CutOff(at) => text.as_bytes()[..at.index(text.len())].to_vec(),
        Wrong::Instead(at, instead) => {
            const HERE: &str = "%here%";
            let mut places = Vec::new();
            look(review, &mut String::new(), &mut places);
            let mut spoilt = review.clone();
            if let Some(place) = spoilt.pointer_mut(&places[at.index(places.len())]) {
                *place = json!(HERE);
            }
            spoilt
                .to_string()
                .replace(&format!("{HERE:?}"), instead)
                .into_bytes()
        }
        Wrong::Twice(at) => {
            let opened: Vec<usize> = text.match_indices("{\"").map(|(at, _)| at + 1).collect();
            let start = *at.get(&opened);
            let field = text[start..].split(':').next().unwrap_or_default();
            format!("{}{field}:null,{}", &text[..start], &text[start..]).into_bytes()
        }
        Wrong::Bytes(changes) => {
            let mut bytes = text.into_bytes();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            bytes
        }
        Wrong::Noise(bytes) => bytes.clone(),
        Wrong::Inside(wrong) => {
            let mut spoilt = review.clone();
            spoil_kept(&mut spoilt, wrong);
            spoilt.to_string().into_bytes()
        }
    }
}

fn spoil_kept(review: &mut Value, wrong: &Wrong) {
    let mut places = Vec::new();
    look(review, &mut String::new(), &mut places);
    for place in places
        .iter()
        .filter(|place| place.ends_with("/roadstead.dev~1kept"))
    {
        if let Some(text) = review.pointer_mut(place)
            && let Some(kept) = text.as_str().and_then(|text| serde_json::from_str(text).ok())
        {
            *text = String::from_utf8_lossy(&spoilt(&kept, wrong)).into();
        }
    }
}

/// All places of a tree, as JSON pointers.
fn look(value: &Value, at: &mut String, places: &mut Vec<String>) {
    places.push(at.clone());
    let length = at.len();
    let mut go = |step: &str, value: &Value| {
        at.push('/');
        at.push_str(&step.replace('~', "~0").replace('/', "~1"));
        look(value, at, places);
        at.truncate(length);
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| go(name, value)),
        Value::Array(list) => list
            .iter()
            .enumerate()
            .for_each(|(index, value)| go(&index.to_string(), value)),
        _ => {}
    }
}

/// What every answer says. It is no tree, for what nobody reads may hold a number that no tree can.
#[derive(Debug, Deserialize)]
struct Answer {
    kind: String,
    message: Option<String>,
    response: Option<Response>,
}

#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "it has to be there")]
struct Response {
    uid: String,
}

/// Sends a body there. It has to be answered in time, with JSON, and as something that its sender can understand.
pub async fn bears(router: &Router, path: &str, body: Vec<u8>) -> Result<(), String> {
    let answer = tokio::time::timeout(Duration::from_secs(25), post(router, path, body));
    let (status, body) = answer.await.map_err(|_| "no answer in time".to_owned())?;
    if !status.is_success() && !status.is_client_error() {
        return Err(format!("{status}: {}", String::from_utf8_lossy(&body)));
    }
    let answer: Answer =
        serde_json::from_slice(&body).map_err(|error| format!("{status}, no such JSON: {error}"))?;
    let is_told = match status.as_u16() {
        200 => answer.response.is_some(),
        _ => answer.kind == "Status" && answer.message.is_some(),
    };
    if is_told {
        Ok(())
    } else {
        Err(format!("{status}: {answer:?}"))
    }
}
