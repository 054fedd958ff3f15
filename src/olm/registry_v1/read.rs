//! The files of a bundle.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::olm::Error;
use crate::olm::bounded::{self, LARGEST};
use crate::olm::fbc::documents;
use crate::olm::findings::{Code, Finding, Lines, Place, bundle as codes};
use crate::olm::manifests::{is_kind, list, name, text};
use crate::olm::pointer::dotted;

const MANIFESTS: &str = "manifests";
const METADATA: &str = "metadata";

/// A bundle as its files hold it, as far as they can be read.
#[derive(Debug)]
pub struct Bundle {
    pub(super) folder: PathBuf,
    /// One of each file of manifests/, in the order of their names.
    pub(super) objects: Vec<Object>,
    pub(super) annotations: Option<Object>,
    pub(super) dependencies: Option<Object>,
    pub(super) properties: Option<Object>,
    /// Bytes of manifests/, compressed and in base64, as OLM's unpacker puts them into a ConfigMap.
    pub(super) packed: usize,
    /// Whether something of manifests/ could not be read, so that nobody knows what is missing.
    pub(super) has_unread: bool,
    /// The same of metadata/.
    pub(super) has_unread_metadata: bool,
}

/// A document and where it is.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) file: PathBuf,
    line: usize,
    document: String,
    /// Read when somebody asks first.
    lines: OnceCell<Lines>,
    pub(super) body: Value,
}

impl Object {
    fn lines(&self) -> &Lines {
        self.lines.get_or_init(|| Lines::of(&self.document, self.line))
    }

    pub(super) fn place(&self, pointer: &str) -> Place {
        Place {
            file: self.file.clone(),
            line: self.lines().line(pointer),
        }
    }

    /// What a rule finds at the field to which a JSON pointer leads.
    pub(super) fn finding(&self, code: &'static Code, pointer: &str, message: impl Into<String>) -> Finding {
        Finding::new(code, &self.place(pointer), message)
    }

    pub(super) fn is(&self, group: &str, kind: &str) -> bool {
        is_kind(&self.body, group, kind)
    }

    pub(super) fn is_crd(&self) -> bool {
        self.is("apiextensions.k8s.io", "CustomResourceDefinition")
    }

    pub(super) fn is_csv(&self) -> bool {
        self.is("operators.coreos.com", "ClusterServiceVersion")
    }

    pub(super) fn name(&self) -> &str {
        name(&self.body)
    }

    /// The text to which a JSON pointer leads, empty where there is none.
    pub(super) fn text(&self, pointer: &str) -> &str {
        text(&self.body, pointer)
    }

    /// The list to which a JSON pointer leads, empty where there is none.
    pub(super) fn list(&self, pointer: &str) -> &[Value] {
        list(&self.body, pointer)
    }
}

impl Bundle {
    /// Reads manifests/ and metadata/ below a folder, and gives what is wrong with the files.
    ///
    /// # Errors
    /// [`Error::File`]: the folder itself cannot be listed.
    pub fn read(folder: &Path) -> Result<(Self, Vec<Finding>), Error> {
        std::fs::read_dir(folder).map_err(|source| Error::file("list", folder, source))?;
        let mut found = Vec::new();
        let mut bundle = Self {
            folder: folder.to_owned(),
            objects: Vec::new(),
            annotations: None,
            dependencies: None,
            properties: None,
            packed: 0,
            has_unread: false,
            has_unread_metadata: false,
        };
        for path in files(folder, MANIFESTS, &mut found) {
            let Some(text) = content(&path, &mut found) else {
                continue;
            };
            bundle.packed += packed(text.as_bytes());
            let mut of_file = Vec::new();
            bundle.objects.extend(only(&path, &text, &mut of_file));
            if !is_document(&path) {
                of_file = misplaced(of_file);
            }
            found.extend(of_file);
        }
        bundle.has_unread = found.iter().any(is_unread);
        let of_manifests = found.len();
        for path in files(folder, METADATA, &mut found) {
            let Some(text) = content(&path, &mut found) else {
                continue;
            };
            let Some(object) = only(&path, &text, &mut found) else {
                continue;
            };
            // As upstream does: by what is in them, not by their names
            let place = ["annotations", "dependencies", "properties"]
                .into_iter()
                .find(|key| object.body.get(key).is_some());
            let place = match place {
                Some("annotations") => &mut bundle.annotations,
                Some("dependencies") => &mut bundle.dependencies,
                Some("properties") => &mut bundle.properties,
                _ => continue,
            };
            place.get_or_insert(object);
        }
        bundle.has_unread_metadata = found[of_manifests..].iter().any(is_unread);
        Ok((bundle, found))
    }

