//! A bundle says of an operator what its manifests say, whoever's operator it is.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/widgets.rs"]
mod widgets;

use roadstead::olm::catalog::{Rendered, deprecations};
use roadstead::olm::manifests::text;
use roadstead::olm::{Manifests, bundle, csv, yaml};
use rstest::rstest;
use serde_json::Value;

fn csv_of(version: &str) -> Value {
    let tree = widgets::bundle(version);
    let text = tree
        .get("bundle/manifests/widgets.clusterserviceversion.yaml")
        .unwrap();
    yaml::parse(version, text).unwrap().pop().unwrap()
}

#[test]
fn the_cluster_service_version_is_the_base_and_what_the_manifests_say() {
    insta::assert_yaml_snapshot!(csv_of("1.2.3"));
}

#[test]
fn the_bundle_holds_what_the_csv_does_not_stand_for() {
    let tree = widgets::bundle("1.2.3");
    let files: Vec<_> = tree.files().map(|(path, _)| path.display().to_string()).collect();
    assert_eq!(
        files,
        [
            "bundle/manifests/example.org_widgets.yaml",
            "bundle/manifests/manager-metrics_v1_service.yaml",
            "bundle/manifests/widgets.clusterserviceversion.yaml",
            "bundle/manifests/widgets_3Aviewer_v1_clusterrole.yaml",
            "bundle/metadata/annotations.yaml",
            "bundle/tests/scorecard/config.yaml",
            "bundle.Dockerfile",
        ],
        "no Namespace, no ServiceAccount of a Deployment, no role that is in the CSV"
    );
}

#[test]
fn a_shipped_object_has_no_namespace_and_a_definition_neither_conversion_nor_status() {
    let tree = widgets::bundle("1.2.3");
    assert!(
        !tree
            .get("bundle/manifests/manager-metrics_v1_service.yaml")
            .unwrap()
            .contains("namespace")
    );
    let crd: Value = yaml::parse(
        "crd",
        tree.get("bundle/manifests/example.org_widgets.yaml").unwrap(),
    )
    .unwrap()
    .remove(0);
    assert!(crd.get("status").is_none() && crd.pointer("/spec/conversion").is_none());
    assert_eq!(
        crd.pointer("/spec/versions").unwrap().as_array().unwrap().len(),
        2,
        "versions stay as they are"
    );
}

/// OLM would wait for it ("CRD version not served").
#[test]
fn a_version_that_is_not_served_is_not_owned() {
    let csv = csv_of("1.2.3");
    let owned = roadstead::olm::manifests::list(&csv, "/spec/customresourcedefinitions/owned");
    let versions: Vec<&str> = owned.iter().map(|crd| text(crd, "/version")).collect();
    assert_eq!(versions, ["v1"]);
}

#[test]
fn metadata_and_dockerfile_name_package_and_channels() {
    let tree = widgets::bundle("1.2.3");
    insta::assert_snapshot!(tree.get("bundle/metadata/annotations.yaml").unwrap());
    insta::assert_snapshot!(tree.get("bundle.Dockerfile").unwrap());
}

#[test]
fn the_operators_image_is_replaced_where_it_runs_and_where_it_hears_of_itself() {
    let csv = csv_of("1.2.3");
    let spec = "/spec/install/spec/deployments/0/spec/template/spec/containers/0";
    assert_eq!(
        text(&csv, &format!("{spec}/image")),
        "localhost:5000/manager:v1.2.3"
    );
    assert_eq!(
        text(&csv, &format!("{spec}/env/0/value")),
        "localhost:5000/manager:v1.2.3"
    );
    assert_eq!(
        text(&csv, "/metadata/annotations/containerImage"),
        "localhost:5000/manager:v1.2.3"
    );
}

#[test]
fn replaces_is_set_when_there_is_something_to_replace() {
    let mut options = widgets::options("1.2.3");
    options.csv.replaces = Some("widgets.v1.2.2".into());
    let generated = csv::generate(&widgets::manifests(), &options.csv).unwrap();
    assert_eq!(text(&generated.csv, "/spec/replaces"), "widgets.v1.2.2");
    assert!(csv_of("1.2.3").pointer("/spec/replaces").is_none());
}

