//! Reads objects as JSON, whatever their kind: get and list alone, each request with a deadline, each list with an end.

use std::fmt;
use std::time::Duration;

use kube::api::{GetParams, ListParams};
use kube::core::Request;
use kube::{Client, Error};
use serde_json::Value;

/// How long a request may take.
const LIMIT: Duration = Duration::from_secs(10);
/// How many objects are asked for at once: a version may have a hundred kilobytes, with its icon and its texts.
const PAGE: u32 = 100;
/// How many such pages are read at most.
const PAGES: usize = 100;

/// A kind of the API, enough to address its objects.
pub(super) struct Kind {
    /// `/api/v1` or `/apis/GROUP/VERSION`.
    root: &'static str,
    plural: &'static str,
}

const OLM_V1ALPHA1: &str = "/apis/operators.coreos.com/v1alpha1";

const fn kind(root: &'static str, plural: &'static str) -> Kind {
    Kind { root, plural }
}

pub(super) const CATALOG_SOURCE: Kind = kind(OLM_V1ALPHA1, "catalogsources");
pub(super) const CSV: Kind = kind(OLM_V1ALPHA1, "clusterserviceversions");
pub(super) const INSTALL_PLAN: Kind = kind(OLM_V1ALPHA1, "installplans");
pub(super) const SUBSCRIPTION: Kind = kind(OLM_V1ALPHA1, "subscriptions");
pub(super) const OPERATOR_GROUP: Kind = kind("/apis/operators.coreos.com/v1", "operatorgroups");
pub(super) const OPERATOR_CONDITION: Kind = kind("/apis/operators.coreos.com/v2", "operatorconditions");
pub(super) const PACKAGE_MANIFEST: Kind = kind("/apis/packages.operators.coreos.com/v1", "packagemanifests");
pub(super) const DEPLOYMENT: Kind = kind("/apis/apps/v1", "deployments");
pub(super) const JOB: Kind = kind("/apis/batch/v1", "jobs");
pub(super) const POD: Kind = kind("/api/v1", "pods");

/// Why something could not be read.
#[derive(Debug)]
pub(super) enum Refusal {
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

pub(super) struct Reader {
    client: Client,
}

impl Reader {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    /// One object, or none if it is not there.
    pub(super) async fn get(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, Refusal> {
        if !is_name(namespace) || !is_name(name) {
            return Ok(None);
        }
        let request = Request::new(kind.path(Some(namespace))).get(name, &GetParams::default());
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
    pub(super) async fn list(
        &self,
        kind: &Kind,
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

    async fn ask<E: fmt::Display>(&self, request: Result<http::Request<Vec<u8>>, E>) -> Result<Value, Error> {
        let late = |_| Error::Service(format!("no answer within {LIMIT:?}").into());
        let request = request.map_err(|error| Error::Service(error.to_string().into()))?;
        tokio::time::timeout(LIMIT, self.client.request(request))
            .await
            .map_err(late)?
    }
}

impl Kind {
    fn path(&self, namespace: Option<&str>) -> String {
        let Self { root, plural } = self;
        match namespace {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{plural}"),
        }
    }
}

/// What others may write into a spec must not become another path; an object of another name there cannot be.
fn is_name(text: &str) -> bool {
    let is_allowed = |character: char| character.is_ascii_alphanumeric() || "-.".contains(character);
    !text.is_empty() && text != "." && text != ".." && text.chars().all(is_allowed)
}

fn refusal(error: Error) -> Refusal {
    match error {
        Error::Api(status) if status.is_forbidden() => Refusal::Forbidden(status.message.clone()),
        Error::Api(status) if status.is_not_found() => Refusal::Unknown,
        Error::Api(status) => Refusal::Failed(status.message.clone()),
        other => Refusal::Failed(other.to_string()),
    }
}
