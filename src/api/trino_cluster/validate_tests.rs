use std::sync::LazyLock;

use kube::CustomResourceExt;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::super::limits::{CATALOG_PATTERN, FOLDER_PATTERN, VERSION_PATTERN};
use super::super::v1::RetryPolicy;
use super::*;
use crate::api::admission::Admission;

fn object(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "roadstead.dev/v1", "kind": "TrinoCluster",
        "metadata": {"name": name, "namespace": "shop"}, "spec": spec,
    })
}

fn cluster(spec: Value) -> TrinoCluster {
    serde_json::from_value(object("sql", spec)).expect("the test's spec has the right types")
}

fn problems(spec: Value) -> Vec<String> {
    let problems = validate(&cluster(spec)).err();
    let list = problems.iter().flat_map(Problems::list);
    list.map(|problem| problem.field.clone()).collect()
}

fn refused_by_schema(object: &Value, old: Option<&Value>) -> Vec<String> {
    static V1: LazyLock<Admission> = LazyLock::new(|| Admission::of(&TrinoCluster::crd()));
    V1.refusals(object, old)
}

/// A catalog with one field said otherwise.
fn catalog(field: &str, value: Value) -> Value {
    let mut catalog = json!({"name": "shop", "connector": "postgresql"});
    catalog[field] = value;
    json!({"catalogs": [catalog]})
}

fn property(name: &str, value: &str) -> Value {
    catalog("properties", json!({name: value}))
}

fn config(name: &str, value: &str) -> Value {
    json!({"configOverrides": {"configProperties": {name: value}}})
}

fn jvm(argument: &str) -> Value {
    json!({"workers": {"configOverrides": {"jvmConfig": [argument]}}})
}

fn limit(memory: &str) -> Value {
    json!({"coordinator": {"resources": {"limits": {"memory": memory}}}})
}

fn folder(folder: &str) -> Value {
    json!({"exchange": {"baseDirectories": [folder]}})
}

#[rstest]
#[case::nothing(json!({}))]
#[case::all(json!({
    "version": "435", "image": "trinodb/trino:435", "paused": true, "gracePeriodSeconds": 5, "drainTimeoutSeconds": 60,
    "coordinator": {"resources": {"requests": {"cpu": 1}, "limits": {"cpu": 2, "memory": "8Gi"}}, "heapPercent": 70},
    "workers": {"replicas": 0, "configOverrides": {"logProperties": {"io.trino": "DEBUG"}, "jvmConfig": ["-XX:+UseG1GC", "--add-opens=java.base/java.nio=ALL-UNNAMED"]}},
    "autoscaling": {"minWorkers": 0, "maxWorkers": 9, "queriesPerWorker": 2, "coolDownSeconds": 0},
    "catalogs": [
        {"name": "tpch", "connector": "tpch"},
        {"name": "shop-db", "connector": "postgresql", "properties": {"connection-url": "jdbc:postgresql://db:5432/shop?ssl=true"},
            "secretProperties": {"connection-password": {"name": "db", "key": "password"}}},
    ],
    "configOverrides": {"configProperties": {"query.max-memory": "20GB"}, "nodeProperties": {"spiller.x": "1"}},
    "tls": {"secretName": "tls"},
    "authentication": {"passwordFileSecret": {"name": "users", "key": "password.db"}},
    "accessControl": {"rulesConfigMap": {"name": "rules", "key": "rules.json"}},
    "spill": {"size": "50Gi", "storageClassName": "fast"},
    "exchange": {"retryPolicy": "Query", "baseDirectories": ["s3://bucket/a", "/mnt/b", "abfs://c@d.dfs/e"], "properties": {"exchange.s3.region": "eu"},
        "secretProperties": {"exchange.s3.aws-secret-key": {"name": "s3", "key": "secret"}}},
    "placement": {"priorityClassName": "high"},
}))]
fn what_is_right_passes(#[case] spec: Value) {
    assert_eq!(problems(spec.clone()), [""; 0]);
    assert_eq!(refused_by_schema(&object("sql", spec), None), [""; 0]);
}

