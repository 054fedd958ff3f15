use std::sync::LazyLock;

use kube::CustomResourceExt;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::api::admission::Admission;

fn object(name: &str, mut spec: Value) -> Value {
    if spec.get("size").is_none() {
        spec["size"] = json!(3);
    }
    json!({
        "apiVersion": "roadstead.dev/v1", "kind": "RedisCluster",
        "metadata": {"name": name, "namespace": "shop"}, "spec": spec,
    })
}

fn cluster(spec: Value) -> RedisCluster {
    serde_json::from_value(object("cache", spec)).expect("the test's spec has the right types")
}

fn fields(verdict: Result<(), Problems>) -> Vec<String> {
    let problems = verdict.err();
    let list = problems.iter().flat_map(Problems::list);
    list.map(|problem| problem.field.clone()).collect()
}

fn problems(spec: Value) -> Vec<String> {
    fields(validate(&cluster(spec)).map(|_| ()))
}

fn refused_by_schema(object: &Value, old: Option<&Value>) -> Vec<String> {
    static V1: LazyLock<Admission> = LazyLock::new(|| Admission::of(&RedisCluster::crd()));
    V1.refusals(object, old)
}

fn user(field: &str, value: &str) -> Value {
    let mut user = json!({"name": "app", "rules": "~app:* +@read", "passwordSecret": {"name": "app", "key": "password"}});
    user[field] = json!(value);
    json!({"aclUsers": [user]})
}

fn config(name: &str, value: &str) -> Value {
    json!({"config": {name: value}})
}

#[rstest]
#[case::size_alone(json!({"size": 1}))]
#[case::many(json!({"size": 500, "replicasPerShard": 1}))]
#[case::all(json!({
    "size": 3, "replicasPerShard": 1, "image": "valkey/valkey:8.1", "paused": true, "allowDataLoss": true,
    "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": 1, "memory": "1Gi"}},
    "storage": {"size": "10Gi", "storageClassName": "fast", "whenScaled": "Retain", "whenDeleted": "Retain"},
    "auth": {"passwordSecret": {"name": "cache", "key": "password"}},
    "aclUsers": [{"name": "app", "rules": "~app:* +@all -@admin (~b:* &c on)", "passwordSecret": {"name": "app", "key": "pw"}}],
    "tls": {"secretName": "cache-tls"},
    "config": {"maxmemory-policy": "allkeys-lru", "save": "", "client-output-buffer-limit": "pubsub 32mb 8mb 60", "appendfsync": "always"},
    "placement": {"antiAffinity": "Required", "topologyKey": "topology.kubernetes.io/zone"},
    "exporter": {"image": "oliver006/redis_exporter:v1", "resources": {}},
}))]
#[case::generated_password(json!({"auth": {}}))]
fn what_is_right_passes(#[case] spec: Value) {
    assert_eq!(problems(spec.clone()), [""; 0]);
    assert_eq!(refused_by_schema(&object("cache", spec), None), [""; 0]);
}

/// Every rule, in both places where it is kept.
#[rstest]
#[case::none(json!({"size": 0}), "spec.size")]
#[case::two(json!({"size": 2}), "spec.size")]
#[case::too_many(json!({"size": 501}), "spec.size")]
#[case::negative_replicas(json!({"replicasPerShard": -1}), "spec.replicasPerShard")]
#[case::too_many_replicas(json!({"replicasPerShard": 6}), "spec.replicasPerShard")]
#[case::too_many_nodes(json!({"size": 400, "replicasPerShard": 2}), "spec.replicasPerShard")]
#[case::image(json!({"image": "redis 7"}), "spec.image")]
#[case::request_above_limit(json!({"resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}}}), "spec.resources.requests.memory")]
#[case::exporter_above_limit(json!({"exporter": {"resources": {"requests": {"cpu": 1}, "limits": {"cpu": "1m"}}}}), "spec.exporter.resources.requests.cpu")]
#[case::exporter_image(json!({"exporter": {"image": "-"}}), "spec.exporter.image")]
#[case::class(json!({"storage": {"storageClassName": "Fast"}}), "spec.storage.storageClassName")]
#[case::password_secret(json!({"auth": {"passwordSecret": {"name": "a/b", "key": "a"}}}), "spec.auth.passwordSecret.name")]
#[case::password_key(json!({"auth": {"passwordSecret": {"name": "a", "key": "a b"}}}), "spec.auth.passwordSecret.key")]
#[case::tls(json!({"tls": {"secretName": "A"}}), "spec.tls.secretName")]
#[case::user_default(user("name", "default"), "spec.aclUsers[0].name")]
#[case::user_of_the_operator(user("name", "roadstead"), "spec.aclUsers[0].name")]
#[case::user_with_space(user("name", "a b"), "spec.aclUsers[0].name")]
#[case::rules_with_newline(user("rules", "+@all\nuser x"), "spec.aclUsers[0].rules")]
#[case::rules_with_quote(user("rules", "\"+@all"), "spec.aclUsers[0].rules")]
#[case::no_rules(user("rules", ""), "spec.aclUsers[0].rules")]
#[case::rules_with_password(user("rules", "+@all >secret"), "spec.aclUsers[0].rules")]
#[case::rules_with_hash(user("rules", "#abc"), "spec.aclUsers[0].rules")]
#[case::rules_without_password(user("rules", "+@all NoPass"), "spec.aclUsers[0].rules")]
#[case::rules_in_selector(user("rules", "+@all (reset)"), "spec.aclUsers[0].rules")]
#[case::owned(config("port", "1"), "spec.config")]
#[case::owned_password(config("requirepass", "1"), "spec.config")]
#[case::owned_module(config("loadmodule", "/x.so"), "spec.config")]
#[case::owned_prefix(config("cluster-enabled", "no"), "spec.config")]
#[case::owned_tls(config("tls-port", "1"), "spec.config")]
#[case::owned_log(config("appendonly", "no"), "spec.config")]
#[case::value_with_newline(config("save", "1 1\nport 2"), "spec.config.save")]
#[case::value_with_quote(config("save", "\""), "spec.config.save")]
#[case::value_with_escape(config("save", "\\x0a"), "spec.config.save")]
#[case::value_not_ascii(config("save", "\u{2028}"), "spec.config.save")]
#[case::value_too_long(config("save", &"1".repeat(1025)), "spec.config.save")]
fn a_wrong_field_is_named_by_the_operator_and_refused_by_the_schema(
    #[case] spec: Value,
    #[case] field: &str,
) {
    assert_eq!(problems(spec.clone()), [field]);
    assert_eq!(refused_by_schema(&object("cache", spec), None).len(), 1);
}

