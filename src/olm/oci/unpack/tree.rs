use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::path::{Component, Path, PathBuf};

use tar::{Entry, EntryType};

use super::Bounds;
use crate::olm::oci::Error;

/// A file of this name says that the one whose name follows is gone, or that nothing of the layers before is in the folder.
const WHITEOUT: &str = ".wh.";
const OPAQUE: &str = ".wh..wh..opq";
/// Nothing could be written by a longer name.
const LONGEST_NAME: usize = 4096;

/// The files of some folders of an image, as the layers so far leave them.
pub(super) struct Tree {
    /// The folders.
    wanted: Vec<PathBuf>,
    files: BTreeMap<PathBuf, Kept>,
    layer: usize,
    /// What the present layer has hidden: once is enough.
    hidden: BTreeSet<PathBuf>,
    left: u64,
    most: usize,
}

struct Kept {
    layer: usize,
    content: Vec<u8>,
}

impl Tree {
    pub(super) fn new(wanted: Vec<PathBuf>, bounds: &Bounds) -> Self {
        Self {
            wanted,
            files: BTreeMap::new(),
            layer: 0,
            hidden: BTreeSet::new(),
            left: bounds.kept,
            most: bounds.files,
        }
    }

    pub(super) fn begin_layer(&mut self) {
        self.layer += 1;
        self.hidden.clear();
    }

    /// Whether there is a file in a folder.
    pub(super) fn holds(&self, folder: &str) -> bool {
        self.files.keys().any(|path| path.starts_with(folder))
    }

    /// Takes a file of the folders, or what a layer says of one. Anything else is passed over: many images have more in them.
    pub(super) fn take<R: Read>(&mut self, entry: &mut Entry<'_, R>) -> io::Result<()> {
        let name = entry.path()?.into_owned();
        let kind = entry.header().entry_type();
        if kind == EntryType::GNUSparse {
            // A few bytes of it can say that there are as many zeros as one likes, which somebody would read
            return Err(refused(&name, kind));
        }
        let path = inside(&name)?;
        let Some(file) = path.file_name().and_then(|name| name.to_str()) else {
            return Ok(());
        };
        let folder = path.parent().unwrap_or(Path::new(""));
        if file == OPAQUE {
            self.hide(folder);
            return Ok(());
        }
        if let Some(gone) = file.strip_prefix(WHITEOUT) {
            self.hide(&folder.join(gone));
            return Ok(());
        }
        if !self.is_wanted(&path) {
            return match kind {
                // It would lead the folders' own files elsewhere
                EntryType::Symlink | EntryType::Link if self.leads_to_wanted(&path) => {
                    Err(refused(&name, kind))
                }
                _ => Ok(()),
            };
        }
        match kind {
            EntryType::Directory => {
                // A folder takes the place of a file
                self.files.remove(&path);
                Ok(())
            }
            EntryType::Regular | EntryType::Continuous => self.keep(path, entry),
            _ => Err(refused(&name, kind)),
        }
    }

    fn is_wanted(&self, path: &Path) -> bool {
        let mut wanted = self.wanted.iter();
        wanted.any(|folder| path.starts_with(folder) && path != folder)
    }

    /// Whether it is one of the folders, or one in which they lie.
    fn leads_to_wanted(&self, path: &Path) -> bool {
        self.wanted.iter().any(|folder| folder.starts_with(path))
    }

    /// Takes away what the layers before had at a path and below it.
    fn hide(&mut self, path: &Path) {
        if !self.hidden.insert(path.to_owned()) {
            return;
        }
        for gone in self.below(path) {
            if self.files.get(&gone).is_some_and(|kept| kept.layer < self.layer) {
                self.files.remove(&gone);
            }
        }
    }

    /// What there is at a path and below it: that lies together, since paths are ordered by their parts.
    fn below(&self, path: &Path) -> Vec<PathBuf> {
        let from = self.files.range(path.to_owned()..).map(|(path, _)| path);
        from.take_while(|found| found.starts_with(path))
            .cloned()
            .collect()
    }

    fn keep<R: Read>(&mut self, path: PathBuf, entry: &mut Entry<'_, R>) -> io::Result<()> {
        let too_much = || io::Error::other("with it, the files together are larger than is accepted");
        self.left = self.left.checked_sub(entry.size()).ok_or_else(too_much)?;
        if self.files.len() >= self.most {
            let most = self.most;
            return Err(io::Error::other(format!(
                "there are more than {most} files, which is not accepted"
            )));
        }
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        // A file takes the place of a folder with all that is in it, and of a file that its own folder was
        for other in self.below(&path) {
            self.files.remove(&other);
        }
        for above in path.ancestors().skip(1) {
            self.files.remove(above);
        }
        let layer = self.layer;
        self.files.insert(path, Kept { layer, content });
        Ok(())
    }

    /// Writes all of it into a folder, and gives the number of files.
    pub(super) fn write(&self, folder: &Path) -> Result<usize, Error> {
        for (path, kept) in &self.files {
            let path = folder.join(path);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(|source| Error::file("create", parent, source))?;
            }
            let written = File::create_new(&path).and_then(|mut file| file.write_all(&kept.content));
            written.map_err(|source| Error::file("write", &path, source))?;
        }
        Ok(self.files.len())
    }
}

/// A name as it is below the root of an image, which it may not leave.
fn inside(name: &Path) -> io::Result<PathBuf> {
    let length = name.as_os_str().len();
    if length > LONGEST_NAME {
        return Err(io::Error::other(format!(
            "a name has {length} bytes; {LONGEST_NAME} are accepted"
        )));
    }
    let mut path = PathBuf::new();
    for component in name.components() {
        match component {
            Component::Normal(part) => path.push(part),
            // Some builders write every name so
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                let why = format!(
                    "{:?} would leave the folder, which no file of an image may",
                    name.display().to_string()
                );
                return Err(io::Error::other(why));
            }
        }
    }
    Ok(path)
}

fn refused(name: &Path, kind: EntryType) -> io::Error {
    let what = match kind {
        EntryType::Symlink | EntryType::Link => "a link",
        EntryType::Char | EntryType::Block | EntryType::Fifo => "a device",
        _ => "neither a file nor a folder",
    };
    let name = name.display().to_string();
    io::Error::other(format!("{name:?} is {what}; files and folders are accepted"))
}
