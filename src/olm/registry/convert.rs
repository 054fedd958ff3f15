//! From a bundle's document to the messages of the registry.

use prost::Message;
use prost_types::value::Kind;
use serde_json::Value;
use serde_json::value::RawValue;

use super::api;
use super::csv::{self, OfPackage};
use crate::olm::fbc::blob::{self, Bundle, Gvk, Object, PackageRequired, PackageVersion};
use crate::olm::fbc::metadata::Metadata;
use crate::olm::fbc::{self, Keep, fold};
use crate::olm::json::{self, Node, Tree};
use crate::olm::yaml;

/// What every list of bundles needs: all of the message but names, what depends on the channel, and what is large. It is kept as it is sent, in a
/// quarter of the room.
#[derive(Debug)]
pub(super) struct Told(Box<[u8]>);

impl Told {
    fn of(message: &api::Bundle) -> Self {
        Self(message.encode_to_vec().into_boxed_slice())
    }

    /// As a message, in bytes.
    pub(super) fn length(&self) -> usize {
        self.0.len()
    }

    pub(super) fn message(&self) -> api::Bundle {
        // Nothing else was ever put there than a message
        api::Bundle::decode(&*self.0).unwrap_or_default()
    }
}

/// Keeps what is told.
pub(super) struct Telling;

impl Keep for Telling {
    type Kept = Told;

    /// What has not the shape of its type is left out: it is among the findings, so such a catalog is never served.
    fn keep(&self, bundle: &Bundle<'_>) -> Told {
        let version: Option<PackageVersion<'_>> =
            bundle.values(blob::PACKAGE).find_map(|(_, value)| read(value));
        Told::of(&api::Bundle {
            bundle_path: bundle.image.to_string(),
            version: version
                .map(|version| version.version.to_string())
                .unwrap_or_default(),
            provided_apis: kinds(bundle, "olm.gvk"),
            required_apis: kinds(bundle, "olm.gvk.required"),
            dependencies: dependencies(bundle),
            properties: properties(bundle),
            ..api::Bundle::default()
        })
    }
}

fn read<'a, T: serde::Deserialize<'a>>(value: &'a RawValue) -> Option<T> {
    fold::from_str(value.get()).ok()
}

fn kinds(bundle: &Bundle<'_>, kind: &str) -> Vec<api::GroupVersionKind> {
    let values = bundle.values(kind);
    let read = values.filter_map(|(_, value)| read::<Gvk<'_>>(value));
    read.map(|gvk| api::GroupVersionKind {
        group: gvk.group.to_string(),
        version: gvk.version.to_string(),
        kind: gvk.kind.to_string(),
        plural: String::new(),
    })
    .collect()
}

fn dependencies(bundle: &Bundle<'_>) -> Vec<api::Dependency> {
    let of = |property: &blob::Property<'_>| {
        let value = property.value?;
        match &*property.kind {
            "olm.gvk.required" => Some(("olm.gvk", json::canonical(value).ok()?)),
            "olm.package.required" => {
                let required: PackageRequired<'_> = read(value)?;
                let (name, range) = (&*required.package_name, &*required.version_range);
                let value = serde_json::json!({"packageName": name, "version": range});
                Some((blob::PACKAGE, json::sorted(&value).ok()?))
            }
            _ => None,
        }
    };
    let found = bundle.properties.iter().filter_map(of);
    found
        .map(|(kind, value)| api::Dependency {
            r#type: kind.to_owned(),
            value,
        })
        .collect()
}

