//! The volume: its lock, and what is to become of the data on it while PostgreSQL is stopped.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal};
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::control;
use super::files;
use super::holders;
use super::options::Options;
use super::programs::is_replica;
use super::protocol::Data;

/// How long `pg_controldata` may take, which reads one file.
const CONTROLDATA: Duration = Duration::from_secs(10);
/// How long it may take to read a few small files.
const LOOK: Duration = Duration::from_secs(10);
/// All that the control file says is within its first sector, so that it is written at once or not at all; PostgreSQL never makes it shorter than 8192 bytes.
const CONTROL: usize = 512;
/// What ends the names of data that was put aside, and of what is being removed of it.
const OLD: &str = "old";
const REMOVING: &str = "removing";
/// The file in data that was put aside before something that had been begun with it was finished: what that was.
const MARK: &str = "roadstead.unfinished";

/// Why the volume is of no use.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// A process uses the data: one that an earlier PostgreSQL has left behind, or another instance on the same volume.
    #[error("{} is locked: a process still uses the data", .0.display())]
    Held(PathBuf),
    /// The data is of another major version, and none of this one can be made of it here.
    #[error("the data is of PostgreSQL {found}, and this is PostgreSQL {wanted}")]
    OtherVersion {
        /// The version of the data.
        found: String,
        /// The version that runs here.
        wanted: u32,
    },
    /// `pg_controldata` could not be run, which says nothing of the data.
    #[error("cannot run pg_controldata: {0}")]
    Run(io::Error),
    /// `pg_controldata` failed, which says nothing of the data either: of damaged data it tells, and ends well. The text is its own.
    #[error("pg_controldata failed: {0}")]
    Controldata(String),
    /// The disk hangs.
    #[error("{}: the volume has not answered for {} s", path.display(), LOOK.as_secs())]
    Silent {
        /// Where it is mounted.
        path: PathBuf,
    },
    /// The volume cannot be read or written.
    #[error("{}: {source}", path.display())]
    Files {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The locked volume. Its lock is handed to all that works with the data, as standard input: it is held until the last of those processes has ended, and
/// who holds it can be told from outside.
#[derive(Debug)]
pub struct Volume {
    lock: File,
    holders: Holders,
    options: Options,
    /// A disk that hangs keeps one thread that works with it, and not one for each attempt.
    working: Arc<Semaphore>,
}

impl Volume {
    /// Takes the lock, at once or not at all.
    ///
    /// # Errors
    /// [`VolumeError::Held`] while any process has it; otherwise when the volume cannot be written.
    pub fn lock(options: &Options) -> Result<Self, VolumeError> {
        let path = options.lock();
        let failed = |source| VolumeError::Files {
            path: path.clone(),
            source,
        };
        let open = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path);
        drop(open.map_err(failed)?);
        // For reading alone: those to whom it is given as standard input have no business to write.
        let lock = File::open(&path).map_err(failed)?;
        let found = lock.metadata().map_err(failed)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self {
                lock,
                holders: Holders {
                    device: found.dev(),
                    inode: found.ino(),
                },
                options: options.clone(),
                working: Arc::new(Semaphore::new(1)),
            }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(VolumeError::Held(path)),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// The lock, for the standard input of a process that works with the data.
    ///
    /// # Errors
    /// When there are no more descriptors.
    pub fn hold(&self) -> io::Result<Stdio> {
        Ok(OwnedFd::from(self.lock.try_clone()?).into())
    }

    /// The processes that were given the lock, or whose parents were, and are still there, stopped ones included.
    ///
    /// # Errors
    /// When the kernel cannot tell.
    pub fn holders(&self) -> io::Result<Vec<Pid>> {
        self.holders.find()
    }

    /// Finds the same, for a thread of its own.
    pub fn holders_of_lock(&self) -> Holders {
        self.holders
    }

    /// What is on the volume, to be asked while PostgreSQL is stopped. `bin` is where the programs are, `major` their version. It takes 20 s at most, and holds
    /// up nobody else, whatever the disk does.
    ///
    /// # Errors
    /// When it could not be found out, or is of another version. What is damaged is no error.
    pub async fn data(&self, bin: &Path, major: u32) -> Result<Data, VolumeError> {
        let standby = match self.look(major).await? {
            Look::Known(data) => return Ok(data),
            Look::Present { standby } => standby,
        };
        let folder = self.options.data();
        let mut command = Command::new(bin.join("pg_controldata"));
        command.env("LC_ALL", "C").arg("-D").arg(&folder);
        command.stdin(Stdio::null()).kill_on_drop(true);
        let slow = |_| VolumeError::Run(io::ErrorKind::TimedOut.into());
        let output = timeout(CONTROLDATA, command.output()).await.map_err(slow)?;
        let output = output.map_err(VolumeError::Run)?;
        judge(&output, standby)
    }

    /// What can be told without a program.
    async fn look(&self, major: u32) -> Result<Look, VolumeError> {
        let (options, root) = (self.options.clone(), self.options.volume.clone());
        let look = self.on_disk(move || look(&options, major), at(&root));
        let silent = |_| VolumeError::Silent { path: root.clone() };
        timeout(LOOK, look).await.map_err(silent)?
    }

    /// Works with files in a thread of its own, so that a disk that is slow holds up nobody else. One such thread comes after the other: what nobody waits for
    /// any more goes on to its end, and what is begun next waits for it.
    ///
    /// # Errors
    /// Those of the work, and what `failed` makes of one that did not come to its end.
    pub async fn on_disk<T, E>(
        &self,
        work: impl FnOnce() -> Result<T, E> + Send + 'static,
        failed: impl Fn(io::Error) -> E,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let alone = Arc::clone(&self.working).acquire_owned().await;
        let work = move || {
            let _alone = alone;
            work()
        };
        let done = spawn_blocking(work).await;
        done.unwrap_or_else(|error| Err(failed(io::Error::other(error))))
    }

    /// Notes that data is being made, and how: until [`Self::finish`] it is of no use.
    ///
    /// # Errors
    /// When the volume cannot be written.
    pub fn begin(&self, what: &str) -> Result<(), VolumeError> {
        let path = self.options.unfinished();
        // In the file, where a person finds it as well.
        files::write(&path, format!("{what}\n"), self.options.user).map_err(at(&path))
    }

    /// How data is being made that is of no use yet; none if it is whole.
    ///
    /// # Errors
    /// When the volume cannot be read.
    pub fn unfinished(&self) -> Result<Option<String>, VolumeError> {
        unfinished(&self.options)
    }

    /// Notes that the data is whole.
    ///
    /// # Errors
    /// When the volume cannot be written.
    pub fn finish(&self) -> Result<(), VolumeError> {
        let path = self.options.unfinished();
        files::remove(&path).map_err(at(&path))?;
        files::sync(&self.options.volume).map_err(at(&path))
    }

    /// Renames the data to `data.N.old`, and gives that path; none if there is no data. There is no unfinished data afterwards.
    ///
    /// # Errors
    /// When the volume cannot be written.
    pub fn put_aside(&self) -> Result<Option<PathBuf>, VolumeError> {
        let data = self.options.data();
        let mut aside = None;
        if fs::symlink_metadata(&data).is_ok() {
            let last = self.aside()?.into_iter().map(|(number, _)| number).max();
            let path = aside_path(&self.options, last.unwrap_or(0) + 1);
            // Whoever finds it there has to know that it is not whole.
            if let Some(what) = self.unfinished()? {
                let mark = data.join(MARK);
                files::write(&mark, format!("{what}\n"), self.options.user).map_err(at(&mark))?;
            }
            fs::rename(&data, &path).map_err(at(&data))?;
            files::sync(&self.options.volume).map_err(at(&data))?;
            aside = Some(path);
        }
        self.finish().map(|()| aside)
    }

    /// What was put aside, with its numbers. What is being removed is not among it: it may be half of what it was.
    ///
    /// # Errors
    /// When the volume cannot be read.
    pub fn aside(&self) -> Result<Vec<(u32, PathBuf)>, VolumeError> {
        put_aside(&self.options)
    }

    /// Removes what was put aside, which may be many gigabytes: to be awaited in a task of its own. All of it has another name from the beginning: should
    /// this process end meanwhile, nobody takes what is left for data.
    ///
    /// # Errors
    /// When something cannot be removed; the rest of it is, another time.
    pub async fn remove_aside(options: Options) -> Result<(), VolumeError> {
        // First of all: what is put aside from now on is not meant.
        let aside = blocking(&options, put_aside).await?;
        Self::remove_remains(&options).await?;
        blocking(&options, move |options| give_up(options, &aside)).await?;
        Self::remove_remains(&options).await
    }

    /// Removes what was not removed to the end.
    ///
    /// # Errors
    /// As [`Self::remove_aside`].
    pub async fn remove_remains(options: &Options) -> Result<(), VolumeError> {
        let volume = &options.volume;
        let mut entries = tokio::fs::read_dir(volume).await.map_err(at(volume))?;
        while let Some(entry) = entries.next_entry().await.map_err(at(volume))? {
            let path = entry.path();
            if number(&path, REMOVING).is_none() {
                continue;
            }
            match tokio::fs::remove_dir_all(&path).await {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&path)(error)),
                _ => tracing::info!(path = %path.display(), "removed data that was put aside"),
            }
        }
        Ok(())
    }

    /// Removes what a PostgreSQL that was killed has left behind to keep others away. It goes by process ids, which in a container are soon those of
    /// others; the lock says it better.
    ///
    /// # Errors
    /// [`VolumeError::Held`] if there is a process that may use the data; otherwise when the files cannot be removed.
    pub fn clean(&self) -> Result<(), VolumeError> {
        let holders = self.holders().map_err(at(&self.options.lock()))?;
        if !holders.is_empty() {
            return Err(VolumeError::Held(self.options.lock()));
        }
        let socket = self.options.socket();
        let mut lock = socket.clone().into_os_string();
        lock.push(".lock");
        for path in [self.options.data().join("postmaster.pid"), socket, lock.into()] {
            files::remove(&path).map_err(at(&path))?;
        }
        Ok(())
    }
}

