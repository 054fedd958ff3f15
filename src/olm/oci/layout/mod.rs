//! OCI image layouts: a folder, or a tar of one.

mod read;
mod write;

pub use read::{is_layout, open};
pub use write::{check, is_archive, write};

/// The file by which a layout is known, and what it says.
const MARK: &str = "oci-layout";
const MARK_TEXT: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;
/// The file that lists the images.
const INDEX: &str = "index.json";
/// The folder of everything else.
const BLOBS: &str = "blobs";
/// What an image is called: by its tag, and in full.
const REF_NAME: &str = "org.opencontainers.image.ref.name";
const FULL_NAME: &str = "io.containerd.image.name";

#[cfg(test)]
mod tests;
