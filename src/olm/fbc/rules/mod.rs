//! The rules of a file-based catalog: those of operator-registry (`ConvertToModel`, `Validate`), those that its server and OLM turn out to have, and a few
//! whose breach nobody means.

use std::collections::BTreeMap;

mod bundles;
mod channels;
mod deprecations;
mod messages;
mod packages;

pub(super) use bundles::check as bundle;
pub(in crate::olm) use bundles::check_property;
pub(super) use messages::{of_bundle as most_of_bundle, of_package as shown_of_package};
pub(in crate::olm) use packages::check_icon;
pub(super) use packages::{one as package, other};

use super::contents::{Bundle, Channel, Contents};
use super::locate::Places;
use crate::olm::findings::Finding;

/// Looks at what several documents say together.
pub(super) fn check<T>(contents: &Contents<T>, findings: &mut Vec<Finding>) {
    let packages = Packages::of(contents);
    let mut places = Places::of(contents);
    packages::all(contents, &packages, findings);
    channels::all(contents, &packages, &mut places, findings);
    bundles::all(contents, &packages, findings);
    deprecations::all(contents, &packages, &mut places, findings);
    messages::all(contents, &packages, findings);
}

/// What belongs to each package that something names, whether it is there or not.
struct Packages<'a, T>(BTreeMap<&'a str, Belongings<'a, T>>);

struct Belongings<'a, T> {
    is_there: bool,
    channels: BTreeMap<&'a str, &'a Channel>,
    bundles: BTreeMap<&'a str, &'a Bundle<T>>,
}

impl<T> Default for Belongings<'_, T> {
    fn default() -> Self {
        Self {
            is_there: false,
            channels: BTreeMap::new(),
            bundles: BTreeMap::new(),
        }
    }
}

impl<'a, T> Packages<'a, T> {
    fn of(contents: &'a Contents<T>) -> Self {
        let mut all: BTreeMap<&str, Belongings<'a, T>> = BTreeMap::new();
        for package in &contents.packages {
            all.entry(&package.name).or_default().is_there = true;
        }
        for channel in &contents.channels {
            let channels = &mut all.entry(&channel.package).or_default().channels;
            channels.entry(&channel.name).or_insert(channel);
        }
        for bundle in &contents.bundles {
            let bundles = &mut all.entry(&bundle.package).or_default().bundles;
            bundles.entry(&bundle.name).or_insert(bundle);
        }
        Self(all)
    }

    /// What belongs to a package that is there.
    fn get(&self, name: &str) -> Option<&Belongings<'a, T>> {
        self.0.get(name).filter(|package| package.is_there)
    }
}
