//! Images that consoles show.

use std::path::Path;

use super::Failure;
use crate::olm::bounded::{self, LARGEST};
use crate::olm::icon::Icon;

/// The image in a file that an option names.
pub fn read(flag: &str, file: &Path) -> Result<Icon, Failure> {
    let data = bounded::bytes(file, LARGEST);
    let data = data.map_err(|error| format!("{flag}: cannot read {}: {error}", file.display()))?;
    Icon::of_file(file, data).ok_or_else(|| {
        format!(
            "{flag} is {}; accepted are .svg, .png, .jpg and .gif",
            file.display()
        )
        .into()
    })
}
