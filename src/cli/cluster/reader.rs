//! Reads objects as JSON, whatever their kind: get and list alone, each request with a deadline, each list with an end.

use std::fmt;
use std::time::Duration;

use kube::api::{GetParams, ListParams};
use kube::core::{Request, Status};
use kube::{Client, Error};
use serde_json::Value;

/// How long a request may take.
const LIMIT: Duration = Duration::from_secs(10);
/// How many objects are asked for at once: a version may have a hundred kilobytes, with its icon and its texts.
const PAGE: u32 = 100;
/// How many such pages are read at most.
const PAGES: usize = 100;

/// A kind of the API, enough to address its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) struct Kind<'a> {
    /// `/api/v1` or `/apis/GROUP/VERSION`.
    root: &'a str,
    plural: &'a str,
}

const OLM_V1ALPHA1: &str = "/apis/operators.coreos.com/v1alpha1";
const OLM_V1: &str = "/apis/operators.coreos.com/v1";

const fn kind(root: &'static str, plural: &'static str) -> Kind<'static> {
    Kind { root, plural }
}

pub(in crate::cli) const CATALOG_SOURCE: Kind<'static> = kind(OLM_V1ALPHA1, "catalogsources");
pub(in crate::cli) const CSV: Kind<'static> = kind(OLM_V1ALPHA1, "clusterserviceversions");
/// Of ClusterServiceVersions, those that OLM has not copied from another namespace.
pub(in crate::cli) const NO_COPIES: &str = "!olm.copiedFrom";
pub(in crate::cli) const INSTALL_PLAN: Kind<'static> = kind(OLM_V1ALPHA1, "installplans");
pub(in crate::cli) const SUBSCRIPTION: Kind<'static> = kind(OLM_V1ALPHA1, "subscriptions");
pub(in crate::cli) const OPERATOR_GROUP: Kind<'static> = kind(OLM_V1, "operatorgroups");
pub(in crate::cli) const OPERATOR_CONDITION: Kind<'static> =
    kind("/apis/operators.coreos.com/v2", "operatorconditions");
pub(in crate::cli) const PACKAGE_MANIFEST: Kind<'static> =
    kind("/apis/packages.operators.coreos.com/v1", "packagemanifests");
pub(in crate::cli) const DEPLOYMENT: Kind<'static> = kind("/apis/apps/v1", "deployments");
pub(in crate::cli) const JOB: Kind<'static> = kind("/apis/batch/v1", "jobs");
pub(in crate::cli) const POD: Kind<'static> = kind("/api/v1", "pods");
pub(in crate::cli) const NAMESPACE: Kind<'static> = kind("/api/v1", "namespaces");
pub(in crate::cli) const CONFIG_MAP: Kind<'static> = kind("/api/v1", "configmaps");
pub(in crate::cli) const SECRET: Kind<'static> = kind("/api/v1", "secrets");
pub(in crate::cli) const SERVICE: Kind<'static> = kind("/api/v1", "services");
pub(in crate::cli) const DEFINITION: Kind<'static> =
    kind("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions");
/// What OLM v1 installs.
pub(in crate::cli) const CLUSTER_EXTENSION: Kind<'static> =
    kind("/apis/olm.operatorframework.io/v1", "clusterextensions");
/// OLM's own summary of what belongs together.
pub(in crate::cli) const SUMMARY: Kind<'static> = kind(OLM_V1, "operators");

impl fmt::Display for Kind<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.plural)
    }
}

/// Why something could not be read.
#[derive(Debug)]
pub(in crate::cli) enum Refusal {
    /// The API server does not let us.
    Forbidden(String),
    /// It knows no such kind.
    Unknown,
    /// Anything else.
    Failed(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forbidden(message) | Self::Failed(message) => out.write_str(message),
            Self::Unknown => out.write_str("the API server knows no such kind"),
        }
    }
}

pub(in crate::cli) struct Reader {
    client: Client,
}

impl Reader {
    pub(in crate::cli) fn new(client: Client) -> Self {
        Self { client }
    }

