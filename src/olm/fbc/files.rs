//! Which files of a folder belong to a catalog: all that no `.indexignore` excludes.

use std::path::{Path, PathBuf};

use ignore::WalkBuilder;

/// Patterns like those of git, for the folder that holds it and all below.
const IGNORE: &str = ".indexignore";

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
