//! Names inside PostgreSQL, and of what a database refers to: what they look like, and which are taken.

use super::limits::{MAX_IDENTIFIER, MAX_MAJOR, MAX_NAME, MIN_MAJOR};
use crate::api::rules::is_label;

/// Roles and databases that PostgreSQL or the operator makes, and words that `CREATE ROLE` or pg_hba.conf read as something else than a name.
pub(super) const RESERVED: [&str; 11] = [
    "all",
    "none",
    "postgres",
    "public",
    "replication",
    "roadstead",
    "samegroup",
    "samerole",
    "sameuser",
    "template0",
    "template1",
];
/// What else no name begins with: PostgreSQL's own roles and the operator's.
pub(super) const RESERVED_PREFIXES: [&str; 2] = ["pg_", "roadstead_"];

/// PostgreSQL's own roles that give rights inside databases only. Those that read files or start programs would lead out of them.
pub(super) const PREDEFINED_ROLES: [&str; 12] = [
    "pg_checkpoint",
    "pg_create_subscription",
    "pg_maintain",
    "pg_monitor",
    "pg_read_all_data",
    "pg_read_all_settings",
    "pg_read_all_stats",
    "pg_signal_autovacuum_worker",
    "pg_signal_backend",
    "pg_stat_scan_tables",
    "pg_use_reserved_connections",
    "pg_write_all_data",
];

/// What [`is_database_name`] accepts, in words.
pub(super) const NAME: &str = "a DNS label of at most 52 characters, since the objects derived from it add up to 11 and may have 63: \
     a-z, 0-9 and '-', beginning with a letter and not ending in '-'";
/// What is asked of a name besides its form.
pub(super) const UNRESERVED: &str = "unlike the names that PostgreSQL and the operator keep for themselves: all, none, postgres, public, replication, \
     roadstead, samegroup, samerole, sameuser, template0, template1, and what begins with pg_ or roadstead_";
/// What [`is_identifier`] accepts, in words.
pub(super) const IDENTIFIER: &str =
    "at most 63 of letters, digits, '_' and '-', beginning with a letter or '_'";
/// What [`is_extension`] accepts, in words.
pub(super) const EXTENSION: &str =
    "the name of an extension such as pg_trgm: at most 63 of a-z, 0-9, '_' and '-', beginning with a letter";
/// What [`is_extension_version`] accepts, in words.
pub(super) const EXTENSION_VERSION: &str = "a version such as 1.6: at most 63 of letters, digits, '.', '_' and '-', beginning with a letter or digit";
/// What [`major`] accepts, in words.
pub(super) const VERSION: &str = "a version of PostgreSQL from 14 to 18, such as \"17\" or \"17.6\"";
/// What a Secret's name is to be, in words.
pub(super) const SECRET: &str = "the name of a Secret in the same namespace";

/// The same in the language of CEL.
pub(super) mod pattern {
    pub(in super::super) const VERSION: &str = "^1[4-8](\\\\.[0-9]{1,2})?$";
    pub(in super::super) const LABEL: &str = "^[a-z]([-a-z0-9]*[a-z0-9])?$";
    pub(in super::super) const IDENTIFIER: &str = "^[A-Za-z_][A-Za-z0-9_-]*$";
    pub(in super::super) const EXTENSION: &str = "^[a-z][a-z0-9_-]*$";
    pub(in super::super) const EXTENSION_VERSION: &str = "^[A-Za-z0-9][A-Za-z0-9._-]*$";
}

/// Whether the objects derived from a Database of this name can be made.
pub(super) fn is_database_name(text: &str) -> bool {
    text.len() <= MAX_NAME && is_label(text)
}

/// Whether somebody else already has it, or it means something else.
pub(super) fn is_reserved(text: &str) -> bool {
    RESERVED.contains(&text) || RESERVED_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
}

/// The major version of `MAJOR` or `MAJOR.MINOR`, if it is one that works.
pub(super) fn major(text: &str) -> Option<u32> {
    let is_number = |text: &str| (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
    let major = (is_number(major) && is_number(minor))
        .then(|| major.parse().ok())
        .flatten()?;
    (MIN_MAJOR..=MAX_MAJOR).contains(&major).then_some(major)
}

/// The name of a role or a database. PostgreSQL takes more, but these need no escape anywhere: not in SQL, a connection string, a
/// file of passwords or pg_hba.conf.
pub(super) fn is_identifier(text: &str) -> bool {
    text.len() <= MAX_IDENTIFIER
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
}

/// The name of an extension, which names files too.
pub(super) fn is_extension(text: &str) -> bool {
    is_identifier(text)
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && !text.bytes().any(|b| b.is_ascii_uppercase())
}

/// The version of an extension, which names files too.
pub(super) fn is_extension_version(text: &str) -> bool {
    text.len() <= MAX_IDENTIFIER
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}
