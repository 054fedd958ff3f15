//! What the operator and the agent in its pods agree on.

use serde::{Deserialize, Serialize};

use crate::api::text::sha256_hex;

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
    sha256_hex(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_an_older_agent_is_understood() {
        let report: Report = serde_json::from_str(r#"{"config": "ab", "uptime": 3}"#).unwrap();
        assert_eq!((report.config.as_deref(), report.mounted), (Some("ab"), None));
    }
}
