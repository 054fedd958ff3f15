//! A bundle in the registry+v1 layout, judged: every rule of operator-registry and of `operator-framework/api`, those that OLM, OLM v1 and the API
//! server turn out to have when it is installed, and, on request, those of OperatorHub, of good practice and of the scorecard.
//!
//! Nobody is asked anything. What depends on what others say, the platforms of images, is judged once somebody has asked them:
//!
//! ```text
//! Bundle::read ──Bundle::images──▶ names ──Registry::platforms, of each──▶ Platforms ──validate_platforms──▶ findings
//! ```

use std::path::Path;

mod agreement;
mod conversion;
mod crds;
mod csv;
mod csv_schema;
mod examples;
mod field_path;
mod hub;
mod metadata;
mod multiarch;
mod nearest;
mod object_meta;
mod objects;
mod olm_v1;
mod openapi;
mod practices;
mod read;
mod rules;
mod schema;
mod score;
mod shapes;
mod structural;
mod types;

pub use hub::Categories;
pub use multiarch::{Platforms, validate_platforms};
pub use read::Bundle;
pub(super) use schema::breaches;

use super::Error;
use super::findings::Finding;

/// Rules that not every bundle is meant to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// What OperatorHub asks of what it publishes.
    OperatorHub,
    /// What the operator framework advises.
    GoodPractices,
    /// What keeps a bundle from being installed by OLM v1, and what works otherwise there.
    OlmV1,
    /// The scorecard's tests, as far as a bundle alone shows.
    Scorecard,
}

impl Suite {
    /// Every one.
    pub const ALL: [Self; 4] = [
        Self::OperatorHub,
        Self::GoodPractices,
        Self::OlmV1,
        Self::Scorecard,
    ];
}

/// Judges the bundle of a folder. Findings come sorted by file and line.
///
/// # Errors
/// [`Error::File`]: the folder itself cannot be read; whatever is wrong in it is among the findings.
pub fn validate(folder: &Path, suites: &[Suite]) -> Result<Vec<Finding>, Error> {
    validate_for(&Categories::default(), folder, suites)
}

/// As [`validate`], for a hub with categories of its own.
///
/// # Errors
/// As there.
pub fn validate_for(categories: &Categories, folder: &Path, suites: &[Suite]) -> Result<Vec<Finding>, Error> {
    let (bundle, mut found) = Bundle::read(folder)?;
    metadata::check(&bundle, &mut found);
    objects::check(&bundle, &mut found);
    for object in &bundle.objects {
        types::check(object, &mut found);
        object_meta::check(object, &mut found);
    }
    crds::check(&bundle, &mut found);
    let csv = csv::only(&bundle, &mut found);
    // Of one that holds nothing that is told by its type, and nothing else
    let csv = csv.filter(|csv| csv.body["spec"].is_object());
    if let Some(csv) = csv {
        shapes::check(csv, &mut found);
        csv::check(&bundle, csv, suites, &mut found);
        examples::check(&bundle, csv, &mut found);
        agreement::check(&bundle, csv, &mut found);
    }
    for suite in suites {
        let Some(csv) = csv else { break };
        match suite {
            Suite::OperatorHub => hub::check(csv, categories, &mut found),
            Suite::GoodPractices => practices::check(&bundle, csv, &mut found),
            Suite::OlmV1 => olm_v1::check(&bundle, csv, &mut found),
            Suite::Scorecard => score::check(&bundle, csv, &mut found),
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}
