//! Looks at the files of a catalog that is served, and has another one take its place.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::{debug, error, info};

use super::disk::Stamps;
use super::{Index, Refused, Watched};

/// What was refused for a reason that may pass while the files stay the same is tried again after so long.
const AGAIN: Duration = Duration::from_secs(30);

/// Has another catalog take the place of the one that is served when the files are others, and stay so for one look. Never ends.
pub(super) async fn follow(
    folder: PathBuf,
    catalogs: watch::Sender<Arc<Index>>,
    watched: Watched,
    look: Duration,
) {
    let mut looks = interval(look);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut seen, mut said) = (Seen::default(), String::new());
    loop {
        looks.tick().await;
        let (served, path, mut before) = (
            Arc::clone(&catalogs.borrow()),
            folder.clone(),
            std::mem::take(&mut seen),
        );
        let looked = spawn_blocking(move || {
            let found = before.look(&served, &path);
            (before, found)
        });
        let found = match looked.await {
            Ok((now, found)) => {
                seen = now;
                found
            }
            Err(error) => {
                error!(%error, "cannot look at the files of the catalog");
                continue;
            }
        };
        match found {
            Found::Served => said.clear(),
            Found::Refused => {}
            Found::Moving => debug!("the files of the catalog are being written"),
            Found::Other(Ok(index)) => {
                let (packages, channels, bundles) = index.counts();
                info!(
                    packages,
                    channels, bundles, "another catalog is served; clients are asked to connect again"
                );
                let index = Arc::new(*index);
                watched.loaded(&index);
                catalogs.send_replace(index);
                said.clear();
            }
            Found::Other(Err(refused)) => {
                let why = refused.to_string();
                if why != said {
                    watched.refused();
                    error!(
                        why,
                        "the files have changed to what cannot be served; the catalog of before is"
                    );
                    said = why;
                }
            }
        }
    }
}

/// What is remembered from look to look.
#[derive(Debug, Default)]
struct Seen {
    last: Option<Stamps>,
    refused: Option<Mistake>,
}

/// What was read in vain, and need not be again.
#[derive(Debug)]
struct Mistake {
    stamps: Stamps,
    again: Option<Instant>,
}

#[derive(Debug)]
enum Found {
    /// What is served.
    Served,
    /// What was refused already.
    Refused,
    /// Others than at the last look: somebody may not have written all of them.
    Moving,
    Other(Result<Box<Index>, Refused>),
}

impl Seen {
    /// Of a catalog in several files one may be there before the others are, and be valid by itself. So the files are read when two looks have found the same.
    fn look(&mut self, served: &Index, folder: &Path) -> Found {
        let stamps = Stamps::of_folder(folder);
        if stamps == *served.stamps() {
            *self = Self::default();
            return Found::Served;
        }
        if self.refused.as_ref().is_some_and(|it| it.holds(&stamps)) {
            return Found::Refused;
        }
        if self.last.as_ref() != Some(&stamps) {
            self.last = Some(stamps);
            return Found::Moving;
        }
        match Index::read(folder) {
            Ok((index, _)) => {
                *self = Self::default();
                Found::Other(Ok(Box::new(index)))
            }
            Err(Refused::Moving) => {
                self.last = None;
                Found::Moving
            }
            Err(refused) => {
                let again = refused.may_pass().then(|| Instant::now() + AGAIN);
                self.refused = Some(Mistake { stamps, again });
                Found::Other(Err(refused))
            }
        }
    }
}

impl Mistake {
    fn holds(&self, stamps: &Stamps) -> bool {
        self.stamps == *stamps && self.again.is_none_or(|again| Instant::now() < again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn write(folder: &Path, file: &str, documents: &[Value]) {
        let text: String = documents.iter().map(|it| format!("{it}\n")).collect();
        std::fs::write(folder.join(file), text).unwrap();
    }

    fn package(name: &str) -> Vec<Value> {
        let version = json!({"type": "olm.package", "value": {"packageName": name, "version": "1.0.0"}});
        let bundle = format!("{name}.v1.0.0");
        vec![
            json!({"schema": "olm.package", "name": name, "defaultChannel": "a"}),
            json!({"schema": "olm.channel", "name": "a", "package": name, "entries": [{"name": bundle}]}),
            json!({"schema": "olm.bundle", "name": bundle, "package": name, "image": "a/b:1", "properties": [version]}),
        ]
    }

    /// A folder with a catalog, and what serves it.
    fn served() -> (tempfile::TempDir, Index) {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "one.json", &package("one"));
        let (index, _) = Index::read(folder.path()).unwrap();
        (folder, index)
    }

    #[tokio::test]
    async fn files_are_read_when_two_looks_have_found_the_same() {
        let (folder, index) = served();
        let (folder, mut seen) = (folder.path(), Seen::default());
        assert!(matches!(seen.look(&index, folder), Found::Served));
        // Valid by itself, and not all that is being written
        write(folder, "two.json", &package("two"));
        assert!(matches!(seen.look(&index, folder), Found::Moving));
        write(folder, "three.json", &package("three"));
        assert!(matches!(seen.look(&index, folder), Found::Moving));
        let Found::Other(Ok(other)) = seen.look(&index, folder) else {
            panic!("it is not read");
        };
        assert_eq!(other.counts(), (3, 3, 3));
        assert!(matches!(seen.look(&other, folder), Found::Served));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_refused_is_read_again_only_when_the_files_change() {
        let (folder, index) = served();
        let (folder, mut seen) = (folder.path(), Seen::default());
        write(folder, "two.json", &package("two")[1..]);
        assert!(matches!(seen.look(&index, folder), Found::Moving));
        assert!(matches!(
            seen.look(&index, folder),
            Found::Other(Err(Refused::Invalid(_)))
        ));
        tokio::time::advance(AGAIN * 100).await;
        assert!(matches!(seen.look(&index, folder), Found::Refused));
        write(folder, "two.json", &package("two"));
        assert!(matches!(seen.look(&index, folder), Found::Moving));
        assert!(matches!(seen.look(&index, folder), Found::Other(Ok(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_pass_is_tried_again_after_a_while() {
        let (folder, index) = served();
        let (folder, mut seen) = (folder.path(), Seen::default());
        // As one that may not be read
        std::fs::write(folder.join("two.json"), [0xff]).unwrap();
        assert!(matches!(seen.look(&index, folder), Found::Moving));
        assert!(matches!(seen.look(&index, folder), Found::Other(Err(_))));
        assert!(matches!(seen.look(&index, folder), Found::Refused));
        tokio::time::advance(AGAIN).await;
        assert!(matches!(seen.look(&index, folder), Found::Other(Err(_))));
    }
}
