//! Files that a command makes, held in memory until all of them are known to be right.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Component, Path, PathBuf};

use super::{Error, whole};

/// Files by their path below some root, and the folders that hold nothing else. No path leads out of the root: each is made of names alone, whatever
/// it was made of.
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
    /// Adds a file. There is one of a path: of two, the first would be gone without a word.
    ///
    /// # Errors
    /// [`Error::Outside`], [`Error::SameFile`]
    pub fn insert(&mut self, path: impl AsRef<Path>, text: impl Into<String>) -> Result<(), Error> {
        let path = within(path.as_ref())?;
        if self.files.contains_key(&path) {
            return Err(Error::SameFile(path));
        }
        self.files.insert(path, text.into());
        Ok(())
    }

    /// Declares that a folder's YAML files are all made here, so others in it are leftovers.
    ///
    /// Only `*.yaml` directly inside counts: a mistyped output folder must not cost anybody their files.
    ///
    /// # Errors
    /// [`Error::Outside`]
    pub fn own(&mut self, folder: impl AsRef<Path>) -> Result<(), Error> {
        self.owned.insert(within(folder.as_ref())?);
        Ok(())
    }

    /// Adds all of another tree.
    ///
    /// # Errors
    /// [`Error::SameFile`]
    pub fn merge(&mut self, other: Tree) -> Result<(), Error> {
        for (path, text) in other.files {
            self.insert(path, text)?;
        }
        self.owned.extend(other.owned);
        Ok(())
    }

    /// Takes a file out.
    pub fn remove(&mut self, path: impl AsRef<Path>) {
        self.files.remove(path.as_ref());
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

    /// Writes what differs below `root`, each file whole or not at all, removes leftovers, and says what it did.
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
        whole::write(&path, text, root).map_err(|source| Error::file("write", &path, source))
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

/// The same path, of names alone: parts of it may come from what others have written.
fn within(path: &Path) -> Result<PathBuf, Error> {
    let names = path.components().filter(|part| *part != Component::CurDir);
    let is_name = |part: &Component<'_>| matches!(part, Component::Normal(_));
    if names.clone().all(|part| is_name(&part)) {
        Ok(names.collect())
    } else {
        Err(Error::Outside(path.to_owned()))
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
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("../evil.yaml")]
    #[case("bundle/manifests/../../../evil.yaml")]
    #[case("/evil.yaml")]
    #[case("..")]
    fn no_path_leads_out_of_the_root(#[case] path: &str) {
        let mut tree = Tree::default();
        let told = format!("{path}: is not within the folder that is written");
        let refused = tree.insert(path, "").unwrap_err().to_string();
        assert!(refused.starts_with(&told), "{refused}");
        let refused = tree.own(path).unwrap_err().to_string();
        assert!(refused.starts_with(&told), "{refused}");
        assert_eq!(tree, Tree::default());
    }

    #[test]
    fn a_path_has_one_file() {
        let mut tree = Tree::default();
        tree.insert("a/one.yaml", "1").unwrap();
        let told = "a/one.yaml: two things would be written there; give one of them another name";
        assert_eq!(tree.insert("a/./one.yaml", "2").unwrap_err().to_string(), told);
        assert_eq!(tree.clone().merge(tree.clone()).unwrap_err().to_string(), told);
        assert_eq!(tree.get("a/one.yaml"), Some("1"));
    }

    #[test]
    fn the_root_itself_may_be_named() {
        let mut tree = Tree::default();
        tree.insert("./a.yaml", "1").unwrap();
        tree.own(".").unwrap();
        assert_eq!(tree.get("a.yaml"), Some("1"));
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("old.yaml"), "0").unwrap();
        let done = [
            Difference::Missing("a.yaml".into()),
            Difference::Stale("old.yaml".into()),
        ];
        assert_eq!(tree.write(root.path()).unwrap(), done);
    }

    #[test]
    fn writing_twice_changes_nothing_and_leftovers_go() {
        let root = tempfile::tempdir().unwrap();
        let mut tree = Tree::default();
        tree.insert("a/one.yaml", "1").unwrap();
        tree.own("a").unwrap();
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
        let reader = std::fs::File::open(root.path().join("a/one.yaml")).unwrap();
        tree.write(root.path()).unwrap();
        let seen = std::io::read_to_string(reader).unwrap();
        assert_eq!(seen, "2", "no file is written over while somebody reads it");
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
    }
}
