//! The operator's memory over the whole run: the highest mark of every one of its containers' cgroups, and whether
//! one was ever killed for want of memory.
//!
//! Pods go away during the run and their cgroups with them, so the marks are read once a second. Every local pod's cgroup is
//! visible in the host's hierarchy, version 1 or 2, as `.../pod<uid>/<container>`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};

/// How often the marks are read.
const INTERVAL: Duration = Duration::from_secs(1);
/// Deep enough for `kubepods/burstable/pod<uid>` below a cgroup root of the cluster's own.
const DEPTH: usize = 6;

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
}

/// Watches the operator's pods from the first scenario to the last.
#[derive(Debug, Default)]
pub struct Memory {
    pods: Mutex<BTreeMap<String, Peak>>,
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
                        list.items.iter().for_each(|pod| writer.sample(pod, &mut folders));
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

    fn sample(&self, pod: &Pod, folders: &mut BTreeMap<String, PathBuf>) {
        let (Some(name), Some(uid)) = (&pod.metadata.name, &pod.metadata.uid) else {
            return;
        };
        if !name.starts_with("roadstead-operator-") {
            return;
        }
        if !folders.contains_key(uid)
            && let Some(folder) = pod_folder(uid)
        {
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
