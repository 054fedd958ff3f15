//! PostgreSQL's programs that make data: initdb, pg_basebackup, pg_rewind.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use super::conninfo::{self, Purpose};
use super::files;
use super::options::Options;
use super::program::{ProgramError, run};
use super::volume::Volume;

/// How long a program may take to say its version.
const VERSION: Duration = Duration::from_secs(10);
/// How long it may take to make data that holds nothing.
const INITDB: Duration = Duration::from_secs(5 * 60);
/// How long it may take to copy all data. A connection that broke ends it sooner.
const BASE_BACKUP: Duration = Duration::from_secs(24 * 60 * 60);
/// How long it may take to recover, to look through the log since two instances parted, and to copy what differs.
const REWIND: Duration = Duration::from_secs(2 * 60 * 60);

/// The file with which PostgreSQL starts as a replica.
const STANDBY: &str = "standby.signal";

/// The programs that are called.
const NEEDED: [&str; 5] = [
    "postgres",
    "initdb",
    "pg_basebackup",
    "pg_controldata",
    "pg_rewind",
];

/// Where PostgreSQL's programs are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    /// Their folder.
    pub bin: PathBuf,
    /// Their version, such as `17.6`.
    pub version: String,
    /// The first number of that.
    pub major: u32,
}

impl Programs {
    /// Finds the programs of a major version: in the folder that the options name, and otherwise on `PATH`, then where distributions and PostgreSQL's
    /// own build put them, the newest first.
    ///
    /// # Errors
    /// [`ProgramError::Missing`] with what was found instead.
    pub async fn find(options: &Options, major: u32) -> Result<Self, ProgramError> {
        let mut looked = Vec::new();
        for bin in folders(options) {
            match version(&bin).await {
                Some(version) if major_of(&version) == Some(major) => {
                    return Ok(Self { bin, version, major });
                }
                Some(version) => looked.push(format!("{} ({version})", bin.display())),
                None => looked.push(bin.display().to_string()),
            }
        }
        Err(ProgramError::Missing {
            major,
            looked: looked.join(", "),
        })
    }

    /// A command that runs a program as PostgreSQL's user, and holds the lock of the volume while it runs.
    pub(super) fn command(
        &self,
        name: &str,
        options: &Options,
        volume: &Volume,
    ) -> Result<Command, ProgramError> {
        let mut command = Command::new(self.bin.join(name));
        command.stdin(volume.hold()?).env("LC_ALL", "C");
        // What a person has set in the image must not lead elsewhere.
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"PG") {
                command.env_remove(name);
            }
        }
        // A folder that this user may read: the programs look for theirs from here.
        command.current_dir(&options.volume);
        if let Some(user) = options.user {
            command.uid(user);
        }
        Ok(command)
    }

    /// Makes data that holds nothing yet. The marker of unfinished data is the caller's to set and to remove.
    ///
    /// # Errors
    /// When initdb fails.
    pub async fn initdb(&self, options: &Options, volume: &Volume) -> Result<(), ProgramError> {
        let mut command = self.command("initdb", options, volume)?;
        command.arg("--pgdata").arg(options.data()).args([
            "--username=postgres",
            "--encoding=UTF8",
            // Sorted by code points, so that no update of the image's C library spoils an index.
            "--locale=C.UTF-8",
            "--data-checksums",
            // Nobody goes by these, but nothing here should say `trust`.
            "--auth-local=peer",
            "--auth-host=scram-sha-256",
            "--no-instructions",
        ]);
        run("initdb", command, INITDB).await
    }

    /// Copies the data of the instance at `host`, for a replica. The marker of unfinished data is the caller's.
    ///
    /// # Errors
    /// When pg_basebackup fails, or what comes after it.
    pub async fn base_backup(
        &self,
        options: &Options,
        volume: &Volume,
        host: &str,
    ) -> Result<(), ProgramError> {
        let mut command = self.command("pg_basebackup", options, volume)?;
        command.arg("--pgdata").arg(options.data()).args([
            "--wal-method=stream",
            "--checkpoint=fast",
            "--no-password",
            "--verbose",
        ]);
        command
            .arg("--dbname")
            .arg(conninfo::render(options, host, Purpose::BaseBackup));
        run("pg_basebackup", command, BASE_BACKUP).await?;
        let options = options.clone();
        volume.on_disk(move || follow(&options), ProgramError::from).await
    }

    /// Takes the data back to where it and that of the instance at `host`, which must be a primary, parted, for a replica. The marker of unfinished data
    /// is the caller's: data that pg_rewind did not come to an end with is of no use.
    ///
    /// # Errors
    /// When pg_rewind fails, or what comes after it.
    pub async fn rewind(&self, options: &Options, volume: &Volume, host: &str) -> Result<(), ProgramError> {
        // What was killed is recovered first, by a server for one user, and that never runs as a replica.
        let standby = options.data().join(STANDBY);
        let lead = move || Ok(files::remove(&standby)?);
        volume.on_disk(lead, ProgramError::from).await?;
        let mut command = self.command("pg_rewind", options, volume)?;
        command.arg("--target-pgdata").arg(options.data());
        command
            .arg("--source-server")
            .arg(conninfo::render(options, host, Purpose::Rewind));
        // Before 15 there was no such option, and recovery went by the configuration that initdb has left in the data.
        if self.major >= 15 {
            let mut argument = std::ffi::OsString::from("--config-file=");
            argument.push(options.postgresql_conf());
            command.arg(argument);
        }
        run("pg_rewind", command, REWIND).await?;
        let options = options.clone();
        volume.on_disk(move || follow(&options), ProgramError::from).await
    }
}

