use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};

use super::{BLOBS, INDEX, MARK};
use crate::olm::oci::content::Blob;
use crate::olm::oci::types::{Index, LARGEST_DOCUMENT};
use crate::olm::oci::{Content, Digest, Error};

/// Files of a layout.
const MOST_ENTRIES: usize = 10_000;

/// Whether a path is meant as a layout: a folder with its mark in it, or a file.
pub fn is_layout(path: &Path) -> bool {
    path.is_file() || path.join(MARK).is_file()
}

/// Opens a layout, of which nothing but the index is read yet. It must hold one image.
///
/// # Errors
/// [`Error::File`], or [`Error::Content`] of what is no layout, or holds several images.
pub fn open(path: &Path) -> Result<Content, Error> {
    let (index, blobs) = if path.is_dir() {
        folder(path)?
    } else {
        archive(path)?
    };
    let place = path.display().to_string();
    let index: Index = serde_json::from_slice(&index)
        .map_err(|error| Error::content(&place, format!("{INDEX} is no index of images: {error}")))?;
    match index.manifests.len() {
        1 => {}
        count => {
            let why = format!("{INDEX} lists {count} images; accepted is a layout with one");
            return Err(Error::content(&place, why));
        }
    }
    let root = index.manifests.into_iter().next();
    let mut root = root.ok_or_else(|| Error::content(&place, format!("{INDEX} lists no image")))?;
    root.annotations.clear();
    Ok(Content { root, blobs, place })
}

type Found = (Vec<u8>, BTreeMap<Digest, Blob>);

fn folder(path: &Path) -> Result<Found, Error> {
    if !path.join(MARK).is_file() {
        let why = format!("it is no image layout: there is no file {MARK} in it");
        return Err(Error::content(path.display(), why));
    }
    let index = path.join(INDEX);
    let mut blobs = blobs_of(path, "sha256")?;
    blobs.extend(blobs_of(path, "sha512")?);
    Ok((small(&index)?, blobs))
}

fn small(path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST_DOCUMENT + 1).read_to_end(&mut bytes));
    read.map_err(|source| Error::file("read", path, source))?;
    if bytes.len() as u64 > LARGEST_DOCUMENT {
        let why = format!("it has more than {LARGEST_DOCUMENT} bytes");
        return Err(Error::content(path.display(), why));
    }
    Ok(bytes)
}

fn blobs_of(path: &Path, algorithm: &str) -> Result<BTreeMap<Digest, Blob>, Error> {
    let folder = path.join(BLOBS).join(algorithm);
    let listed = match fs::read_dir(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        listed => listed.map_err(|source| Error::file("list", &folder, source))?,
    };
    let mut blobs = BTreeMap::new();
    for (count, entry) in listed.enumerate() {
        let entry = entry.map_err(|source| Error::file("list", &folder, source))?;
        if count >= MOST_ENTRIES {
            return Err(too_many(&folder));
        }
        let digest = format!("{algorithm}:{}", entry.file_name().to_string_lossy());
        let found = entry
            .metadata()
            .map_err(|source| Error::file("read", &entry.path(), source))?;
        // What has no such name is none of the image's
        if let (Ok(digest), true) = (digest.parse(), found.is_file()) {
            blobs.insert(digest, in_file(entry.path(), 0, found.len()));
        }
    }
    Ok(blobs)
}

fn too_many(path: &Path) -> Error {
    let why = format!("it holds more than {MOST_ENTRIES} files, which no image needs");
    Error::content(path.display(), why)
}

fn in_file(path: PathBuf, offset: u64, length: u64) -> Blob {
    Blob::File { path, offset, length }
}

fn archive(path: &Path) -> Result<Found, Error> {
    let failed = |source| Error::file("read", path, source);
    let file = File::open(path).map_err(failed)?;
    let mut archive = tar::Archive::new(BufReader::new(file));
    let (mut index, mut blobs) = (None, BTreeMap::new());
    for (count, entry) in archive.entries_with_seek().map_err(failed)?.enumerate() {
        let mut entry = entry.map_err(failed)?;
        if count >= MOST_ENTRIES {
            return Err(too_many(path));
        }
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = entry.path().map_err(failed)?.to_string_lossy().into_owned();
        let name = name.strip_prefix("./").unwrap_or(&name);
        if name == INDEX {
            let mut bytes = Vec::new();
            entry
                .by_ref()
                .take(LARGEST_DOCUMENT)
                .read_to_end(&mut bytes)
                .map_err(failed)?;
            index = Some(bytes);
        } else if let Some(digest) = digest_of(name) {
            blobs.insert(
                digest,
                in_file(path.to_owned(), entry.raw_file_position(), entry.size()),
            );
        }
    }
    let why = format!("it is no tar of an image layout: there is no {INDEX} in it");
    let index = index.ok_or_else(|| Error::content(path.display(), why))?;
    Ok((index, blobs))
}

fn digest_of(name: &str) -> Option<Digest> {
    let (algorithm, digits) = name.strip_prefix(BLOBS)?.strip_prefix('/')?.split_once('/')?;
    format!("{algorithm}:{digits}").parse().ok()
}
