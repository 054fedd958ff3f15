//! What the operator and the agent in its pods agree on.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The exit code of a check that nginx refused the configuration of, as opposed to a check that could not be made.
pub const REFUSED: u8 = 3;
/// The longest reason that a container may leave behind, in bytes: what the kubelet keeps of a termination message.
pub const MAX_REASON: usize = 4096;
/// The port of a pod on which its agent answers over HTTP.
pub const PORT: u16 = 8081;
/// Where on that port it gives a [`Report`] as JSON.
pub const REPORT: &str = "/config";
/// More than a report can be, in bytes: its reason is at most [`MAX_REASON`] long, its other fields are hashes and numbers.
pub const MAX_REPORT: usize = 64 * 1024;

/// What an agent says of its nginx. A field that an older agent does not send is as if it knew nothing of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Names all that nginx serves from, certificate included; none before it has started.
    pub generation: Option<String>,
    /// The [`config_hash`] of what nginx serves; none if that is not known.
    pub config: Option<String>,
    /// The [`config_hash`] of the file that is mounted, which [`Self::refused`] is about; none if it cannot be read.
    pub mounted: Option<String>,
    /// Why the mounted files are not what is served, if nginx does not take them. At most [`MAX_REASON`] bytes.
    pub refused: Option<String>,
    /// Reloads that took effect.
    pub reloads: u64,
}

/// What names a configuration: the SHA-256 of `nginx.conf`, in hex.
pub fn config_hash(config: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(config))
}

/// Two lower-case digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// At most `bytes` long, cut between two characters.
pub fn shorten(text: &str, bytes: usize) -> String {
    text[..text.floor_char_boundary(bytes)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_cut_between_characters() {
        assert_eq!((shorten("aé", 2), shorten("aé", 9)), ("a".into(), "aé".into()));
    }

    #[test]
    fn a_configuration_is_named_as_sha256sum_does_it() {
        assert_eq!(
            config_hash("events {}\n"),
            "b2496c33033eadfe85d1dcdfea8cb6af5fb63033d3fd08898a5fd76199aa5443"
        );
    }

    #[test]
    fn a_report_of_an_older_agent_is_understood() {
        let report: Report = serde_json::from_str(r#"{"config": "ab", "uptime": 3}"#).unwrap();
        assert_eq!((report.config.as_deref(), report.mounted), (Some("ab"), None));
    }
}
