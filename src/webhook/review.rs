//! What both reviews have in common: an envelope with a request in it.

use std::borrow::Cow;

use serde::Deserialize;

use super::answer::{Refused, shortened};

/// The longest identifier of a request that is taken, for it is repeated in the answer; an API server's has 36 characters.
const MAX_UID: usize = 100;

/// A request of a review.
pub(super) trait Reviewed<'a>: Deserialize<'a> {
    /// The group and version of the review.
    const API_VERSION: &'static str;
    /// Its kind.
    const KIND: &'static str;
    /// What is in a request.
    const FIELDS: &'static str;

    /// Which request it is.
    fn uid(&self) -> &str;
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "R: Deserialize<'de>"))]
struct Review<'a, R> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    request: Option<R>,
}

/// The request in a body.
pub(super) fn parse<'a, R: Reviewed<'a>>(body: &'a [u8]) -> Result<R, Refused> {
    let review: Review<R> = serde_json::from_slice(body).map_err(|error| {
        let error = shortened(&error.to_string(), 300);
        Refused::malformed(format!(
            "the body is no {} of {}: {error}",
            R::KIND,
            R::API_VERSION
        ))
    })?;
    expect("apiVersion", &review.api_version, R::API_VERSION)?;
    expect("kind", &review.kind, R::KIND)?;
    let request = review
        .request
        .ok_or_else(|| Refused::malformed(format!("request is missing; it must hold {}", R::FIELDS)))?;
    let length = request.uid().len();
    if length > MAX_UID {
        let message = format!("request.uid has {length} bytes; it must have at most {MAX_UID}");
        return Err(Refused::malformed(message));
    }
    Ok(request)
}

fn expect(field: &str, value: &str, expected: &str) -> Result<(), Refused> {
    if value == expected {
        return Ok(());
    }
    let value = shortened(value, 100);
    Err(Refused::malformed(format!(
        "{field} is {value:?}; it must be {expected}"
    )))
}
