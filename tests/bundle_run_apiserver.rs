//! `roadstead bundle run`, `upgrade` and `cleanup` at a real API server: what is made, in which order it goes, and that nothing else is touched.
//!
//! OLM and the garbage collector are played: they do what is theirs to objects that others made. With OLM itself it is among the end-to-end tests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "support/apiserver.rs"]
mod apiserver;
#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/broken_bundles.rs"]
mod broken_bundles;
#[path = "support/olm_kinds.rs"]
mod olm_kinds;
#[path = "support/played_olm.rs"]
mod played_olm;
#[path = "support/played_registry.rs"]
mod played_registry;

use std::path::PathBuf;
use std::process::Output;

use broken_bundles::plain;
use kube::Client;
use kube::api::{ListParams, PostParams};
use olm_kinds::{LIMIT, OLM, api, put, server};
use played_olm::Olm;
use played_registry::Played;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

const KINDS: [(&str, &str); 7] = [
    (OLM, "CatalogSource"),
    (OLM, "ClusterServiceVersion"),
    (OLM, "Subscription"),
    ("operators.coreos.com/v1", "OperatorGroup"),
    ("apps/v1", "Deployment"),
    ("v1", "ConfigMap"),
    ("v1", "Service"),
];

/// A namespace of its own, a registry with bundles, and OLM as it is played. One at a time: a definition is of the whole cluster.
struct Workshop {
    client: Client,
    namespace: String,
    kubeconfig: PathBuf,
    registry: Played,
    _olm: Olm,
    _turn: MutexGuard<'static, ()>,
}

impl Workshop {
    async fn open(name: &str) -> Self {
        static TURN: Mutex<()> = Mutex::const_new(());
        let turn = TURN.lock().await;
        let server = server().await;
        let client = server.client().await;
        let namespace = server.namespace(name).await;
        Self {
            _olm: Olm::play(&client, &namespace),
            client,
            namespace,
            kubeconfig: server.kubeconfig(),
            registry: Played::start(None).await,
            _turn: turn,
        }
    }

    /// The image of a bundle, as it is in the registry.
    async fn push(&self, version: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let mut files = plain();
        files.csv["metadata"]["name"] = json!(format!("widgets.v{version}"));
        files.csv["spec"]["version"] = json!(version);
        files.csv["spec"].as_object_mut().unwrap().remove("replaces");
        files.write(folder.path());
        let image = format!("{}/me/widgets-bundle:v{version}", self.registry.host);
        let pushed = self
            .roadstead(&["push", &folder.path().display().to_string(), &image])
            .await;
        done(&pushed);
        image
    }

    /// The command that was built, in the namespace.
    async fn trial(&self, arguments: &[&str]) -> Output {
        let kubeconfig = self.kubeconfig.display().to_string();
        let place = [
            "-n",
            &self.namespace,
            "--kubeconfig",
            &kubeconfig,
            "--timeout",
            "30s",
        ];
        self.roadstead(&[arguments, &place].concat()).await
    }

    async fn roadstead(&self, arguments: &[&str]) -> Output {
        let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_roadstead"));
        command.arg("bundle").args(arguments).timeout(LIMIT * 2);
        tokio::task::spawn_blocking(move || command.output().unwrap())
            .await
            .unwrap()
    }

    /// The definition of widgets, served, which OLM has made for a package in a namespace. It is a while older than whatever comes after it.
    async fn define(&self, component: &str) {
        self.define_as("somebody", component).await;
    }

    /// The same, as a program of that name writes it.
    async fn define_as(&self, manager: &str, component: &str) {
        let mut definition = plain().crd;
        definition["metadata"]["labels"] = json!({format!("operators.coreos.com/{component}"): ""});
        let definitions = api(
            &self.client,
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            None,
        );
        let as_manager = PostParams {
            field_manager: Some(manager.to_owned()),
            ..PostParams::default()
        };
        let definition = serde_json::from_value(definition).unwrap();
        definitions.create(&as_manager, &definition).await.unwrap();
        let widgets = api(&self.client, "example.org/v1", "Widget", Some(&self.namespace));
        apiserver::within(LIMIT, "widgets are served", async || {
            widgets.list(&ListParams::default()).await.is_ok()
        })
        .await;
        // Kubernetes tells times in seconds
        tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    }

    /// Kind, name and resource version of all that is there, but for what the API server makes by itself.
    async fn objects(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (api_version, kind) in KINDS {
            let objects = api(&self.client, api_version, kind, Some(&self.namespace));
            for object in objects.list(&ListParams::default()).await.unwrap() {
                let name = object.metadata.name.unwrap();
                let version = object.metadata.resource_version.unwrap();
                found.push(format!("{kind} {name} {version}"));
            }
        }
        found.retain(|object| !object.starts_with("ConfigMap kube-root-ca.crt "));
        found
    }

    async fn get(&self, api_version: &str, kind: &str, name: &str) -> Value {
        let object = api(&self.client, api_version, kind, Some(&self.namespace))
            .get(name)
            .await;
        serde_json::to_value(object.unwrap()).unwrap()
    }
}

