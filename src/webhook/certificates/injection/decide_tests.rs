use super::*;
use crate::pki::testing::{Issued, at};
use rstest::rstest;

const PATH: &str = "/convert";
const OPENED: &str = "example.com/opened";

/// Of an operator that knows v1 and v2.
fn converter() -> Converter {
    Converter {
        path: PATH.into(),
        opened: OPENED,
        versions: vec!["v1".into(), "v2".into()],
    }
}

fn service() -> WebhookService {
    WebhookService {
        namespace: "ns".into(),
        name: "a".into(),
        port: 443,
    }
}

/// One certificate, and who may vouch for it.
struct World {
    issued: Issued,
    other: Issued,
}

impl World {
    fn new() -> Self {
        Self {
            issued: Issued::by_new_authority("a.ns.svc", at(0)),
            other: Issued::by_new_authority("a.ns.svc", at(0)),
        }
    }

    fn under_olm(&self) -> Served {
        Served {
            pair: self.issued.pair(),
            trust: Trust::Theirs,
        }
    }

    fn alone(&self) -> Served {
        Served {
            pair: self.issued.pair(),
            trust: Trust::Authorities(vec![self.issued.authority.clone()]),
        }
    }

    /// A bundle as the API has it. `ours` and `other` are authorities, `itself` is the certificate.
    fn bundle(&self, holds: &[&str]) -> Value {
        let certificates: Vec<_> = holds.iter().map(|name| self.certificate(name)).collect();
        json!(ByteString(to_pem(&certificates).into_bytes()))
    }

    fn certificate(&self, name: &str) -> CertificateDer<'static> {
        match name {
            "ours" => self.issued.authority.clone(),
            "other" => self.other.authority.clone(),
            "itself" => self.issued.pair().chain()[0].clone(),
            name => panic!("{name}: no such certificate"),
        }
    }

    /// Which of them the bundle of a patch holds.
    fn named(&self, bundle: &Value) -> Vec<&'static str> {
        let bundle: ByteString = serde_json::from_value(bundle.clone()).unwrap();
        certificates_in(&bundle.0)
            .iter()
            .map(|found| {
                let names = ["ours", "other", "itself"];
                names
                    .into_iter()
                    .find(|name| self.certificate(name) == *found)
                    .unwrap()
            })
            .collect()
    }

    fn right(&self) -> Value {
        json!({
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {
                    "service": {"namespace": "ns", "name": "a", "port": 443, "path": PATH},
                    "caBundle": self.bundle(&["ours"]),
                },
                "conversionReviewVersions": ["v1"],
            },
        })
    }
}

fn decide(definition: &Definition, served: &Served) -> Verdict {
    decide_at(definition, served, at(0))
}

fn decide_at(definition: &Definition, served: &Served, now: Timestamp) -> Verdict {
    let wanted = Wanted {
        service: &service(),
        served,
        now,
    };
    wanted.conversion(definition, &converter())
}

fn judge(conversion: &Value, served: &Served, now: Timestamp) -> Verdict {
    let definition = json!({"metadata": {"resourceVersion": "7", "name": "x"}, "spec": {"group": "g", "conversion": conversion}});
    decide_at(&serde_json::from_value(definition).unwrap(), served, now)
}

/// What is wrong, and the healed conversion.
fn healed(verdict: Verdict) -> (String, Value) {
    match verdict {
        Verdict::Heal {
            wrong, patch, close, ..
        } => {
            assert_eq!(close, None);
            assert_eq!(patch["metadata"], json!({"resourceVersion": "7"}));
            (wrong, patch["spec"]["conversion"].clone())
        }
        verdict => panic!("nothing is healed: {verdict:?}"),
    }
}

#[test]
fn what_leads_to_us_and_trusts_us_is_left_alone() {
    let world = World::new();
    for served in [world.alone(), world.under_olm()] {
        assert_eq!(judge(&world.right(), &served, at(0)), Verdict::Right);
    }
    let mut without_defaults = world.right();
    let service = &mut without_defaults["webhook"]["clientConfig"]["service"];
    service.as_object_mut().unwrap().remove("port");
    assert_eq!(judge(&without_defaults, &world.alone(), at(0)), Verdict::Right);
}

