//! How one instance finds another: libpq's connection strings. Pure.

use super::options::Options;
use crate::api::database::agent::{Member, REPLICATION_USER};

/// What a connection to another instance is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To receive its write-ahead log.
    Replication,
    /// To copy its data.
    BaseBackup,
    /// To look for where both parted.
    Rewind,
}

/// The connection string to the instance at `host`.
///
/// A connection that lost its way is noticed within about 15 s where the protocol itself does not notice it.
pub fn render(options: &Options, host: &str, purpose: Purpose) -> String {
    let tls = |name: &str| options.certificates().join(name).display().to_string();
    let port = options.port.to_string();
    // A copy must not go by the name of the replica: it confirms what it has written, and a commit that waits for a replica of this name would take that
    // for a promise, which it is not before the copy is whole.
    let application = match purpose {
        Purpose::Replication => options.name.clone(),
        Purpose::BaseBackup => format!("{}-join", options.name),
        Purpose::Rewind => format!("{}-rewind", options.name),
    };
    let (authority, certificate, key) = (tls("trusted.crt"), tls("tls.crt"), tls("tls.key"));
    let mut pairs = vec![
        ("host", host),
        ("port", &port),
        ("user", REPLICATION_USER),
        ("application_name", &application),
        ("sslmode", "verify-ca"),
        ("sslrootcert", &authority),
        ("sslcert", &certificate),
        ("sslkey", &key),
        ("gssencmode", "disable"),
        ("connect_timeout", "3"),
        ("keepalives", "1"),
        ("keepalives_idle", "5"),
        ("keepalives_interval", "3"),
        ("keepalives_count", "3"),
        ("tcp_user_timeout", "15000"),
    ];
    match purpose {
        Purpose::Replication => {}
        // It writes to disk while it receives, and begins from nothing if the primary gives it up.
        Purpose::BaseBackup => pairs.push(("options", "-c wal_sender_timeout=60s")),
        Purpose::Rewind => pairs.extend([
            ("dbname", "postgres"),
            ("options", "-c search_path=pg_catalog -c idle_session_timeout=0"),
        ]),
    }
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(key, value)| format!("{key}={}", quote(value)))
        .collect();
    pairs.join(" ")
}

/// The member to which a connection string leads.
pub fn member<'a>(conninfo: &str, members: &'a [Member]) -> Option<&'a Member> {
    let host = value(conninfo, "host")?;
    members.iter().find(|member| member.host == host)
}

/// A value of a connection string.
fn quote(value: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_./:".contains(&b);
    if !value.is_empty() && value.bytes().all(plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\\', r"\\").replace('\'', r"\'"))
}

/// What a connection string says of a key.
fn value(conninfo: &str, wanted: &str) -> Option<String> {
    let mut rest = conninfo.trim_start();
    while let Some((key, after)) = rest.split_once('=') {
        let (value, after) = read_value(after.trim_start());
        if key.trim_end() == wanted {
            return Some(value);
        }
        rest = after.trim_start();
    }
    None
}

fn read_value(text: &str) -> (String, &str) {
    let (quoted, text) = text.strip_prefix('\'').map_or((false, text), |text| (true, text));
    let (mut value, mut escaped) = (String::new(), false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => {
                value.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '\'' if quoted => return (value, &text[at + 1..]),
            c if !quoted && c.is_whitespace() => return (value, &text[at..]),
            c => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_quoted_is_read(value in "\\PC*", other in "\\PC*") {
            let text = format!("a={} b = {}  host={}", quote(&other), quote(&other), quote(&value));
            prop_assert_eq!(super::value(&text, "host"), Some(value));
        }
    }

    fn options() -> Options {
        Options {
            name: "orders-1".to_owned(),
            ..Options::default()
        }
    }

    #[test]
    fn a_connection_leads_to_the_member_that_it_was_made_for() {
        let members = ["orders-0", "orders-1"].map(|name| Member {
            name: name.to_owned(),
            host: format!("{name}.orders-instances.shop.svc.cluster.local"),
        });
        let conninfo = render(&options(), &members[1].host, Purpose::Replication);
        assert_eq!(member(&conninfo, &members), Some(&members[1]));
        assert_eq!(member("", &members), None);
        assert_eq!(member("hostaddr=orders-0", &members), None);
    }

    #[test]
    fn a_copy_in_the_making_does_not_go_by_the_name_of_the_replica() {
        let name = |purpose| value(&render(&options(), "a", purpose), "application_name").unwrap();
        assert_eq!(name(Purpose::Replication), "orders-1");
        assert_ne!(name(Purpose::BaseBackup), "orders-1");
        assert_ne!(name(Purpose::Rewind), "orders-1");
    }
}
