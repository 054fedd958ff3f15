use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::path::{Component, Path, PathBuf};

use tar::{Entry, EntryType};

use crate::olm::oci::Error;
use crate::olm::oci::bundle::{FOLDERS, SCORECARD};

/// A file of this name says that the one whose name follows is gone, or that nothing of the layers before is in the folder.
const WHITEOUT: &str = ".wh.";
const OPAQUE: &str = ".wh..wh..opq";

/// Files of a bundle: of one that large nothing could be installed.
const MOST_FILES: usize = 5_000;

/// The bundle's files, as the layers so far leave them.
pub(super) struct Tree {
    files: BTreeMap<PathBuf, Kept>,
    layer: usize,
    left: u64,
}

struct Kept {
    layer: usize,
    content: Vec<u8>,
}

impl Tree {
    pub(super) fn new(bytes: u64) -> Self {
        Self {
            files: BTreeMap::new(),
            layer: 0,
            left: bytes,
        }
    }

    pub(super) fn begin_layer(&mut self) {
        self.layer += 1;
    }

    /// Whether there is a file in a folder.
    pub(super) fn holds(&self, folder: &str) -> bool {
        self.files.keys().any(|path| path.starts_with(folder))
    }

    /// Takes a file of the bundle, or what a layer says of one. Anything else is passed over: many images have more in them than a bundle.
    pub(super) fn take<R: Read>(&mut self, entry: &mut Entry<'_, R>) -> io::Result<()> {
        let name = entry.path()?.into_owned();
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
        let kind = entry.header().entry_type();
        if kind == EntryType::GNUSparse {
            // A few bytes of it can say that there are as many zeros as one likes
            return Err(refused(&name, kind));
        }
        if !is_of_bundle(&path) {
            return match kind {
                // It would lead the bundle's own files elsewhere
                EntryType::Symlink | EntryType::Link if leads_to_bundle(&path) => Err(refused(&name, kind)),
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

    /// Takes away what the layers before had at a path and below it.
    fn hide(&mut self, path: &Path) {
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
        let too_much = || io::Error::other("the bundle's files together are larger than is accepted");
        self.left = self.left.checked_sub(entry.size()).ok_or_else(too_much)?;
        if self.files.len() >= MOST_FILES {
            return Err(io::Error::other(format!(
                "the bundle has more than {MOST_FILES} files, which no bundle needs"
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

fn is_of_bundle(path: &Path) -> bool {
    let folders = FOLDERS.into_iter().chain([SCORECARD]);
    let mut folders = folders.map(Path::new);
    folders.any(|folder| path.starts_with(folder) && path != folder)
}

/// Whether it is one of the bundle's folders, or one in which they lie.
fn leads_to_bundle(path: &Path) -> bool {
    let mut folders = FOLDERS.into_iter().chain([SCORECARD]);
    folders.any(|folder| Path::new(folder).starts_with(path))
}

fn refused(name: &Path, kind: EntryType) -> io::Error {
    let what = match kind {
        EntryType::Symlink | EntryType::Link => "a link",
        EntryType::Char | EntryType::Block | EntryType::Fifo => "a device",
        _ => "neither a file nor a folder",
    };
    let name = name.display().to_string();
    io::Error::other(format!(
        "{name:?} is {what}; in a bundle, files and folders are accepted"
    ))
}
