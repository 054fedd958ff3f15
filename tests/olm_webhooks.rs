//! The webhooks of an operator are in its ClusterServiceVersion as OLM takes them, and what OLM makes itself is not in the bundle.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/gadgets.rs"]
mod gadgets;

use proptest::prelude::*;
use roadstead::olm::manifests::{list, text};
use roadstead::olm::{Tree, yaml};
use rstest::rstest;
use serde_json::{Value, json};

fn file(tree: &Tree, name: &str) -> Value {
    let text = tree.get(format!("bundle/manifests/{name}")).unwrap();
    yaml::parse(name, text).unwrap().remove(0)
}

fn csv(tree: &Tree) -> Value {
    file(tree, "gadgets.clusterserviceversion.yaml")
}

/// The manifests with one text in the place of another.
fn changed(old: &str, new: &str) -> Vec<String> {
    let documents = gadgets::documents().join("\n---\n");
    assert!(documents.contains(old), "the manifests hold {old}");
    vec![documents.replace(old, new)]
}

fn refused(documents: &[String]) -> String {
    gadgets::bundle_of(documents).unwrap_err().to_string()
}

#[test]
fn webhooks_of_all_types_are_in_the_cluster_service_version() {
    insta::assert_yaml_snapshot!(csv(&gadgets::bundle())["spec"]["webhookdefinitions"]);
}

#[test]
fn what_olm_makes_itself_is_not_in_the_bundle() {
    let tree = gadgets::bundle();
    let manifests = tree
        .files()
        .filter_map(|(path, _)| path.strip_prefix("bundle/manifests").ok());
    assert_eq!(
        manifests
            .map(|path| path.display().to_string())
            .collect::<Vec<_>>(),
        [
            "example.org_cranks.yaml",
            "example.org_gadgets.yaml",
            "gadgets.clusterserviceversion.yaml",
            "metrics_v1_service.yaml",
        ],
        "no configuration, no Service for webhooks alone, no Certificate and no Issuer"
    );
}

#[test]
fn a_definition_is_shipped_without_conversion_and_without_what_would_put_another_authority_into_it() {
    let tree = gadgets::bundle();
    let (gadgets, cranks) = (
        file(&tree, "example.org_gadgets.yaml"),
        file(&tree, "example.org_cranks.yaml"),
    );
    assert_eq!(gadgets["spec"].get("conversion"), None);
    assert_eq!(gadgets["metadata"], json!({"name": "gadgets.example.org"}));
    assert_eq!(
        cranks["metadata"]["annotations"],
        json!({"example.org/keep": "this"})
    );
}

#[test]
fn the_pods_mount_no_certificate_where_olm_mounts_its_own() {
    let csv = csv(&gadgets::bundle());
    let pod = csv
        .pointer("/spec/install/spec/deployments/0/spec/template/spec")
        .unwrap();
    assert_eq!(pod["volumes"], json!([{"name": "scratch", "emptyDir": {}}]));
    assert_eq!(
        pod["containers"][0]["volumeMounts"],
        json!([{"name": "scratch", "mountPath": "/tmp/scratch"}])
    );
}

/// OLM waits for each owned version to be served, and consoles show an example of each.
#[test]
fn each_served_version_is_owned_and_keeps_its_example() {
    let csv = csv(&gadgets::bundle());
    let owned = list(&csv, "/spec/customresourcedefinitions/owned").iter();
    let owned: Vec<_> = owned
        .map(|crd| (text(crd, "/kind"), text(crd, "/version")))
        .collect();
    assert_eq!(owned, [("Crank", "v1"), ("Gadget", "v1"), ("Gadget", "v1alpha1")]);
    let paths = |index: usize| {
        let pointer = format!("/spec/customresourcedefinitions/owned/{index}/specDescriptors");
        let descriptors = list(&csv, &pointer).iter();
        descriptors.map(|it| text(it, "/path")).collect::<Vec<_>>()
    };
    assert_eq!((paths(1), paths(2)), (vec!["toothCount"], vec!["teeth"]));
    let examples: Value = serde_json::from_str(text(&csv, "/metadata/annotations/alm-examples")).unwrap();
    let versions = list(&examples, "")
        .iter()
        .map(|example| (text(example, "/kind"), text(example, "/apiVersion")));
    assert_eq!(
        versions.collect::<Vec<_>>(),
        [
            ("Gadget", "example.org/v1"),
            ("Gadget", "example.org/v1alpha1"),
            ("Crank", "example.org/v1")
        ]
    );
}

