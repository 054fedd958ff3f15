//! Files that are whole whenever somebody reads them: what was there, or what is to be. That holds for who serves a catalog while it is written, and for who
//! comes after a crash.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};

use super::oci::own;

/// Writes a file by way of another in the folder `aside`, on the same disk: who reads all files of a catalog should not come upon that one. A link stays one, and
/// what was there keeps owner and permissions.
pub(super) fn write(path: &Path, text: &str, aside: &Path) -> io::Result<()> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let beside = target.parent().unwrap_or(Path::new(""));
    match put(&target, text, aside) {
        // It may be another disk, or somebody else's
        Err(error) if is_of_the_place(&error) => put(&target, text, beside)?,
        done => done?,
    }
    let folder = if beside.as_os_str().is_empty() {
        Path::new(".")
    } else {
        beside
    };
    File::open(folder)?.sync_all()
}

fn is_of_the_place(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::CrossesDevices | ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
    )
}

/// It goes when it is dropped, unless it has got its name.
struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn put(target: &Path, text: &str, folder: &Path) -> io::Result<()> {
    let partial = Partial(folder.join(format!(".roadstead.{}.partial", own())));
    let mut file = OpenOptions::new().write(true).create_new(true).open(&partial.0)?;
    file.write_all(text.as_bytes())?;
    if let Ok(there) = fs::metadata(target) {
        // Only root can, and in a container it often writes the files of somebody else
        let _ = fchown(&file, Some(there.uid()), Some(there.gid()));
        file.set_permissions(there.permissions())?;
    }
    file.sync_all()?;
    fs::rename(&partial.0, target)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn who_reads_a_file_sees_it_whole() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a.yaml");
        fs::write(&path, "what was there").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let mut reader = File::open(&path).unwrap();
        write(&path, "new", root.path()).unwrap();
        let mut seen = String::new();
        reader.read_to_string(&mut seen).unwrap();
        assert_eq!(seen, "what was there");
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(
            (mode & 0o777, names(root.path())),
            (0o640, vec!["a.yaml".to_owned()])
        );
    }

    #[test]
    fn a_link_stays_one() {
        let root = tempfile::tempdir().unwrap();
        let (path, link) = (root.path().join("a.yaml"), root.path().join("link.yaml"));
        fs::write(&path, "old").unwrap();
        symlink("a.yaml", &link).unwrap();
        write(&link, "new", root.path()).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing_behind() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a.yaml");
        fs::create_dir(&folder).unwrap();
        assert!(write(&folder, "new", root.path()).is_err());
        assert_eq!(names(root.path()), ["a.yaml"]);
        assert_eq!(names(&folder), [""; 0]);
    }
}
