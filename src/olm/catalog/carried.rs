//! The manifests of a bundle that a catalog carries itself (`olm.bundle.object`), so that OLM pulls and unpacks no image before it installs them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::{Property, property};
use crate::olm::fbc::blob::OBJECT;
use crate::olm::fbc::{PLAN_LIMIT, in_a_plan};
use crate::olm::manifests::Manifests;
use crate::olm::{Error, json as written};

/// Each as JSON in base64, in the order of the files, as upstream writes it.
///
/// # Errors
/// [`Error::TooMuchToCarry`], [`Error::Unwritable`]
pub(super) fn objects(bundle: &str, manifests: &Manifests) -> Result<Vec<Property>, Error> {
    let texts = manifests
        .iter()
        .map(|manifest| written::sorted_for_pages(&manifest.body));
    let texts: Vec<String> = texts
        .collect::<Result<_, _>>()
        .map_err(|error| Error::Unwritable(error.to_string()))?;
    let length = texts.iter().map(|text| in_a_plan(text)).sum();
    if length > PLAN_LIMIT {
        return Err(Error::TooMuchToCarry {
            bundle: bundle.to_owned(),
            length,
        });
    }
    let object = |text: &String| property(OBJECT, json!({"data": STANDARD.encode(text)}));
    Ok(texts.iter().map(object).collect())
}
