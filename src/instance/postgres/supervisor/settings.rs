//! The settings as they are mounted, and the certificates beside them.

use std::io;

use jiff::Timestamp;

use super::super::options::Options;
use crate::api::database::agent::{Settings, settings_hash};

/// The settings, and what names them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Mounted {
    pub(super) settings: Settings,
    pub(super) hash: String,
}

/// Why the settings are of no use.
#[derive(Debug, thiserror::Error)]
pub(super) enum SettingsError {
    #[error("cannot read {path}: {source}")]
    Read { path: String, source: io::Error },
    #[error("{path} is not what an operator writes: {source}")]
    Malformed { path: String, source: serde_json::Error },
    #[error("{path} names no instance '{name}'; it names {members}")]
    NotAMember {
        path: String,
        name: String,
        members: String,
    },
}

/// Reads them, at this time by the operator's clock, which is the API server's.
pub(super) fn read(options: &Options, now: Timestamp) -> Result<Mounted, SettingsError> {
    let file = options.settings_file();
    let path = file.display().to_string();
    let text = std::fs::read(&file).map_err(|source| SettingsError::Read {
        path: path.clone(),
        source,
    })?;
    let mut settings: Settings =
        serde_json::from_slice(&text).map_err(|source| SettingsError::Malformed {
            path: path.clone(),
            source,
        })?;
    if !settings.has_member(&options.name) {
        let members: Vec<_> = settings
            .members
            .iter()
            .map(|member| member.name.as_str())
            .collect();
        return Err(SettingsError::NotAMember {
            path,
            name: options.name.clone(),
            members: members.join(", "),
        });
    }
    if settings.excused_until.is_none_or(|until| until <= now) {
        settings.excused.clear();
    }
    Ok(Mounted {
        hash: settings_hash(&text),
        settings,
    })
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use rstest::rstest;

    use super::*;
    use crate::api::database::agent::Member;

    #[rstest]
    #[case::still(Some(60), true)]
    #[case::no_more(Some(-1), false)]
    #[case::without_an_end(None, false)]
    fn nobody_is_excused_for_longer_than_the_operator_said(
        #[case] seconds: Option<i64>,
        #[case] expected: bool,
    ) {
        let now = Timestamp::UNIX_EPOCH;
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            name: "orders-0".to_owned(),
            settings: folder.path().to_owned(),
            ..Options::default()
        };
        let member = Member {
            name: options.name.clone(),
            ..Member::default()
        };
        let settings = Settings {
            members: vec![member],
            excused: ["orders-1".to_owned()].into(),
            excused_until: seconds.map(|seconds| now + SignedDuration::from_secs(seconds)),
            ..Settings::default()
        };
        std::fs::write(options.settings_file(), serde_json::to_vec(&settings).unwrap()).unwrap();
        let excused = read(&options, now).unwrap().settings.excused;
        assert_eq!(excused.contains("orders-1"), expected);
    }
}
