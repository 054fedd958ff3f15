//! A Redis Cluster of real processes on loopback addresses, each a pod's: it keeps its folder, and gets another address whenever it is started.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use roadstead::controllers::redis_cluster::ask::{Target, ask};
use roadstead::controllers::redis_cluster::carry_out::{CarryOutError, Means, carry_out};
use roadstead::controllers::redis_cluster::client::{Credentials, RedisClient};
use roadstead::controllers::redis_cluster::go_over::Moved;
use roadstead::controllers::redis_cluster::topology::scene::{Place, Scene, Shape};
use roadstead::controllers::redis_cluster::topology::step::{Step, next};
use roadstead::controllers::redis_cluster::wire::{Reply, Wire, WireError, Words};
use tokio::time::{Instant, sleep};

/// After which a silent node counts as failed.
pub const NODE_TIMEOUT: Duration = Duration::from_secs(2);
/// For how long slots go over in one step, as in a reconcile.
const TURN: Duration = Duration::from_secs(2);

/// Without it nobody gets in, nodes among them.
pub const PASSWORD: &str = "correct horse";
/// Whose it is.
pub const USER: &str = "default";

/// What stands for StatefulSets, pods and the spec.
pub struct Ground {
    folder: tempfile::TempDir,
    port: u16,
    addresses: u8,
    processes: BTreeMap<Place, Process>,
    pub wanted: Shape,
    pub present: Shape,
    pub bootstrapped: bool,
    pub allow_data_loss: bool,
    pub client: Arc<RedisClient>,
}

struct Process {
    ip: IpAddr,
    child: Child,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that is free on all addresses, as is that of the bus, 10000 above it.
fn unused_port() -> u16 {
    loop {
        let port = TcpListener::bind("0.0.0.0:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let is_free = |port| TcpListener::bind(("0.0.0.0", port)).is_ok();
        // Beyond what is taken for connections that go out
        let port = 11_000 + port % 10_000;
        if is_free(port) && is_free(port + 10_000) {
            return port;
        }
    }
}

impl Ground {
    /// No pod yet.
    pub fn new(wanted: Shape) -> Self {
        let port = unused_port();
        let credentials = Credentials {
            user: Some((USER.to_owned(), PASSWORD.to_owned())),
        };
        Self {
            folder: tempfile::tempdir_in("/dev/shm")
                .or_else(|_| tempfile::tempdir())
                .unwrap(),
            port,
            addresses: 1,
            processes: BTreeMap::new(),
            wanted,
            present: Shape {
                shards: 0,
                replicas_per_shard: 0,
            },
            bootstrapped: false,
            allow_data_loss: false,
            client: RedisClient::new(port, credentials),
        }
    }

    /// The volume of a pod.
    fn volume(&self, place: Place) -> PathBuf {
        self.folder.path().join(format!("{}-{}", place.shard, place.copy))
    }

    pub fn start(&mut self, place: Place) {
        self.addresses += 1;
        let ip = IpAddr::V4(Ipv4Addr::new(127, 0, 1, self.addresses));
        let volume = self.volume(place);
        std::fs::create_dir_all(&volume).unwrap();
        let address = ip.to_string();
        let port = self.port.to_string();
        let timeout = NODE_TIMEOUT.as_millis().to_string();
        let settings = [
            ("port", &*port),
            ("bind", &*address),
            ("cluster-announce-ip", &*address),
            ("dir", volume.to_str().unwrap()),
            ("cluster-enabled", "yes"),
            ("cluster-node-timeout", &*timeout),
            ("cluster-allow-replica-migration", "no"),
            ("cluster-replica-validity-factor", "0"),
            ("appendonly", "yes"),
            ("appendfsync", "everysec"),
            ("save", ""),
            ("requirepass", PASSWORD),
            ("masterauth", PASSWORD),
            ("daemonize", "no"),
        ];
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(volume.join("log"))
            .unwrap();
        let arguments = settings
            .iter()
            .flat_map(|(name, value)| [format!("--{name}"), (*value).to_owned()]);
        let child = Command::new("redis-server")
            .args(arguments)
            .stdout(Stdio::from(log))
            .stdin(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("redis-server: {error}; `hack/cluster/cluster programs` installs it")
            });
        self.processes.insert(place, Process { ip, child });
    }

    /// As a container that is killed; its volume stays.
    pub fn kill(&mut self, place: Place) {
        self.processes.remove(&place);
    }

    /// The volume of a pod that does not run.
    pub fn lose_volume(&mut self, place: Place) {
        std::fs::remove_dir_all(self.volume(place)).unwrap();
    }

    /// On which all of them listen.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The pods that run.
    pub fn running(&self) -> Vec<Place> {
        self.processes.keys().copied().collect()
    }

    /// Where nodes are by now.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.processes.values().map(|process| process.ip).collect()
    }