/// Finds the processes that hold the lock of a volume.
#[derive(Clone, Copy, Debug)]
pub struct Holders {
    device: u64,
    inode: u64,
}

impl Holders {
    /// Those that are there now.
    ///
    /// # Errors
    /// When the kernel cannot tell.
    pub fn find(&self) -> io::Result<Vec<Pid>> {
        holders::of(self.device, self.inode)
    }
}

/// What a look at the files has told.
enum Look {
    Known(Data),
    /// There is data, and the control file says more of it.
    Present {
        standby: bool,
    },
}

fn look(options: &Options, major: u32) -> Result<Look, VolumeError> {
    let folder = options.data();
    if let Some(what) = unfinished(options)? {
        return Ok(Look::Known(Data::Broken(format!("unfinished: {what}"))));
    }
    if is_empty(&folder)? {
        return Ok(Look::Known(Data::Empty));
    }
    let Some(found) = read(&folder.join("PG_VERSION"))? else {
        return Ok(Look::Known(Data::Broken("there is no PG_VERSION".to_owned())));
    };
    if found.trim() != major.to_string() {
        let found = found.trim().chars().take(20).collect();
        return Err(VolumeError::OtherVersion { found, wanted: major });
    }
    // Here a disk that hangs keeps a thread; `pg_controldata` would be one more process with each look, which nobody could kill.
    let control = folder.join("global/pg_control");
    match fs::read(&control) {
        Ok(content) if content.len() < CONTROL => {
            let length = content.len();
            let what = format!("global/pg_control has {length} bytes and lacks the rest");
            return Ok(Look::Known(Data::Broken(what)));
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Look::Known(Data::Broken(
                "there is no global/pg_control".to_owned(),
            )));
        }
        Err(error) => return Err(at(&control)(error)),
    }
    Ok(Look::Present {
        // A disk that fails does not make a replica's data a primary's.
        standby: is_replica(options).map_err(at(&folder))?,
    })
}

