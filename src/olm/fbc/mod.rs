//! File-based catalogs as they lie in a folder, whoever wrote them: every package, every file, JSON or YAML.
//!
//! ```text
//! files (.indexignore) ──▶ documents (place, JSON) ──▶ blobs (typed, borrowed) ──▶ Contents ──▶ rules ──▶ findings
//! ```
//!
//! A file is read once, by one of several threads, and let go before the next: what is kept of it is names and versions, so that a catalog of
//! any size is judged in little memory. The rules that look at several documents go by what was kept.
//!
//! [`crate::olm::catalog`] makes catalogs; here they are read and judged, and [`view`] tells what one means to those who subscribe to it.

pub mod blob;
pub mod constraint;
mod contents;
pub(super) mod documents;
pub(super) mod files;
pub(super) mod fold;
mod ignored;
pub mod image;
pub(super) mod known;
mod locate;
pub mod metadata;
pub mod range;
mod read;
mod rules;
pub mod upgrades;
pub mod view;

pub use contents::{At, Bundle, Channel, Contents, Deprecation, Deprecations, Other, Package, Released};
pub use documents::Span;
pub use read::{Catalog, Keep, Unread, read};
pub(super) use rules::{check_icon, check_property};

use std::path::{Path, PathBuf};

use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeError, Engine as _, alphabet};

use super::findings::Finding;

/// The largest message that a gRPC client takes unless it says otherwise, in bytes. OLM's says nothing.
pub const MESSAGE_LIMIT: usize = 4 << 20;

/// The files of a catalog, sorted, as far as they can be looked at.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    files::files(folder).0
}

/// As [`files`], but only if all of the folder can be looked at; otherwise what the first is that cannot.
pub(super) fn all_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let (files, failed) = files::files(folder);
    match failed.first() {
        None => Ok(files),
        Some((path, error)) => Err(format!("{}: {error}", path.display())),
    }
}

/// A document of a catalog as JSON, whatever it was written as.
///
/// # Errors
/// When it cannot be parsed.
pub fn json(document: String) -> Result<String, String> {
    if document.trim_start().starts_with('{')
        && serde_json::from_str::<serde::de::IgnoredAny>(&document).is_ok()
    {
        return Ok(document);
    }
    let value = documents::parse(&document).map_err(|(_, why)| why)?;
    Ok(value.to_string())
}

/// The text that a property holds in base64.
///
/// # Errors
/// When it is none.
pub fn decode(data: &str) -> Result<String, String> {
    let bytes = bytes(data).map_err(|error| format!("it is no base64: {error}"))?;
    String::from_utf8(bytes).map_err(|error| format!("it is no text: {error}"))
}

/// The most that manifests which a catalog carries may take in an InstallPlan, in bytes: etcd takes 1.5 MiB of one, with rights, properties and whatever else is
/// resolved together.
pub(super) const PLAN_LIMIT: usize = 1 << 20;

/// What a manifest takes there, in bytes: a text in JSON, quotes escaped.
pub(super) fn in_a_plan(manifest: &str) -> usize {
    let is_longer = |byte: &u8| matches!(byte, b'"' | b'\\' | b'\n');
    manifest.len() + manifest.as_bytes().iter().filter(|byte| is_longer(byte)).count()
}

/// As Go reads base64: lines may end in between, and bits that are left over may be set.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

fn bytes(data: &str) -> Result<Vec<u8>, DecodeError> {
    if data.contains(['\r', '\n']) {
        return LENIENT.decode(data.replace(['\r', '\n'], ""));
    }
    LENIENT.decode(data)
}

/// All that is wrong with a catalog, by file and line.
///
/// # Errors
/// [`Unread`]: the folder itself cannot be read.
pub fn validate(folder: &Path) -> Result<Vec<Finding>, Unread> {
    Ok(read(folder, &())?.findings)
}