#[test]
fn an_empty_spec_is_a_coordinator_and_a_worker() {
    let valid = validate(&cluster(json!({}))).unwrap();
    assert_eq!(
        (valid.workers, valid.version, valid.grace_period_seconds),
        (1, None, 30)
    );
    assert_eq!(valid.worker.resources.limits["memory"].0, "4Gi");
    assert_eq!(valid.worker.heap, (4 << 30) / 100 * 80);
    let exchange = cluster(folder("/a")).spec.exchange.unwrap();
    assert_eq!(exchange.retry_policy, RetryPolicy::Task);
}

#[test]
fn the_heap_is_a_share_of_the_limit() {
    let spec = json!({"coordinator": {"heapPercent": 50, "resources": {"limits": {"memory": "2Gi"}}}});
    let heap = validate(&cluster(spec)).unwrap().coordinator.heap;
    assert_eq!(heap, (2 << 30) / 100 * 50);
}

/// Every rule, in both places where it is kept.
#[rstest]
#[case::version(json!({"version": "latest"}), "spec.version")]
#[case::version_with_dots(json!({"version": "435..1"}), "spec.version")]
#[case::version_too_long(json!({"version": "4".repeat(41)}), "spec.version")]
#[case::image(json!({"image": "trino 435"}), "spec.image")]
#[case::negative(json!({"workers": {"replicas": -1}}), "spec.workers.replicas")]
#[case::too_many(json!({"workers": {"replicas": 1001}}), "spec.workers.replicas")]
#[case::heap(json!({"workers": {"heapPercent": 95}}), "spec.workers.heapPercent")]
#[case::little_heap(json!({"coordinator": {"heapPercent": 0}}), "spec.coordinator.heapPercent")]
#[case::no_limit(json!({"coordinator": {"resources": {}}}), "spec.coordinator.resources.limits.memory")]
#[case::no_limit_of_memory(json!({"workers": {"resources": {"limits": {"cpu": 1}}}}), "spec.workers.resources.limits.memory")]
#[case::small_limit(limit("511Mi"), "spec.coordinator.resources.limits.memory")]
#[case::request_above_limit(
    json!({"workers": {"resources": {"requests": {"memory": "5Gi"}, "limits": {"memory": "4Gi"}}}}), "spec.workers.resources.requests.memory"
)]
#[case::most_workers(json!({"autoscaling": {"maxWorkers": 0}}), "spec.autoscaling.maxWorkers")]
#[case::bounds(json!({"autoscaling": {"minWorkers": 3, "maxWorkers": 2}}), "spec.autoscaling.minWorkers")]
#[case::queries(json!({"autoscaling": {"maxWorkers": 2, "queriesPerWorker": 0}}), "spec.autoscaling.queriesPerWorker")]
#[case::cool_down(json!({"autoscaling": {"maxWorkers": 2, "coolDownSeconds": -1}}), "spec.autoscaling.coolDownSeconds")]
#[case::catalog(catalog("name", json!("a/b")), "spec.catalogs[0].name")]
#[case::catalog_in_capitals(catalog("name", json!("Shop")), "spec.catalogs[0].name")]
#[case::catalog_of_trino(catalog("name", json!("system")), "spec.catalogs[0].name")]
#[case::connector(catalog("connector", json!("a\nb")), "spec.catalogs[0].connector")]
#[case::owned(property("connector.name", "a"), "spec.catalogs[0].properties")]
#[case::owned_secret(catalog("secretProperties", json!({"connector.name": {"name": "a", "key": "a"}})), "spec.catalogs[0].secretProperties")]
#[case::password(property("connection-password", "a"), "spec.catalogs[0].properties")]
#[case::token(
    property("iceberg.rest-catalog.oauth2.token", "a"),
    "spec.catalogs[0].properties"
)]
#[case::reference(
    property("connection-user", "${ENV:TOKEN}"),
    "spec.catalogs[0].properties.connection-user"
)]
#[case::value_with_newline(property("a", "b\nc=d"), "spec.catalogs[0].properties.a")]
#[case::value_with_quote(property("a", "'"), "spec.catalogs[0].properties.a")]
#[case::value_with_escape(property("a", "b\\"), "spec.catalogs[0].properties.a")]
#[case::secret(catalog("secretProperties", json!({"a": {"name": "A", "key": "a"}})), "spec.catalogs[0].secretProperties.a.name")]
#[case::config(config("coordinator", "false"), "spec.configOverrides.configProperties")]
#[case::config_prefix(
    config("http-server.https.port", "1"),
    "spec.configOverrides.configProperties"
)]
#[case::config_node(config("node.id", "1"), "spec.configOverrides.configProperties")]
#[case::config_secret(config("a.keystore-password", "1"), "spec.configOverrides.configProperties")]
#[case::config_value(
    config("query.max-memory", "1GB\n"),
    "spec.configOverrides.configProperties.query.max-memory"
)]
#[case::node(json!({"workers": {"configOverrides": {"nodeProperties": {"node.environment": "a"}}}}), "spec.workers.configOverrides.nodeProperties")]
#[case::level(
    json!({"coordinator": {"configOverrides": {"logProperties": {"io.trino": "LOUD"}}}}), "spec.coordinator.configOverrides.logProperties.io.trino"
)]
#[case::heap_argument(jvm("-Xmx1G"), "spec.workers.configOverrides.jvmConfig[0]")]
#[case::on_error(jvm("-XX:OnError=x"), "spec.workers.configOverrides.jvmConfig[0]")]
#[case::class_path(jvm("-cp"), "spec.workers.configOverrides.jvmConfig[0]")]
#[case::file(jvm("@/etc/x"), "spec.workers.configOverrides.jvmConfig[0]")]
#[case::two_arguments(jvm("-Da=b -jar"), "spec.workers.configOverrides.jvmConfig[0]")]
#[case::argument_with_newline(jvm("-Da=b\n-Xmx1G"), "spec.workers.configOverrides.jvmConfig[0]")]
#[case::no_tls(json!({"authentication": {"passwordFileSecret": {"name": "a", "key": "a"}}}), "spec.authentication")]
#[case::rules(json!({"accessControl": {"rulesConfigMap": {"name": "a", "key": "/"}}}), "spec.accessControl.rulesConfigMap.key")]
#[case::tls(json!({"tls": {"secretName": "A"}}), "spec.tls.secretName")]
#[case::spill_class(json!({"spill": {"size": "1Gi", "storageClassName": "A"}}), "spec.spill.storageClassName")]
#[case::no_folder(json!({"exchange": {"baseDirectories": []}}), "spec.exchange.baseDirectories")]
#[case::folder(folder("bucket"), "spec.exchange.baseDirectories[0]")]
#[case::folder_with_comma(folder("/a,/b"), "spec.exchange.baseDirectories[0]")]
#[case::exchange_owned(
    json!({"exchange": {"baseDirectories": ["/a"], "properties": {"exchange-manager.name": "x"}}}), "spec.exchange.properties"
)]
#[case::grace(json!({"gracePeriodSeconds": 0}), "spec.gracePeriodSeconds")]
#[case::drain(json!({"drainTimeoutSeconds": 86401}), "spec.drainTimeoutSeconds")]
fn a_wrong_field_is_named_by_the_operator_and_refused_by_the_schema(
    #[case] spec: Value,
    #[case] field: &str,
) {
    assert_eq!(problems(spec.clone()), [field]);
    let refusals = refused_by_schema(&object("sql", spec), None);
    assert_eq!(refusals.len(), 1, "{refusals:?}");
}

