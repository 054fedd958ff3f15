//! The webhook's certificates and the way to it, at a real API server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test fails by panicking

#[path = "support/apiserver.rs"]
mod apiserver;
#[path = "support/tls_server.rs"]
mod tls_server;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use apiserver::{ApiServer, within};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use roadstead::olm::OPENED;
use roadstead::pki::authority::{self, BUNDLE, CERTIFICATE, Data};
use roadstead::pki::trust::vouches;
use roadstead::runtime::clock::Clock;
use roadstead::webhook::certificates::injection::{Converted, Injector, Targets};
use roadstead::webhook::certificates::secret::AuthoritySecret;
use roadstead::webhook::certificates::{Certificates, SUBJECT, Served, Trust, WebhookService};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// On a busy machine; each test says for itself what took how long.
const LIMIT: Duration = Duration::from_secs(20);

fn service() -> WebhookService {
    WebhookService {
        namespace: "roadstead-system".into(),
        name: "roadstead-webhook".into(),
        port: 443,
    }
}

/// A new authority, and what it issued: both as they are served and as the Secret holds them.
fn issued(names: &BTreeSet<String>) -> (Served, Data) {
    let step = authority::step(&Data::new(), &SUBJECT, names, Timestamp::now()).unwrap();
    (step.served, step.write.unwrap().data)
}

fn encoded(pem: &ByteString) -> Value {
    json!(pem)
}

fn certificates(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .unwrap()
}

/// An injector for these targets, that serves with this.
fn inject(client: &Client, targets: Targets, served: &Served) -> JoinSet<std::convert::Infallible> {
    let certificates = Certificates::default();
    certificates.publish(served.clone());
    let targets = Targets {
        conversion_path: "/convert".into(),
        opened: OPENED,
        ..targets
    };
    let injector = Injector::new(client.clone(), service(), targets, Clock::system());
    let mut running = JoinSet::new();
    running.spawn(injector.follow(certificates));
    running
}

fn converted(name: &str) -> Converted {
    Converted {
        name: name.to_owned(),
        versions: vec!["v1alpha1".into(), "v1".into()],
    }
}

/// Defines a kind with two versions and this conversion, and returns the definition's name.
async fn define(client: &Client, plural: &str, conversion: Value) -> String {
    let version = |name: &str, storage: bool| {
        let schema =
            json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        json!({"name": name, "served": true, "storage": storage, "schema": schema})
    };
    let name = format!("{plural}.certificates.test");
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": "certificates.test",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural, "kind": plural.to_uppercase(), "listKind": format!("{}LIST", plural.to_uppercase())},
            "versions": [version("v1alpha1", true), version("v1", false)],
            "conversion": conversion,
        },
    });
    create::<CustomResourceDefinition>(client, definition).await;
    name
}

async fn create<K>(client: &Client, object: Value) -> K
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize,
{
    let object: K = serde_json::from_value(object).unwrap();
    Api::all(client.clone())
        .create(&PostParams::default(), &object)
        .await
        .unwrap()
}

async fn get<K>(client: &Client, name: &str) -> Value
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize,
{
    let object: K = Api::all(client.clone()).get(name).await.unwrap();
    serde_json::to_value(object).unwrap()
}

async fn patch<K>(client: &Client, name: &str, patch: Value)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize,
{
    let api: Api<K> = Api::all(client.clone());
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

async fn conversion(client: &Client, name: &str) -> Value {
    get::<CustomResourceDefinition>(client, name).await["spec"]["conversion"].clone()
}

/// The conversion as it has to be, with this bundle.
fn right(bundle: &ByteString) -> Value {
    json!({
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {
                "service": {"namespace": "roadstead-system", "name": "roadstead-webhook", "port": 443, "path": "/convert"},
                "caBundle": encoded(bundle),
            },
            "conversionReviewVersions": ["v1"],
        },
    })
}

async fn until_it_is(client: &Client, name: &str, expected: &Value) {
    let started = Instant::now();
    within(LIMIT, &format!("{name} leads to us"), async || {
        conversion(client, name).await == *expected
    })
    .await;
    println!("{name}: right after {:?}", started.elapsed());
}

