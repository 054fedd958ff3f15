//! A certificate chain and its key.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::x509::{Facts, Validity};

/// A certificate chain with the key that fits its first certificate. Clones share both.
#[derive(Clone)]
pub struct Pair {
    certified: Arc<CertifiedKey>,
    facts: Arc<Facts>,
}

/// Without the key.
impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair")
            .field("names", &self.facts.dns_names)
            .field("validity", &self.facts.validity)
            .finish_non_exhaustive()
    }
}

/// The same certificates are the same pair: a certificate has one key.
impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.chain() == other.chain()
    }
}

/// What is no pair. No variant holds anything of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairError {
    /// The certificates are not PEM, or there is none.
    #[error("the certificate is not PEM: {0}")]
    CertificateEncoding(&'static str),
    /// There is a certificate that does not parse.
    #[error("certificate {0} of the chain is no X.509 certificate")]
    Certificate(usize),
    /// The key is not PEM, or there is none.
    #[error("the key is not a private key in PEM")]
    KeyEncoding,
    /// The two do not fit together, or the key is of a kind that cannot be used.
    #[error("certificate and key cannot be used together: {0}")]
    Unfit(String),
}

impl Pair {
    /// The pair in these two PEM texts; of several certificates the first is the one of the key.
    ///
    /// # Errors
    /// When one of them does not parse, or they do not fit together.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, PairError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(|_| PairError::CertificateEncoding("a section is cut off, or is not base64"))?;
        let facts: Vec<_> = chain
            .iter()
            .enumerate()
            .map(|(number, certificate)| Facts::of(certificate).ok_or(PairError::Certificate(number + 1)))
            .collect::<Result<_, _>>()?;
        let facts = facts
            .into_iter()
            .next()
            .ok_or(PairError::CertificateEncoding("there is no certificate in it"))?;
        // The error of the parser is not passed on: it might quote what it read.
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| PairError::KeyEncoding)?;
        let certified = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())
            .map_err(|error| PairError::Unfit(error.to_string()))?;
        Ok(Self {
            certified: Arc::new(certified),
            facts: Arc::new(facts),
        })
    }

    /// What rustls serves.
    pub fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.certified)
    }

    /// The certificates, that of the key first. Never empty.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.certified.cert
    }

    /// When it is valid.
    pub fn validity(&self) -> Validity {
        self.facts.validity
    }

    /// For which DNS names.
    pub fn dns_names(&self) -> &BTreeSet<String> {
        &self.facts.dns_names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::testing::{Issued, at};
    use rstest::rstest;

    fn pem() -> Issued {
        Issued::by_new_authority("a.ns.svc", at(0))
    }

    #[test]
    fn a_pair_tells_its_names_and_its_life_and_not_its_key() {
        let issued = pem();
        let pair = Pair::from_pem(issued.chain.as_bytes(), issued.key.as_bytes()).unwrap();
        assert_eq!(pair.dns_names(), &["a.ns.svc".to_owned()].into());
        assert!(pair.validity().contains(at(0)));
        let printed = format!("{pair:?}");
        assert!(!printed.contains("key"), "{printed}");
    }

    #[rstest]
    #[case::nothing("", "", "the certificate is not PEM: there is no certificate in it")]
    #[case::garbage("CHAIN", "garbage", "the key is not a private key in PEM")]
    #[case::no_certificate(
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        "KEY",
        "certificate 1 of the chain is no X.509 certificate"
    )]
    #[case::half_written(
        "-----BEGIN CERTIFICATE-----\nAAAA\n",
        "KEY",
        "the certificate is not PEM: a section is cut off, or is not base64"
    )]
    #[case::of_another(
        "CHAIN",
        "OTHER",
        "certificate and key cannot be used together: keys may not be consistent: KeyMismatch"
    )]
    fn what_is_no_pair_says_why(#[case] chain: &str, #[case] key: &str, #[case] expected: &str) {
        let (issued, other) = (pem(), pem());
        let filled = |text: &str| match text {
            "CHAIN" => issued.chain.clone(),
            "KEY" => issued.key.clone(),
            "OTHER" => other.key.clone(),
            text => text.to_owned(),
        };
        let error = Pair::from_pem(filled(chain).as_bytes(), filled(key).as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}
