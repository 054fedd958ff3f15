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

impl Reading {
    /// Pulls what an image has for the platform. Its layers are in files of the folder, which is made.
    pub(super) fn pull(&self, name: &Name, folder: &Path, bounds: &Bounds) -> Result<Content, Failure> {
        std::fs::create_dir_all(folder)?;
        images::pull_into(name, Some(&self.platform), folder, bounds.read, &self.access)
    }
}

/// What somebody means by a name.
pub(super) enum Meant {
    /// A folder or a file, or what is not there and looks like one.
    Files,
    /// The layout of an image: a folder by what it holds, a file by its name, as where one is written.
    Layout,
    /// An image of a registry.
    Image(Name),
}

impl Meant {
    /// What is there goes before what a registry may have.
    ///
    /// # Errors
    /// It looks like an image's name and lacks something.
    pub(super) fn by(named: &Path) -> Result<Self, Failure> {
        if named.exists() {
            let is_layout = if named.is_dir() {
                layout::is_layout(named)
            } else {
                layout::is_archive(named)
            };
            return Ok(if is_layout { Self::Layout } else { Self::Files });
        }
        match named.to_str().filter(|text| looks_like_an_image(text)) {
            Some(text) => {
                let name = Name::of("IMAGE", text);
                let name =
                    name.map_err(|error| format!("{error}; nor is there a folder or file of that name"))?;
                Ok(Self::Image(name))
            }
            None => Ok(Self::Files),
        }
    }
}

/// Whether it has a tag or a digest, or begins with a registry.
fn looks_like_an_image(text: &str) -> bool {
    let host = text.split_once('/').map(|(host, _)| host);
    let is_host = |host: &str| host == "localhost" || host.contains('.') && !host.starts_with('.');
    text.contains([':', '@']) || host.is_some_and(is_host)
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
        let meant = Meant::by(named)?;
        if matches!(meant, Meant::Files) {
            // Whoever reads it tells what is wrong with a folder
            return Ok(Self {
                folder: subject.clone(),
                subject,
                opened: None,
            });
        }
        let scratch = Scratch::in_temporary()?;
        let (parts, files) = (scratch.path().join("parts"), scratch.path().join("files"));
        let content = match meant {
            Meant::Image(name) => reading.pull(&name, &parts, bounds)?,
            Meant::Files | Meant::Layout => layout::open(named)?,
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
            let beside = format!("{}/", files.display());
            for finding in &mut found {
                // It may name another place, as of what is there twice
                finding.message = finding.message.replace(&beside, "");
                if let Ok(inside) = finding.place.file.strip_prefix(files) {
                    finding.place.file = inside.to_owned();
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::olm::fbc;

    #[rstest]
    #[case::a_tag("registry.example.com/me/a:v1", true)]
    #[case::no_registry("a:v1", true)]
    #[case::no_version("registry.example.com/me/a", true)]
    #[case::this_machine("localhost/a", true)]
    #[case::a_folder("catalog", false)]
    #[case::a_folder_in_another("released/catalog", false)]
    #[case::one_beside("../catalog", false)]
    #[case::hidden(".cache/catalog", false)]
    fn what_is_not_there_is_an_image_if_it_looks_like_one(#[case] text: &str, #[case] image: bool) {
        assert_eq!(looks_like_an_image(text), image);
    }

    /// Where they were written is nobody's affair, and another place the next time.
    #[test]
    fn what_is_found_in_an_image_names_its_files_wherever_it_names_them() {
        let scratch = Scratch::in_temporary().unwrap();
        let files = scratch.path().join("files");
        let folder = files.join("configs");
        std::fs::create_dir_all(&folder).unwrap();
        for file in ["a.yaml", "b.yaml"] {
            std::fs::write(folder.join(file), "schema: olm.package\nname: a\n").unwrap();
        }
        let held = Held {
            folder,
            subject: "registry.example.com/me/catalog:v1".into(),
            opened: Some(Opened {
                files: files.clone(),
                _scratch: scratch,
            }),
        };
        let found = held.told(fbc::validate(held.folder()).unwrap());
        let twice = found
            .iter()
            .find(|finding| finding.message.contains("configs/a.yaml"));
        assert_eq!(twice.unwrap().place.file, Path::new("configs/b.yaml"));
        let place = files.display().to_string();
        assert!(!format!("{found:?}").contains(&place), "{found:?}");
    }
}
