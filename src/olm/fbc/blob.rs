//! The documents of a catalog by their schemas, borrowed from their text. Fields that nobody looks at are passed over, as upstream does.
//!
//! Keys are taken whatever their case, and `null` for what is not there ([`super::fold`]). Of the document itself no two may be the same then, and `schema`, `package` and `name` are text.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer};
use serde::de::{DeserializeSeed, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::fold::{self, Folding, Trail};

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
    #[serde(borrow, default)]
    pub name: Text<'a>,
    /// The channel of a Subscription that names none.
    #[serde(borrow, default)]
    pub default_channel: Text<'a>,
    /// What consoles show.
    #[serde(borrow, default)]
    pub icon: Option<Icon<'a>>,
    /// Text in Markdown.
    #[serde(borrow, default)]
    pub description: Text<'a>,
    /// Typed facts, of which upstream reads no more than that they are there.
    #[serde(borrow, default)]
    pub properties: Vec<Property<'a>>,
}

/// An image in the document itself.
#[derive(Debug, Deserialize)]
pub struct Icon<'a> {
    /// The image, in base64.
    #[serde(borrow, default, deserialize_with = "base64")]
    pub base64data: Text<'a>,
    /// Its type, such as `image/svg+xml`.
    #[serde(borrow, default)]
    pub mediatype: Text<'a>,
}

/// `olm.channel`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Channel<'a> {
    /// The channel's name.
    #[serde(borrow, default)]
    pub name: Text<'a>,
    /// The package that it belongs to.
    #[serde(borrow, default)]
    pub package: Text<'a>,
    /// Its bundles.
    #[serde(default)]
    pub entries: Vec<Entry>,
    /// As [`Package::properties`].
    #[serde(borrow, default)]
    pub properties: Vec<Property<'a>>,
}

/// One bundle in a channel.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The bundle's name.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// The bundle whose users are upgraded to this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
    /// Further bundles whose users are upgraded to this one, and which nobody is upgraded to any more.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub skips: Vec<String>,
    /// A range of versions whose users are upgraded to this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_range: Option<String>,
}

impl AsRef<Self> for Entry {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// `olm.bundle`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bundle<'a> {
    /// The ClusterServiceVersion's name.
    #[serde(borrow, default)]
    pub name: Text<'a>,
    /// The package that it belongs to.
    #[serde(borrow, default)]
    pub package: Text<'a>,
    /// The bundle's image; none where its objects are here.
    #[serde(borrow, default)]
    pub image: Text<'a>,
    /// Typed facts.
    #[serde(borrow, default)]
    pub properties: Vec<Property<'a>>,
    /// The images that the operator needs.
    #[serde(borrow, default)]
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
    #[serde(rename = "type", borrow, default)]
    pub kind: Text<'a>,
    /// Its shape depends on the type; `null` is one, too.
    #[serde(borrow, default, deserialize_with = "raw")]
    pub value: Option<&'a RawValue>,
}

/// An image that the operator needs.
#[derive(Debug, Deserialize, Serialize)]
pub struct RelatedImage<'a> {
    /// What it is for.
    #[serde(borrow, default)]
    pub name: Text<'a>,
    /// The image.
    #[serde(borrow, default)]
    pub image: Text<'a>,
}

/// `olm.deprecations`
#[derive(Debug, Deserialize)]
pub struct Deprecations<'a> {
    /// The package.
    #[serde(borrow, default)]
    pub package: Text<'a>,
    /// One for each thing that is deprecated.
    #[serde(borrow, default)]
    pub entries: Vec<Deprecation<'a>>,
}

/// One thing that is deprecated.
#[derive(Debug, Deserialize)]
pub struct Deprecation<'a> {
    /// What.
    #[serde(borrow, default)]
    pub reference: Reference<'a>,
    /// What users should do.
    #[serde(borrow, default)]
    pub message: Text<'a>,
}

/// What a deprecation refers to.
#[derive(Debug, Default, Deserialize)]
pub struct Reference<'a> {
    /// `olm.package`, `olm.channel` or `olm.bundle`.
    #[serde(borrow, default)]
    pub schema: Text<'a>,
    /// Its name; none for the package.
    #[serde(borrow, default)]
    pub name: Text<'a>,
}