fn done(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn refused(output: &Output) -> String {
    assert_eq!(
        output.status.code(),
        Some(1),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_is_run_upgraded_and_removed_and_nothing_of_it_stays() {
    let workshop = Workshop::open("workshop").await;
    let (first, second) = (workshop.push("1.0.0").await, workshop.push("1.1.0").await);

    let run = workshop
        .trial(&["run", &first, "--server-image", "example.org/roadstead:v1"])
        .await;
    assert_eq!(done(&run), "widgets.v1.0.0 runs in workshop\n");
    let nothing: &[u8] = b"";
    assert_eq!(run.stderr, nothing, "in a pipe, it is quiet");
    let catalog = workshop.get("v1", "ConfigMap", "trial-widgets").await;
    let catalog = catalog["data"]["catalog.yaml"].as_str().unwrap().to_owned();
    let by_digest = format!("image: {}/me/widgets-bundle@sha256:", workshop.registry.host);
    assert!(catalog.contains(&by_digest), "{catalog}");
    let again = refused(&workshop.trial(&["run", &first]).await);
    assert!(again.contains("is tried in workshop already"), "{again}");
    let same = refused(&workshop.trial(&["upgrade", &first]).await);
    assert!(same.contains("widgets.v1.0.0 is installed already"), "{same}");

    let upgraded = workshop.trial(&["upgrade", &second]).await;
    assert_eq!(done(&upgraded), "widgets.v1.1.0 runs in workshop\n");
    let back = workshop.push("1.0.5").await;
    let back = refused(&workshop.trial(&["upgrade", &back]).await);
    assert!(back.contains("no way from widgets.v1.1.0"), "{back}");
    let catalog = workshop.get("v1", "ConfigMap", "trial-widgets").await;
    assert!(
        !catalog["data"]["catalog.yaml"]
            .as_str()
            .unwrap()
            .contains("1.0.5"),
        "what is refused changes nothing"
    );

    let elsewhere = ["cleanup", "widgets", "-n", "default", "--kubeconfig"];
    let kubeconfig = workshop.kubeconfig.display().to_string();
    let elsewhere = workshop
        .roadstead(&[&elsewhere[..], &[&kubeconfig]].concat())
        .await;
    let elsewhere = refused(&elsewhere);
    assert!(elsewhere.contains("there is one in workshop"), "{elsewhere}");

    let gone = workshop.trial(&["cleanup", "widgets"]).await;
    assert_eq!(done(&gone), "the trial of widgets is gone from workshop\n");
    assert_eq!(workshop.objects().await, Vec::<String>::new());
    let nothing = refused(&workshop.trial(&["cleanup", "widgets"]).await);
    assert!(
        nothing.contains("there is nothing of a trial of widgets"),
        "{nothing}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn images_of_a_private_registry_are_pulled_with_a_secret_of_the_namespace() {
    let workshop = Workshop::open("private").await;
    let image = workshop.push("1.0.0").await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}, "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": "{\"auths\": {}}"},
    });
    put(&workshop.client, Some(&workshop.namespace), secret).await;
    done(&workshop.trial(&["run", &image, "--pull-secret", "mine"]).await);
    let source = workshop.get(OLM, "CatalogSource", "trial-widgets").await;
    assert_eq!(source["spec"]["secrets"], json!(["mine"]));
    let server = workshop.get("apps/v1", "Deployment", "trial-widgets").await;
    let pulled = &server["spec"]["template"]["spec"]["imagePullSecrets"];
    assert_eq!(*pulled, json!([{"name": "mine"}]));
    done(&workshop.trial(&["cleanup", "widgets"]).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_have_in_the_namespace_is_left_as_it_was() {
    let workshop = Workshop::open("shared").await;
    let theirs = [
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "theirs"}, "spec": {}, "status": {"namespaces": [""]}}),
        json!({"apiVersion": OLM, "kind": "Subscription", "metadata": {"name": "gadgets"}, "spec": {"name": "gadgets"}, "status": {"installedCSV": "gadgets.v1"}}),
        json!({"apiVersion": OLM, "kind": "ClusterServiceVersion", "metadata": {"name": "gadgets.v1"}, "spec": {}}),
    ];
    for object in theirs {
        put(&workshop.client, Some(&workshop.namespace), object).await;
    }
    let before = workshop.objects().await;
    let image = workshop.push("1.0.0").await;
    done(&workshop.trial(&["run", &image]).await);
    let cleaned = workshop.trial(&["cleanup", "widgets"]).await;
    done(&cleaned);
    assert_eq!(workshop.objects().await, before);

    let rival = json!({"apiVersion": OLM, "kind": "Subscription", "metadata": {"name": "mine"}, "spec": {"name": "widgets"}});
    put(&workshop.client, Some(&workshop.namespace), rival).await;
    let before = workshop.objects().await;
    for command in [
        &["run", &image][..],
        &["upgrade", &image],
        &["cleanup", "widgets"],
    ] {
        refused(&workshop.trial(command).await);
    }
    assert_eq!(workshop.objects().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_told_before_anything_is_made() {
    let workshop = Workshop::open("empty").await;
    let image = workshop.push("1.0.0").await;
    let mut elsewhere = vec!["run", &image, "-n", "nowhere", "--kubeconfig"];
    let kubeconfig = workshop.kubeconfig.display().to_string();
    elsewhere.push(&kubeconfig);
    let said = refused(&workshop.roadstead(&elsewhere).await);
    assert!(said.contains("there is no namespace nowhere"), "{said}");
    for command in [&["upgrade", &image][..], &["cleanup", "widgets"]] {
        let place = ["-n", "nowhere", "--kubeconfig", &kubeconfig];
        let said = refused(&workshop.roadstead(&[command, &place].concat()).await);
        assert!(said.contains("there is no namespace nowhere"), "{said}");
    }
    let said = refused(
        &workshop
            .trial(&["run", &image, "--channel", "Bad_Channel!"])
            .await,
    );
    assert!(said.contains("--channel is \"Bad_Channel!\""), "{said}");
    let said = refused(&workshop.trial(&["run", &image, "--context", "nope"]).await);
    assert!(
        said.contains("--context is \"nope\", and the kubeconfig has "),
        "{said}"
    );
    let missing = format!("{}/me/widgets-bundle:v9", workshop.registry.host);
    let said = refused(&workshop.trial(&["run", &missing]).await);
    assert!(said.contains("widgets-bundle"), "{said}");
    let said = refused(&workshop.trial(&["run", "bundle"]).await);
    assert!(said.contains("bundle push"), "{said}");
    let said = refused(&workshop.trial(&["upgrade", &image]).await);
    assert!(said.contains("widgets is not tried in empty"), "{said}");
    let said = refused(&workshop.trial(&["run", &image, "--pull-secret", "mine"]).await);
    assert!(
        said.contains("create secret docker-registry mine -n empty"),
        "{said}"
    );
    let opaque =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}, "type": "Opaque"});
    put(&workshop.client, Some(&workshop.namespace), opaque).await;
    let said = refused(&workshop.trial(&["run", &image, "--pull-secret", "mine"]).await);
    assert!(said.contains("a Secret of type \"Opaque\""), "{said}");
    assert_eq!(workshop.objects().await, Vec::<String>::new());
}

