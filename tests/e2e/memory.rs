//! The operator's memory over the whole run: the highest mark of every one of its containers' cgroups, and whether
//! one was ever killed for want of memory. And why any of them had to be started again.
//!
//! Pods go away during the run and their cgroups with them, so the marks are read once a second. Every local pod's cgroup is
//! visible in the host's hierarchy, version 1 or 2, as `.../pod<uid>/<container>`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams, LogParams};

/// How often the marks are read.
const INTERVAL: Duration = Duration::from_secs(1);
/// Deep enough for `kubepods/burstable/pod<uid>` below a cgroup root of the cluster's own.
const DEPTH: usize = 6;
/// What the names of the operator's pods begin with.
const PODS: &str = "roadstead-operator-";
/// Enough of a log to hold what a program says when it ends.
const LINES: i64 = 20;

/// What was seen of one pod of the operator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Peak {
    /// The highest use of memory in bytes, page cache included, as the limit counts it.
    pub used: u64,
    /// The highest resident anonymous memory in bytes that a sample saw.
    pub anonymous: u64,
    /// The limit in bytes, as the kernel enforces it.
    pub limit: u64,
    /// How often the kernel killed a process for want of memory.
    pub kills: u64,
    /// How often the container was started again.
    pub restarts: i32,
    /// Why, by the number of the restart; one that ended twice within a sample's time lacks the first.
    pub exits: BTreeMap<i32, Exit>,
}

/// How a container of the operator ended before it was started again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    pub code: i32,
    /// The kubelet's word for it, such as `Error` or `OOMKilled`.
    pub reason: String,
    /// What the program said last about itself: the line with its name in front, or the last one.
    pub last_words: String,
}

impl Exit {
    /// Whether it is one by design: who loses the Lease must end, and does when the API server is too slow to renew it, or when OLM takes
    /// the rights away before the pods. The texts are those of `roadstead run`.
    pub fn is_intended(&self) -> bool {
        self.code == 1 && self.last_words.starts_with("roadstead: lost the lease ")
    }
}

/// Watches the operator's pods from the first scenario to the last.
#[derive(Debug, Default)]
pub struct Memory {
    pods: Mutex<BTreeMap<String, Peak>>,
    /// Where the cgroups of those pods are that were there last.
    folders: Mutex<Vec<PathBuf>>,
}

impl Memory {
    /// Starts to watch; ends with the runtime.
    pub fn watch(client: kube::Client) -> Arc<Self> {
        let memory = Arc::new(Self::default());
        let writer = Arc::clone(&memory);
        tokio::spawn(async move {
            let mut folders = BTreeMap::new();
            loop {
                for namespace in ["operators", "roadstead-system"] {
                    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
                    // A failed list is one missed sample
                    if let Ok(list) = pods.list(&ListParams::default()).await {
                        for pod in &list.items {
                            writer.sample(pod, &mut folders);
                            writer.ask_why(&pods, pod).await;
                        }
                    }
                }
                tokio::time::sleep(INTERVAL).await;
            }
        });
        memory
    }

    /// The marks by pod.
    pub fn peaks(&self) -> BTreeMap<String, Peak> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the largest process of the operator has resident now, files that it maps included, in KiB; none if there is none.
    pub fn resident(&self) -> u64 {
        let pods = self
            .folders
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let containers = pods
            .iter()
            .flat_map(|pod| std::fs::read_dir(pod).into_iter().flatten());
        let processes = containers.filter_map(Result::ok).flat_map(|container| {
            let processes =
                std::fs::read_to_string(container.path().join("cgroup.procs")).unwrap_or_default();
            processes.lines().map(str::to_owned).collect::<Vec<_>>()
        });
        let sizes = processes.filter_map(|process| {
            let comm = std::fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
            let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
            let size = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
            (comm.trim() == "roadstead").then(|| size.split_whitespace().next()?.parse().ok())?
        });
        sizes.max().unwrap_or_default()
    }