/// What a schema cannot say, for the API server bounds what its rules may cost.
#[rstest]
#[case::storage(json!({"storage": {"size": "10GB"}}), "spec.storage.size")]
#[case::no_storage(json!({"storage": {"size": 0}}), "spec.storage.size")]
#[case::milli_bytes(json!({"resources": {"limits": {"memory": "512m"}}}), "spec.resources.limits.memory")]
#[case::quantity(json!({"resources": {"limits": {"cpu": "one"}}}), "spec.resources.limits.cpu")]
#[case::taint(json!({"placement": {"tolerations": [{"key": "a b"}]}}), "spec.placement.tolerations[0].key")]
#[case::name_in_capitals(config("Port", "1"), "spec.config")]
#[case::name_with_space(config("save 1", "1"), "spec.config")]
#[case::name_with_newline(config("save\nport", "1"), "spec.config")]
#[case::name_of_a_comment(config("#", "1"), "spec.config")]
fn a_wrong_field_is_named_by_the_operator(#[case] spec: Value, #[case] field: &str) {
    assert_eq!(problems(spec), [field]);
}

#[test]
fn a_user_twice_is_refused() {
    let mut spec = user("name", "app");
    let again = spec["aclUsers"][0].clone();
    spec["aclUsers"].as_array_mut().unwrap().push(again);
    assert_eq!(problems(spec), ["spec.aclUsers[1].name"]);
}

#[rstest]
#[case("+@all >hunter2")]
#[case("+@all >hunter2\n")]
fn a_refusal_does_not_tell_a_password(#[case] rules: &str) {
    let told = validate(&cluster(user("rules", rules))).unwrap_err().to_string();
    assert!(!told.contains("hunter2"), "{told}");
}

#[test]
fn all_problems_are_told_at_once() {
    let spec = json!({"size": 2, "image": "a b", "storage": {"size": "x"}, "config": {"port": "\n"}});
    let fields = [
        "spec.size",
        "spec.image",
        "spec.storage.size",
        "spec.config",
        "spec.config.port",
    ];
    assert_eq!(problems(spec), fields);
}

#[test]
fn a_refusal_says_what_was_found_and_what_is_accepted() {
    let spec = json!({"size": 2, "config": {"dir": "/"}, "storage": {"storageClassName": "A"}, "tls": {"secretName": "A"}});
    insta::assert_snapshot!(validate(&cluster(spec)).unwrap_err());
    let schema = [
        (json!({"size": 2}), None),
        (config("dir", "/"), None),
        (json!({"size": 300, "replicasPerShard": 5}), None),
        (user("rules", "nopass"), None),
        (user("name", "default"), None),
        (
            json!({"resources": {"requests": {"cpu": 2}, "limits": {"cpu": "1500m"}}}),
            None,
        ),
        (
            json!({"storage": {"size": "1Gi"}}),
            Some(json!({"storage": {"size": "2Gi"}})),
        ),
        (json!({"storage": {"storageClassName": "a"}}), Some(json!({}))),
        (json!({}), Some(json!({"tls": {"secretName": "a"}}))),
    ];
    let told = schema.map(|(new, old)| {
        let old = old.map(|old| object("cache", old));
        refused_by_schema(&object("cache", new), old.as_ref()).join("\n")
    });
    insta::assert_snapshot!(told.join("\n"));
}

