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
        for (name, text) in FILES.into_iter().zip([&authority, &issued.chain, &issued.key]) {
            fs::write(folder.join(name), text).unwrap();
        }
    }

    fn name(&self, issued: &Issued) {
        self.mount(&self.options.server_tls, issued);
    }

    fn copy(&self) -> Copied {
        copy(&self.options, at(1)).unwrap()
    }

    fn copied(&self, name: &str) -> String {
        fs::read_to_string(self.options.certificates().join(name)).unwrap()
    }
}

fn issued() -> Issued {
    Issued::by_new_authority("orders.example.com", at(0))
}

fn taken(changed: bool) -> Copied {
    Copied {
        changed,
        refused: None,
    }
}

#[test]
fn a_renewal_is_copied_once_and_half_a_pair_never() {
    let place = Place::new();
    assert_eq!([place.copy(), place.copy()], [taken(true), taken(false)]);
    fs::write(place.options.tls.join("tls.crt"), "two").unwrap();
    fs::remove_file(place.options.tls.join("tls.key")).unwrap();
    let error = copy(&place.options, at(1)).unwrap_err().to_string();
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
fn postgresql_shows_the_authors_and_replicas_trust_both_authorities() {
    let (place, authors) = (Place::new(), issued());
    place.name(&authors);
    assert_eq!([place.copy(), place.copy()], [taken(true), taken(false)]);
    assert_eq!(place.copied("server.crt"), authors.chain);
    assert_eq!(place.copied("server.key"), authors.key);
    // Clients are known by the instances' authority alone, as instances and the operator are.
    assert_eq!(place.copied("ca.crt"), to_pem([&place.own.authority]));
    assert_eq!(place.copied("tls.crt"), place.own.chain);
    let both = to_pem([&place.own.authority, &authors.authority]);
    assert_eq!(place.copied("trusted.crt"), both);
}

#[rstest]
#[case::no_secret(&[], |_: &mut Issued| {}, "it is not there, or has none of ca.crt, tls.crt, tls.key")]
#[case::no_authority(&["tls.crt", "tls.key"], |_: &mut Issued| {}, "it has no ca.crt")]
#[case::no_pair(&["ca.crt"], |_: &mut Issued| {}, "it has no tls.crt and no tls.key")]
#[case::of_another_key(&FILES, |authors: &mut Issued| authors.key = issued().key, "tls.crt and tls.key: certificate and key cannot be used together: keys may not be consistent: KeyMismatch")]
#[case::of_another_authority(&FILES, |authors: &mut Issued| authors.authority = issued().authority, "no authority in ca.crt vouches for tls.crt")]
#[case::too_late(&FILES, |authors: &mut Issued| *authors = Issued::by_new_authority("a", at(-100)), "tls.crt was valid until 2025-12-22T00:00:00Z")]
#[case::too_early(&FILES, |authors: &mut Issued| *authors = Issued::by_new_authority("a", at(2)), "tls.crt is valid from 2026-01-02T23:00:00Z on")]
fn what_is_of_no_use_is_not_shown_and_the_reason_is_told(
    #[case] present: &[&str],
    #[case] change: fn(&mut Issued),
    #[case] why: &str,
) {
    let (place, mut authors) = (Place::new(), issued());
    change(&mut authors);
    place.name(&authors);
    for name in FILES.into_iter().filter(|name| !present.contains(name)) {
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
    let given_up = copy(&place.options, at(100)).unwrap();
    assert!(
        given_up
            .refused
            .unwrap()
            .ends_with("; the operator's own is shown")
    );
    assert_eq!(place.copied("server.crt"), place.copied("tls.crt"));

    place.name(&issued());
    assert_eq!(place.copy(), taken(true));
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
fn only_certificates_are_copied_as_certificates() {
    let (place, authors) = (Place::new(), issued());
    place.name(&authors);
    let bundle = format!("issued to us\n{}", to_pem([&authors.authority]));
    fs::write(place.options.server_tls.join("ca.crt"), bundle).unwrap();
    assert_eq!(place.copy(), taken(true));
    assert_eq!(place.copied("server-ca.crt"), to_pem([&authors.authority]));
}
