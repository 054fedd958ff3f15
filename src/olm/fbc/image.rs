//! Names of images, as container tools read them.

use oci_spec::distribution::Reference;

/// Whether a name can be read.
///
/// # Errors
/// What is wrong with it.
pub fn check(name: &str) -> Result<Reference, String> {
    name.parse::<Reference>().map_err(|error| error.to_string())
}