#[tokio::test]
async fn replicas_that_start_at_once_on_an_empty_secret_end_with_one_authority_and_one_certificate() {
    let server = ApiServer::shared();
    let namespace = server.namespace("one-authority").await;
    let secrets: Api<Secret> = Api::namespaced(server.client().await, &namespace);
    let empty = json!({"metadata": {"name": "certificates", "labels": {"kept": "yes"}}, "type": "Opaque"});
    let empty: Secret = serde_json::from_value(empty).unwrap();
    secrets.create(&PostParams::default(), &empty).await.unwrap();

    let names = service().dns_names("cluster.local");
    let mut running = JoinSet::new();
    let mut replicas = Vec::new();
    for _ in 0..3 {
        let certificates = Certificates::default();
        let client = server.client().await;
        let secret = AuthoritySecret::new(client, &namespace, "certificates", names.clone(), Clock::system());
        running.spawn(secret.follow(certificates.clone()));
        replicas.push(certificates);
    }
    within(LIMIT, "all replicas serve", async || {
        replicas.iter().all(|replica| replica.current().is_some())
    })
    .await;

    let secret = secrets.get("certificates").await.unwrap();
    assert_eq!(secret.labels()["kept"], "yes");
    let data = secret.data.unwrap();
    for replica in &replicas {
        let served = replica.current().unwrap();
        assert_eq!(served.trust, Trust::Authorities(certificates(&data[BUNDLE].0)));
        assert_eq!(served.pair.chain(), certificates(&data[CERTIFICATE].0));
        assert_eq!(served.pair.dns_names(), &names);
    }
    assert_eq!(certificates(&data[BUNDLE].0).len(), 1);
}

#[tokio::test]
async fn a_conversion_that_was_taken_away_is_back_within_seconds() {
    let client = ApiServer::shared().client().await;
    let (served, data) = issued(&service().dns_names("cluster.local"));
    let name = define(&client, "taken", json!({"strategy": "None"})).await;
    let targets = Targets {
        definitions: vec![converted(&name)],
        ..Targets::default()
    };
    let _running = inject(&client, targets, &served);
    until_it_is(&client, &name, &right(&data[BUNDLE])).await;

    // As OLM replaces a definition: all of it, and without conversion.
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for _ in 0..3 {
        let mut definition = definitions.get(&name).await.unwrap();
        definition.spec.conversion = None;
        definitions
            .replace(&name, &PostParams::default(), &definition)
            .await
            .unwrap();
        let started = Instant::now();
        until_it_is(&client, &name, &right(&data[BUNDLE])).await;
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "{:?}",
            started.elapsed()
        );
    }

    let (_, other) = issued(&["other".to_owned()].into());
    let bundle =
        json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": encoded(&other[BUNDLE])}}}}});
    patch::<CustomResourceDefinition>(&client, &name, bundle).await;
    let both = ByteString([&data[BUNDLE].0[..], &other[BUNDLE].0].concat());
    until_it_is(&client, &name, &right(&both)).await;
}

/// As under OLM.
const PATIENCE: Duration = Duration::from_secs(5);

async fn take_the_conversion_away(client: &Client, name: &str) {
    let none = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
    patch::<CustomResourceDefinition>(client, name, none).await;
}

#[tokio::test]
async fn an_open_version_is_closed_within_a_second_and_opened_with_the_conversion_after_the_patience() {
    let client = ApiServer::shared().client().await;
    let (served, data) = issued(&service().dns_names("cluster.local"));
    let name = define(&client, "open", right(&data[BUNDLE])).await;
    let annotations = json!({"metadata": {"annotations": {OPENED: "v1"}}});
    patch::<CustomResourceDefinition>(&client, &name, annotations).await;
    let targets = Targets {
        definitions: vec![converted(&name)],
        patience: PATIENCE,
        ..Targets::default()
    };
    let _running = inject(&client, targets, &served);
    let is_open = async || {
        let definition = get::<CustomResourceDefinition>(&client, &name).await;
        assert_eq!(
            definition["spec"]["versions"][0]["served"], true,
            "what is stored"
        );
        definition["spec"]["versions"][1]["served"] == true
    };
    // The second time falls into no round that is under way.
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(is_open().await, "it is right");
        take_the_conversion_away(&client, &name).await;
        let started = Instant::now();
        within(LIMIT, "v1 is closed", async || !is_open().await).await;
        let closed = started.elapsed();
        until_it_is(&client, &name, &right(&data[BUNDLE])).await;
        let healed = started.elapsed();
        println!("closed after {closed:?}, healed after {healed:?}");
        assert!(is_open().await, "opened by the same write");
        assert!(closed < Duration::from_secs(1), "{closed:?}");
        assert!(
            (PATIENCE..PATIENCE + Duration::from_secs(2)).contains(&healed),
            "{healed:?}"
        );
    }
}

