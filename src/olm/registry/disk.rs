//! The files of a catalog, held open: what is replaced by another file stays readable here, and what is written over is noticed.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::olm::fbc::Span;

/// What tells a file from what it becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
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

    /// The stamps of files; one that cannot be looked at has none.
    pub(super) fn all(paths: &[PathBuf]) -> Vec<(PathBuf, Option<Self>)> {
        let of = |path: &PathBuf| {
            let metadata = std::fs::metadata(path).ok();
            (path.clone(), metadata.as_ref().map(Self::of))
        };
        paths.iter().map(of).collect()
    }
}

/// A file as it was when the catalog was read.
#[derive(Debug)]
pub(super) struct Held {
    path: PathBuf,
    stamp: Stamp,
    file: File,
}

impl Held {
    /// Opens a file.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let stamp = Stamp::of(&file.metadata()?);
        Ok(Self {
            path: path.to_owned(),
            stamp,
            file,
        })
    }

    pub(super) fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// The text of a document.
    ///
    /// # Errors
    /// When it cannot be read, or was written over.
    pub(super) fn read(&self, span: Span) -> io::Result<String> {
        let mut bytes = vec![0; span.end - span.start];
        self.file.read_exact_at(&mut bytes, span.start as u64)?;
        if Stamp::of(&self.file.metadata()?) != self.stamp {
            let why = format!(
                "{} was written over and is no catalog yet that can be served",
                self.path.display()
            );
            return Err(io::Error::other(why));
        }
        String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}
