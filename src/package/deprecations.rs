//! What this product has deprecated: one table, from which come the warnings of the API, the deprecations in the catalog, and the
//! table in docs/VERSIONS.md. The policy is there too.

use std::fmt::{self, Write as _};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use semver::Version;

use super::PACKAGE;
use crate::olm::Error;
use crate::olm::catalog::Catalog;
use crate::olm::catalog::deprecations::Deprecation as Entry;

/// Everything that is deprecated, or will be with a version that is not released yet.
pub const TABLE: &[Deprecation] = &[];

/// One thing that users should leave behind.
#[derive(Debug, Clone)]
pub struct Deprecation {
    /// What it is.
    pub subject: Subject,
    /// The first version that calls it deprecated.
    pub since: Version,
    /// The version that does not have it any more.
    pub removed_in: Version,
    /// What users should do instead, in one sentence that begins with a small letter and has no full stop.
    pub instead: &'static str,
}

/// What can be deprecated with a warning. A field is deprecated in words, in its description: Kubernetes has no other place for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A version of a kind's API.
    ApiVersion {
        /// The kind, such as `MyProxy`.
        kind: &'static str,
        /// The version, such as `v1alpha1`.
        version: &'static str,
    },
    /// A channel of the catalog.
    Channel(&'static str),
    /// A minor version of the package: its channel `stable-vMAJOR.MINOR`, and every bundle of it.
    Minor(u64, u64),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ApiVersion { kind, version } => write!(f, "{kind} {version}"),
            Self::Channel(name) => write!(f, "channel {name}"),
            Self::Minor(major, minor) => write!(f, "Roadstead {major}.{minor}"),
        }
    }
}

impl Deprecation {
    /// Whether a version already calls it deprecated; the candidates of a version do as the version itself.
    fn applies(&self, version: &Version) -> bool {
        let core = |version: &Version| (version.major, version.minor, version.patch);
        core(version) >= core(&self.since)
    }

    /// What users are told, by the API server and by consoles.
    fn message(&self) -> String {
        format!(
            "{} is deprecated since {} and is removed in {}: {}",
            self.subject, self.since, self.removed_in, self.instead
        )
    }
}

/// Marks the versions of a definition that are deprecated in a version of the product: who uses one gets a warning from the API
/// server with each answer.
pub fn mark(crd: &mut CustomResourceDefinition, table: &[Deprecation], version: &Version) {
    let kind = &crd.spec.names.kind;
    for api_version in &mut crd.spec.versions {
        let is_it = |subject: &Subject| matches!(subject, Subject::ApiVersion { kind: of, version } if of == kind && *version == api_version.name);
        let mut found = table.iter().filter(|entry| entry.applies(version));
        if let Some(entry) = found.find(|entry| is_it(&entry.subject)) {
            api_version.deprecated = Some(true);
            api_version.deprecation_warning = Some(entry.message());
        }
    }
}

/// What the catalog says: what its highest release calls deprecated. A candidate deprecates nothing for others. A version of an API
/// is no part of a catalog; a minor version's channel and bundles are, as far as they are there.
///
/// # Errors
/// [`Error::NoVersion`]
pub fn entries(table: &[Deprecation], catalog: &Catalog) -> Result<Vec<Entry>, Error> {
    let mut released = catalog.released()?.into_iter().map(|(version, _)| version);
    let Some(newest) = released.rfind(|version| version.pre.is_empty()) else {
        return Ok(Vec::new());
    };
    let mut entries = Vec::new();
    for entry in table.iter().filter(|entry| entry.applies(&newest)) {
        match entry.subject {
            Subject::ApiVersion { .. } => {}
            Subject::Channel(name) => entries.push(Entry::of_channel(name, entry.message())),
            Subject::Minor(major, minor) => entries.extend(of_minor(entry, major, minor, catalog)),
        }
    }
    Ok(entries)
}

fn of_minor(entry: &Deprecation, major: u64, minor: u64, catalog: &Catalog) -> Vec<Entry> {
    let channel = format!("stable-v{major}.{minor}");
    let channel = catalog.get_channel(&channel).map(|channel| &channel.name);
    let begin = format!("{PACKAGE}.v{major}.{minor}.");
    let bundles = catalog.bundle_names().filter(|name| name.starts_with(&begin));
    let channels = channel
        .into_iter()
        .map(|name| Entry::of_channel(name, entry.message()));
    channels
        .chain(bundles.map(|name| Entry::of_bundle(name, entry.message())))
        .collect()
}

