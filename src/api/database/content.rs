//! What is inside a database when it begins: users, databases, extensions. Part of [`super::v1`].

use kube::KubeSchema;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::cel;
use super::limits::{MAX_CONNECTIONS, MAX_EXTENSIONS, MAX_IDENTIFIER, MAX_MEMBER_OF};
use crate::api::reference::KeyReference;

/// Each user is a role of PostgreSQL.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = cel::groups())]
pub struct User {
    /// Name of the role: at most 63 letters, digits, '_' and '-', beginning with a letter or '_'.
    #[schemars(length(min = 1, max = MAX_IDENTIFIER))]
    #[x_kube(validation = cel::identifier(), validation = cel::identifier_is_free())]
    pub name: String,

    /// The Secret with the user's password, which follows the Secret. The default is none: no login by password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_secret: Option<KeyReference>,

    /// Whether the user may log in. The default is true.
    #[serde(default = "yes")]
    pub login: bool,

    /// Whether the user may create databases. The default is false.
    #[serde(default)]
    pub create_database: bool,

    /// Whether the user may create other users, from PostgreSQL 16 on. The default is false.
    #[serde(default)]
    pub create_role: bool,

    /// Roles whose rights the user has too, at most 16: other users, the owner, or roles of PostgreSQL such as pg_monitor. The default is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "roles")]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub member_of: Vec<String>,

    /// How many connections the user may have at once, from 0 to 262143. The default is none: no limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_CONNECTIONS))]
    pub connection_limit: Option<i32>,
}

/// For what is on unless its author says otherwise.
pub(super) fn yes() -> bool {
    true
}

fn roles(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "maxItems": MAX_MEMBER_OF, "items": {
        "type": "string", "minLength": 1, "maxLength": MAX_IDENTIFIER,
        "description": "Each is the name of a role, at most 63 characters.",
    }})
}

/// Each database has an owner and extensions.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogicalDatabase {
    /// Name of the database: at most 63 letters, digits, '_' and '-', beginning with a letter or '_'.
    #[schemars(length(min = 1, max = MAX_IDENTIFIER))]
    #[x_kube(validation = cel::identifier(), validation = cel::identifier_is_free())]
    pub name: String,

    /// The user that owns it, at most 63 characters: one of the users. The default is the owner, which is named as this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_IDENTIFIER))]
    pub owner: Option<String>,

    /// Extensions of the database, at most 32. The default is none. One that is taken out of the list stays in the database.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_EXTENSIONS))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub extensions: Vec<Extension>,
}

/// Each extension has to be in the image.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Extension {
    /// Name of the extension, at most 63 characters, such as pg_trgm.
    #[schemars(length(min = 1, max = MAX_IDENTIFIER))]
    #[x_kube(validation = cel::extension())]
    pub name: String,

    /// Version of the extension, at most 63 characters. The default is the newest in the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_IDENTIFIER))]
    #[x_kube(validation = cel::extension_version())]
    pub version: Option<String>,
}
