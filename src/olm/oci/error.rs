use std::path::{Path, PathBuf};

use super::registry::Failure;

/// Why an image could not be built, read, pushed or pulled. Each message is one line that says what to do about it.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    #[error("cannot {verb} {}: {source}", path.display())]
    File {
        verb: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{field} is {value:?}: {accepted}")]
    Value {
        field: &'static str,
        value: String,
        accepted: String,
    },
    #[error("{} is there already; {remedy}", path.display())]
    Exists { path: PathBuf, remedy: &'static str },
    #[error("{place}: {why}")]
    Content { place: String, why: String },
    #[error(transparent)]
    Bundle(#[from] crate::olm::Error),
    #[error(transparent)]
    Registry(#[from] Failure),
    #[error("credentials for {host}: {why}")]
    Credentials { host: String, why: String },
}

impl Error {
    pub(super) fn file(verb: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::File {
            verb,
            path: path.to_owned(),
            source,
        }
    }

    pub(super) fn content(place: impl ToString, why: impl Into<String>) -> Self {
        Self::Content {
            place: place.to_string(),
            why: why.into(),
        }
    }
}
