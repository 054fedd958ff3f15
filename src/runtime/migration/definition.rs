//! The parts of a CustomResourceDefinition that tell in which versions its objects may be stored.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, GetParams, PostParams};
use kube::core::{ObjectMeta, Request};
use kube::{Client, Resource, ResourceExt};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Error;

/// Who turns the objects of a definition from one version into another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// A webhook. While the definition has none, nothing is moved: the API server would drop what the versions say differently.
    Webhook,
    /// Nobody needs to: the versions differ in nothing but their names.
    Unneeded,
}

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
    versions: Vec<Version>,
    #[serde(default)]
    conversion: Converted,
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
struct Converted {
    #[serde(default)]
    strategy: String,
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

/// Which spec a definition has: that of one object, and the API server counts its changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spelled {
    uid: Option<String>,
    generation: Option<i64>,
}

impl Spelled {
    fn of(metadata: &ObjectMeta) -> Self {
        Self {
            uid: metadata.uid.clone(),
            generation: metadata.generation,
        }
    }
}

impl Definition {
    /// In which versions there may be objects that are to be moved. Nothing as long as they cannot be read, since their stored version is not served,
    /// or cannot be understood, since nobody converts.
    pub(super) fn outdated(&self, conversion: Conversion) -> Option<Outdated> {
        let stored = self.spec.versions.iter().find(|version| version.storage)?;
        let others: Vec<String> = self
            .status
            .stored_versions
            .iter()
            .filter(|version| **version != stored.name)
            .cloned()
            .collect();
        let is_understood = conversion == Conversion::Unneeded || self.spec.conversion.strategy == "Webhook";
        (stored.served && is_understood && !others.is_empty()).then(|| Outdated {
            stored: stored.name.clone(),
            others,
        })
    }

    pub(super) fn spelled(&self) -> Spelled {
        Spelled::of(&self.metadata)
    }

    /// Makes sure that it is spelled so in the cluster, too.
    ///
    /// # Errors
    /// [`Error::Changed`] if it is not.
    pub(super) async fn is_unchanged(&self, client: &Client) -> Result<(), Error> {
        let name = self.name_any();
        let all: Api<CustomResourceDefinition> = Api::all(client.clone());
        let found = all.get_metadata(&name).await;
        let found = found.map_err(Error::request(format!("read the definition {name}")))?;
        self.is_as(&found.metadata)
    }

    fn is_as(&self, metadata: &ObjectMeta) -> Result<(), Error> {
        if Spelled::of(metadata) == self.spelled() {
            Ok(())
        } else {
            Err(Error::Changed(self.name_any()))
        }
    }

    /// Says that no object is stored in another version any more, if it is spelled so in the cluster, too. What else the status says stays.
    pub(super) async fn strike(&self, outdated: &Outdated, client: &Client) -> Result<(), Error> {
        let name = self.name_any();
        let what = format!(
            "strike {:?} from status.storedVersions of {name}",
            outdated.others
        );
        let mut object: Value = get(&name, client).await.map_err(Error::request(&what))?;
        let found = ObjectMeta::deserialize(&object["metadata"]).unwrap_or_default();
        self.is_as(&found)?;
        object["status"]["storedVersions"] = json!([outdated.stored]);
        put_status(&name, &object, client)
            .await
            .map_err(Error::request(what))
    }
}

async fn get(name: &str, client: &Client) -> Result<Value, kube::Error> {
    let request = Request::new(CustomResourceDefinition::url_path(&(), None))
        .get(name, &GetParams::default())
        .map_err(kube::Error::BuildRequest)?;
    client.request(request).await
}

async fn put_status(name: &str, object: &Value, client: &Client) -> Result<(), kube::Error> {
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    let request = Request::new(CustomResourceDefinition::url_path(&(), None))
        .replace_subresource("status", name, &PostParams::default(), body)
        .map_err(kube::Error::BuildRequest)?;
    client.request::<IgnoredAny>(request).await.map(drop)
}
