//! How long the messages are that the server would send: made by its own code, and measured.

use prost::Message as _;

use super::api;
pub(in crate::olm) use super::convert::DEEPEST;
use super::convert::{self, Telling};
use crate::olm::fbc::Keep as _;
use crate::olm::fbc::blob::{Bundle, Entry, Package};

/// Of a bundle, whatever channel it is in.
pub(in crate::olm) struct OfBundle {
    /// What lists tell.
    pub(in crate::olm) told: usize,
    /// What is told besides of one that is asked for alone, or has no image.
    pub(in crate::olm) large: usize,
}

/// Of a bundle, by its document and its package's.
///
/// # Errors
/// When one of its parts has not the shape of its type.
pub(in crate::olm) fn of_bundle(
    bundle: &Bundle<'_>,
    package: &Package<'_>,
) -> Result<OfBundle, serde_json::Error> {
    let convert::Large { csv_json, objects } = convert::large(bundle, package)?;
    let large = api::Bundle {
        csv_json,
        object: objects,
        ..api::Bundle::default()
    };
    Ok(OfBundle {
        told: Telling.keep(bundle).length(),
        large: large.encoded_len(),
    })
}

/// What a channel adds to the message of a bundle: in lists, and where it is asked for alone.
pub(in crate::olm) fn of_entry(
    package: &str,
    channel: &str,
    entry: &Entry,
    deprecation: Option<&str>,
) -> (usize, usize) {
    let mut message = api::Bundle {
        csv_name: entry.name.clone(),
        package_name: package.to_owned(),
        channel_name: channel.to_owned(),
        replaces: entry.replaces.clone().unwrap_or_default(),
        skips: entry.skips.clone(),
        skip_range: entry.skip_range.clone().unwrap_or_default(),
        deprecation: deprecation.map(told),
        ..api::Bundle::default()
    };
    let listed = message.encoded_len();
    message.replaces.clear();
    message.skips.clear();
    (listed, message.encoded_len())
}

fn told(deprecation: &str) -> api::Deprecation {
    api::Deprecation {
        message: deprecation.to_owned(),
    }
}

/// Of a package: its channels, each with its name, its head, and why it is deprecated.
pub(in crate::olm) fn of_package<'a>(
    name: &str,
    default_channel: &str,
    channels: impl Iterator<Item = (&'a str, &'a str, Option<&'a str>)>,
    deprecation: Option<&str>,
) -> usize {
    let channels = channels.map(|(name, head, deprecation)| api::Channel {
        name: name.to_owned(),
        csv_name: head.to_owned(),
        deprecation: deprecation.map(told),
    });
    let message = api::Package {
        name: name.to_owned(),
        channels: channels.collect(),
        default_channel_name: default_channel.to_owned(),
        deprecation: deprecation.map(told),
    };
    message.encoded_len()
}

/// Of a document of somebody's own.
///
/// # Errors
/// As of [`convert::structure`].
pub(in crate::olm) fn of_document(json: &str) -> Result<usize, serde_json::Error> {
    convert::structure(json).map(|document| document.encoded_len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::olm::fbc::blob::Blob;
    use crate::olm::registry::Index;
    use serde_json::{Value, json};

    /// Two bundles in two channels, one of them without an image.
    fn documents() -> Vec<Value> {
        let version =
            |version: &str| json!({"type": "olm.package", "value": {"packageName": "a", "version": version}});
        // {"kind":"ClusterServiceVersion"}
        let object = json!({"type": "olm.bundle.object", "value": {"data": "eyJraW5kIjoiQ2x1c3RlclNlcnZpY2VWZXJzaW9uIn0="}});
        let metadata = json!({"type": "olm.csv.metadata", "value": {"displayName": "<A>", "crdDescriptions": {"owned": [{}]}}});
        let required =
            json!({"type": "olm.gvk.required", "value": {"group": "b", "version": "v1", "kind": "B"}});
        vec![
            json!({"schema": "olm.package", "name": "a", "defaultChannel": "c", "description": "All & more"}),
            json!({"schema": "olm.channel", "package": "a", "name": "c", "entries": [
                {"name": "a.v1", "replaces": "a.v0", "skips": ["x", "y"], "skipRange": "<1.0.0"}]}),
            json!({"schema": "olm.channel", "package": "a", "name": "d", "entries": [
                {"name": "a.v2", "replaces": "a.v1"}, {"name": "a.v1"}]}),
            json!({"schema": "olm.bundle", "package": "a", "name": "a.v1", "properties": [version("1.0.0"), object]}),
            json!({"schema": "olm.bundle", "package": "a", "name": "a.v2", "image": "b/c:1",
                "properties": [version("2.0.0"), metadata, required]}),
            json!({"schema": "olm.deprecations", "package": "a", "entries": [
                {"reference": {"schema": "olm.bundle", "name": "a.v1"}, "message": "use a.v2"}]}),
        ]
    }

    #[test]
    fn parts_are_as_long_as_the_messages_that_the_index_makes() {
        let folder = tempfile::tempdir().unwrap();
        let texts: Vec<String> = documents().iter().map(Value::to_string).collect();
        std::fs::write(folder.path().join("catalog.json"), texts.concat()).unwrap();
        let (index, _) = Index::read(folder.path()).unwrap();
        let Blob::Package(package) = Blob::of(&texts[0]).unwrap() else {
            panic!("it is another")
        };
        let mut seen = 0;
        for text in &texts[1..3] {
            let Blob::Channel(channel) = Blob::of(text).unwrap() else {
                panic!("it is another")
            };
            for entry in &channel.entries {
                let bundle = texts[3..5]
                    .iter()
                    .find(|it| it.contains(&format!("\"name\":\"{}\"", entry.name)));
                let Blob::Bundle(bundle) = Blob::of(bundle.unwrap()).unwrap() else {
                    panic!("it is another")
                };
                let why = (entry.name == "a.v1").then_some("use a.v2");
                let (listed, alone) = of_entry("a", &channel.name, entry, why);
                let OfBundle { told, large } = of_bundle(&bundle, &package).unwrap();
                let place = index.place("a", &channel.name, &entry.name).unwrap();
                let found = index.found(place).unwrap();
                let mut message = index.told(found);
                assert_eq!(message.encoded_len(), told + listed);
                let its = index.large(found).unwrap();
                (message.csv_json, message.object) = (its.csv_json, its.objects);
                assert!(!message.csv_json.is_empty());
                message.replaces.clear();
                message.skips.clear();
                assert_eq!(message.encoded_len(), told + large + alone);
                seen += 1;
            }
        }
        assert_eq!(seen, 3);
    }
}