#[rstest]
#[case::none("/strategy", json!("None"), "its conversion strategy is \"None\"")]
#[case::a_port("/webhook/clientConfig/service/port", json!(9443), "its conversion leads to port 9443, path \"/convert\"")]
#[case::a_path(
    "/webhook/clientConfig/service/path",
    Value::Null,
    "its conversion leads to port 443, path \"\""
)]
#[case::nowhere("/webhook/clientConfig/service", Value::Null, "its conversion leads nowhere")]
#[case::a_version("/webhook/conversionReviewVersions", json!(["v1beta1", "v1"]),
    "its conversion asks for reviews of the versions [\"v1beta1\", \"v1\"]")]
#[case::no_bundle(
    "/webhook/clientConfig/caBundle",
    Value::Null,
    "its CA bundle lacks our authority"
)]
#[case::garbage("/webhook/clientConfig/caBundle", json!("Z2FyYmFnZQ=="), "its CA bundle lacks our authority")]
fn whatever_is_wrong_is_named_and_made_right(
    #[case] place: &str,
    #[case] value: Value,
    #[case] expected: &str,
) {
    let world = World::new();
    let mut conversion = world.right();
    *conversion.pointer_mut(place).unwrap() = value;
    let (wrong, conversion) = healed(judge(&conversion, &world.alone(), at(0)));
    assert_eq!(wrong, expected);
    assert_eq!(conversion, world.right());
    assert_eq!(judge(&conversion, &world.alone(), at(0)), Verdict::Right);
}

#[test]
fn a_definition_without_any_conversion_is_given_one() {
    let world = World::new();
    for absent in [Value::Null, json!({"strategy": "None"})] {
        let (_, conversion) = healed(judge(&absent, &world.alone(), at(0)));
        assert_eq!(conversion, world.right());
    }
}

/// A definition with this annotation, of which v1 is stored and v2 and v3 are served as is said.
fn definition(named: &str, conversion: &Value, served: [bool; 2]) -> Definition {
    let metadata = json!({"resourceVersion": "7", "annotations": {OPENED: named}});
    let spec = json!({"conversion": conversion, "versions": versions(true, served)});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

fn versions(stored: bool, [second, third]: [bool; 2]) -> Value {
    json!([
        {"name": "v1", "served": stored, "storage": true, "schema": {}},
        {"name": "v2", "served": second, "storage": false},
        {"name": "v3", "served": third, "storage": false},
    ])
}

/// OLM has put the definition of a bundle in the place of the cluster's.
#[rstest]
#[case::named("v2", Some([true, false]))]
#[case::of_a_newer_operator_what_this_one_converts("v2, v3", Some([true, false]))]
#[case::of_a_newer_operator("v3", None)]
#[case::stored("v1", None)]
fn the_versions_that_are_named_and_converted_are_opened_with_the_conversion(
    #[case] named: &str,
    #[case] opened: Option<[bool; 2]>,
) {
    let world = World::new();
    let served = world.alone();
    let patch = |conversion: Value, open| match decide(&definition(named, &conversion, open), &served) {
        Verdict::Heal { patch, close, .. } => {
            assert_eq!(close, None, "nothing is open that is to be closed");
            Some(patch["spec"].clone())
        }
        _ => None,
    };
    let both = patch(Value::Null, [false, false]).unwrap();
    assert_eq!(both["conversion"], world.right());
    let expected = opened.map_or(Value::Null, |opened| versions(true, opened));
    assert_eq!(both["versions"], expected);
    assert_eq!(patch(world.right(), [false, false]).is_some(), opened.is_some());
    assert_eq!(patch(world.right(), [true, false]), None);
}

/// Each of its writes would be undone, and that one in turn: seen on a cluster, several times in a second.
#[rstest]
#[case::what_it_owns(json!({"ownerReferences": [{"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": "a", "uid": "b"}]}))]
#[case::what_is_to_outlive_it(json!({"labels": {"olm.operatorframework.io/owner-kind": "ClusterExtension"},
    "annotations": {"helm.sh/resource-policy": "keep", OPENED: "v2, v3"}}))]
