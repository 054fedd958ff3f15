use std::fs;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rstest::rstest;

use super::*;
use crate::pki::testing::{Issued, at};

/// What an instance has mounted, and its run folder.
struct Place {
    options: Options,
    own: Issued,
    _folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            tls: folder.path().join("mounted"),
            server_tls: folder.path().join("named"),
            run: folder.path().join("run"),
            ..Options::default()
        };
        let place = Self {
            options,
            own: issued(),
            _folder: folder,
        };
        place.mount(&place.options.tls, &place.own);
        place
    }

    fn mount(&self, folder: &Path, issued: &Issued) {
        fs::create_dir_all(folder).unwrap();
        let authority = to_pem([&issued.authority]);
        for (name, text) in TLS_FILES
            .into_iter()
            .zip([&authority, &issued.chain, &issued.key])
        {
            fs::write(folder.join(name), text).unwrap();
        }
    }

    fn name(&self, issued: &Issued) {
        self.mount(&self.options.server_tls, issued);
    }

    fn copy(&self) -> Copied {
        copy(&self.options, &[], at(1)).unwrap()
    }

    fn copied(&self, name: &str) -> String {
        fs::read_to_string(self.options.certificates().join(name)).unwrap()
    }
}

fn issued() -> Issued {
    Issued::by_new_authority("orders.example.com", at(0))
}

fn taken(changed: bool, authorities: &str) -> Copied {
    Copied {
        changed,
        refused: None,
        authorities: authorities.to_owned(),
    }
}

#[test]
fn a_renewal_is_copied_once_and_half_a_pair_never() {
    let place = Place::new();
    assert_eq!([place.copy(), place.copy()], [taken(true, ""), taken(false, "")]);
    fs::write(place.options.tls.join("tls.crt"), "two").unwrap();
    fs::remove_file(place.options.tls.join("tls.key")).unwrap();
    let error = copy(&place.options, &[], at(1)).unwrap_err().to_string();
    assert!(error.contains("mounted/tls.key"), "{error}");
    assert_eq!(place.copied("tls.crt"), place.own.chain);
}

#[test]
fn postgresql_shows_the_instances_own_where_the_author_names_none() {
    let place = Place::new();
    place.copy();
    assert_eq!(place.copied("server.crt"), place.own.chain);
    assert_eq!(place.copied("server.key"), place.own.key);
    assert_eq!(place.copied("trusted.crt"), place.copied("ca.crt"));
}

#[test]
fn postgresql_shows_the_authors_and_says_who_vouches_for_it() {
    let (place, authors) = (Place::new(), issued());
    place.name(&authors);
    let authority = to_pem([&authors.authority]);
    assert_eq!(
        [place.copy(), place.copy()],
        [taken(true, &authority), taken(false, &authority)]
    );
    assert_eq!(place.copied("server.crt"), authors.chain);
    assert_eq!(place.copied("server.key"), authors.key);
    // Clients are known by the instances' authority alone, as instances and the operator are.
    assert_eq!(place.copied("ca.crt"), to_pem([&place.own.authority]));
    assert_eq!(place.copied("tls.crt"), place.own.chain);
    let both = to_pem([&place.own.authority]) + &authority;
    assert_eq!(place.copied("trusted.crt"), both);
}

#[test]
fn replicas_trust_the_authorities_of_what_the_others_show_each_once() {
    let (place, theirs) = (Place::new(), to_pem([&issued().authority]));
    place.copy();
    let copy = |others: [&str; 3]| copy(&place.options, &others, at(1)).unwrap();
    assert_eq!(copy([&theirs, "", &theirs]), taken(true, ""));
    assert_eq!(
        place.copied("trusted.crt"),
        to_pem([&place.own.authority]) + &theirs
    );
    assert_eq!(place.copied("server.crt"), place.own.chain);
    assert_eq!(copy(["no certificate", "", ""]), taken(true, ""));
    assert_eq!(place.copied("trusted.crt"), to_pem([&place.own.authority]));
}

