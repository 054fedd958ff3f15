//! What PostgreSQL goes by: its settings, who may log in, and which user of the system is which role. Pure.

use std::io;

use super::conninfo::{self, Purpose};
use super::files;
use super::options::Options;
use crate::api::database::agent::{Member, Quorum, REPLICATION_USER, Settings};

/// The map of `pg_ident.conf`.
const MAP: &str = "roadstead";

/// PostgreSQL's files of configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// The settings.
    pub postgresql_conf: String,
    /// Who may log in from where, and how.
    pub pg_hba: String,
    /// Which user of the system is which role.
    pub pg_ident: String,
}

impl Files {
    /// Writes what has changed to the run folder; true if anything has, so that PostgreSQL has to read it.
    ///
    /// # Errors
    /// When the run folder cannot be written.
    pub fn write(&self, options: &Options) -> io::Result<bool> {
        files::make_folder(&options.run, options.user)?;
        let mut changed = false;
        for (path, content) in [
            (options.pg_hba(), &self.pg_hba),
            (options.pg_ident(), &self.pg_ident),
            (options.postgresql_conf(), &self.postgresql_conf),
        ] {
            changed |= files::write_if_changed(&path, content, options.user)?;
        }
        Ok(changed)
    }
}

/// Says what PostgreSQL is to go by: whom it follows if it is a replica, and what its commits wait for if it is the primary.
pub fn render(
    settings: &Settings,
    options: &Options,
    upstream: Option<&Member>,
    quorum: Option<&Quorum>,
) -> Files {
    Files {
        postgresql_conf: postgresql_conf(settings, options, upstream, quorum),
        pg_hba: pg_hba(settings),
        // Whoever gets to the socket, which nobody else may open (`unix_socket_permissions`), is the user of the container. What it is called is the image's business.
        pg_ident: format!("{MAP} /^.*$ postgres\n"),
    }
}

/// Where one setting is made twice, PostgreSQL goes by the last.
fn postgresql_conf(
    settings: &Settings,
    options: &Options,
    upstream: Option<&Member>,
    quorum: Option<&Quorum>,
) -> String {
    let mut lines = vec!["# Written by roadstead; changes are lost.".to_owned()];
    let mut set = |name: &str, value: &str| lines.push(format!("{name} = {}", quote(value)));
    for (name, value) in &settings.parameters {
        if is_name(name) {
            set(name, value);
        }
    }
    let tls = |name: &str| options.certificates().join(name).display().to_string();
    let run = options.run.display().to_string();
    let address = options
        .address
        .map_or_else(|| "*".to_owned(), |address| address.to_string());
    let conninfo = upstream.map(|upstream| conninfo::render(options, &upstream.host, Purpose::Replication));
    for (name, value) in [
        ("listen_addresses", address.as_str()),
        ("port", &options.port.to_string()),
        ("unix_socket_directories", &run),
        ("unix_socket_permissions", "0700"),
        // A superuser alone may use these, and so many can be ours at once: to observe, to write the heartbeat, what every primary has, what is declared (two), the
        // first write of clients' kind, and one more while either of the first two is made anew.
        ("superuser_reserved_connections", "8"),
        ("cluster_name", &options.name),
        // Instances always talk over TLS, whatever clients do.
        ("ssl", "on"),
        ("ssl_ca_file", &tls("ca.crt")),
        ("ssl_cert_file", &tls("server.crt")),
        ("ssl_key_file", &tls("server.key")),
        ("password_encryption", "scram-sha-256"),
        ("wal_level", "replica"),
        // Without it, or checksums, nothing can be rewound.
        ("wal_log_hints", "on"),
        ("hot_standby", "on"),
        ("max_wal_senders", "20"),
        ("wal_sender_timeout", "5s"),
        ("wal_receiver_timeout", "5s"),
        ("wal_receiver_status_interval", "1s"),
        ("wal_retrieve_retry_interval", "500ms"),
        ("primary_conninfo", conninfo.as_deref().unwrap_or_default()),
        ("primary_slot_name", ""),
        ("recovery_target_timeline", "latest"),
        ("restore_command", ""),
        ("archive_mode", "off"),
        // A server that lost a process ends, and somebody may take over instead.
        ("restart_after_crash", "off"),
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("synchronous_commit", "on"),
        ("synchronous_standby_names", &standby_names(quorum)),
        // The container's log.
        ("log_destination", "stderr"),
        ("logging_collector", "off"),
        ("log_line_prefix", "%m [%p] %q%u@%d "),
    ] {
        set(name, value);
    }
    if settings.major >= 17 {
        // It would be lost at the next rewind, and go around what the operator owns.
        set("allow_alter_system", "off");
    }
    lines.push(String::new());
    lines.join("\n")
}

/// The first line that fits decides, and where none fits nobody may log in.
fn pg_hba(settings: &Settings) -> String {
    let clients = if settings.tls_required {
        "hostssl"
    } else if settings.tls {
        "host"
    } else {
        "hostnossl"
    };
    [
        "# Written by roadstead; changes are lost.".to_owned(),
        format!("local all postgres peer map={MAP}"),
        format!("hostssl replication,postgres {REPLICATION_USER} all cert"),
        // Whoever gives these a password does not open them to the network.
        format!("host all,replication postgres,{REPLICATION_USER} all reject"),
        format!("{clients} all all all scram-sha-256"),
        String::new(),
    ]
    .join("\n")
}

/// `ANY 1 ("orders-1", "orders-2")`; nothing if no commit waits.
fn standby_names(quorum: Option<&Quorum>) -> String {
    let Some(quorum) = quorum.filter(|quorum| !quorum.standbys.is_empty()) else {
        return String::new();
    };
    let names: Vec<_> = quorum
        .standbys
        .iter()
        .map(|name| format!("\"{}\"", name.replace('"', "\"\"")))
        .collect();
    format!("ANY {} ({})", quorum.need.max(1), names.join(", "))
}

/// What PostgreSQL says its commits wait for, if that is what [`render`] has written.
pub fn parse_standby_names(text: &str) -> Option<Quorum> {
    let (need, names) = text.strip_prefix("ANY ")?.strip_suffix(')')?.split_once(" (")?;
    let need = need.parse().ok()?;
    let name = |name: &str| {
        let name = name.strip_prefix('"')?.strip_suffix('"')?;
        Some(name.replace("\"\"", "\""))
    };
    let standbys = names.split(", ").map(name).collect::<Option<_>>()?;
    Some(Quorum { standbys, need })
}

/// Whether it is the name of a setting, and nothing more.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.')
}

/// A value in PostgreSQL's configuration, on one line whatever is in it.
fn quote(value: &str) -> String {
    let mut quoted = String::with_capacity(value.len() + 2);
    quoted.push('\'');
    for c in value.chars() {
        match c {
            '\'' => quoted.push_str("''"),
            '\\' => quoted.push_str(r"\\"),
            '\n' => quoted.push_str(r"\n"),
            '\r' => quoted.push_str(r"\r"),
            '\0' => {}
            c => quoted.push(c),
        }
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
