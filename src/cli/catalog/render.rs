//! `roadstead catalog render`: the documents of a catalog out of images, folders, files and templates.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::sources::{Reader, Source};
use crate::cli::held::Reading;
use crate::cli::{Failure, Outcome, print};
use crate::olm::catalog::template::Template;
use crate::olm::oci::{Name, Scratch};
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
    #[command(flatten)]
    reading: Reading,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    Yaml,
    Json,
}

pub(super) fn main(args: &Args) -> Outcome {
    let scratch = Scratch::in_temporary()?;
    let reader = Reader {
        reading: &args.reading,
        bundle_image: args.bundle_image.as_deref(),
        inline: false,
    };
    let parts = in_parallel(&args.sources, |index, source| {
        documents(&reader, source, &scratch.path().join(index.to_string()))
    })?;
    let documents = parts.concat();
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

/// The documents of one of the sources.
fn documents(reader: &Reader<'_>, source: &str, place: &Path) -> Result<Vec<Value>, Failure> {
    match reader.read(source, place)? {
        Source::Bundle(rendered) => Ok(vec![serde_json::to_value(rendered.bundle())?]),
        Source::Catalog(documents) => Ok(documents),
        Source::Template(template) => fill(reader, &template, place),
    }
}

fn fill(reader: &Reader<'_>, template: &Template, place: &Path) -> Result<Vec<Value>, Failure> {
    std::fs::create_dir(place)?;
    let images = template.images();
    let read = in_parallel(&images, |index, image| {
        match reader.image(&Name::of("image", image)?, &place.join(index.to_string()))? {
            Source::Bundle(rendered) => Ok(((*image).to_owned(), *rendered)),
            _ => Err(format!("{image} is a catalog; in a template, images are of bundles").into()),
        }
    })?;
    Ok(template.fill(&read.into_iter().collect::<BTreeMap<_, _>>())?)
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