/// The objects would stay behind with nobody to look after them, or go with their data.
#[tokio::test(flavor = "multi_thread")]
async fn definitions_go_on_request_alone_and_never_with_an_object() {
    let workshop = Workshop::open("kept").await;
    let image = workshop.push("1.0.0").await;
    done(&workshop.trial(&["run", &image]).await);
    workshop.define("widgets.kept").await;
    let widgets = api(
        &workshop.client,
        "example.org/v1",
        "Widget",
        Some(&workshop.namespace),
    );
    let widget = json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "precious"}, "spec": {"size": 1}});
    put(&workshop.client, Some(&workshop.namespace), widget).await;
    let before = workshop.objects().await;
    let said = refused(&workshop.trial(&["cleanup", "widgets", "--definitions"]).await);
    assert!(said.contains("widgets.example.org: kept/precious"), "{said}");
    assert_eq!(workshop.objects().await, before, "nothing was deleted");

    widgets.delete("precious", &Default::default()).await.unwrap();
    done(&workshop.trial(&["cleanup", "widgets", "--definitions"]).await);
    let definitions = api(
        &workshop.client,
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        None,
    );
    let gone = async || {
        definitions
            .get_opt("widgets.example.org")
            .await
            .unwrap()
            .is_none()
    };
    assert!(gone().await);

    workshop.define("widgets.production").await;
    let said = refused(&workshop.trial(&["run", &image]).await);
    assert!(said.contains("widgets.example.org are there already"), "{said}");
    done(&workshop.trial(&["run", &image, "--replace-definitions"]).await);
    let cleaned = workshop.trial(&["cleanup", "widgets", "--definitions"]).await;
    done(&cleaned);
    let said = String::from_utf8_lossy(&cleaned.stderr);
    assert!(
        said.contains("OLM does not say that it is the trial's alone"),
        "{said}"
    );
    assert!(!gone().await);
    definitions
        .delete("widgets.example.org", &Default::default())
        .await
        .unwrap();
}

/// What stays is told, and a later trial of the same package there takes it away on request, since OLM alone has written it.
#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_a_trial_has_left_is_told_and_goes_with_a_later_one() {
    let workshop = Workshop::open("left").await;
    let image = workshop.push("1.0.0").await;
    done(&workshop.trial(&["run", &image]).await);
    workshop.define_as("catalog", "widgets.left").await;
    let cleaned = workshop.trial(&["cleanup", "widgets"]).await;
    done(&cleaned);
    let said = String::from_utf8_lossy(&cleaned.stderr);
    assert!(
        said.contains("note: widgets.example.org stays, without objects"),
        "{said}"
    );

    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    done(&workshop.trial(&["run", &image]).await);
    let cleaned = workshop.trial(&["cleanup", "widgets", "--definitions"]).await;
    done(&cleaned);
    let definitions = api(
        &workshop.client,
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        None,
    );
    let left = definitions.get_opt("widgets.example.org").await.unwrap();
    assert!(left.is_none(), "{}", String::from_utf8_lossy(&cleaned.stderr));
}
