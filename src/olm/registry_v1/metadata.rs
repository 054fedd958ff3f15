//! Rules of metadata/: annotations, dependencies, properties.

use serde_json::Value;

use super::nearest::nearest;
use super::read::{Bundle, Object};
use crate::olm::catalog::channels_of;
use crate::olm::fbc;
use crate::olm::findings::{Finding, bundle as codes, listed};
use crate::olm::manifests::text;
use crate::olm::names::{LONGEST_LABEL, is_channel, is_dns_subdomain};

const PREFIX: &str = "operators.operatorframework.io.bundle.";

pub(super) fn check(bundle: &Bundle, found: &mut Vec<Finding>) {
    match &bundle.annotations {
        // They may be in what could not be read
        None if bundle.has_unread_metadata => {}
        None => {
            let folder = bundle.folder.join("metadata");
            let message = "annotations.yaml is missing: no file of the folder holds `annotations`";
            let missing = Finding::of_file(&codes::BUNDLE_ANNOTATION, folder, message);
            found.push(missing.remedied_by(
                "Write metadata/annotations.yaml: below `annotations:` mediatype, manifests, metadata, package and channels, each as operators.operatorframework.io.bundle.NAME.v1; `roadstead bundle generate` does.",
            ));
        }
        Some(annotations) => self::annotations(annotations, found),
    }
    if let Some(dependencies) = &bundle.dependencies {
        self::dependencies(dependencies, found);
    }
    if let Some(properties) = &bundle.properties {
        self::properties(properties, found);
    }
}

/// What an annotation of the bundle says; none where it is not there.
pub(super) fn annotation<'a>(annotations: &'a Object, name: &str) -> Option<&'a str> {
    annotations.body["annotations"][format!("{PREFIX}{name}.v1")].as_str()
}

/// The channels that the bundle is meant for, and the default one, where it is told.
pub(super) fn channels(annotations: &Object) -> (Vec<&str>, Option<&str>) {
    let channels = annotation(annotations, "channels").unwrap_or_default();
    (
        channels_of(channels).collect(),
        annotation(annotations, "channel.default"),
    )
}

/// That an annotation is missing; and what is there under almost its name, or else what it must be.
fn missing(annotations: &Object, name: &str, accepted: &str) -> String {
    const KNOWN: [&str; 6] = [
        "mediatype",
        "manifests",
        "metadata",
        "package",
        "channels",
        "channel.default",
    ];
    let full = |name: &str| format!("{PREFIX}{name}.v1");
    let others = annotations.body["annotations"].as_object().into_iter().flatten();
    let others = others.map(|(other, _)| other.as_str());
    let is_known = |other: &&str| KNOWN.iter().any(|known| full(known) == *other);
    match nearest(&full(name), others.filter(|other| !is_known(other))) {
        Some(other) => format!("{} is missing; perhaps {other} is meant for it", full(name)),
        None => format!("{} is missing; {accepted}", full(name)),
    }
}

fn annotations(annotations: &Object, found: &mut Vec<Finding>) {
    let mut wrong = |code, name: &str, message: String| {
        let pointer = format!("/annotations/{PREFIX}{name}.v1");
        found.push(annotations.finding(code, &pointer, message));
    };
    for (name, value) in [
        ("mediatype", "registry+v1"),
        ("manifests", "manifests/"),
        ("metadata", "metadata/"),
    ] {
        let said = annotation(annotations, name);
        if said.map(|said| said.trim_end_matches('/')) != Some(value.trim_end_matches('/')) {
            let accepted = format!("it must be {value:?}");
            let message = match said {
                None => missing(annotations, name, &accepted),
                Some(said) => format!("{PREFIX}{name}.v1 is {said:?}; {accepted}"),
            };
            wrong(&codes::BUNDLE_ANNOTATION, name, message);
        }
    }
    let package = annotation(annotations, "package");
    // It is part of a label's key
    if !package.is_some_and(|package| is_dns_subdomain(package) && package.len() <= LONGEST_LABEL) {
        let accepted =
            format!("it must be lower-case letters, digits, dashes and dots, {LONGEST_LABEL} at most");
        let message = match package {
            None => missing(annotations, "package", &accepted),
            Some(package) => format!("{PREFIX}package.v1 is {package:?}; {accepted}"),
        };
        wrong(&codes::BUNDLE_ANNOTATION, "package", message);
    }
    let (channels, default) = channels(annotations);
    if channels.is_empty() {
        let message = match annotation(annotations, "channels") {
            None => missing(annotations, "channels", "it must name at least one"),
            Some(_) => format!("{PREFIX}channels.v1 names none"),
        };
        wrong(&codes::BUNDLE_CHANNELS, "channels", message);
    }
    for channel in channels.iter().filter(|channel| !is_channel(channel)) {
        let message = format!(
            "{PREFIX}channels.v1 names {channel:?}; accepted are names without white space and control characters"
        );
        wrong(&codes::BUNDLE_CHANNEL_NAME, "channels", message);
    }
    match default {
        Some("") => {
            let message = format!("{PREFIX}channel.default.v1 is empty");
            wrong(&codes::BUNDLE_CHANNELS, "channel.default", message);
        }
        Some(default) if !channels.is_empty() && !channels.contains(&default) => {
            let message = format!(
                "the default channel is {default:?}, and the channels are {}",
                listed(channels)
            );
            wrong(&codes::BUNDLE_DEFAULT_CHANNEL, "channel.default", message);
        }
        _ => {}
    }
}

