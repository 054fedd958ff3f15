//! The certificates by which instances, and the operator, know each other.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;
use rustls::sign::SingleCertAndKey;
use rustls::{RootCertStore, ServerConfig};
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::api::database::agent::{INSTANCE_ROLE, OPERATOR_ROLE, TLS_FILES};
use crate::runtime::mounted::{self, MountedError};
use crate::runtime::mutual_tls::{Client, Credentials, CredentialsError, unit_of};
use crate::telemetry::told::Told;
use crate::webhook::{Handshakes, without_memory};

/// How often the files are looked at. The kubelet takes up to a minute to bring a changed Secret, and old and new certificate are both valid for much
/// longer than that.
const INTERVAL: Duration = Duration::from_secs(10);
/// The same while there is no certificate, and nobody can be answered.
const INTERVAL_WITHOUT: Duration = Duration::from_secs(1);

/// Who asks, as the verified certificate of the connection says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caller {
    /// There is none, or it is of no organisational unit that is known here.
    #[default]
    Anybody,
    /// An instance of the same database.
    Instance,
    /// The operator.
    Operator,
}

impl Caller {
    /// By a certificate that has been verified.
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        match unit_of(certificate).as_deref() {
            Some(INSTANCE_ROLE) => Self::Instance,
            Some(OPERATOR_ROLE) => Self::Operator,
            _ => Self::Anybody,
        }
    }
}

/// What follows from the credentials of the moment.
#[derive(Clone, Debug)]
struct Present {
    credentials: Credentials,
    server: Arc<ServerConfig>,
    client: Client,
}

/// There are no usable certificates.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error(transparent)]
    Files(#[from] MountedError),
    /// The files do not fit together.
    #[error("{} in {folder}: {source}", TLS_FILES.join(", "), folder = folder.display())]
    Credentials {
        /// Which folder.
        folder: PathBuf,
        /// Why not.
        source: CredentialsError,
    },
    /// There is no TLS to be had with them.
    #[error("no TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// Holds what this instance shows and trusts at the moment. Clones share it.
///
/// It is asked in each handshake: what is replaced serves the next one, and connections that are there go on.
#[derive(Clone, Debug)]
pub struct Tls {
    present: Arc<watch::Sender<Option<Present>>>,
}

impl Default for Tls {
    fn default() -> Self {
        Self {
            present: Arc::new(watch::Sender::new(None)),
        }
    }
}

impl Tls {
    /// Shows and trusts this from the next handshake on. Whether it is another than before.
    ///
    /// # Errors
    /// When there is no TLS to be had with it; then everything stays as it was.
    pub fn publish(&self, credentials: Credentials) -> Result<bool, rustls::Error> {
        let is_known = |present: &Present| present.credentials == credentials;
        if self.present.borrow().as_ref().is_some_and(is_known) {
            return Ok(false);
        }
        let present = Present {
            server: Arc::new(server(&credentials)?),
            client: Client::new(&credentials, INSTANCE_ROLE)?,
            credentials,
        };
        self.present.send_replace(Some(present));
        Ok(true)
    }

    /// What a server goes by: it shows the instance's certificate, and verifies that of a client which sends one.
    pub fn handshakes(&self) -> Handshakes {
        let present = Arc::clone(&self.present);
        Arc::new(move || {
            present
                .borrow()
                .as_ref()
                .map(|present| Arc::clone(&present.server))
        })
    }

    /// The client that asks other instances; `None` before there is a certificate. Not to be kept: it may be another the next time.
    pub fn client(&self) -> Option<Client> {
        self.present
            .borrow()
            .as_ref()
            .map(|present| present.client.clone())
    }

    /// Publishes `ca.crt`, `tls.crt` and `tls.key` of the folder, and again whenever they are others. What is wrong is logged once, and what was there
    /// before stays.
    pub async fn follow(self, folder: PathBuf) -> Infallible {
        let mut told = Told::default();
        loop {
            match self.reload(folder.clone()) {
                Ok(is_news) => {
                    if is_news {
                        info!(folder = %folder.display(), "the instance has a new certificate");
                    }
                    told.clear();
                }
                Err(error) => {
                    let error = error.to_string();
                    if told.note(&error) {
                        warn!(error, "no new certificate for the instance");
                    }
                }
            }
            let is_without = self.present.borrow().is_none();
            sleep(if is_without { INTERVAL_WITHOUT } else { INTERVAL }).await;
        }
    }

    /// Publishes what is in the folder now. Whether it is another than before.
    ///
    /// # Errors
    /// When it cannot be read or used; then everything stays as it was.
    pub fn reload(&self, folder: PathBuf) -> Result<bool, TlsError> {
        let [authorities, chain, key] = mounted::read(&folder, TLS_FILES)?;
        let credentials = Credentials::from_pem(&authorities, &chain, &key)
            .map_err(|source| TlsError::Credentials { folder, source })?;
        Ok(self.publish(credentials)?)
    }
}

fn server(credentials: &Credentials) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let authorities: Arc<RootCertStore> = credentials.authorities();
    // The kubelet and Prometheus have none.
    let clients = WebPkiClientVerifier::builder_with_provider(authorities, Arc::clone(&provider))
        .allow_unauthenticated()
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(clients)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(credentials.certified())));
    Ok(without_memory(config))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::captured::Captured;
    use rcgen::{CertificateParams, DnType, KeyPair};
    use rstest::rstest;

    fn signed(unit: Option<&str>) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        if let Some(unit) = unit {
            params
                .distinguished_name
                .push(DnType::OrganizationalUnitName, unit);
        }
        (params.self_signed(&key).unwrap(), key)
    }

    #[rstest]
    #[case(Some("instance"), Caller::Instance)]
    #[case(Some("operator"), Caller::Operator)]
    #[case(Some("Operator"), Caller::Anybody)]
    #[case(None, Caller::Anybody)]
    fn the_organisational_unit_says_who_asks(#[case] unit: Option<&str>, #[case] expected: Caller) {
        assert_eq!(Caller::of(signed(unit).0.der()), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_kubelet_brings_is_shown_and_what_is_wrong_is_told_once_and_changes_nothing() {
        let logged = Captured::begin();
        let folder = tempfile::tempdir().unwrap();
        let tls = Tls::default();
        let following = tokio::spawn(tls.clone().follow(folder.path().to_owned()));
        let (handshakes, mut changes) = (tls.handshakes(), tls.present.subscribe());
        sleep(3 * INTERVAL).await;
        assert!(handshakes().is_none());
        assert_eq!(logged.lines_with("ca.crt").len(), 1);

        let bring = |chain: &str, key: &str| {
            for (name, text) in TLS_FILES.into_iter().zip([chain, chain, key]) {
                std::fs::write(folder.path().join(name), text).unwrap();
            }
        };
        let ((first, first_key), (second, second_key)) = (signed(None), signed(None));
        bring(&first.pem(), &first_key.serialize_pem());
        changes.changed().await.unwrap();
        let shown = handshakes().unwrap();

        bring(&second.pem(), &first_key.serialize_pem());
        sleep(3 * INTERVAL).await;
        assert!(Arc::ptr_eq(&shown, &handshakes().unwrap()));
        assert_eq!(logged.lines_with("cannot be used together").len(), 1);

        bring(&second.pem(), &second_key.serialize_pem());
        changes.changed().await.unwrap();
        assert!(!Arc::ptr_eq(&shown, &handshakes().unwrap()));
        assert!(logged.lines_with("PRIVATE KEY").is_empty());
        following.abort();
    }
}
