//! What a value of a rule may be.

use std::fmt::{self, Display, Formatter};

use serde_json::Value;

use crate::olm::manifests::text;

/// The type of a value. Quantities, addresses and the like are `Any`: nobody mistakes them for another.
#[derive(Debug, Clone, PartialEq)]
pub enum Type<'s> {
    /// Not known, or anything.
    Any,
    /// null
    Null,
    /// bool
    Bool,
    /// int
    Int,
    /// uint
    Uint,
    /// double
    Double,
    /// string
    String,
    /// bytes
    Bytes,
    /// duration
    Duration,
    /// timestamp
    Timestamp,
    /// A list, and of what.
    List(Box<Self>),
    /// A map with keys that are text, or not known, and to what.
    Map(Box<Self>),
    /// An object of a schema.
    Object(&'s Value),
    /// What every object has beside its schema.
    Resource(&'s Value),
    /// The metadata of an object, of which rules see only its names.
    Metadata,
}

/// Words that a field cannot be called by.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

impl<'s> Type<'s> {
    /// A list of `items`.
    pub fn list(items: Self) -> Self {
        Self::List(Box::new(items))
    }

    /// A map to `values`.
    pub fn map(values: Self) -> Self {
        Self::Map(Box::new(values))
    }

    /// What rules see of a value of this schema, if they see anything (`SchemaDeclType` of Kubernetes).
    pub fn of(schema: &'s Value, is_resource: bool) -> Option<Self> {
        if schema["x-kubernetes-int-or-string"] == true {
            return Some(Self::Any);
        }
        match text(schema, "/type") {
            _ if is_resource => Some(Self::Resource(schema)),
            "array" => Self::within(&schema["items"]).map(Self::list),
            "object" if schema["additionalProperties"].is_object() => {
                Self::within(&schema["additionalProperties"]).map(Self::map)
            }
            "object" => Some(Self::Object(schema)),
            "string" => Some(match text(schema, "/format") {
                "byte" => Self::Bytes,
                "duration" => Self::Duration,
                "date" | "date-time" => Self::Timestamp,
                _ => Self::String,
            }),
            "boolean" => Some(Self::Bool),
            "number" => Some(Self::Double),
            "integer" => Some(Self::Int),
            _ => None,
        }
    }

    /// The same of a schema within another, which may be that of an object of its own.
    fn within(schema: &'s Value) -> Option<Self> {
        Self::of(schema, schema["x-kubernetes-embedded-resource"] == true)
    }

    /// What `.name` of it is.
    ///
    /// # Errors
    /// It has none.
    pub fn field(&self, name: &str) -> Result<Self, String> {
        let properties = match self {
            Self::Any => return Ok(Self::Any),
            Self::Map(values) => return Ok(values.as_ref().clone()),
            Self::Metadata if ["name", "generateName"].contains(&name) => return Ok(Self::String),
            Self::Resource(_) if ["apiVersion", "kind"].contains(&name) => return Ok(Self::String),
            Self::Resource(_) if name == "metadata" => return Ok(Self::Metadata),
            Self::Object(schema) | Self::Resource(schema) => schema["properties"].as_object(),
            _ => None,
        };
        let named = properties
            .into_iter()
            .flatten()
            .find(|(property, _)| is_called(property, name));
        named
            .and_then(|(_, schema)| Self::within(schema))
            .ok_or_else(|| format!("{self} has no field {name}"))
    }

    /// Whether no value can be of both.
    pub fn is_apart(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any | Self::Null, _) | (_, Self::Any | Self::Null) => false,
            (Self::List(one), Self::List(other)) | (Self::Map(one), Self::Map(other)) => one.is_apart(other),
            // Objects are not told from one another, nor from maps as they stand in a rule
            (one, other) if one.is_object() && other.is_object() => false,
            (one, other) => one != other,
        }
    }

    fn is_object(&self) -> bool {
        matches!(
            self,
            Self::Map(_) | Self::Object(_) | Self::Resource(_) | Self::Metadata
        )
    }

    /// Whether it is a number, or may be one.
    pub fn is_numeric(&self) -> bool {
        matches!(self, Self::Any | Self::Int | Self::Uint | Self::Double)
    }
}

impl Display for Type<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "any value",
            Self::Null => "null",
            Self::Bool => "a bool",
            Self::Int => "an int",
            Self::Uint => "a uint",
            Self::Double => "a double",
            Self::String => "a string",
            Self::Bytes => "bytes",
            Self::Duration => "a duration",
            Self::Timestamp => "a timestamp",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
            Self::Object(_) | Self::Resource(_) => "an object of this schema",
            Self::Metadata => "metadata, of which rules see name and generateName,",
        })
    }
}

/// Whether a rule calls a property by this name. What is no name in CEL is written otherwise; names that need not be are taken as they are, too.
fn is_called(property: &str, name: &str) -> bool {
    if RESERVED.contains(&property) {
        return name == property || name == format!("__{property}__");
    }
    let escaped = property
        .replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__");
    name == escaped
}
