//! A certificate from files, as OLM mounts it.

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::sleep;
use tracing::{info, warn};

use super::served::{Certificates, Served, Trust};
use crate::pki::{Pair, PairError};
use crate::runtime::mounted::{self, MountedError};
use crate::telemetry::told::Told;

/// Where OLM mounts the certificate of a webhook.
pub const OLM_FOLDER: &str = "/tmp/k8s-webhook-server/serving-certs";

/// How often the files are looked at. The kubelet takes up to a minute to bring a changed Secret, and OLM renews a day before the end.
const INTERVAL: Duration = Duration::from_secs(10);
/// The same while there is no certificate, and the webhook cannot answer.
const INTERVAL_WITHOUT: Duration = Duration::from_secs(1);

/// A folder with `tls.crt` and `tls.key`.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

/// Why there is no certificate in the folder.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A file cannot be read.
    #[error(transparent)]
    Unreadable(#[from] MountedError),
    /// The files are no pair.
    #[error("tls.crt and tls.key in {path}: {source}", path = path.display())]
    NoPair {
        /// Which folder.
        path: PathBuf,
        /// Why not.
        source: PairError,
    },
}

impl Folder {
    /// The folder at this path.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The pair that is there now.
    ///
    /// # Errors
    /// When a file cannot be read, or they are no pair.
    pub fn read(&self) -> Result<Pair, FolderError> {
        let [chain, key] = mounted::read(&self.path, ["tls.crt", "tls.key"])?;
        Pair::from_pem(&chain, &key).map_err(|source| FolderError::NoPair {
            path: self.path.clone(),
            source,
        })
    }

    /// Publishes what is in the folder, and again whenever that is another pair. What is wrong is logged once, and what was there before
    /// stays.
    pub async fn follow(self, certificates: Certificates) -> Infallible {
        let mut told = Told::default();
        loop {
            match self.read() {
                Ok(pair) => {
                    if told.clear() {
                        info!(folder = %self.path.display(), "the certificate can be read again");
                    }
                    let trust = Trust::Theirs;
                    certificates.publish(Served { pair, trust });
                }
                Err(error) => {
                    let error = error.to_string();
                    if told.note(&error) {
                        warn!(error, "no new certificate for the webhook");
                    }
                }
            }
            let is_without = certificates.current().is_none();
            sleep(if is_without { INTERVAL_WITHOUT } else { INTERVAL }).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::testing::{Issued, at};
    use crate::telemetry::captured::Captured;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A volume of a Secret, as the kubelet keeps it.
    struct Volume(tempfile::TempDir);

    impl Volume {
        fn new() -> Self {
            let volume = tempfile::tempdir().unwrap();
            for name in ["tls.crt", "tls.key"] {
                symlink(format!("..data/{name}"), volume.path().join(name)).unwrap();
            }
            Self(volume)
        }

        /// As AtomicWriter does it: a new folder, a new link beside the old, and a rename.
        fn write(&self, generation: &str, chain: &str, key: &str) {
            let root = self.0.path();
            let folder = root.join(generation);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("tls.crt"), chain).unwrap();
            fs::write(folder.join("tls.key"), key).unwrap();
            symlink(generation, root.join("..data_tmp")).unwrap();
            let former = fs::read_link(root.join("..data")).ok();
            fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
            if let Some(former) = former {
                fs::remove_dir_all(root.join(former)).unwrap();
            }
        }
    }

    async fn until(certificates: &Certificates, expected: &Issued) {
        let mut changes = certificates.subscribe();
        let is_there = |served: &Option<Served>| served.as_ref().is_some_and(|s| s.pair == expected.pair());
        let waited = tokio::time::timeout(3 * INTERVAL, changes.wait_for(is_there)).await;
        assert!(waited.is_ok_and(|there| there.is_ok()), "not published in time");
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_kubelet_brings_is_served_and_what_cannot_be_served_changes_nothing() {
        let logged = Captured::begin();
        let volume = Volume::new();
        let (first, second) = (
            Issued::by_new_authority("a.ns.svc", at(0)),
            Issued::by_new_authority("a.ns.svc", at(1)),
        );
        let certificates = Certificates::default();
        let following = tokio::spawn(Folder::new(volume.0.path()).follow(certificates.clone()));

        sleep(3 * INTERVAL).await;
        assert!(certificates.current().is_none());
        let missing = logged.lines_with("No such file or directory");
        assert_eq!(missing.len(), 1, "{missing:?}");
        assert!(missing[0].contains(&volume.0.path().join("tls.crt").display().to_string()));

        volume.write("..1", &first.chain, &first.key);
        until(&certificates, &first).await;
        volume.write("..2", &second.chain, &first.key);
        sleep(3 * INTERVAL).await;
        until(&certificates, &first).await;
        let unfit = logged.lines_with("cannot be used together");
        assert_eq!(unfit.len(), 1, "{unfit:?}");
        assert!(unfit[0].contains(&volume.0.path().display().to_string()));

        volume.write("..3", &second.chain, &second.key);
        until(&certificates, &second).await;
        assert!(logged.lines_with("PRIVATE KEY").is_empty());
        following.abort();
    }

    #[test]
    fn plain_files_do_as_well() {
        let folder = tempfile::tempdir().unwrap();
        let issued = Issued::by_new_authority("a.ns.svc", at(0));
        fs::write(folder.path().join("tls.crt"), &issued.chain).unwrap();
        fs::write(folder.path().join("tls.key"), &issued.key).unwrap();
        assert_eq!(Folder::new(folder.path()).read().unwrap(), issued.pair());
    }
}
