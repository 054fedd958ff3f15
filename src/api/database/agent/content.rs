//! What instances are told of users and databases. No password is part of it: the primary reads those from the Secrets that are named.

use serde::{Deserialize, Serialize};

use crate::api::reference::KeyReference;

/// How many texts of [`super::Report::unmade`] there are at most.
pub const MAX_UNMADE: usize = 20;
/// The longest of them, in bytes.
pub const MAX_UNMADE_TEXT: usize = 300;

/// A role of PostgreSQL besides the owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct User {
    /// The role's name.
    pub name: String,
    /// Where its password is; it has none if this is none.
    pub password_secret: Option<KeyReference>,
    /// Whether it may log in.
    pub login: bool,
    /// Whether it may create databases.
    pub create_database: bool,
    /// Whether it may create roles.
    pub create_role: bool,
    /// The roles whose rights it has too, and no others.
    pub member_of: Vec<String>,
    /// How many connections it may have at once, if that is limited.
    pub connection_limit: Option<i32>,
}

/// A database inside the Database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LogicalDatabase {
    /// Its name.
    pub name: String,
    /// The role that owns it.
    pub owner: String,
    /// What it has, among others.
    pub extensions: Vec<Extension>,
}

/// An extension of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Extension {
    /// Its name.
    pub name: String,
    /// Its version; the newest, and then whichever is there, if this is none.
    pub version: Option<String>,
}
