//! What takes long. Each is a future that can be dropped at any moment: the programs that it has started end then, and what it leaves is of no use, or as good as done.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::super::history::{placeholder_history, remove_placeholders};
use super::super::options::Options;
use super::super::program::ProgramError;
use super::super::programs::{Programs, follow, is_replica};
use super::super::protocol::{Data, is_full};
use super::super::sql::{Local, SqlError};
use super::super::volume::{Volume, VolumeError};
use crate::api::database::agent::{CONTAINER, Lsn, Quorum, Settings};

/// How long a promotion may take before it counts as failed; the protocol gives up on its own then.
const PROMOTION: Duration = Duration::from_secs(60);
/// Between two times that those are ended who hold up a promotion.
const READERS: Duration = Duration::from_secs(1);
/// How long a checkpoint before a stop may take: it only shortens the stop.
const CHECKPOINT: Duration = Duration::from_secs(20);
/// How long it may take to read its configuration.
const CONFIGURED: Duration = Duration::from_secs(5);
/// How long it may take to connect to another instance.
const REACH: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(50);
/// How data is marked that is being taken back to where it parted from the primary's.
const REWIND: &str = "rewind";

/// What work is done with. Clones share the volume's lock.
#[derive(Clone, Debug)]
pub(super) struct Tools {
    pub(super) options: Options,
    pub(super) programs: Programs,
    pub(super) volume: Arc<Volume>,
}

