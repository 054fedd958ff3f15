//! Instances of a database as processes on loopback, with a real API server and real PostgreSQL, and no kubelet: what that would do, these tests do.
//!
//! Each instance has an address of its own and its own way to the API server, which can be cut. A container is one process with all that it has
//! started: whoever ends it ends those that hold the lock of its volume as well, as the kernel does with what is left in a container.

use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use roadstead::api::database::agent::{
    CONTAINER, Member, RECORD, REPLICATION_USER, ROLE_LABEL, Report, SETTINGS, Settings, Synchronous,
};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_postgres::{Config, NoTls};

use crate::apiserver::{ApiServer, within};

#[path = "database_authority.rs"]
mod authority;
#[path = "database_instance.rs"]
mod instance;
#[path = "database_operator.rs"]
mod operator;
#[path = "postgres_user.rs"]
mod user;

pub use authority::Authority;
use instance::{Instance, Way};
use operator::Operator;
use user::user;

/// On a busy machine.
pub const LIMIT: Duration = Duration::from_secs(90);
const PASSWORD: &str = "correct horse";

/// A database and its instances.
pub struct Database {
    pub name: String,
    pub namespace: String,
    pub instances: Vec<Instance>,
    pub port: u16,
    control_port: u16,
    client: Client,
    settings: Settings,
    operator: Operator,
    folder: tempfile::TempDir,
}