    /// One object, or none if it is not there; without a namespace, of a kind that has none.
    pub(in crate::cli) async fn get(
        &self,
        kind: &Kind<'_>,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Value>, Refusal> {
        if namespace.is_some_and(|namespace| !is_name(namespace)) || !is_name(name) {
            return Ok(None);
        }
        let request = Request::new(kind.path(namespace)).get(name, &GetParams::default());
        match self.ask(request).await {
            Ok(object) => Ok(Some(object)),
            Err(Error::Api(status))
                if status
                    .details
                    .as_ref()
                    .is_some_and(|details| details.name == name)
                    && status.is_not_found() =>
            {
                Ok(None)
            }
            Err(error) => Err(refusal(error)),
        }
    }

    /// All objects of a namespace, or of all, that are selected.
    pub(in crate::cli) async fn list(
        &self,
        kind: &Kind<'_>,
        namespace: Option<&str>,
        selected: ListParams,
    ) -> Result<Vec<Value>, Refusal> {
        if namespace.is_some_and(|namespace| !is_name(namespace)) {
            return Ok(Vec::new());
        }
        let mut params = selected.limit(PAGE);
        let mut objects = Vec::new();
        for _ in 0..PAGES {
            let request = Request::new(kind.path(namespace)).list(&params);
            let mut page = self.ask(request).await.map_err(refusal)?;
            if let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) {
                objects.extend(items);
            }
            match page.pointer("/metadata/continue").and_then(Value::as_str) {
                None | Some("") => return Ok(objects),
                Some(token) => params.continue_token = Some(token.to_owned()),
            }
        }
        Err(Refusal::Failed(format!(
            "there are more than {} {}",
            objects.len(),
            kind.plural
        )))
    }

    /// Some objects of all namespaces, and whether there are more.
    pub(in crate::cli) async fn some(
        &self,
        kind: &Kind<'_>,
        most: u32,
    ) -> Result<(Vec<Value>, bool), Refusal> {
        let request = Request::new(kind.path(None)).list(&ListParams::default().limit(most));
        let page = self.ask(request).await.map_err(refusal)?;
        let more = page.pointer("/metadata/continue").and_then(Value::as_str);
        let more = more.is_some_and(|token| !token.is_empty());
        Ok((page["items"].as_array().cloned().unwrap_or_default(), more))
    }

    async fn ask<E: fmt::Display>(&self, request: Result<http::Request<Vec<u8>>, E>) -> Result<Value, Error> {
        ask(&self.client, request).await
    }
}

impl<'a> Kind<'a> {
    /// A kind that somebody has defined; `root` is `/apis/GROUP/VERSION`.
    pub(in crate::cli) fn defined(root: &'a str, plural: &'a str) -> Self {
        Self { root, plural }
    }

    /// Where its objects are; without a namespace, those of all.
    pub(super) fn path(&self, namespace: Option<&str>) -> String {
        let Self { root, plural } = self;
        match namespace {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{plural}"),
        }
    }
}

/// Asks the API server, and waits for its answer only so long.
pub(super) async fn ask<E: fmt::Display>(
    client: &Client,
    request: Result<http::Request<Vec<u8>>, E>,
) -> Result<Value, Error> {
    let late = |_| Error::Service(format!("no answer within {LIMIT:?}").into());
    let request = request.map_err(|error| Error::Service(error.to_string().into()))?;
    tokio::time::timeout(LIMIT, client.request(request))
        .await
        .map_err(late)?
}

/// What others may write into a spec must not become another path; an object of another name there cannot be.
fn is_name(text: &str) -> bool {
    let is_allowed = |character: char| character.is_ascii_alphanumeric() || "-.".contains(character);
    !text.is_empty() && text != "." && text != ".." && text.chars().all(is_allowed)
}

fn names_something(status: &Status) -> bool {
    status
        .details
        .as_ref()
        .is_some_and(|details| !details.name.is_empty())
}

pub(super) fn refusal(error: Error) -> Refusal {
    match error {
        Error::Api(status) if status.is_forbidden() => Refusal::Forbidden(status.message.clone()),
        // Where it knows the kind, it names what is missing
        Error::Api(status) if status.code == 404 && !names_something(&status) => Refusal::Unknown,
        Error::Api(status) => Refusal::Failed(status.message.clone()),
        other => Refusal::Failed(other.to_string()),
    }
}
