//! What one side shows, and what it judges the other by.

use std::fmt;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// An authority's bundle has one certificate, or two while it changes.
const MOST_AUTHORITIES: usize = 16;

/// A certificate with its key, and the authorities that vouch for the other side. Clones share all of it.
#[derive(Clone)]
pub struct Credentials {
    pub(super) certified: Arc<CertifiedKey>,
    pub(super) authorities: Arc<RootCertStore>,
}

/// Without the key.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("authorities", &self.authorities.len())
            .finish_non_exhaustive()
    }
}

/// The same certificates are the same credentials: a certificate has one key.
impl PartialEq for Credentials {
    fn eq(&self, other: &Self) -> bool {
        self.certified.cert == other.certified.cert && self.authorities.roots == other.authorities.roots
    }
}

/// What are no credentials. No variant holds anything of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// The authorities are no certificates, or there is none among them.
    #[error("the authority is no certificate")]
    Authority,
    /// The certificate is not PEM, or there is none.
    #[error("the certificate is no certificate in PEM")]
    Certificate,
    /// The key is not PEM, or there is none.
    #[error("the key is not a private key in PEM")]
    Key,
    /// The two do not fit together, or the key is of a kind that cannot be used.
    #[error("certificate and key cannot be used together: {0}")]
    Unfit(String),
}

impl Credentials {
    /// A certificate with its key, and authorities in DER.
    ///
    /// # Errors
    /// When there is no authority, or one that does not parse: without it the other side would be refused for no visible reason.
    pub fn new(
        authorities: &[CertificateDer<'_>],
        certified: Arc<CertifiedKey>,
    ) -> Result<Self, CredentialsError> {
        let mut roots = RootCertStore::empty();
        for authority in authorities.iter().take(MOST_AUTHORITIES) {
            let authority = authority.clone().into_owned();
            roots.add(authority).map_err(|_| CredentialsError::Authority)?;
        }
        if roots.is_empty() {
            return Err(CredentialsError::Authority);
        }
        Ok(Self {
            certified,
            authorities: Arc::new(roots),
        })
    }

    /// Those in these PEM texts: the authorities, the chain whose first certificate is that of the key, and the key.
    ///
    /// # Errors
    /// When one of them does not parse, or chain and key do not fit together. An authority that does not parse is an error as well: without it the other
    /// side would be refused for no visible reason.
    pub fn from_pem(authorities: &[u8], chain: &[u8], key: &[u8]) -> Result<Self, CredentialsError> {
        let authorities: Vec<_> = CertificateDer::pem_slice_iter(authorities)
            .take(MOST_AUTHORITIES)
            .collect::<Result<_, _>>()
            .map_err(|_| CredentialsError::Authority)?;
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(|_| CredentialsError::Certificate)?;
        if chain.is_empty() {
            return Err(CredentialsError::Certificate);
        }
        // The error of the parser is not passed on: it might quote what it read.
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| CredentialsError::Key)?;
        let certified = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())
            .map_err(|error| CredentialsError::Unfit(error.to_string()))?;
        Self::new(&authorities, Arc::new(certified))
    }

    /// What rustls shows.
    pub fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.certified)
    }

    /// What rustls judges the other side by.
    pub fn authorities(&self) -> Arc<RootCertStore> {
        Arc::clone(&self.authorities)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};
    use rstest::rstest;

    fn pair() -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::default().self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    #[test]
    fn credentials_are_told_apart_and_keep_their_key_to_themselves() {
        let ((one, key), (other, _)) = (pair(), pair());
        let read = |authority: &str| {
            Credentials::from_pem(authority.as_bytes(), one.as_bytes(), key.as_bytes()).unwrap()
        };
        assert_eq!(read(&one), read(&one));
        assert_ne!(read(&one), read(&other), "another authority alone is a change");
        assert!(!format!("{:?}", read(&one)).contains("key"));
    }

    #[rstest]
    #[case::no_authority("", "ONE", "KEY", "the authority is no certificate")]
    #[case::a_broken_authority(
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        "ONE",
        "KEY",
        "the authority is no certificate"
    )]
    #[case::no_certificate("ONE", "", "KEY", "the certificate is no certificate in PEM")]
    #[case::no_key("ONE", "ONE", "garbage", "the key is not a private key in PEM")]
    #[case::of_another(
        "ONE",
        "OTHER",
        "KEY",
        "certificate and key cannot be used together: keys may not be consistent: KeyMismatch"
    )]
    fn what_are_no_credentials_says_why(
        #[case] authority: &str,
        #[case] chain: &str,
        #[case] key: &str,
        #[case] expected: &str,
    ) {
        let ((one, one_key), (other, _)) = (pair(), pair());
        let filled = |text: &str| match text {
            "ONE" => one.clone(),
            "KEY" => one_key.clone(),
            "OTHER" => other.clone(),
            text => text.to_owned(),
        };
        let [authority, chain, key] = [authority, chain, key].map(filled);
        let error =
            Credentials::from_pem(authority.as_bytes(), chain.as_bytes(), key.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}
