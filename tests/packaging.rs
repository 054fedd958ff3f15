//! What this product ships: least privilege, the restricted standard, names that fit, examples that the API server would take.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use roadstead::api::database::v1::Database;
use roadstead::api::database::validate;
use roadstead::olm::manifests::{Manifest, Manifests, list, name, text};
use roadstead::olm::{Tree, csv, yaml};
use roadstead::package;
use serde_json::{Value, json};

fn version() -> semver::Version {
    "1.2.3".parse().unwrap()
}

fn config() -> Manifests {
    Manifests::of_tree(&package::tree(&version()).unwrap()).unwrap()
}

fn of_kind(kind: &str) -> Vec<Value> {
    let of_kind = |manifest: &&Manifest| text(&manifest.body, "/kind") == kind;
    config()
        .iter()
        .filter(of_kind)
        .map(|manifest| manifest.body.clone())
        .collect()
}

/// RBAC cannot say which Secrets: those that a Database has. The operator watches no others.
#[test]
fn no_permission_has_a_wildcard_and_one_alone_is_on_secrets() {
    let mut on_secrets = Vec::new();
    let roles = [of_kind("ClusterRole"), of_kind("Role")].concat();
    assert_eq!(roles.len(), 2);
    for rule in roles.iter().flat_map(|role| list(role, "/rules")) {
        for field in ["/apiGroups", "/resources", "/verbs"] {
            assert!(!list(rule, field).is_empty(), "{rule}");
            assert!(
                !list(rule, field)
                    .iter()
                    .any(|entry| entry.as_str().unwrap().contains('*')),
                "{rule}"
            );
        }
        if list(rule, "/resources").contains(&json!("secrets")) {
            on_secrets.push(rule["verbs"].clone());
        }
        assert!(rule.get("nonResourceURLs").is_none(), "{rule}");
    }
    assert_eq!(
        on_secrets,
        [json!(["get", "list", "watch", "create", "patch", "delete"])]
    );
}

/// OLM makes ClusterRoles of the Roles of an operator for all namespaces, so what is meant for one Lease must name it.
#[test]
fn only_the_operators_own_lease_is_read_and_written() {
    for rule in of_kind("Role").iter().flat_map(|role| list(role, "/rules")) {
        let own = rule.get("resourceNames") == Some(&json!([package::OPERATOR]));
        assert!(own || rule["verbs"] == json!(["create"]), "{rule}");
    }
}

/// The rules of the Pod Security Standard "restricted", as far as a pod can break them.
#[test]
fn the_operators_pod_meets_the_restricted_standard() {
    let [deployment] = &of_kind("Deployment")[..] else {
        panic!("one Deployment")
    };
    let pod = deployment.pointer("/spec/template/spec").unwrap();
    assert_eq!(pod.pointer("/securityContext/runAsNonRoot"), Some(&json!(true)));
    assert_eq!(
        text(pod, "/securityContext/seccompProfile/type"),
        "RuntimeDefault"
    );
    for host in ["hostNetwork", "hostPID", "hostIPC", "volumes"] {
        assert!(pod.get(host).is_none(), "{host}");
    }
    for container in list(pod, "/containers") {
        let context = container.get("securityContext").unwrap();
        assert_eq!(context["allowPrivilegeEscalation"], json!(false));
        assert_eq!(context["readOnlyRootFilesystem"], json!(true));
        assert_eq!(context["capabilities"], json!({"drop": ["ALL"]}));
    }
    let [namespace] = &of_kind("Namespace")[..] else {
        panic!("one Namespace")
    };
    assert_eq!(
        namespace.pointer("/metadata/labels/pod-security.kubernetes.io~1enforce"),
        Some(&json!("restricted"))
    );
}

#[test]
fn the_operator_has_two_replicas_probes_and_the_limits_it_promises() {
    let deployment = &of_kind("Deployment")[0];
    assert_eq!(deployment["spec"]["replicas"], json!(2));
    let container = deployment.pointer("/spec/template/spec/containers/0").unwrap();
    assert_eq!(text(container, "/livenessProbe/httpGet/path"), "/healthz");
    assert_eq!(text(container, "/readinessProbe/httpGet/path"), "/readyz");
    let resources =
        json!({"requests": {"cpu": "10m", "memory": "20Mi"}, "limits": {"cpu": "500m", "memory": "30Mi"}});
    assert_eq!(container["resources"], resources);
}

/// OLM waits for a rollout for five minutes, then starts the installation over; one that gave up before stays Failed with a reason.
#[test]
fn a_rollout_that_cannot_succeed_gives_up_before_olm_does() {
    let deadline = of_kind("Deployment")[0]["spec"]["progressDeadlineSeconds"]
        .as_i64()
        .unwrap();
    assert!((60..300).contains(&deadline), "{deadline}");
}