/// What a schema cannot say, for the API server bounds what its rules may cost.
#[rstest]
#[case::name_with_newline(property("a\nb", "1"), "spec.catalogs[0].properties")]
#[case::name_with_equals(config("a=b", "1"), "spec.configOverrides.configProperties")]
#[case::name_of_a_comment(config("#", "1"), "spec.configOverrides.configProperties")]
#[case::logger(json!({"configOverrides": {"logProperties": {"a b": "INFO"}}}), "spec.configOverrides.logProperties")]
#[case::password_in_url(
    property("connection-url", "jdbc:mysql://db?password=a"),
    "spec.catalogs[0].properties.connection-url"
)]
#[case::user_in_url(
    property("mongodb.connection-url", "mongodb://a:b@c"),
    "spec.catalogs[0].properties.mongodb.connection-url"
)]
#[case::password_in_argument(
    jvm("-Djavax.net.ssl.keyStorePassword=a"),
    "spec.workers.configOverrides.jvmConfig[0]"
)]
#[case::limit(limit("4GB"), "spec.coordinator.resources.limits.memory")]
#[case::spill(json!({"spill": {"size": "0"}}), "spec.spill.size")]
#[case::topology(json!({"placement": {"topologyKey": "a b"}}), "spec.placement.topologyKey")]
fn a_wrong_field_is_named_by_the_operator(#[case] spec: Value, #[case] field: &str) {
    assert_eq!(problems(spec), [field]);
}

