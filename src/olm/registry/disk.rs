//! The files of a catalog, held open as far as a process may: what is replaced by another file stays readable here, and what is written over is noticed.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

use crate::olm::fbc::{self, Span};

/// What tells a file from what it becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    length: u64,
    inode: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(metadata: &std::fs::Metadata) -> Self {
        Self {
            length: metadata.len(),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

/// The stamps of all files of a catalog; one that cannot be looked at has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamps(Vec<(PathBuf, Option<Stamp>)>);

impl Stamps {
    /// Of what is there now.
    pub(super) fn of_folder(folder: &Path) -> Self {
        let of = |path: PathBuf| {
            let metadata = std::fs::metadata(&path).ok();
            let stamp = metadata.as_ref().map(Stamp::of);
            (path, stamp)
        };
        Self(fbc::files(folder).into_iter().map(of).collect())
    }

    /// Of what was opened.
    pub(super) fn of_held(files: &[Held]) -> Self {
        let of = |file: &Held| (file.path.clone(), Some(file.stamp.clone()));
        Self(files.iter().map(of).collect())
    }
}

/// So many files of a process are left for connections, and for what is read meanwhile.
const SPARED: u64 = 512;
/// So many catalogs may be there at once: the one that is served, the next, and those of before that somebody is still being told.
const CATALOGS: u64 = 4;

/// How many files a catalog may hold open. Others are opened whenever something of them is asked for.
pub(super) fn held_at_most() -> usize {
    let most = getrlimit(Resource::Nofile).current;
    most.map_or(usize::MAX, |most| {
        let most = most.saturating_sub(SPARED) / CATALOGS;
        usize::try_from(most).unwrap_or(usize::MAX)
    })
}

/// A file as it was when the catalog was read.
#[derive(Debug)]
pub(super) struct Held {
    path: PathBuf,
    stamp: Stamp,
    file: Option<File>,
}

impl Held {
    /// Looks at a file, and holds it open if it is told to.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(super) fn open(path: &Path, hold: bool) -> io::Result<Self> {
        let file = File::open(path)?;
        let stamp = Stamp::of(&file.metadata()?);
        Ok(Self {
            path: path.to_owned(),
            stamp,
            file: hold.then_some(file),
        })
    }

    /// The text of a document.
    ///
    /// # Errors
    /// When it cannot be read, or the file has changed: been written over, or, where it was not held open, replaced.
    pub(super) fn read(&self, span: Span) -> io::Result<String> {
        match &self.file {
            Some(file) => self.read_from(file, span),
            None => self.read_from(&File::open(&self.path)?, span),
        }
    }

    fn read_from(&self, file: &File, span: Span) -> io::Result<String> {
        let read = span.read(file);
        if Stamp::of(&file.metadata()?) != self.stamp {
            let why = format!(
                "{} has changed, and is no catalog yet that can be served",
                self.path.display()
            );
            return Err(io::Error::other(why));
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const SPAN: Span = Span {
        start: 2,
        end: 5,
        line: 1,
    };

    #[rstest]
    #[case::held(true)]
    #[case::opened_on_demand(false)]
    fn a_file_is_read_as_it_was_or_not_at_all(#[case] hold: bool) {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::write(&path, "0123456789").unwrap();
        let held = Held::open(&path, hold).unwrap();
        assert_eq!(held.read(SPAN).unwrap(), "234");
        std::fs::write(&other, "abcdefghij").unwrap();
        std::fs::rename(&other, &path).unwrap();
        match held.read(SPAN) {
            Ok(read) => assert!(hold && read == "234", "{read}"),
            Err(error) => assert!(!hold && error.to_string().contains("has changed"), "{error}"),
        }
    }

    #[test]
    fn a_file_that_is_shorter_now_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "0123456789").unwrap();
        let held = Held::open(&path, true).unwrap();
        std::fs::write(&path, "").unwrap();
        let error = held.read(SPAN).unwrap_err();
        assert!(error.to_string().contains("has changed"), "{error}");
    }
}