#[rstest]
#[case::longest("a".repeat(42), true)]
#[case::too_long("a".repeat(43), false)]
#[case::digit("1a".into(), false)]
#[case::dot("a.b".into(), false)]
fn names_fit_the_labels_of_pods(#[case] name: String, #[case] accepted: bool) {
    let object = object(&name, json!({}));
    assert_eq!(refused_by_schema(&object, None).is_empty(), accepted);
    let verdict = validate(&serde_json::from_value(object).unwrap());
    assert_eq!(verdict.is_ok(), accepted);
    let revision = format!("{name}-replica-{MAX_REPLICAS}-{}", u32::MAX);
    assert!(!accepted || revision.len() <= 63, "{revision}");
}

#[rstest]
#[case::nothing(json!({}), json!({}), None)]
#[case::size(json!({"size": 3}), json!({"size": 5}), None)]
#[case::smaller(json!({"size": 5}), json!({"size": 1}), None)]
#[case::grows(json!({"storage": {"size": "1Gi"}}), json!({"storage": {"size": "1025Mi"}}), None)]
#[case::same_in_other_words(json!({"storage": {"size": "1Gi"}}), json!({"storage": {"size": "1024Mi"}}), None)]
#[case::shrinks(json!({"storage": {"size": "1Gi"}}), json!({"storage": {"size": "1G"}}), Some("spec.storage.size"))]
#[case::shrinks_to_the_default(json!({"storage": {"size": "2Gi"}}), json!({}), Some("spec.storage.size"))]
#[case::class(json!({"storage": {"storageClassName": "a"}}), json!({"storage": {"storageClassName": "b"}}), Some("spec.storage.storageClassName"))]
#[case::class_added(json!({}), json!({"storage": {"storageClassName": "b"}}), Some("spec.storage.storageClassName"))]
#[case::class_removed(json!({"storage": {"storageClassName": "a"}}), json!({}), Some("spec.storage.storageClassName"))]
#[case::certificate(json!({"tls": {"secretName": "a"}}), json!({"tls": {"secretName": "b"}}), None)]
#[case::tls_added(json!({}), json!({"tls": {"secretName": "a"}}), Some("spec.tls"))]
#[case::tls_removed(json!({"tls": {"secretName": "a"}}), json!({}), Some("spec.tls"))]
#[case::password_added(json!({}), json!({"auth": {}}), None)]
fn what_may_not_change_cannot(#[case] old: Value, #[case] new: Value, #[case] field: Option<&str>) {
    let verdict = validate_update(&cluster(old.clone()), &cluster(new.clone()));
    assert_eq!(fields(verdict), Vec::from_iter(field));
    let refusals = refused_by_schema(&object("cache", new), Some(&object("cache", old)));
    assert_eq!(refusals.len(), usize::from(field.is_some()), "{refusals:?}");
}

proptest! {
    /// Whatever a field holds: no panic, and what passes has nothing that ends or opens anything in redis.conf or the list of users.
    #[test]
    fn no_accepted_string_can_break_out_of_the_configuration(text in any_text()) {
        let key = json!({"name": text, "key": text});
        let specs = [
            json!({"image": text}),
            json!({"storage": {"size": text, "storageClassName": text}}),
            json!({"auth": {"passwordSecret": key}}),
            json!({"tls": {"secretName": text}}),
            json!({"config": {text.clone(): "1"}}),
            json!({"config": {"save": text}}),
            json!({"resources": {"requests": {text.clone(): "1"}, "limits": {"memory": text}}}),
            user("name", &text),
            user("rules", &text),
        ];
        for spec in specs {
            let Ok(valid) = validate(&cluster(spec)) else { continue };
            for user in &valid.acl_users {
                prop_assert!(!user.name.contains(char::is_whitespace));
                prop_assert!(!user.rules.split(' ').any(|rule| rule.starts_with(['>', '<', '#', '!'])));
            }
            for (name, value) in &valid.config {
                prop_assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b)), "{:?}", name);
                prop_assert!(!["include", "port", "dir"].contains(&name.as_str()));
                prop_assert!(!value.chars().any(char::is_control));
            }
            let written = serde_json::to_string(&(&valid.acl_users, &valid.config, &valid.image, &valid.storage, &valid.tls, &valid.auth)).unwrap();
            // JSON writes an escape for whatever is a quote, a backslash or a control character.
            prop_assert!(written.is_ascii() && !written.contains('\\') && !written.contains('\''), "{}", written);
        }
    }

    #[test]
    fn no_change_makes_it_panic(one in any_text(), other in any_text()) {
        let storage = |text: String| cluster(json!({"storage": {"size": text, "storageClassName": text}}));
        let _ = validate_update(&storage(one), &storage(other));
    }
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z./;{}$\"'\\\\ \\n#~*>-]{0,12}",
        "\\PC{0,12}",
        "[0-9.]{1,3}[KMGTmkn]?i?",
        "[a-z][a-z0-9-]{0,8}"
    ]
}
