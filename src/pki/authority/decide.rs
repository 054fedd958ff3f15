//! What is to be renewed, and what stays. Pure: no keys are made here, and time is an argument.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;

use super::OVERLAP;
use super::held::{Authority, Held};
use super::issue::{BACKDATE, Signer};
use crate::pki::trust::vouches;
use crate::pki::x509::Validity;

/// There are two during a rotation. More come only of repairs in a row.
const MOST_KEPT: usize = 3;

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Why another authority has to be made.
    pub(super) new_authority: Option<&'static str>,
    /// Why another certificate has to be issued, by the new authority if there is to be one.
    pub(super) new_certificate: Option<&'static str>,
    /// The authorities that stay in the bundle behind the issuing one.
    pub(super) kept: Vec<CertificateDer<'static>>,
}

/// What is to be done about `held` at `now`, so that what is served is for `names`.
pub(super) fn decide(held: &Held, names: &BTreeSet<String>, now: Timestamp) -> Plan {
    let issuer = issuer(held, names, now);
    let new_authority = why_new_authority(held, now);
    // Whoever issues from here on, if it is there already.
    let signer = held.signer.as_ref().filter(|_| new_authority.is_none());
    let new_certificate = why_new_certificate(held, signer, issuer, names, now);
    let is_rotated = new_certificate.is_none()
        && issuer.map(certificate) == signer.map(|signer| &signer.certificate)
        && held
            .pair
            .as_ref()
            .is_ok_and(|pair| is_settled(pair.validity(), now));
    let kept = if is_rotated {
        Vec::new()
    } else {
        kept(held, signer, issuer, now)
    };
    Plan {
        new_authority,
        new_certificate,
        kept,
    }
}

fn why_new_authority(held: &Held, now: Timestamp) -> Option<&'static str> {
    match &held.signer {
        None => Some("there is no usable authority"),
        Some(signer) if !signer.validity.contains(now) => Some("the authority is not valid at this time"),
        Some(signer) if signer.validity.is_due(now) => Some("two thirds of the authority's life are over"),
        Some(_) => None,
    }
}

fn why_new_certificate(
    held: &Held,
    signer: Option<&Signer>,
    issuer: Option<&Authority>,
    names: &BTreeSet<String>,
    now: Timestamp,
) -> Option<&'static str> {
    let Ok(pair) = &held.pair else {
        return Some("there is no usable certificate");
    };
    if pair.dns_names() != names {
        return Some("the certificate is for other names");
    }
    let Some(issuer) = issuer else {
        return Some("no authority vouches for the certificate at this time");
    };
    match signer {
        // It has to be announced first.
        None => None,
        Some(signer) if signer.certificate == issuer.certificate => pair
            .validity()
            .is_due(now)
            .then_some("two thirds of the certificate's life are over"),
        Some(signer) => {
            is_settled(signer.validity, now).then_some("the new authority has been announced for long enough")
        }
    }
}

/// The authority that vouches for the certificate.
fn issuer<'a>(held: &'a Held, names: &BTreeSet<String>, now: Timestamp) -> Option<&'a Authority> {
    // A pattern is the name of no host, so nobody could ask for it.
    let is_host = |name: &&String| !name.starts_with('*');
    let (pair, name) = (held.pair.as_ref().ok()?, names.iter().find(is_host)?);
    held.authorities
        .iter()
        .find(|authority| vouches(std::slice::from_ref(&authority.certificate), pair, name, now))
}

/// Whether what was issued with this validity has been there long enough for everybody to have read it.
fn is_settled(validity: Validity, now: Timestamp) -> bool {
    validity.age(now) >= BACKDATE.saturating_add(OVERLAP)
}

/// All but the signer that are valid. Of too many, the one that is needed now and then the newest.
fn kept(
    held: &Held,
    signer: Option<&Signer>,
    issuer: Option<&Authority>,
    now: Timestamp,
) -> Vec<CertificateDer<'static>> {
    let is_signer =
        |authority: &Authority| signer.is_some_and(|signer| signer.certificate == authority.certificate);
    let mut kept: Vec<&Authority> = held
        .authorities
        .iter()
        .filter(|authority| authority.validity.contains(now) && !is_signer(authority))
        .collect();
    kept.sort_by_key(|authority| (issuer != Some(*authority), Reverse(authority.validity.from)));
    kept.dedup();
    kept.truncate(MOST_KEPT);
    kept.into_iter().map(certificate).cloned().collect()
}

fn certificate(authority: &Authority) -> &CertificateDer<'static> {
    &authority.certificate
}
