//! An image with all its parts, wherever they are: in memory, in a folder, or in an archive.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Cursor, Read, Seek as _, SeekFrom};
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use serde::Deserialize;

use super::catalog::LABEL;
use super::digest::Verified;
use super::types::{Document, LARGEST_DOCUMENT, Manifest};
use super::{Descriptor, Digest, Error, Platform};

/// An image, or one image for several platforms.
#[derive(Debug)]
pub struct Content {
    /// What it begins with: a manifest or an index.
    pub root: Descriptor,
    pub(super) blobs: BTreeMap<Digest, Blob>,
    /// Where it is, as messages tell it.
    pub(super) place: String,
}

/// What is read of an image's configuration.
#[derive(Deserialize)]
struct Configuration {
    #[serde(default)]
    config: Run,
}

#[derive(Default, Deserialize)]
struct Run {
    #[serde(rename = "Labels")]
    labels: Option<BTreeMap<String, String>>,
}

/// Where the bytes of a part are.
#[derive(Debug, Clone)]
pub(super) enum Blob {
    Memory(Bytes),
    /// So many bytes of a file.
    File {
        path: PathBuf,
        offset: u64,
        length: u64,
    },
}

impl Blob {
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File { length, .. } => *length,
        }
    }

    pub(super) fn open(&self) -> io::Result<Box<dyn Read>> {
        match self {
            Self::Memory(bytes) => Ok(Box::new(Cursor::new(bytes.clone()))),
            Self::File { path, offset, length } => {
                let mut file = File::open(path)?;
                file.seek(SeekFrom::Start(*offset))?;
                Ok(Box::new(file.take(*length)))
            }
        }
    }
}

impl Content {
    /// Where the bytes of a part are. Their size is as the descriptor says; their digest is not looked at.
    ///
    /// # Errors
    /// [`Error::Content`]: it is missing, or has another size.
    pub(super) fn blob(&self, descriptor: &Descriptor) -> Result<&Blob, Error> {
        let Descriptor { digest, size, .. } = descriptor;
        let blob = self
            .blobs
            .get(digest)
            .ok_or_else(|| Error::content(&self.place, format!("{digest} is missing")))?;
        match blob.len() {
            length if length == *size => Ok(blob),
            length => Err(Error::content(
                &self.place,
                format!("{digest} has {length} bytes, and should have {size}"),
            )),
        }
    }

    /// Reads a part, which fails at its end if it is not what its digest says.
    ///
    /// # Errors
    /// [`Error::Content`]: it is missing, or cannot be opened.
    pub(super) fn open(&self, descriptor: &Descriptor) -> Result<Verified<Box<dyn Read>>, Error> {
        let opened = self.blob(descriptor)?.open();
        let reader = opened.map_err(|error| self.unreadable(descriptor, &error))?;
        Ok(Verified::new(reader, &descriptor.digest, descriptor.size))
    }

    pub(super) fn unreadable(&self, descriptor: &Descriptor, error: &io::Error) -> Error {
        Error::content(&self.place, format!("{}: {error}", descriptor.digest))
    }