    fn sample(&self, pod: &Pod, folders: &mut BTreeMap<String, PathBuf>) {
        let (Some(name), Some(uid)) = (&pod.metadata.name, &pod.metadata.uid) else {
            return;
        };
        if !name.starts_with(PODS) {
            return;
        }
        if !folders.contains_key(uid)
            && let Some(folder) = pod_folder(uid)
        {
            let mut known = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
            known.retain(|folder| folder.exists());
            known.push(folder.clone());
            folders.insert(uid.clone(), folder);
        }
        let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        let peak = pods.entry(name.clone()).or_default();
        for container in pod
            .status
            .iter()
            .flat_map(|status| status.container_statuses.iter().flatten())
        {
            peak.restarts = peak.restarts.max(container.restart_count);
            let ended = [&container.state, &container.last_state].into_iter().flatten();
            let killed = ended
                .filter_map(|state| state.terminated.as_ref())
                .any(|it| it.reason.as_deref() == Some("OOMKilled"));
            peak.kills = peak.kills.max(u64::from(killed));
            let id = container
                .container_id
                .as_deref()
                .and_then(|id| id.split("://").nth(1));
            if let (Some(folder), Some(id)) = (folders.get(uid), id) {
                read(&folder.join(id), peak);
            }
        }
    }

    /// Keeps why a container of the operator was started again, with the end of its log. A log that cannot be read is asked for again
    /// with the next sample.
    async fn ask_why(&self, pods: &Api<Pod>, pod: &Pod) {
        let name = pod.name_any();
        if !name.starts_with(PODS) {
            return;
        }
        for (restart, end) in ends(pod) {
            if self
                .peaks()
                .get(&name)
                .is_some_and(|peak| peak.exits.contains_key(&restart))
            {
                continue;
            }
            let params = LogParams {
                tail_lines: Some(LINES),
                previous: true,
                ..LogParams::default()
            };
            let Ok(log) = pods.logs(&name, &params).await else {
                continue;
            };
            let said = log.lines().rev().find(|line| line.starts_with("roadstead: "));
            let exit = Exit {
                code: end.exit_code,
                reason: end.reason.clone().unwrap_or_default(),
                last_words: said.or_else(|| log.lines().last()).unwrap_or_default().to_owned(),
            };
            let mut all = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
            all.entry(name.clone()).or_default().exits.insert(restart, exit);
        }
    }
}

/// The ends of a pod's containers, with the number of the restart that came after each.
fn ends(pod: &Pod) -> impl Iterator<Item = (i32, &ContainerStateTerminated)> {
    let containers = pod
        .status
        .iter()
        .flat_map(|it| it.container_statuses.iter().flatten());
    containers.filter_map(|it| Some((it.restart_count, it.last_state.as_ref()?.terminated.as_ref()?)))
}

/// Raises the marks to what the container's cgroup says now; one that has gone says nothing.
fn read(container: &Path, peak: &mut Peak) {
    let number = |file: &str| -> u64 {
        std::fs::read_to_string(container.join(file))
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(0)
    };
    let field = |file: &str, name: &str| -> u64 {
        let text = std::fs::read_to_string(container.join(file)).unwrap_or_default();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
    };
    peak.used = peak
        .used
        .max(number("memory.max_usage_in_bytes"))
        .max(number("memory.peak"));
    peak.limit = peak
        .limit
        .max(number("memory.limit_in_bytes"))
        .max(number("memory.max"));
    peak.anonymous = peak
        .anonymous
        .max(field("memory.stat", "total_rss"))
        .max(field("memory.stat", "anon"));
    peak.kills = peak
        .kills
        .max(field("memory.oom_control", "oom_kill"))
        .max(field("memory.events", "oom_kill"));
}

/// The folder of a pod's cgroup in the hierarchy that counts memory.
fn pod_folder(uid: &str) -> Option<PathBuf> {
    let v1 = Path::new("/sys/fs/cgroup/memory");
    let root = if v1.is_dir() {
        v1
    } else {
        Path::new("/sys/fs/cgroup")
    };
    find(root, &format!("pod{uid}"), DEPTH)
}

fn find(folder: &Path, name: &str, depth: usize) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?;
    let folders: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    folders
        .iter()
        .find(|path| path.ends_with(name))
        .cloned()
        .or_else(|| {
            if depth == 0 {
                None
            } else {
                folders.iter().find_map(|path| find(path, name, depth - 1))
            }
        })
}
