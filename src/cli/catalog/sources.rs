//! What catalogs are made of, as people name it: images, layouts, folders and files.

use std::path::Path;

use serde_json::Value;

use crate::cli::Failure;
use crate::cli::held::{Meant, Reading};
use crate::olm::catalog::template::Template;
use crate::olm::catalog::{Rendered, default_bundle_image, sources};
use crate::olm::oci::unpack::{self, Bounds};
use crate::olm::oci::{Content, Name, layout};

/// What a source is.
pub(super) enum Source {
    /// A bundle: its image, its layout or its folder.
    Bundle(Box<Rendered>),
    /// The documents of a catalog, in the order of its files.
    Catalog(Vec<Value>),
    /// A template, whose images are not read yet.
    Template(Template),
}

/// Reads sources.
pub(super) struct Reader<'a> {
    pub(super) reading: &'a Reading,
    /// The image of a bundle's folder or layout, in which {package}, {name} and {version} stand for what they are. Default: beside the operator's image.
    pub(super) bundle_image: Option<&'a str>,
    /// Whether the catalog carries the manifests of bundles, and not the names of their images.
    pub(super) inline: bool,
}

impl Reader<'_> {
    /// What a source is; `place` is a folder that does not exist yet, for files on the way.
    pub(super) fn read(&self, source: &str, place: &Path) -> Result<Source, Failure> {
        let path = Path::new(source);
        if path.is_dir() && sources::is_bundle(path) {
            return Ok(Source::Bundle(Box::new(self.bundle(path)?)));
        }
        match Meant::by(path)? {
            Meant::Layout => return self.layout(path, place),
            Meant::Image(name) => return self.image(&name, place),
            Meant::Files => {}
        }
        if path.is_dir() {
            return Ok(Source::Catalog(sources::documents(path)?));
        }
        let text = sources::text(path)?;
        Ok(match Template::parse(source, &text)? {
            Some(template) => Source::Template(template),
            None => Source::Catalog(sources::of_text(source, &text)?),
        })
    }

    /// The bundle in a folder, of whose image nothing is known but a rule.
    pub(super) fn bundle(&self, folder: &Path) -> Result<Rendered, Failure> {
        if self.inline {
            return Ok(Rendered::carried(folder)?);
        }
        let rendered = Rendered::read(folder, |bundle, operator| {
            let released = bundle.released()?;
            Ok(match self.bundle_image {
                Some(template) => template
                    .replace("{package}", &bundle.package)
                    .replace("{name}", &bundle.name)
                    .replace("{version}", &released.version.to_string()),
                None => default_bundle_image(operator, &bundle.package, &released),
            })
        })?;
        Ok(rendered)
    }

    /// What an image of a registry holds, which is read by way of a folder of its own.
    pub(super) fn image(&self, name: &Name, place: &Path) -> Result<Source, Failure> {
        let (parts, files) = (place.join("parts"), place.join("files"));
        let content = self.reading.pull(name, &parts, &Bounds::CATALOG)?;
        let source = self.held(&content, &files, || match self.inline {
            true => self.bundle(&files),
            false => Ok(sources::bundle(&files, &name.to_string())?),
        });
        // Of many images, one after the other takes room
        std::fs::remove_dir_all(place)?;
        source
    }

    /// What a layout holds. What its image is called where it will be pushed, the layout does not say.
    fn layout(&self, path: &Path, place: &Path) -> Result<Source, Failure> {
        self.held(&layout::open(path)?, place, || self.bundle(place))
    }

    fn held(
        &self,
        content: &Content,
        files: &Path,
        bundle: impl FnOnce() -> Result<Rendered, Failure>,
    ) -> Result<Source, Failure> {
        let platform = &self.reading.platform;
        if content.catalog(platform)?.is_some() {
            let folder = unpack::catalog(content, platform, files, &Bounds::CATALOG)?;
            return Ok(Source::Catalog(sources::documents(&folder)?));
        }
        unpack::bundle(content, platform, files, &Bounds::BUNDLE)?;
        Ok(Source::Bundle(Box::new(bundle()?)))
    }
}