#[rstest]
#[case::no_base(&["crd.yaml", "operator.yaml"], "the manifests hold 0 ClusterServiceVersions; exactly one is needed as the base that gives description, icon and the like")]
#[case::two_bases(&["base.yaml", "base.yaml", "operator.yaml"], "the manifests hold 2 ClusterServiceVersions; exactly one is needed as the base that gives description, icon and the like")]
#[case::no_deployment(&["base.yaml", "crd.yaml"], "the manifests hold no Deployment; the one that runs the operator is needed")]
fn manifests_that_do_not_make_a_bundle_are_refused(#[case] files: &[&str], #[case] message: &str) {
    let text: Vec<String> = files.iter().map(|file| widgets::fixture(file)).collect();
    let error = bundle::generate(
        &widgets::manifests_of(&text.join("\n---\n")),
        &widgets::options("1.2.3"),
    )
    .unwrap_err();
    assert_eq!(error.to_string(), message);
}

#[rstest]
#[case::sample_of_an_unserved_version(
    "apiVersion: example.org/v1\n",
    "apiVersion: example.org/v1alpha1\n",
    "sample Widget first: example.org/v1alpha1 is served by none of the CustomResourceDefinitions"
)]
#[case::image_that_nothing_names(
    "    containerImage: example.org/widgets/manager:dev\n",
    "",
    "localhost:5000/manager:v1.2.3 is to take the place of the operator's image, and containers run example.org/tools:1, example.org/widgets/manager:dev; say which one it is by the annotation containerImage of a base ClusterServiceVersion, exactly as its container has it"
)]
#[case::image_that_no_deployment_runs(
    "    containerImage: example.org/widgets/manager:dev\n",
    "    containerImage: example.org/widgets/manager:latest\n",
    "no Deployment runs example.org/widgets/manager:latest, which the base ClusterServiceVersion's annotation containerImage names, so \
     localhost:5000/manager:v1.2.3 cannot take its place; name there the image exactly as the Deployment has it"
)]
fn what_cannot_be_made_sense_of_is_refused_by_name(
    #[case] old: &str,
    #[case] new: &str,
    #[case] message: &str,
) {
    let all = ["base.yaml", "crd.yaml", "operator.yaml", "sample.yaml"]
        .map(widgets::fixture)
        .join("\n---\n");
    assert!(all.contains(old));
    let error = bundle::generate(
        &widgets::manifests_of(&all.replace(old, new)),
        &widgets::options("1.2.3"),
    )
    .unwrap_err();
    assert_eq!(error.to_string(), message);
}

/// An object too much, or one that says what the base does not.
#[rstest]
#[case::kind_that_olm_does_not_install(
    "{apiVersion: batch/v1, kind: CronJob, metadata: {name: sweep}}",
    "all.yaml: a bundle cannot hold CronJob sweep; leave the file out of --input, or let the operator create the object"
)]
#[case::patch_that_looks_like_an_object(
    "{apiVersion: apps/v1, kind: Deployment, metadata: {name: manager, namespace: system}}",
    "all.yaml and all.yaml both hold Deployment manager, and OLM installs both into one namespace; if one is a patch, \
     run `kustomize build` first and give its output to --input, otherwise rename one"
)]
fn what_a_bundle_cannot_hold_is_refused_by_name(#[case] object: &str, #[case] message: &str) {
    let all = ["base.yaml", "crd.yaml", "operator.yaml", "sample.yaml"].map(widgets::fixture);
    let all = format!("{}\n---\n{object}\n", all.join("\n---\n"));
    let error = bundle::generate(&widgets::manifests_of(&all), &widgets::options("1.2.3")).unwrap_err();
    assert_eq!(error.to_string(), message);
}

#[test]
fn samples_are_compared_with_the_schemas_of_their_definitions() {
    let all = ["base.yaml", "crd.yaml", "operator.yaml", "sample.yaml"].map(widgets::fixture);
    let all = all.join("\n---\n");
    assert_eq!(csv::broken_samples(&widgets::manifests_of(&all)), [""; 0]);
    let broken = all.replace(
        "spec: {replicas: 1}",
        "spec: {replicas: many, parts: [{size: tiny}]}",
    );
    let told = [
        "all.yaml: the example Widget first: spec.parts[0].size is \"tiny\"; accepted are \"small\", \"large\"",
        "all.yaml: the example Widget first: spec.replicas is \"many\"; its schema says integer",
    ];
    let mut found = csv::broken_samples(&widgets::manifests_of(&broken));
    found.sort();
    assert_eq!(found, told);
}