fn what_olm_v1_keeps_closed_is_left_so_and_all_else_is_healed(#[case] kept: Value) {
    let world = World::new();
    let served = world.under_olm();
    let judged = |conversion: Value, open: [bool; 2]| {
        let mut object = json!({
            "metadata": {"resourceVersion": "7", "annotations": {OPENED: "v2, v3"}},
            "spec": {"conversion": conversion, "versions": versions(true, open)},
        });
        json_patch::merge(&mut object["metadata"], &kept);
        decide(&serde_json::from_value(object).unwrap(), &served)
    };
    let closed = Verdict::Leave(Left::KeptClosed("v2".into()));
    assert_eq!(judged(world.right(), [false, false]), closed);
    assert_eq!(judged(world.right(), [true, false]), Verdict::Right);
    let mut untrusted = world.right();
    untrusted["webhook"]["clientConfig"]["caBundle"] = Value::Null;
    let verdict = judged(untrusted, [false, false]);
    let Verdict::Heal { patch, .. } = verdict else {
        panic!("its bundle is not healed: {verdict:?}");
    };
    assert_eq!(patch["spec"]["versions"], Value::Null);
    let verdict = judged(Value::Null, [true, true]);
    assert!(
        matches!(verdict, Verdict::Heal { close: None, .. }),
        "{verdict:?}"
    );
}

/// Whoever deletes a ClusterExtension and keeps what it had installed leaves the label there.
#[test]
fn what_olm_v1_has_let_go_of_is_opened() {
    let world = World::new();
    let served = world.alone();
    let mut definition = definition("v2", &world.right(), [false, false]);
    let label = ("olm.operatorframework.io/owner-kind", "ClusterExtension");
    definition.metadata.labels.insert(label.0.into(), label.1.into());
    let verdict = decide(&definition, &served);
    assert!(matches!(verdict, Verdict::Heal { .. }), "{verdict:?}");
}

/// It would be put back, and for the minute until all pods have the new certificate both would write in turn.
#[rstest]
#[case::by_cert_manager("cert-manager.io/inject-ca-from", true)]
#[case::by_openshift("service.beta.openshift.io/inject-cabundle", true)]
#[case::by_nobody("example.org/injected", false)]
fn an_authority_that_somebody_injects_is_left_unless_there_is_none_or_it_is_ours(
    #[case] annotation: &str,
    #[case] left: bool,
) {
    let world = World::new();
    let judged = |served: Served, bundle: Value| {
        let mut conversion = world.right();
        conversion["webhook"]["clientConfig"]["caBundle"] = bundle;
        let mut definition = definition("v2", &conversion, [true, true]);
        let annotations = &mut definition.metadata.annotations;
        annotations.insert(annotation.to_owned(), "ns/a".to_owned());
        decide(&definition, &served)
    };
    let is_healed = |verdict| matches!(verdict, Verdict::Heal { .. });
    let verdict = judged(world.under_olm(), world.bundle(&["other"]));
    assert_eq!(verdict == Verdict::Leave(Left::Injected), left, "{verdict:?}");
    assert_eq!(judged(world.under_olm(), world.bundle(&["ours"])), Verdict::Right);
    assert!(is_healed(judged(world.under_olm(), Value::Null)));
    assert!(is_healed(judged(world.alone(), world.bundle(&["other"]))));
}

#[rstest]
#[case::named("v2", Some([false, true]))]
#[case::what_this_operator_converts("v1,v2, v3", Some([false, true]))]
#[case::none_that_it_converts("v3", None)]
#[case::never_the_stored_one("v1", None)]
fn an_open_version_is_closed_while_nothing_converts(
    #[case] named: &str,
    #[case] closed: Option<[bool; 2]>,
    #[values(Value::Null, json!({"strategy": "None"}))] conversion: Value,
) {
    let served = World::new().alone();
    let verdict = decide(&definition(named, &conversion, [true, true]), &served);
    let Verdict::Heal { close, patch, .. } = verdict else {
        panic!("nothing is healed: {verdict:?}");
    };
    let expected = closed.map(
        |closed| json!({"metadata": {"resourceVersion": "7"}, "spec": {"versions": versions(true, closed)}}),
    );
    assert_eq!(close, expected);
    assert_eq!(
        patch["spec"]["versions"],
        Value::Null,
        "healed, it is open as it was"
    );
}

