//! Images that consoles show.

use std::path::Path;

use super::Failure;

/// The image in a file, and its media type.
pub fn read(flag: &str, file: &Path) -> Result<(Vec<u8>, String), Failure> {
    let extension = file
        .extension()
        .map(|extension| extension.to_string_lossy().to_lowercase());
    let mediatype = match extension.as_deref() {
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("gif") => "image/gif",
        _ => {
            return Err(format!(
                "{flag} is {}; accepted are .svg, .png, .jpg and .gif",
                file.display()
            )
            .into());
        }
    };
    let data = std::fs::read(file);
    let data = data.map_err(|error| format!("{flag}: cannot read {}: {error}", file.display()))?;
    Ok((data, mediatype.to_owned()))
}
