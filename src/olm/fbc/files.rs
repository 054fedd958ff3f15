//! Which files of a folder belong to a catalog: all that no `.indexignore` excludes.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::DirEntry;
use std::io;
use std::path::{Path, PathBuf};

use super::ignored::Ignored;
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

/// What cannot be looked at, and why.
pub(super) type Failed = (PathBuf, io::Error);

/// The files of a catalog, sorted. What cannot be looked at is told beside them. As upstream has it, a link to a file is a file, and one to a folder is
/// followed by nobody.
pub(super) fn files(folder: &Path) -> (Vec<PathBuf>, Vec<Failed>) {
    if folder.is_file() {
        return (vec![folder.to_owned()], Vec::new());
    }
    let mut walk = Walk::default();
    walk.down(folder);
    let Walk {
        found,
        ignored,
        mut failed,
    } = walk;
    let mut files = Vec::new();
    for path in found {
        if is_excluded(&ignored, folder, &path) {
            continue;
        }
        match check(&path) {
            Ok(()) => files.push(path),
            Err(error) => failed.push((path, error)),
        }
    }
    files.sort();
    (files, failed)
}

/// What is found below a folder.
#[derive(Default)]
struct Walk {
    found: Vec<PathBuf>,
    ignored: Ignored,
    failed: Vec<Failed>,
}

impl Walk {
    /// Every folder after what comes before it by name: in this order patterns count.
    fn down(&mut self, root: &Path) {
        let mut next = vec![(root.to_owned(), true)];
        while let Some((path, is_folder)) = next.pop() {
            if !is_folder {
                self.take(root, path);
                continue;
            }
            match entries(&path) {
                Ok(entries) => next.extend(entries.into_iter().rev()),
                Err(error) => self.failed.push((path, error)),
            }
        }
    }

    fn take(&mut self, root: &Path, path: PathBuf) {
        if path.file_name().is_none_or(|name| name != IGNORE) {
            return self.found.push(path);
        }
        match std::fs::read(&path) {
            Ok(patterns) => {
                let text = String::from_utf8_lossy(&patterns);
                let domain = names(root, path.parent().unwrap_or(root));
                let domain: Vec<&str> = domain.iter().map(AsRef::as_ref).collect();
                self.ignored.add(&text, &domain);
            }
            Err(error) => self.failed.push((path, error)),
        }
    }
}

/// What is in a folder, by name, and whether it is a folder.
fn entries(folder: &Path) -> io::Result<Vec<(PathBuf, bool)>> {
    let entries = std::fs::read_dir(folder)?;
    let entry = |entry: io::Result<DirEntry>| entry.and_then(|it| Ok((it.path(), it.file_type()?.is_dir())));
    let mut entries: Vec<_> = entries.map(entry).collect::<io::Result<_>>()?;
    entries.sort();
    Ok(entries)
}

/// The names on the way from one folder to what is below it.
fn names<'a>(root: &Path, path: &'a Path) -> Vec<Cow<'a, str>> {
    let way = path.strip_prefix(root).unwrap_or(path);
    way.iter().map(OsStr::to_string_lossy).collect()
}

fn is_excluded(ignored: &Ignored, root: &Path, path: &Path) -> bool {
    let names = names(root, path);
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    ignored.excludes(&names)
}

/// Whether something that is no folder is a file. What leads nowhere, reading it tells.
fn check(path: &Path) -> io::Result<()> {
    let told = match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            "it is a link to a folder, which is not followed; name it in a .indexignore"
        }
        Ok(metadata) if !metadata.is_file() => "it is neither a file nor a folder; name it in a .indexignore",
        _ => return Ok(()),
    };
    Err(io::Error::other(told))
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

    #[test]
    fn files_are_those_that_upstream_reads() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("sub/deep")).unwrap();
        for name in ["a.md", "b.yaml", "sub/a.md", "sub/b.yaml", "sub/deep/c.json"] {
            std::fs::write(at(name), "").unwrap();
        }
        std::fs::write(at(IGNORE), "*.md\ndeep/\n").unwrap();
        std::fs::write(at("sub").join(IGNORE), "/b.yaml\n!a.md\n").unwrap();
        std::os::unix::fs::symlink("b.yaml", at("link.yaml")).unwrap();
        let (found, failed) = files(folder.path());
        assert_eq!(found, [at("b.yaml"), at("link.yaml"), at("sub/a.md")]);
        assert!(failed.is_empty(), "{failed:?}");
        assert_eq!(files(&at("a.md")).0, [at("a.md")]);
    }

    #[test]
    fn a_link_to_a_folder_is_told_of_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        std::fs::write(folder.path().join("sub/a.yaml"), "schema: mine\n").unwrap();
        std::os::unix::fs::symlink("sub", &link).unwrap();
        let (found, failed) = files(folder.path());
        assert_eq!(found, [folder.path().join("sub/a.yaml")]);
        assert_eq!(failed[0].0, link);
        let findings = crate::olm::fbc::validate(folder.path()).unwrap();
        assert_eq!((findings.len(), findings[0].code), (1, "file-unreadable"));
        std::fs::write(folder.path().join(IGNORE), "link\n").unwrap();
        assert!(files(folder.path()).1.is_empty());
    }
}