/// A document of a schema of somebody's own: what it is filed under.
#[derive(Debug, Deserialize)]
pub struct Other<'a> {
    /// Not one of the project's.
    #[serde(borrow, default, skip_deserializing)]
    pub schema: Text<'a>,
    /// The package that it belongs to; none for the catalog itself.
    #[serde(borrow, default)]
    pub package: Text<'a>,
    /// Its name.
    #[serde(borrow, default)]
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
        Self::read(json, &Trail::default())
    }

    /// The same; the trail leads to what cannot be read.
    pub(super) fn read(json: &'a str, trail: &Trail) -> Result<Self, serde_json::Error> {
        let reading = |schema| Reading { schema, trail };
        match reading(None).of(json)? {
            Read::Blob(blob) => Ok(blob),
            Read::Schema(schema) => match reading(Some(schema)).of(json)? {
                Read::Blob(blob) => Ok(blob),
                Read::Schema(_) => Ok(Self::Nameless),
            },
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

/// Nearly every document says its schema first, so that what it is can be read in one go; of others it is found out first.
struct Reading<'t, 'a> {
    schema: Option<Text<'a>>,
    trail: &'t Trail,
}

enum Read<'a> {
    Blob(Blob<'a>),
    /// It is there, but not at first.
    Schema(Text<'a>),
}

impl<'a> Reading<'_, 'a> {
    fn of(self, json: &'a str) -> Result<Read<'a>, serde_json::Error> {
        let mut json = serde_json::Deserializer::from_str(json);
        let read = json.deserialize_map(self)?;
        json.end()?;
        Ok(read)
    }

    fn blob<A: MapAccess<'a>>(&self, schema: Text<'a>, map: Unique<'a, A>) -> Result<Read<'a>, A::Error> {
        let inner = MapAccessDeserializer::new(map);
        let trail = self.trail;
        Blob::by_schema(schema, Folding { inner, trail }).map(Read::Blob)
    }
}

impl<'de> Visitor<'de> for Reading<'_, 'de> {
    type Value = Read<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, map: A) -> Result<Self::Value, A::Error> {
        let mut map = Unique::new(map);
        if let Some(schema) = self.schema.take() {
            return self.blob(schema, map);
        }
        let (mut schema, mut is_first) = (Text::default(), true);
        while let Some(key) = map.next()? {
            if fold::is_same(&key, "schema") {
                schema = map.next_value().inspect_err(|_| self.trail.note(&key))?;
                if is_first {
                    return self.blob(schema, map);
                }
            } else {
                let value = map.next_value::<IgnoredAny>();
                value.inspect_err(|_| self.trail.note(&key))?;
            }
            is_first = false;
        }
        Ok(Read::Schema(schema))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Err(E::custom("null is no document"))
    }
}

/// The fields of a document itself, which upstream reads twice: as Go does, and before that for three of them, and for keys that are the same but for
/// their case.
struct Unique<'de, A> {
    inner: A,
    /// By what those have in common that are the same
    keys: HashMap<String, Text<'de>>,
    /// Whether the last one is of [`TEXTS`]
    is_text: bool,
}

impl<'de, A: MapAccess<'de>> Unique<'de, A> {
    fn new(inner: A) -> Self {
        Self {
            inner,
            keys: HashMap::new(),
            is_text: false,
        }
    }

    fn next(&mut self) -> Result<Option<Text<'de>>, A::Error> {
        let Some(key) = self.inner.next_key::<Text<'de>>()? else {
            return Ok(None);
        };
        let common = fold::common(&key);
        self.is_text = TEXTS.contains(&common.as_str());
        if let Some(first) = self.keys.insert(common, key.clone()) {
            let told = format!("duplicate key {:?}, beside {:?}", &*key, &*first);
            return Err(serde::de::Error::custom(told));
        }
        Ok(Some(key))
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Unique<'de, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let Some(Text(key)) = self.next()? else {
            return Ok(None);
        };
        match key {
            Cow::Borrowed(key) => seed.deserialize(BorrowedStrDeserializer::new(key)),
            Cow::Owned(key) => seed.deserialize(key.into_deserializer()),
        }
        .map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        if !self.is_text {
            return self.inner.next_value_seed(seed);
        }
        match self.inner.next_value::<Text<'de>>()?.0 {
            Cow::Borrowed(value) => seed.deserialize(BorrowedStrDeserializer::new(value)),
            Cow::Owned(value) => seed.deserialize(value.into_deserializer()),
        }
    }
}

/// What is text in every document, known or not.
const TEXTS: [&str; 3] = ["schema", "package", "name"];

/// `null` is the same as a field that is not there: for what is not read by [`super::fold`], which knows that by itself.
pub(in crate::olm) fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Whatever is there, `null` as well, of which an `Option` would make nothing.
pub(super) fn raw<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

/// Bytes, which Go reads from base64 and from a list of numbers, as base64.
fn base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Text<'de>, D::Error> {
    deserializer.deserialize_any(Bytes)
}

struct Bytes;

impl<'de> Visitor<'de> for Bytes {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text in base64")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Text<'de>, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = items.next_element::<u8>()? {
            bytes.push(byte);
        }
        Ok(Text(Cow::Owned(STANDARD.encode(bytes))))
    }
}

/// `olm.package`, as a property.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PackageVersion<'a> {
    /// The package's name.
    #[serde(borrow, default)]
    pub package_name: Text<'a>,
    /// A semantic version.
    #[serde(borrow, default)]
    pub version: Text<'a>,
    /// Tells two builds of one version apart.
    #[serde(borrow, default)]
    pub release: Text<'a>,
}

/// `olm.package.required`, as a property.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PackageRequired<'a> {
    /// The package's name.
    #[serde(borrow, default)]
    pub package_name: Text<'a>,
    /// See [`super::range`].
    #[serde(borrow, default)]
    pub version_range: Text<'a>,
}

/// `olm.gvk` and `olm.gvk.required`, as properties.
#[derive(Debug, Deserialize)]
pub struct Gvk<'a> {
    /// Such as `roadstead.dev`.
    #[serde(borrow, default)]
    pub group: Text<'a>,
    /// Such as `Database`.
    #[serde(borrow, default)]
    pub kind: Text<'a>,
    /// Such as `v1`.
    #[serde(borrow, default)]
    pub version: Text<'a>,
}

/// The type of a property that holds a manifest.
pub const OBJECT: &str = "olm.bundle.object";

/// `olm.bundle.object`, as a property.
#[derive(Debug, Deserialize)]
pub struct Object<'a> {
    /// A manifest, in base64.
    #[serde(borrow, default, deserialize_with = "base64")]
    pub data: Text<'a>,
}

/// `olm.channel`, as a property: internal to upstream, which reads it all the same.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChannelProperty<'a> {
    /// The channel's name.
    #[serde(borrow, default)]
    pub channel_name: Text<'a>,
    /// Which of several channels comes first.
    #[serde(default)]
    pub priority: i64,
}
