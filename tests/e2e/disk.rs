//! Volumes of a size that the kernel keeps to, and that can be frozen: an ext4 in a file for each instance, mounted on the node.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::json;

use crate::objects::{PV, STORAGE_CLASS};
use crate::outcome::{Failure, Outcome, ensure};
use crate::world::World;

/// The StorageClass of these volumes.
pub const CLASS: &str = "e2e-disk";
/// The size that each claims to have; PostgreSQL is never told it.
const CLAIMED: &str = "1Gi";

/// The volumes of one database. They are taken away when this is dropped, as soon as nobody uses them any more.
pub struct Disks {
    node: String,
    folder: PathBuf,
    names: Vec<String>,
}

impl Disks {
    /// Makes a volume of so many MiB for each instance of the database that is to be made in a scenario's namespace.
    pub async fn make(
        world: &World,
        scenario: &str,
        database: &str,
        instances: usize,
        mebibytes: u32,
    ) -> Outcome<Self> {
        let node = kubelet()?.to_string();
        let folder = world.settings.scratch.join(format!("disks-{scenario}"));
        let mut disks = Self {
            node,
            folder,
            names: Vec::new(),
        };
        let class = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": CLASS},
            "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
        });
        world.apply("", class).await?;
        let nodes: Api<Node> = Api::all(world.client.clone());
        let nodes = nodes.list(&ListParams::default()).await?.items;
        let node = nodes.first().map(ResourceExt::name_any).unwrap_or_default();
        for ordinal in 0..instances {
            let name = format!("{CLASS}-{scenario}-{ordinal}");
            let path = disks.path(ordinal);
            std::fs::create_dir_all(&path)?;
            let image = disks.image(ordinal).display().to_string();
            let size = format!("{mebibytes}M");
            world.run("truncate", &["--size", &size, &image]).await?;
            world.run("mkfs.ext4", &["-q", "-F", "-m", "0", &image]).await?;
            let target = path.display().to_string();
            disks
                .on_node(world, &["mount", "-o", "loop", &image, &target])
                .await?;
            disks.names.push(name.clone());
            remove(world, &name).await?;
            let volume = json!({
                "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
                "spec": {
                    "capacity": {"storage": CLAIMED}, "accessModes": ["ReadWriteOnce"], "storageClassName": CLASS,
                    "persistentVolumeReclaimPolicy": "Retain", "local": {"path": path},
                    "claimRef": {
                        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                        "namespace": World::namespace_of(scenario), "name": format!("data-{database}-{ordinal}"),
                    },
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                        {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]},
                    ]}]}},
                },
            });
            world.apply("", volume).await?;
        }
        Ok(disks)
    }

    /// Keeps whoever writes to the disk of an instance waiting, until what is returned is dropped, but no longer than `bound`, whatever becomes of
    /// this program.
    pub async fn freeze(&self, instance: &str, bound: Duration) -> Outcome<Frost> {
        let ordinal = instance.rsplit('-').next().and_then(|it| it.parse().ok());
        let ordinal = ordinal.ok_or_else(|| Failure::new(format!("{instance} has no ordinal")))?;
        let path = self.path(ordinal);
        let bound = bound.as_secs().to_string();
        let script = "fsfreeze --freeze \"$0\" && echo frozen && sleep \"$1\"; fsfreeze --unfreeze \"$0\"";
        // Not of tokio: it goes on when this program ends
        let mut keeper = Command::new("setsid")
            .args(["nsenter", "--target", &self.node, "--mount", "sh", "-c", script])
            .arg(&path)
            .arg(bound)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let said = keeper.stdout.take();
        let frost = Frost {
            node: self.node.clone(),
            path,
            keeper,
        };
        let said = said.ok_or_else(|| Failure::new("it has no output"))?;
        let frozen = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(said).read_line(&mut line).map(|_| line)
        });
        let line = tokio::time::timeout(Duration::from_secs(10), frozen).await???;
        ensure!(line.trim() == "frozen", "the disk cannot be frozen: {line:?}");
        Ok(frost)
    }

    /// Removes the objects.
    pub async fn forget(&self, world: &World) -> Outcome {
        for name in &self.names {
            remove(world, name).await?;
        }
        world.delete(STORAGE_CLASS, "", CLASS).await
    }

    fn path(&self, ordinal: usize) -> PathBuf {
        self.folder.join(ordinal.to_string())
    }

    fn image(&self, ordinal: usize) -> PathBuf {
        self.folder.join(format!("{ordinal}.ext4"))
    }

    /// Runs a program with the mounts of the node.
    async fn on_node(&self, world: &World, command: &[&str]) -> Outcome {
        let enter = ["--target", &self.node, "--mount"];
        world
            .run("nsenter", &[&enter[..], command].concat())
            .await
            .map(drop)
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        for ordinal in 0..self.names.len() {
            let path = self.path(ordinal);
            // Lazily: pods may still have it
            on_node(&self.node, &["umount", "--lazy"], &path);
            // What is mounted stays until the last user is gone
            let _ = std::fs::remove_file(self.image(ordinal));
        }
    }
}

/// A disk is frozen; until this is dropped.
#[must_use]
pub struct Frost {
    node: String,
    path: PathBuf,
    keeper: Child,
}

impl Drop for Frost {
    fn drop(&mut self) {
        on_node(&self.node, &["fsfreeze", "--unfreeze"], &self.path);
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

/// What must be done even where nothing can be awaited. It fails where it was done already.
fn on_node(node: &str, command: &[&str], path: &Path) {
    let _ = Command::new("nsenter")
        .args(["--target", node, "--mount"])
        .args(command)
        .arg(path)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// The object may still be protected by a claim that is going.
async fn remove(world: &World, name: &str) -> Outcome {
    world.delete(PV, "", name).await?;
    let unprotected = json!({"metadata": {"finalizers": null}});
    // It may have gone between the two
    let _ = world.merge(PV, "", name, unprotected).await;
    world.wait_gone(PV, "", name, Duration::from_secs(20)).await
}

/// The process that mounts volumes into pods: the one in this very network, where there are several clusters.
fn kubelet() -> Outcome<i32> {
    let ours = std::fs::read_link("/proc/self/ns/net")?;
    let entries = std::fs::read_dir("/proc")?.flatten();
    let found: Vec<i32> = entries
        .filter_map(|entry| {
            let name = std::fs::read_to_string(entry.path().join("comm")).ok()?;
            let same = std::fs::read_link(entry.path().join("ns/net")).ok()? == ours;
            (name.trim() == "kubelet" && same).then(|| entry.file_name().to_str()?.parse().ok())?
        })
        .collect();
    ensure!(
        found.len() == 1,
        "there is no kubelet on this machine, or more than one: {found:?}"
    );
    Ok(found[0])
}
