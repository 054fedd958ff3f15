//! The parts of a CustomResourceDefinition that tell in which versions its objects may be stored.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{GetParams, PostParams};
use kube::core::{ObjectMeta, Request};
use kube::{Client, Resource};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Error;

/// A CustomResourceDefinition without its schemas, which are large and of no use here. Nothing is written by it.
#[derive(Resource, Clone, Debug, Deserialize, Serialize)]
#[resource(inherit = CustomResourceDefinition)]
pub struct Definition {
    /// Its metadata.
    pub metadata: ObjectMeta,
    pub(super) spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Spec {
    pub(super) group: String,
    pub(super) names: Names,
    pub(super) scope: String,
    versions: Vec<Version>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Names {
    pub(super) kind: String,
    pub(super) plural: String,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Version {
    name: String,
    storage: bool,
    served: bool,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default)]
    stored_versions: Vec<String>,
}

/// There may be objects that are stored in another version than what is written now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outdated {
    /// In which version objects are stored when they are written.
    pub(super) stored: String,
    /// In which they may have been stored.
    pub(super) others: Vec<String>,
}

impl Definition {
    /// In which versions there may be objects that are to be moved. Nothing as long as the stored version is not served: then nobody can reach them.
    pub(super) fn outdated(&self) -> Option<Outdated> {
        let stored = self.spec.versions.iter().find(|version| version.storage)?;
        let others: Vec<String> = self
            .status
            .stored_versions
            .iter()
            .filter(|version| **version != stored.name)
            .cloned()
            .collect();
        (stored.served && !others.is_empty()).then(|| Outdated {
            stored: stored.name.clone(),
            others,
        })
    }
}

/// A definition as it was written last, all of it: a replaced status is replaced as a whole.
pub(super) struct Written {
    name: String,
    object: Value,
}

impl Written {
    pub(super) async fn read(client: &Client, name: &str) -> Result<Self, Error> {
        let request = Request::new(CustomResourceDefinition::url_path(&(), None))
            .get(name, &GetParams::default())
            .map_err(kube::Error::BuildRequest);
        let answer = match request {
            Ok(request) => client.request(request).await,
            Err(error) => Err(error),
        };
        let object = answer.map_err(Error::request(format!("read the definition {name}")))?;
        Ok(Self {
            name: name.to_owned(),
            object,
        })
    }

    pub(super) fn definition(&self) -> Result<Definition, Error> {
        Definition::deserialize(&self.object).map_err(|source| Error::Malformed {
            name: self.name.clone(),
            source,
        })
    }

    /// Says that no object is stored in another version any more. Refused if the definition has been written since it was read.
    pub(super) async fn strike(mut self, client: &Client, outdated: &Outdated) -> Result<(), Error> {
        self.object["status"]["storedVersions"] = json!([outdated.stored]);
        let request = || {
            let body = serde_json::to_vec(&self.object).map_err(kube::Error::SerdeError)?;
            Request::new(CustomResourceDefinition::url_path(&(), None))
                .replace_subresource("status", &self.name, &PostParams::default(), body)
                .map_err(kube::Error::BuildRequest)
        };
        let answer = match request() {
            Ok(request) => client.request::<IgnoredAny>(request).await.map(drop),
            Err(error) => Err(error),
        };
        answer.map_err(Error::request(format!(
            "strike {:?} from status.storedVersions of {}",
            outdated.others, self.name
        )))
    }
}
