//! Whether what a server would send fits into what clients take. While files are read, what each document could become at most is worked out from lengths; where
//! that comes near the limit, the documents are read once more, and the messages made as the server makes them.

use std::collections::BTreeMap;
use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;

use super::super::blob::{self, Blob, Object};
use super::super::contents::{At, Bundle, Channel, Contents, Package};
use super::super::read::Scene;
use super::super::upgrades::Upgrades;
use super::super::{MESSAGE_LIMIT, documents, json};
use super::{Belongings, Packages};
use crate::olm::findings::{Finding, catalog as codes};
use crate::olm::json::extremes;
use crate::olm::registry::sizes;

/// What could become longer is made and measured.
const NEAR: usize = MESSAGE_LIMIT / 2;
/// What is there whatever a document says: names of fields, and lengths.
const FRAME: usize = 1024;
/// A property is told up to three times (of `olm.gvk.required`), and a number such as 1e20 takes more than five times as many digits.
const OF_PROPERTY: usize = 3 * OF_NUMBER;
/// How many times its length a number takes at most: 1e20 has no exponent any more.
const OF_NUMBER: usize = 6;
/// As which parts of a ClusterServiceVersion it is told: by itself, and as an object.
const OF_CSV: usize = 2;
/// How many times its length JSON takes at most as a ClusterServiceVersion: `{},` becomes `{"name":"","group":"","version":"","kind":""},`.
const OF_JSON: usize = 16;
/// And as a message for a document of somebody's own: `[[]]` takes five times its length.
const OF_DOCUMENT: usize = 8;

/// What a bundle may become, all of it in one message.
pub(in super::super) fn of_bundle(bundle: &blob::Bundle<'_>) -> usize {
    let length = |value: Option<&RawValue>| value.map_or(0, |value| value.get().len());
    let mut most = FRAME + bundle.image.len();
    for property in &bundle.properties {
        match (&*property.kind, property.value) {
            (blob::OBJECT, Some(value)) => most += of_object(value),
            ("olm.csv.metadata", Some(value)) => most += OF_CSV * of_metadata(value.get()),
            (kind, value) => most += kind.len() + OF_PROPERTY * length(value) + 64,
        }
    }
    let images = bundle.related_images.iter();
    let images = images.map(|it| OF_CSV * (escaped(&it.name) + escaped(&it.image) + 64));
    most + images.sum::<usize>()
}

fn of_metadata(json: &str) -> usize {
    let most = OF_JSON * json.len();
    // Small ones, which is most of them, need not be looked at
    if most <= NEAR / 4 {
        return most;
    }
    let begins = json.bytes().filter(|byte| matches!(byte, b'{' | b'[')).count();
    // Which may stand for an object, too
    let nothing = json.matches("null").count();
    let numbers = OF_NUMBER * json.len();
    numbers + escaped(json) + 64 * (begins + nothing)
}

/// JSON stays as it is; what YAML becomes only reading it shows.
fn of_object(value: &RawValue) -> usize {
    let Ok(object) = documents::part::<Object<'_>>(value.get()) else {
        return 0;
    };
    let begin = object.data.get(..4).and_then(|data| STANDARD.decode(data).ok());
    if begin.is_some_and(|begin| begin.starts_with(b"{")) {
        OF_CSV * (object.data.len() / 4 * 3 + 64)
    } else {
        MESSAGE_LIMIT
    }
}

/// How much of a package comes to be in each of its bundles.
pub(in super::super) fn of_package(package: &blob::Package<'_>) -> usize {
    let icon = package.icon.as_ref();
    let icon = icon.map_or(0, |icon| escaped(&icon.base64data) + escaped(&icon.mediatype));
    OF_CSV * (icon + escaped(&package.description) + 64)
}

/// How long a text is at most in JSON for web pages.
fn escaped(text: &str) -> usize {
    let is_longer = |byte: &u8| matches!(byte, b'<' | b'>' | b'&' | b'"' | b'\\' | 0..0x20) || *byte == 0xe2;
    text.len() + 5 * text.as_bytes().iter().filter(|byte| is_longer(byte)).count()
}

/// A document of somebody's own.
pub(super) fn other(other: &blob::Other<'_>, json: &str, scene: &Scene<'_>, findings: &mut Vec<Finding>) {
    let depth = extremes(json).depth;
    if depth > sizes::DEEPEST {
        let message = format!(
            "document {:?} of schema {} is nested {depth} deep; a server sends {} of it",
            &*other.name,
            &*other.schema,
            sizes::DEEPEST
        );
        findings.push(scene.found(&codes::MESSAGE_DEPTH, "", message));
        return;
    }
    if OF_DOCUMENT * json.len() <= NEAR {
        return;
    }
    let length = sizes::of_document(json).unwrap_or_default();
    if length > MESSAGE_LIMIT {
        let message = format!(
            "document {:?} of schema {}: a server would send {length} bytes of it; {MESSAGE_LIMIT} are accepted",
            &*other.name, &*other.schema
        );
        findings.push(scene.found(&codes::PACKAGE_MESSAGE_SIZE, "", message));
    }
}