/// Role names may have colons, of which nothing is left where a file name has none.
#[test]
fn two_roles_whose_names_look_alike_are_both_shipped() {
    let all = ["base.yaml", "crd.yaml", "operator.yaml", "sample.yaml"].map(widgets::fixture);
    let role = |name: &str| {
        format!(
            "{{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {{name: \"{name}\"}}}}"
        )
    };
    let all = [all.join("\n---\n"), role("op:view"), role("op-view")];
    let manifests = widgets::manifests_of(&all.join("\n---\n"));
    let tree = bundle::generate(&manifests, &widgets::options("1.2.3")).unwrap();
    for (file, name) in [("op_3Aview", "op:view"), ("op-view", "op-view")] {
        let text = tree
            .get(format!("bundle/manifests/{file}_v1_clusterrole.yaml"))
            .unwrap();
        assert!(text.contains(&format!("name: {name}\n")), "{text}");
    }
}

/// Their kinds are of two groups, which the file's name does not say.
#[test]
fn of_two_objects_of_one_file_none_is_lost_without_a_word() {
    let all = ["base.yaml", "crd.yaml", "operator.yaml", "sample.yaml"].map(widgets::fixture);
    let other = "{apiVersion: serving.example.com/v1, kind: Service, metadata: {name: manager-metrics}}";
    let manifests = widgets::manifests_of(&format!("{}\n---\n{other}\n", all.join("\n---\n")));
    let error = bundle::generate(&manifests, &widgets::options("1.2.3")).unwrap_err();
    let told = "bundle/manifests/manager-metrics_v1_service.yaml: two things would be written there; give one of them another name";
    assert_eq!(error.to_string(), told);
}

#[rstest]
#[case::namespace("{apiVersion: v1, kind: Namespace, metadata: {name: other}}")]
#[case::of_olm("{apiVersion: operators.coreos.com/v1, kind: OperatorGroup, metadata: {name: all}}")]
#[case::scorecard(
    "{apiVersion: scorecard.operatorframework.io/v1alpha3, kind: Configuration, metadata: {name: config}}"
)]
#[case::sample_of_the_same_name(
    "{apiVersion: example.org/v1, kind: Widget, metadata: {name: first, namespace: other}}"
)]
fn what_others_stand_for_is_left_out_of_the_bundle(#[case] object: &str) {
    let all = ["base.yaml", "crd.yaml", "operator.yaml", "sample.yaml"].map(widgets::fixture);
    let all = format!("{}\n---\n{object}\n", all.join("\n---\n"));
    let tree = bundle::generate(&widgets::manifests_of(&all), &widgets::options("1.2.3")).unwrap();
    let paths =
        |tree: &roadstead::olm::Tree| -> Vec<_> { tree.files().map(|(path, _)| path.to_owned()).collect() };
    assert_eq!(paths(&tree), paths(&widgets::bundle("1.2.3")));
}

/// As `kubectl get --output yaml` writes it.
#[test]
fn a_list_of_objects_that_were_read_from_a_cluster_makes_the_same_bundle() {
    let files = ["base.yaml", "crd.yaml", "operator.yaml", "sample.yaml"].map(widgets::fixture);
    let objects: Vec<Value> = yaml::parse("all", &files.join("\n---\n")).unwrap();
    let read = objects.into_iter().map(|mut object| {
        for (field, value) in [
            ("resourceVersion", "1"),
            ("uid", "u"),
            ("creationTimestamp", "2026-01-01T00:00:00Z"),
        ] {
            object["metadata"][field] = value.into();
        }
        object
    });
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": read.collect::<Vec<_>>()});
    let manifests = widgets::manifests_of(&list.to_string());
    let tree = bundle::generate(&manifests, &widgets::options("1.2.3")).unwrap();
    assert_eq!(tree, widgets::bundle("1.2.3"));
}

/// Manifests and bundles may be anybody's. A pipe would be waited for without an end.
#[test]
fn what_is_no_file_or_too_large_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    let refused = |wrong: &str, why: &str| {
        let told = |error: roadstead::olm::Error| assert!(error.to_string().contains(why), "{error}");
        told(Manifests::read(&at("manifests")).unwrap_err());
        std::fs::rename(at(wrong), at("metadata/a.yaml")).unwrap();
        let image = |_: &_, _: &str| Ok(String::new());
        told(Rendered::read(folder.path(), image).unwrap_err());
        told(deprecations::read(&at("metadata/a.yaml")).unwrap_err());
        std::fs::remove_file(at("metadata/a.yaml")).unwrap();
    };
    for part in ["manifests", "metadata"] {
        std::fs::create_dir(at(part)).unwrap();
    }
    std::fs::write(at("manifests/base.yaml"), widgets::fixture("base.yaml")).unwrap();
    let pipe = std::process::Command::new("mkfifo")
        .arg(at("manifests/a.yaml"))
        .status();
    assert!(pipe.unwrap().success());
    refused("manifests/a.yaml", "a.yaml: it is no file");
    let large = std::fs::File::create(at("manifests/a.yaml")).unwrap();
    large.set_len(3 << 30).unwrap();
    refused("manifests/a.yaml", "a.yaml: it has 3221225472 bytes; ");
}

