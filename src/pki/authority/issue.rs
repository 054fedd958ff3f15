//! Makes keys and certificates.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;
use x509_parser::time::ASN1Time;

use super::Subject;
use crate::pki::pair::PairError;
use crate::pki::x509::Validity;

/// How long an authority is valid.
const AUTHORITY_LIFE: SignedDuration = SignedDuration::from_hours(24 * 365);
/// How long a certificate is valid.
const SERVING_LIFE: SignedDuration = SignedDuration::from_hours(24 * 90);
/// What is issued is valid from this long before: the clocks of two servers need not agree.
pub(super) const BACKDATE: SignedDuration = SignedDuration::from_hours(1);

/// Something could not be issued.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The library refused.
    #[error("cannot make a certificate: {0}")]
    Library(#[from] rcgen::Error),
    /// A time that no certificate can hold.
    #[error("no certificate can be valid until {0}")]
    Time(Timestamp),
    /// Nobody is there to issue it.
    #[error("there is no usable authority")]
    NoAuthority,
    /// What was made cannot be used.
    #[error("cannot use what was made: {0}")]
    Pair(#[from] PairError),
}

/// An authority with its key.
pub(crate) struct Signer {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) validity: Validity,
    pub(crate) key: KeyPair,
}

/// A new authority.
pub(crate) fn authority(subject: &Subject, now: Timestamp) -> Result<Signer, IssueError> {
    authority_for(subject, life(now, AUTHORITY_LIFE)?)
}

pub(crate) fn authority_for(subject: &Subject, validity: Validity) -> Result<Signer, IssueError> {
    // Whoever looks at a bundle should see which is which.
    let name = format!("{} of {:.0}", subject.authority, validity.from + BACKDATE);
    let mut params = params(&name, None, validity)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
    let certificate = params.self_signed(&key)?.into();
    Ok(Signer {
        certificate,
        validity,
        key,
    })
}

/// A new certificate for these names, and its key as PEM. It ends with the authority at the latest.
pub(crate) fn serving(
    signer: &Signer,
    subject: &Subject,
    names: &BTreeSet<String>,
    now: Timestamp,
) -> Result<(CertificateDer<'static>, String), IssueError> {
    let mut params = issued(signer, subject, life(now, SERVING_LIFE)?)?;
    params.subject_alt_names =
        CertificateParams::new(names.iter().cloned().collect::<Vec<_>>())?.subject_alt_names;
    params
        .extended_key_usages
        .push(ExtendedKeyUsagePurpose::ServerAuth);
    if subject.is_client {
        params
            .extended_key_usages
            .push(ExtendedKeyUsagePurpose::ClientAuth);
    }
    sign(signer, params)
}

/// The same for a client alone, which is no host.
pub(crate) fn client(
    signer: &Signer,
    subject: &Subject,
    how_long: SignedDuration,
    now: Timestamp,
) -> Result<(CertificateDer<'static>, String), IssueError> {
    let mut params = issued(signer, subject, life(now, how_long)?)?;
    params
        .extended_key_usages
        .push(ExtendedKeyUsagePurpose::ClientAuth);
    sign(signer, params)
}

fn issued(signer: &Signer, subject: &Subject, validity: Validity) -> Result<CertificateParams, IssueError> {
    let until = validity.until.min(signer.validity.until);
    let validity = Validity { until, ..validity };
    let mut params = params(subject.common_name, subject.unit, validity)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn sign(signer: &Signer, params: CertificateParams) -> Result<(CertificateDer<'static>, String), IssueError> {
    let issuer = Issuer::from_ca_cert_der(&signer.certificate, &signer.key)?;
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
    let certificate = params.signed_by(&key, &issuer)?.into();
    Ok((certificate, key.serialize_pem()))
}

fn params(name: &str, unit: Option<&str>, validity: Validity) -> Result<CertificateParams, IssueError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    if let Some(unit) = unit {
        let distinguished_name = &mut params.distinguished_name;
        distinguished_name.push(DnType::OrganizationalUnitName, unit);
    }
    let time = |time: Timestamp| {
        ASN1Time::from_timestamp(time.as_second())
            .map(|time| time.to_datetime())
            .map_err(|_| IssueError::Time(time))
    };
    params.not_before = time(validity.from)?;
    params.not_after = time(validity.until)?;
    Ok(params)
}

fn life(now: Timestamp, life: SignedDuration) -> Result<Validity, IssueError> {
    let never = |_| IssueError::Time(now);
    Ok(Validity {
        from: now.checked_sub(BACKDATE).map_err(never)?,
        until: now.checked_add(life).map_err(never)?,
    })
}
