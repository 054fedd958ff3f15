//! What registries answer, as people are told it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use super::failure::{Again, Failure};
use super::{Limits, transport};
use crate::olm::oci::credentials::Secret;

/// The longest answer of a registry that refuses something, in bytes.
const LARGEST_REFUSAL: u64 = 64 << 10;
/// So much is told of what it says, in characters.
const MOST_TOLD: usize = 200;

#[derive(Deserialize)]
struct Refusal {
    errors: Vec<Problem>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Problem {
    code: String,
    message: String,
}

/// A whole body, within bounds.
pub(super) async fn body(
    asked: &str,
    response: Response<Incoming>,
    most: u64,
    limits: Limits,
) -> Result<Bytes, Failure> {
    let mut body = response.into_body();
    let deadline = Instant::now() + limits.transfer(most.min(LARGEST_REFUSAL));
    let mut bytes = Vec::new();
    loop {
        let frame = timeout_at(deadline, body.frame()).await;
        let late = || {
            Failure::soon(
                asked,
                format!("the answer did not end within {} s", limits.answer.as_secs_f64()),
            )
        };
        let data = match frame.map_err(|_| late())? {
            None => return Ok(bytes.into()),
            Some(frame) => frame.map_err(|error| Failure::soon(asked, transport::told(&error)))?,
        };
        bytes.extend(data.into_data().unwrap_or_default());
        if bytes.len() as u64 > most {
            return Err(Failure::never(
                asked,
                format!("the answer has more than {most} bytes"),
            ));
        }
    }
}

/// Why a registry has not done what it was asked.
pub(super) async fn refused(asked: &str, response: Response<Incoming>, limits: Limits) -> Failure {
    let status = response.status();
    let again = again(&response);
    let said = match body(asked, response, LARGEST_REFUSAL, limits).await {
        Ok(bytes) => said(&bytes),
        Err(_) => String::new(),
    };
    let mut why = format!("answered {status}");
    if !said.is_empty() {
        why = format!("{why}, {said}");
    }
    if let Again::After(time) = again
        && time > limits.longest_pause
    {
        why = format!("{why}; try again in {} s", time.as_secs());
    }
    Failure::new(asked, why, again)
}

fn again(response: &Response<Incoming>) -> Again {
    let is_passing = matches!(
        response.status(),
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::REQUEST_TIMEOUT
            | StatusCode::INTERNAL_SERVER_ERROR
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    );
    let asked = text_header(response, &header::RETRY_AFTER).and_then(|text| text.trim().parse().ok());
    match (is_passing, asked) {
        (false, _) => Again::Never,
        (true, Some(seconds)) => Again::After(Duration::from_secs(seconds)),
        (true, None) => Again::Soon,
    }
}

/// The registry's own words: those of the specification's errors, or the beginning of what it says otherwise.
fn said(bytes: &[u8]) -> String {
    let text = match serde_json::from_slice::<Refusal>(bytes) {
        Ok(refusal) => {
            let each = refusal.errors.iter().map(|problem| match &*problem.code {
                "" => problem.message.clone(),
                code => format!("{code}: {}", problem.message),
            });
            each.collect::<Vec<_>>().join("; ")
        }
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    };
    let plain: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MOST_TOLD + 1)
        .collect();
    match plain.char_indices().nth(MOST_TOLD) {
        Some((at, _)) => format!("{}…", &plain[..at]),
        None => plain.trim().to_owned(),
    }
}

pub(super) fn text_header<'a>(response: &'a Response<Incoming>, name: &HeaderName) -> Option<&'a str> {
    response.headers().get(name).and_then(|value| value.to_str().ok())
}

/// A header that nothing prints.
pub(super) fn sensitive(asked: &str, text: &str) -> Result<HeaderValue, Failure> {
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| Failure::never(asked, "the credentials hold characters that no header can carry"))?;
    value.set_sensitive(true);
    Ok(value)
}

pub(super) fn basic(user: &str, password: &Secret) -> String {
    let pair = format!("{user}:{}", password.shown());
    format!("Basic {}", STANDARD.encode(pair))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_registry_says_is_told_in_one_short_line() {
        let errors = br#"{"errors":[{"code":"DENIED","message":"no\nway"},{"message":"at all"}]}"#;
        assert_eq!(said(errors), "DENIED: no way; at all");
        assert_eq!(said(b"<html>\x1b[31m"), "<html> [31m");
        assert_eq!(said("ä".repeat(1000).as_bytes()).chars().count(), MOST_TOLD + 1);
    }

    #[test]
    fn a_header_with_credentials_is_not_printed() {
        let value = sensitive("x", &basic("me", &Secret::new("geheim"))).unwrap();
        assert_eq!(format!("{value:?}"), "Sensitive");
    }
}