/// The fixture's Deployments are in the namespace `widgets`, one of them with the account `default`.
fn with(objects: &str) -> Result<roadstead::olm::Tree, roadstead::olm::Error> {
    let all = ["base.yaml", "crd.yaml", "operator.yaml", "sample.yaml"].map(widgets::fixture);
    let all = format!("{}\n---\n{objects}\n", all.join("\n---\n"));
    bundle::generate(&widgets::manifests_of(&all), &widgets::options("1.2.3"))
}

#[test]
fn the_rights_of_another_namespaces_account_are_shipped_and_given_to_nobody() {
    let tree = with(r"
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: everything}, rules: [{verbs: ['*'], resources: ['*'], apiGroups: ['*']}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: backup}, roleRef: {kind: ClusterRole, name: everything},
 subjects: [{kind: ServiceAccount, name: default, namespace: backup-system}]}
")
    .unwrap();
    let csv = "bundle/manifests/widgets.clusterserviceversion.yaml";
    assert_eq!(tree.get(csv), widgets::bundle("1.2.3").get(csv));
    let binding = tree
        .get("bundle/manifests/backup_v1_clusterrolebinding.yaml")
        .unwrap();
    assert!(binding.contains("namespace: backup-system"), "{binding}");
    assert!(
        tree.get("bundle/manifests/everything_v1_clusterrole.yaml")
            .is_some()
    );
}

#[rstest]
#[case::role_binding(
    "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: lease-too, namespace: other}, \
     roleRef: {kind: ClusterRole, name: manager}, subjects: [{kind: ServiceAccount, name: manager, namespace: widgets}]}",
    "RoleBinding lease-too"
)]
#[case::account(
    "{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: other}}",
    "ServiceAccount default"
)]
fn rights_of_another_namespace_are_refused_by_name(#[case] object: &str, #[case] label: &str) {
    let told = format!(
        "all.yaml: {label}: metadata.namespace is \"other\"; accepted is that of the Deployments, widgets, into which OLM would put it; \
         leave it out of --input, or let the operator create the object"
    );
    assert_eq!(with(object).unwrap_err().to_string(), told);
}

#[test]
fn what_a_service_account_says_for_pods_they_say_and_the_rest_is_told() {
    let all = ["base.yaml", "crd.yaml", "operator.yaml", "sample.yaml"].map(widgets::fixture);
    let all = all.join("\n---\n").replace(
        "metadata: {name: manager, namespace: widgets}\n",
        "metadata: {name: manager, namespace: widgets, annotations: {eks.amazonaws.com/role-arn: arn}}\nimagePullSecrets: [{name: pull}]\n",
    );
    let manifests = widgets::manifests_of(&all);
    let generated = csv::generate(&manifests, &widgets::options("1.2.3").csv).unwrap();
    let pods = "/spec/install/spec/deployments/0/spec/template/spec";
    let secret = text(&generated.csv, &format!("{pods}/imagePullSecrets/0/name"));
    assert_eq!(secret, "pull");
    let told = "all.yaml: ServiceAccount manager: OLM makes the account from its name alone, without \
                metadata.annotations[\"eks.amazonaws.com/role-arn\"]; whoever installs the operator has to add that";
    assert_eq!(csv::not_carried(&manifests).unwrap(), [told]);
}

#[test]
fn rights_of_an_account_that_nobody_has_are_told() {
    let all = ["base.yaml", "crd.yaml", "operator.yaml", "sample.yaml"].map(widgets::fixture);
    let all = all.join("\n---\n").replace(
        "[{kind: ServiceAccount, name: manager, namespace: widgets}]",
        "[{kind: ServiceAccount, name: manger, namespace: widgets}]",
    );
    let told = csv::not_carried(&widgets::manifests_of(&all)).unwrap();
    assert!(!told.is_empty());
    for told in told {
        let end = "gives rights to the ServiceAccount manger, which the manifests do not have, nor does a Deployment run as it; the operator runs as default, manager";
        assert!(told.ends_with(end), "{told}");
    }
}

