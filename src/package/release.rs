//! The next release: what must hold before there is one, and every file that it changes.

use std::path::{Path, PathBuf};

use semver::Version;

use super::{PACKAGE, bundle, publish, tree};
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
    #[error("{}: found no version of package {PACKAGE} to set", path.display())]
    NoVersionLine { path: PathBuf },
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Package(#[from] olm::Error),
}

/// Makes all files of a release, below the root of the repository, without writing any.
///
/// # Errors
/// [`Error`] says what speaks against the release.
pub fn prepare(root: &Path, version: &Version) -> Result<Tree, Error> {
    let mut catalog = Catalog::read(&root.join("catalog"), PACKAGE)?;
    check_version(version, &catalog)?;
    check_changelog(version, &read(root, "CHANGELOG.md")?)?;
    catalog.check()?;

    let mut files = tree(version)?;
    files.merge(bundle(&files, version, &catalog)?);
    publish(&mut catalog, &files)?;
    check_chain(version, &catalog)?;
    files.merge(catalog.tree(Path::new("catalog"))?);
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
        );
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
    match catalog.released()?.last() {
        Some((highest, _)) if version <= highest => Err(Error::NotHigher {
            version: version.clone(),
            highest: highest.clone(),
        }),
        _ => Ok(()),
    }
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

fn is_date(text: &str) -> bool {
    text.trim_end().parse::<jiff::civil::Date>().is_ok()
}

/// In every channel of the release the new version is the head, and whoever is in the channel gets to it.
fn check_chain(version: &Version, catalog: &Catalog) -> Result<(), Error> {
    catalog.check()?;
    let bundle = format!("{PACKAGE}.v{version}");
    for name in default_channels(version) {
        if let Some(channel) = catalog.get_channel(&name) {
            let head = channel.head()?;
            if head.name != bundle {
                return Err(Error::Head {
                    channel: name,
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
