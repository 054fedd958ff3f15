//! PostgreSQL's settings: which are the user's to make, and what a value may be.
//!
//! Those in [`OWNED`] are the operator's because a promise rests on them: where the server is found, who may log in, how instances
//! follow each other, what an acknowledged commit means, and what the operator reads back.

mod known;
mod table;

use super::limits::{MAX_IDENTIFIER, MAX_VALUE};
pub use known::settings_of;
pub(super) use known::unknown;

/// Settings that only the operator makes, by what rests on them.
pub(super) const OWNED: [&str; 88] = [
    // Files, and directives that read files.
    "config_file",
    "data_directory",
    "dynamic_library_path",
    "external_pid_file",
    "extension_control_path",
    "hba_file",
    "ident_file",
    "include",
    "include_dir",
    "include_if_exists",
    "jit_provider",
    // Where clients find it. The operator's own connections are reserved ones.
    "bonjour",
    "bonjour_name",
    "listen_addresses",
    "port",
    "reserved_connections",
    "superuser_reserved_connections",
    "unix_socket_directories",
    "unix_socket_group",
    "unix_socket_permissions",
    // Who may log in: SCRAM only, and see the prefix ssl.
    "db_user_namespace",
    "gss_accept_delegation",
    "krb_caseins_users",
    "krb_server_keyfile",
    "oauth_validator_libraries",
    "password_encryption",
    "role",
    "session_authorization",
    // How instances follow each other and recover; see the prefixes archive_ and recovery_target.
    "cluster_name",
    "hot_standby",
    "max_wal_senders",
    "primary_conninfo",
    "primary_slot_name",
    "promote_trigger_file",
    "recovery_end_command",
    "recovery_min_apply_delay",
    "restart_after_crash",
    "restore_command",
    "sync_replication_slots",
    "synchronized_standby_slots",
    "wal_level",
    "wal_log_hints",
    "wal_receiver_status_interval",
    "wal_receiver_timeout",
    "wal_retrieve_retry_interval",
    "wal_sender_timeout",
    // What an acknowledged commit means: spec.synchronous says.
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "synchronous_standby_names",
    "data_sync_retry",
    "ignore_checksum_failure",
    "ignore_invalid_pages",
    "zero_damaged_pages",
    // ALTER SYSTEM would go around this list.
    "allow_alter_system",
    "allow_in_place_tablespaces",
    // The log is read back, by its English words.
    "event_source",
    "lc_messages",
    "log_destination",
    "log_directory",
    "log_file_mode",
    "log_filename",
    "log_line_prefix",
    "log_min_messages",
    "log_rotation_age",
    "log_rotation_size",
    "log_timezone",
    "log_truncate_on_rotation",
    "logging_collector",
    "stats_temp_directory",
    // What PostgreSQL only shows, and a server that is told does not start.
    "block_size",
    "data_checksums",
    "data_directory_mode",
    "debug_assertions",
    "in_hot_standby",
    "integer_datetimes",
    "is_superuser",
    "max_function_args",
    "max_identifier_length",
    "max_index_keys",
    "segment_size",
    "server_encoding",
    "server_version",
    "server_version_num",
    "shared_memory_size",
    "shared_memory_size_in_huge_pages",
    "wal_block_size",
    "wal_segment_size",
];
/// Beginnings of such settings.
pub(super) const OWNED_PREFIXES: [&str; 5] = ["archive_", "recovery_target", "roadstead.", "ssl", "syslog_"];
/// Lists of libraries that the server loads: names, and no paths.
const LIBRARIES: [&str; 3] = [
    "local_preload_libraries",
    "session_preload_libraries",
    "shared_preload_libraries",
];

/// Settings that are numbers, with which PostgreSQL does not start outside of these bounds, given what the operator sets besides; and why.
pub(super) const BOUNDED: [(&str, u32, u32, &str); 5] = [
    // Of all that follow and a few more, the server has 262143.
    ("autovacuum_max_workers", 1, 20_000, PROCESSES),
    ("autovacuum_worker_slots", 1, 20_000, PROCESSES),
    ("max_connections", 9, 200_000, RESERVED),
    (
        "max_files_per_process",
        100,
        1_000_000,
        "it needs some for itself",
    ),
    ("max_worker_processes", 0, 20_000, PROCESSES),
];
const PROCESSES: &str = "PostgreSQL has room for 262143 processes in all";
/// `superuser_reserved_connections`, which have to be less than all.
const RESERVED: &str = "8 are kept for superusers, and the operator is one";

/// The least that there may be of WAL: two segments.
const MIN_WAL: u64 = 32 * MIB;
/// The least of `shared_buffers`.
const MIN_BUFFERS: u64 = 128 * KIB;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// What is accepted of one of [`BOUNDED`], in words.
pub(super) fn between(least: u32, most: u32, why: &str) -> String {
    format!("a whole number from {least} to {most}, in digits: {why}")
}

