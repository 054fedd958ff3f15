//! Bundles with one thing wrong each: the code by which it is found, and where upstream's validators judge otherwise, why.

use std::collections::BTreeMap;
use std::path::Path;

use roadstead::olm::registry_v1::Suite;
use roadstead::olm::yaml;
use serde_json::{Value, json};

/// A bundle as its documents, of which those that are null are left out, and other files as text.
pub struct Files {
    pub csv: Value,
    pub crd: Value,
    pub annotations: Value,
    pub others: BTreeMap<&'static str, String>,
}

impl Files {
    pub fn write(&self, folder: &Path) {
        let documents = [
            ("manifests/csv.yaml", &self.csv),
            ("manifests/crd.yaml", &self.crd),
            ("metadata/annotations.yaml", &self.annotations),
        ];
        let documents = documents
            .into_iter()
            .filter(|(_, document)| !document.is_null())
            .map(|(path, document)| (path, yaml::document(document).unwrap()));
        let others = self.others.iter().map(|(path, text)| (*path, text.clone()));
        for (path, text) in documents.chain(others) {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
    }
}

/// One version of an operator with one kind, in which nothing is wrong.
pub fn plain() -> Files {
    let example = json!([{
        "apiVersion": "example.org/v1",
        "kind": "Widget",
        "metadata": {"name": "example"},
        "spec": {"size": 1},
    }]);
    Files {
        csv: json!({
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "ClusterServiceVersion",
            "metadata": {
                "name": "widgets.v1.2.0",
                "annotations": {"alm-examples": example.to_string(), "capabilities": "Basic Install", "categories": "Database"},
            },
            "spec": {
                "displayName": "Widgets",
                "description": "Makes widgets.",
                "version": "1.2.0",
                "replaces": "widgets.v1.1.0",
                "minKubeVersion": "1.28.0",
                "provider": {"name": "Example"},
                "maintainers": [{"name": "Somebody", "email": "somebody@example.org"}],
                "links": [{"name": "Pages", "url": "https://example.org"}],
                "icon": [{"base64data": "PHN2Zy8+", "mediatype": "image/svg+xml"}],
                "installModes": [
                    {"type": "OwnNamespace", "supported": false},
                    {"type": "AllNamespaces", "supported": true},
                ],
                "customresourcedefinitions": {"owned": [{
                    "name": "widgets.example.org",
                    "version": "v1",
                    "kind": "Widget",
                    "description": "A widget.",
                    "resources": [{"kind": "Pod", "name": "", "version": "v1"}],
                    "specDescriptors": [{"path": "size"}],
                }]},
                "relatedImages": [{"name": "operator", "image": operator()}],
                "install": {"strategy": "deployment", "spec": {
                    "clusterPermissions": [{
                        "serviceAccountName": "widgets",
                        "rules": [{"apiGroups": ["example.org"], "resources": ["widgets"], "verbs": ["get"]}],
                    }],
                    "deployments": [{"name": "widgets", "spec": {
                        "selector": {"matchLabels": {"app": "widgets"}},
                        "template": {
                            "metadata": {"labels": {"app": "widgets"}},
                            "spec": {
                                "serviceAccountName": "widgets",
                                "containers": [{
                                    "name": "operator",
                                    "image": operator(),
                                    "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
                                }],
                            },
                        },
                    }}],
                }},
            },
        }),
        crd: crd("widgets", "Widget"),
        annotations: json!({"annotations": {
            "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
            "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
            "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
            "operators.operatorframework.io.bundle.package.v1": "widgets",
            "operators.operatorframework.io.bundle.channels.v1": "stable,candidate",
            "operators.operatorframework.io.bundle.channel.default.v1": "stable",
        }}),
        others: BTreeMap::new(),
    }
}

fn operator() -> String {
    format!("registry.example.org/widgets@sha256:{}", "a".repeat(64))
}

fn crd(plural: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.org")},
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"size": {"type": "integer", "maximum": 5}}},
                }}},
            }],
        },
    })
}

/// A bundle, and what is wrong with it.
pub struct Broken {
    pub name: &'static str,
    pub code: &'static str,
    pub suites: &'static [Suite],
    /// Why upstream accepts what we refuse, or the other way around.
    pub differs: Option<&'static str>,
    pub files: Files,
}

impl Broken {
    fn differs(mut self, why: &'static str) -> Self {
        self.differs = Some(why);
        self
    }

    fn with(mut self, suites: &'static [Suite]) -> Self {
        self.suites = suites;
        self
    }
}

fn of(name: &'static str, code: &'static str, change: impl FnOnce(&mut Files)) -> Broken {
    let mut files = plain();
    change(&mut files);
    Broken {
        name,
        code,
        suites: &[],
        differs: None,
        files,
    }
}

/// Sets what a pointer leads to, and makes the last key of it where it is not there.
pub fn put(document: &mut Value, pointer: &str, value: Value) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = document
        .pointer_mut(parent)
        .unwrap_or_else(|| panic!("{pointer}"));
    match parent {
        Value::Array(items) => items[key.parse::<usize>().unwrap()] = value,
        parent => parent[key.replace("~1", "/")] = value,
    }
}

fn take(document: &mut Value, pointer: &str) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    document
        .pointer_mut(parent)
        .and_then(Value::as_object_mut)
        .unwrap()
        .remove(key)
        .unwrap();
}

fn csv(pointer: &'static str, value: Value) -> impl FnOnce(&mut Files) {
    move |files| put(&mut files.csv, pointer, value)
}