/// OLM puts a variable of the Subscription's `spec.config.env` in the place of one of the same name; one that came from a
/// ConfigMap or was missing would not show what it replaces, nor stand among the related images.
#[test]
fn images_are_plain_variables_that_a_subscription_can_replace() {
    let deployment = &of_kind("Deployment")[0];
    let variables = list(deployment, "/spec/template/spec/containers/0/env");
    let value = |name: &str| {
        variables
            .iter()
            .find(|variable| variable["name"] == name)
            .map(|variable| text(variable, "/value"))
    };
    assert_eq!(
        value("OPERATOR_IMAGE"),
        Some(text(deployment, "/spec/template/spec/containers/0/image"))
    );
    assert_eq!(value("RELATED_IMAGE_NGINX"), Some("nginx:1.29"));
    for major in 14..=18 {
        let name = format!("RELATED_IMAGE_POSTGRES_{major}");
        assert_eq!(value(&name), Some(&*format!("postgres:{major}")));
    }
}

/// OLM puts what a Subscription configures over what each version brings, so a default written there would never change again.
#[test]
fn the_subscription_pins_nothing_that_an_upgrade_brings() {
    let [subscription] = &of_kind("Subscription")[..] else {
        panic!("not one Subscription");
    };
    let spec = subscription["spec"].as_object().unwrap();
    for field in ["config", "startingCSV"] {
        assert!(!spec.contains_key(field), "{field}: {spec:?}");
    }
}

/// Names become label values (63) and, of a Service, a DNS label; OLM makes label values of the CSV's name.
#[test]
fn every_name_fits_a_label() {
    let csv_name = format!("{}.v{}", package::PACKAGE, "100.100.100-candidate.100");
    let config = config();
    let names = config
        .iter()
        .map(|manifest| name(&manifest.body))
        .chain([csv_name.as_str()]);
    for name in names {
        assert!(!name.is_empty() && name.len() <= 63, "{name}");
    }
    for deployment in of_kind("Deployment") {
        assert!(
            !name(&deployment).contains('.'),
            "OLM names the webhook's Service after it"
        );
    }
}

#[test]
fn a_namespaced_object_lies_in_the_operators_namespace() {
    for manifest in config().iter() {
        let namespace = text(&manifest.body, "/metadata/namespace");
        let expected = match text(&manifest.body, "/kind") {
            "Deployment" | "Role" | "RoleBinding" | "Service" | "ServiceAccount" => package::NAMESPACE,
            "CatalogSource" | "OperatorGroup" | "Subscription" => package::OLM_NAMESPACE,
            _ => "",
        };
        assert_eq!(namespace, expected, "{}", manifest.source.display());
    }
}

#[test]
fn nothing_generated_has_a_status_or_an_empty_timestamp() {
    for (path, text) in package::tree(&version()).unwrap().files() {
        assert!(
            !text.contains("creationTimestamp: null") && !text.contains("\nstatus:"),
            "{}",
            path.display()
        );
    }
}

/// What OLM's consoles offer to a user must be accepted as it is.
#[test]
fn every_example_is_valid_by_its_schema_and_every_kind_has_one() {
    let config = config();
    let examples = [of_kind("MyProxy"), of_kind("Database")].concat();
    for crd in csv::crds(&config) {
        for version in list(crd, "/spec/versions") {
            let schema = version.pointer("/schema/openAPIV3Schema").unwrap();
            let validator = jsonschema::validator_for(schema).unwrap();
            let api_version = format!("{}/{}", text(crd, "/spec/group"), text(version, "/name"));
            let of_version = |example: &&Value| {
                example["apiVersion"] == api_version && example["kind"] == crd["spec"]["names"]["kind"]
            };
            let mut found = 0;
            for example in examples.iter().filter(of_version) {
                let problems: Vec<String> = validator
                    .iter_errors(example)
                    .map(|problem| problem.to_string())
                    .collect();
                assert_eq!(problems, Vec::<String>::new(), "{example}");
                assert_eq!(
                    unknown_fields(example, schema),
                    Vec::<String>::new(),
                    "they would be pruned"
                );
                found += 1;
            }
            assert!(found > 0, "{} has no example", name(crd));
        }
    }
    let error =
        jsonschema::validator_for(&json!({"type": "object", "properties": {"spec": {"type": "object"}}}))
            .unwrap();
    assert!(!error.is_valid(&json!({"spec": 1})), "the judge can say no");
}

