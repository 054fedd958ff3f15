//! Files that a command makes, held in memory until all of them are known to be right.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use super::Error;

/// Files by their path below some root, and the folders that hold nothing else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    files: BTreeMap<PathBuf, String>,
    owned: BTreeSet<PathBuf>,
}

/// One way in which a folder is not what a [`Tree`] says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// The file is not there.
    Missing(PathBuf),
    /// The file has other content.
    Changed(PathBuf),
    /// The file lies in an owned folder, but nothing makes it any more.
    Stale(PathBuf),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(path) => write!(f, "{} is missing", path.display()),
            Self::Changed(path) => write!(f, "{} differs", path.display()),
            Self::Stale(path) => write!(f, "{} is no longer generated", path.display()),
        }
    }
}

impl Tree {
    /// Adds a file, replacing one of the same path.
    pub fn insert(&mut self, path: impl Into<PathBuf>, text: impl Into<String>) {
        self.files.insert(path.into(), text.into());
    }

    /// Declares that a folder's YAML files are all made here, so others in it are leftovers.
    ///
    /// Only `*.yaml` directly inside counts: a mistyped output folder must not cost anybody their files.
    pub fn own(&mut self, folder: impl Into<PathBuf>) {
        self.owned.insert(folder.into());
    }

    /// Adds all of another tree.
    pub fn merge(&mut self, other: Tree) {
        self.files.extend(other.files);
        self.owned.extend(other.owned);
    }

    /// The files, sorted by path.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.files
            .iter()
            .map(|(path, text)| (path.as_path(), text.as_str()))
    }

    /// The content of one file.
    pub fn get(&self, path: impl AsRef<Path>) -> Option<&str> {
        self.files.get(path.as_ref()).map(String::as_str)
    }

    /// Writes what differs below `root`, removes leftovers, and says what it did.
    ///
    /// # Errors
    /// [`Error::File`], naming the file.
    pub fn write(&self, root: &Path) -> Result<Vec<Difference>, Error> {
        let differences = self.differences(root)?;
        for difference in &differences {
            match difference {
                Difference::Missing(path) | Difference::Changed(path) => self.write_file(root, path)?,
                Difference::Stale(path) => {
                    let path = root.join(path);
                    std::fs::remove_file(&path).map_err(|source| Error::file("remove", &path, source))?;
                }
            }
        }
        Ok(differences)
    }

    fn write_file(&self, root: &Path, relative: &Path) -> Result<(), Error> {
        let path = root.join(relative);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|source| Error::file("create", folder, source))?;
        }
        let text = self.get(relative).unwrap_or_default();
        std::fs::write(&path, text).map_err(|source| Error::file("write", &path, source))
    }

    /// How what lies below `root` differs from this tree, sorted by path.
    ///
    /// # Errors
    /// [`Error::File`], naming the file.
    pub fn differences(&self, root: &Path) -> Result<Vec<Difference>, Error> {
        let mut found = BTreeMap::new();
        for (path, text) in &self.files {
            match read_if_there(&root.join(path))? {
                None => found.insert(path.clone(), Difference::Missing(path.clone())),
                Some(there) if there != text.as_bytes() => {
                    found.insert(path.clone(), Difference::Changed(path.clone()))
                }
                Some(_) => None,
            };
        }
        for folder in &self.owned {
            for path in yaml_files_in(root, folder)? {
                if !self.files.contains_key(&path) {
                    found.insert(path.clone(), Difference::Stale(path));
                }
            }
        }
        Ok(found.into_values().collect())
    }
}

fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::file("read", path, source)),
    }
}

/// The `*.yaml` files directly inside `root/folder`, as paths below `root`. A missing folder has none.
fn yaml_files_in(root: &Path, folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let absolute = root.join(folder);
    let entries = match std::fs::read_dir(&absolute) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(Error::file("list", &absolute, source)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry
            .map_err(|source| Error::file("list", &absolute, source))?
            .path();
        if path.extension().is_some_and(|extension| extension == "yaml") && path.is_file() {
            paths.extend(path.file_name().map(|name| folder.join(name)));
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_twice_changes_nothing_and_leftovers_go() {
        let root = tempfile::tempdir().unwrap();
        let mut tree = Tree::default();
        tree.insert("a/one.yaml", "1");
        tree.own("a");
        std::fs::create_dir(root.path().join("a")).unwrap();
        std::fs::write(root.path().join("a/old.yaml"), "0").unwrap();
        std::fs::write(root.path().join("a/notes.txt"), "mine").unwrap();

        let done = tree.write(root.path()).unwrap();
        assert_eq!(
            done,
            [
                Difference::Stale("a/old.yaml".into()),
                Difference::Missing("a/one.yaml".into())
            ]
        );
        assert_eq!(tree.write(root.path()).unwrap(), []);
        assert!(
            root.path().join("a/notes.txt").exists(),
            "only generated kinds of files are removed"
        );

        std::fs::write(root.path().join("a/one.yaml"), "2").unwrap();
        assert_eq!(
            tree.differences(root.path()).unwrap(),
            [Difference::Changed("a/one.yaml".into())]
        );
    }
}