fn without(pointer: &'static str) -> impl FnOnce(&mut Files) {
    move |files| take(&mut files.csv, pointer)
}

fn defined(pointer: &'static str, value: Value) -> impl FnOnce(&mut Files) {
    move |files| put(&mut files.crd, pointer, value)
}

fn annotated(name: &'static str, value: Value) -> impl FnOnce(&mut Files) {
    move |files| {
        files.annotations["annotations"][format!("operators.operatorframework.io.bundle.{name}.v1")] = value;
    }
}

fn file(path: &'static str, text: impl Into<String>) -> impl FnOnce(&mut Files) {
    let text = text.into();
    move |files| {
        files.others.insert(path, text);
    }
}

fn object(document: Value) -> impl FnOnce(&mut Files) {
    file("manifests/other.yaml", yaml::document(&document).unwrap())
}

fn depends(document: Value) -> impl FnOnce(&mut Files) {
    let document = json!({"dependencies": [document]});
    file("metadata/dependencies.yaml", yaml::document(&document).unwrap())
}

fn property(document: Value) -> impl FnOnce(&mut Files) {
    let document = json!({"properties": [document]});
    file("metadata/properties.yaml", yaml::document(&document).unwrap())
}

fn schema(field: &'static str, value: Value) -> impl FnOnce(&mut Files) {
    move |files| {
        let schema = "/spec/versions/0/schema/openAPIV3Schema/properties";
        put(&mut files.crd, &format!("{schema}/{field}"), value);
    }
}

fn example(value: Value) -> impl FnOnce(&mut Files) {
    move |files| {
        let text = json!([value]).to_string();
        put(&mut files.csv, "/metadata/annotations/alm-examples", json!(text));
    }
}

/// A webhook that is right, changed.
fn webhook(change: Value) -> impl FnOnce(&mut Files) {
    let mut webhook = json!({
        "type": "ValidatingAdmissionWebhook",
        "generateName": "v.widgets.example.org",
        "deploymentName": "widgets",
        "containerPort": 443,
        "targetPort": 9443,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "webhookPath": "/validate",
        "rules": [{"apiGroups": ["example.org"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["widgets"]}],
    });
    for (field, value) in change.as_object().unwrap() {
        webhook[field] = value.clone();
    }
    move |files| files.csv["spec"]["webhookdefinitions"] = json!([webhook])
}

const DEPLOYMENT: &str = "/spec/install/spec/deployments/0/spec";
const OWNED: &str = "/spec/customresourcedefinitions/owned/0";

/// So much text, which gzip makes no smaller than it is in bits.
fn noise(bytes: usize) -> String {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    (0..bytes)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            char::from(b'!' + (state % 90) as u8)
        })
        .map(|c| if c == '\\' || c == '"' { 'x' } else { c })
        .collect()
}

fn config_map(bytes: usize) -> impl FnOnce(&mut Files) {
    let document = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large"}, "data": {"a": noise(bytes)}});
    object(document)
}

const UNSEEN: &str = "upstream does not look; it comes to light when OLM installs it";
const INNER: &str = "upstream leaves out errors within the schema; the API server refuses the definition";
const MILD: &str = "a warning of ours, which upstream does not have, or has as an error of a validator that it does not offer";

