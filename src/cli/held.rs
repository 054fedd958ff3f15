//! A bundle or a catalog as people name it: a folder, or an image, whose files are there for as long as a command runs.

use std::path::{Path, PathBuf};

use super::Failure;
use super::bundle::images::{self, Access};
use crate::olm::findings::Finding;
use crate::olm::oci::unpack::{self, Bounds};
use crate::olm::oci::{Content, Name, Platform, Scratch, layout};

/// How images are read.
#[derive(Debug, clap::Args)]
pub(super) struct Reading {
    /// Of images for several platforms, which one.
    #[arg(long, default_value = "linux/amd64")]
    pub(super) platform: Platform,
    #[command(flatten)]
    pub(super) access: Access,
}

/// Whether an image's layout is meant: a folder by what it holds, a file by its name, as where one is written.
pub(super) fn is_layout(path: &Path) -> bool {
    if path.is_dir() {
        layout::is_layout(path)
    } else {
        layout::is_archive(path)
    }
}

/// Where the files of a bundle or a catalog are.
pub(super) struct Held {
    folder: PathBuf,
    /// As it was named.
    subject: PathBuf,
    /// Where those of an image were written.
    opened: Option<Opened>,
}

struct Opened {
    files: PathBuf,
    _scratch: Scratch,
}

impl Held {
    /// A bundle's folder, or the image or the layout of one.
    pub(super) fn bundle(named: &Path, reading: &Reading) -> Result<Self, Failure> {
        Self::of(named, reading, &Bounds::BUNDLE, |content, files| {
            unpack::bundle(content, &reading.platform, files, &Bounds::BUNDLE)?;
            Ok(files.to_owned())
        })
    }

    /// A catalog's folder, or the image or the layout of one.
    pub(super) fn catalog(named: &Path, reading: &Reading) -> Result<Self, Failure> {
        Self::of(named, reading, &Bounds::CATALOG, |content, files| {
            Ok(unpack::catalog(
                content,
                &reading.platform,
                files,
                &Bounds::CATALOG,
            )?)
        })
    }

    fn of(
        named: &Path,
        reading: &Reading,
        bounds: &Bounds,
        unpack: impl FnOnce(&Content, &Path) -> Result<PathBuf, Failure>,
    ) -> Result<Self, Failure> {
        let subject = named.to_owned();
        let name = if named.exists() { None } else { image(named)? };
        if name.is_none() && !is_layout(named) {
            // Whoever reads it tells what is wrong with a folder
            return Ok(Self {
                folder: subject.clone(),
                subject,
                opened: None,
            });
        }
        let scratch = Scratch::in_temporary()?;
        let (parts, files) = (scratch.path().join("parts"), scratch.path().join("files"));
        let content = match name {
            Some(name) => {
                std::fs::create_dir(&parts)?;
                let (platform, access) = (Some(&reading.platform), &reading.access);
                images::pull_into(&name, platform, &parts, bounds.read, access)?
            }
            None => layout::open(named)?,
        };
        Ok(Self {
            folder: unpack(&content, &files)?,
            subject,
            opened: Some(Opened {
                files,
                _scratch: scratch,
            }),
        })
    }

    /// Where its files are.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// As it was named.
    pub(super) fn subject(&self) -> &Path {
        &self.subject
    }

    /// What was found in its files. Those of an image are told as they are called in it.
    pub(super) fn told(&self, mut found: Vec<Finding>) -> Vec<Finding> {
        if let Some(Opened { files, .. }) = &self.opened {
            for finding in &mut found {
                if let Ok(inside) = finding.place.file.strip_prefix(files) {
                    finding.place.file = inside.to_owned();
                }
            }
        }
        found
    }
}

/// The image that is meant by what is not there as a file, if one is.
fn image(named: &Path) -> Result<Option<Name>, Failure> {
    match named.to_str() {
        Some(text) if text.contains([':', '@']) => {
            let name = Name::of("IMAGE", text);
            let name = name.map_err(|error| format!("{error}; nor is there a folder of that name"))?;
            Ok(Some(name))
        }
        _ => Ok(None),
    }
}