    pub async fn scene(&self, wire: &dyn Wire) -> Scene {
        let target = |place| Target {
            place,
            ip: self.processes.get(&place).map(|process| process.ip),
        };
        let targets: Vec<Target> = self.present.places().map(target).collect();
        self.client.retain(&self.addresses());
        let (members, _) = ask(wire, &targets).await;
        Scene {
            wanted: self.wanted,
            present: self.present,
            bootstrapped: self.bootstrapped,
            allow_data_loss: self.allow_data_loss,
            node_timeout: NODE_TIMEOUT,
            memory_limit: None,
            members,
        }
    }

    /// What is next.
    pub async fn next(&self, wire: &dyn Wire) -> Step {
        next(&self.scene(wire).await)
    }

    /// Looks, and does what is next.
    pub async fn step(&mut self, wire: &dyn Wire) -> (Step, Result<Moved, CarryOutError>) {
        let step = self.next(wire).await;
        let outcome = self.carry_out(&step, wire).await;
        (step, outcome)
    }

    pub async fn carry_out(&mut self, step: &Step, wire: &dyn Wire) -> Result<Moved, CarryOutError> {
        if !step.is_change() {
            sleep(Duration::from_millis(200)).await;
        }
        match step {
            Step::Grow { to } => {
                let new: Vec<Place> = to.places().filter(|place| !self.present.has(*place)).collect();
                new.into_iter().for_each(|place| self.start(place));
                self.present = *to;
                Ok(Moved::default())
            }
            Step::Shrink { to } => {
                self.processes.retain(|place, _| to.has(*place));
                let gone: Vec<Place> = self.present.places().filter(|place| !to.has(*place)).collect();
                gone.into_iter().for_each(|place| self.lose_volume(place));
                self.present = *to;
                Ok(Moved::default())
            }
            Step::RecordBootstrapped => {
                self.bootstrapped = true;
                Ok(Moved::default())
            }
            step => {
                let means = Means {
                    wire,
                    port: self.port,
                    user: Some((USER, PASSWORD)),
                    node_timeout: NODE_TIMEOUT,
                    until: Instant::now() + TURN,
                    leads: &|| true,
                };
                carry_out(step, means).await
            }
        }
    }

    /// Goes on until a step is of this kind.
    pub async fn until(
        &mut self,
        wire: &dyn Wire,
        is_meant: impl Fn(&Step) -> bool,
        patience: Duration,
    ) -> Step {
        let end = Instant::now() + patience;
        loop {
            let (step, _) = self.step(wire).await;
            if is_meant(&step) {
                return step;
            }
            assert!(Instant::now() < end, "after {patience:?} it is at: {step}");
        }
    }

    /// Goes on until nothing is to be done any more, and gives what was done.
    pub async fn settle(&mut self, wire: &dyn Wire, patience: Duration) -> Vec<String> {
        let end = Instant::now() + patience;
        let mut done: Vec<String> = Vec::new();
        loop {
            let (step, outcome) = self.step(wire).await;
            if step == Step::Settled {
                return done;
            }
            let told = match outcome {
                Ok(_) => step.to_string(),
                Err(why) => format!("{step}: {why}"),
            };
            if done.last() != Some(&told) {
                done.push(told);
            }
            assert!(Instant::now() < end, "not settled after {patience:?}: {done:#?}");
        }
    }
}

/// A way to nodes on which now and then a command is lost, or its answer.
#[derive(Debug)]
pub struct Faulty {
    wire: Arc<RedisClient>,
    seed: Mutex<u64>,
}

impl Faulty {
    pub fn new(wire: &Arc<RedisClient>, seed: u64) -> Self {
        Self {
            wire: wire.clone(),
            seed: Mutex::new(seed),
        }
    }

    /// The next of some numbers below a bound (SplitMix64).
    pub fn below(&self, bound: u64) -> u64 {
        let mut seed = self.seed.lock().unwrap();
        *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut it = *seed;
        it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (it ^ (it >> 31)) % bound
    }
}

impl Wire for Faulty {
    fn send<'a>(
        &'a self,
        to: IpAddr,
        commands: &'a [Words],
        patience: Duration,
    ) -> BoxFuture<'a, Result<Vec<Reply>, WireError>> {
        async move {
            match self.below(60) {
                0 => Err(WireError::Unreachable("the command is lost".to_owned())),
                1 => {
                    let _ = self.wire.send(to, commands, patience).await;
                    Err(WireError::Unreachable("the answer is lost".to_owned()))
                }
                _ => self.wire.send(to, commands, patience).await,
            }
        }
        .boxed()
    }
}
