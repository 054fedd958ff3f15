//! The documents of a catalog by their schemas, borrowed from their text. Fields that nobody looks at are passed over, as upstream does.
//!
//! Keys are taken in lower camel case and, as in examples of before, with a capital first letter.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

pub use crate::olm::catalog::Entry;

/// Text that is borrowed where it has no escapes.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

impl std::ops::Deref for Text<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

/// A document.
#[derive(Debug)]
pub enum Blob<'a> {
    /// `olm.package`
    Package(Package<'a>),
    /// `olm.channel`
    Channel(Channel<'a>),
    /// `olm.bundle`
    Bundle(Bundle<'a>),
    /// `olm.deprecations`
    Deprecations(Deprecations<'a>),
    /// One of a schema of somebody's own.
    Other(Other<'a>),
    /// Nobody knows: it says no schema.
    Nameless,
}

/// `olm.package`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Package<'a> {
    /// The package's name.
    #[serde(borrow, default, alias = "Name", deserialize_with = "null_as_default")]
    pub name: Text<'a>,
    /// The channel of a Subscription that names none.
    #[serde(
        borrow,
        default,
        alias = "DefaultChannel",
        deserialize_with = "null_as_default"
    )]
    pub default_channel: Text<'a>,
    /// What consoles show.
    #[serde(borrow, default, alias = "Icon")]
    pub icon: Option<Icon<'a>>,
    /// Text in Markdown.
    #[serde(borrow, default, alias = "Description", deserialize_with = "null_as_default")]
    pub description: Text<'a>,
}

/// An image in the document itself.
#[derive(Debug, Deserialize)]
pub struct Icon<'a> {
    /// The image, in base64.
    #[serde(borrow, default, deserialize_with = "null_as_default")]
    pub base64data: Text<'a>,
    /// Its type, such as `image/svg+xml`.
    #[serde(borrow, default, deserialize_with = "null_as_default")]
    pub mediatype: Text<'a>,
}

/// `olm.channel`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Channel<'a> {
    /// The channel's name.
    #[serde(borrow, default, alias = "Name", deserialize_with = "null_as_default")]
    pub name: Text<'a>,
    /// The package that it belongs to.
    #[serde(borrow, default, alias = "Package", deserialize_with = "null_as_default")]
    pub package: Text<'a>,
    /// Its bundles.
    #[serde(default, alias = "Entries", deserialize_with = "null_as_default")]
    pub entries: Vec<Entry>,
}

/// `olm.bundle`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bundle<'a> {
    /// The ClusterServiceVersion's name.
    #[serde(borrow, default, alias = "Name", deserialize_with = "null_as_default")]
    pub name: Text<'a>,
    /// The package that it belongs to.
    #[serde(borrow, default, alias = "Package", deserialize_with = "null_as_default")]
    pub package: Text<'a>,
    /// The bundle's image; none where its objects are here.
    #[serde(borrow, default, alias = "Image", deserialize_with = "null_as_default")]
    pub image: Text<'a>,
    /// Typed facts.
    #[serde(borrow, default, alias = "Properties", deserialize_with = "null_as_default")]
    pub properties: Vec<Property<'a>>,
    /// The images that the operator needs.
    #[serde(
        borrow,
        default,
        alias = "RelatedImages",
        deserialize_with = "null_as_default"
    )]
    pub related_images: Vec<RelatedImage<'a>>,
}

impl<'a> Bundle<'a> {
    /// The values of the properties of a type, with their places in the list.
    pub fn values(&self, kind: &str) -> impl Iterator<Item = (usize, &'a RawValue)> {
        let properties = self.properties.iter().enumerate();
        properties
            .filter(move |(_, property)| &*property.kind == kind)
            .filter_map(|(index, property)| Some((index, property.value?)))
    }
}

/// A typed fact of a bundle.
#[derive(Debug, Deserialize)]
pub struct Property<'a> {
    /// Such as `olm.gvk`.
    #[serde(rename = "type", borrow, default, deserialize_with = "null_as_default")]
    pub kind: Text<'a>,
    /// Its shape depends on the type.
    #[serde(borrow, default)]
    pub value: Option<&'a RawValue>,
}

/// An image that the operator needs.
#[derive(Debug, Deserialize, Serialize)]
pub struct RelatedImage<'a> {
    /// What it is for.
    #[serde(borrow, default, deserialize_with = "null_as_default")]
    pub name: Text<'a>,
    /// The image.
    #[serde(borrow, default, deserialize_with = "null_as_default")]
    pub image: Text<'a>,
}

/// `olm.deprecations`
#[derive(Debug, Deserialize)]
pub struct Deprecations<'a> {
    /// The package.
    #[serde(borrow, default, alias = "Package", deserialize_with = "null_as_default")]
    pub package: Text<'a>,
    /// One for each thing that is deprecated.
    #[serde(borrow, default, alias = "Entries", deserialize_with = "null_as_default")]
    pub entries: Vec<Deprecation<'a>>,
}

/// One thing that is deprecated.
#[derive(Debug, Deserialize)]
pub struct Deprecation<'a> {
    /// What.
    #[serde(borrow, default)]
    pub reference: Reference<'a>,
    /// What users should do.
    #[serde(borrow, default, deserialize_with = "null_as_default")]
    pub message: Text<'a>,
}

