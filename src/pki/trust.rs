//! Whether the API server would accept a certificate, given the bundle that it was told to trust.
//!
//! The API server is written in Go, whose rules differ from those of rustls in two points:
//!
//! * A certificate that is itself in the bundle is accepted, whether or not it is an authority's, once its name, its time and its usage are
//!   right: `Certificate.Verify` of crypto/x509 asks `opts.Roots.contains(c)` before it looks for a chain, and answers with a chain of one. So a
//!   bundle can vouch for a certificate of which one does not have the authority, as under OLM.
//! * An authority that has expired vouches for nothing. rustls does not look at the times of what it is told to trust.

use std::sync::Arc;

use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

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

fn verify(
    bundle: &[CertificateDer<'_>],
    certificate: &CertificateDer<'_>,
    others: &[CertificateDer<'_>],
    name: &str,
    now: Timestamp,
) -> Option<()> {
    let mut roots = RootCertStore::empty();
    let valid = bundle.iter().filter(|root| is_valid_authority(root, now));
    roots.add_parsable_certificates(valid.map(|root| root.clone().into_owned()));
    // An empty store is an error of the builder, and vouches for nothing.
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .ok()?;
    let name = ServerName::try_from(name).ok()?;
    let seconds = u64::try_from(now.as_second()).ok()?;
    let time = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
    verifier
        .verify_server_cert(certificate, others, &name, &[], time)
        .map(drop)
        .ok()
}

fn is_valid_authority(root: &CertificateDer<'_>, now: Timestamp) -> bool {
    Facts::of(root).is_some_and(|facts| facts.is_ca && facts.validity.contains(now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::testing::{Issued, at};
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

    #[test]
    fn an_authority_that_has_expired_vouches_for_nothing() {
        let issued = Issued::by_authority_until("a.ns.svc", at(0), at(10));
        let bundle = [issued.authority.clone()];
        assert!(vouches(&bundle, &issued.pair(), NAME, at(10)));
        assert!(!vouches(&bundle, &issued.pair(), NAME, at(11)));
    }
}
