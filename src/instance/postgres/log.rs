//! How far the log of a stopped PostgreSQL goes, as its own program pg_waldump reads it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Command;

use super::options::Options;
use super::program::{ProgramError, run};
use super::programs::Programs;
use super::volume::Volume;
use crate::api::database::agent::Lsn;

/// How long it may take to look through the log, from the last checkpoint on at most. Whoever leads gives up sooner.
const WALDUMP: Duration = Duration::from_secs(5 * 60);
/// How what pg_waldump says begins where a record is followed by none.
const AFTER_A_RECORD: &str = "error in WAL record at ";
/// What it says where no record begins.
const NO_RECORD: &str = "could not find a valid record after";

/// The files of one timeline, of so many bytes each.
#[derive(Clone, Debug)]
struct Segments {
    folder: PathBuf,
    timeline: u32,
    bytes: u64,
}

impl Segments {
    fn of(options: &Options, timeline: u32, bytes: u64) -> Self {
        Self {
            folder: options.data().join("pg_wal"),
            timeline,
            bytes: bytes.max(1),
        }
    }

    fn per_id(&self) -> u64 {
        ((1 << 32) / self.bytes).max(1)
    }

    fn name(&self, segment: u64) -> String {
        let per_id = self.per_id();
        format!(
            "{:08X}{:08X}{:08X}",
            self.timeline,
            segment / per_id,
            segment % per_id
        )
    }

    /// Which of them a file is, if it is one.
    fn number(&self, path: &Path) -> Option<u64> {
        let [timeline, id, of_id] = parts(path)?;
        (timeline == self.timeline).then(|| u64::from(id) * self.per_id() + u64::from(of_id))
    }

    /// The last there is, be it one that was made for later.
    fn last(&self) -> std::io::Result<Option<u64>> {
        let mut last = None;
        for entry in std::fs::read_dir(&self.folder)? {
            last = last.max(self.number(&entry?.path()));
        }
        Ok(last)
    }

    /// Reads from one position to another, which are in these files.
    fn command(
        &self,
        programs: &Programs,
        (options, volume): (&Options, &Volume),
        (first, last): (u64, u64),
        (start, end): (Lsn, Lsn),
    ) -> Result<Command, ProgramError> {
        let mut command = programs.command("pg_waldump", options, volume)?;
        command.arg("--quiet").arg("--path").arg(&self.folder);
        command.args(["--start", &start.to_string(), "--end", &end.to_string()]);
        // By their names: it would look for the size of a file in whichever it finds first, and that may be one that was made for later.
        command.args([self.name(first), self.name(last)]);
        Ok(command)
    }
}

/// The three numbers that the name of a log's file is made of: the timeline, and two that together are the number of the file.
fn parts(path: &Path) -> Option<[u32; 3]> {
    let digits = path.file_name()?.to_str()?;
    if digits.len() != 24 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let part = |index: usize| u32::from_str_radix(digits.get(index * 8..index * 8 + 8)?, 16).ok();
    Some([part(0)?, part(1)?, part(2)?])
}

/// The newest timeline of which there is a file of the log: that on which a primary wrote last.
///
/// # Errors
/// When the folder cannot be read.
pub fn newest_timeline(options: &Options) -> std::io::Result<Option<u32>> {
    let mut newest = None;
    for entry in std::fs::read_dir(options.data().join("pg_wal"))? {
        newest = newest.max(parts(&entry?.path()).map(|[timeline, ..]| timeline));
    }
    Ok(newest)
}

