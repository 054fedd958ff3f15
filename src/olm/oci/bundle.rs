//! The image of a bundle: as a `bundle.Dockerfile` describes it.

use std::path::Path;

use super::build::{Packing, Plan, Run};
use super::layer::Layer;
use super::{Content, Created, Error, Platform, files};
use crate::olm::registry_v1::Bundle;

/// What a bundle's image always has.
pub(super) const FOLDERS: [&str; 2] = ["manifests", "metadata"];
/// What it has where the bundle does.
pub(super) const SCORECARD: &str = "tests/scorecard";

/// Makes the image of a bundle's folder, the same for each platform. Whether the bundle is valid is not looked at.
///
/// # Errors
/// [`Error::File`] or [`Error::Content`] of what cannot be read or has no place in an image.
pub fn image(folder: &Path, platforms: &[Platform], created: Created) -> Result<Content, Error> {
    let (bundle, _) = Bundle::read(folder)?;
    let mut layer = Layer::default();
    for name in FOLDERS {
        files::add(&mut layer, &folder.join(name), name)?;
    }
    if folder.join(SCORECARD).is_dir() {
        files::add(&mut layer, &folder.join(SCORECARD), SCORECARD)?;
    }
    let packing = Packing::of(&layer, created)?;
    let plan = Plan {
        platforms: platforms
            .iter()
            .map(|platform| (platform.clone(), vec![packing.clone()]))
            .collect(),
        run: Run {
            labels: bundle.labels(),
            ..Run::default()
        },
        created,
        made_by: "roadstead bundle build",
    };
    plan.build()
}
