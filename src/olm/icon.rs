//! The image of an operator or a package, as consoles show it.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// An image of a kind that consoles show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Icon {
    data: Vec<u8>,
    mediatype: &'static str,
}

impl Icon {
    /// What a file of this name holds; none, if by its name it is not .svg, .png, .jpg or .gif.
    #[must_use]
    pub fn of_file(name: &Path, data: Vec<u8>) -> Option<Self> {
        let extension = name.extension()?.to_string_lossy().to_lowercase();
        let mediatype = match extension.as_str() {
            "svg" => "image/svg+xml",
            "png" => "image/png",
            "jpg" | "jpeg" => "image/jpeg",
            "gif" => "image/gif",
            _ => return None,
        };
        Some(Self { data, mediatype })
    }

    /// As ClusterServiceVersions and catalogs have it.
    pub(super) fn json(&self) -> Value {
        json!({"base64data": STANDARD.encode(&self.data), "mediatype": self.mediatype})
    }
}
