//! The next release: what must hold before there is one, and every file that it changes.

use std::path::{Path, PathBuf};

use semver::Version;

use super::{PACKAGE, bundle, deprecations, publish, tree};
use crate::olm::catalog::{Catalog, default_channels};
use crate::olm::{self, Tree};

/// Why a version cannot be released.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    #[error("version {version} is not higher than {highest}, which is released already")]
    NotHigher { version: Version, highest: Version },
    #[error(
        "version {version} has build metadata, which takes no part in the order of versions and may not stand in an image tag"
    )]
    BuildMetadata { version: Version },
    #[error(
        "CHANGELOG.md has no entry for {version}; write one under a line such as `## [{version}] - 2026-01-31`"
    )]
    NoEntry { version: Version },
    #[error(
        "CHANGELOG.md: the entry for {version} has no date; its first line must be like `## [{version}] - 2026-01-31`"
    )]
    NoDate { version: Version },
    #[error(
        "CHANGELOG.md: the entry for {version} is empty; say what changed, and any step that users must take by hand"
    )]
    EmptyEntry { version: Version },
    #[error("channel {channel} would still end in {head}, not in {bundle}: nobody in it would be upgraded")]
    Head {
        channel: String,
        head: String,
        bundle: String,
    },
    #[error(
        "catalog/ holds {version}, which CHANGELOG.md does not describe: it was never released, so take it out, as with `git checkout catalog`"
    )]
    NeverReleased { version: Version },
    #[error(
        "every channel of {version} holds a higher version already; name the channels that it shall end in with --channels"
    )]
    NoChannel { version: Version },
    #[error("{}: found no version of package {PACKAGE} to set", path.display())]
    NoVersionLine { path: PathBuf },
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Package(#[from] olm::Error),
}

/// Makes all files of a release, below the root of the repository, without writing any. Without `channels` it enters those of its
/// default channels that hold no higher version.
///
/// # Errors
/// [`Error`] says what speaks against the release.
pub fn prepare(root: &Path, version: &Version, channels: &[String]) -> Result<Tree, Error> {
    let mut catalog = Catalog::read(&root.join("catalog"), PACKAGE)?;
    check_version(version, &catalog)?;
    let changelog = read(root, "CHANGELOG.md")?;
    check_changelog(version, &changelog)?;
    check_pre_releases(version, &changelog, &catalog)?;
    catalog.check()?;
    let channels = if channels.is_empty() {
        own_channels(version, &catalog)?
    } else {
        channels.to_vec()
    };

    let mut files = tree(version)?;
    files.merge(bundle(&files, version, &catalog)?)?;
    publish(&mut catalog, &files, &channels)?;
    catalog.deprecate(deprecations::entries(deprecations::TABLE, &catalog)?);
    check_chain(version, &channels, &catalog)?;
    files.merge(catalog.tree(Path::new("catalog"))?)?;
    for (name, section) in [
        ("Cargo.toml", "[package]"),
        ("Cargo.lock", "name = \"roadstead\""),
    ] {
        let text = set_version(&read(root, name)?, section, version);
        files.insert(
            name,
            text.ok_or_else(|| Error::NoVersionLine {
                path: root.join(name),
            })?,
        )?;
    }
    Ok(files)
}

fn read(root: &Path, name: &str) -> Result<String, Error> {
    let path = root.join(name);
    std::fs::read_to_string(&path).map_err(|source| Error::Read { path, source })
}

fn check_version(version: &Version, catalog: &Catalog) -> Result<(), Error> {
    if !version.build.is_empty() {
        return Err(Error::BuildMetadata {
            version: version.clone(),
        });
    }
    let released: Vec<Version> = catalog
        .released()?
        .into_iter()
        .map(|(version, _)| version)
        .collect();
    let is_same_minor = |other: &&Version| (other.major, other.minor) == (version.major, version.minor);
    // A fix of an older minor version need only be higher than what that one has.
    let same_minor = released.iter().rfind(is_same_minor);
    match same_minor.or(released.last()) {
        Some(highest) if version <= highest => Err(Error::NotHigher {
            version: version.clone(),
            highest: highest.clone(),
        }),
        _ => Ok(()),
    }
}

/// After 0.2.0, 0.1.1 is for `stable-v0.1` only: in `candidate` and `stable` it would send nobody anywhere.
fn own_channels(version: &Version, catalog: &Catalog) -> Result<Vec<String>, Error> {
    let mut channels = default_channels(version);
    for (_, bundle) in catalog.released()?.iter().filter(|(there, _)| there > version) {
        let holds = |name: &String| {
            catalog
                .get_channel(name)
                .is_some_and(|channel| channel.has(&bundle.name))
        };
        channels.retain(|name| !holds(name));
    }
    if channels.is_empty() {
        return Err(Error::NoChannel {
            version: version.clone(),
        });
    }
    Ok(channels)
}

/// The entry must be there, dated, and say something (https://keepachangelog.com).
fn check_changelog(version: &Version, changelog: &str) -> Result<(), Error> {
    let title = format!("## [{version}]");
    let mut lines = changelog.lines().skip_while(|line| !line.starts_with(&title));
    let first = lines.next().ok_or_else(|| Error::NoEntry {
        version: version.clone(),
    })?;
    if !first[title.len()..].strip_prefix(" - ").is_some_and(is_date) {
        return Err(Error::NoDate {
            version: version.clone(),
        });
    }
    let says_something = |line: &str| !line.trim().is_empty() && !line.starts_with('#');
    if !lines
        .take_while(|line| !line.starts_with("## "))
        .any(says_something)
    {
        return Err(Error::EmptyEntry {
            version: version.clone(),
        });
    }
    Ok(())
}

/// A pre-release that is in the catalog without having been released would be replaced in every cluster that never had it.
fn check_pre_releases(version: &Version, changelog: &str, catalog: &Catalog) -> Result<(), Error> {
    let core = |version: &Version| (version.major, version.minor, version.patch);
    let is_described = |there: &Version| {
        let title = format!("## [{there}]");
        changelog.lines().any(|line| line.starts_with(&title))
    };
    for (there, _) in catalog.released()? {
        if !there.pre.is_empty() && core(&there) == core(version) && !is_described(&there) {
            return Err(Error::NeverReleased { version: there });
        }
    }
    Ok(())
}

fn is_date(text: &str) -> bool {
    text.trim_end().parse::<jiff::civil::Date>().is_ok()
}

/// In every channel of the release the new version is the head, and whoever is in the channel gets to it.
fn check_chain(version: &Version, channels: &[String], catalog: &Catalog) -> Result<(), Error> {
    catalog.check()?;
    let bundle = format!("{PACKAGE}.v{version}");
    for name in channels {
        if let Some(channel) = catalog.get_channel(name) {
            let head = channel.head()?;
            if head.name != bundle {
                return Err(Error::Head {
                    channel: name.clone(),
                    head: head.name.clone(),
                    bundle,
                });
            }
        }
    }
    Ok(())
}

/// Sets the first `version = "..."` after a line. Nothing where there is none.
fn set_version(text: &str, after: &str, version: &Version) -> Option<String> {
    let place = text.find(&format!("{after}\n"))?;
    let (before, rest) = text.split_at(place);
    let old = rest.lines().find(|line| line.starts_with("version = \""))?;
    Some(format!(
        "{before}{}",
        rest.replacen(old, &format!("version = \"{version}\""), 1)
    ))
}
