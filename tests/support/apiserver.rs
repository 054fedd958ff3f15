//! A real API server for tests: etcd and kube-apiserver on loopback, one pair for each test binary, and Kubernetes' own controllers for those
//! that ask for them. All are gone when it ends, however it ends.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{AuthInfo, Config, KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use serde_json::json;

/// How long etcd and kube-apiserver may take to answer, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(90);
const TOKEN: &str = "for-tests-on-loopback-only";

/// A running API server, at which the bearer of its kubeconfig may do everything.
pub struct ApiServer {
    /// Where its programs are.
    assets: PathBuf,
    folder: PathBuf,
    url: String,
    controllers: OnceLock<()>,
}

impl ApiServer {
    /// The server of this test binary; started by whoever asks first.
    ///
    /// # Panics
    /// When its programs are missing, or do not start.
    pub fn shared() -> &'static Self {
        static SERVER: OnceLock<ApiServer> = OnceLock::new();
        SERVER.get_or_init(Self::start)
    }

    /// How to reach it, with every right.
    pub async fn config(&self) -> Config {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig()).expect("our own kubeconfig");
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        config.expect("our own kubeconfig")
    }

    /// A plain client of it, which nothing fences.
    pub async fn client(&self) -> Client {
        Client::try_from(self.config().await).expect("our own kubeconfig")
    }

    /// A kubeconfig of it, for other processes.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// Makes a namespace of this name, which no other test may use.
    #[allow(dead_code, reason = "each test binary uses what it needs of this")]
    pub async fn namespace(&self, name: &str) -> String {
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let api: Api<Namespace> = Api::all(self.client().await);
        api.create(&PostParams::default(), &namespace)
            .await
            .expect("a namespace of its own for each test");
        name.to_owned()
    }

    /// Applies the product's resource definitions and waits until they are served.
    #[allow(dead_code, reason = "each test binary uses what it needs of this")]
    pub async fn install_crds(&self) {
        self.install_crds_of("crds").await;
    }

    /// The same for those in a folder of this repository.
    #[allow(dead_code, reason = "each test binary uses what it needs of this")]
    pub async fn install_crds_of(&self, folder: &str) {
        let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let crds: Api<DynamicObject> = Api::all_with(self.client().await, &ApiResource::from_gvk(&kind));
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        for file in std::fs::read_dir(folder).expect("the folder of the definitions") {
            let path = file.expect("a file in it").path();
            if path.extension().is_none_or(|extension| extension != "yaml") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a definition");
            let crd: DynamicObject = serde_yaml::from_str(&text).expect("a definition");
            let name = crd.name_any();
            crds.patch(&name, &PatchParams::apply("test").force(), &Patch::Apply(&crd))
                .await
                .expect("a valid definition");
            within(
                Duration::from_secs(30),
                &format!("{name} is served"),
                async || {
                    let crd = crds.get(&name).await.expect("the definition");
                    let conditions = crd.data["status"]["conditions"]
                        .as_array()
                        .cloned()
                        .unwrap_or_default();
                    conditions
                        .iter()
                        .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
                },
            )
            .await;
        }
    }

    /// Has Kubernetes' own controllers of Deployments, ReplicaSets, StatefulSets, Jobs and disruption budgets run, and its garbage collector. This one
    /// looks for new kinds only twice a minute, so their definitions come first.
    ///
    /// # Panics
    /// When their program is missing, or does not start.
    #[allow(dead_code, reason = "each test binary uses what it needs of this")]
    pub fn run_controllers(&self) {
        self.controllers.get_or_init(|| {
            const REMEDY: &str = "setup-envtest does not bring it; run 'hack/cluster/cluster programs' and unset KUBEBUILDER_ASSETS";
            let program = program(&self.assets, "kube-controller-manager", REMEDY);
            let [port] = free_ports();
            let flags = [
                format!("--kubeconfig={}", self.kubeconfig().display()),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--secure-port={port}"),
                format!("--cert-dir={}", self.folder.join("controllers").display()),
                "--leader-elect=false".to_owned(),
                "--use-service-account-credentials=false".to_owned(),
                "--controllers=deployment-controller,replicaset-controller,statefulset-controller,job-controller,disruption-controller,garbage-collector-controller"
                    .to_owned(),
                // All tests of a binary together ask more of them than a cluster does.
                "--kube-api-qps=200".to_owned(),
                "--kube-api-burst=400".to_owned(),
            ];
            keep(&program, &flags, &self.folder);
            wait_for(&program, &format!("https://127.0.0.1:{port}"), "/healthz", &self.folder);
        });
    }

    fn start() -> Self {
        let assets = assets();
        let folder = tempfile::tempdir().expect("a temporary folder").keep();
        remove_at_the_end(&folder);
        let [etcd_port, peer_port, port] = free_ports();
        let etcd = format!("http://127.0.0.1:{etcd_port}");
        let peer = format!("http://127.0.0.1:{peer_port}");
        let path = |name: &str| folder.join(name).display().to_string();
        let flags = [
            format!("--data-dir={}", path("etcd")),
            format!("--listen-client-urls={etcd}"),
            format!("--advertise-client-urls={etcd}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            // Nothing here has to survive.
            "--unsafe-no-fsync".to_owned(),
        ];
        keep(&assets.join("etcd"), &flags, &folder);

        std::fs::write(
            folder.join("tokens.csv"),
            format!("{TOKEN},test,test,system:masters\n"),
        )
        .expect("tokens");
        // The server makes itself a certificate, whose key can also sign the tokens of service accounts.
        let key = path("certificates/apiserver.key");
        let flags = [
            format!("--etcd-servers={etcd}"),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            format!("--cert-dir={}", path("certificates")),
            format!("--service-account-key-file={key}"),
            format!("--service-account-signing-key-file={key}"),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            "--service-cluster-ip-range=10.96.0.0/24".to_owned(),
            format!("--token-auth-file={}", path("tokens.csv")),
            "--authorization-mode=RBAC".to_owned(),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
        ];
        let program = assets.join("kube-apiserver");
        keep(&program, &flags, &folder);

        let server = Self {
            assets,
            folder,
            url: format!("https://127.0.0.1:{port}"),
            controllers: OnceLock::new(),
        };
        server.write_kubeconfig();
        wait_for(&program, &server.url, "/readyz", &server.folder);
        server
    }

    fn write_kubeconfig(&self) {
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": self.url, "insecure-skip-tls-verify": true}}],
            "users": [{"name": "test", "user": {"token": TOKEN}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        });
        std::fs::write(self.kubeconfig(), kubeconfig.to_string()).expect("a kubeconfig");
    }
}

