//! Rules of `olm.bundle` and its properties.

use std::collections::{BTreeMap, BTreeSet};

use semver::{Prerelease, Version};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::super::blob::{self, ChannelProperty, Gvk, Object, PackageRequired, PackageVersion};
use super::super::contents::{Contents, Released};
use super::super::image::Reference;
use super::super::metadata::Metadata;
use super::super::read::Scene;
use super::super::{PLAN_LIMIT, constraint, decode, documents, in_a_plan};
use super::Packages;
use crate::olm::findings::{Code, Finding, Place, catalog as codes, listed};
use crate::olm::json;

/// The longest release, in characters.
const MAX_RELEASE: usize = 20;

/// Where a bundle's image is.
const IMAGE: &str = "/image";

/// What the document itself shows; gives the version.
pub(in super::super) fn check(
    bundle: &blob::Bundle<'_>,
    scene: &Scene<'_>,
    findings: &mut Vec<Finding>,
) -> Option<Released> {
    let mut judge = Judge {
        bundle,
        scene,
        findings,
    };
    judge.images();
    judge.plan();
    judge.properties();
    judge.version()
}

struct Judge<'a, 'b> {
    bundle: &'a blob::Bundle<'b>,
    scene: &'a Scene<'a>,
    findings: &'a mut Vec<Finding>,
}

impl<'b> Judge<'_, 'b> {
    /// `pointer` leads to the field.
    fn found(&mut self, code: &'static Code, pointer: &str, message: String) {
        let message = format!("bundle {}: {message}", &*self.bundle.name);
        self.findings.push(self.scene.found(code, pointer, message));
    }

    fn images(&mut self) {
        let bundle = self.bundle;
        let has_objects = bundle.values(blob::OBJECT).next().is_some();
        match &*bundle.image {
            "" if has_objects => {}
            "" => self.found(
                &codes::BUNDLE_IMAGE,
                "",
                "it has neither image nor objects".to_owned(),
            ),
            name => match Reference::of(name) {
                Err(why) => self.found(
                    &codes::IMAGE_REFERENCE,
                    IMAGE,
                    format!("image is {name:?}: {why}"),
                ),
                Ok(reference) if reference.digest.is_none() => {
                    self.found(&codes::IMAGE_BY_TAG, IMAGE, format!("image is {name:?}"));
                }
                Ok(_) => {}
            },
        }
        for (index, related) in bundle.related_images.iter().enumerate() {
            let name = &*related.image;
            if !name.is_empty()
                && let Err(why) = Reference::of(name)
            {
                let message = format!("relatedImages[{index}].image is {name:?}: {why}");
                let pointer = format!("/relatedImages/{index}/image");
                self.found(&codes::IMAGE_REFERENCE, &pointer, message);
            }
        }
    }

    /// What OLM installs without unpacking an image it writes into its plan.
    fn plan(&mut self) {
        if !self.bundle.image.is_empty() {
            return;
        }
        let objects = self.bundle.values(blob::OBJECT);
        let texts = objects.filter_map(|(_, value)| {
            let object: Object<'_> = documents::part(value.get()).ok()?;
            decode(&object.data).ok()
        });
        let length: usize = texts.map(|text| in_a_plan(&text)).sum();
        if length > PLAN_LIMIT {
            let message =
                format!("its manifests take {length} bytes in an InstallPlan; {PLAN_LIMIT} are accepted");
            self.found(&codes::PLAN_SIZE, "", message);
        }
    }

    fn properties(&mut self) {
        let mut metadata = Vec::new();
        for (index, property) in self.bundle.properties.iter().enumerate() {
            let kind = &*property.kind;
            let Some(value) = property.value else {
                let message = format!("properties[{index}] of type {kind:?} has no value");
                self.found(&codes::PROPERTY_VALUE, &property_at(index), message);
                continue;
            };
            if kind == "olm.csv.metadata" {
                metadata.push(index);
            }
            if let Err(why) = check_value(kind, value) {
                let message = format!("properties[{index}] of type {kind}: {why}");
                self.found(&codes::PROPERTY_VALUE, &value_at(index), message);
                continue;
            }
            self.requirement(index, kind, value);
        }
        if let [_, second, ..] = metadata[..] {
            let message = format!("it has {} properties olm.csv.metadata", metadata.len());
            self.found(&codes::CSV_METADATA_DUPLICATE, &property_at(second), message);
        }
    }

    fn requirement(&mut self, index: usize, kind: &str, value: &RawValue) {
        if let Err(why) = check_requirement(kind, value) {
            let code = match kind {
                "olm.constraint" => &codes::CONSTRAINT,
                _ => &codes::REQUIRED_RANGE,
            };
            let message = format!("properties[{index}] of type {kind}: {why}");
            self.found(code, &value_at(index), message);
        }
    }

    fn version(&mut self) -> Option<Released> {
        let bundle = self.bundle;
        let all: Vec<_> = bundle.values("olm.package").collect();
        let [(index, value)] = all[..] else {
            let message = format!("it has {} properties olm.package", all.len());
            let pointer = all
                .get(1)
                .map_or("/properties".to_owned(), |(second, _)| property_at(*second));
            self.found(&codes::PACKAGE_PROPERTY, &pointer, message);
            return None;
        };
        let at = value_at(index);
        // One that cannot be read was told already
        let package: PackageVersion<'b> = documents::part(value.get()).ok()?;
        if *package.package_name != *bundle.package {
            let message = format!(
                "its property olm.package is of package {:?}, and it belongs to {:?}",
                &*package.package_name, &*bundle.package
            );
            self.found(&codes::PACKAGE_PROPERTY, &format!("{at}/packageName"), message);
        }
        let text = &*package.version;
        let version: Version = match text.parse() {
            Ok(version) => version,
            Err(why) => {
                let message = format!("its version is {text:?}: {why}");
                self.found(&codes::VERSION, &format!("{at}/version"), message);
                return None;
            }
        };
        let release = package.release.to_string();
        if !release.is_empty() {
            self.release(&version, &release, &format!("{at}/release"));
        }
        Some(Released { version, release })
    }

    /// `pointer` leads to the release.
    fn release(&mut self, version: &Version, release: &str, pointer: &str) {
        let refused = if release.len() > MAX_RELEASE {
            Some(format!("it has {} characters", release.len()))
        } else {
            Prerelease::new(release).err().map(|error| error.to_string())
        };
        if let Some(why) = refused {
            let message = format!("its release is {release:?}: {why}");
            self.found(&codes::RELEASE, pointer, message);
        }
        if !version.build.is_empty() {
            let message = format!("its version is {version} and its release {release:?}");
            self.found(&codes::RELEASE, pointer, message);
        }
        let expected = format!("{}-v{version}-{release}", &*self.bundle.package);
        if *self.bundle.name != *expected {
            let message = format!("with release {release:?} it must be called {expected}");
            self.found(&codes::BUNDLE_NAME, "/name", message);
        }
    }
}