/// Then requests fail, and nothing is lost; and nobody but us will mend that soon.
#[test]
fn a_webhook_that_cannot_be_reached_closes_nothing_and_cannot_wait() {
    let world = World::new();
    let served = world.alone();
    let mut conversion = world.right();
    conversion["webhook"]["clientConfig"]["caBundle"] = Value::Null;
    let verdict = decide(&definition("v2", &conversion, [true, true]), &served);
    assert!(
        matches!(
            verdict,
            Verdict::Heal {
                close: None,
                can_wait: false,
                ..
            }
        ),
        "{verdict:?}"
    );
}

/// What is stored in the other version is read without its fields, in the only version that is left open.
#[rstest]
#[case::one(json!(["v1"]), true)]
#[case::none_known(json!([]), true)]
#[case::two(json!(["v2", "v1"]), false)]
fn while_objects_are_stored_in_several_versions_a_conversion_that_is_taken_away_cannot_wait(
    #[case] stored: Value,
    #[case] waits: bool,
) {
    let served = World::new().alone();
    let mut definition = definition("v2", &json!({"strategy": "None"}), [true, true]);
    definition.status = serde_json::from_value(json!({"storedVersions": stored})).unwrap();
    let verdict = decide(&definition, &served);
    assert!(
        matches!(verdict, Verdict::Heal { can_wait, .. } if can_wait == waits),
        "{verdict:?}"
    );
}

/// OLM's bundle brings a conversion that knows neither the namespace nor the authority, and closes what is not stored.
#[rstest]
#[case::no_bundle(Value::Null)]
#[case::an_empty_bundle(json!(""))]
fn what_trusts_nobody_is_nobodys_and_is_healed_and_opened_at_once(#[case] bundle: Value) {
    let world = World::new();
    let served = world.alone();
    let mut conversion = world.right();
    let client = &mut conversion["webhook"]["clientConfig"];
    client["service"]["namespace"] = json!("other");
    client["caBundle"] = bundle;
    let verdict = decide(&definition("v2", &conversion, [false, false]), &served);
    let Verdict::Heal {
        wrong,
        patch,
        close: None,
        can_wait: false,
    } = verdict
    else {
        panic!("it is not healed at once: {verdict:?}");
    };
    assert_eq!(
        wrong,
        "its conversion leads to the Service other/a, and trusts nobody"
    );
    assert_eq!(patch["spec"]["conversion"], world.right());
    assert_eq!(patch["spec"]["versions"], versions(true, [true, false]));
}

#[rstest]
#[case::another_name(json!({"service": {"namespace": "ns", "name": "b"}, "caBundle": "bm9uZQ=="}), "the Service ns/b")]
#[case::another_namespace(json!({"service": {"namespace": "other", "name": "a"}, "caBundle": "bm9uZQ=="}), "the Service other/a")]
#[case::a_url(json!({"url": "https://example.com/convert"}), "https://example.com/convert")]
fn somebody_elses_conversion_is_left_alone(#[case] client_config: Value, #[case] whose: &str) {
    let conversion = json!({
        "strategy": "Webhook",
        "webhook": {"clientConfig": client_config, "conversionReviewVersions": ["v1"]},
    });
    let verdict = judge(&conversion, &World::new().alone(), at(0));
    assert_eq!(verdict, Verdict::Leave(Left::Stranger(whose.to_owned())));
}

/// In days since our authority and certificate were made, at once.
#[rstest]
#[case::the_present_one(&["ours"], 0, None)]
#[case::another_replicas(&["ours", "other"], 0, None)]
#[case::a_stale_one(&["other"], 0, Some(&["ours", "other"][..]))]
#[case::its_next_authority_which_we_have_not_read(&["other", "ours"], 30, None)]
#[case::nobody_vouches(&["itself"], 0, Some(&["ours", "itself"][..]))]
fn of_our_own_authorities_none_may_be_missing(
    #[case] present: &[&str],
    #[case] days: i64,
    #[case] expected: Option<&[&str]>,
) {
    let world = World::new();
    let mut conversion = world.right();
    conversion["webhook"]["clientConfig"]["caBundle"] = world.bundle(present);
    let verdict = judge(&conversion, &world.alone(), at(days));
    match expected {
        None => assert_eq!(verdict, Verdict::Right),
        Some(expected) => {
            let (_, conversion) = healed(verdict);
            assert_eq!(
                world.named(&conversion["webhook"]["clientConfig"]["caBundle"]),
                expected
            );
        }
    }
}