#[test]
fn what_an_aggregated_role_may_gather_elsewhere_is_told() {
    let all = ["base.yaml", "crd.yaml", "operator.yaml", "sample.yaml"].map(widgets::fixture);
    let all = all.join("\n---\n").replace(
        "metadata: {name: manager}\nrules:\n",
        "metadata: {name: manager}\naggregationRule: {clusterRoleSelectors: [{matchLabels: {part: manager}}]}\nrules: []\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: part, labels: {part: manager}}\nrules:\n",
    );
    let manifests = widgets::manifests_of(&all);
    let generated = csv::generate(&manifests, &widgets::options("1.2.3").csv).unwrap();
    let rules = "/spec/install/spec/clusterPermissions/0/rules/0/apiGroups/0";
    assert_eq!(text(&generated.csv, rules), "example.org");
    let told = "all.yaml: ClusterRole manager: the ClusterServiceVersion holds the rules of those roles of the manifests that its aggregationRule \
                selects; what others add to it in a cluster, the operator may not do";
    assert_eq!(csv::not_carried(&manifests).unwrap(), [told]);
}

#[test]
fn channels_and_their_default_must_agree() {
    let refused = |channels: &[&str], default: &str| {
        let mut options = widgets::options("1.2.3");
        options.channels = channels.iter().map(|&channel| channel.to_owned()).collect();
        options.default_channel = default.to_owned();
        bundle::generate(&widgets::manifests(), &options)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refused(&[], "stable"),
        "channels are empty; name at least one, such as stable"
    );
    assert_eq!(
        refused(&["candidate", "fast"], "stable"),
        "default channel \"stable\" is none of the channels candidate, fast"
    );
    for wrong in ["a\nRUN x", "a b", "a,b", " a", ""] {
        assert_eq!(
            refused(&["stable", wrong], "stable"),
            format!(
                "a channel is {wrong:?}; accepted are names without white space, commas and control characters, such as stable"
            )
        );
    }
}

#[test]
fn a_folder_of_any_name_is_copied_into_the_image() {
    let mut options = widgets::options("1.2.3");
    options.folder = "my bundle".into();
    let tree = bundle::generate(&widgets::manifests(), &options).unwrap();
    let plain = widgets::bundle("1.2.3");
    let copied = |line: &str| {
        let (from, to) = line.strip_prefix("COPY ")?.split_once(' ')?;
        Some(format!("COPY [\"my {from}\",\"{to}\"]"))
    };
    let lines = plain.get("bundle.Dockerfile").unwrap().lines();
    let expected: Vec<String> = lines
        .map(|line| copied(line).unwrap_or_else(|| line.to_owned()))
        .collect();
    let lines: Vec<&str> = tree.get("bundle.Dockerfile").unwrap().lines().collect();
    assert_eq!(lines, expected);
    assert!(
        lines.contains(&"COPY [\"my bundle/metadata\",\"/metadata/\"]"),
        "{lines:?}"
    );
}

#[rstest]
#[case::build_metadata("widgets", "1.0.0+b")]
#[case::capital_letters("widgets", "1.0.0-RC.1")]
#[case::too_long("widgets", "1.0.0-a-pre-release-that-is-as-long-as-a-whole-sentence-of-words")]
#[case::too_long_together("a-package-whose-name-has-sixty-characters-of-the-sixty-three", "1.0.0")]
fn a_version_that_makes_no_name_is_refused(#[case] package: &str, #[case] version: &str) {
    let mut options = widgets::options(version);
    options.csv.package = package.to_owned();
    let told = format!(
        "the ClusterServiceVersion: metadata.name, of package and version, is \"{package}.v{version}\"; accepted are at most 63 lowercase letters, digits, \
         dashes and dots, with letters or digits around each dot"
    );
    let refused = bundle::generate(&widgets::manifests(), &options).unwrap_err();
    assert_eq!(refused.to_string(), told);
}

#[test]
fn a_deployment_whose_name_is_none_is_refused() {
    let refused = with("{apiVersion: apps/v1, kind: Deployment, metadata: {name: A_b}}").unwrap_err();
    let told = "Deployment A_b: metadata.name is \"A_b\"; accepted are at most 253 lowercase letters, digits, dashes and dots, with a letter or digit at both ends";
    assert_eq!(refused.to_string(), told);
}