/// Waits until a program says there that it is well. Blocks, since whoever asks first may not be in an async context of its own.
fn wait_for(program: &Path, url: &str, path: &'static str, folder: &Path) {
    let (program, url, log) = (name_of(program), url.to_owned(), log_of(program, folder));
    let waiting = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(ready(&program, &url, path, &log));
    });
    waiting.join().expect("a program that starts");
}

async fn ready(program: &str, url: &str, path: &str, log: &Path) {
    let mut config = Config::new(url.parse().expect("our own address"));
    config.accept_invalid_certs = true;
    config.default_retry = false;
    config.auth_info = AuthInfo {
        token: Some(TOKEN.to_owned().into()),
        ..AuthInfo::default()
    };
    let client = Client::try_from(config).expect("our own address");
    let started = Instant::now();
    loop {
        let request = http::Request::get(path).body(Vec::new()).expect("a request");
        match client.request_text(request).await {
            Ok(_) => return,
            Err(_) if started.elapsed() < PATIENCE => tokio::time::sleep(Duration::from_millis(100)).await,
            Err(error) => {
                let log = std::fs::read_to_string(log).unwrap_or_default();
                let last: Vec<&str> = log.lines().rev().take(20).collect();
                panic!(
                    "{program} does not answer after {PATIENCE:?}: {error}\n{}",
                    last.join("\n")
                );
            }
        }
    }
}

/// Asks `done` again and again until it says yes.
///
/// # Panics
/// When it has not within `limit`; `what` says what was waited for.
pub async fn within(limit: Duration, what: &str, mut done: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !done().await {
        assert!(started.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The folder with etcd, kube-apiserver and, where it is needed, kube-controller-manager: `KUBEBUILDER_ASSETS`, else where the local cluster has them.
fn assets() -> PathBuf {
    const REMEDY: &str = "run 'hack/cluster/cluster programs', or set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver and kube-controller-manager";
    let folder = std::env::var_os("KUBEBUILDER_ASSETS")
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from);
    let folder = folder.or_else(|| {
        let output = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("hack/cluster/cluster"))
            .arg("assets")
            .output()
            .ok()?;
        let folder = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| PathBuf::from(folder.trim()))
    });
    let folder = folder.unwrap_or_else(|| panic!("no API server to test against: {REMEDY}"));
    for name in ["etcd", "kube-apiserver"] {
        program(&folder, name, REMEDY);
    }
    folder
}

/// The program of this name there.
///
/// # Panics
/// When it is missing; the remedy says what to do then.
fn program(folder: &Path, name: &str, remedy: &str) -> PathBuf {
    let program = folder.join(name);
    assert!(
        program.exists(),
        "{name} is not in {}: {remedy}",
        folder.display()
    );
    program
}

fn name_of(program: &Path) -> String {
    program.file_name().unwrap_or_default().display().to_string()
}

fn log_of(program: &Path, folder: &Path) -> PathBuf {
    folder.join(format!("{}.log", name_of(program)))
}

/// Starts a program that ends with this process, even when that is killed; its log is in the folder.
///
/// The kernel sends the signal when the *thread* that started the program ends, so it is started by one that never does.
fn keep(program: &Path, flags: &[String], folder: &Path) {
    let log = File::create(log_of(program, folder)).expect("a log");
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program).args(flags);
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a log"))
        .stderr(log);
    let (started, result) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = started.send(command.spawn().map(|child: Child| child.id()));
        loop {
            std::thread::park();
        }
    });
    result
        .recv()
        .expect("the keeper")
        .expect("setpriv, of util-linux, starts");
}

/// Removes the folder when this process has ended, however it ends: what etcd has written would fill the disk, run by run. The end is noticed by an
/// input that is closed.
fn remove_at_the_end(folder: &Path) {
    let sweeper = Command::new("sh")
        .args(["-c", "cat; sleep 1; rm -rf -- \"$0\""])
        .arg(folder)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("sh starts");
    std::mem::forget(sweeper);
}

/// Ports that were free a moment ago. All are held until the last is found, so that they differ.
fn free_ports<const N: usize>() -> [u16; N] {
    let held: [TcpListener; N] =
        std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    held.map(|listener| listener.local_addr().expect("an address").port())
}
