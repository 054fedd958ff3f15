use super::*;
use crate::pki::testing::{Issued, SUBJECT, at};
use crate::pki::trust::vouches;
use rstest::rstest;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

const HOST: &str = "a.ns.svc";

fn step(data: &Data, names: &BTreeSet<String>, now: Timestamp) -> Result<Step, IssueError> {
    super::step(data, &SUBJECT, names, now)
}

fn names() -> BTreeSet<String> {
    [HOST.to_owned(), format!("{HOST}.cluster.local")].into()
}

fn hours(hours: i64) -> SignedDuration {
    SignedDuration::from_hours(hours)
}

/// The Secret as it is after one step at `now`, what is served then, and why it was changed.
fn stepped(data: &Data, now: Timestamp) -> (Data, Served, Vec<&'static str>) {
    let step = step(data, &names(), now).unwrap();
    let (data, why) = step
        .write
        .map_or_else(|| (data.clone(), Vec::new()), |write| (write.data, write.why));
    (data, step.served, why)
}

fn fresh() -> Data {
    stepped(&Data::new(), at(0)).0
}

fn bundle(served: &Served) -> &[rustls::pki_types::CertificateDer<'static>] {
    match &served.trust {
        Trust::Authorities(authorities) => authorities,
        Trust::Theirs => panic!("an authority of our own says which"),
    }
}

fn is_vouched_for(served: &Served, now: Timestamp) -> bool {
    names()
        .iter()
        .all(|name| vouches(bundle(served), &served.pair, name, now))
}

#[test]
fn an_empty_secret_is_filled_and_then_left_alone() {
    let (data, served, why) = stepped(&Data::new(), at(0));
    assert_eq!(
        why,
        ["there is no usable authority", "there is no usable certificate"]
    );
    assert_eq!(
        data.keys().collect::<Vec<_>>(),
        [BUNDLE, AUTHORITY_KEY, CERTIFICATE, KEY]
    );
    assert!(is_vouched_for(&served, at(0)));
    assert_eq!(bundle(&served).len(), 1);
    for later in [at(0), at(1), at(59)] {
        let again = step(&data, &names(), later).unwrap();
        assert!(again.write.is_none() && again.served == served);
    }
}

/// Another replica's clock shows another time, by less than what is issued is backdated.
#[rstest]
#[case(-50)]
#[case(-5)]
#[case(5)]
fn a_clock_that_is_wrong_by_minutes_finds_nothing_to_do(#[case] minutes: i64) {
    let skewed = at(0) + SignedDuration::from_mins(minutes);
    let step = step(&fresh(), &names(), skewed).unwrap();
    assert!(step.write.is_none());
    assert!(is_vouched_for(&step.served, skewed));
}

#[test]
fn a_certificate_is_renewed_at_two_thirds_of_its_life_by_the_same_authority() {
    let data = fresh();
    assert!(step(&data, &names(), at(59)).unwrap().write.is_none());
    let (renewed, served, why) = stepped(&data, at(60));
    assert_eq!(why, ["two thirds of the certificate's life are over"]);
    assert_eq!(renewed[BUNDLE], data[BUNDLE]);
    assert_ne!(renewed[KEY], data[KEY], "a renewed certificate has a new key");
    assert!(is_vouched_for(&served, at(60)));
}

#[test]
fn an_authority_is_announced_a_day_before_it_issues_and_the_old_one_kept_a_day_after() {
    let (mut data, mut now) = (fresh(), at(0));
    for days in [60, 120, 180, 240] {
        now = at(days);
        data = stepped(&data, now).0;
    }
    let old = data.clone();
    now += hours(24 * 4);
    let (announced, served, why) = stepped(&old, now);
    assert_eq!(why, ["two thirds of the authority's life are over"]);
    assert_eq!(announced[CERTIFICATE], old[CERTIFICATE]);
    assert_ne!(announced[AUTHORITY_KEY], old[AUTHORITY_KEY]);
    assert_eq!(bundle(&served).len(), 2);
    let (_, _, why) = stepped(&announced, now + hours(23));
    assert!(why.is_empty(), "{why:?}");

    now += hours(24);
    let (issued, served, why) = stepped(&announced, now);
    assert_eq!(why, ["the new authority has been announced for long enough"]);
    assert_eq!(issued[BUNDLE], announced[BUNDLE]);
    let by_the_new = |served: &Served| vouches(&bundle(served)[..1], &served.pair, HOST, now);
    assert!(by_the_new(&served));
    let (_, _, why) = stepped(&issued, now + hours(23));
    assert!(why.is_empty(), "{why:?}");

    now += hours(24);
    let step = step(&issued, &names(), now).unwrap();
    assert_eq!(bundle(&step.served).len(), 1);
    assert!(is_vouched_for(&step.served, now));
    let write = step.write.unwrap();
    assert_eq!(write.why, ["the bundle is not what is needed any more"]);
    assert_eq!(write.data[CERTIFICATE], issued[CERTIFICATE]);
}

/// What the key of a Secret may be spoilt with: text, or another Secret's.
fn spoilt(key: &str, with: &str) -> Data {
    let mut data = fresh();
    let value = match with {
        "another's" => stepped(&Data::new(), at(0)).0[key].clone(),
        text => ByteString(text.as_bytes().to_vec()),
    };
    if with == "nothing" {
        data.remove(key)
    } else {
        data.insert(key.to_owned(), value)
    };
    data
}

