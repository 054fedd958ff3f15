//! An instance of a database from below: its processes and its network, as root on its node has them.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Instant, SystemTime};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, EvictParams, ListParams};
use rustix::process::{Pid, Signal, kill_process};
use tokio_postgres::Config;

use crate::database;
use crate::objects::{SERVICE, text};
use crate::outcome::{Failure, Outcome, ensure};
use crate::sightings::Sighting;
use crate::world::World;

/// The container in which PostgreSQL runs.
const CONTAINER: &str = "postgres";
/// Where the volume is, and PostgreSQL's data on it.
const VOLUME: &str = "/var/lib/roadstead";
const DATA: &str = "/var/lib/roadstead/data";
/// Where PostgreSQL's socket is.
const SOCKET: &str = "/run/roadstead";
/// The table of rules by which a pod is cut off.
const RULES: &str = "roadstead_e2e";

/// A pod of a database, as it was when it was looked at.
#[derive(Clone, Debug)]
pub struct Instance {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    /// Its address; empty before it has one.
    pub address: String,
    /// What the label says.
    pub role: String,
    /// How often its container was started again.
    pub restarts: i32,
    /// The id of the container, without the name of the runtime; empty before it runs.
    container: String,
}

impl Instance {
    pub fn of(pod: &Pod) -> Self {
        let status = pod.status.as_ref();
        let containers = status.and_then(|it| it.container_statuses.as_ref());
        let container = containers.into_iter().flatten().find(|it| it.name == CONTAINER);
        let restarts = container.map(|it| it.restart_count).unwrap_or_default();
        let container = container.and_then(|it| it.container_id.as_deref()?.split("://").nth(1));
        Self {
            name: pod.name_any(),
            namespace: pod.namespace().unwrap_or_default(),
            uid: pod.uid().unwrap_or_default(),
            address: status.and_then(|it| it.pod_ip.clone()).unwrap_or_default(),
            role: pod
                .labels()
                .get("roadstead.dev/role")
                .cloned()
                .unwrap_or_default(),
            restarts,
            container: container.unwrap_or_default().to_owned(),
        }
    }

    // ---- what befalls it --------------------------------------------------------------------------------------

    /// Deletes the pod without a grace period.
    pub async fn delete_at_once(&self, world: &World) -> Outcome {
        let pods: Api<Pod> = Api::namespaced(world.client.clone(), &self.namespace);
        let now = DeleteParams::default().grace_period(0);
        pods.delete(&self.name, &now).await?;
        Ok(())
    }

    /// `kill -9` of the container's first process, and so of all of them.
    pub fn kill_container(&self) -> Outcome {
        let first: Vec<Process> = self.own_processes().filter(|it| it.inner == 1).collect();
        ensure!(first.len() == 1, "{} has no first process: {first:?}", self.name);
        signal(&first, Signal::KILL);
        Ok(())
    }

    /// `kill -9` of the postmaster alone.
    pub fn kill_postmaster(&self) -> Outcome {
        let postgres = self.postgres();
        let postmaster = postgres.first().filter(|it| is_postmaster(it, &postgres));
        let Some(postmaster) = postmaster else {
            return Err(Failure::new(format!(
                "{} has no postmaster: {postgres:?}",
                self.name
            )));
        };
        signal(std::slice::from_ref(postmaster), Signal::KILL);
        Ok(())
    }

    /// Stops every process of PostgreSQL where it is, as a disk that does not answer would, until what is returned is dropped.
    pub fn freeze(&self) -> Outcome<Frozen> {
        let first = self.postgres();
        ensure!(!first.is_empty(), "{} has no process of PostgreSQL", self.name);
        signal(&first, Signal::STOP);
        // Those that the postmaster began before it was stopped
        let frozen = Frozen(self.postgres());
        signal(&frozen.0, Signal::STOP);
        Ok(frozen)
    }

    /// Spoils the first page of the control file, as a disk may, and kills the container before PostgreSQL writes it anew.
    pub fn spoil(&self) -> Outcome {
        let file = format!("{}/global/pg_control", self.root(DATA)?);
        let mut file = std::fs::OpenOptions::new().write(true).open(file)?;
        file.write_all(&[0xA5; 512])?;
        file.sync_all()?;
        self.kill_container()
    }

    /// Leaves something in its data with which PostgreSQL does not start, and which it takes for no damage, and kills the container.
    pub fn confuse(&self) -> Outcome {
        std::fs::write(format!("{}/backup_label", self.root(DATA)?), "what is this?\n")?;
        self.kill_container()
    }

    /// Takes whatever room there is on its volume.
    pub async fn fill(&self, world: &World) -> Outcome {
        let script = "fallocate -l \"$(df --output=avail -B1 . | tail -n 1)\" filler || true
            dd if=/dev/zero of=filler.rest bs=4096 || true
            sync . && df --output=avail -B1 .";
        let left = self
            .exec(world, &["sh", "-c", &format!("cd {VOLUME} && {script}")])
            .await?;
        world.note(format!(
            "left on {}: {} bytes",
            self.name,
            left.split_whitespace().last().unwrap_or("?")
        ));
        Ok(())
    }