/// All but those that would be sent twice.
fn properties(bundle: &Bundle<'_>) -> Vec<api::Property> {
    let told = bundle
        .properties
        .iter()
        .filter(|property| !matches!(&*property.kind, blob::OBJECT | "olm.csv.metadata"));
    told.filter_map(|property| {
        let value = json::canonical(property.value?).ok()?;
        let r#type = property.kind.to_string();
        Some(api::Property { r#type, value })
    })
    .collect()
}

/// What is large, and asked for one bundle at a time.
#[derive(Default)]
pub(super) struct Large {
    pub(super) csv_json: String,
    pub(super) objects: Vec<String>,
}

/// The ClusterServiceVersion and the objects of a bundle, by its document and its package's.
///
/// # Errors
/// When one of the two is not what it was when the catalog was read.
pub(super) fn large(bundle: &Bundle<'_>, package: &blob::Package<'_>) -> Result<Large, serde_json::Error> {
    let mut objects = Vec::new();
    for (_, value) in bundle.values(blob::OBJECT) {
        let object: Object<'_> = fold::from_str(value.get())?;
        objects.push(manifest(&object)?);
    }
    let is_csv = |object: &&String| {
        let kind = serde_json::from_str::<Value>(object).ok();
        kind.is_some_and(|object| object["kind"] == "ClusterServiceVersion")
    };
    let mut csv_json = objects.iter().find(is_csv).cloned().unwrap_or_default();
    let mut metadata = bundle.values("olm.csv.metadata");
    if let (true, Some((_, value)), None) = (csv_json.is_empty(), metadata.next(), metadata.next()) {
        let metadata: Metadata<'_> = fold::from_str(value.get())?;
        let version = bundle
            .values(blob::PACKAGE)
            .find_map(|(_, value)| read::<PackageVersion<'_>>(value));
        let version = version
            .map(|version| version.version.to_string())
            .unwrap_or_default();
        let of_package = OfPackage {
            icon: package.icon.as_ref(),
            description: &package.description,
        };
        csv_json = csv::of(
            &bundle.name,
            &version,
            &metadata,
            &bundle.related_images,
            &of_package,
        )?;
        if objects.is_empty() {
            objects.push(csv_json.clone());
        }
    }
    Ok(Large { csv_json, objects })
}

/// The JSON of a manifest, whatever it was written as.
fn manifest(object: &Object<'_>) -> Result<String, serde_json::Error> {
    let refused = |why: String| serde::de::Error::custom(why);
    let data = fbc::decode(&object.data).map_err(refused)?;
    // What is JSON already stays as it is
    if data.trim_start().starts_with('{') {
        return Ok(data);
    }
    let value = yaml::value(&data).map_err(|(_, why)| refused(why))?;
    json::sorted_for_pages(&value)
}

/// The message that stands for a document. How deep one may be nested is judged before ([`DEEPEST`]).
///
/// # Errors
/// When it is no JSON, no object, or nested too deep.
pub(super) fn structure(document: &str) -> Result<prost_types::Struct, serde_json::Error> {
    let refused = |why: &str| serde::de::Error::custom(why);
    let document: &RawValue = serde_json::from_str(document)?;
    if json::extremes(document.get()).depth > DEEPEST {
        return Err(refused("it is nested too deep"));
    }
    let tree = Tree::of(document);
    match value(&tree, tree.root()).kind {
        Some(Kind::StructValue(fields)) => Ok(fields),
        _ => Err(refused("it is no object")),
    }
}

/// As deep as a document of somebody's own may be nested: messages are made, measured and read level by level, on the stack.
pub(in crate::olm) const DEEPEST: usize = 128;

fn value(tree: &Tree<'_>, node: &Node<'_>) -> prost_types::Value {
    let within = |at: &usize| value(tree, tree.node(*at));
    let kind = match node {
        Node::Null => Kind::NullValue(0),
        Node::Bool(value) => Kind::BoolValue(*value),
        Node::Number(value) => Kind::NumberValue(*value),
        Node::Text(value) => Kind::StringValue(value.to_string()),
        Node::List(items) => Kind::ListValue(prost_types::ListValue {
            values: items.iter().map(within).collect(),
        }),
        Node::Object(fields) => {
            let fields = fields.iter().map(|(key, at)| (key.to_string(), within(at)));
            Kind::StructValue(prost_types::Struct {
                fields: fields.collect(),
            })
        }
    };
    prost_types::Value { kind: Some(kind) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An object of so many lists in one another.
    fn nested(depth: usize) -> String {
        format!("{{\"a\": {}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1))
    }

    #[test]
    fn a_document_is_sent_as_deep_as_its_judge_says_and_no_deeper() {
        let document = structure(&nested(DEEPEST)).unwrap();
        assert!(document.encoded_len() > DEEPEST);
        let refused = structure(&nested(DEEPEST + 1)).unwrap_err();
        assert_eq!(refused.to_string(), "it is nested too deep");
        assert!(structure("[]").is_err());
    }
}
