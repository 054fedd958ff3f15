//! Writing files so that they are whole, or not there, whatever happens.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::Path;

use rustix::process::geteuid;

/// Who may read and write a file: PostgreSQL alone.
const PRIVATE: u32 = 0o600;

/// Writes a file that only PostgreSQL's user may read. Whoever reads it sees the old content or the new one; it is on disk when this returns.
pub(super) fn write(path: &Path, content: impl AsRef<[u8]>, user: Option<u32>) -> io::Result<()> {
    let (folder, name) = split(path)?;
    let partial = folder.join(format!(".{name}.partial"));
    // It may have been left with other permissions, which opening it would keep.
    remove(&partial)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(PRIVATE)
        .open(&partial)?;
    file.write_all(content.as_ref())?;
    give(&partial, user)?;
    file.sync_all()?;
    fs::rename(&partial, path)?;
    sync(folder)
}

/// Writes a file if its content is another; true if it was.
pub(super) fn write_if_changed(
    path: &Path,
    content: impl AsRef<[u8]>,
    user: Option<u32>,
) -> io::Result<bool> {
    let content = content.as_ref();
    if fs::read(path).is_ok_and(|present| present == content) {
        return Ok(false);
    }
    write(path, content, user).map(|()| true)
}

/// Makes a folder that only PostgreSQL's user may enter, if it is not there. One that is somebody else's, as what is mounted into a pod is, stays as it is.
pub(super) fn make_folder(path: &Path, user: Option<u32>) -> io::Result<()> {
    fs::create_dir_all(path)?;
    if fs::metadata(path)?.uid() != geteuid().as_raw() {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(0o700))?;
    give(path, user)
}

/// Removes a file, which may not be there.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Waits until what was made, renamed or removed in a folder is on disk.
pub(super) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn give(path: &Path, user: Option<u32>) -> io::Result<()> {
    user.map_or(Ok(()), |user| chown(path, Some(user), None))
}

fn split(path: &Path) -> io::Result<(&Path, &str)> {
    let name = path.file_name().and_then(|name| name.to_str());
    path.parent()
        .zip(name)
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidFilename))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tls.key");
        fs::write(&path, "older").unwrap();
        fs::write(folder.path().join(".tls.key.partial"), "left behind").unwrap();
        write(&path, "newer", None).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(
            (fs::read_to_string(&path).unwrap().as_str(), mode),
            ("newer", 0o600)
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_the_same_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let written = ["1", "1", "2"].map(|content| write_if_changed(&path, content, None).unwrap());
        assert_eq!(written, [true, false, true]);
    }
}
