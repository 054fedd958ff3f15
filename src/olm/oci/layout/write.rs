use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use tar::EntryType;

use super::{BLOBS, FULL_NAME, INDEX, MARK, MARK_TEXT, REF_NAME};
use crate::olm::oci::layer::header;
use crate::olm::oci::output::{Replacing, Staged};
use crate::olm::oci::types::{Index, media};
use crate::olm::oci::{Content, Descriptor, Error, Name};

/// Looks whether a layout may be written there, before the work for it begins.
///
/// # Errors
/// As [`write`] would.
pub fn check(target: &Path, is_forced: bool) -> Result<(), Error> {
    stage(target, is_forced).map(drop)
}

/// Writes a layout, all of it or nothing: a tar where the name ends in `.tar`, else a folder. With `is_forced` it takes the place of a file or a layout.
///
/// # Errors
/// [`Error::Exists`], [`Error::File`], or [`Error::Content`] of an image that lacks something.
pub fn write(content: &Content, name: Option<&Name>, target: &Path, is_forced: bool) -> Result<(), Error> {
    let staged = stage(target, is_forced)?;
    let index = index(content, name)?;
    if is_archive(target) {
        archive(content, &index, staged.path())?;
    } else {
        folder(content, &index, staged.path())?;
    }
    staged.finish()
}

/// Whether a layout of this name is a tar, and no folder.
pub fn is_archive(target: &Path) -> bool {
    target.extension().is_some_and(|extension| extension == "tar")
}

fn stage(target: &Path, is_forced: bool) -> Result<Staged, Error> {
    let is_alike = match is_archive(target) {
        true => !target.is_dir(),
        // Somebody's folder that is no layout is not taken away, whatever they ask for
        false => target.join(MARK).is_file(),
    };
    let remedy = match (is_forced, is_alike) {
        (false, _) => "give --force to put this image in its place, or another name",
        (true, _) => {
            "it is no image layout, which --force would take the place of; give another name, or remove it"
        }
    };
    let replacing = Replacing {
        is_allowed: is_forced && is_alike,
        remedy,
    };
    Staged::new(target, replacing)
}

fn index(content: &Content, name: Option<&Name>) -> Result<Vec<u8>, Error> {
    let mut annotations = BTreeMap::new();
    if let Some(name) = name {
        annotations.insert(FULL_NAME.to_owned(), name.to_string());
        if let Some(tag) = name.tag() {
            annotations.insert(REF_NAME.to_owned(), tag.to_owned());
        }
    }
    let index = Index {
        schema_version: 2,
        media_type: media::INDEX.to_owned(),
        manifests: vec![Descriptor {
            annotations,
            ..content.root.clone()
        }],
    };
    serde_json::to_vec(&index).map_err(|error| Error::content(INDEX, error.to_string()))
}

/// Everything that the image is made of, each part once and sorted by its digest.
fn parts(content: &Content) -> Result<Vec<Descriptor>, Error> {
    let mut parts = vec![content.root.clone()];
    for (descriptor, manifest) in content.manifests()? {
        parts.push(descriptor);
        parts.push(manifest.config);
        parts.extend(manifest.layers);
    }
    parts.sort_by(|one, other| one.digest.cmp(&other.digest));
    parts.dedup_by(|one, other| one.digest == other.digest);
    Ok(parts)
}

fn folder(content: &Content, index: &[u8], target: &Path) -> Result<(), Error> {
    for part in parts(content)? {
        let (algorithm, digits) = part.digest.parts();
        let folder = target.join(BLOBS).join(algorithm);
        fs::create_dir_all(&folder).map_err(|source| Error::file("create", &folder, source))?;
        let path = folder.join(digits);
        let mut reader = content.open(&part)?;
        let copied = File::create_new(&path).and_then(|mut file| io::copy(&mut reader, &mut file));
        copied.map_err(|source| Error::file("write", &path, source))?;
    }
    for (name, bytes) in [(INDEX, index), (MARK, MARK_TEXT.as_bytes())] {
        let path = target.join(name);
        fs::write(&path, bytes).map_err(|source| Error::file("write", &path, source))?;
    }
    Ok(())
}

fn archive(content: &Content, index: &[u8], target: &Path) -> Result<(), Error> {
    let failed = |source| Error::file("write", target, source);
    let file = File::create_new(target).map_err(failed)?;
    let mut builder = tar::Builder::new(BufWriter::new(file));
    let mut folders = BTreeSet::new();
    for part in parts(content)? {
        let (algorithm, digits) = part.digest.parts();
        for folder in [format!("{BLOBS}/"), format!("{BLOBS}/{algorithm}/")] {
            if folders.insert(folder.clone()) {
                let mut header = header(EntryType::Directory, 0o755, 0, 0);
                builder
                    .append_data(&mut header, folder, io::empty())
                    .map_err(failed)?;
            }
        }
        let mut header = header(EntryType::Regular, 0o644, part.size, 0);
        let name = format!("{BLOBS}/{algorithm}/{digits}");
        let reader = content.open(&part)?;
        builder.append_data(&mut header, name, reader).map_err(failed)?;
    }
    for (name, bytes) in [(INDEX, index), (MARK, MARK_TEXT.as_bytes())] {
        let mut header = header(EntryType::Regular, 0o644, bytes.len() as u64, 0);
        builder.append_data(&mut header, name, bytes).map_err(failed)?;
    }
    let finished = builder.into_inner().and_then(|mut out| out.flush());
    finished.map_err(failed)
}