impl Programs {
    /// Whether the log of a stopped PostgreSQL goes up to `end` on a timeline, as far as anybody can read it. Its files have so many bytes each; `checkpoint` is
    /// where its last one begins, if that is on the same timeline: from there on all of the log is there.
    ///
    /// # Errors
    /// When that cannot be found out.
    pub async fn log_goes_to(
        &self,
        options: &Options,
        volume: &Volume,
        (timeline, end): (u32, Lsn),
        (checkpoint, bytes): (Option<Lsn>, u64),
    ) -> Result<bool, ProgramError> {
        let last = end.0.saturating_sub(1) / bytes;
        let segments = Segments::of(options, timeline, bytes);
        let first = checkpoint.map(|checkpoint| checkpoint.0 / bytes);
        // A record that goes on into the last file begins in the one before, if that is there: a timeline may begin in the last.
        let before = last.saturating_sub(1).max(first.unwrap_or_default());
        let look = {
            let segments = segments.clone();
            move || {
                let is_there = |segment: u64| segments.folder.join(segments.name(segment)).try_exists();
                Ok((is_there(before)?, is_there(last)?))
            }
        };
        let begin = match volume.on_disk(look, ProgramError::from).await? {
            (_, false) => return Ok(false),
            (true, true) => before,
            (false, true) => last,
        };
        let whole = first.filter(|first| *first < begin);
        for begin in [Some(begin), whole].into_iter().flatten() {
            let start = Lsn(begin * bytes).max(checkpoint.unwrap_or_default());
            let command = segments.command(self, (options, volume), (begin, last), (start, end))?;
            match run("pg_waldump", command, WALDUMP).await {
                Ok(()) => return Ok(true),
                // One record may fill whole files.
                Err(ProgramError::Failed { said, .. }) if said.contains(NO_RECORD) && whole.is_some() => {}
                Err(ProgramError::Failed { said, .. }) if is_end_of_log(&said) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Where the log of a stopped PostgreSQL ends on a timeline. It is looked for from `start` on, where a record begins, or else from the next that does; the
    /// files have so many `bytes` each. None where no such log is there, or its end cannot be told.
    ///
    /// # Errors
    /// When that cannot be found out.
    pub async fn log_end(
        &self,
        options: &Options,
        volume: &Volume,
        (timeline, start): (u32, Lsn),
        bytes: u64,
    ) -> Result<Option<Lsn>, ProgramError> {
        let segments = Segments::of(options, timeline, bytes);
        let first = start.0 / segments.bytes;
        let look = {
            let segments = segments.clone();
            move || {
                let is_there = segments.folder.join(segments.name(first)).try_exists()?;
                Ok(segments.last()?.filter(|_| is_there))
            }
        };
        let Some(last) = volume.on_disk(look, ProgramError::from).await? else {
            return Ok(None);
        };
        let full = Lsn((last + 1) * segments.bytes);
        let command = segments.command(self, (options, volume), (first, last), (start, full))?;
        match run("pg_waldump", command, WALDUMP).await {
            Ok(()) => Ok(Some(full)),
            Err(ProgramError::Failed { said, .. }) if is_end_of_log(&said) => {
                Ok(end_of_log(&said, &segments))
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether pg_waldump found, by what it said, that the log ends, or is not there at all.
fn is_end_of_log(said: &str) -> bool {
    let ends = [
        AFTER_A_RECORD,
        NO_RECORD,
        "could not find file",
        "WAL segment size must be a power of two",
        "invalid WAL segment size in WAL file",
    ];
    // It was cut short.
    let is_short = said.contains("could not read") && said.contains(": read ");
    is_short || ends.iter().any(|end| said.contains(end))
}

/// Up to where there is a log that ends as pg_waldump said: where no other record begins, or where a page ends in which one begins that does not go on.
fn end_of_log(said: &str, segments: &Segments) -> Option<Lsn> {
    let (_, why) = said.split_once(AFTER_A_RECORD)?.1.split_once(": ")?;
    // So until 15, of a page; and all the rest, last.
    if let Some((_, page)) = why.split_once("in log segment ") {
        let (name, offset) = page.split_once(", offset ")?;
        let offset: u64 = offset.split_whitespace().next()?.parse().ok()?;
        return Some(Lsn(segments.number(Path::new(name))? * segments.bytes + offset));
    }
    let positions = why
        .split_whitespace()
        .map(|word| word.trim_end_matches([',', ':']));
    positions.rev().find_map(|word| word.parse().ok())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::nothing_more(
        "invalid record length at 0/30001A8: expected at least 24, got 0",
        Some(0x300_01A8)
    )]
    #[case::nothing_more_before_16("invalid record length at 0/30001A8: wanted 24, got 0", Some(0x300_01A8))]
    #[case::an_older_file("record with incorrect prev-link 0/10000D8 at 0/30001A8", Some(0x300_01A8))]
    #[case::half_a_record(
        "incorrect resource manager data checksum in record at 0/30001A8",
        Some(0x300_01A8)
    )]
    #[case::a_page(
        "unexpected pageaddr 0/1004000 in WAL segment 000000020000000000000003, LSN 0/3004000, offset 16384",
        Some(0x300_4000)
    )]
    #[case::a_page_before_16(
        "unexpected pageaddr 0/1004000 in log segment 000000020000000000000003, offset 16384",
        Some(0x300_4000)
    )]
    #[case::something_else("it is tired", None)]
    fn the_end_of_the_log_is_where_nothing_goes_on(#[case] why: &str, #[case] end: Option<u64>) {
        let segments = Segments {
            folder: PathBuf::new(),
            timeline: 2,
            bytes: 16 << 20,
        };
        let said = format!("exit status: 1: pg_waldump: error: error in WAL record at 0/3000140: {why}");
        assert!(is_end_of_log(&said));
        assert_eq!(end_of_log(&said, &segments), end.map(Lsn));
    }

    #[test]
    fn a_file_is_known_by_its_name() {
        let segments = Segments {
            folder: PathBuf::new(),
            timeline: 0x1F,
            bytes: 1 << 20,
        };
        let name = segments.name(0x1_0023);
        assert_eq!(name, "0000001F0000001000000023");
        assert_eq!(segments.number(Path::new(&name)), Some(0x1_0023));
        for other in [
            "0000001F.history",
            "000000010000001000000023",
            "0000001F0000001000000023.partial",
        ] {
            assert_eq!(segments.number(Path::new(other)), None, "{other}");
        }
    }
}
