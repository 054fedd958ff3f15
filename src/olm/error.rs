use std::path::{Path, PathBuf};

use serde_json::Value;

/// Why a bundle or a catalog could not be made. Each message is one line that says what to do about it.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    #[error("cannot {verb} {}: {source}", path.display())]
    File {
        verb: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(
        "{}: is not within the folder that is written; accepted are names alone, none of which leads up or to the root", .0.display()
    )]
    Outside(PathBuf),
    #[error("{}: two things would be written there; give one of them another name", .0.display())]
    SameFile(PathBuf),
    #[error("{source_name}: {message}")]
    Unreadable { source_name: String, message: String },
    #[error("a value has no YAML form: {0}")]
    Unwritable(String),
    #[error("{}: holds no Kubernetes manifest (*.yaml, *.yml or *.json)", .0.display())]
    NoManifests(PathBuf),
    #[error(
        "the manifests hold {found} ClusterServiceVersions; exactly one is needed as the base that gives description, icon and the like"
    )]
    BaseCount { found: usize },
    #[error(
        "the manifests hold no ClusterServiceVersion as the base that gives description, icon and the like; add one, or give --package and the options that say it"
    )]
    NoBase,
    #[error("the base ClusterServiceVersion: {field} is {value:?}; {accepted}")]
    Base {
        field: &'static str,
        value: String,
        accepted: &'static str,
    },
    #[error("the manifests hold no Deployment; the one that runs the operator is needed")]
    NoDeployment,
    #[error(
        "no Deployment runs {old}, which the base ClusterServiceVersion's annotation containerImage names, so {new} cannot take its place; name there the image exactly as the Deployment has it"
    )]
    NoSuchImage { old: String, new: String },
    #[error(
        "{image} is to take the place of the operator's image, and containers run {}; say which one it is by the annotation containerImage of a base ClusterServiceVersion, exactly as its container has it", images.join(", ")
    )]
    WhichImage { image: String, images: Vec<String> },
    #[error(
        "{}: a bundle cannot hold {object}; leave the file out of --input, or let the operator create the object", source_file.display()
    )]
    NotInBundle { source_file: PathBuf, object: String },
    #[error(
        "{} and {} both hold {object}, and OLM installs both into one namespace; if one is a patch, run `kustomize build` first and give its output to --input, otherwise rename one", first.display(), second.display()
    )]
    Twice {
        object: String,
        first: PathBuf,
        second: PathBuf,
    },
    #[error("{place}: {field} is {value}; {accepted}")]
    Webhook {
        place: String,
        field: String,
        value: String,
        accepted: String,
    },
    #[error("{binding}: roleRef.kind is {kind:?}; accepted are Role and ClusterRole")]
    RoleKind { binding: String, kind: String },
    #[error(
        "{}: {object}: metadata.namespace is {namespace:?}; accepted is that of the Deployments, {}, into which OLM would put it; leave it out of --input, or let the operator create the object",
        source_file.display(), homes.join(", ")
    )]
    Elsewhere {
        source_file: PathBuf,
        object: String,
        namespace: String,
        homes: Vec<String>,
    },
    #[error(
        "Deployment {deployment}: metadata.namespace is missing, and bindings name the ServiceAccount {account} of {}; accepted is a namespace, so that its rights are those of one of them", namespaces.join(", ")
    )]
    Homeless {
        deployment: String,
        account: String,
        namespaces: Vec<String>,
    },
    #[error(
        "CustomResourceDefinition {crd}, version {version}: has no OpenAPI schema to take descriptors from"
    )]
    NoSchema { crd: String, version: String },
    #[error(
        "CustomResourceDefinition {crd}: the annotation {} is {version:?}; it must name versions of it that are not stored, such as v1",
        super::OPENED
    )]
    Opened { crd: String, version: String },
    #[error(
        "CustomResourceDefinition {crd}: spec.conversion.strategy is {strategy:?}; with the annotation {} it must be Webhook, with the Service that converts",
        super::OPENED
    )]
    Unconverted { crd: String, strategy: String },
    #[error("sample {kind} {name}: {api_version} is served by none of the CustomResourceDefinitions")]
    ForeignSample {
        kind: String,
        name: String,
        api_version: String,
    },
    #[error("channels are empty; name at least one, such as stable")]
    NoChannel,
    #[error(
        "a channel is {name:?}; accepted are names without white space, commas and control characters, such as stable"
    )]
    Channel { name: String },
    #[error("default channel {default:?} is none of the channels {}", channels.join(", "))]
    DefaultChannel { default: String, channels: Vec<String> },
    #[error("{folder}: {message}; is this a bundle made by `roadstead bundle generate`?")]
    NoBundle { folder: String, message: String },
    #[error(
        "bundle {bundle}: its manifests take {length} bytes in an InstallPlan; a catalog carries at most {} of one, so name its image instead",
        super::fbc::PLAN_LIMIT
    )]
    TooMuchToCarry { bundle: String, length: usize },
    #[error("catalog: the bundle is of package {found}, the catalog of {expected}")]
    OtherPackage { expected: String, found: String },
    #[error("catalog: bundle {bundle} has no property olm.package with a semantic version")]
    NoVersion { bundle: String },
    #[error("catalog: version {version} is in both {first} and {second}; a version can be released once")]
    SameVersion {
        version: String,
        first: String,
        second: String,
    },
    #[error("catalog: package {package} has no {what} {value}; there are {}", known.join(", "))]
    NotThere {
        package: String,
        what: &'static str,
        value: String,
        known: Vec<String>,
    },
    #[error("catalog: {bundle} is not in channel {channel}; it is in {}", others.join(", "))]
    NotInChannel {
        bundle: String,
        channel: String,
        others: Vec<String>,
    },
    #[error(
        "catalog: {bundle} is the last bundle of package {package}; to take the package out of the catalog, delete its folder"
    )]
    LastBundle { package: String, bundle: String },
    #[error("catalog: channel {channel} has no entry")]
    EmptyChannel { channel: String },
    #[error("catalog: channel {channel} lists {entry}, but there is no such bundle")]
    NoSuchBundle { channel: String, entry: String },
    #[error(
        "catalog: channel {channel}: {entry} is not on the chain of replaces from the head {head}, so its users are never upgraded"
    )]
    Stranded {
        channel: String,
        entry: String,
        head: String,
    },
    #[error(
        "catalog: channel {channel}: {why}; exactly one entry may be neither replaced nor skipped, and replaces leads down from it"
    )]
    NoOrder { channel: String, why: String },
    #[error("{place}: {field} is {value:?}; {accepted}")]
    Deprecation {
        place: String,
        field: String,
        value: String,
        accepted: String,
    },
    #[error("catalog: {what}: {why}")]
    Migration { what: String, why: String },
    #[error("{place}: {field} is {value:?}; {accepted}")]
    Name {
        place: String,
        field: String,
        value: String,
        accepted: &'static str,
    },
    #[error(
        "{field} is {name:?}; accepted are at most 63 lowercase letters, digits and dashes, with a letter or digit at both ends"
    )]
    NotAPackage { field: String, name: String },
    #[error("catalog: the default channel {channel} is none of the package's channels")]
    NoDefaultChannel { channel: String },
}

impl Error {
    /// `value` is told as JSON, so that an empty text and a missing field are not the same.
    pub(super) fn webhook(place: &str, field: &str, value: &Value, accepted: impl Into<String>) -> Self {
        Self::Webhook {
            place: place.to_owned(),
            field: field.to_owned(),
            value: value.to_string(),
            accepted: accepted.into(),
        }
    }

    pub(super) fn file(verb: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::File {
            verb,
            path: path.to_owned(),
            source,
        }
    }
}