#[test]
fn what_the_base_says_of_a_webhook_wins_and_needs_no_service() {
    let told = "  webhookdefinitions:
    - type: ValidatingAdmissionWebhook
      generateName: vgadget.example.org
      admissionReviewVersions: [v1]
      deploymentName: manager
      targetPort: webhook
      sideEffects: None
    - type: ConversionWebhook
      generateName: own.example.org
      admissionReviewVersions: [v1]
      conversionCRDs: [gadgets.example.org]
      deploymentName: manager
      targetPort: webhook
      sideEffects: None
";
    let tree = gadgets::bundle_of(&changed(
        "  provider: {name: Gadget makers}",
        &format!("  provider: {{name: Gadget makers}}\n{told}"),
    ));
    let csv = csv(&tree.unwrap());
    let definitions = list(&csv, "/spec/webhookdefinitions").iter();
    let told = definitions.map(|it| {
        let crds = list(it, "/conversionCRDs").iter().filter_map(Value::as_str);
        (
            text(it, "/generateName"),
            text(it, "/webhookPath"),
            crds.collect::<Vec<_>>(),
        )
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            ("ccranks.example.org", "/convert", vec!["cranks.example.org"]),
            ("mgadget.example.org", "/mutate-gadget", vec![]),
            ("own.example.org", "", vec!["gadgets.example.org"]),
            ("vcrank.example.org", "/validate-crank", vec![]),
            ("vgadget.example.org", "", vec![]),
        ]
    );
    assert_eq!(
        csv.pointer("/spec/webhookdefinitions/2/containerPort"),
        Some(&json!(443)),
        "OLM v1 would take a missing one for 0"
    );
}

#[rstest]
#[case::a_port_of_its_own(
    "ports: [{port: 443, targetPort: webhook}]",
    "ports: [{port: 443, targetPort: webhook}, {port: 80}]"
)]
#[case::named_by_a_console_plugin(
    "spec: {selfSigned: {}}",
    "spec: {selfSigned: {}}\n---\n{apiVersion: console.openshift.io/v1, kind: ConsolePlugin, metadata: {name: show}, \
     spec: {backend: {service: {name: webhook-service, port: 443}}}}"
)]
fn a_service_that_something_else_needs_is_shipped(#[case] old: &str, #[case] new: &str) {
    let tree = gadgets::bundle_of(&changed(old, new)).unwrap();
    assert!(
        tree.get("bundle/manifests/webhook-service_v1_service.yaml")
            .is_some()
    );
}

/// cert-manager's objects cannot be in a bundle, so one that is not for webhooks is named.
#[rstest]
#[case::certificate(
    "{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: metrics}, \
     spec: {dnsNames: [metrics.gadgets-system.svc], issuerRef: {name: other}, secretName: m}}",
    "Certificate metrics"
)]
#[case::issuer(
    "{apiVersion: cert-manager.io/v1, kind: Issuer, metadata: {name: other}, spec: {}}",
    "Issuer other"
)]
fn a_certificate_for_something_else_is_refused_by_name(#[case] object: &str, #[case] label: &str) {
    let mut documents = gadgets::documents();
    documents.push(object.to_owned());
    let message = format!(
        "all.yaml: a bundle cannot hold {label}; leave the file out of --input, or let the operator create the object"
    );
    assert_eq!(refused(&documents), message);
}

const CHECK: &str = "all.yaml: ValidatingWebhookConfiguration validating, webhook vgadget.example.org: ";
const RULES: &str = "{apiGroups: [example.org], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [gadgets], scope: Namespaced}";