/// Where a property of a bundle is.
fn property_at(index: usize) -> String {
    format!("/properties/{index}")
}

/// Where the value of a property is.
fn value_at(index: usize) -> String {
    format!("/properties/{index}/value")
}

/// Whether a property's value, which is not of a catalog yet, has the shape of its type, and means something to OLM's resolver.
///
/// # Errors
/// Why not.
pub(in crate::olm) fn check_property(kind: &str, value: &Value) -> Result<(), String> {
    let raw = to_raw_value(value).map_err(|error| error.to_string())?;
    check_value(kind, &raw)?;
    check_requirement(kind, &raw)
}

/// Whether OLM's resolver makes something of a property; of most it makes nothing.
fn check_requirement(kind: &str, value: &RawValue) -> Result<(), String> {
    match kind {
        "olm.package.required" => match documents::part::<PackageRequired<'_>>(value.get()) {
            Ok(required) => constraint::check_required(&required.package_name, &required.version_range),
            // Of another shape, which is told of as that
            Err(_) => Ok(()),
        },
        "olm.constraint" => constraint::check(value.get()),
        _ => Ok(()),
    }
}

/// Whether a property's value has the shape of its type.
fn check_value(kind: &str, value: &RawValue) -> Result<(), String> {
    fn shaped<'a, T: Deserialize<'a>>(value: &'a RawValue) -> Result<T, String> {
        // The line would be that of the value
        let told = |error: serde_json::Error| {
            error
                .to_string()
                .split(" at line ")
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        documents::part(value.get()).map_err(told)
    }
    // Of the two others less is sent than is there, and what it is they tell by themselves
    if !matches!(kind, "olm.csv.metadata" | blob::OBJECT) {
        json::check_numbers(value.get())?;
    }
    match kind {
        "olm.package" => shaped::<PackageVersion<'_>>(value).map(drop),
        "olm.package.required" => shaped::<PackageRequired<'_>>(value).map(drop),
        "olm.gvk" | "olm.gvk.required" => shaped::<Gvk<'_>>(value).map(drop),
        "olm.channel" => shaped::<ChannelProperty<'_>>(value).map(drop),
        "olm.csv.metadata" => shaped::<Metadata<'_>>(value).map(drop),
        blob::OBJECT => {
            let object: Object<'_> = shaped(value)?;
            let text = decode(&object.data).map_err(|why| format!("data: {why}"))?;
            documents::parse(&text)
                .map(drop)
                .map_err(|(_, why)| format!("data is neither JSON nor YAML: {why}"))
        }
        _ => Ok(()),
    }
}

/// What all documents show together.
pub(super) fn all<T>(contents: &Contents<T>, packages: &Packages<'_, T>, findings: &mut Vec<Finding>) {
    let mut seen: BTreeMap<(&str, &str), Place> = BTreeMap::new();
    let mut versions: BTreeMap<(&str, String), BTreeSet<&str>> = BTreeMap::new();
    let mut entries: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for channel in &contents.channels {
        let names = channel.entries.iter().map(|entry| entry.name.as_str());
        entries.entry(&channel.package).or_default().extend(names);
    }
    for bundle in &contents.bundles {
        let place = contents.place(bundle.at);
        let (name, package) = (bundle.name.as_str(), bundle.package.as_str());
        let mut found = |code: &'static Code, message| findings.push(Finding::new(code, &place, message));
        if name.is_empty() {
            found(
                &codes::BUNDLE_NAME,
                format!("a bundle of package {package:?} has no name"),
            );
        }
        if packages.get(package).is_none() {
            let message = format!("bundle {name} belongs to package {package:?}, which is not there");
            found(&codes::PACKAGE_UNKNOWN, message);
        }
        if let Some(first) = seen.insert((package, name), place.clone()) {
            found(
                &codes::BUNDLE_DUPLICATE,
                format!("bundle {name} of package {package} is in {first}, too"),
            );
        }
        if !entries.get(package).is_some_and(|names| names.contains(name)) {
            let message = format!("bundle {name} is in no channel of package {package}");
            found(&codes::BUNDLE_WITHOUT_ENTRY, message);
        }
        let Some(version) = &bundle.version else { continue };
        // As upstream compares them: 1.0.0-1 is 1.0.0 with the release 1
        let others = versions.entry((package, version.to_string())).or_default();
        others.insert(name);
        if others.len() > 1 {
            let names = listed(others.iter().copied());
            found(
                &codes::VERSION_DUPLICATE,
                format!("version {version} of package {package} is in {names}"),
            );
        }
    }
}