    /// The bytes of a manifest, an index or a configuration.
    ///
    /// # Errors
    /// [`Error::Content`]: it is missing, too long, or not what its digest says.
    pub(super) fn document(&self, descriptor: &Descriptor) -> Result<Vec<u8>, Error> {
        if descriptor.size > LARGEST_DOCUMENT {
            let Descriptor { digest, size, .. } = descriptor;
            let why = format!("{digest} has {size} bytes; {LARGEST_DOCUMENT} are accepted");
            return Err(Error::content(&self.place, why));
        }
        let mut bytes = Vec::new();
        match self.open(descriptor)?.read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(error) => Err(self.unreadable(descriptor, &error)),
        }
    }

    /// Reads all of it once, so that nothing is pushed of an image that is damaged.
    ///
    /// # Errors
    /// [`Error::Content`]: a part is missing, or not what its digest says.
    pub fn verify(&self) -> Result<(), Error> {
        for (_, manifest) in self.manifests()? {
            for part in std::iter::once(&manifest.config).chain(&manifest.layers) {
                let read = io::copy(&mut self.open(part)?, &mut io::sink());
                read.map_err(|error| self.unreadable(part, &error))?;
            }
        }
        Ok(())
    }

    /// The manifests: the root itself, or those of the index that it is.
    ///
    /// # Errors
    /// [`Error::Content`]: one is missing, or is none.
    pub(super) fn manifests(&self) -> Result<Vec<(Descriptor, Manifest)>, Error> {
        let read = |descriptor: &Descriptor| {
            let place = format!("{}: {}", self.place, descriptor.digest);
            Document::read(&place, &descriptor.media_type, &self.document(descriptor)?)
        };
        let index = match read(&self.root)? {
            Document::Manifest(manifest) => return Ok(vec![(self.root.clone(), manifest)]),
            Document::Index(index) => index,
        };
        let each = index
            .manifests
            .into_iter()
            .map(|descriptor| match read(&descriptor)? {
                Document::Manifest(manifest) => Ok((descriptor, manifest)),
                Document::Index(_) => Err(Error::content(
                    &self.place,
                    format!(
                        "{} is an index within an index, which is not accepted",
                        descriptor.digest
                    ),
                )),
            });
        each.collect()
    }

    /// The manifest for a platform. An image that is for one platform alone is taken whatever that is: a bundle's files are the same everywhere.
    ///
    /// # Errors
    /// [`Error::Content`] with those that there are.
    pub(super) fn manifest(&self, platform: &Platform) -> Result<Manifest, Error> {
        let manifests = self.manifests()?;
        let is_alone = self.root.digest == manifests[0].0.digest;
        let served = |descriptor: &Descriptor| {
            let found = descriptor.platform.as_ref();
            is_alone || found.is_some_and(|found| found.serves(platform))
        };
        let of_index: Vec<Option<Platform>> = manifests
            .iter()
            .map(|(descriptor, _)| descriptor.platform.clone())
            .collect();
        let chosen = manifests.into_iter().find(|(descriptor, _)| served(descriptor));
        chosen
            .map(|(_, manifest)| manifest)
            .ok_or_else(|| no_platform(&self.place, platform, of_index.iter().flatten()))
    }

    /// Where in the image the catalog is that it holds, if it does: below its root.
    ///
    /// # Errors
    /// [`Error::Content`] of a configuration that cannot be read, or leads elsewhere.
    pub fn catalog(&self, platform: &Platform) -> Result<Option<PathBuf>, Error> {
        let manifest = self.manifest(platform)?;
        let read: Result<Configuration, _> = serde_json::from_slice(&self.document(&manifest.config)?);
        let configuration = read.map_err(|why| {
            let why = format!("{} is no configuration: {why}", manifest.config.digest);
            Error::content(&self.place, why)
        })?;
        let Some(folder) = configuration.config.labels.unwrap_or_default().remove(LABEL) else {
            return Ok(None);
        };
        let within: PathBuf = Path::new(&folder)
            .components()
            .filter(|part| !matches!(part, Component::RootDir | Component::CurDir))
            .collect();
        let leads_on = within
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if within.as_os_str().is_empty() || !leads_on {
            let why = format!(
                "its label {LABEL} is {folder:?}; accepted is a folder below the root, such as /configs"
            );
            return Err(Error::content(&self.place, why));
        }
        Ok(Some(within))
    }
}

/// An index that has nothing for a platform.
pub(super) fn no_platform<'a>(
    place: &str,
    asked: &Platform,
    found: impl Iterator<Item = &'a Platform>,
) -> Error {
    let found: Vec<String> = found.map(ToString::to_string).collect();
    let accepted = if found.is_empty() {
        "its index says of none what it is for; name one by its digest".to_owned()
    } else {
        let found = crate::olm::findings::listed(found.iter().map(String::as_str));
        format!("with --platform, accepted are {found}")
    };
    Error::content(place, format!("there is no image for {asked}; {accepted}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_index_has_is_told_or_that_it_does_not_say() {
        let (asked, other) = (Platform::linux("amd64"), Platform::linux("arm64"));
        let told = |found: &[Platform]| no_platform("a", &asked, found.iter()).to_string();
        assert!(
            told(&[other])
                .ends_with("there is no image for linux/amd64; with --platform, accepted are linux/arm64")
        );
        assert!(told(&[]).ends_with("its index says of none what it is for; name one by its digest"));
    }
}