#[rstest]
#[case::all_groups(
    "[\"*\"]",
    "[gadgets]",
    "rules[0].apiGroups is [\"*\"]; OLM forbids a rule for all groups; name each"
)]
#[case::olms_group(
    "[operators.coreos.com]",
    "[subscriptions]",
    "rules[0].apiGroups is [\"operators.coreos.com\"]; OLM forbids rules for its own groups"
)]
#[case::olm_v1s_group(
    "[olm.operatorframework.io]",
    "[clusterextensions]",
    "rules[0].apiGroups is [\"olm.operatorframework.io\"]; OLM forbids rules for its own groups"
)]
#[case::all_of_admission(
    "[admissionregistration.k8s.io]",
    "[\"*\"]",
    "rules[0].resources is [\"*\"]; OLM forbids rules for webhook configurations; name other resources of admissionregistration.k8s.io"
)]
#[case::webhook_configurations(
    "[admissionregistration.k8s.io]",
    "[validatingwebhookconfigurations]",
    "rules[0].resources is [\"validatingwebhookconfigurations\"]; OLM forbids rules for webhook configurations; name other resources of \
     admissionregistration.k8s.io"
)]
fn rules_that_olm_forbids_are_refused(#[case] groups: &str, #[case] resources: &str, #[case] message: &str) {
    let rule =
        format!("{{apiGroups: {groups}, apiVersions: [v1], operations: [CREATE], resources: {resources}}}");
    assert_eq!(refused(&changed(RULES, &rule)), format!("{CHECK}{message}"));
}

#[test]
fn all_resources_of_a_group_of_ones_own_are_accepted() {
    let rule = "{apiGroups: [example.org], apiVersions: [v1], operations: [CREATE], resources: [\"*\"]}";
    gadgets::bundle_of(&changed(RULES, rule)).unwrap();
}

#[rstest]
#[case::url(
    "service: {name: webhook-service, namespace: gadgets-system, path: /validate-gadget, port: 443}",
    "url: https://example.org/check",
    "clientConfig.url is \"https://example.org/check\"; OLM sets up webhooks of the bundle's own Deployments alone; name the Service of \
     one in clientConfig.service"
)]
#[case::no_such_service(
    "service: {name: webhook-service, namespace: gadgets-system, path: /validate-gadget, port: 443}",
    "service: {name: other, namespace: gadgets-system}",
    "clientConfig.service.name is \"other\"; it must name a Service of the manifests, which have the Services metrics, webhook-service"
)]
#[case::no_such_port(
    "path: /validate-gadget, port: 443",
    "path: /validate-gadget, port: 9443",
    "clientConfig.service.port is 9443; Service webhook-service has the port 443"
)]
#[case::no_v1(
    "  - name: vgadget.example.org\n    admissionReviewVersions: [v1]",
    "  - name: vgadget.example.org\n    admissionReviewVersions: [v1beta1]",
    "admissionReviewVersions is [\"v1beta1\"]; v1 must be among them, the only version that API servers speak by now"
)]
#[case::side_effects(
    "    sideEffects: None\n    timeoutSeconds: 5",
    "    sideEffects: Some",
    "sideEffects is \"Some\"; accepted are None and NoneOnDryRun"
)]
#[case::namespaces(
    "namespaceSelector: {}",
    "namespaceSelector: {matchLabels: {a: b}}",
    "namespaceSelector is {\"matchLabels\":{\"a\":\"b\"}}; leave it out: OLM selects the namespaces of the OperatorGroup, and a \
     ClusterServiceVersion can say only objectSelector"
)]
#[case::conditions(
    "namespaceSelector: {}",
    "matchConditions: [{name: a, expression: \"true\"}]",
    "matchConditions is [{\"expression\":\"true\",\"name\":\"a\"}]; leave it out and decide in the webhook: a ClusterServiceVersion can \
     say only rules and objectSelector"
)]
#[case::a_field_of_the_future(
    "namespaceSelector: {}",
    "mood: good",
    "mood is \"good\"; leave it out: a ClusterServiceVersion has no such field"
)]
fn what_cannot_be_said_of_a_webhook_is_refused(#[case] old: &str, #[case] new: &str, #[case] message: &str) {
    assert_eq!(refused(&changed(old, new)), format!("{CHECK}{message}"));
}