/// The types of dependencies and properties by which a bundle depends on others, whatever the file.
pub(super) fn needs(bundle: &Bundle) -> Vec<(&Object, String, &str)> {
    let mut needs = Vec::new();
    for (object, key) in [
        (&bundle.dependencies, "dependencies"),
        (&bundle.properties, "properties"),
    ] {
        let Some(object) = object else { continue };
        for (index, entry) in object.list(&format!("/{key}")).iter().enumerate() {
            let kind = text(entry, "/type");
            // Those of the former file are what one depends on, and those of the latter what one is, but for three
            if key == "dependencies" || kind.ends_with(".required") || kind == "olm.constraint" {
                needs.push((object, format!("/{key}/{index}"), kind));
            }
        }
    }
    needs
}

fn dependencies(dependencies: &Object, found: &mut Vec<Finding>) {
    for (index, entry) in dependencies.list("/dependencies").iter().enumerate() {
        if let Err(why) = dependency(text(entry, "/type"), &entry["value"]) {
            let message = format!("dependencies[{index}]: {why}");
            let pointer = format!("/dependencies/{index}");
            found.push(dependencies.finding(&codes::BUNDLE_DEPENDENCY, &pointer, message));
        }
    }
}

fn dependency(kind: &str, value: &Value) -> Result<(), String> {
    let field = |name: &str| text(value, &format!("/{name}"));
    let missing = |names: &[&str]| match names.iter().find(|name| field(name).is_empty()) {
        Some(name) => Err(format!("value.{name} is missing")),
        None => Ok(()),
    };
    match kind {
        "olm.gvk" => missing(&["group", "version", "kind"]),
        "olm.package" => {
            missing(&["packageName", "version"])?;
            let range: Result<fbc::range::Range, _> = field("version").parse();
            range.map(drop).map_err(|error| {
                format!(
                    "value.version is {:?}, which is no range: {error}",
                    field("version")
                )
            })
        }
        "olm.label" => missing(&["label"]),
        "olm.constraint" => fbc::constraint::check(&value.to_string()),
        _ => Err(format!(
            "type is {kind:?}; accepted are olm.gvk, olm.package, olm.label and olm.constraint"
        )),
    }
}

fn properties(properties: &Object, found: &mut Vec<Finding>) {
    for (index, entry) in properties.list("/properties").iter().enumerate() {
        let kind = text(entry, "/type");
        let why = match (kind, entry.get("value")) {
            ("", _) => Some("type is missing".to_owned()),
            (_, None | Some(Value::Null)) => Some(format!("the value of {kind} is missing")),
            (kind, Some(value)) => fbc::check_property(kind, value).err(),
        };
        if let Some(why) = why {
            let message = format!("properties[{index}]: {why}");
            found.push(properties.finding(&codes::BUNDLE_PROPERTY, &format!("/properties/{index}"), message));
        }
    }
    if properties.list("/properties").is_empty() {
        let message = "properties is no list, or an empty one";
        found.push(properties.finding(&codes::BUNDLE_PROPERTY, "/properties", message));
    }
}

/// The package's name, empty where the bundle names none.
pub(super) fn package(bundle: &Bundle) -> &str {
    let said = bundle.annotations.as_ref();
    said.and_then(|annotations| annotation(annotations, "package"))
        .unwrap_or_default()
}
