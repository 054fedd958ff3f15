//! What the Secret holds, as far as it can be used.

use rcgen::{KeyPair, PublicKeyData};
use rustls::pki_types::CertificateDer;

use super::issue::Signer;
use super::{AUTHORITY_KEY, BUNDLE, CERTIFICATE, Data, KEY};
use crate::pki::pair::{Pair, PairError};
use crate::pki::x509::{Facts, Validity, certificates_in};

/// What the Secret holds. What cannot be used is not in it.
pub(super) struct Held {
    /// All authorities of the bundle, in its order.
    pub(super) authorities: Vec<Authority>,
    /// The one of them that the key fits.
    pub(super) signer: Option<Signer>,
    /// What is served.
    pub(super) pair: Result<Pair, PairError>,
}

/// An authority of which we need not have the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Authority {
    pub(super) certificate: CertificateDer<'static>,
    pub(super) validity: Validity,
    public_key: Vec<u8>,
}

impl Held {
    pub(super) fn read(data: &Data) -> Self {
        let text = |key: &str| data.get(key).map_or(&[][..], |bytes| &bytes.0);
        let authorities: Vec<_> = certificates_in(text(BUNDLE))
            .into_iter()
            .filter_map(Authority::of)
            .collect();
        Self {
            signer: signer(&authorities, text(AUTHORITY_KEY)),
            authorities,
            pair: Pair::from_pem(text(CERTIFICATE), text(KEY)),
        }
    }
}

impl Authority {
    fn of(certificate: CertificateDer<'static>) -> Option<Self> {
        let facts = Facts::of(&certificate).filter(|facts| facts.is_ca)?;
        Some(Self {
            certificate,
            validity: facts.validity,
            public_key: facts.public_key,
        })
    }
}

fn signer(authorities: &[Authority], key: &[u8]) -> Option<Signer> {
    let key = KeyPair::from_pem(std::str::from_utf8(key).ok()?).ok()?;
    let public_key = key.subject_public_key_info();
    let authority = authorities
        .iter()
        .find(|authority| authority.public_key == public_key)?;
    Some(Signer {
        certificate: authority.certificate.clone(),
        validity: authority.validity,
        key,
    })
}