#[rstest]
#[case::a_name_of_two_parts(
    "name: vgadget.example.org",
    "name: vgadget.org",
    "all.yaml: ValidatingWebhookConfiguration validating, webhook vgadget.org: generateName is \"vgadget.org\"; it must be lower-case \
     letters, digits and dashes, in at least 3 parts with dots between, and at most 63 characters"
)]
#[case::one_name_twice(
    "name: mgadget.example.org",
    "name: vgadget.example.org",
    "all.yaml: ValidatingWebhookConfiguration validating, webhook vgadget.example.org: generateName is \"vgadget.example.org\"; \
     vgadget.example.org is taken already by all.yaml: MutatingWebhookConfiguration mutating, webhook vgadget.example.org; each may be \
     there once"
)]
#[case::service_of_nobody(
    "selector: {component: webhook}",
    "selector: {component: other}",
    "all.yaml: Service webhook-service: spec.selector is {\"component\":\"other\"}; it must select the pods of exactly one Deployment, \
     which serves the webhooks, and selects those of no Deployment"
)]
#[case::service_of_several(
    "spec: {selfSigned: {}}",
    "spec: {selfSigned: {}}\n---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: other}, \
     spec: {template: {metadata: {labels: {component: webhook}}}}}",
    "all.yaml: Service webhook-service: spec.selector is {\"component\":\"webhook\"}; it must select the pods of exactly one Deployment, \
     which serves the webhooks, and selects those of the Deployments manager, other"
)]
#[case::a_dot_in_the_deployments_name(
    "kind: Deployment\nmetadata: {name: manager,",
    "kind: Deployment\nmetadata: {name: my.manager,",
    "all.yaml: CustomResourceDefinition cranks.example.org: deploymentName is \"my.manager\"; OLM makes the Service my.manager-service for \
     it, so it must begin with a letter, have no dot, and at most 55 characters"
)]
#[case::no_label_to_select_by(
    "selector: {matchLabels: {app: manager}}",
    "selector: {matchExpressions: [{key: app, operator: Exists}]}",
    "Deployment manager: spec.selector.matchLabels is null; OLM's Service for the webhooks selects the pods by it, so it needs a label"
)]
#[case::olms_service(
    "metadata: {name: metrics, namespace",
    "metadata: {name: manager-service, namespace",
    "Service manager-service: metadata.name is \"manager-service\"; OLM makes a Service of this name for the webhooks; choose another"
)]
#[case::other_install_modes(
    "{type: OwnNamespace, supported: false}",
    "{type: OwnNamespace, supported: true}",
    "the ClusterServiceVersion: supported spec.installModes is [\"OwnNamespace\",\"AllNamespaces\"]; a conversion webhook \
     (ccranks.example.org) needs AllNamespaces as the only one that is supported"
)]
#[case::unknown_fields_kept(
    "  names: {kind: Crank,",
    "  preserveUnknownFields: true\n  names: {kind: Crank,",
    "CustomResourceDefinition cranks.example.org: spec.preserveUnknownFields is true; only false is accepted of a definition that a \
     webhook converts"
)]
#[case::conversion_by_nobody(
    "        service: {name: webhook-service, namespace: gadgets-system, path: /convert}\n  versions:\n    - name: v1\n",
    "        caBundle: eA==\n  versions:\n    - name: v1\n",
    "all.yaml: CustomResourceDefinition cranks.example.org: spec.conversion.webhook.clientConfig.service.name is \"\"; it must name a \
     Service of the manifests, which have the Services metrics, webhook-service"
)]
#[case::two_target_ports(
    "ports: [{port: 443, targetPort: webhook}]",
    "ports: [{port: 443, targetPort: webhook}]\n---\n{apiVersion: v1, kind: Service, metadata: {name: metrics2}, \
     spec: {selector: {app: manager}, ports: [{port: 443, targetPort: 9444}]}}\n---\n\
     {apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: more}, webhooks: \
     [{name: a.example.org, admissionReviewVersions: [v1], sideEffects: None, clientConfig: {service: {name: metrics2}}}]}",
    "all.yaml: CustomResourceDefinition cranks.example.org: targetPort is \"webhook\"; all.yaml: MutatingWebhookConfiguration more, webhook \
     a.example.org has 9444 behind the same port 443, and OLM makes one Service port of both; give them one targetPort, or two ports"
)]
fn what_olm_would_fail_on_is_refused(#[case] old: &str, #[case] new: &str, #[case] message: &str) {
    assert_eq!(refused(&changed(old, new)), message);
}

