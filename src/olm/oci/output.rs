//! What is written is there whole, or not at all.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::Error;

/// What is removed when it is dropped, for a process that ends before that.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn unfinished() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes what was begun and is not whole, wherever it is, for a process that ends now: other threads may work on it, and are not waited for.
pub fn remove_what_is_unfinished() {
    for path in unfinished().iter() {
        // Once more, if somebody wrote to it just then
        if remove(path).is_err() {
            let _ = remove(path);
        }
    }
}

/// Something beside its target, which takes the target's name once it is whole. What is dropped before is removed.
#[derive(Debug)]
pub(super) struct Staged {
    target: PathBuf,
    temporary: PathBuf,
    replaced: Option<PathBuf>,
}

/// What may be at the target.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replacing {
    /// Whether what is there goes.
    pub(super) is_allowed: bool,
    /// What to do where it may not.
    pub(super) remedy: &'static str,
}

impl Staged {
    /// Looks whether the target may be written. Nothing is made yet.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::Value`] of a target without a name, or [`Error::File`].
    pub(super) fn new(target: &Path, replacing: Replacing) -> Result<Self, Error> {
        let Some(name) = target.file_name() else {
            return Err(Error::Value {
                field: "--output",
                value: target.display().to_string(),
                accepted: "it has no name; accepted is a file or a folder that is to be made".to_owned(),
            });
        };
        if is_there(target)? && !replacing.is_allowed {
            return Err(Error::Exists {
                path: target.to_owned(),
                remedy: replacing.remedy,
            });
        }
        // Of two that write the same at once, each has its own
        let beside = |what: &str| {
            let name = format!(".{}.{}.{what}", name.to_string_lossy(), own());
            target.with_file_name(name)
        };
        let staged = Self {
            target: target.to_owned(),
            temporary: beside("partial"),
            replaced: replacing.is_allowed.then(|| beside("replaced")),
        };
        if let Some(parent) = target.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent).map_err(|source| Error::file("create", parent, source))?;
        }
        unfinished().insert(staged.temporary.clone());
        Ok(staged)
    }

    /// Where to write for now.
    pub(super) fn path(&self) -> &Path {
        &self.temporary
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// [`Error::File`]; then what was there is there still.
    pub(super) fn finish(self) -> Result<(), Error> {
        let Self {
            target,
            temporary,
            replaced,
        } = &self;
        let rename = |from: &Path, to: &Path| {
            fs::rename(from, to).map_err(|source| Error::file("write", target, source))
        };
        match replaced {
            // A file goes over a file at once; a folder only takes the name of one that has given it up
            Some(replaced) if target.is_dir() => {
                rename(target, replaced)?;
                if let Err(error) = rename(temporary, target) {
                    rename(replaced, target)?;
                    return Err(error);
                }
                remove(replaced).map_err(|source| Error::file("remove", replaced, source))
            }
            _ => rename(temporary, target),
        }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // It has got its name, or nobody wants it
        let _ = remove(&self.temporary);
        unfinished().remove(&self.temporary);
    }
}

/// A folder for what is needed for a while, beside what is to be written, so that it is on the same disk.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one. It goes with all that is in it when this is dropped.
    ///
    /// # Errors
    /// [`Error::File`]
    pub fn beside(target: &Path) -> Result<Self, Error> {
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let path = target.with_file_name(format!(".{name}.{}.parts", own()));
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent).map_err(|source| Error::file("create", parent, source))?;
        }
        Self::at(path)
    }

    /// Makes one where the system has room for such, which nobody else may read. It goes as well.
    ///
    /// # Errors
    /// [`Error::File`]
    pub fn in_temporary() -> Result<Self, Error> {
        Self::at(std::env::temp_dir().join(format!("roadstead.{}.parts", own())))
    }

    fn at(path: PathBuf) -> Result<Self, Error> {
        // What is there already is somebody else's, and may lead elsewhere
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|source| Error::file("create", &path, source))?;
        unfinished().insert(path.clone());
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Whoever stopped us may have taken it away already
        let _ = remove(&self.0);
        unfinished().remove(&self.0);
    }
}

/// What nobody else has in a name: in containers, the number of a process is often the same.
pub(in crate::olm) fn own() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    format!("{}-{}", std::process::id(), now.unwrap_or_default().as_nanos())
}

/// Whether something is there: an empty folder is as good as nothing.
fn is_there(path: &Path) -> Result<bool, Error> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        found => found.map_err(|source| Error::file("read", path, source))?,
    };
    if !found.is_dir() {
        return Ok(true);
    }
    let mut listed = fs::read_dir(path).map_err(|source| Error::file("list", path, source))?;
    Ok(listed.next().is_some())
}

fn remove(path: &Path) -> std::io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: Replacing = Replacing {
        is_allowed: false,
        remedy: "remove it",
    };
    const REPLACE: Replacing = Replacing {
        is_allowed: true,
        remedy: "",
    };

    #[test]
    fn what_is_given_up_leaves_nothing_behind() {
        let root = tempfile::tempdir().unwrap();
        let staged = Staged::new(&root.path().join("a"), KEEP).unwrap();
        fs::create_dir(staged.path()).unwrap();
        drop(staged);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_there_stays_until_somebody_asks_for_another() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("a");
        fs::create_dir(&target).unwrap();
        Staged::new(&target, KEEP).expect("an empty folder is as good as none");
        fs::write(target.join("old"), "").unwrap();
        let error = Staged::new(&target, KEEP).unwrap_err().to_string();
        assert!(error.ends_with("is there already; remove it"), "{error}");
        let staged = Staged::new(&target, REPLACE).unwrap();
        fs::create_dir(staged.path()).unwrap();
        fs::write(staged.path().join("new"), "").unwrap();
        staged.finish().unwrap();
        assert!(target.join("new").exists() && !target.join("old").exists());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }
}