/// Signed as an authority of these keys does it.
fn signed_by(algorithm: &'static rcgen::SignatureAlgorithm) -> Issued {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "an authority");
    let signer = KeyPair::generate_for(algorithm).unwrap();
    let authority = params.self_signed(&signer).unwrap().der().clone();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(["orders.example.com".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &Issuer::new(params, signer)).unwrap();
    Issued {
        chain: leaf.pem(),
        key: key.serialize_pem(),
        authority,
    }
}

/// libpq binds a login with a password to the certificate's digest, and PostgreSQL knows none of these.
#[rstest]
#[case::ecdsa_256(&rcgen::PKCS_ECDSA_P256_SHA256, None)]
#[case::ecdsa_384(&rcgen::PKCS_ECDSA_P384_SHA384, None)]
#[case::ed25519(&rcgen::PKCS_ED25519, Some("tls.crt is signed by algorithm 1.3.101.112; accepted are"))]
fn only_what_clients_can_log_in_with_is_shown(
    #[case] algorithm: &'static rcgen::SignatureAlgorithm,
    #[case] why: Option<&str>,
) {
    let place = Place::new();
    place.name(&signed_by(algorithm));
    match (place.copy().refused, why) {
        (None, None) => {}
        (Some(said), Some(why)) => assert!(said.starts_with(why), "{said}"),
        (said, why) => panic!("{said:?}, not {why:?}"),
    }
}

#[rstest]
#[case::no_secret(&[], |_: &mut Issued| {}, "it is not there, or has none of ca.crt, tls.crt, tls.key")]
#[case::no_authority(&["tls.crt", "tls.key"], |_: &mut Issued| {}, "it has no ca.crt")]
#[case::no_pair(&["ca.crt"], |_: &mut Issued| {}, "it has no tls.crt and no tls.key")]
#[case::of_another_key(&TLS_FILES, |authors: &mut Issued| authors.key = issued().key, "tls.crt and tls.key: certificate and key cannot be used together: keys may not be consistent: KeyMismatch")]
#[case::of_another_authority(&TLS_FILES, |authors: &mut Issued| authors.authority = issued().authority, "ca.crt holds no authority that has signed itself and vouches for tls.crt as a server's")]
#[case::too_late(&TLS_FILES, |authors: &mut Issued| *authors = Issued::by_new_authority("a", at(-100)), "tls.crt was valid until 2025-12-22T00:00:00Z")]
#[case::too_early(&TLS_FILES, |authors: &mut Issued| *authors = Issued::by_new_authority("a", at(2)), "tls.crt is valid from 2026-01-02T23:00:00Z on")]
fn what_is_of_no_use_is_not_shown_and_the_reason_is_told(
    #[case] present: &[&str],
    #[case] change: fn(&mut Issued),
    #[case] why: &str,
) {
    let (place, mut authors) = (Place::new(), issued());
    change(&mut authors);
    place.name(&authors);
    for name in TLS_FILES.into_iter().filter(|name| !present.contains(name)) {
        fs::remove_file(place.options.server_tls.join(name)).unwrap();
    }
    let refused = format!("{why}; the operator's own is shown");
    assert_eq!(place.copy().refused, Some(refused));
    assert_eq!(place.copied("server.crt"), place.own.chain);
    assert_eq!(place.copied("trusted.crt"), to_pem([&place.own.authority]));
}

#[test]
fn a_rotation_that_is_of_no_use_changes_nothing_until_what_is_shown_has_expired() {
    let (place, authors) = (Place::new(), issued());
    place.name(&authors);
    place.copy();
    fs::write(place.options.server_tls.join("tls.crt"), issued().chain).unwrap();
    let kept = place.copy();
    assert!(!kept.changed);
    assert!(kept.refused.unwrap().ends_with("; the one before is shown"));
    assert_eq!(place.copied("server.crt"), authors.chain);

    place.mount(&place.options.tls, &Issued::by_new_authority("orders", at(80)));
    let given_up = copy(&place.options, &[], at(100)).unwrap();
    assert!(
        given_up
            .refused
            .unwrap()
            .ends_with("; the operator's own is shown")
    );
    assert_eq!(place.copied("server.crt"), place.copied("tls.crt"));

    let next = issued();
    place.name(&next);
    assert_eq!(place.copy(), taken(true, &to_pem([&next.authority])));
}

#[test]
fn the_instances_own_is_renewed_while_the_authors_is_of_no_use() {
    let place = Place::new();
    fs::create_dir(&place.options.server_tls).unwrap();
    place.copy();
    let renewed = issued();
    place.mount(&place.options.tls, &renewed);
    assert!(place.copy().changed);
    assert_eq!(place.copied("server.crt"), renewed.chain);
    assert_eq!(place.copied("trusted.crt"), to_pem([&renewed.authority]));
}

#[test]
fn of_the_authors_authorities_only_the_one_that_vouches_is_trusted() {
    let (place, authors) = (Place::new(), issued());
    place.name(&authors);
    let authority = to_pem([&authors.authority]);
    let bundle = format!("issued to us\n{}{authority}", to_pem([&issued().authority]));
    fs::write(place.options.server_tls.join("ca.crt"), bundle).unwrap();
    assert_eq!(place.copy(), taken(true, &authority));
    assert_eq!(place.copied("server-ca.crt"), authority);
}