/// The table as docs/VERSIONS.md shows it.
pub fn table(table: &[Deprecation]) -> String {
    if table.is_empty() {
        return "Nothing is deprecated at present.\n".to_owned();
    }
    let mut text = String::from("| what | since | removed in | instead |\n| --- | --- | --- | --- |\n");
    for entry in table {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            entry.subject, entry.since, entry.removed_in, entry.instead
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::{self, kinds};

    fn entry(subject: Subject) -> Deprecation {
        Deprecation {
            subject,
            since: Version::new(0, 4, 0),
            removed_in: Version::new(0, 6, 0),
            instead: "use something else",
        }
    }

    fn marked(version: &str, kind: &'static str) -> (Option<bool>, Option<String>) {
        let mut crd = kinds::all().remove(0).crd;
        let name = crd.spec.versions[0].name.clone();
        assert_eq!(
            (crd.spec.names.kind.as_str(), name.as_str()),
            ("MyProxy", "v1alpha1")
        );
        let table = [entry(Subject::ApiVersion {
            kind,
            version: "v1alpha1",
        })];
        mark(&mut crd, &table, &version.parse().unwrap());
        let version = crd.spec.versions.remove(0);
        (version.deprecated, version.deprecation_warning)
    }

    #[test]
    fn a_deprecated_version_warns_from_its_release_on() {
        let warning =
            "MyProxy v1alpha1 is deprecated since 0.4.0 and is removed in 0.6.0: use something else";
        assert_eq!(marked("0.3.9", "MyProxy"), (None, None));
        for version in ["0.4.0-rc.1", "0.4.0", "1.0.0"] {
            assert_eq!(
                marked(version, "MyProxy"),
                (Some(true), Some(warning.to_owned())),
                "{version}"
            );
        }
        assert_eq!(marked("0.4.0", "Other"), (None, None), "another kind's");
    }

    /// A catalog of some versions, each in the channel of its minor version.
    fn catalog(versions: &[&str]) -> Catalog {
        let mut catalog = Catalog::empty(PACKAGE);
        for version in versions {
            let version = version.parse().unwrap();
            let mut tree = package::tree(&version).unwrap();
            tree.merge(package::bundle(&tree, &version, &catalog).unwrap())
                .unwrap();
            let channels = crate::olm::catalog::default_channels(&version);
            package::publish(&mut catalog, &tree, &channels).unwrap();
        }
        catalog
    }

    #[test]
    fn a_minor_version_takes_its_channel_and_its_bundles_with_it() {
        let table = [entry(Subject::Minor(0, 1)), entry(Subject::Channel("candidate"))];
        let before = catalog(&["0.1.0", "0.3.0", "0.4.0-rc.1"]);
        assert_eq!(
            entries(&table, &before).unwrap(),
            [],
            "a candidate deprecates nothing"
        );
        let mut catalog = catalog(&["0.1.0", "0.1.1", "0.10.0"]);
        let entries = entries(&table, &catalog).unwrap();
        let names = |entries: &[Entry]| -> Vec<String> {
            entries.iter().map(|entry| entry.reference.name.clone()).collect()
        };
        catalog.deprecate(entries);
        catalog.check().unwrap();
        assert_eq!(
            names(catalog.deprecations()),
            ["candidate", "stable-v0.1", "roadstead.v0.1.0", "roadstead.v0.1.1"]
        );
        assert_eq!(
            catalog.deprecations()[1].message,
            "Roadstead 0.1 is deprecated since 0.4.0 and is removed in 0.6.0: use something else"
        );
    }

    #[test]
    fn the_table_for_readers_has_a_line_for_each() {
        assert_eq!(table(&[]), "Nothing is deprecated at present.\n");
        assert_eq!(
            table(&[entry(Subject::Channel("slow"))]),
            "| what | since | removed in | instead |\n| --- | --- | --- | --- |\n\
             | channel slow | 0.4.0 | 0.6.0 | use something else |\n"
        );
    }

    /// What the policy in docs/VERSIONS.md promises, and what an API server takes for a warning.
    fn assert_fit(entry: &Deprecation) {
        let (subject, message) = (&entry.subject, entry.message());
        let minors = entry.removed_in.minor.saturating_sub(entry.since.minor);
        let is_served_long_enough = entry.removed_in.major > entry.since.major || minors >= 2;
        assert!(is_served_long_enough, "{subject}: two minor versions at least");
        assert!(message.len() <= 256 && message.is_ascii(), "{subject}: {message}");
        assert!(
            !entry.instead.is_empty() && !entry.instead.ends_with('.'),
            "{subject}"
        );
        if let Subject::ApiVersion { kind, version } = subject {
            let is_known = |it: &kinds::Kind| {
                it.crd.spec.names.kind == *kind
                    && it.crd.spec.versions.iter().any(|there| there.name == *version)
            };
            assert!(kinds::all().iter().any(is_known), "{subject} is not shipped");
        }
    }

    #[test]
    fn every_deprecation_keeps_the_policy() {
        TABLE.iter().for_each(assert_fit);
        assert_fit(&entry(Subject::ApiVersion {
            kind: "MyProxy",
            version: "v1alpha1",
        }));
    }

    #[test]
    #[should_panic(expected = "two minor versions at least")]
    fn a_removal_too_soon_does_not_keep_the_policy() {
        assert_fit(&Deprecation {
            removed_in: Version::new(0, 5, 0),
            ..entry(Subject::Channel("slow"))
        });
    }
}
