//! Reads a folder: every file once, several at a time.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::blob::{self, Blob};
use super::contents::{At, Bundle, Channel, Contents, Deprecation, Deprecations, Other, Package};
use super::documents;
use super::files;
use super::fold::Trail;
use super::locate::Fields;
use super::rules;
use crate::olm::findings::{Code, Finding, Place, catalog as codes};

/// The folder of a catalog cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the catalog in {}: {source}", folder.display())]
pub struct Unread {
    folder: PathBuf,
    source: std::io::Error,
}

/// What somebody keeps of each bundle while it is read: afterwards its text is gone.
pub trait Keep: Sync {
    /// What that is.
    type Kept: Send;
    /// Keeps it.
    fn keep(&self, bundle: &blob::Bundle<'_>) -> Self::Kept;
}

/// Nothing.
impl Keep for () {
    type Kept = ();
    fn keep(&self, _: &blob::Bundle<'_>) {}
}

/// A catalog that was read, and all that is wrong with it, by file and line.
#[derive(Debug)]
pub struct Catalog<T> {
    /// What there is.
    pub contents: Contents<T>,
    /// What is wrong with it.
    pub findings: Vec<Finding>,
}

/// Reads a catalog.
///
/// # Errors
/// [`Unread`] when the folder itself cannot be read; whatever is wrong in it is among the findings.
pub fn read<K: Keep>(folder: &Path, keep: &K) -> Result<Catalog<K::Kept>, Unread> {
    let is_folder = std::fs::read_dir(folder).map(drop);
    is_folder.map_err(|source| Unread {
        folder: folder.to_owned(),
        source,
    })?;
    let (paths, failed) = files::files(folder);
    let mut findings: Vec<Finding> = failed
        .iter()
        .map(|(path, error)| unreadable(path, &error.to_string()))
        .collect();
    let mut parts = read_all(&paths, keep);
    parts.sort_by_key(|part| part.file);
    let mut contents = Contents {
        files: paths,
        packages: Vec::new(),
        channels: Vec::new(),
        bundles: Vec::new(),
        deprecations: Vec::new(),
        others: Vec::new(),
    };
    // Grown by doubling they would take twice the room while the catalog is read
    let bundles = parts.iter().map(|part| part.bundles.len()).sum();
    contents.bundles.reserve_exact(bundles);
    for part in parts {
        findings.extend(part.findings);
        contents.packages.extend(part.packages);
        contents.channels.extend(part.channels);
        contents.bundles.extend(part.bundles);
        contents.deprecations.extend(part.deprecations);
        contents.others.extend(part.others);
    }
    rules::check(&contents, &mut findings);
    findings.sort();
    Ok(Catalog { contents, findings })
}

/// Each file by whichever thread is free.
fn read_all<K: Keep>(paths: &[PathBuf], keep: &K) -> Vec<Part<K::Kept>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let file = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = paths.get(file) else { return done };
            done.push(Part::of(file, path, keep));
        }
    };
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(paths.len());
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut parts = work();
        for other in others {
            // A thread that panicked panics here, too
            parts.extend(
                other
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            );
        }
        parts
    })
}

fn unreadable(path: &Path, why: &str) -> Finding {
    Finding::of_file(&codes::FILE_UNREADABLE, path, format!("it cannot be read: {why}"))
}

/// What one file brings.
struct Part<T> {
    file: usize,
    findings: Vec<Finding>,
    packages: Vec<Package>,
    channels: Vec<Channel>,
    bundles: Vec<Bundle<T>>,
    deprecations: Vec<Deprecations>,
    others: Vec<Other>,
}

/// A document, as long as its text is there.
pub(super) struct Scene<'a> {
    path: &'a Path,
    line: usize,
    fields: Fields<'a>,
}

impl Scene<'_> {
    fn at(&self, line: usize) -> Place {
        Place {
            file: self.path.to_owned(),
            line,
        }
    }

    /// What is found at the field to which a JSON pointer leads; an empty one leads to the document.
    pub(super) fn found(&self, code: &'static Code, pointer: &str, message: impl Into<String>) -> Finding {
        let line = if pointer.is_empty() {
            self.line
        } else {
            self.fields.line(pointer)
        };
        Finding::new(code, &self.at(line), message)
    }
}

