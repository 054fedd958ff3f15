//! Certificates for tests.

use jiff::{SignedDuration, Timestamp};
use rustls::pki_types::CertificateDer;

use super::authority::Subject;
use super::authority::issue::{self, Signer};
use super::pair::Pair;
use super::x509::{Validity, to_pem};

/// Whoever serves.
pub(crate) const SUBJECT: Subject = Subject {
    authority: "an authority",
    common_name: "a server",
    unit: None,
    is_client: false,
};

/// So many days after some moment.
pub(crate) fn at(days: i64) -> Timestamp {
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    start + SignedDuration::from_hours(24 * days)
}

/// A certificate, its key and its authority.
pub(crate) struct Issued {
    pub(crate) chain: String,
    pub(crate) key: String,
    pub(crate) authority: CertificateDer<'static>,
}

impl Issued {
    /// Issued at `now` for `name` by an authority that was made at the same moment.
    pub(crate) fn by_new_authority(name: &str, now: Timestamp) -> Self {
        Self::by(&issue::authority(&SUBJECT, now).unwrap(), name, now)
    }

    /// The same by an authority that is valid until `until`, and outlived by what it issues.
    pub(crate) fn by_authority_until(name: &str, now: Timestamp, until: Timestamp) -> Self {
        let validity = Validity {
            from: now - SignedDuration::from_hours(1),
            until,
        };
        let mut signer = issue::authority_for(&SUBJECT, validity).unwrap();
        signer.validity.until = at(36500);
        Self::by(&signer, name, now)
    }

    fn by(signer: &Signer, name: &str, now: Timestamp) -> Self {
        let (chain, key) = issue::serving(signer, &SUBJECT, &[name.to_owned()].into(), now).unwrap();
        Self {
            chain: to_pem([&chain]),
            key,
            authority: signer.certificate.clone(),
        }
    }

    pub(crate) fn pair(&self) -> Pair {
        Pair::from_pem(self.chain.as_bytes(), self.key.as_bytes()).unwrap()
    }
}