fn unfinished(options: &Options) -> Result<Option<String>, VolumeError> {
    let what = read(&options.unfinished())?;
    Ok(what.map(|what| what.trim().to_owned()))
}

/// What `pg_controldata` came to. A disk that fails, or whoever killed it, says nothing of the data; what it crashed about is in the file.
fn judge(output: &Output, standby: bool) -> Result<Data, VolumeError> {
    let said = String::from_utf8_lossy(&output.stderr);
    let told = || format!("{}: {}", output.status, said.trim());
    if output.status.signal() == Some(Signal::SEGV.as_raw()) {
        return Ok(Data::Broken(format!("pg_controldata: {}", told())));
    }
    if !output.status.success() {
        return Err(VolumeError::Controldata(told()));
    }
    let stored = control::parse(&String::from_utf8_lossy(&output.stdout), &said, standby);
    Ok(stored.map_or_else(Data::Broken, Data::Present))
}

fn aside_path(options: &Options, number: u32) -> PathBuf {
    options.volume.join(format!("data.{number}.{OLD}"))
}

/// Which `data.N.SUFFIX` it is, if it is one.
fn number(path: &Path, suffix: &str) -> Option<u32> {
    let (number, found) = path
        .file_name()?
        .to_str()?
        .strip_prefix("data.")?
        .split_once('.')?;
    number.parse().ok().filter(|_| found == suffix)
}

fn put_aside(options: &Options) -> Result<Vec<(u32, PathBuf)>, VolumeError> {
    let entries = fs::read_dir(&options.volume).map_err(at(&options.volume))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths
        .filter_map(|path| Some((number(&path, OLD)?, path)))
        .collect())
}

/// Has what was put aside count for nothing any more.
fn give_up(options: &Options, aside: &[(u32, PathBuf)]) -> Result<(), VolumeError> {
    for (number, path) in aside {
        let to = options.volume.join(format!("data.{number}.{REMOVING}"));
        fs::rename(path, to).map_err(at(path))?;
    }
    files::sync(&options.volume).map_err(at(&options.volume))
}

async fn blocking<T: Send + 'static>(
    options: &Options,
    work: impl FnOnce(&Options) -> Result<T, VolumeError> + Send + 'static,
) -> Result<T, VolumeError> {
    let own = options.clone();
    let done = spawn_blocking(move || work(&own)).await;
    done.map_err(|error| at(&options.volume)(io::Error::other(error)))?
}

fn at(path: &Path) -> impl Fn(io::Error) -> VolumeError {
    let path = path.to_owned();
    move |source| VolumeError::Files {
        path: path.clone(),
        source,
    }
}

/// A file's text; none if it is not there.
fn read(path: &Path) -> Result<Option<String>, VolumeError> {
    match fs::read(path) {
        Ok(content) => Ok(Some(String::from_utf8_lossy(&content).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(at(path)(error)),
    }
}

fn is_empty(folder: &Path) -> Result<bool, VolumeError> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(at(folder)(error)),
    }
}

#[cfg(test)]
#[path = "volume_tests.rs"]
mod tests;