#[test]
fn a_property_is_said_once_and_so_is_a_catalog() {
    let mut spec = property("a", "1");
    spec["catalogs"][0]["secretProperties"] = json!({"a": {"name": "a", "key": "a"}});
    assert_eq!(problems(spec.clone()), ["spec.catalogs[0].secretProperties"]);
    assert_eq!(refused_by_schema(&object("sql", spec), None).len(), 1);
    let twice =
        json!({"catalogs": [{"name": "a", "connector": "tpch"}, {"name": "a", "connector": "memory"}]});
    assert_eq!(problems(twice), ["spec.catalogs[1].name"]);
}

#[test]
fn a_refusal_does_not_tell_a_password() {
    let told = validate(&cluster(jvm("-Djavax.net.ssl.keyStorePassword=hunter2"))).unwrap_err();
    assert!(!told.to_string().contains("hunter2"), "{told}");
    for value in ["jdbc:mysql://db?password=hunter2", "//a:hunter2@b", "hunter2\n"] {
        let told = validate(&cluster(property("connection-url", value))).unwrap_err();
        assert!(!told.to_string().contains("hunter2"), "{told}");
    }
}

#[test]
fn all_problems_are_told_at_once() {
    let spec = json!({"version": "x", "workers": {"replicas": -1}, "tls": {"secretName": ""}, "gracePeriodSeconds": 0});
    let fields = [
        "spec.version",
        "spec.workers.replicas",
        "spec.tls.secretName",
        "spec.gracePeriodSeconds",
    ];
    assert_eq!(problems(spec), fields);
}

#[test]
fn a_refusal_says_what_was_found_and_what_is_accepted() {
    insta::assert_snapshot!(validate(&cluster(property("connection-password", "hunter2"))).unwrap_err());
    let schema = [
        property("connection-password", "a"),
        property("connection-user", "${ENV:A}"),
        config("coordinator", "a"),
        config("a.password", "a"),
        jvm("-Xmx1G"),
        limit("100Mi"),
        json!({"coordinator": {"resources": {}}}),
        json!({"autoscaling": {"minWorkers": 3, "maxWorkers": 2}}),
        json!({"authentication": {"passwordFileSecret": {"name": "a", "key": "a"}}}),
        catalog("name", json!("system")),
    ];
    let told = schema.map(|spec| refused_by_schema(&object("sql", spec), None).join("\n"));
    insta::assert_snapshot!(told.join("\n"));
}

#[rstest]
#[case::longest("a".repeat(43), true)]
#[case::too_long("a".repeat(44), false)]
#[case::digit("1a".into(), false)]
#[case::dot("a.b".into(), false)]
fn names_fit_the_coordinators_service(#[case] name: String, #[case] accepted: bool) {
    let object = object(&name, json!({}));
    assert_eq!(refused_by_schema(&object, None).is_empty(), accepted);
    let verdict = validate(&serde_json::from_value(object).unwrap());
    assert_eq!(verdict.is_ok(), accepted);
    let service = format!("{name}-coordinator-service");
    assert!(!accepted || service.len() <= 63, "{service}");
}