#[rstest]
#[case(1, false)]
#[case(2, true)]
fn an_older_authority_goes_once_every_replica_has_long_read_the_new_one(
    #[case] days: i64,
    #[case] goes: bool,
) {
    let world = World {
        issued: Issued::by_new_authority("a.ns.svc", at(0)),
        other: Issued::by_new_authority("a.ns.svc", at(-100)),
    };
    let mut conversion = world.right();
    conversion["webhook"]["clientConfig"]["caBundle"] = world.bundle(&["ours", "other"]);
    let verdict = judge(&conversion, &world.alone(), at(days));
    if goes {
        let (wrong, conversion) = healed(verdict);
        assert_eq!(wrong, "its CA bundle holds what nobody serves by any more");
        assert_eq!(conversion, world.right());
    } else {
        assert_eq!(verdict, Verdict::Right);
    }
}

/// Under OLM only the certificate is known here.
#[rstest]
#[case::its_authority(&["ours"], None)]
#[case::its_authority_among_others(&["other", "ours"], None)]
#[case::itself(&["other", "itself"], None)]
#[case::nothing(&[], Some(&["itself"][..]))]
#[case::its_next_authority_whose_certificate_is_not_mounted_yet(&["other"], Some(&["itself", "other"][..]))]
fn a_bundle_of_olm_that_vouches_for_us_is_never_touched_and_another_is_only_added_to(
    #[case] present: &[&str],
    #[case] expected: Option<&[&str]>,
    #[values(0, 60)] days: i64,
) {
    let world = World::new();
    let mut conversion = world.right();
    conversion["webhook"]["clientConfig"]["caBundle"] = world.bundle(present);
    let verdict = judge(&conversion, &world.under_olm(), at(days));
    match expected {
        None => assert_eq!(verdict, Verdict::Right),
        Some(expected) => {
            let (wrong, conversion) = healed(verdict);
            assert_eq!(wrong, "its CA bundle does not vouch for what is served");
            assert_eq!(
                world.named(&conversion["webhook"]["clientConfig"]["caBundle"]),
                expected
            );
            assert_eq!(judge(&conversion, &world.under_olm(), at(days)), Verdict::Right);
        }
    }
}

fn webhook(name: &str, client_config: &Value) -> Value {
    json!({"name": name, "clientConfig": client_config, "sideEffects": "None", "unknown": {"kept": true}})
}

fn judge_configuration(webhooks: &[Value], served: &Served) -> Verdict {
    let configuration = json!({"metadata": {"resourceVersion": "7"}, "webhooks": webhooks});
    let wanted = Wanted {
        service: &service(),
        served,
        now: at(0),
    };
    wanted.configuration(&serde_json::from_value(configuration).unwrap())
}

#[test]
fn of_a_configuration_the_bundles_of_our_webhooks_are_put_right_and_all_else_stays() {
    let world = World::new();
    let ours = |bundle: &Value| json!({"service": {"namespace": "ns", "name": "a", "path": "/validate"}, "caBundle": bundle});
    let others = json!({"service": {"namespace": "ns", "name": "b"}, "caBundle": "bm9uZQ=="});
    let right = world.bundle(&["ours"]);
    let with = |bundle: &Value| {
        [
            webhook("one", &ours(&right)),
            webhook("two", &ours(bundle)),
            webhook("three", &others),
        ]
    };
    let Verdict::Heal { wrong, patch, .. } = judge_configuration(&with(&Value::Null), &world.alone()) else {
        panic!("nothing is healed");
    };
    assert_eq!(wrong, "two: its CA bundle lacks our authority");
    assert_eq!(
        patch,
        json!({"metadata": {"resourceVersion": "7"}, "webhooks": with(&right)})
    );
    assert_eq!(judge_configuration(&with(&right), &world.alone()), Verdict::Right);
    let not_ours = judge_configuration(&[webhook("three", &others)], &world.alone());
    assert_eq!(
        not_ours,
        Verdict::Leave(Left::Stranger("no webhook of it leads to our Service".to_owned()))
    );
}