    /// Gives back what [`Self::fill`] took.
    pub async fn make_room(&self, world: &World) -> Outcome {
        let script = format!("rm -f {VOLUME}/filler {VOLUME}/filler.rest");
        self.exec(world, &["sh", "-c", &script]).await.map(drop)
    }

    /// Which folder its data is in: another one once it was made anew. What was removed leaves its number to others, so the time of birth belongs to it.
    pub fn data(&self) -> Outcome<(u64, SystemTime)> {
        let data = std::fs::metadata(self.root(DATA)?)?;
        Ok((data.ino(), data.created()?))
    }

    /// A path of the container, as the node sees it.
    fn root(&self, path: &str) -> Outcome<String> {
        let any = self.own_processes().find(|it| it.inner == 1);
        let any = any.ok_or_else(|| Failure::new(format!("{} does not run", self.name)))?;
        Ok(format!("/proc/{}/root{path}", any.pid))
    }

    /// What stays the same for as long as neither pod nor container nor PostgreSQL is started again.
    pub async fn life(&self) -> Outcome<Vec<String>> {
        let started = ["SELECT pg_postmaster_start_time()"];
        let started = self.query("postgres", &started).await?;
        let restarts = self.restarts.to_string();
        let own = [self.name.clone(), self.uid.clone(), self.container.clone()];
        Ok([&own[..], &[restarts, started]].concat())
    }

    /// The processes of PostgreSQL, the postmaster first.
    fn postgres(&self) -> Vec<Process> {
        let mut found: Vec<Process> = self.own_processes().filter(|it| it.name == "postgres").collect();
        let all = found.clone();
        found.sort_by_key(|it| !is_postmaster(it, &all));
        found
    }

    fn own_processes(&self) -> impl Iterator<Item = Process> {
        let known = !self.container.is_empty();
        let own = format!("/{}", self.container);
        let all = if known { processes(&self.uid) } else { Vec::new() };
        // Under systemd: cri-containerd-ID.scope
        let scope = format!("-{}.scope", self.container);
        all.into_iter()
            .filter(move |it| it.cgroup.ends_with(&own) || it.cgroup.ends_with(&scope))
    }

    // ---- its network ------------------------------------------------------------------------------------------

    /// Drops everything between the pod and these others, what belongs to connections that there are included. Probes of the kubelet, DNS and
    /// clients still get through.
    pub async fn cut_off(&self, world: &World, from: &[&Others]) -> Outcome<Cut> {
        // The sandbox's process, which holds the network for as long as the pod is there
        let processes = processes(&self.uid);
        let holder = processes
            .iter()
            .find(|it| it.name == "pause")
            .or_else(|| processes.first())
            .ok_or_else(|| Failure::new(format!("{} has no process", self.name)))?;
        let cut = Cut {
            holder: holder.pid.to_string(),
        };
        let (mut incoming, mut outgoing) = (String::new(), String::new());
        for (address, port) in from.iter().flat_map(|others| &others.0) {
            let family = if address.contains(':') { "ip6" } else { "ip" };
            let (source, target) = match port {
                Some(port) => (format!("tcp sport {port} "), format!("tcp dport {port} ")),
                None => Default::default(),
            };
            incoming += &format!("{family} saddr {address} {source}drop\n");
            outgoing += &format!("{family} daddr {address} {target}drop\n");
        }
        let rules = format!(
            "table inet {RULES} {{
            chain incoming {{ type filter hook input priority -400; policy accept;\n{incoming} }}
            chain outgoing {{ type filter hook output priority -400; policy accept;\n{outgoing} }}
            }}"
        );
        cut.nft(world, &rules).await?;
        Ok(cut)
    }

    // ---- what may be done to it ----------------------------------------------------------------------------------

    /// Whether the API server would let a drain of its node evict the pod. It is asked, and nothing more.
    pub async fn may_be_evicted(&self) -> Outcome<bool> {
        let mut config = kube::Config::infer().await?;
        // A refusal is the answer, and not asked for again and again
        config.default_retry = false;
        let pods: Api<Pod> = Api::namespaced(kube::Client::try_from(config)?, &self.namespace);
        let mut asked = EvictParams::default();
        asked.post_options.dry_run = true;
        match pods.evict(&self.name, &asked).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 429 => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    // ---- what it says -----------------------------------------------------------------------------------------

    /// A command in PostgreSQL's container, by way of the kubelet.
    pub async fn exec(&self, world: &World, command: &[&str]) -> Outcome<String> {
        let pod = ["-n", &self.namespace, "exec", &self.name, "-c", CONTAINER, "--"];
        world.run("kubectl", &[&pod[..], command].concat()).await
    }

    /// What PostgreSQL answers to the superuser over its socket, whatever befell its network. Whoever reaches the socket is one.
    pub async fn query(&self, database: &str, statements: &[&str]) -> Outcome<String> {
        let mut config = Config::new();
        config
            .host_path(self.root(SOCKET)?)
            .user("postgres")
            .dbname(database);
        database::answer(&config, statements).await
    }

    /// Writes, and tells where that went; fails if PostgreSQL does not take it. The commit waits for no replica: what is asked is whether this
    /// instance takes itself for the primary.
    pub async fn write(&self) -> Outcome<Sighting> {
        let begun = Instant::now();
        let statements = [
            "SET synchronous_commit = local",
            "DO $$ BEGIN PERFORM pg_logical_emit_message(true, 'roadstead-e2e', ''); END $$",
            "SELECT pg_walfile_name(pg_current_wal_lsn())",
        ];
        let file = self.query("postgres", &statements).await?;
        let ended = Instant::now();
        let timeline = file.get(..8).and_then(|it| u32::from_str_radix(it, 16).ok());
        Ok(Sighting {
            instance: self.name.clone(),
            timeline: timeline.ok_or_else(|| Failure::new(format!("{file:?} is no file of WAL")))?,
            begun,
            ended,
        })
    }
}

