use std::fmt;

use http::Uri;

use crate::olm::oci::name::is_loopback;

/// Whom a request is for: how, the host, and the port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    scheme: &'static str,
    host: String,
}

impl Origin {
    pub(super) fn new(is_plain: bool, host: &str) -> Self {
        Self {
            scheme: if is_plain { "http" } else { "https" },
            host: host.to_ascii_lowercase(),
        }
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn is_plain(&self) -> bool {
        self.scheme == "http"
    }

    /// Whether nobody on the way can read what is sent.
    pub(super) fn is_secret(&self) -> bool {
        !self.is_plain() || is_loopback(&self.host)
    }

    /// Whether an address is there.
    pub(super) fn is_of(&self, uri: &Uri) -> bool {
        let usual = if self.is_plain() { 80 } else { 443 };
        let found = uri.authority().map(|authority| {
            let port = authority.port_u16().unwrap_or(usual);
            (authority.host().to_ascii_lowercase(), port)
        });
        let own: Option<http::uri::Authority> = self.host.parse().ok();
        let own = own.map(|own| (own.host().to_owned(), own.port_u16().unwrap_or(usual)));
        uri.scheme_str() == Some(self.scheme) && found == own
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.host)
    }
}

/// Where a `Location` leads from an address.
///
/// # Errors
/// It leads nowhere, carries credentials, or from TLS to plain HTTP.
pub(super) fn resolve(from: &Uri, location: &str) -> Result<Uri, String> {
    let nowhere = || "it redirects to what is no address".to_owned();
    let whole = if location.starts_with("//") {
        format!("{}:{location}", from.scheme_str().unwrap_or_default())
    } else if location.starts_with('/') {
        let authority = from.authority().ok_or_else(nowhere)?;
        format!(
            "{}://{authority}{location}",
            from.scheme_str().unwrap_or_default()
        )
    } else {
        location.to_owned()
    };
    let to: Uri = whole.parse().map_err(|_| nowhere())?;
    let authority = to.authority().ok_or_else(nowhere)?;
    if authority.as_str().contains('@') {
        return Err(format!(
            "it redirects to {} with credentials in the address, which is not followed",
            authority.host()
        ));
    }
    match (from.scheme_str(), to.scheme_str()) {
        (_, Some("https")) | (Some("http"), Some("http")) => Ok(to),
        _ => Err(format!(
            "it redirects from TLS to {} without, which is not followed",
            authority.host()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("https://r.example.com/a", "/b?c=d", Some("https://r.example.com/b?c=d"))]
    #[case(
        "https://r.example.com/a",
        "//s.example.com/b",
        Some("https://s.example.com/b")
    )]
    #[case(
        "https://r.example.com/a",
        "https://s.example.com:8443/b",
        Some("https://s.example.com:8443/b")
    )]
    #[case(
        "http://localhost:5000/a",
        "http://localhost:5000/b",
        Some("http://localhost:5000/b")
    )]
    #[case("https://r.example.com/a", "http://r.example.com/b", None)]
    #[case("https://r.example.com/a", "https://me:secret@s.example.com/b", None)]
    #[case("https://r.example.com/a", "file:///etc/passwd", None)]
    #[case("https://r.example.com/a", "b", None)]
    fn a_redirect_leads_where_it_may(#[case] from: &str, #[case] location: &str, #[case] to: Option<&str>) {
        let found = resolve(&from.parse().unwrap(), location);
        assert_eq!(found.as_ref().ok().map(ToString::to_string).as_deref(), to);
        assert!(!format!("{found:?}").contains("secret"));
    }

    #[rstest]
    #[case("https://r.example.com/a", true)]
    #[case("https://R.example.com:443/a", true)]
    #[case("http://r.example.com/a", false)]
    #[case("https://r.example.com:8443/a", false)]
    #[case("https://s.example.com/a", false)]
    fn another_host_port_or_scheme_is_somebody_else(#[case] uri: &str, #[case] expected: bool) {
        let origin = Origin::new(false, "r.example.com");
        assert_eq!(origin.is_of(&uri.parse().unwrap()), expected);
    }
}