/// What a deprecation refers to.
#[derive(Debug, Default, Deserialize)]
pub struct Reference<'a> {
    /// `olm.package`, `olm.channel` or `olm.bundle`.
    #[serde(borrow, default, deserialize_with = "null_as_default")]
    pub schema: Text<'a>,
    /// Its name; none for the package.
    #[serde(borrow, default, deserialize_with = "null_as_default")]
    pub name: Text<'a>,
}

/// A document of a schema of somebody's own: what it is filed under.
#[derive(Debug, Deserialize)]
pub struct Other<'a> {
    /// Not one of the project's.
    #[serde(borrow, default, skip_deserializing)]
    pub schema: Text<'a>,
    /// The package that it belongs to; none for the catalog itself.
    #[serde(borrow, default, alias = "Package", deserialize_with = "null_as_default")]
    pub package: Text<'a>,
    /// Its name.
    #[serde(borrow, default, alias = "Name", deserialize_with = "null_as_default")]
    pub name: Text<'a>,
}

/// The schemas of the project.
pub const PACKAGE: &str = "olm.package";
/// See [`PACKAGE`].
pub const CHANNEL: &str = "olm.channel";
/// See [`PACKAGE`].
pub const BUNDLE: &str = "olm.bundle";
/// See [`PACKAGE`].
pub const DEPRECATIONS: &str = "olm.deprecations";

impl<'a> Blob<'a> {
    /// Reads a document.
    ///
    /// # Errors
    /// When it is no object, or a field has another type than its schema says.
    pub fn of(json: &'a str) -> Result<Self, serde_json::Error> {
        match serde_json::from_str(json)? {
            First::Known(blob) => Ok(blob),
            First::Elsewhere => {
                let Schema { schema } = serde_json::from_str(json)?;
                Self::by_schema(schema, &mut serde_json::Deserializer::from_str(json))
            }
        }
    }

    fn by_schema<D: Deserializer<'a>>(schema: Text<'a>, fields: D) -> Result<Self, D::Error> {
        Ok(match &*schema {
            PACKAGE => Self::Package(Deserialize::deserialize(fields)?),
            CHANNEL => Self::Channel(Deserialize::deserialize(fields)?),
            BUNDLE => Self::Bundle(Deserialize::deserialize(fields)?),
            DEPRECATIONS => Self::Deprecations(Deserialize::deserialize(fields)?),
            "" => {
                IgnoredAny::deserialize(fields)?;
                Self::Nameless
            }
            _ => Self::Other(Other {
                schema,
                ..Deserialize::deserialize(fields)?
            }),
        })
    }
}

#[derive(Deserialize)]
struct Schema<'a> {
    #[serde(borrow, default, alias = "Schema", deserialize_with = "null_as_default")]
    schema: Text<'a>,
}

/// Nearly every document says its schema first, so that what it is can be read in one go.
enum First<'a> {
    Known(Blob<'a>),
    Elsewhere,
}

impl<'de: 'a, 'a> Deserialize<'de> for First<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FirstVisitor;
        impl<'de> Visitor<'de> for FirstVisitor {
            type Value = First<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                match map.next_key::<Text<'de>>()? {
                    Some(key) if &*key == "schema" => {
                        let schema: Option<Text<'de>> = map.next_value()?;
                        let schema = schema.unwrap_or_default();
                        Blob::by_schema(schema, MapAccessDeserializer::new(map)).map(First::Known)
                    }
                    Some(_) => {
                        map.next_value::<IgnoredAny>()?;
                        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                        Ok(First::Elsewhere)
                    }
                    None => Ok(First::Elsewhere),
                }
            }

            fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
                Err(E::custom("null is no document"))
            }
        }
        deserializer.deserialize_map(FirstVisitor)
    }
}

/// `null` is the same as a field that is not there.
pub(crate) fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// `olm.package`, as a property.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PackageVersion<'a> {
    /// The package's name.
    #[serde(borrow, default, deserialize_with = "null_as_default")]
    pub package_name: Text<'a>,
    /// A semantic version.
    #[serde(borrow, default, deserialize_with = "null_as_default")]
    pub version: Text<'a>,
    /// Tells two builds of one version apart.
    #[serde(borrow, default, deserialize_with = "null_as_default")]
    pub release: Text<'a>,
}

/// `olm.package.required`, as a property.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PackageRequired<'a> {
    /// The package's name.
    #[serde(borrow, default, deserialize_with = "null_as_default")]
    pub package_name: Text<'a>,
    /// See [`super::range`].
    #[serde(borrow, default, deserialize_with = "null_as_default")]
    pub version_range: Text<'a>,
}

/// `olm.gvk` and `olm.gvk.required`, as properties.
#[derive(Debug, Deserialize)]
pub struct Gvk<'a> {
    /// Such as `roadstead.dev`.
    #[serde(borrow, default, deserialize_with = "null_as_default")]
    pub group: Text<'a>,
    /// Such as `Database`.
    #[serde(borrow, default, deserialize_with = "null_as_default")]
    pub kind: Text<'a>,
    /// Such as `v1`.
    #[serde(borrow, default, deserialize_with = "null_as_default")]
    pub version: Text<'a>,
}

/// `olm.bundle.object`, as a property.
#[derive(Debug, Deserialize)]
pub struct Object<'a> {
    /// A manifest, in base64.
    #[serde(borrow, default, deserialize_with = "null_as_default")]
    pub data: Text<'a>,
}

/// `olm.channel`, as a property: internal to upstream, which reads it all the same.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChannelProperty<'a> {
    /// The channel's name.
    #[serde(borrow, default, deserialize_with = "null_as_default")]
    pub channel_name: Text<'a>,
}