impl<T> Part<T> {
    fn of<K: Keep<Kept = T>>(file: usize, path: &Path, keep: &K) -> Self {
        let mut part = Self {
            file,
            findings: Vec::new(),
            packages: Vec::new(),
            channels: Vec::new(),
            bundles: Vec::new(),
            deprecations: Vec::new(),
            others: Vec::new(),
        };
        match files::text(path) {
            Ok(text) => documents::each_or_nothing(&text, |document| match document {
                Ok((span, json)) => {
                    let scene = Scene {
                        path,
                        line: span.line,
                        fields: Fields::of(&text[span.start..span.end], span.line),
                    };
                    part.take(At { file, span }, &scene, &json, keep);
                }
                Err((line, message)) => {
                    let place = Place {
                        file: path.to_owned(),
                        line,
                    };
                    part.findings
                        .push(Finding::new(&codes::DOCUMENT_SYNTAX, &place, message));
                }
            }),
            Err(error) => part.findings.push(unreadable(path, &error.to_string())),
        }
        part
    }

    fn take<K: Keep<Kept = T>>(&mut self, at: At, scene: &Scene<'_>, json: &str, keep: &K) {
        if documents::is_nothing(json) {
            let message = "the document is empty, as comments or blank lines alone are before the first --- or behind the last";
            return self
                .findings
                .push(scene.found(&codes::SCHEMA_MISSING, "", message));
        }
        let trail = Trail::default();
        let blob = match Blob::read(json, &trail) {
            Ok(blob) => blob,
            Err(error) => return self.findings.push(misread(scene, &trail, &error)),
        };
        match blob {
            Blob::Package(package) => {
                rules::package(&package, scene, &mut self.findings);
                self.packages.push(Package {
                    at,
                    name: package.name.to_string(),
                    default_channel: package.default_channel.to_string(),
                    shown: rules::shown_of_package(&package),
                });
            }
            Blob::Channel(channel) => {
                let channel = Channel {
                    at,
                    package: channel.package.to_string(),
                    name: channel.name.to_string(),
                    entries: channel.entries,
                };
                self.channels.push(channel);
            }
            Blob::Bundle(bundle) => {
                let version = rules::bundle(&bundle, scene, &mut self.findings);
                self.bundles.push(Bundle {
                    at,
                    package: bundle.package.to_string(),
                    name: bundle.name.to_string(),
                    version,
                    most: rules::most_of_bundle(&bundle),
                    kept: keep.keep(&bundle),
                });
            }
            Blob::Deprecations(document) => {
                let entries = document.entries.iter().map(|entry| Deprecation {
                    schema: entry.reference.schema.to_string(),
                    name: entry.reference.name.to_string(),
                    message: entry.message.to_string(),
                });
                let (package, entries) = (document.package.to_string(), entries.collect());
                self.deprecations.push(Deprecations { at, package, entries });
            }
            Blob::Other(other) => {
                rules::other(&other, json, scene, &mut self.findings);
                let (schema, package) = (other.schema.to_string(), other.package.to_string());
                self.others.push(Other { at, schema, package });
            }
            Blob::Nameless => {
                let message = "the document has no schema";
                self.findings
                    .push(scene.found(&codes::SCHEMA_MISSING, "", message));
            }
        }
    }
}

/// What became of a document that is none of its schema. The text that was read may have been made of YAML, so that its own lines say nothing.
fn misread(scene: &Scene<'_>, trail: &Trail, error: &serde_json::Error) -> Finding {
    let told = error.to_string();
    let told = told.split(" at line ").next().unwrap_or_default();
    let code = if told.starts_with("duplicate ") {
        &codes::DUPLICATE_KEY
    } else {
        &codes::FIELD_TYPE
    };
    let message = match trail.to_string() {
        field if field.is_empty() => told.to_owned(),
        field => format!("{field}: {told}"),
    };
    scene.found(code, &trail.pointer(), message)
}
