//! Tokens, from the service that a registry names.

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, Uri, header};
use serde::Deserialize;

use super::address::Origin;
use super::challenge::Challenge;
use super::failure::Failure;
use super::payload::{Body, body_of};
use super::transport::Transport;
use super::{answer, told};
use crate::olm::encoding;
use crate::olm::oci::credentials::{Credentials, Secret};
use crate::olm::oci::name::is_loopback;

/// The longest answer with a token, in bytes.
const LARGEST: u64 = 256 << 10;
/// What we are called where a program has to have a name.
const CLIENT: &str = "roadstead";

/// Which token.
pub(super) struct Wanted<'a> {
    pub(super) bearer: &'a Challenge,
    pub(super) scopes: Vec<String>,
    pub(super) registry: &'a Origin,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Answer {
    token: String,
    access_token: String,
}

/// Asks for a token, with whatever credentials there are. Redirects are not followed: the credentials are for this service.
pub(super) async fn fetch(
    transport: &Transport,
    wanted: &Wanted<'_>,
    credentials: Option<&Credentials>,
) -> Result<Secret, Failure> {
    let realm = realm(wanted, credentials.is_some())?;
    let request = request(wanted, &realm, credentials)?;
    let asked = told(request.method(), &realm);
    let response = transport.send(request, transport.limits.answer).await?;
    if response.status() != StatusCode::OK {
        let is_known = credentials.is_some();
        let failure = answer::refused(&asked, response, transport.limits).await;
        let host = wanted.registry.host();
        return Err(failure.with_remedy(&if is_known {
            format!("it gives tokens for {host}: log in there again")
        } else {
            format!("it gives tokens for {host}, and there are no credentials: log in there with `podman login {host}` or `docker login {host}`")
        }));
    }
    let body = answer::body(&asked, response, LARGEST, transport.limits).await?;
    // The error of the JSON is not told: it might quote the token
    let answer: Answer = serde_json::from_slice(&body)
        .map_err(|_| Failure::never(&asked, "the answer is no JSON with a token"))?;
    match (answer.token, answer.access_token) {
        (token, other) if token.is_empty() && other.is_empty() => {
            Err(Failure::never(&asked, "the answer holds no token"))
        }
        (token, other) if token.is_empty() => Ok(Secret::new(other)),
        (token, _) => Ok(Secret::new(token)),
    }
}

/// The service, which is to be reached as safely as the registry itself, and by TLS wherever credentials go.
fn realm(wanted: &Wanted<'_>, has_credentials: bool) -> Result<Uri, Failure> {
    let text = wanted.bearer.field("realm").unwrap_or_default();
    let host = wanted.registry.host();
    let wrong = |why: &str| Failure::never(&format!("the token service of {host}"), why);
    let uri: Uri = text
        .parse()
        .map_err(|_| wrong("the registry names no address for it (realm)"))?;
    let Some(authority) = uri.authority().cloned() else {
        return Err(wrong("the registry names no address for it (realm)"));
    };
    if authority.as_str().contains('@') {
        return Err(wrong(
            "the registry names an address with credentials in it (realm)",
        ));
    }
    let is_near = is_loopback(authority.host());
    match uri.scheme_str() {
        Some("https") => Ok(uri),
        Some("http") if wanted.registry.is_plain() && (is_near || !has_credentials) => Ok(uri),
        _ => Err(wrong(&format!(
            "the registry names {} for it, without TLS, by which nothing is asked (realm)",
            authority.host()
        ))),
    }
}

fn request(
    wanted: &Wanted<'_>,
    realm: &Uri,
    credentials: Option<&Credentials>,
) -> Result<Request<Body>, Failure> {
    let asked = told(&Method::GET, realm);
    let service = wanted.bearer.field("service");
    let mut query: Vec<(&str, &str)> = Vec::new();
    query.extend(service.map(|service| ("service", service)));
    if let Some(Credentials::Identity(token)) = credentials {
        // One field, and the scopes in it
        let scopes = wanted.scopes.join(" ");
        query.extend([
            ("grant_type", "refresh_token"),
            ("client_id", CLIENT),
            ("scope", &*scopes),
            ("refresh_token", token.shown()),
        ]);
        let form = encoded(&query);
        let built = Request::post(realm)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::CONTENT_LENGTH, form.len())
            .body(body_of(Bytes::from(form)));
        return built.map_err(|_| Failure::never(&asked, "it cannot be asked"));
    }
    query.extend(wanted.scopes.iter().map(|scope| ("scope", &**scope)));
    let mut headers = HeaderMap::new();
    if let Some(Credentials::Password { user, password }) = credentials {
        query.push(("account", user));
        let value = answer::sensitive(&asked, &answer::basic(user, password))?;
        headers.insert(header::AUTHORIZATION, value);
    }
    let mark = if realm.query().is_some() { '&' } else { '?' };
    let built = Request::get(format!("{realm}{mark}{}", encoded(&query))).body(body_of(Bytes::new()));
    let mut request = built.map_err(|_| Failure::never(&asked, "it cannot be asked"))?;
    request.headers_mut().extend(headers);
    Ok(request)
}

/// As a query or a form has it.
fn encoded(fields: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in fields {
        if !text.is_empty() {
            text.push('&');
        }
        text.push_str(name);
        text.push('=');
        text.push_str(&encoding::escaped(value.as_bytes(), b"-._~", '%'));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_query_holds_cannot_end_it() {
        let fields = [("scope", "repository:a/b:pull,push"), ("x", "a&b=c d+ä")];
        assert_eq!(
            encoded(&fields),
            "scope=repository%3Aa%2Fb%3Apull%2Cpush&x=a%26b%3Dc%20d%2B%C3%A4"
        );
    }
}
