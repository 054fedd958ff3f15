//! `roadstead catalog render`: the documents of a catalog out of images, folders, files and templates.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::cli::bundle::images::{self, Access};
use crate::cli::{Failure, Outcome, print};
use crate::olm::catalog::template::Template;
use crate::olm::catalog::{Rendered, default_bundle_image, sources};
use crate::olm::oci::unpack::{self, Bounds};
use crate::olm::oci::{Content, Name, Platform, Scratch, layout};
use crate::olm::yaml;

/// So many images are read at once: most of the time is waited for.
const AT_ONCE: usize = 4;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Each an image of a bundle or a catalog (HOST/PATH:TAG, or a layout), the folder of a bundle, the folder or a file of a catalog, or a template
    /// (a file of schema olm.template.basic or olm.semver).
    #[arg(value_name = "IMAGE|DIR|FILE", required = true)]
    sources: Vec<String>,
    /// How it is written.
    #[arg(long, value_enum, default_value = "yaml")]
    output: Format,
    /// The image of a bundle's folder or layout, in which {package}, {name} and {version} stand for what they are. Default: beside the operator's image,
    /// PACKAGE-bundle:vVERSION.
    #[arg(long, value_name = "IMAGE")]
    bundle_image: Option<String>,
    /// Of images for several platforms, which one.
    #[arg(long, default_value = "linux/amd64")]
    platform: Platform,
    #[command(flatten)]
    access: Access,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    Yaml,
    Json,
}

pub(super) fn main(args: &Args) -> Outcome {
    let scratch = Scratch::in_temporary()?;
    let reader = Reader {
        args,
        scratch: &scratch,
    };
    let mut documents = Vec::new();
    for part in in_parallel(&args.sources, |index, source| reader.documents(index, source))? {
        documents.extend(part);
    }
    let text = match args.output {
        Format::Yaml => yaml::documents(&documents)?,
        Format::Json => {
            let mut text = String::new();
            for document in &documents {
                text += &serde_json::to_string_pretty(document)?;
                text.push('\n');
            }
            text
        }
    };
    print(|out| out.write_all(text.as_bytes()))
}

/// What an image holds.
enum Held {
    Bundle(Box<Rendered>),
    Catalog(Vec<Value>),
}

struct Reader<'a> {
    args: &'a Args,
    scratch: &'a Scratch,
}

impl Reader<'_> {
    /// The documents of one of the sources.
    fn documents(&self, index: usize, source: &str) -> Result<Vec<Value>, Failure> {
        let path = Path::new(source);
        let place = self.scratch.path().join(index.to_string());
        if path.is_dir() && sources::is_bundle(path) {
            return Ok(vec![serde_json::to_value(self.bundle(path)?.bundle())?]);
        }
        // A file is a layout by its name, as where one is written
        let is_layout = if path.is_dir() {
            layout::is_layout(path)
        } else {
            layout::is_archive(path)
        };
        if !path.exists() || is_layout {
            let held = if is_layout {
                self.layout(path, &place)
            } else {
                self.image(source, &place)
            };
            return match held? {
                Held::Bundle(rendered) => Ok(vec![serde_json::to_value(rendered.bundle())?]),
                Held::Catalog(documents) => Ok(documents),
            };
        }
        if path.is_dir() {
            return Ok(sources::documents(path)?);
        }
        let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {source}: {error}"))?;
        match Template::parse(source, &text)? {
            Some(template) => self.fill(&template, &place),
            None => Ok(sources::of_text(source, &text)?),
        }
    }

    fn fill(&self, template: &Template, place: &Path) -> Result<Vec<Value>, Failure> {
        std::fs::create_dir(place)?;
        let images = template.images();
        let read = in_parallel(&images, |index, image| {
            match self.image(image, &place.join(index.to_string()))? {
                Held::Bundle(rendered) => Ok(((*image).to_owned(), *rendered)),
                Held::Catalog(_) => {
                    Err(format!("{image} is a catalog; in a template, images are of bundles").into())
                }
            }
        })?;
        Ok(template.fill(&read.into_iter().collect::<BTreeMap<_, _>>())?)
    }

    /// The bundle in a folder, of whose image nothing is known but a rule.
    fn bundle(&self, folder: &Path) -> Result<Rendered, Failure> {
        let rendered = Rendered::read(folder, |bundle, operator| {
            let version = bundle.version()?;
            Ok(match &self.args.bundle_image {
                Some(template) => template
                    .replace("{package}", &bundle.package)
                    .replace("{name}", &bundle.name)
                    .replace("{version}", &version.to_string()),
                None => default_bundle_image(operator, &bundle.package, &version),
            })
        })?;
        Ok(rendered)
    }

    /// What an image of a registry holds, which is read by way of a folder of its own.
    fn image(&self, image: &str, place: &Path) -> Result<Held, Failure> {
        let name = Name::of("IMAGE", image)
            .map_err(|error| format!("{error}; nor is there a folder or file of that name"))?;
        let (parts, files) = (place.join("parts"), place.join("files"));
        std::fs::create_dir_all(&parts)?;
        let (platform, access) = (Some(&self.args.platform), &self.args.access);
        let content = images::pull_into(&name, platform, &parts, Bounds::CATALOG.read, access)?;
        let held = self.held(&content, &files, || Ok(sources::bundle(&files, image)?));
        // Of many images, one after the other takes room
        std::fs::remove_dir_all(place)?;
        held
    }

    /// What a layout holds. What its image is called where it will be pushed, the layout does not say.
    fn layout(&self, path: &Path, place: &Path) -> Result<Held, Failure> {
        self.held(&layout::open(path)?, place, || self.bundle(place))
    }

    fn held(
        &self,
        content: &Content,
        files: &Path,
        bundle: impl FnOnce() -> Result<Rendered, Failure>,
    ) -> Result<Held, Failure> {
        let platform = &self.args.platform;
        if content.catalog(platform)?.is_some() {
            let folder = unpack::catalog(content, platform, files, &Bounds::CATALOG)?;
            return Ok(Held::Catalog(sources::documents(&folder)?));
        }
        unpack::bundle(content, platform, files, &Bounds::BUNDLE)?;
        Ok(Held::Bundle(Box::new(bundle()?)))
    }
}

/// Does something with each of a list, some at once, and gives what came of them in the order of the list; or the first failure in that order.
fn in_parallel<S: Sync, T: Send>(
    list: &[S],
    work: impl Fn(usize, &S) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    let (next, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let done = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(list.len()) {
            scope.spawn(|| {
                // What is begun before a failure comes first in the list, so the failure that is told is the first one
                while !has_failed.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = list.get(index) else { break };
                    let outcome = work(index, item);
                    has_failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.insert(index, outcome);
                }
            });
        }
    });
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.into_values().collect()
}
