//! What the webhook serves with at the moment.

use std::sync::Arc;

use jiff::Timestamp;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;
use tracing::info;

pub use crate::pki::{Served, Trust};

/// Holds what is served. Clones share it.
///
/// As rustls' resolver it is asked once in each handshake: a new certificate serves the next one, and connections that are there go on.
#[derive(Clone, Debug)]
pub struct Certificates {
    served: Arc<watch::Sender<Option<Served>>>,
}

impl Default for Certificates {
    fn default() -> Self {
        Self {
            served: Arc::new(watch::Sender::new(None)),
        }
    }
}

impl Certificates {
    /// Serves this from the next handshake on.
    pub fn publish(&self, served: Served) {
        let pair = served.pair.clone();
        let mut former = None;
        let is_news = self.served.send_if_modified(|present| {
            let is_news = present.as_ref() != Some(&served);
            if is_news {
                former = present.replace(served);
            }
            is_news
        });
        // Where only the authorities are others, the certificate is no news.
        if is_news && former.as_ref().is_none_or(|former| former.pair != pair) {
            let (names, until) = (pair.dns_names(), pair.validity().until);
            match former {
                None => info!(?names, %until, "the webhook has a certificate"),
                Some(_) => info!(?names, %until, "the webhook has another certificate"),
            }
        }
    }

    /// What is served now; `None` before the first certificate was published.
    pub fn current(&self) -> Option<Served> {
        self.served.borrow().clone()
    }

    /// Whether the webhook can be served at `now`.
    ///
    /// # Errors
    /// There is no certificate yet, or it has expired.
    pub fn ready(&self, now: Timestamp) -> Result<(), String> {
        match self.expires() {
            None => Err("webhook: no certificate yet".to_owned()),
            Some(until) if until < now => Err(format!("webhook: the certificate expired at {until}")),
            Some(_) => Ok(()),
        }
    }

    /// When the present certificate expires.
    pub fn expires(&self) -> Option<Timestamp> {
        self.served
            .borrow()
            .as_ref()
            .map(|served| served.pair.validity().until)
    }

    /// Tells of each change, beginning with the next.
    pub fn subscribe(&self) -> watch::Receiver<Option<Served>> {
        self.served.subscribe()
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.served
            .borrow()
            .as_ref()
            .map(|served| served.pair.certified())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::testing::{Issued, at};
    use crate::telemetry::captured::Captured;

    fn served(name: &str) -> Served {
        let issued = Issued::by_new_authority(name, at(0));
        Served {
            pair: issued.pair(),
            trust: Trust::Theirs,
        }
    }

    #[test]
    fn one_is_ready_with_a_certificate_that_has_not_expired() {
        let certificates = Certificates::default();
        assert_eq!(
            certificates.ready(at(0)).unwrap_err(),
            "webhook: no certificate yet"
        );
        certificates.publish(served("a.ns.svc"));
        assert_eq!(certificates.ready(at(0)), Ok(()));
        let expired = certificates.ready("2100-01-01T00:00:00Z".parse().unwrap());
        assert!(
            expired
                .unwrap_err()
                .starts_with("webhook: the certificate expired at ")
        );
    }

    #[test]
    fn a_change_is_told_once_and_the_same_again_is_none() {
        let logged = Captured::begin();
        let certificates = Certificates::default();
        let mut changes = certificates.subscribe();
        let (first, second) = (served("a.ns.svc"), served("b.ns.svc"));
        for (next, is_change) in [(&first, true), (&first, false), (&second, true)] {
            certificates.publish(next.clone());
            assert_eq!(changes.has_changed().unwrap(), is_change);
            changes.mark_unchanged();
        }
        assert_eq!(certificates.current(), Some(second));
        assert_eq!(logged.lines_with("the webhook has a certificate").len(), 1);
        assert_eq!(logged.lines_with("the webhook has another certificate").len(), 1);
    }
}