    /// What metadata/ says of the bundle, which its image says too. What is no text is left out.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let said = self
            .annotations
            .as_ref()
            .map(|object| &object.body["annotations"]);
        let said = said.and_then(Value::as_object).into_iter().flatten();
        let texts = said.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
        texts.collect()
    }

    /// The ClusterServiceVersion. More than one is told of elsewhere.
    pub(super) fn csv(&self) -> Option<&Object> {
        self.objects.iter().find(|object| object.is_csv())
    }

    /// The definitions of the version that there still is.
    pub(super) fn crds(&self) -> impl Iterator<Item = &Object> {
        let crds = self.objects.iter();
        crds.filter(|object| object.body["apiVersion"] == "apiextensions.k8s.io/v1" && object.is_crd())
    }
}

/// Whether it says that something was not read.
fn is_unread(finding: &Finding) -> bool {
    [
        &codes::BUNDLE_LAYOUT,
        &codes::MANIFEST_UNREADABLE,
        &codes::MANIFEST_SYNTAX,
    ]
    .iter()
    .any(|code| code.name == finding.code)
}

/// What is wrong with a file that by its name was not meant to hold an object: one thing, whatever else there is of it.
fn misplaced(found: Vec<Finding>) -> Vec<Finding> {
    let remedy = "Take the file out of manifests/: each file there is read as an object, whatever its name.";
    match found.iter().find(|finding| is_unread(finding)) {
        Some(first) => vec![first.clone().remedied_by(remedy)],
        None => found,
    }
}

/// What to do where a folder is not there, or holds nothing.
fn filled(name: &str) -> &'static str {
    match name {
        MANIFESTS => {
            "Put the manifests into manifests/: ClusterServiceVersion, definitions, and what else OLM is to install; `roadstead bundle generate` does."
        }
        _ => {
            "Make the folder metadata/ with an annotations.yaml that says what the bundle is; `roadstead bundle generate` does."
        }
    }
}

/// The files of one of the two folders, sorted. Of metadata/ only those that may be read are.
fn files(folder: &Path, name: &str, found: &mut Vec<Finding>) -> Vec<PathBuf> {
    let inner = folder.join(name);
    let listed = std::fs::symlink_metadata(&inner).and_then(|inner_is| {
        if inner_is.is_symlink() {
            return Err(std::io::Error::other(
                "it is a link, which upstream's tools do not follow",
            ));
        }
        std::fs::read_dir(&inner)
    });
    let entries = match listed {
        Ok(entries) => entries,
        Err(error) => {
            let is_missing = error.kind() == std::io::ErrorKind::NotFound;
            let finding = if is_missing {
                let message = format!("the folder {name}/ is missing");
                Finding::of_file(&codes::BUNDLE_LAYOUT, folder, message).remedied_by(filled(name))
            } else {
                let message = format!("the folder {name}/ cannot be read: {error}");
                Finding::of_file(&codes::BUNDLE_LAYOUT, folder, message)
            };
            found.push(finding);
            return Vec::new();
        }
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = match entry {
            Ok(entry) => entry.path(),
            Err(error) => {
                let message = format!("it cannot be listed: {error}");
                found.push(Finding::of_file(&codes::MANIFEST_UNREADABLE, &inner, message));
                continue;
            }
        };
        let is_hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let wrong = match name {
            MANIFESTS if path.is_dir() => Some("it is a folder, of which nothing is read"),
            MANIFESTS if is_hidden => Some("it is a hidden file"),
            _ => None,
        };
        if let Some(wrong) = wrong {
            found.push(Finding::of_file(&codes::BUNDLE_LAYOUT, &path, wrong));
        } else if name == MANIFESTS || is_document(&path) && !path.is_dir() {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.is_empty() && name == MANIFESTS {
        let empty = Finding::of_file(&codes::BUNDLE_LAYOUT, &inner, "it holds no file");
        found.push(empty.remedied_by(filled(name)));
    }
    paths
}

/// Whether a file holds a document, by its name. Of metadata/ upstream reads no other.
fn is_document(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known))
}

