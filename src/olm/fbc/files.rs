//! Which files of a folder belong to a catalog: all that no `.indexignore` excludes.

use std::io;
use std::path::{Path, PathBuf};

use ignore::WalkBuilder;

use crate::olm::bounded;

/// Patterns like those of git, for the folder that holds it and all below.
const IGNORE: &str = ".indexignore";

/// The largest file of a catalog, in bytes. The largest catalogs that are known have 130 MB in all their files; beyond this something else came to lie
/// among them, and it would be read into memory.
const LARGEST: u64 = 256 << 20;

/// The text of a file of a catalog.
///
/// # Errors
/// It cannot be read, is no UTF-8, or is too large.
pub(in crate::olm) fn text(path: &Path) -> io::Result<String> {
    bounded::text_of_any(path, LARGEST)
}

/// The files of a catalog, sorted. What cannot be looked at is told beside them.
pub(super) fn files(folder: &Path) -> (Vec<PathBuf>, Vec<ignore::Error>) {
    let mut walk = WalkBuilder::new(folder);
    walk.standard_filters(false)
        .follow_links(true)
        .add_custom_ignore_filename(IGNORE);
    let (mut files, mut failed) = (Vec::new(), Vec::new());
    for entry in walk.build() {
        match entry {
            Ok(entry) => {
                let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
                if is_file && entry.file_name() != IGNORE {
                    files.push(entry.into_path());
                }
            }
            Err(error) => failed.push(error),
        }
    }
    files.sort();
    (files, failed)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_file_that_is_too_large_is_told_of_and_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large.json");
        File::create(&path).unwrap().set_len(LARGEST + 1).unwrap();
        let told = text(&path).unwrap_err().to_string();
        assert_eq!(told, "it has 268435457 bytes; 268435456 are accepted");
        let findings = crate::olm::fbc::validate(folder.path()).unwrap();
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].code, "file-unreadable");
        assert!(findings[0].message.ends_with(&told), "{}", findings[0].message);
    }
}