#[tokio::test]
async fn what_somebody_else_puts_right_within_the_patience_is_not_written() {
    let client = ApiServer::shared().client().await;
    let (served, data) = issued(&service().dns_names("cluster.local"));
    let name = define(&client, "brief", right(&data[BUNDLE])).await;
    let targets = Targets {
        definitions: vec![converted(&name)],
        patience: PATIENCE,
        ..Targets::default()
    };
    let _running = inject(&client, targets, &served);
    let version = async || {
        let definition = get::<CustomResourceDefinition>(&client, &name).await;
        definition["metadata"]["resourceVersion"].clone()
    };
    // A while after the start, so that a wait which began then would end too soon.
    tokio::time::sleep(Duration::from_secs(4)).await;
    take_the_conversion_away(&client, &name).await;
    let taken = version().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(version().await, taken);
    let back = json!({"spec": {"conversion": right(&data[BUNDLE])}});
    patch::<CustomResourceDefinition>(&client, &name, back).await;
    let put_right = version().await;
    tokio::time::sleep(PATIENCE).await;
    assert_eq!(version().await, put_right);
}

#[tokio::test]
async fn under_olm_its_bundle_stays_where_it_vouches_for_us_and_ours_is_added_where_not() {
    let client = ApiServer::shared().client().await;
    let (served, data) = issued(&service().dns_names("cluster.local"));
    let mounted = Served {
        trust: Trust::Theirs,
        ..served
    };
    let name = define(&client, "mounted", json!({"strategy": "None"})).await;
    let targets = Targets {
        definitions: vec![converted(&name)],
        ..Targets::default()
    };
    let _running = inject(&client, targets, &mounted);
    until_it_is(&client, &name, &right(&data[CERTIFICATE])).await;

    let olms = json!({"spec": {"conversion": right(&data[BUNDLE])}});
    patch::<CustomResourceDefinition>(&client, &name, olms).await;
    let definition = get::<CustomResourceDefinition>(&client, &name).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let later = get::<CustomResourceDefinition>(&client, &name).await;
    assert_eq!(
        definition["metadata"]["resourceVersion"],
        later["metadata"]["resourceVersion"]
    );
}

#[tokio::test]
async fn somebody_elses_conversion_stays_while_ours_is_healed() {
    let client = ApiServer::shared().client().await;
    let (served, data) = issued(&service().dns_names("cluster.local"));
    let mut foreign = right(&data[BUNDLE]);
    foreign["webhook"]["clientConfig"]["service"]["name"] = json!("somebody-else");
    let theirs = define(&client, "theirs", foreign.clone()).await;
    let ours = define(&client, "ours", json!({"strategy": "None"})).await;
    let targets = Targets {
        definitions: vec![converted(&theirs), converted(&ours)],
        ..Targets::default()
    };
    let _running = inject(&client, targets, &served);
    // Each round looks at theirs first.
    for _ in 0..2 {
        until_it_is(&client, &ours, &right(&data[BUNDLE])).await;
        take_the_conversion_away(&client, &ours).await;
    }
    until_it_is(&client, &ours, &right(&data[BUNDLE])).await;
    assert_eq!(conversion(&client, &theirs).await, foreign);
}