/// What all documents show together.
pub(super) fn all<T>(contents: &Contents<T>, packages: &Packages<'_, T>, findings: &mut Vec<Finding>) {
    let deprecated = deprecated(contents);
    for package in &contents.packages {
        let Some(its) = packages.get(&package.name) else {
            continue;
        };
        let mut judge = Judge {
            contents,
            package,
            deprecated: &deprecated,
            its,
            document: None,
            findings,
        };
        judge.package();
        judge.bundles();
    }
}

/// Messages by package, schema and name.
type Deprecated<'a> = BTreeMap<(&'a str, &'a str, &'a str), &'a str>;

fn deprecated<T>(contents: &Contents<T>) -> Deprecated<'_> {
    let mut all = Deprecated::new();
    for document in &contents.deprecations {
        for entry in &document.entries {
            all.insert((&document.package, &entry.schema, &entry.name), &entry.message);
        }
    }
    all
}

struct Judge<'a, 'b, T> {
    contents: &'a Contents<T>,
    package: &'a Package,
    deprecated: &'a Deprecated<'a>,
    its: &'a Belongings<'a, T>,
    /// The package's, once it was needed.
    document: Option<String>,
    findings: &'b mut Vec<Finding>,
}

impl<'a, T> Judge<'a, '_, T> {
    fn deprecation(&self, schema: &'a str, name: &'a str) -> Option<&'a str> {
        self.deprecated.get(&(&*self.package.name, schema, name)).copied()
    }

    /// What is told of the package itself.
    fn package(&mut self) {
        let of_channel = |(name, channel): (&&'a str, &&'a Channel)| {
            let names = channel.entries.iter().map(|entry| entry.name.len());
            let why = self.deprecation(blob::CHANNEL, name).map_or(0, str::len);
            name.len() + names.max().unwrap_or_default() + why + 64
        };
        let why = self.deprecation(blob::PACKAGE, "");
        let channels: usize = self.its.channels.iter().map(of_channel).sum();
        if channels + why.map_or(0, str::len) <= NEAR {
            return;
        }
        let channels = self.its.channels.iter().map(|(name, channel)| {
            let head = Upgrades::of(&channel.entries).head();
            let head = head.map(|head| head.name.as_str()).unwrap_or_default();
            (*name, head, self.deprecation(blob::CHANNEL, name))
        });
        let Package {
            name,
            default_channel,
            ..
        } = self.package;
        let length = sizes::of_package(name, default_channel, channels, why);
        if length > MESSAGE_LIMIT {
            let message = format!(
                "package {name}: a server would send {length} bytes of its channels; {MESSAGE_LIMIT} are accepted"
            );
            let place = self.contents.place(self.package.at);
            self.findings
                .push(Finding::new(&codes::PACKAGE_MESSAGE_SIZE, &place, message));
        }
    }

    fn bundles(&mut self) {
        // The most that a channel adds to each
        let mut added: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for (channel, its) in &self.its.channels {
            for entry in &its.entries {
                let why = self.deprecation(blob::BUNDLE, &entry.name);
                let (listed, alone) = sizes::of_entry(&self.package.name, channel, entry, why);
                let most = added.entry(&entry.name).or_default();
                *most = (most.0.max(listed), most.1.max(alone));
            }
        }
        for (name, (listed, alone)) in added {
            let Some(bundle) = self.its.bundles.get(name) else {
                continue;
            };
            if bundle.most + self.package.shown + listed.max(alone) > NEAR {
                self.bundle(bundle, listed, alone);
            }
        }
    }

    fn bundle(&mut self, bundle: &Bundle<T>, listed: usize, alone: usize) {
        let Ok((has_image, sizes)) = self.measured(bundle) else {
            // What is wrong with it was told already, or comes to light when it is read again
            return;
        };
        let whole = sizes.told + sizes.large + alone;
        let listed = listed + sizes.told + if has_image { 0 } else { sizes.large };
        let (code, length, to) = if listed > MESSAGE_LIMIT {
            (&codes::MESSAGE_SIZE, listed, "")
        } else if whole > MESSAGE_LIMIT {
            (&codes::PACKAGE_MESSAGE_SIZE, whole, " to consoles")
        } else {
            return;
        };
        let message = format!(
            "bundle {}: a server would send {length} bytes of it{to}; {MESSAGE_LIMIT} are accepted",
            bundle.name
        );
        let place = self.contents.place(bundle.at);
        self.findings.push(Finding::new(code, &place, message));
    }

    /// Whether a bundle has an image, and how long its messages are.
    fn measured(&mut self, bundle: &Bundle<T>) -> io::Result<(bool, sizes::OfBundle)> {
        let package = match self.document.take() {
            Some(document) => document,
            None => document(self.contents, self.package.at)?,
        };
        let package = self.document.insert(package);
        let bundle = document(self.contents, bundle.at)?;
        match (Blob::of(package)?, Blob::of(&bundle)?) {
            (Blob::Package(package), Blob::Bundle(bundle)) => {
                Ok((!bundle.image.is_empty(), sizes::of_bundle(&bundle, &package)?))
            }
            _ => Err(io::Error::other("the file has changed")),
        }
    }
}

/// A document as JSON, read once more.
fn document<T>(contents: &Contents<T>, at: At) -> io::Result<String> {
    json(contents.text(at)?).map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
