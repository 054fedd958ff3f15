//! What is asked of a certificate here, read out of it.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;
use x509_parser::x509::X509Version;

/// A bundle has a handful. Whoever puts more into one has put something else into it.
const MOST_IN_A_BUNDLE: usize = 64;

/// From when until when a certificate is valid, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Not before this.
    pub from: Timestamp,
    /// Not after this.
    pub until: Timestamp,
}

impl Validity {
    /// Whether it is valid at `now`.
    pub fn contains(&self, now: Timestamp) -> bool {
        (self.from..=self.until).contains(&now)
    }

    /// When two thirds of its life are over.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        let life = self.until.duration_since(self.from);
        now.duration_since(self.from) >= life / 3 * 2
    }

    /// For how long it has been valid; negative when it is not yet.
    pub(crate) fn age(&self, now: Timestamp) -> SignedDuration {
        now.duration_since(self.from)
    }
}

/// What is asked of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) validity: Validity,
    /// Lower case.
    pub(crate) dns_names: BTreeSet<String>,
    /// DER of the SubjectPublicKeyInfo.
    pub(crate) public_key: Vec<u8>,
    pub(crate) is_ca: bool,
    /// Whether it names itself as its issuer, as an authority does that nobody vouches for.
    pub(crate) is_self_issued: bool,
    /// Whether it can have extensions, without which no library of Rust takes it.
    pub(crate) is_v3: bool,
    /// The object identifier of the algorithm by which it is signed.
    pub(crate) signature: String,
}

impl Facts {
    /// Reads them. `None` for what is no certificate.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (rest, parsed) = X509Certificate::from_der(certificate).ok()?;
        if !rest.is_empty() {
            return None;
        }
        let validity = Validity {
            from: timestamp(parsed.validity().not_before)?,
            until: timestamp(parsed.validity().not_after)?,
        };
        Some(Self {
            validity,
            dns_names: dns_names(&parsed),
            public_key: parsed.public_key().raw.to_vec(),
            is_ca: parsed.is_ca(),
            is_self_issued: parsed.subject().as_raw() == parsed.issuer().as_raw(),
            is_v3: parsed.version() == X509Version::V3,
            signature: parsed.signature_algorithm.algorithm.to_id_string(),
        })
    }
}

fn dns_names(certificate: &X509Certificate<'_>) -> BTreeSet<String> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else {
        return BTreeSet::new();
    };
    let names = extension.value.general_names.iter();
    names
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        })
        .collect()
}

fn timestamp(time: ASN1Time) -> Option<Timestamp> {
    Timestamp::from_second(time.timestamp()).ok()
}

/// The certificates in a PEM text. What is none is left out, as Go does it for the API server, which reads the bundles.
pub(crate) fn certificates_in(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem)
        .take(MOST_IN_A_BUNDLE)
        .filter_map(Result::ok)
        .filter(|certificate| Facts::of(certificate).is_some())
        .collect()
}

/// The same certificates as PEM.
pub(crate) fn to_pem<'a>(certificates: impl IntoIterator<Item = &'a CertificateDer<'a>>) -> String {
    certificates
        .into_iter()
        .map(|certificate| encode("CERTIFICATE", certificate))
        .collect()
}

/// The first private key in a PEM text, and nothing else, as PEM. `None` if there is none.
pub(crate) fn key_in(pem: &[u8]) -> Option<String> {
    let key = PrivateKeyDer::from_pem_slice(pem).ok()?;
    let label = match key {
        PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
        PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
        _ => "PRIVATE KEY",
    };
    Some(encode(label, key.secret_der()))
}

fn encode(label: &str, content: &[u8]) -> String {
    let lines = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new(label, content), lines)
}