/// One for each way to break a rule.
#[allow(clippy::too_many_lines, reason = "a table")]
pub fn all() -> Vec<Broken> {
    let mut all = vec![
        // Files
        of("no-metadata", "bundle-layout", |files| files.annotations = Value::Null),
        of("no-manifests", "bundle-layout", |files| {
            files.csv = Value::Null;
            files.crd = Value::Null;
        }),
        of("folder-in-manifests", "bundle-layout", file("manifests/more/a.yaml", "a: 1\n")),
        of("hidden-file", "bundle-layout", file("manifests/.a.yaml", "a: 1\n")),
        of("comment-before-mark", "manifest-syntax", |files| {
            let text = format!("# made by a tool\n---\n{}", yaml::document(&files.crd).unwrap());
            files.crd = Value::Null;
            file("manifests/crd.yaml", text)(files);
        }),
        of("blank-line-before-mark", "manifest-syntax", file("manifests/x.yaml",
            "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")),
        of("two-marks-at-first", "manifest-syntax", file("manifests/x.yaml",
            "---\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")),
        of("object-on-the-marks-line", "manifest-syntax", file("manifests/x.yaml",
            "--- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n")),
        of("with-a-namespace", "manifest-metadata", object(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": "b"}}))),
        of("label", "manifest-metadata", object(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "labels": {"a": "b:c"}}}))),
        of("annotation-key", "manifest-metadata", object(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "annotations": {"a b": "c"}}}))),
        of("finalizer", "manifest-metadata", object(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "finalizers": ["a b"]}}))),
        of("owned-twice", "crd-owned", |files| {
            let owned = files.csv["spec"]["customresourcedefinitions"]["owned"].as_array_mut().unwrap();
            owned.push(owned[0].clone());
        }),
        of("no-yaml", "manifest-syntax", file("manifests/x.yaml", "a: [1\n")),
        of("empty-file", "manifest-syntax", file("manifests/x.yaml", "# nothing\n")),
        of("a-list", "manifest-syntax", file("manifests/x.yaml", "- a\n")),
        of(
            "two-in-one",
            "manifest-several",
            file(
                "manifests/x.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\n",
            ),
        )
        .differs("upstream reads the first document, and says nothing of the others"),
        of(
            "field-twice",
            "manifest-twice",
            file(
                "manifests/x.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata: {a: b}\ndata: {a: c}\n",
            ),
        )
        .differs(MILD),
        of("kindless", "manifest-identity", object(json!({"apiVersion": "v1", "metadata": {"name": "a"}}))),
        of("nameless", "manifest-identity", object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}))),
        of(
            "misnamed",
            "manifest-identity",
            object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "A b"}})),
        )
        .differs(UNSEEN),
        of("twice", "manifest-duplicate", |files| {
            let map = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n";
            files.others.insert("manifests/a.yaml", map.to_owned());
            files.others.insert("manifests/b.yaml", map.to_owned());
        })
        .differs(UNSEEN),
        of(
            "deployment",
            "manifest-kind",
            object(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}})),
        ),
        of(
            "pod-monitor",
            "manifest-kind",
            object(json!({"apiVersion": "monitoring.coreos.com/v1", "kind": "PodMonitor", "metadata": {"name": "a"}})),
        )
        .differs("upstream's list has it, and OLM's does not"),
        of("crd-beta", "api-removed", |files| {
            let crd = &mut files.crd;
            put(crd, "/apiVersion", json!("apiextensions.k8s.io/v1beta1"));
            put(crd, "/spec/version", json!("v1"));
        }),
        of("crd-alpha", "api-removed", defined("/apiVersion", json!("apiextensions.k8s.io/v1alpha1"))),
        of(
            "pdb-beta",
            "api-removed",
            object(json!({"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "a"},
                "spec": {"minAvailable": 1}})),
        )
        .differs("upstream asks for its alpha-deprecated-apis to find it; no cluster since 1.25 takes it"),
        of(
            "role-beta",
            "api-removed",
            object(json!({"apiVersion": "rbac.authorization.k8s.io/v1beta1", "kind": "Role", "metadata": {"name": "a"}, "rules": []})),
        )
        .differs("upstream asks for its alpha-deprecated-apis to find it; no cluster since 1.22 takes it"),
        of("annotations-too-long", "object-size", csv("/metadata/annotations/a", json!("a".repeat(300_000)))).differs(UNSEEN),
        of("object-too-large", "object-size", |files| {
            let document = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large"}, "data": {"a": "a".repeat(1_600_000)}});
            object(document)(files);
        })
        .differs(UNSEEN),
        of("bundle-too-large", "bundle-size", config_map(1_100_000)),
        of("bundle-large", "bundle-size-near", config_map(840_000)).differs(MILD),
        // metadata/
        of("no-annotations", "bundle-annotation", |files| {
            files.annotations = json!({"annotation": {}});
        }),
        of("plain-format", "bundle-annotation", annotated("mediatype", json!("plain+v0"))),
        of("other-folder", "bundle-annotation", annotated("manifests", json!("deploy/"))),
        of("other-metadata", "bundle-annotation", annotated("metadata", json!("about/")))
            .differs("upstream compares its constant with itself"),
        of("no-package", "bundle-annotation", |files| {
            take(&mut files.annotations, "/annotations/operators.operatorframework.io.bundle.package.v1");
        }),
        of("package-upper", "bundle-annotation", annotated("package", json!("Widgets")))
            .differs("upstream refuses it in the catalog that is made of it"),
        of("no-channels", "bundle-channels", annotated("channels", json!(""))),
        of("channel-of-two-words", "bundle-channel-name", annotated("channels", json!("stable,very fast"))).differs(MILD),
        of("empty-default", "bundle-channels", annotated("channel.default", json!(""))),
        of("default-elsewhere", "bundle-default-channel", annotated("channel.default", json!("fast"))).differs(MILD),
        of("dependency-type", "bundle-dependency", depends(json!({"type": "olm.crd", "value": {}}))),
        of(
            "dependency-gvk",
            "bundle-dependency",
            depends(json!({"type": "olm.gvk", "value": {"group": "example.org", "kind": "Gadget"}})),
        ),
        of(
            "dependency-range",
            "bundle-dependency",
            depends(json!({"type": "olm.package", "value": {"packageName": "gadgets", "version": "new"}})),
        ),
        of(
            "dependency-package",
            "bundle-dependency",
            depends(json!({"type": "olm.package", "value": {"version": ">=1.0.0"}})),
        ),
        of("dependency-label", "bundle-dependency", depends(json!({"type": "olm.label", "value": {}}))),
        of(
            "dependency-constraint",
            "bundle-dependency",
            depends(json!({"type": "olm.constraint", "value": {"failureMessage": "x", "cel": {"rule": ""}}})),
        ),
        of(
            "dependency-cel-syntax",
            "bundle-dependency",
            depends(json!({"type": "olm.constraint", "value": {"failureMessage": "x", "cel": {"rule": "properties.exists(p, p.type =="}}})),
        ),
        of(
            "dependency-cel-variable",
            "bundle-dependency",
            depends(json!({"type": "olm.constraint", "value": {"failureMessage": "x", "cel": {"rule": "bundles.exists(p, p.type == 'a')"}}})),
        ),
        of(
            "dependency-cel-function",
            "bundle-dependency",
            depends(json!({"type": "olm.constraint", "value": {"failureMessage": "x", "cel": {"rule": "properties.exists(p, semver_differ(p.value, '1.0.0') > 0)"}}})),
        ),
        of(
            "dependency-cel-number",
            "bundle-dependency",
            depends(json!({"type": "olm.constraint", "value": {"failureMessage": "x", "cel": {"rule": "properties.size()"}}})),
        ),
        of("property-typeless", "bundle-property", property(json!({"value": 1}))).differs(UNSEEN),
        of("property-valueless", "bundle-property", property(json!({"type": "a"}))).differs(UNSEEN),
        of(
            "property-range",
            "bundle-property",
            property(json!({"type": "olm.package.required", "value": {"packageName": "gadgets", "versionRange": "new"}})),
        )
        .differs(UNSEEN),
        // The ClusterServiceVersion
        of("no-csv", "csv-count", |files| files.csv = Value::Null),
        of("two-csvs", "csv-count", |files| {
            let mut second = files.csv.clone();
            second["metadata"]["name"] = json!("widgets.v1.3.0");
            file("manifests/second.yaml", yaml::document(&second).unwrap())(files);
        }),
        of("no-display-name", "csv-field", without("/spec/displayName")),
        of("no-install", "csv-field", without("/spec/install")),
        of("no-strategy", "csv-field", without("/spec/install/strategy")),
        of("no-deployments", "csv-field", without("/spec/install/spec/deployments")),
        of("modes-no-list", "csv-field", csv("/spec/installModes", json!("AllNamespaces"))),
        of("supported-as-text", "csv-field", csv("/spec/installModes/0/supported", json!("true"))),
        of("annotation-as-number", "csv-field", csv("/metadata/annotations/a", json!(1))),
        of("keyword-as-number", "csv-field", csv("/spec/keywords", json!([1]))),
        of("rule-without-verbs", "csv-field", csv("/spec/install/spec/clusterPermissions/0/rules/0/verbs", json!([]))).differs(UNSEEN),
        of("rule-of-text", "csv-field", csv("/spec/install/spec/clusterPermissions/0/rules/0/verbs", json!("get"))),
        of("rules-no-list", "csv-field", csv("/spec/install/spec/clusterPermissions/0/rules", json!({"a": 1}))),
        of("request-no-quantity", "csv-field", csv("/spec/install/spec/deployments/0/spec/template/spec/containers/0/resources/requests/cpu", json!("x y"))),
        of("match-labels-list", "csv-field", csv("/spec/selector", json!({"matchLabels": []}))),
        of("strategy-as-number", "csv-field", csv("/spec/install/strategy", json!(1))),
        of("descriptors-no-list", "csv-field", csv("/spec/customresourcedefinitions/owned/0/specDescriptors/0/x-descriptors", json!("x"))),
        of("cleanup-as-text", "csv-field", csv("/spec/cleanup", json!("x"))),
        of("webhook-timeout-as-text", "csv-field", webhook(json!({"timeoutSeconds": "soon"}))),
        of("webhook-operations-as-text", "csv-field", webhook(json!({"rules": [{"operations": "CREATE", "apiGroups": ["example.org"], "apiVersions": ["v1"], "resources": ["widgets"]}]}))),
        of("no-account", "csv-field", without("/spec/install/spec/clusterPermissions/0/serviceAccountName")).differs(UNSEEN),
        of("empty-account", "csv-field", csv("/spec/install/spec/clusterPermissions/0/serviceAccountName", json!(""))).differs(UNSEEN),
        of("no-rules", "csv-field", without("/spec/install/spec/clusterPermissions/0/rules")).differs(UNSEEN),
        of("no-verbs", "csv-field", without("/spec/install/spec/clusterPermissions/0/rules/0/verbs")).differs(UNSEEN),
        of("account-misspelt", "csv-field", |files| {
            let permission = &mut files.csv["spec"]["install"]["spec"]["clusterPermissions"][0];
            permission["serviceAcountName"] = permission["serviceAccountName"].take();
        })
        .differs(UNSEEN),
        of("no-seccomp-type", "csv-field", |files| {
            put(&mut files.csv, &format!("{DEPLOYMENT}/template/spec/securityContext"), json!({"seccompProfile": {}}));
        })
        .differs(UNSEEN),
        of("no-selector", "csv-field", without("/spec/install/spec/deployments/0/spec/selector")).differs(UNSEEN),
        of("container-nameless", "csv-field", without("/spec/install/spec/deployments/0/spec/template/spec/containers/0/name")).differs(UNSEEN),
        of("deployment-nameless", "csv-field", without("/spec/install/spec/deployments/0/name")).differs(UNSEEN),
        of("required-versionless", "csv-field", |files| {
            files.csv["spec"]["customresourcedefinitions"]["required"] = json!([{"name": "gadgets.example.org", "kind": "Gadget"}]);
        })
        .differs(UNSEEN),
        of("native-kindless", "csv-field", csv("/spec/nativeAPIs", json!([{"version": "v1"}]))).differs(UNSEEN),
        of("supported-missing", "csv-field-missing", without("/spec/installModes/0/supported")).differs(MILD),
        of("image-nameless", "csv-field-missing", without("/spec/relatedImages/0/name")).differs(MILD),
        of("descriptor-pathless", "csv-field-missing", without("/spec/customresourcedefinitions/owned/0/specDescriptors/0/path")).differs(MILD),
        of("mediatypeless", "csv-field-missing", without("/spec/icon/0/mediatype")).differs(MILD),
        of("header-valueless", "csv-field-missing", |files| {
            let probe = json!({"httpGet": {"port": 8080, "httpHeaders": [{"name": "A"}]}});
            put(&mut files.csv, &format!("{DEPLOYMENT}/template/spec/containers/0/livenessProbe"), probe);
        })
        .differs(MILD),
        of("maturity-misspelt", "csv-field-unknown", csv("/spec/maturty", json!("alpha"))).differs(MILD),
        of("replicas-misspelt", "csv-field-unknown", csv("/spec/install/spec/deployments/0/spec/replicsa", json!(1))).differs(MILD),
        of("pod-account-misspelt", "csv-field-unknown",
            csv("/spec/install/spec/deployments/0/spec/template/spec/serviceAcountName", json!("widgets"))).differs(MILD),
        of("display-name-in-lower-case", "csv-field-unknown", |files| {
            files.csv["spec"]["displayname"] = files.csv["spec"]["displayName"].take();
        })
        .differs(MILD),
        of("metadata-misspelt", "csv-field-unknown", csv("/metadata/anotations", json!({}))).differs(MILD),
        of("created-at-no-time", "csv-field", csv("/metadata/creationTimestamp", json!("today"))),
        of("name-upper", "csv-name", csv("/metadata/name", json!("Widgets.v1.2.0"))),
        of("name-long", "csv-name", csv("/metadata/name", json!(format!("{}.v1.2.0", "w".repeat(60))))),
        of("replaces-upper", "csv-name", csv("/spec/replaces", json!("Widgets.v1.1.0"))),
        of("skips-upper", "csv-name", csv("/spec/skips", json!(["Widgets.v1.1.1"]))).differs(UNSEEN),
        of("replaces-itself", "csv-upgrade", csv("/spec/replaces", json!("widgets.v1.2.0"))).differs(UNSEEN),
        of("skips-itself", "csv-upgrade", csv("/spec/skips", json!(["widgets.v1.2.0"]))).differs(UNSEEN),
        of("skip-range", "csv-upgrade", csv("/metadata/annotations/olm.skipRange", json!("older"))).differs(UNSEEN),
        of("version-v", "csv-version", csv("/spec/version", json!("v1.2.0")))
            .differs("upstream drops the v, and refuses the catalog that is made of it"),
        of("versionless", "csv-version", without("/spec/version")).differs("upstream refuses it in the catalog that is made of it"),
        of("name-of-another-version", "csv-name-version", csv("/metadata/name", json!("widgets.v1.2.1"))).differs(MILD),
        of("icon-no-base64", "icon", csv("/spec/icon/0/base64data", json!("no base64!"))).differs(MILD),
        of("icon-of-another-type", "icon", csv("/spec/icon/0/mediatype", json!("image/webp"))).differs(MILD),
        of("release", "csv-release", csv("/spec/release", json!("1"))),
        of("kube-version", "csv-min-kube-version", csv("/spec/minKubeVersion", json!("1.28"))),
        of("any-kube-version", "csv-min-kube-version-missing", without("/spec/minKubeVersion")).differs(MILD),
        of("no-modes", "csv-install-modes", without("/spec/installModes")),
        of("none-supported", "csv-install-modes", csv("/spec/installModes/1/supported", json!(false))),
        of(
            "mode-twice",
            "csv-install-modes",
            csv("/spec/installModes/0", json!({"type": "AllNamespaces", "supported": true})),
        )
        .differs("upstream's check of it does nothing; OLM fails the ClusterServiceVersion"),
        of("mode-unknown", "csv-install-modes", csv("/spec/installModes/0/type", json!("EveryNamespace")))
            .differs("the API server refuses it by the schema of the definition"),
        of("annotation-case", "csv-annotation", csv("/metadata/annotations/olm.skiprange", json!(">=1.0.0"))),
        of("properties-annotation", "csv-properties-annotation", csv("/metadata/annotations/olm.properties", json!("[]")))
            .differs(MILD),
        of("examples-syntax", "csv-examples", csv("/metadata/annotations/alm-examples", json!("[{]"))),
        of("examples-object", "csv-examples", csv("/metadata/annotations/alm-examples", json!("{\"kind\": \"Widget\"}"))),
        of(
            "example-foreign",
            "csv-examples",
            example(json!({"apiVersion": "example.org/v1", "kind": "Gadget", "metadata": {"name": "a"}})),
        ),
        of("no-example", "csv-example-missing", csv("/metadata/annotations/alm-examples", json!("[]"))).differs(MILD),
        of(
            "example-invalid",
            "csv-example-invalid",
            example(json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 9}})),
        )
        .differs(MILD),
        of("image-empty", "csv-related-image", csv("/spec/relatedImages/0/image", json!(""))),
        of("image-wrong", "csv-related-image", csv("/spec/relatedImages/0/image", json!("Registry/A b"))),
        of("image-without-registry", "image-without-registry", csv("/spec/relatedImages/0/image", json!("controller:latest"))).differs(MILD),
        of("image-by-tag", "image-by-tag", csv("/spec/relatedImages/0/image", json!("registry.example.org/a:v1"))).differs(MILD),
        of("strategy", "csv-deployment", csv("/spec/install/strategy", json!("helm"))).differs(UNSEEN),
        of("deployment-upper", "csv-deployment", csv("/spec/install/spec/deployments/0/name", json!("Widgets"))).differs(UNSEEN),
        of("deployment-twice", "csv-deployment", |files| {
            let deployments = files.csv.pointer_mut("/spec/install/spec/deployments").unwrap();
            let first = deployments[0].clone();
            deployments.as_array_mut().unwrap().push(first);
        })
        .differs(UNSEEN),
        of("selector", "csv-deployment", |files| {
            put(&mut files.csv, &format!("{DEPLOYMENT}/selector"), json!({"matchLabels": {"app": "gadgets"}}));
        })
        .differs(UNSEEN),
        of("no-containers", "csv-deployment", |files| {
            put(&mut files.csv, &format!("{DEPLOYMENT}/template/spec/containers"), json!([]));
        })
        .differs(UNSEEN),
        of("container-image", "csv-deployment", |files| {
            put(&mut files.csv, &format!("{DEPLOYMENT}/template/spec/containers/0/image"), json!("A b"));
        })
        .differs(UNSEEN),
        of("replicas-as-text", "csv-field", |files| {
            put(&mut files.csv, &format!("{DEPLOYMENT}/replicas"), json!("1"));
        }),
        of("webhook-all-groups", "csv-webhook", webhook(json!({"rules": [
            {"apiGroups": ["*"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["widgets"]}]})))
        .differs(UNSEEN),
        of("webhook-olm", "csv-webhook", webhook(json!({"rules": [
            {"apiGroups": ["operators.coreos.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["subscriptions"]}]})))
        .differs(UNSEEN),
        of("webhook-of-nobody", "csv-webhook", webhook(json!({"deploymentName": "gadgets"}))).differs(UNSEEN),
        of("webhook-type", "csv-webhook", webhook(json!({"type": "AdmissionWebhook"}))).differs(UNSEEN),
        of("conversion-without-side-effects", "csv-webhook", webhook(json!({"type": "ConversionWebhook", "sideEffects": null,
            "conversionCRDs": ["widgets.example.org"]})))
        .differs(UNSEEN),
        of("webhook-side-effects", "csv-webhook", webhook(json!({"sideEffects": "Some"}))).differs(UNSEEN),
        of("webhook-review", "csv-webhook", webhook(json!({"admissionReviewVersions": ["v1beta1"]}))).differs(UNSEEN),
        of("webhook-name", "csv-webhook", webhook(json!({"generateName": "V"}))).differs(UNSEEN),
        of("conversion-of-one-namespace", "csv-webhook", |files| {
            webhook(json!({"type": "ConversionWebhook", "conversionCRDs": ["widgets.example.org"]}))(files);
            put(&mut files.csv, "/spec/installModes/0/supported", json!(true));
        }),
        of(
            "conversion-of-another",
            "csv-webhook",
            webhook(json!({"type": "ConversionWebhook", "conversionCRDs": ["gadgets.example.org"]})),
        )
        .differs(UNSEEN),
        of(
            "service-account",
            "csv-service-account",
            object(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "widgets"}})),
        ),
        // CustomResourceDefinitions
        of("owned-of-nothing", "crd-owned", |files| files.crd = Value::Null),
        of("owned-version", "crd-owned", |files| put(&mut files.csv, &format!("{OWNED}/version"), json!("v2"))),
        of("owned-kind", "crd-owned", |files| put(&mut files.csv, &format!("{OWNED}/kind"), json!("Gadget"))),
        of("owned-name", "crd-owned", |files| put(&mut files.csv, &format!("{OWNED}/name"), json!("widgets"))),
        of("defined-and-not-owned", "crd-owned", object(crd("gadgets", "Gadget"))),
        of("owned-not-served", "crd-owned-version", |files| {
            let mut second = files.crd["spec"]["versions"][0].clone();
            second["name"] = json!("v2");
            second["storage"] = json!(false);
            files.crd["spec"]["versions"][0]["served"] = json!(false);
            files.crd["spec"]["versions"].as_array_mut().unwrap().push(second);
        })
        .differs(UNSEEN),
        of("crd-name", "crd-names", |files| {
            put(&mut files.crd, "/spec/names/plural", json!("widget"));
        }),
        of("crd-group", "crd-names", |files| {
            put(&mut files.crd, "/spec/group", json!("example"));
            put(&mut files.crd, "/metadata/name", json!("widgets.example"));
            put(&mut files.csv, &format!("{OWNED}/name"), json!("widgets.example"));
            let text = files.csv["metadata"]["annotations"]["alm-examples"].as_str().unwrap().replace("example.org", "example");
            put(&mut files.csv, "/metadata/annotations/alm-examples", json!(text));
        }),
        of("crd-scope", "crd-names", defined("/spec/scope", json!("Everywhere"))),
        of("crd-list-kind", "crd-names", defined("/spec/names/listKind", json!("Widget"))),
        of("crd-short-name", "crd-names", defined("/spec/names/shortNames", json!(["W"]))),
        of("crd-category", "crd-names", defined("/spec/names/categories", json!(["a b"]))),
        of("crd-approval", "crd-names", |files| {
            put(&mut files.crd, "/spec/group", json!("widgets.k8s.io"));
            put(&mut files.crd, "/metadata/name", json!("widgets.widgets.k8s.io"));
            put(&mut files.csv, &format!("{OWNED}/name"), json!("widgets.widgets.k8s.io"));
            let text = files.csv["metadata"]["annotations"]["alm-examples"].as_str().unwrap().replace("example.org", "widgets.k8s.io");
            put(&mut files.csv, "/metadata/annotations/alm-examples", json!(text));
        }),
        of("crd-no-versions", "crd-versions", defined("/spec/versions", json!([]))),
        of("crd-none-stored", "crd-versions", defined("/spec/versions/0/storage", json!(false))),
        of("crd-version-twice", "crd-versions", |files| {
            let mut second = files.crd["spec"]["versions"][0].clone();
            second["storage"] = json!(false);
            files.crd["spec"]["versions"].as_array_mut().unwrap().push(second);
        }),
        of("crd-version-name", "crd-versions", |files| {
            put(&mut files.crd, "/spec/versions/0/name", json!("V1"));
            put(&mut files.csv, &format!("{OWNED}/version"), json!("V1"));
            let text = files.csv["metadata"]["annotations"]["alm-examples"].as_str().unwrap().replace("org/v1", "org/V1");
            put(&mut files.csv, "/metadata/annotations/alm-examples", json!(text));
        }),
        of("crd-short-names-as-text", "manifest-field", defined("/spec/names/shortNames", json!("x"))),
        of("crd-columns-as-text", "manifest-field", defined("/spec/versions/0/additionalPrinterColumns", json!("x"))),
        of("crd-bound-as-text", "manifest-field", schema("spec", json!({"type": "object", "properties": {"size": {"type": "integer", "minimum": "x"}}}))),
        of("crd-properties-list", "manifest-field", schema("status", json!({"type": "object", "properties": []}))),
        of("crd-required-as-text", "manifest-field", schema("status", json!({"type": "object", "required": "x"}))),
        of("crd-items-as-text", "manifest-field", schema("status", json!({"type": "array", "items": "x"}))).differs(INNER),
        of("crd-subresources-as-number", "manifest-field", defined("/spec/versions/0/subresources", json!(1))),
        of("config-map-of-numbers", "manifest-field", object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": 1}}))).differs(UNSEEN),
        of("crd-field-misspelt", "manifest-field-unknown", schema("status", json!({"type": "object", "descripton": "a"}))).differs(MILD),
        of("service-field-misspelt", "manifest-field-unknown", object(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
            "spec": {"slector": {"a": "b"}, "ports": [{"port": 80}]}})))
        .differs(MILD),
        of("crd-unknown-fields", "crd-schema", defined("/spec/preserveUnknownFields", json!(true))),
        of("crd-schemaless", "crd-schema", |files| take(&mut files.crd, "/spec/versions/0/schema")).differs(INNER),
        of("crd-typeless", "crd-schema", schema("status", json!({"description": "a"}))).differs(INNER),
        of("crd-type", "crd-schema", schema("status", json!({"type": "text"}))).differs(INNER),
        of("crd-array", "crd-schema", schema("status", json!({"type": "array"}))).differs(INNER),
        of("crd-rule", "crd-schema", schema("status", json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.a >"}]})))
            .differs(INNER),
        of("crd-reference", "crd-schema", schema("status", json!({"type": "object", "$ref": "#/a"}))).differs(INNER),
        of("crd-both", "crd-schema", schema("status", json!({"type": "object", "properties": {"a": {"type": "string"}},
            "additionalProperties": {"type": "string"}})))
        .differs(INNER),
        of("crd-metadata", "crd-schema", schema("metadata", json!({"type": "object", "properties": {"labels": {"type": "object"}}})))
            .differs(INNER),
        of("crd-map-keys", "crd-schema", schema("status", json!({"type": "array", "items": {"type": "object"},
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]})))
        .differs(INNER),
        of(
            "crd-column",
            "crd-columns",
            defined("/spec/versions/0/additionalPrinterColumns", json!([{"name": "Size", "type": "integer", "jsonPath": "spec.size"}])),
        ),
        of(
            "crd-column-type",
            "crd-columns",
            defined("/spec/versions/0/additionalPrinterColumns", json!([{"name": "Size", "type": "text", "jsonPath": ".spec.size"}])),
        ),
        of(
            "crd-scale",
            "crd-columns",
            defined(
                "/spec/versions/0/subresources",
                json!({"scale": {"specReplicasPath": ".size", "statusReplicasPath": ".status.size"}}),
            ),
        ),
        of("crd-strategy", "crd-conversion", defined("/spec/conversion", json!({"strategy": "Hook"}))),
        of(
            "crd-client",
            "crd-conversion",
            defined(
                "/spec/conversion",
                json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {}}}),
            ),
        ),
        of(
            "crd-review",
            "crd-conversion",
            defined(
                "/spec/conversion",
                json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": [],
                    "clientConfig": {"service": {"name": "a", "namespace": "b"}}}}),
            ),
        ),
        of(
            "crd-conversion",
            "crd-conversion-left",
            defined(
                "/spec/conversion",
                json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
                    "clientConfig": {"service": {"name": "a", "namespace": "b"}}}}),
            ),
        )
        .differs(MILD),
        // Other objects
        of(
            "pdb",
            "pdb-blocks",
            object(json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a"},
                "spec": {"maxUnavailable": 0}})),
        )
        .differs(MILD),
        of(
            "priority",
            "priority-class-default",
            object(json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "a"},
                "value": 1, "globalDefault": true})),
        )
        .differs(MILD),
        of(
            "disruption",
            "rbac-disruption",
            object(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "a"},
                "rules": [{"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["create"]}]})),
        )
        .differs(MILD),
        of(
            "constraints",
            "rbac-scc",
            object(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "a"},
                "rules": [{"apiGroups": ["security.openshift.io"], "resources": ["securitycontextconstraints"], "verbs": ["update"],
                    "resourceNames": ["anyuid"]}]})),
        )
        .differs(MILD),
    ];
    all.extend(on_request());
    all
}