/// What a number of [`BOUNDED`] looks like, in the language of CEL. Other ways to write it, as octal, say, PostgreSQL would read otherwise.
pub(super) const DIGITS_PATTERN: &str = "^(0|[1-9][0-9]{0,8})$";

/// What an instance has, by which some settings are judged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    /// The limit on its memory in bytes, if there is one.
    pub memory: Option<u64>,
    /// Whether it may use huge pages.
    pub huge_pages: bool,
}

/// What [`is_name`] accepts, in words.
pub(super) const NAME: &str = "a setting such as work_mem or pg_stat_statements.track: at most 63 of a-z, 0-9 and '_', in lower case, with dots between names";
/// What is asked of a setting that [`is_owned`].
pub(super) const LEFT_OUT: &str = "left out: the operator owns this setting";
/// What [`is_value`] accepts, in words.
pub(super) const VALUE: &str =
    "at most 1000 characters of ASCII on one line, without single quotes and backslashes";
/// What a list of libraries accepts, in words.
pub(super) const LIBRARY_NAMES: &str =
    "names of libraries, such as pg_stat_statements, with commas between them and without paths";

/// What [`is_value`] accepts, in the language of CEL.
pub(super) const VALUE_PATTERN: &str = r"^[ -&(-\\[\\]-~]*$";

/// The name of a setting. PostgreSQL ignores case, and so could hide an owned one from a comparison.
pub(super) fn is_name(text: &str) -> bool {
    let is_word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
            && word
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    text.len() <= MAX_IDENTIFIER && text.split('.').all(is_word)
}

/// Whether the operator makes this setting.
pub(super) fn is_owned(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    OWNED.contains(&name.as_str()) || OWNED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a value stays on its line and inside its quotes, whoever writes them around it.
pub(super) fn is_value(text: &str) -> bool {
    text.len() <= MAX_VALUE
        && text
            .bytes()
            .all(|b| matches!(b, b' '..=b'~') && !b"'\\".contains(&b))
}

/// What is asked of the value of this setting beyond that, if it is not met. Without it PostgreSQL would not start, and a primary is among the first to be
/// started again.
pub(super) fn objection(name: &str, value: &str, room: Room) -> Option<String> {
    if let Some((_, least, most, why)) = BOUNDED.iter().find(|(bounded, ..)| *bounded == name) {
        let fits = whole_number(value).is_some_and(|number| (*least..=*most).contains(&number));
        return (!fits).then(|| between(*least, *most, why));
    }
    match name {
        "min_wal_size" | "max_wal_size" => {
            let fits = size(value, MIB).is_some_and(|bytes| bytes >= MIN_WAL);
            (!fits).then(|| "a size such as 256MB, of two segments of WAL (32MB) at least".to_owned())
        }
        "shared_buffers" => {
            let most = room.memory.filter(|_| !room.huge_pages);
            let fits = size(value, 8 * KIB)
                .is_some_and(|bytes| bytes >= MIN_BUFFERS && most.is_none_or(|most| bytes <= most));
            let most = most.map_or_else(String::new, |most| {
                format!(" and at most the memory of an instance, {}MB", most / MIB)
            });
            (!fits).then(|| format!("a size such as 256MB, at least 128kB{most}"))
        }
        "huge_pages" => {
            let asks = ["on", "true", "yes", "1"].contains(&value.to_ascii_lowercase().as_str());
            (asks && !room.huge_pages)
                .then(|| "off or try where spec.resources.limits has no huge pages".to_owned())
        }
        name if LIBRARIES.contains(&name) => {
            let mut libraries = value.split(',').map(str::trim);
            let fits = value.is_empty() || libraries.all(is_library);
            (!fits).then(|| LIBRARY_NAMES.to_owned())
        }
        _ => None,
    }
}

fn is_library(library: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"_-$".contains(&b);
    !library.is_empty() && library.bytes().all(fits)
}

/// As [`DIGITS_PATTERN`] has it.
fn whole_number(text: &str) -> Option<u32> {
    let is_plain = text == "0" || text.len() <= 9 && !text.starts_with('0');
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain && digits)
}

/// A size as PostgreSQL reads it, in bytes: a bare number counts so many each.
fn size(text: &str, bare: u64) -> Option<u64> {
    let text = text.trim();
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let end = text.find(|c| !is_number(c)).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = match unit.trim() {
        "" => bare,
        "B" => 1,
        "kB" => KIB,
        "MB" => MIB,
        "GB" => MIB << 10,
        "TB" => MIB << 20,
        _ => return None,
    };
    let (whole, rest) = number.split_once('.').unwrap_or((number, ""));
    let part = match rest.get(..1) {
        // A tenth is exact enough.
        Some(tenth) => unit / 10 * tenth.parse::<u64>().ok()?,
        None => 0,
    };
    whole.parse::<u64>().ok()?.checked_mul(unit)?.checked_add(part)
}
