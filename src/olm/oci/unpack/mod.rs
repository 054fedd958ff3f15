//! The folder of a bundle out of its image, whoever made that.

use std::cell::Cell;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;

mod budget;
mod tree;

use self::budget::Budget;
use self::tree::Tree;
use super::output::{Replacing, Staged};
use super::{Content, Descriptor, Error, Platform, bundle};

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
    /// Bytes of the bundle's files, which are held in memory until all is known to be right.
    pub kept: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            entries: 100_000,
            read: 1 << 30,
            kept: 64 << 20,
        }
    }
}

/// Writes `manifests/`, `metadata/` and, where there is one, `tests/scorecard/`: all of it, or nothing. Gives the number of files.
///
/// # Errors
/// [`Error::Exists`]; [`Error::Content`] of an image that is no bundle, is not what its digests say, has nothing for the platform, would write elsewhere,
/// or is more than the bounds; [`Error::File`].
pub fn unpack(content: &Content, platform: &Platform, target: &Path, bounds: Bounds) -> Result<usize, Error> {
    let staged = stage(target)?;
    let manifest = content.manifest(platform)?;
    let mut tree = Tree::new(bounds.kept);
    let (mut entries, mut left) = (bounds.entries, bounds.read);
    for layer in &manifest.layers {
        tree.begin_layer();
        apply(content, layer, &mut tree, &mut entries, &mut left)?;
    }
    for needed in bundle::FOLDERS {
        if !tree.holds(needed) {
            let why = format!("it is no bundle: there is no file in {needed}/");
            return Err(Error::content(&content.place, why));
        }
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