/// What is looked at on request.
fn on_request() -> Vec<Broken> {
    const HUB: &[Suite] = &[Suite::OperatorHub];
    const PRACTICES: &[Suite] = &[Suite::GoodPractices];
    const V1: &[Suite] = &[Suite::OlmV1];
    const SCORECARD: &[Suite] = &[Suite::Scorecard];
    let container = format!("{DEPLOYMENT}/template/spec/containers/0");
    vec![
        of("providerless", "hub-provider", without("/spec/provider")).with(HUB),
        of("maintainer-email", "hub-maintainer", csv("/spec/maintainers/0/email", json!("somebody"))).with(HUB),
        of("maintainer-name", "hub-maintainer", csv("/spec/maintainers/0/name", json!(""))).with(HUB),
        of("link-url", "hub-link", csv("/spec/links/0/url", json!("example"))).with(HUB),
        of("link-name", "hub-link", csv("/spec/links/0/name", json!(""))).with(HUB),
        of("version-zero", "hub-version", csv("/spec/version", json!("0.0.0"))).with(HUB),
        of("icon-type", "hub-icon", csv("/spec/icon/0/mediatype", json!("image/webp"))).with(HUB),
        of("icon-empty", "hub-icon", csv("/spec/icon/0/base64data", json!(""))).with(HUB),
        of("icon-other", "hub-icon", csv("/spec/icon/0/mediatype", json!("image/png")))
            .with(HUB)
            .differs("upstream does not look into the icon"),
        of("icons", "hub-icon", |files| {
            let icons = files.csv.pointer_mut("/spec/icon").unwrap();
            let first = icons[0].clone();
            icons.as_array_mut().unwrap().push(first);
        })
        .with(HUB),
        of("iconless", "hub-icon-missing", without("/spec/icon")).with(HUB).differs(MILD),
        of("capability", "hub-capabilities", csv("/metadata/annotations/capabilities", json!("Some"))).with(HUB),
        of("category", "hub-categories", csv("/metadata/annotations/categories", json!("Database, Other"))).with(HUB),
        of("requests", "practice-requests", move |files| {
            take(&mut files.csv, &format!("{container}/resources"));
        })
        .with(PRACTICES)
        .differs(MILD),
        of("descriptionless", "practice-crd-description", |files| {
            take(&mut files.csv, &format!("{OWNED}/description"));
        })
        .with(PRACTICES)
        .differs(MILD),
        of("channel", "practice-channel", annotated("channels", json!("stable,alpha")))
            .with(PRACTICES)
            .differs(MILD),
        of(
            "creates-definitions",
            "practice-crd-creation",
            csv(
                "/spec/install/spec/clusterPermissions/0/rules/0",
                json!({"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["create"]}),
            ),
        )
        .with(PRACTICES)
        .differs(MILD),
        of("name-without-version", "practice-name", csv("/metadata/name", json!("widgets")))
            .with(PRACTICES)
            .differs(MILD),
        of("own-namespace", "v1-install-mode", |files| {
            put(&mut files.csv, "/spec/installModes/0/supported", json!(true));
            put(&mut files.csv, "/spec/installModes/1/supported", json!(false));
        })
        .with(V1)
        .differs("a rule of OLM v1"),
        of(
            "api-service",
            "v1-api-service",
            csv(
                "/spec/apiservicedefinitions",
                json!({"owned": [{"group": "example.org", "version": "v1", "kind": "Widget", "name": "widgets"}]}),
            ),
        )
        .with(V1)
        .differs("a rule of OLM v1"),
        of(
            "depends",
            "v1-dependency",
            depends(json!({"type": "olm.package", "value": {"packageName": "gadgets", "version": ">=1.0.0"}})),
        )
        .with(V1)
        .differs("a rule of OLM v1"),
        of("opened-by-operator", "v1-closed-version", |files| {
            put(&mut files.crd, "/metadata/annotations", json!({"roadstead.dev/opened-by-operator": "v1alpha1"}));
            let mut closed = files.crd["spec"]["versions"][0].clone();
            (closed["name"], closed["served"], closed["storage"]) = (json!("v1alpha1"), json!(false), json!(false));
            files.crd["spec"]["versions"].as_array_mut().unwrap().push(closed);
        })
        .with(V1)
        .differs("what OLM v1 does to an operator of ours"),
        of("webhooks", "v1-webhook", webhook(json!({})))
            .with(V1)
            .differs("a gate of OLM v1"),
        of("unknown-field", "score-validation", example(json!({"apiVersion": "example.org/v1", "kind": "Widget",
            "metadata": {"name": "a"}, "spec": {"sizes": 1}})))
        .with(SCORECARD)
        .differs(MILD),
        of("resourceless", "score-resources", |files| take(&mut files.csv, &format!("{OWNED}/resources")))
            .with(SCORECARD)
            .differs(MILD),
        of("undescribed", "score-spec-descriptor", |files| {
            take(&mut files.csv, &format!("{OWNED}/specDescriptors"));
        })
        .with(SCORECARD)
        .differs(MILD),
        of("status", "score-status-descriptor", |files| {
            schema("status", json!({"type": "object", "properties": {"a": {"type": "string"}}}))(files);
            example(json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 1},
                "status": {"a": "b"}}))(files);
        })
        .with(SCORECARD)
        .differs(MILD),
    ]
}
