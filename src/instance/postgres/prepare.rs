//! The statements that make what every primary has. Pure, and each of them may be repeated.

use super::session::{SqlError, identifier, literal};
use crate::api::database::agent::REPLICATION_USER;

/// The role by which instances replicate, and what pg_rewind needs beyond that. It has no password: it logs in by certificate.
pub(super) const REPLICATION: &str = "DO $$ BEGIN \
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'roadstead_replication') THEN \
        CREATE ROLE roadstead_replication; \
    END IF; END $$; \
    ALTER ROLE roadstead_replication LOGIN REPLICATION NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD NULL; \
    GRANT EXECUTE ON FUNCTION pg_catalog.pg_ls_dir(text, boolean, boolean) TO roadstead_replication; \
    GRANT EXECUTE ON FUNCTION pg_catalog.pg_stat_file(text, boolean) TO roadstead_replication; \
    GRANT EXECUTE ON FUNCTION pg_catalog.pg_read_binary_file(text) TO roadstead_replication; \
    GRANT EXECUTE ON FUNCTION pg_catalog.pg_read_binary_file(text, bigint, bigint, boolean) TO roadstead_replication";
const _: () = assert!(matches!(REPLICATION_USER.as_bytes(), b"roadstead_replication"));

/// The table with one row, and who must not touch it.
pub(super) const HEARTBEAT: &str = "CREATE SCHEMA IF NOT EXISTS roadstead; \
    REVOKE ALL ON SCHEMA roadstead FROM PUBLIC; \
    CREATE TABLE IF NOT EXISTS roadstead.heartbeat (id integer PRIMARY KEY CHECK (id = 1), at timestamptz NOT NULL); \
    INSERT INTO roadstead.heartbeat VALUES (1, clock_timestamp()) ON CONFLICT DO NOTHING";

/// A write that changes nothing for anybody.
pub(super) const BEAT: &str = "INSERT INTO roadstead.heartbeat VALUES (1, clock_timestamp()) \
    ON CONFLICT (id) DO UPDATE SET at = excluded.at";

/// Makes the owner, without a password yet.
pub(super) fn owner(name: &str) -> Result<String, SqlError> {
    let (text, name) = (literal(name), identifier(name)?);
    // In one function with the name as an argument, since a name within `DO` would be a text within a text.
    let create = literal(&format!("CREATE ROLE {name} LOGIN"));
    let found = format!("EXISTS (SELECT FROM pg_roles WHERE rolname = {text})");
    Ok(format!(
        "DO {}",
        literal(&format!(
            "BEGIN IF NOT {found} THEN EXECUTE {create}; END IF; END"
        ))
    ))
}

/// Gives a role a password, as what it can be verified with.
pub(super) fn password(name: &str, password: &str) -> Result<String, SqlError> {
    let verifier = postgres_protocol::password::scram_sha_256(password.as_bytes());
    Ok(format!(
        "ALTER ROLE {} PASSWORD {}",
        identifier(name)?,
        literal(&verifier)
    ))
}

/// One row if there is such a database.
pub(super) fn find_database(name: &str) -> String {
    format!("SELECT 1 FROM pg_database WHERE datname = {}", literal(name))
}

/// Makes a database.
pub(super) fn database(name: &str, owner: &str) -> Result<String, SqlError> {
    let (name, owner) = (identifier(name)?, identifier(owner)?);
    Ok(format!("CREATE DATABASE {name} OWNER {owner} TEMPLATE template0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_told() {
        let statement = password("orders", "s3cret'pass").unwrap();
        assert!(
            statement.starts_with("ALTER ROLE \"orders\" PASSWORD 'SCRAM-SHA-256$4096:"),
            "{statement}"
        );
        assert!(!statement.contains("s3cret"), "{statement}");
    }
}