/// Why work brought nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum WorkError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Volume(#[from] VolumeError),
    #[error(transparent)]
    Sql(#[from] SqlError),
    #[error(transparent)]
    Files(#[from] std::io::Error),
    #[error("{error}; what was put aside takes up room: {}. If the primary is well, it may be removed: kubectl exec {pod} -c {CONTAINER} -- rm -r {}", named(.aside), named(.aside))]
    Full {
        error: Box<WorkError>,
        pod: String,
        aside: Vec<PathBuf>,
    },
    #[error("cannot connect to {host}, port {port}: {source}")]
    Unreachable {
        host: String,
        port: u16,
        source: std::io::Error,
    },
    #[error("PostgreSQL has not read its configuration {} s after it was told to", .0.as_secs())]
    NotConfigured(Duration),
    #[error("PostgreSQL is not the primary {} s after it was told to become it", .0.as_secs())]
    NotPromoted(Duration),
}

impl WorkError {
    /// Whether it got as far as to ask the other instance for anything.
    pub(super) fn has_reached(&self) -> bool {
        match self {
            Self::Program(error) => !is_unreachable(error),
            Self::Unreachable { .. } => false,
            _ => true,
        }
    }
}

impl Tools {
    /// What is on the volume.
    pub(super) async fn inspect(&self) -> Result<Data, WorkError> {
        Ok(self.volume.data(&self.programs.bin, self.programs.major).await?)
    }

    /// Makes the first data.
    pub(super) async fn initialise(&self) -> Result<(), WorkError> {
        self.make("initdb", self.programs.initdb(&self.options, &self.volume))
            .await
    }

    /// Whether another instance's PostgreSQL takes connections. What needs them is not begun without: from its beginning this data is of no use.
    pub(super) async fn reach(&self, host: &str) -> Result<(), WorkError> {
        let port = self.options.port;
        let connected = timeout(REACH, TcpStream::connect((host, port))).await;
        let connected = connected.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
        connected.map(drop).map_err(|source| WorkError::Unreachable {
            host: host.to_owned(),
            port,
            source,
        })
    }

    /// Copies another instance's data. What there was stays aside until the copy is of use.
    pub(super) async fn join(&self, host: &str) -> Result<(), WorkError> {
        self.reach(host).await?;
        self.make(
            "base backup",
            self.programs.base_backup(&self.options, &self.volume, host),
        )
        .await
    }

    async fn make(
        &self,
        what: &'static str,
        make: impl Future<Output = Result<(), ProgramError>>,
    ) -> Result<(), WorkError> {
        let is_useless = self.on_disk(move |tools| tools.is_useless(what)).await?;
        // What is left of data that was to be removed is of no use to anybody either: it would only fill the volume.
        Volume::remove_remains(&self.options).await?;
        if is_useless {
            remove(&self.options.data()).await?;
        }
        self.on_disk(move |tools| {
            tools.volume.put_aside()?;
            Ok(tools.volume.begin(what)?)
        })
        .await?;
        if let Err(error) = make.await {
            return self.on_disk(|tools| Err(tools.explain(error.into()))).await;
        }
        self.on_disk(|tools| Ok(tools.volume.finish()?)).await
    }

    /// Whether the data is a copy, or first data, that never came to be whole. What could not be rewound is not that: nobody else may have what it goes on with.
    fn is_useless(&self, what: &str) -> Result<bool, WorkError> {
        // What was put aside first stays until a copy is of use. A copy that came after it, and never was, is of less use; to keep each would fill the volume.
        if !self.volume.aside()?.is_empty() {
            self.volume.begin(what)?;
        }
        Ok(self.volume.unfinished()?.is_some_and(|what| what != REWIND))
    }

    /// See [`Volume::on_disk`].
    pub(super) async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, WorkError> + Send + 'static,
    ) -> Result<T, WorkError> {
        let tools = self.clone();
        self.volume.on_disk(move || work(&tools), WorkError::from).await
    }

    /// Where there is no room for a copy beside what was put aside, a person has to decide what that is worth.
    fn explain(&self, error: WorkError) -> WorkError {
        let aside = self.volume.aside().unwrap_or_default();
        if aside.is_empty() || !is_full(&error.to_string()) {
            return error;
        }
        WorkError::Full {
            error: Box::new(error),
            pod: self.options.name.clone(),
            aside: aside.into_iter().map(|(_, path)| path).collect(),
        }
    }

    /// Goes back to where this data and another instance's parted.
    pub(super) async fn rewind(&self, host: &str) -> Result<(), WorkError> {
        self.reach(host).await?;
        let begin = |tools: &Self| {
            tools.volume.clean()?;
            let replica = is_replica(&tools.options)?;
            tools.volume.begin(REWIND)?;
            Ok(replica)
        };
        let replica = self.on_disk(begin).await?;
        match self.programs.rewind(&self.options, &self.volume, host).await {
            Ok(()) => {}
            // It never got as far as to change anything.
            Err(error @ ProgramError::Failed { .. }) if is_unreachable(&error) => {
                let leave = move |tools: &Self| {
                    if replica {
                        follow(&tools.options)?;
                    }
                    Ok(tools.volume.finish()?)
                };
                self.on_disk(leave).await?;
                return Err(error.into());
            }
            Err(error) => return Err(error.into()),
        }
        self.on_disk(|tools| Ok(tools.volume.finish()?)).await
    }

    /// Has the running replica become the primary, on a timeline after `after`.
    pub(super) async fn promote(
        &self,
        timeline: u32,
        after: u32,
        settings: &Settings,
        quorum: Option<Quorum>,
    ) -> Result<(), WorkError> {
        let mut local = Local::new(&self.options);
        // Its first commit must wait already.
        let deadline = Instant::now() + CONFIGURED;
        while local.observe(&settings.members).await?.quorum != quorum {
            if Instant::now() >= deadline {
                return Err(WorkError::NotConfigured(CONFIGURED));
            }
            sleep(LOOK).await;
        }
        let hold_places = move |tools: &Self| Ok(placeholder_history(&tools.options, timeline, after)?);
        self.on_disk(hold_places).await?;
        local.promote().await?;
        let deadline = Instant::now() + PROMOTION;
        let mut ended = Instant::now();
        while Instant::now() < deadline {
            if local
                .observe(&settings.members)
                .await
                .is_ok_and(|running| running.primary)
            {
                return Ok(());
            }
            // Whoever came meanwhile may hold up replay like those before.
            if ended.elapsed() >= READERS {
                ended = Instant::now();
                let _ = local.end_readers().await;
            }
            sleep(LOOK).await;
        }
        Err(WorkError::NotPromoted(PROMOTION))
    }

    /// Writes what would have to be written while PostgreSQL stops.
    pub(super) async fn checkpoint(&self) {
        let mut local = Local::new(&self.options);
        match timeout(CHECKPOINT, local.checkpoint()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::info!(%error, "stopping without a checkpoint"),
            Err(_) => tracing::info!("stopping before a checkpoint is written"),
        }
    }

    /// See [`Programs::log_goes_to`].
    pub(super) async fn log_goes_to(
        &self,
        end: (u32, Lsn),
        files: (Option<Lsn>, u64),
    ) -> Result<bool, ProgramError> {
        self.programs
            .log_goes_to(&self.options, &self.volume, end, files)
            .await
    }

    /// Takes away what an interrupted promotion has left, with which PostgreSQL would not start.
    pub(super) async fn clean(&self, timeline: u32) -> Result<(), WorkError> {
        let clean = move |tools: &Self| {
            tools.volume.clean()?;
            Ok(remove_placeholders(&tools.options, timeline)?)
        };
        self.on_disk(clean).await
    }
}

async fn remove(folder: &Path) -> std::io::Result<()> {
    match tokio::fs::remove_dir_all(folder).await {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn named(paths: &[PathBuf]) -> String {
    let names: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    names.join(" ")
}

/// Whether a program failed since it did not get hold of the other PostgreSQL.
fn is_unreachable(error: &ProgramError) -> bool {
    let ProgramError::Failed { said, .. } = error else {
        return false;
    };
    said.contains("connection to server at") || said.contains("could not connect to server")
}