#[rstest]
#[case::of_nobody(
    "bolts.example.org",
    "conversionCRDs is [\"bolts.example.org\"]; bolts.example.org must be a CustomResourceDefinition of the manifests"
)]
#[case::none(
    "",
    "conversionCRDs is []; it must name the definitions that the webhook converts"
)]
#[case::of_one_twice(
    "gadgets.example.org, gadgets.example.org",
    "conversionCRDs is [\"gadgets.example.org\",\"gadgets.example.org\"]; gadgets.example.org is taken already by \
     webhook own.example.org of the ClusterServiceVersion; each may be there once"
)]
fn a_conversion_that_the_base_tells_must_be_of_the_bundles_own(#[case] crds: &str, #[case] message: &str) {
    let told = format!(
        "  provider: {{name: Gadget makers}}\n  webhookdefinitions:\n    - {{type: ConversionWebhook, generateName: own.example.org, \
         admissionReviewVersions: [v1], conversionCRDs: [{crds}], deploymentName: manager, targetPort: webhook, sideEffects: None}}\n"
    );
    let message = format!("webhook own.example.org of the ClusterServiceVersion: {message}");
    assert_eq!(
        refused(&changed("  provider: {name: Gadget makers}", &told)),
        message
    );
}

const ELSEWHERE: &str = "OLM makes the certificate and mounts it at /tmp/k8s-webhook-server/serving-certs (tls.crt and tls.key), in \
     containers that are no init containers; mount it there, and nothing else from a volume webhook-cert or apiservice-cert";

#[rstest]
#[case::another_path(
    "mountPath: /tmp/k8s-webhook-server/serving-certs, readOnly: true",
    "mountPath: /certs",
    "Deployment manager: mountPath of volume cert in container manager is \"/certs\"; "
)]
#[case::an_init_container(
    "      containers:\n",
    "      initContainers:\n        - {name: look, image: tools, volumeMounts: [{name: cert, mountPath: /certs}]}\n      containers:\n",
    "Deployment manager: mountPath of volume cert in container look is \"/certs\"; "
)]
#[case::a_volume_of_olms_name(
    "{name: scratch, mountPath: /tmp/scratch}\n      volumes:\n",
    "{name: webhook-cert, mountPath: /tmp/scratch}\n      volumes:\n        - {name: webhook-cert, emptyDir: {}}\n",
    "Deployment manager: mountPath of volume webhook-cert in container manager is \"/tmp/scratch\"; "
)]
fn a_certificate_that_the_pods_would_not_find_is_refused(
    #[case] old: &str,
    #[case] new: &str,
    #[case] message: &str,
) {
    assert_eq!(refused(&changed(old, new)), format!("{message}{ELSEWHERE}"));
}

/// The documents in any order. Samples keep theirs, which is the author's: a console shows the first one.
fn shuffled() -> impl Strategy<Value = Vec<String>> {
    let is_sample = |document: &String| document.starts_with("apiVersion: example.org/");
    let (samples, others): (Vec<_>, Vec<_>) = gadgets::documents().into_iter().partition(is_sample);
    Just(others)
        .prop_shuffle()
        .prop_map(move |others| [others, samples.clone()].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn documents_in_any_order_make_the_same_bytes(documents in shuffled()) {
        prop_assert_eq!(gadgets::bundle_of(&documents).unwrap(), gadgets::bundle());
    }
}