const NO_AUTHORITY: &str = "there is no usable authority";
const NO_CERTIFICATE: &str = "there is no usable certificate";
const NOT_VOUCHED_FOR: &str = "no authority vouches for the certificate at this time";

#[rstest]
#[case(BUNDLE, &[NO_AUTHORITY, NOT_VOUCHED_FOR])]
#[case(AUTHORITY_KEY, &[NO_AUTHORITY])]
#[case(CERTIFICATE, &[NO_CERTIFICATE])]
#[case(KEY, &[NO_CERTIFICATE])]
fn whatever_is_spoilt_is_mended_and_then_left_alone(
    #[case] key: &str,
    #[case] expected: &[&str],
    #[values("nothing", "", "garbage", "\u{0}\u{ff}", "another's")] with: &str,
) {
    let (data, served, why) = stepped(&spoilt(key, with), at(1));
    assert_eq!(why, expected);
    assert!(is_vouched_for(&served, at(1)));
    assert!(step(&data, &names(), at(1)).unwrap().write.is_none());
}

#[test]
fn an_authority_whose_key_is_lost_vouches_on_while_its_successor_is_announced() {
    let data = fresh();
    let (mended, served, _) = stepped(&spoilt(AUTHORITY_KEY, "garbage"), at(0));
    assert_eq!(bundle(&served).len(), 2);
    let (issued, _, why) = stepped(&mended, at(1));
    assert_eq!(why, ["the new authority has been announced for long enough"]);
    assert_ne!(issued[CERTIFICATE], data[CERTIFICATE]);
}

#[test]
fn a_key_that_is_lost_again_and_again_does_not_fill_the_secret() {
    let mut data = fresh();
    let certificate = data[CERTIFICATE].clone();
    for minute in 0..10 {
        put(&mut data, AUTHORITY_KEY, "garbage".to_owned());
        data = stepped(&data, at(0) + SignedDuration::from_mins(minute)).0;
    }
    let step = step(&data, &names(), at(0)).unwrap();
    assert_eq!(bundle(&step.served).len(), 4);
    assert_eq!(
        data[CERTIFICATE], certificate,
        "its authority is the last to be forgotten"
    );
}

#[test]
fn a_service_that_was_renamed_gets_another_certificate_of_the_same_authority() {
    let data = fresh();
    let renamed = step(&data, &["b.ns.svc".to_owned()].into(), at(1)).unwrap();
    let write = renamed.write.unwrap();
    assert_eq!(write.why, ["the certificate is for other names"]);
    assert_eq!(write.data[BUNDLE], data[BUNDLE]);
    assert_eq!(renamed.served.pair.dns_names(), &["b.ns.svc".to_owned()].into());
}

#[test]
fn an_operator_that_was_stopped_for_years_begins_anew_at_once() {
    let later = at(3 * 365);
    let (data, served, why) = stepped(&fresh(), later);
    assert_eq!(
        why,
        [
            "the authority is not valid at this time",
            "no authority vouches for the certificate at this time"
        ]
    );
    assert_eq!(bundle(&served).len(), 1, "what has expired is not kept");
    assert!(is_vouched_for(&served, later));
    assert!(step(&data, &names(), later).unwrap().write.is_none());
}

#[test]
fn what_is_no_authority_is_not_kept_in_the_bundle() {
    let mut data = fresh();
    let strange = Issued::by_new_authority(HOST, at(0)).chain;
    let text = String::from_utf8(data[BUNDLE].0.clone()).unwrap();
    put(&mut data, BUNDLE, format!("{text}{strange}"));
    let (mended, _, why) = stepped(&data, at(0));
    assert_eq!(mended[BUNDLE].0, text.as_bytes());
    assert_eq!(why, ["the bundle is not what is needed any more"]);
}

#[test]
fn what_is_served_does_not_show_its_key() {
    let step = step(&Data::new(), &names(), at(0)).unwrap();
    let printed = format!("{:?}", step.served);
    assert!(!printed.to_lowercase().contains("private"), "{printed}");
}

/// A pattern sorts before all hosts.
#[test]
fn names_with_a_pattern_among_them_are_settled_too() {
    let names: BTreeSet<String> = [format!("*.{HOST}"), HOST.to_owned()].into();
    let data = step(&Data::new(), &names, at(0)).unwrap().write.unwrap().data;
    assert!(step(&data, &names, at(0)).unwrap().write.is_none());
}

#[test]
fn a_client_of_the_authority_trusts_what_it_serves_and_says_what_it_is() {
    let subject = Subject {
        common_name: "somebody",
        unit: Some("operator"),
        is_client: true,
        ..SUBJECT
    };
    let (data, served, _) = stepped(&Data::new(), at(0));
    let client = client(&data, &subject, hours(24), at(0)).unwrap();
    assert!(vouches(&client.authorities, &served.pair, HOST, at(0)));
    let (_, shown) = X509Certificate::from_der(&client.pair.chain()[0]).unwrap();
    assert_eq!(shown.subject().to_string(), "CN=somebody, OU=operator");
    let usages = shown.extended_key_usage().unwrap().unwrap().value;
    assert!(usages.client_auth && !usages.server_auth);
    assert!(client.pair.validity().contains(at(1)) && !client.pair.validity().contains(at(2)));
    let nobody = super::client(&Data::new(), &subject, hours(24), at(0));
    assert!(matches!(nobody, Err(IssueError::NoAuthority)));
}
