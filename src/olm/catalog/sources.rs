//! The documents of a catalog out of what people have: folders and files, of a catalog or of a bundle.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Bundle, Rendered, migrate};
use crate::olm::{Error, fbc};

/// Whether a folder is a bundle's.
pub fn is_bundle(folder: &Path) -> bool {
    folder.join("manifests").is_dir() && folder.join("metadata").is_dir()
}

/// Every document of a catalog, in the order of its files; `path` is its folder, or one file of it.
///
/// # Errors
/// [`Error::File`] or [`Error::Unreadable`], naming the file.
pub fn documents(path: &Path) -> Result<Vec<Value>, Error> {
    let mut documents = Vec::new();
    let files = fbc::all_files(path).map_err(|message| Error::Unreadable {
        source_name: path.display().to_string(),
        message,
    })?;
    for file in files {
        documents.extend(of_text(&file.display().to_string(), &text(&file)?)?);
    }
    Ok(documents)
}

/// The text of a file of a catalog, or of a template.
///
/// # Errors
/// [`Error::File`]: it cannot be read, is no UTF-8, or is too large.
pub fn text(file: &Path) -> Result<String, Error> {
    fbc::files::text(file).map_err(|source| Error::file("read", file, source))
}

/// The first file of a catalog's folder in which something is said of a package. What cannot be read says nothing.
pub fn file_with(folder: &Path, package: &str) -> Option<PathBuf> {
    let is_of = |document: &Value| migrate::package_of(document) == package;
    let mut files = fbc::files(folder).into_iter();
    files.find(|file| documents(file).is_ok_and(|documents| documents.iter().any(is_of)))
}

/// Every document of a text, by the names that known keys have; `source` names it in errors.
///
/// # Errors
/// [`Error::Unreadable`] with the line.
pub fn of_text(source: &str, text: &str) -> Result<Vec<Value>, Error> {
    let mut documents = Vec::new();
    let mut wrong = None;
    fbc::documents::each(text, |document| {
        let value = document.and_then(|(span, json)| {
            let mut value: Value =
                serde_json::from_str(&json).map_err(|error| (span.line, error.to_string()))?;
            fbc::known::canonical(&mut value).map_err(|why| (span.line, why))?;
            Ok(value)
        });
        match value {
            Ok(value) => documents.push(value),
            Err(first) => drop(wrong.get_or_insert(first)),
        }
    });
    match wrong {
        None => Ok(documents),
        Some((line, why)) => Err(Error::Unreadable {
            source_name: source.to_owned(),
            message: format!("{why} (line {line})"),
        }),
    }
}

/// The bundle in a folder, which `image` names.
///
/// # Errors
/// As of [`Rendered::read`].
pub fn bundle(folder: &Path, image: &str) -> Result<Rendered, Error> {
    Rendered::read(folder, |_: &Bundle, _| Ok(image.to_owned()))
}