fn free_port() -> u16 {
    TcpListener::bind("0.0.0.0:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

impl Database {
    /// Started, with a primary that all others stream from.
    pub async fn serving(name: &str, number: u8, instances: usize, synchronous: Synchronous) -> Self {
        let database = Self::prepared(name, number, instances, synchronous).await;
        for index in 0..instances {
            database.start(index);
        }
        database.whole().await;
        database
    }

    async fn prepared(name: &str, number: u8, instances: usize, synchronous: Synchronous) -> Self {
        let server = ApiServer::shared();
        let client = server.client().await;
        let namespace = server.namespace(name).await;
        let mut place = tempfile::Builder::new();
        let folder = place
            .prefix("db")
            .tempdir_in("/dev/shm")
            .or_else(|_| place.tempdir())
            .unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let (port, control_port) = (free_port(), free_port());
        let address = |index: usize| format!("127.0.{number}.{}", index + 2);
        let members = (0..instances).map(|index| Member {
            name: format!("{name}-{index}"),
            host: address(index),
        });
        let settings = Settings {
            database: name.to_owned(),
            namespace: namespace.clone(),
            major: 15,
            members: members.collect(),
            parameters: [("shared_buffers", "16MB"), ("wal_keep_size", "512MB")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            synchronous,
            maximum_lag: 1 << 20,
            tls: true,
            ..Settings::default()
        };
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            spec: None,
        };
        let leases: Api<Lease> = Api::namespaced(client.clone(), &namespace);
        leases.create(&PostParams::default(), &lease).await.unwrap();
        let authority = Authority::new();
        let mut database = Self {
            operator: Operator::new(&authority, control_port),
            name: name.to_owned(),
            namespace,
            instances: Vec::new(),
            port,
            control_port,
            client,
            settings,
            folder,
        };
        for index in 0..instances {
            let instance = database.instance(index, &authority, server).await;
            database.instances.push(instance);
        }
        database
    }

    async fn instance(&self, index: usize, authority: &Authority, server: &ApiServer) -> Instance {
        let Member { name, host } = self.settings.members[index].clone();
        let folder = self.folder.path().join(&name);
        let make = |part: &str| {
            let path = folder.join(part);
            std::fs::create_dir_all(&path).unwrap();
            path
        };
        let (volume, settings, credentials) = (make("volume"), make("settings"), make("credentials"));
        if let Some(user) = user() {
            chown(&volume, Some(user), None).unwrap();
        }
        write_settings(&settings, &self.settings);
        std::fs::write(credentials.join("username"), &self.name).unwrap();
        std::fs::write(credentials.join("password"), PASSWORD).unwrap();
        authority.mount(&make("tls"), REPLICATION_USER, &host);
        let mut kubeconfig: Value =
            serde_json::from_slice(&std::fs::read(server.kubeconfig()).unwrap()).unwrap();
        let url = kubeconfig["clusters"][0]["cluster"]["server"]
            .as_str()
            .unwrap()
            .to_owned();
        let way = Way::to(url.trim_start_matches("https://").parse().unwrap()).await;
        kubeconfig["clusters"][0]["cluster"]["server"] = json!(format!("https://127.0.0.1:{}", way.port));
        std::fs::write(folder.join("kubeconfig"), kubeconfig.to_string()).unwrap();
        let instance = Instance {
            name: name.clone(),
            address: host.parse().unwrap(),
            folder,
            process: Mutex::default(),
            way,
        };
        self.make_pod(&name).await;
        instance
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn make_pod(&self, name: &str) {
        let pod = json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": CONTAINER, "image": "postgres"}], "terminationGracePeriodSeconds": 0},
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.pods().create(&PostParams::default(), &pod).await.unwrap();
    }

    async fn pod(&self, index: usize) -> Pod {
        self.pods().get(&self.instances[index].name).await.unwrap()
    }

    /// Starts the container.
    pub fn start(&self, index: usize) {
        let uid = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async { self.pod(index).await.uid().unwrap() })
        });
        let (port, control_port, namespace) = (self.port, self.control_port, self.namespace.clone());
        let instance = &self.instances[index];
        let path = |part: &str| instance.folder.join(part);
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path("log"))
            .unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_roadstead"));
        command.args([
            "instance",
            "postgres",
            "--name",
            &instance.name,
            "--namespace",
            &namespace,
            "--uid",
            &uid,
        ]);
        for part in [
            "settings",
            "tls",
            "server-tls",
            "credentials",
            "volume",
            "run",
            "termination-log",
        ] {
            command.arg(format!("--{part}")).arg(path(part));
        }
        command.args([
            "--port",
            &port.to_string(),
            "--control-port",
            &control_port.to_string(),
        ]);
        command.args(["--address", &instance.address.to_string()]);
        command.arg("--bin").arg(instance.programs());
        if let Some(user) = user() {
            command.args(["--user", &user.to_string()]);
        }
        command.env("KUBECONFIG", path("kubeconfig")).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        *instance.process.lock().unwrap() = Some(command.spawn().unwrap());
    }

    /// The container is killed. With `told`, the kubelet says so, and why it says what it says is in the termination log.
    pub async fn kill(&self, index: usize, told: bool) {
        let message = std::fs::read_to_string(self.instances[index].folder.join("termination-log")).unwrap();
        self.instances[index].end();
        if told {
            let terminated = json!({"exitCode": 137, "message": message, "reason": "Error"});
            let status = json!({"name": CONTAINER, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": terminated}});
            let status = json!({"status": {"containerStatuses": [status]}});
            let name = self.instances[index].name.clone();
            self.pods()
                .patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
                .await
                .unwrap();
        }
    }

    /// The pod is deleted without a word to it, and another one of the same name comes.
    pub async fn replace(&self, index: usize) {
        self.instances[index].end();
        let name = self.instances[index].name.clone();
        let now = kube::api::DeleteParams::default().grace_period(0);
        self.pods().delete(&name, &now).await.unwrap();
        within(LIMIT, "the pod is gone", async || {
            self.pods().get_opt(&name).await.unwrap().is_none()
        })
        .await;
        self.make_pod(&name).await;
    }

    /// Who the pods' labels say is the primary; none if nobody, or not exactly one.
    pub async fn primary(&self) -> Option<usize> {
        let pods = self.pods().list(&Default::default()).await.unwrap();
        let leads = |pod: &&Pod| pod.labels().get(ROLE_LABEL).is_some_and(|role| role == "primary");
        let primaries: Vec<String> = pods
            .items
            .iter()
            .filter(leads)
            .map(|pod| pod.name_any())
            .collect();
        let [primary] = primaries.as_slice() else {
            return None;
        };
        self.instances
            .iter()
            .position(|instance| instance.name == *primary)
    }

    pub async fn another_primary(&self, than: usize) -> usize {
        let mut primary = None;
        self.until(LIMIT, "there is another primary", async || {
            primary = self.primary().await.filter(|primary| *primary != than);
            primary.is_some()
        })
        .await;
        primary.unwrap()
    }

    /// Waits until all others stream from a primary.
    pub async fn whole(&self) {
        self.until(
            LIMIT,
            "there is a primary, and all others stream from it",
            async || {
                let Some(primary) = self.primary().await else {
                    return false;
                };
                let streams = self
                    .ask(
                        primary,
                        "SELECT count(*)::text FROM pg_stat_replication WHERE state = 'streaming'",
                    )
                    .await;
                streams.is_ok_and(|streams| streams == (self.instances.len() - 1).to_string())
            },
        )
        .await;
    }

    /// Waits until the Lease says that any of them may take over, and whoever does loses nothing unless commits wait for nobody: right after a copy streams
    /// it does not yet.
    pub async fn settled(&self) {
        let waits = self.settings.synchronous != Synchronous::Off;
        self.until(LIMIT, "the Lease names all, and one quorum alone", async || {
            let (_, record, _) = self.lease().await;
            let count = |key: &str| record[key].as_array().map_or(0, Vec::len);
            let is_known = count("members") == self.instances.len() && count("quorums") <= 1;
            is_known && record["asynchronous"] == json!(!waits)
        })
        .await;
    }

    pub async fn until(&self, limit: Duration, what: &str, mut done: impl AsyncFnMut() -> bool) {
        let started = Instant::now();
        while !done().await {
            assert!(
                started.elapsed() < limit,
                "not within {limit:?}: {what}\n{}",
                self.logs()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Gives all instances other settings, as their kubelets would.
    pub fn configure(&self, change: impl FnOnce(&mut Settings)) {
        let mut settings = self.settings.clone();
        change(&mut settings);
        for instance in &self.instances {
            write_settings(&instance.folder.join("settings"), &settings);
        }
    }

    /// What an instance says of itself to the operator.
    pub async fn report(&self, index: usize) -> Result<Report, String> {
        self.operator.report(self.instances[index].address).await
    }

    /// Tells an instance what to do, as the operator.
    pub async fn order(&self, index: usize, path: &str, what: Value) -> Result<(), String> {
        let name = &self.settings.members[index].name;
        let address = self.instances[index].address;
        self.operator.order((name, address), path, what).await
    }

    /// One text from an instance, over its socket.
    pub async fn ask(&self, index: usize, query: &str) -> Result<String, String> {
        let mut config = Config::new();
        config
            .host_path(self.instances[index].folder.join("run"))
            .port(self.port);
        config
            .user("postgres")
            .dbname("postgres")
            .connect_timeout(Duration::from_secs(2));
        let asked = async {
            let (client, connection) = config.connect(NoTls).await.map_err(|error| error.to_string())?;
            let connection = tokio::spawn(connection);
            let row = client
                .query_one(query, &[])
                .await
                .map_err(|error| error.to_string());
            connection.abort();
            Ok(row?.get(0))
        };
        let answer = tokio::time::timeout(Duration::from_secs(3), asked).await;
        answer.unwrap_or_else(|_| Err("no answer".to_owned()))
    }

    /// How the owner connects to an instance.
    pub fn config(&self, index: usize) -> Config {
        let mut config = Config::new();
        config
            .host(self.instances[index].address.to_string())
            .port(self.port);
        config.user(&self.name).dbname(&self.name).password(PASSWORD);
        config
    }

    /// What the Service would do: leads to whoever is labelled, as long as the result lives.
    pub fn endpoint(self: &Arc<Self>) -> Endpoint {
        let (lead, led) = watch::channel(self.config(0));
        let database = Arc::downgrade(self);
        let task = tokio::spawn(async move {
            while let Some(database) = database.upgrade() {
                if let Some(primary) = database.primary().await {
                    lead.send_replace(database.config(primary));
                }
                drop(database);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        Endpoint { led, task }
    }

    /// Whether an instance, or its PostgreSQL, has ever written this to its log.
    pub fn has_logged(&self, text: &str) -> bool {
        let mut logs = self.instances.iter().map(|instance| instance.folder.join("log"));
        logs.any(|log| std::fs::read_to_string(log).unwrap().contains(text))
    }

    /// Gives all instances another password of the owner, as a changed Secret does.
    pub fn tell_password(&self, password: &str) {
        for instance in &self.instances {
            std::fs::write(instance.folder.join("credentials/password"), password).unwrap();
        }
    }

    /// Makes or changes a Secret with the key `password`.
    pub async fn put_password(&self, secret: &str, password: &str) {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret}, "stringData": {"password": password}});
        let params = PatchParams::apply("test").force();
        secrets
            .patch(secret, &params, &Patch::Apply(object))
            .await
            .unwrap();
    }

    /// Logs in over the network.
    pub async fn log_in(&self, index: usize, user: &str, password: &str) -> Result<(), String> {
        let mut config = self.config(index);
        config
            .user(user)
            .password(password)
            .connect_timeout(Duration::from_secs(2));
        let connected = tokio::time::timeout(Duration::from_secs(3), config.connect(NoTls)).await;
        let connected = connected.map_err(|_| "no answer".to_owned())?;
        connected.map(drop).map_err(|error| match error.as_db_error() {
            Some(answer) => answer.code().code().to_owned(),
            None => error.to_string(),
        })
    }

    pub fn cut_off_api(&self, index: usize, cut: bool) {
        self.instances[index].way.open.send_replace(!cut);
    }

    /// When the Lease was renewed last, and for how many seconds its holder claims it from then on.
    pub async fn renewal(&self) -> (Option<MicroTime>, Option<i32>) {
        let spec = self.the_lease().await.spec.unwrap_or_default();
        (spec.renew_time, spec.lease_duration_seconds)
    }

    async fn the_lease(&self) -> Lease {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), &self.namespace);
        leases.get(&self.name).await.unwrap()
    }

    pub async fn lease(&self) -> (String, Value, i32) {
        let lease = self.the_lease().await;
        let record = lease
            .annotations()
            .get(RECORD)
            .map(|text| serde_json::from_str(text).unwrap());
        let spec = lease.spec.unwrap_or_default();
        (
            spec.holder_identity.unwrap_or_default(),
            record.unwrap_or_default(),
            spec.lease_transitions.unwrap_or_default(),
        )
    }

    /// The last of what the instances said.
    pub fn logs(&self) -> String {
        let mut told = String::new();
        for instance in &self.instances {
            let log = std::fs::read_to_string(instance.folder.join("log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let from = lines.len().saturating_sub(25);
            told += &format!("--- {}\n", instance.name);
            for line in &lines[from..] {
                let line: Value = serde_json::from_str(line).unwrap_or_else(|_| json!({"message": line}));
                told += &format!("{} {}\n", line["timestamp"].as_str().unwrap_or_default(), line);
            }
        }
        told
    }
}

/// Where the primary is found.
pub struct Endpoint {
    led: watch::Receiver<Config>,
    task: JoinHandle<()>,
}

impl Endpoint {
    pub fn connect(&self) -> impl Fn() -> Config + Send + Sync + 'static {
        let led = self.led.clone();
        move || led.borrow().clone()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn write_settings(folder: &Path, settings: &Settings) {
    std::fs::write(folder.join(SETTINGS), serde_json::to_vec(settings).unwrap()).unwrap();
}
