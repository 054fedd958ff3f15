//! Whether a client would accept a certificate, given the bundle that it was told to trust.
//!
//! The API server is such a client. It is written in Go, whose rules differ from those of rustls in two points:
//!
//! * A certificate that is itself in the bundle is accepted, whether or not it is an authority's, once its name, its time and its usage are
//!   right: `Certificate.Verify` of crypto/x509 asks `opts.Roots.contains(c)` before it looks for a chain, and answers with a chain of one. So a
//!   bundle can vouch for a certificate of which one does not have the authority, as under OLM.
//! * An authority that has expired vouches for nothing. rustls does not look at the times of what it is told to trust.
//!
//! PostgreSQL's library is another, and goes by OpenSSL's rules:
//!
//! * A chain ends at an authority that has signed itself: an intermediate one in the bundle is a link, and no end.
//! * A certificate that has signed itself is accepted if it is in the bundle, whether or not it is an authority's.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;

use super::pair::Pair;
use super::x509::Facts;

/// Whether a client that trusts `bundle` would at `now` accept `pair` from the host `name`.
pub fn vouches(bundle: &[CertificateDer<'_>], pair: &Pair, name: &str, now: Timestamp) -> bool {
    let Some((certificate, others)) = pair.chain().split_first() else {
        return false;
    };
    if bundle.contains(certificate) {
        return pair.validity().contains(now) && pair.dns_names().contains(name);
    }
    verify(bundle, certificate, others, name, now).is_some()
}

/// Annotations of an object by which cert-manager and OpenShift put an authority into it.
pub fn is_injection(annotation: &str) -> bool {
    annotation.starts_with("cert-manager.io/inject-")
        || annotation == "service.beta.openshift.io/inject-cabundle"
}

fn verify(
    bundle: &[CertificateDer<'_>],
    certificate: &CertificateDer<'_>,
    others: &[CertificateDer<'_>],
    name: &str,
    now: Timestamp,
) -> Option<()> {
    // An empty store is an error of the builder, and vouches for nothing.
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots(bundle, now)), provider)
        .build()
        .ok()?;
    let name = ServerName::try_from(name).ok()?;
    verifier
        .verify_server_cert(certificate, others, &name, &[], unix_time(now)?)
        .map(drop)
        .ok()
}

/// Which certificates of `bundle` libpq has to trust so that it accepts `pair` at `now` with `sslmode=verify-ca`, which asks for no name: its `sslrootcert`.
/// None if all of them do not suffice.
pub fn needed_by_libpq<'a>(
    bundle: &'a [CertificateDer<'static>],
    pair: &Pair,
    now: Timestamp,
) -> Vec<&'a CertificateDer<'static>> {
    let Some((certificate, others)) = pair.chain().split_first() else {
        return Vec::new();
    };
    if is_self_issued(certificate) {
        let mut itself: Vec<_> = bundle.iter().filter(|it| *it == certificate).take(1).collect();
        itself.retain(|_| pair.validity().contains(now));
        return itself;
    }
    let (ends, links): (Vec<_>, Vec<_>) = bundle.iter().partition(|it| is_self_issued(it));
    let ends_of = |links: &[&CertificateDer<'static>]| -> Vec<_> {
        let links: Vec<_> = others.iter().chain(links.iter().copied()).cloned().collect();
        let ends = ends.iter().copied();
        ends.filter(|end| leads_to(end, certificate, &links, now).is_some())
            .collect()
    };
    let mut needed = ends_of(&[]);
    if needed.is_empty() {
        needed = ends_of(&links);
        if !needed.is_empty() {
            needed.extend(links);
        }
    }
    needed
}

fn is_self_issued(certificate: &CertificateDer<'_>) -> bool {
    Facts::of(certificate).is_some_and(|facts| facts.is_self_issued)
}

fn leads_to(
    end: &CertificateDer<'static>,
    certificate: &CertificateDer<'_>,
    links: &[CertificateDer<'_>],
    now: Timestamp,
) -> Option<()> {
    let certificate = ParsedCertificate::try_from(certificate).ok()?;
    let algorithms = aws_lc_rs::default_provider()
        .signature_verification_algorithms
        .all;
    let roots = roots([end], now);
    verify_server_cert_signed_by_trust_anchor(&certificate, &roots, links, unix_time(now)?, algorithms).ok()
}

fn roots<'a>(bundle: impl IntoIterator<Item = &'a CertificateDer<'a>>, now: Timestamp) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let valid = bundle.into_iter().filter(|root| is_valid_authority(root, now));
    roots.add_parsable_certificates(valid.map(|root| root.clone().into_owned()));
    roots
}

fn unix_time(at: Timestamp) -> Option<UnixTime> {
    let seconds = u64::try_from(at.as_second()).ok()?;
    Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
}