#[test]
fn everything_may_change() {
    let (old, new) = (
        json!({"spill": {"size": "2Gi"}, "version": "436"}),
        json!({"spill": {"size": "1Gi"}, "version": "435", "tls": {"secretName": "a"}}),
    );
    assert_eq!(
        validate_update(&cluster(old.clone()), &cluster(new.clone())),
        Ok(())
    );
    assert_eq!(
        refused_by_schema(&object("sql", new), Some(&object("sql", old))),
        [""; 0]
    );
}

proptest! {
    /// Whatever a field holds: no panic, and what passes has nothing that ends or opens anything in Trino's files.
    #[test]
    fn no_accepted_string_can_break_out_of_the_configuration(text in any_text()) {
        let key = json!({"name": text, "key": text});
        let specs = [
            json!({"version": text}),
            json!({"image": text}),
            json!({"tls": {"secretName": "a"}, "authentication": {"passwordFileSecret": key}}),
            json!({"spill": {"size": text, "storageClassName": text}}),
            json!({"configOverrides": {"logProperties": {text.clone(): "INFO"}}}),
            json!({"configOverrides": {"nodeProperties": {text.clone(): "1"}}}),
            json!({"exchange": {"baseDirectories": [text], "properties": {text.clone(): text}}}),
            catalog("name", json!(text)),
            catalog("connector", json!(text)),
            catalog("secretProperties", json!({text.clone(): {"name": "a", "key": "a"}})),
            property(&text, "1"),
            property("a", &text),
            config(&text, "1"),
            config("a", &text),
            jvm(&text),
            limit(&text),
            folder(&text),
        ];
        for spec in specs {
            let Ok(valid) = validate(&cluster(spec)) else { continue };
            let of = |properties: &BTreeMap<String, String>| properties.clone().into_iter().collect::<Vec<_>>();
            let overrides = &valid.worker.overrides;
            let mut properties = [of(&overrides.config_properties), of(&overrides.node_properties), of(&overrides.log_properties)].concat();
            for catalog in &valid.catalogs {
                properties.extend(of(&catalog.properties));
                properties.extend(catalog.secret_properties.keys().map(|name| (name.clone(), String::new())));
                prop_assert!(!catalog.name.contains(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_'));
            }
            for (name, value) in properties {
                prop_assert!(!name.contains(|c: char| !c.is_ascii_alphanumeric() && !"._-".contains(c)), "{:?}", name);
                prop_assert!(!["connector.name", "coordinator", "node.id"].contains(&name.as_str()));
                prop_assert!(!value.contains("${"), "{:?}", value);
            }
            for argument in &overrides.jvm_config {
                prop_assert!(argument.starts_with('-') && !argument.contains(char::is_whitespace), "{:?}", argument);
            }
            let written = serde_json::to_string(&(
                &valid.catalogs, &overrides, &valid.exchange, &valid.spill, &valid.image, &valid.version, &valid.tls_secret, &valid.password_file,
            )).unwrap();
            // JSON writes an escape for whatever is a quote, a backslash or a control character.
            prop_assert!(written.is_ascii() && !written.contains('\\') && !written.contains('\''), "{}", written);
        }
    }
}

proptest! {
    /// What the API server accepts by a pattern and what the operator accepts is the same.
    #[test]
    fn the_patterns_say_the_same(text in "(s3:|abfs:|[a-z]|:|/|//|[0-9.-]|[A-Z_~@, \n\u{e9}]){0,9}") {
        let verdicts = [
            (FOLDER_PATTERN, is_folder(&text)),
            (CATALOG_PATTERN, is_catalog_name(&text)),
            (VERSION_PATTERN, is_version(&text)),
        ];
        for (pattern, accepted) in verdicts {
            let schema = json!({"type": "string", "pattern": pattern});
            prop_assert_eq!(jsonschema::is_valid(&schema, &json!(text)), accepted, "{} {:?}", pattern, text);
        }
    }
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z./;{}$\"'\\\\ \\n#~*>=-]{0,12}",
        "\\PC{0,12}",
        "[0-9.]{1,3}[KMGTmkn]?i?",
        "-(D|X|XX:)[a-zA-Z=\\n ]{0,8}",
        "(s3:|)//?[a-z:@/,]{0,8}",
        "[a-z][a-z0-9-]{0,8}"
    ]
}
