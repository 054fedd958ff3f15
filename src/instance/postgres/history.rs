//! Timelines that were begun elsewhere.
//!
//! A promotion begins the first timeline after its own for which there is no history file in `pg_wal`. An instance that never heard of a timeline would so
//! begin it a second time, and two histories of one number cannot be told apart. A file that holds nothing but a comment keeps the number taken, and makes
//! nobody follow it: a running replica finds that it is not among its own ancestors and goes on; whoever gets the file from its primary likewise.
//!
//! The start of a replica never comes to an end beside such a file, since PostgreSQL then looks for its checkpoint on the newest timeline, whether that is
//! its own or not. So they are made right before a promotion, and taken away before a start. On a primary they stay: replicas that come from before ask it for all of them.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, chown};
use std::path::{Path, PathBuf};

use super::files;
use super::options::Options;

/// What they hold, as PostgreSQL's comment.
const COMMENT: &str = "# roadstead: this timeline was begun elsewhere\n";
/// More are never needed, and each is a file.
const MOST: u32 = 10_000;

/// Takes all timelines after `own` and up to `last` out of what a promotion may begin. Whatever is known of one of them stays.
///
/// # Errors
/// When the data cannot be written, or there are more than ten thousand of them.
pub fn placeholder_history(options: &Options, own: u32, last: u32) -> io::Result<()> {
    if last.saturating_sub(own) > MOST {
        let error = format!("{last} is too far from timeline {own}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
    }
    let folder = options.data().join("pg_wal");
    for timeline in own.saturating_add(1)..=last {
        let path = path(&folder, timeline);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        let mut file = match file {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            file => file?,
        };
        file.write_all(COMMENT.as_bytes())?;
        options
            .user
            .map_or(Ok(()), |user| chown(&path, Some(user), None))?;
        file.sync_all()?;
    }
    files::sync(&folder)
}

/// Takes away what [`placeholder_history`] has made for timelines after `own`; to be called while PostgreSQL is stopped, before it starts.
///
/// # Errors
/// When the data cannot be read or written.
pub fn remove_placeholders(options: &Options, own: u32) -> io::Result<()> {
    let folder = options.data().join("pg_wal");
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        let is_later = number(&path).is_some_and(|timeline| timeline > own);
        if is_later && fs::read_to_string(&path).is_ok_and(|text| is_placeholder(&text)) {
            files::remove(&path)?;
        }
    }
    files::sync(&folder)
}

/// Nothing but a comment of ours, or what was left of it by a crash.
fn is_placeholder(text: &str) -> bool {
    COMMENT.starts_with(text)
}

fn path(folder: &Path, timeline: u32) -> PathBuf {
    folder.join(format!("{timeline:08X}.history"))
}

fn number(path: &Path) -> Option<u32> {
    let digits = path.file_name()?.to_str()?.strip_suffix(".history")?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_a_timeline_stays_and_what_stands_in_for_it_goes() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            volume: folder.path().to_owned(),
            ..Options::default()
        };
        let wal = options.data().join("pg_wal");
        fs::create_dir_all(&wal).unwrap();
        let real = "1\t0/3000000\tno recovery target specified\n";
        fs::write(wal.join("0000000B.history"), real).unwrap();
        placeholder_history(&options, 9, 12).unwrap();
        let names = || {
            let mut names: Vec<_> = fs::read_dir(&wal)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        assert_eq!(
            names(),
            ["0000000A.history", "0000000B.history", "0000000C.history"]
        );
        remove_placeholders(&options, 10).unwrap();
        assert_eq!(names(), ["0000000A.history", "0000000B.history"]);
        assert_eq!(fs::read_to_string(wal.join("0000000B.history")).unwrap(), real);
        assert!(placeholder_history(&options, 1, u32::MAX).is_err());
        placeholder_history(&options, 3, 2).unwrap();
    }
}