fn is_valid_authority(root: &CertificateDer<'_>, now: Timestamp) -> bool {
    Facts::of(root).is_some_and(|facts| facts.is_ca && facts.validity.contains(now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::testing::{Issued, at};
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
    use rstest::rstest;

    const NAME: &str = "a.ns.svc";

    #[rstest]
    #[case::its_authority(&["authority"], NAME, 0, true)]
    #[case::among_others(&["other", "authority"], NAME, 0, true)]
    #[case::itself(&["itself"], NAME, 0, true)]
    #[case::itself_under_another_name(&["itself"], "b.ns.svc", 0, false)]
    #[case::itself_too_late(&["itself"], NAME, 91, false)]
    #[case::another_authority(&["other"], NAME, 0, false)]
    #[case::another_name(&["authority"], "b.ns.svc", 0, false)]
    #[case::too_late(&["authority"], NAME, 91, false)]
    #[case::too_early(&["authority"], NAME, -1, false)]
    #[case::nothing(&[], NAME, 0, false)]
    fn a_bundle_vouches_for_what_its_authorities_issued_and_for_what_is_in_it(
        #[case] bundle: &[&str],
        #[case] name: &str,
        #[case] days: i64,
        #[case] expected: bool,
    ) {
        let (issued, other) = (
            Issued::by_new_authority(NAME, at(0)),
            Issued::by_new_authority(NAME, at(0)),
        );
        let pair = issued.pair();
        let bundle: Vec<_> = bundle
            .iter()
            .map(|which| match *which {
                "authority" => issued.authority.clone(),
                "itself" => pair.chain()[0].clone(),
                _ => other.authority.clone(),
            })
            .collect();
        assert_eq!(vouches(&bundle, &pair, name, at(days)), expected);
    }

    #[rstest]
    #[case::its_authority(&["authority"], 0, &["authority"])]
    #[case::among_others(&["other", "authority"], 0, &["authority"])]
    // OpenSSL looks for who issued it.
    #[case::itself(&["itself"], 0, &[])]
    #[case::another_authority(&["other"], 0, &[])]
    #[case::too_late(&["authority"], 91, &[])]
    #[case::too_early(&["authority"], -1, &[])]
    #[case::nothing(&[], 0, &[])]
    fn of_a_bundle_libpq_needs_the_authority_that_vouches(
        #[case] bundle: &[&str],
        #[case] days: i64,
        #[case] expected: &[&str],
    ) {
        let [issued, other] = [NAME, NAME].map(|name| Issued::by_new_authority(name, at(0)));
        let pair = issued.pair();
        let certificate = |which: &&str| match *which {
            "authority" => issued.authority.clone(),
            "itself" => pair.chain()[0].clone(),
            _ => other.authority.clone(),
        };
        let bundle: Vec<_> = bundle.iter().map(certificate).collect();
        let expected: Vec<_> = expected.iter().map(certificate).collect();
        assert_eq!(
            needed_by_libpq(&bundle, &pair, at(days)),
            expected.iter().collect::<Vec<_>>()
        );
    }

    fn named(name: &str, is_ca: IsCa) -> CertificateParams {
        let mut params = CertificateParams::new([NAME.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = is_ca;
        params
    }

    #[rstest]
    #[case::an_authority(IsCa::Ca(BasicConstraints::Unconstrained))]
    #[case::no_authority(IsCa::NoCa)]
    fn a_certificate_that_has_signed_itself_is_its_own_authority_for_libpq(#[case] is_ca: IsCa) {
        let key = KeyPair::generate().unwrap();
        let certificate = named("itself", is_ca).self_signed(&key).unwrap();
        let pair = Pair::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap();
        let itself = [certificate.der().clone()];
        assert_eq!(needed_by_libpq(&itself, &pair, at(0)), [&itself[0]]);
        assert!(needed_by_libpq(&[], &pair, at(0)).is_empty());
    }

    #[test]
    fn an_intermediate_authority_is_a_link_for_libpq_and_no_end() {
        let authority = |name: &str| named(name, IsCa::Ca(BasicConstraints::Unconstrained));
        let [first, second, last] = [(); 3].map(|()| KeyPair::generate().unwrap());
        let root = Issuer::new(authority("root"), first);
        let root_certificate = authority("root").self_signed(root.key()).unwrap();
        let middle_certificate = authority("middle").signed_by(&second, &root).unwrap();
        let middle = Issuer::new(authority("middle"), second);
        let leaf = named("leaf", IsCa::NoCa).signed_by(&last, &middle).unwrap();
        let key = last.serialize_pem();
        let short = Pair::from_pem(leaf.pem().as_bytes(), key.as_bytes()).unwrap();
        let chain = leaf.pem() + &middle_certificate.pem();
        let whole = Pair::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
        let both = [root_certificate.der().clone(), middle_certificate.der().clone()];
        let needed = |bundle, pair| needed_by_libpq(bundle, pair, at(0)).len();
        assert_eq!(needed(&both[..1], &whole), 1);
        assert_eq!(needed(&both[..1], &short), 0);
        assert_eq!(needed(&both, &short), 2);
        assert_eq!(needed(&both, &whole), 1);
        assert_eq!(needed(&both[1..], &whole), 0);
    }

    #[test]
    fn an_authority_that_has_expired_vouches_for_nothing() {
        let issued = Issued::by_authority_until("a.ns.svc", at(0), at(10));
        let bundle = [issued.authority.clone()];
        assert!(vouches(&bundle, &issued.pair(), NAME, at(10)));
        assert!(!vouches(&bundle, &issued.pair(), NAME, at(11)));
    }
}