/// Addresses to be cut off from, each on one port or on all.
pub struct Others(Vec<(String, Option<i32>)>);

impl Others {
    /// The API server, by its Service and by itself.
    pub async fn api_server(world: &World) -> Outcome<Self> {
        let service = world.get(SERVICE, "default", "kubernetes").await?;
        let mut found = vec![(text(&service, "/spec/clusterIP").to_owned(), None)];
        let slices: Api<EndpointSlice> = Api::namespaced(world.client.clone(), "default");
        let own = ListParams::default().labels("kubernetes.io/service-name=kubernetes");
        for slice in slices.list(&own).await?.items {
            // It may be the node's own address, of which everything else must go on
            let ports: Vec<i32> = slice.ports.iter().flatten().filter_map(|it| it.port).collect();
            for address in slice.endpoints.iter().flat_map(|it| &it.addresses) {
                found.extend(ports.iter().map(|port| (address.clone(), Some(*port))));
            }
        }
        ensure!(found.len() > 1, "the API server has no address: {found:?}");
        Ok(Self(found))
    }

    /// The other instances, where they are now.
    pub fn peers(of: &Instance, all: &[Instance]) -> Self {
        let others = all.iter().filter(|it| it.uid != of.uid && !it.address.is_empty());
        Self(others.map(|it| (it.address.clone(), None)).collect())
    }
}

/// A pod is cut off; until it is mended, or the pod is gone.
pub struct Cut {
    holder: String,
}

impl Cut {
    pub async fn mend(self, world: &World) -> Outcome {
        self.nft(world, &format!("delete table inet {RULES}")).await
    }

    async fn nft(&self, world: &World, rules: &str) -> Outcome {
        let enter = ["--target", &self.holder, "--net", "nft", rules];
        world.run("nsenter", &enter).await.map(drop)
    }
}

/// Processes that go on once this is dropped.
#[must_use]
pub struct Frozen(Vec<Process>);

impl Drop for Frozen {
    fn drop(&mut self) {
        signal(&self.0, Signal::CONT);
    }
}

/// A process of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    /// Its id inside of the container.
    inner: i32,
    name: String,
    cgroup: String,
}

/// A process of PostgreSQL that another one of them did not start.
fn is_postmaster(process: &Process, all: &[Process]) -> bool {
    all.iter().all(|it| it.pid != process.parent)
}

/// All processes of a pod, by the cgroup that bears its UID.
fn processes(uid: &str) -> Vec<Process> {
    // cgroupfs has dashes in it, systemd underscores
    let names: BTreeSet<String> = [format!("pod{uid}"), format!("pod{}", uid.replace('-', "_"))].into();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| process(&entry.path(), &names))
        .collect()
}

/// None for one that is not of the pod, or just ended.
fn process(folder: &Path, pod: &BTreeSet<String>) -> Option<Process> {
    let pid = folder.file_name()?.to_str()?.parse().ok()?;
    let cgroups = std::fs::read_to_string(folder.join("cgroup")).ok()?;
    let mut paths = cgroups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let cgroup = paths.find(|path| pod.iter().any(|name| path.contains(name.as_str())))?;
    let status = std::fs::read_to_string(folder.join("status")).ok()?;
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    // What has ended and is not forgotten yet
    if field("State:")?.starts_with('Z') {
        return None;
    }
    Some(Process {
        pid,
        parent: field("PPid:")?.parse().ok()?,
        inner: field("NSpid:")?.split_whitespace().last()?.parse().ok()?,
        name: field("Name:")?.to_owned(),
        cgroup: cgroup.to_owned(),
    })
}

/// One that has ended meanwhile needs no signal.
fn signal(processes: &[Process], signal: Signal) {
    for process in processes {
        if let Some(pid) = Pid::from_raw(process.pid) {
            let _ = kill_process(pid, signal);
        }
    }
}
