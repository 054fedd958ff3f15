//! The folder of a bundle or a catalog out of its image, whoever made that.

use std::cell::Cell;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;

mod budget;
mod tree;

use self::budget::Budget;
use self::tree::Tree;
use super::output::{Replacing, Staged};
use super::{Content, Descriptor, Error, Platform, bundle, catalog};

/// What stands before the content of a file: its header, and its name and attributes where they are long. In bytes.
const LARGEST_HEAD: u64 = 64 << 10;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// What an image may come to, since a small one can say that it is large.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Files and folders of all layers together, whether they are of the bundle or not.
    pub entries: usize,
    /// Bytes of all layers together, uncompressed.
    pub read: u64,
    /// Files that are written.
    pub files: usize,
    /// Their bytes, which are held in memory until all is known to be right.
    pub kept: u64,
}

impl Bounds {
    /// More than any bundle needs that could be installed.
    pub const BUNDLE: Self = Self {
        entries: 100_000,
        read: 1 << 30,
        files: 5_000,
        kept: 64 << 20,
    };
    /// Some ten times what the largest catalogs have that are published.
    pub const CATALOG: Self = Self {
        entries: 200_000,
        read: 4 << 30,
        files: 100_000,
        kept: 1 << 30,
    };
}

/// Writes `manifests/`, `metadata/` and, where there is one, `tests/scorecard/`: all of it, or nothing. Gives the number of files.
///
/// # Errors
/// [`Error::Exists`]; [`Error::Content`] of an image that is no bundle, is not what its digests say, has nothing for the platform, would write elsewhere,
/// or is more than the bounds; [`Error::File`].
pub fn bundle(
    content: &Content,
    platform: &Platform,
    target: &Path,
    bounds: &Bounds,
) -> Result<usize, Error> {
    let folders = bundle::FOLDERS.into_iter().chain([bundle::SCORECARD]);
    let tree = Tree::new(folders.map(PathBuf::from).collect(), bounds);
    write(
        content,
        platform,
        target,
        bounds,
        tree,
        ("bundle", &bundle::FOLDERS),
    )
}

/// Writes the catalog that an image holds, and gives the folder in `target` where it is: that which the image's label names.
///
/// # Errors
/// As of [`bundle()`].
pub fn catalog(
    content: &Content,
    platform: &Platform,
    target: &Path,
    bounds: &Bounds,
) -> Result<PathBuf, Error> {
    let folder = content.catalog(platform)?.ok_or_else(|| {
        let why = format!("it is no catalog: it has no label {}", catalog::LABEL);
        Error::content(&content.place, why)
    })?;
    let tree = Tree::new(vec![folder.clone()], bounds);
    let needed = folder.display().to_string();
    write(content, platform, target, bounds, tree, ("catalog", &[&needed]))?;
    Ok(target.join(folder))
}

/// Writes what a tree takes of the layers, if it has all that makes it what it is to be.
fn write(
    content: &Content,
    platform: &Platform,
    target: &Path,
    bounds: &Bounds,
    mut tree: Tree,
    (what, needed): (&str, &[&str]),
) -> Result<usize, Error> {
    let staged = stage(target)?;
    let manifest = content.manifest(platform)?;
    let (mut entries, mut left) = (bounds.entries, bounds.read);
    for layer in &manifest.layers {
        tree.begin_layer();
        apply(content, layer, &mut tree, &mut entries, &mut left)?;
    }
    if let Some(missing) = needed.iter().find(|folder| !tree.holds(folder)) {
        let why = format!("it is no {what}: there is no file in {missing}/");
        return Err(Error::content(&content.place, why));
    }
    fs::create_dir(staged.path()).map_err(|source| Error::file("create", staged.path(), source))?;
    let files = tree.write(staged.path())?;
    staged.finish()?;
    Ok(files)
}

/// Looks whether a bundle may be written there, before the image is pulled.
///
/// # Errors
/// [`Error::Exists`] or [`Error::File`].
pub fn check(target: &Path) -> Result<(), Error> {
    stage(target).map(drop)
}

fn stage(target: &Path) -> Result<Staged, Error> {
    let replacing = Replacing {
        is_allowed: false,
        remedy: "name a folder that is not there yet, or an empty one",
    };
    Staged::new(target, replacing)
}

/// Puts a layer over those before it.
fn apply(
    content: &Content,
    layer: &Descriptor,
    tree: &mut Tree,
    entries: &mut usize,
    left: &mut u64,
) -> Result<(), Error> {
    let failed = |error: io::Error| content.unreadable(layer, &error);
    let budget = Rc::new(Cell::new(0));
    let mut packed = BufReader::new(content.open(layer)?);
    let reader = Budget::new(plain(&mut packed).map_err(failed)?, Rc::clone(&budget));
    let mut archive = tar::Archive::new(reader);
    let mut listed = archive.entries().map_err(failed)?;
    loop {
        let head = LARGEST_HEAD.min(*left);
        budget.set(head);
        let next = listed.next();
        *left -= head - budget.get();
        let Some(entry) = next else { break };
        let mut entry = entry.map_err(failed)?;
        *entries = entries.checked_sub(1).ok_or_else(|| {
            failed(io::Error::other(
                "with it, the image has more files than are accepted",
            ))
        })?;
        budget.set(*left);
        tree.take(&mut entry).map_err(failed)?;
        // What nobody wanted is read all the same, so that the next head has its own budget
        io::copy(&mut entry, &mut io::sink()).map_err(failed)?;
        *left = budget.get();
    }
    // Up to the end, since the digest is that of all of it
    budget.set(*left);
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(failed)?;
    *left = budget.get();
    io::copy(&mut packed, &mut io::sink()).map_err(failed)?;
    Ok(())
}

/// What a layer is by its first bytes, whatever its type says: some builders are wrong about it.
fn plain<'a, R: Read + 'a>(packed: &'a mut BufReader<R>) -> io::Result<Box<dyn Read + 'a>> {
    let first = packed.fill_buf()?;
    if first.starts_with(&ZSTD) {
        return Err(io::Error::other(
            "the layer is compressed by zstd; accepted are gzip and plain tar, so build it anew without",
        ));
    }
    if first.starts_with(&GZIP) {
        return Ok(Box::new(MultiGzDecoder::new(packed)));
    }
    Ok(Box::new(packed))
}

#[cfg(test)]
mod tests;