/// People copy them.
#[test]
fn a_database_that_people_copy_is_valid_and_asks_for_nothing_that_is_not_done() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let page = read("docs/database.md");
    let file = "examples/database/orders.yaml";
    assert!(
        page.contains(file) && read("README.md").contains(file),
        "somebody finds it"
    );
    // And the manifests on the page itself: what begins with an apiVersion.
    let blocks = page
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    let manifests = blocks.filter(|block| block.starts_with("apiVersion:"));
    let mut copied: Vec<(String, String)> = manifests
        .map(|text| ("docs/database.md".to_owned(), text.to_owned()))
        .collect();
    assert!(!copied.is_empty());
    copied.push((file.to_owned(), read(file)));
    let demo = "hack/demo-database.yaml";
    let filled = read(demo).replace("MAJOR", "17").replace("IMAGE", "postgres:17");
    let (database, _) = filled.split_once("\n---\n").unwrap();
    copied.push((demo.to_owned(), database.to_owned()));
    let definition = csv::crds(&config())
        .into_iter()
        .find(|crd| crd["spec"]["names"]["kind"] == "Database")
        .cloned()
        .unwrap();
    let versions = list(&definition, "/spec/versions");
    for (source, text_of) in copied {
        let manifests = yaml::parse(&source, &text_of).unwrap().into_iter();
        for manifest in manifests.filter(|manifest| text(manifest, "/kind") == "Database") {
            let version = text(&manifest, "/apiVersion").strip_prefix("roadstead.dev/");
            let version = versions
                .iter()
                .find(|of| Some(text(of, "/name")) == version)
                .unwrap();
            let schema = version.pointer("/schema/openAPIV3Schema").unwrap();
            let validator = jsonschema::validator_for(schema).unwrap();
            let problems: Vec<String> = validator
                .iter_errors(&manifest)
                .map(|problem| problem.to_string())
                .collect();
            assert_eq!(problems, Vec::<String>::new(), "{source}");
            assert_eq!(
                unknown_fields(&manifest, schema),
                Vec::<String>::new(),
                "{source}"
            );
            let database: Database = serde_json::from_value(manifest).unwrap();
            let valid = validate(&database).unwrap_or_else(|problems| panic!("{source}: {problems}"));
            assert!(valid.backup_schedule.is_none(), "{source}: is not done");
        }
    }
}

/// Fields of a value that its schema does not know, by path.
fn unknown_fields(value: &Value, schema: &Value) -> Vec<String> {
    let mut unknown = Vec::new();
    match (value, schema.get("properties"), schema.get("items")) {
        (Value::Object(fields), Some(known), _) => {
            for (field, inner) in fields {
                let builtin = ["apiVersion", "kind", "metadata"].contains(&field.as_str());
                match known.get(field) {
                    Some(schema) => unknown.extend(
                        unknown_fields(inner, schema)
                            .into_iter()
                            .map(|path| format!("{field}.{path}")),
                    ),
                    None if builtin => {}
                    None => unknown.push(field.clone()),
                }
            }
        }
        (Value::Array(items), _, Some(schema)) => {
            unknown.extend(items.iter().flat_map(|item| unknown_fields(item, schema)))
        }
        _ => {}
    }
    unknown
}

#[test]
fn the_bundle_claims_only_what_is_so() {
    let tree = package::tree(&version()).unwrap();
    let catalog = roadstead::olm::catalog::Catalog::empty(package::PACKAGE);
    let bundle: Tree = package::bundle(&tree, &version(), &catalog).unwrap();
    let text_of = bundle
        .get("bundle/manifests/roadstead.clusterserviceversion.yaml")
        .unwrap();
    let csv: Value = yaml::parse("csv", text_of).unwrap().remove(0);
    let supported = list(&csv, "/spec/installModes")
        .iter()
        .filter(|mode| mode["supported"] == json!(true));
    assert_eq!(
        supported.map(|mode| text(mode, "/type")).collect::<Vec<_>>(),
        ["AllNamespaces"]
    );
    let images: Vec<&str> = list(&csv, "/spec/relatedImages")
        .iter()
        .map(|image| text(image, "/image"))
        .collect();
    assert_eq!(
        images,
        [
            "registry.roadstead.dev/roadstead-operator:v1.2.3",
            "nginx:1.29",
            "postgres:14",
            "postgres:15",
            "postgres:16",
            "postgres:17",
            "postgres:18",
        ]
    );
    assert!(
        csv.pointer("/metadata/annotations/createdAt").is_none(),
        "the same sources give the same bytes"
    );
    assert!(
        !bundle
            .files()
            .any(|(path, _)| path.to_string_lossy().contains("serviceaccount")),
        "OLM makes it from the CSV"
    );
}