/// A webhook of a configuration that meets nothing, so that it hinders no test.
fn idle_webhook(name: &str, service: &str) -> Value {
    json!({
        "name": name,
        "clientConfig": {"service": {"namespace": "roadstead-system", "name": service, "path": "/validate"}},
        "rules": [{"apiGroups": ["none.test"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothings"]}],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    })
}

async fn bundles<K>(client: &Client, name: &str) -> Vec<Value>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize,
{
    let webhooks = get::<K>(client, name).await["webhooks"].clone();
    let webhooks = webhooks.as_array().unwrap().iter();
    webhooks
        .map(|webhook| webhook["clientConfig"]["caBundle"].clone())
        .collect()
}

async fn the_bundles_of_a_configuration_are_put_back<K>(kind: &str, name: &str, targets: Targets)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize,
{
    let client = ApiServer::shared().client().await;
    let (served, data) = issued(&service().dns_names("cluster.local"));
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": [idle_webhook("ours.none.test", "roadstead-webhook"), idle_webhook("theirs.none.test", "somebody-else")],
    });
    let webhooks = configuration["webhooks"].clone();
    create::<K>(&client, configuration).await;
    let _running = inject(&client, targets, &served);
    for _ in 0..2 {
        within(LIMIT, &format!("the bundle of {name} is ours"), async || {
            bundles::<K>(&client, name).await == [encoded(&data[BUNDLE]), Value::Null]
        })
        .await;
        // As whoever applies the manifests again takes it away.
        patch::<K>(&client, name, json!({"webhooks": webhooks})).await;
    }
}

#[tokio::test]
async fn the_bundle_of_a_validating_webhook_is_put_back() {
    let targets = Targets {
        validating: vec!["validating-test".into()],
        ..Targets::default()
    };
    let kind = "ValidatingWebhookConfiguration";
    the_bundles_of_a_configuration_are_put_back::<ValidatingWebhookConfiguration>(
        kind,
        "validating-test",
        targets,
    )
    .await;
}

#[tokio::test]
async fn the_bundle_of_a_mutating_webhook_is_put_back() {
    let targets = Targets {
        mutating: vec!["mutating-test".into()],
        ..Targets::default()
    };
    let kind = "MutatingWebhookConfiguration";
    the_bundles_of_a_configuration_are_put_back::<MutatingWebhookConfiguration>(
        kind,
        "mutating-test",
        targets,
    )
    .await;
}

/// What `trust` says of Go's rules is what the API server does; above all that a certificate vouches for itself.
#[tokio::test]
async fn the_api_server_trusts_what_we_say_that_it_trusts() {
    let server = ApiServer::shared();
    let (client, namespace) = (server.client().await, server.namespace("trust").await);
    let names = ["localhost".to_owned()].into();
    let ((served, data), (_, other)) = (issued(&names), issued(&names));
    let holder = Certificates::default();
    holder.publish(served.clone());
    let webhook = tls_server::start(holder);

    let name = "trust-test";
    let mut hook = idle_webhook("trust.none.test", "unused");
    let url = format!("https://localhost:{}/validate", webhook.port);
    hook["clientConfig"] = json!({"url": url, "caBundle": encoded(&other[BUNDLE])});
    hook["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
    hook["rules"] = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]);
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [hook],
    });
    create::<ValidatingWebhookConfiguration>(&client, configuration).await;

    let objects: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let object: ConfigMap = serde_json::from_value(json!({"metadata": {"generateName": "a-"}})).unwrap();
    for bundle in [
        &other[BUNDLE],
        &data[CERTIFICATE],
        &other[CERTIFICATE],
        &data[BUNDLE],
    ] {
        let trusted = certificates(&bundle.0);
        let expected = vouches(&trusted, &served.pair, "localhost", Timestamp::now());
        assert_eq!(expected, bundle == &data[CERTIFICATE] || bundle == &data[BUNDLE]);
        hook["clientConfig"]["caBundle"] = encoded(bundle);
        patch::<ValidatingWebhookConfiguration>(&client, name, json!({"webhooks": [hook]})).await;
        let answered = webhook.answered();
        within(
            LIMIT,
            &format!("the webhook is trusted: {expected}"),
            async || match objects.create(&PostParams::default(), &object).await {
                Ok(_) => expected && webhook.answered() > answered,
                Err(error) => {
                    !expected
                        && error
                            .to_string()
                            .contains("x509: certificate signed by unknown authority")
                }
            },
        )
        .await;
    }
}
