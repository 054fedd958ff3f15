//! Connections to registries, through a proxy where the environment names one.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::{BoxFuture, FutureExt as _, TryFutureExt as _};
use http::Uri;
use http::uri::Scheme;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::Service;

use crate::olm::oci::name::is_loopback;

/// What names the proxy for TLS, the first of these that is set, as other programs have it.
const PROXY: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
/// What names the hosts that are reached without.
const DIRECT: [&str; 2] = ["NO_PROXY", "no_proxy"];
const ACCEPTED: &str = "accepted is http://[USER:PASSWORD@]HOST[:PORT]";

/// Through which proxy a registry with TLS is reached, if through any. This machine is reached without, whatever the environment says.
#[derive(Clone, Debug, Default)]
pub struct Proxies(Option<Arc<Matcher>>);

impl Proxies {
    /// As the variables of an environment say: `HTTPS_PROXY` or `ALL_PROXY`, and `NO_PROXY`, in capitals or not.
    ///
    /// # Errors
    /// The variable that names a proxy of another kind. Its value may hold a password, so it is not told.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let set = |name: &&str| variable(name).map(|value| value.trim().to_owned());
        let first = PROXY
            .iter()
            .filter_map(|name| Some((*name, set(name).filter(|value| !value.is_empty())?)));
        let Some((name, proxy)) = first.into_iter().next() else {
            return Ok(Self::default());
        };
        let anywhere = Uri::from_static("https://registry.invalid");
        let all = Matcher::builder().https(proxy.clone()).build();
        let is_known = all
            .intercept(&anywhere)
            .is_some_and(|found| found.uri().scheme() == Some(&Scheme::HTTP));
        if !is_known {
            return Err(format!("{name} names no proxy; {ACCEPTED}"));
        }
        let direct = DIRECT.iter().find_map(set).unwrap_or_default();
        let some = Matcher::builder().https(proxy).no(direct).build();
        Ok(Self(Some(Arc::new(some))))
    }
}

/// Connects to where a request goes, or has a proxy do so.
#[derive(Clone)]
pub(super) struct Connector {
    pub tcp: HttpConnector,
    pub proxies: Proxies,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let is_near = to.host().is_none_or(is_loopback);
        let proxies = self.proxies.0.as_ref().filter(|_| !is_near);
        let Some(proxy) = proxies.and_then(|proxies| proxies.intercept(&to)) else {
            return self.tcp.call(to).map_err(Into::into).boxed();
        };
        let mut tunnel = Tunnel::new(proxy.uri().clone(), self.tcp.clone());
        if let Some(password) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(password.clone());
        }
        let name = proxy.uri().authority().map(ToString::to_string);
        let through = move |error| {
            let name = name.unwrap_or_default();
            Through { name, error }.into()
        };
        tunnel.call(to).map_err(through).boxed()
    }
}

/// Why a proxy is of no use. It names the proxy, which whoever asks a registry may not have thought of.
#[derive(Debug)]
struct Through<E> {
    name: String,
    error: E,
}

impl<E: std::error::Error + 'static> fmt::Display for Through<E> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "through the proxy {}: {}",
            self.name,
            super::transport::told(&self.error)
        )
    }
}

impl<E: std::error::Error + 'static> std::error::Error for Through<E> {}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn with(variables: &'static [(&str, &str)]) -> Result<Proxies, String> {
        Proxies::of(|name| {
            let set = variables.iter().find(|(set, _)| *set == name);
            set.map(|(_, value)| (*value).to_owned())
        })
    }

    fn through(proxies: &Proxies, to: &'static str) -> Option<String> {
        let proxy = proxies.0.as_ref()?.intercept(&Uri::from_static(to))?;
        Some(proxy.uri().to_string())
    }

    #[test]
    fn a_proxy_is_for_tls_but_where_no_proxy_says_otherwise() {
        let variables = &[
            ("https_proxy", "http://a:b@proxy.test:3128"),
            ("NO_PROXY", "near.test, 10.0.0.0/8"),
        ];
        let proxies = with(variables).unwrap();
        let proxy = Some("http://proxy.test:3128/".to_owned());
        assert_eq!(through(&proxies, "https://far.test/v2/"), proxy);
        assert_eq!(through(&proxies, "https://a.near.test/v2/"), None);
        assert_eq!(through(&proxies, "https://10.1.2.3/v2/"), None);
        assert_eq!(through(&proxies, "http://far.test/v2/"), None);
    }

    #[test]
    fn without_variables_there_is_none() {
        assert!(with(&[("HTTPS_PROXY", " ")]).unwrap().0.is_none());
    }

    #[rstest]
    #[case(&[("HTTPS_PROXY", "socks5://a:secret@proxy.test:1080")])]
    #[case(&[("HTTPS_PROXY", "https://proxy.test")])]
    #[case(&[("HTTPS_PROXY", "http://pro xy")])]
    fn another_kind_of_proxy_is_refused_and_no_password_told(#[case] variables: &'static [(&str, &str)]) {
        let error = with(variables).unwrap_err();
        assert!(error.starts_with("HTTPS_PROXY names no proxy"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}