fn content(path: &Path, found: &mut Vec<Finding>) -> Option<String> {
    let mut unreadable = |why: String| {
        let message = format!("it cannot be read: {why}");
        found.push(Finding::of_file(&codes::MANIFEST_UNREADABLE, path, message));
    };
    let read = bounded::text(path, LARGEST);
    read.map_err(|error| unreadable(error.to_string())).ok()
}

/// The first document of a file, and that there are others.
fn only(path: &Path, text: &str, found: &mut Vec<Finding>) -> Option<Object> {
    let place = |line| Place {
        file: path.to_owned(),
        line,
    };
    let (mut first, mut before, mut empty) = (None, 0, None);
    documents::each_or_nothing(text, |document| {
        let (span, json) = match document {
            Ok((span, json)) if documents::is_nothing(&json) => {
                if before == 0 {
                    empty.get_or_insert(span.line);
                }
                return;
            }
            Ok(document) => document,
            Err((line, why)) => {
                before += 1;
                return found.push(Finding::new(&codes::MANIFEST_SYNTAX, &place(line), why));
            }
        };
        before += 1;
        if let Some(line) = empty.take() {
            let message = "nothing but comments or blank lines stands before ---: upstream's tools take that for the first document, and read no other";
            found.push(Finding::new(&codes::MANIFEST_SYNTAX, &place(line), message));
        }
        if before > 1 {
            let message = format!("document {before} of the file is not read");
            return found.push(Finding::new(&codes::MANIFEST_SEVERAL, &place(span.line), message));
        }
        let body: Value = match serde_json::from_str(&json) {
            Ok(body @ Value::Object(_)) => body,
            Ok(_) => {
                let message = "the document is no object";
                return found.push(Finding::new(&codes::MANIFEST_SYNTAX, &place(span.line), message));
            }
            // It was JSON before, but for how deep it is nested
            Err(error) => {
                return found.push(Finding::new(
                    &codes::MANIFEST_SYNTAX,
                    &place(span.line),
                    error.to_string(),
                ));
            }
        };
        first = Some(Object {
            file: path.to_owned(),
            line: span.line,
            document: text[span.start..span.end].to_owned(),
            lines: OnceCell::new(),
            body,
        });
    });
    if before == 0 {
        let empty = Finding::of_file(&codes::MANIFEST_SYNTAX, path, "the file holds no object");
        found.push(empty.remedied_by("Take the file out, or write the object into it."));
    }
    if let Some(object) = &first {
        tell_twice(object, found);
    }
    first
}

fn tell_twice(object: &Object, found: &mut Vec<Finding>) {
    let (twice, has_more) = object.lines().twice();
    for (index, pointer) in twice.iter().enumerate() {
        let others = if has_more && index + 1 == twice.len() {
            ", and there are more like it"
        } else {
            ""
        };
        let message = format!("{} is there twice; the last one counts{others}", dotted(pointer));
        found.push(object.finding(&codes::MANIFEST_TWICE, pointer, message));
    }
}

/// How many bytes of a ConfigMap a file takes.
fn packed(content: &[u8]) -> usize {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to memory does not fail
    let compressed = encoder.write_all(content).and_then(|()| encoder.finish());
    compressed.unwrap_or_default().len().div_ceil(3) * 4
}
