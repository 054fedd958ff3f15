//! What is kept of a catalog once its files are read: names, versions, and where everything is.

use std::cmp::Ordering;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use semver::{Prerelease, Version};

use super::blob::Entry;
use super::documents::Span;
use crate::olm::findings::Place;

/// Where a document is: in which of [`Contents::files`], and where in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct At {
    /// The place in the list of files.
    pub file: usize,
    /// Where in the file.
    pub span: Span,
}

/// A catalog, of every package. `T` is what its reader keeps of each bundle besides.
#[derive(Debug)]
pub struct Contents<T> {
    /// Its files, sorted.
    pub files: Vec<PathBuf>,
    /// `olm.package`
    pub packages: Vec<Package>,
    /// `olm.channel`
    pub channels: Vec<Channel>,
    /// `olm.bundle`
    pub bundles: Vec<Bundle<T>>,
    /// `olm.deprecations`
    pub deprecations: Vec<Deprecations>,
    /// Documents of other schemas.
    pub others: Vec<Other>,
}

/// `olm.package`
#[derive(Debug)]
pub struct Package {
    /// Where it is.
    pub at: At,
    /// Its name.
    pub name: String,
    /// The channel of a Subscription that names none; empty where it says none.
    pub default_channel: String,
    /// At most so many bytes of each bundle's message come from it.
    pub(super) shown: usize,
}

/// `olm.channel`
#[derive(Debug)]
pub struct Channel {
    /// Where it is.
    pub at: At,
    /// The package that it belongs to.
    pub package: String,
    /// Its name.
    pub name: String,
    /// Its bundles.
    pub entries: Vec<Entry>,
}

/// `olm.bundle`
#[derive(Debug)]
pub struct Bundle<T> {
    /// Where it is.
    pub at: At,
    /// The package that it belongs to.
    pub package: String,
    /// Its name.
    pub name: String,
    /// Its version; none where it says none.
    pub version: Option<Released>,
    /// At most so many bytes of its message come from its document.
    pub(super) most: usize,
    /// What its reader keeps of it.
    pub kept: T,
}

/// What tells a bundle from all others of its package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Released {
    /// A semantic version, by which OLM goes.
    pub version: Version,
    /// Tells two builds of one version apart; empty where there is one.
    pub release: String,
}

/// Releases are compared as what follows the dash in a version is: 10 is more than 9, and none is less than any.
impl Ord for Released {
    fn cmp(&self, other: &Self) -> Ordering {
        let release = |it: &Self| (!it.release.is_empty(), Prerelease::new(&it.release).ok());
        let by_version = self.version.cmp(&other.version);
        let by_release = || release(self).cmp(&release(other));
        by_version
            .then_with(by_release)
            .then_with(|| self.release.cmp(&other.release))
    }
}

impl PartialOrd for Released {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Released {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, release } = self;
        match release.as_str() {
            "" => write!(f, "{version}"),
            _ => write!(f, "{version}-{release}"),
        }
    }
}

/// `olm.deprecations`
#[derive(Debug)]
pub struct Deprecations {
    /// Where it is.
    pub at: At,
    /// The package.
    pub package: String,
    /// One for each thing that is deprecated.
    pub entries: Vec<Deprecation>,
}

/// One thing that is deprecated.
#[derive(Debug)]
pub struct Deprecation {
    /// `olm.package`, `olm.channel` or `olm.bundle`.
    pub schema: String,
    /// Its name; none for the package.
    pub name: String,
    /// What users should do.
    pub message: String,
}

/// A document of a schema of somebody's own.
#[derive(Debug)]
pub struct Other {
    /// Where it is.
    pub at: At,
    /// Its schema.
    pub schema: String,
    /// The package that it belongs to; none for the catalog itself.
    pub package: String,
}

impl<T> Contents<T> {
    /// The line at which a document begins.
    pub fn place(&self, at: At) -> Place {
        self.line(at, at.span.line)
    }

    /// The text of a document, read once more.
    pub(super) fn text(&self, at: At) -> io::Result<String> {
        let path = self.files.get(at.file).ok_or(io::ErrorKind::NotFound)?;
        at.span.read(&File::open(path)?)
    }

    /// A line of the file of a document.
    pub fn line(&self, at: At, line: usize) -> Place {
        let file = self.files.get(at.file).cloned().unwrap_or_default();
        Place { file, line }
    }
}
