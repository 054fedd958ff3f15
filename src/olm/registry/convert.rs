//! From a bundle's document to the messages of the registry.

use prost::Message;
use serde_json::Value;
use serde_json::value::RawValue;

use super::api;
use super::csv::{self, OfPackage};
use crate::olm::fbc::blob::{self, Bundle, Gvk, Object, PackageRequired, PackageVersion};
use crate::olm::fbc::metadata::Metadata;
use crate::olm::fbc::{self, Keep, fold};
use crate::olm::json;
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

    /// What cannot be read is left out: it is among the findings, so such a catalog is never served.
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
            "olm.gvk.required" => Some(("olm.gvk", canonical(value)?)),
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
        .filter(|property| !matches!(&*property.kind, "olm.bundle.object" | "olm.csv.metadata"));
    told.filter_map(|property| {
        let (r#type, value) = (property.kind.to_string(), canonical(property.value?)?);
        Some(api::Property { r#type, value })
    })
    .collect()
}

fn canonical(value: &RawValue) -> Option<String> {
    json::sorted(&read::<Value>(value)?).ok()
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
    for (_, value) in bundle.values("olm.bundle.object") {
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

/// JSON as the message that stands for it.
pub(super) fn structure(value: Value) -> prost_types::Value {
    use prost_types::value::Kind;
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(value) => Kind::BoolValue(value),
        Value::Number(value) => Kind::NumberValue(value.as_f64().unwrap_or_default()),
        Value::String(value) => Kind::StringValue(value),
        Value::Array(values) => {
            let values = values.into_iter().map(structure).collect();
            Kind::ListValue(prost_types::ListValue { values })
        }
        Value::Object(fields) => {
            let fields = fields
                .into_iter()
                .map(|(key, value)| (key, structure(value)))
                .collect();
            Kind::StructValue(prost_types::Struct { fields })
        }
    };
    prost_types::Value { kind: Some(kind) }
}