/// Makes PostgreSQL start as a replica on this data, with no settings but those of the run folder.
///
/// # Errors
/// When the data cannot be written.
pub fn follow(options: &Options) -> Result<(), ProgramError> {
    let data = options.data();
    for name in [STANDBY, "postgresql.auto.conf"] {
        files::write(&data.join(name), "", options.user)?;
    }
    // What a backup has left of an instance that was once restored.
    files::remove(&data.join("recovery.signal"))?;
    Ok(files::sync(&data)?)
}

/// Whether PostgreSQL starts as a replica on this data.
///
/// # Errors
/// When the data cannot be read.
pub fn is_replica(options: &Options) -> std::io::Result<bool> {
    options.data().join(STANDBY).try_exists()
}

fn folders(options: &Options) -> Vec<PathBuf> {
    if let Some(bin) = &options.bin {
        return vec![bin.clone()];
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut installed: Vec<_> = installed
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter_map(|path| Some((major_of(path.file_name()?.to_str()?)?, path.join("bin"))))
        .collect();
    installed.sort_by(|one, other| other.cmp(one));
    let installed = installed.into_iter().map(|(_, path)| path);
    let mut seen = BTreeSet::new();
    std::env::split_paths(&path)
        .chain(installed)
        .chain(["/usr/local/pgsql/bin".into()])
        .filter(|folder| seen.insert(folder.clone()))
        .collect()
}

/// What `postgres --version` says, such as `17.6`; none if it is not there, or alone: some distributions link a part of the programs to a folder on `PATH`.
async fn version(bin: &Path) -> Option<String> {
    if !NEEDED.iter().all(|name| bin.join(name).exists()) {
        return None;
    }
    let mut command = Command::new(bin.join("postgres"));
    command.arg("--version").stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(VERSION, command.output()).await.ok()?.ok()?;
    parse_version(&String::from_utf8_lossy(&output.stdout))
}

/// `postgres (PostgreSQL) 17.6 (Debian 17.6-1.pgdg13+1)`.
fn parse_version(text: &str) -> Option<String> {
    let version = text.split_once("(PostgreSQL)")?.1.split_whitespace().next()?;
    Some(version.to_owned())
}

/// `17.6`, and also `18beta1`.
fn major_of(version: &str) -> Option<u32> {
    let digits = version.find(|c: char| !c.is_ascii_digit());
    version[..digits.unwrap_or(version.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("postgres (PostgreSQL) 17.6 (Debian 17.6-1.pgdg13+1)\n", "17.6", 17)]
    #[case("postgres (PostgreSQL) 15.14\n", "15.14", 15)]
    #[case("postgres (PostgreSQL) 18beta1\n", "18beta1", 18)]
    fn the_version_is_read(#[case] text: &str, #[case] version: &str, #[case] major: u32) {
        assert_eq!(parse_version(text).unwrap(), version);
        assert_eq!(major_of(version), Some(major));
    }

    #[tokio::test]
    async fn programs_of_another_version_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            bin: Some(folder.path().to_owned()),
            ..Options::default()
        };
        let error = Programs::find(&options, 17).await.unwrap_err().to_string();
        let folder = folder.path().display().to_string();
        assert!(
            error.contains("PostgreSQL 17") && error.contains(&folder),
            "{error}"
        );
    }
}
