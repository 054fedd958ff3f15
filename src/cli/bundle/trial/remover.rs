//! Deletes what a trial has left, each as the object that it was when it was judged, and waits until it is gone.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::Site;
use super::stages::Stages;
use crate::cli::cluster::reader::{
    CATALOG_SOURCE, CSV, DEPLOYMENT, INSTALL_PLAN, Kind, OPERATOR_GROUP, SUBSCRIPTION,
};
use crate::cli::{Failure, Outcome};
use crate::olm::manifests::{list, name, text};
use crate::olm::status::deployments;
use crate::olm::trial::{Removal, Trial};

/// Between two looks whether something is gone.
const PAUSE: Duration = Duration::from_millis(500);

/// One object.
pub(super) struct Thing<'a> {
    pub(super) kind: Kind<'static>,
    /// The kind's name.
    pub(super) title: &'static str,
    pub(super) namespace: Option<&'a str>,
    pub(super) name: &'a str,
}

pub(super) struct Remover<'a> {
    site: &'a Site,
    stages: Stages,
    patience: Duration,
    deadline: Instant,
}

impl<'a> Remover<'a> {
    pub(super) fn begin(site: &'a Site, patience: Duration) -> Self {
        Self {
            site,
            stages: Stages::begin(),
            patience,
            deadline: Instant::now() + patience,
        }
    }

    pub(super) async fn subscriptions(&self, subscriptions: &[Value]) -> Outcome {
        self.all(SUBSCRIPTION, "Subscription", subscriptions).await
    }

    /// Waits until no plan of these Subscriptions is under way: what one brings is there then.
    pub(super) async fn settled(&self, subscriptions: &[Value]) -> Outcome {
        let is_under_way =
            |plan: &&Value| matches!(text(plan, "/status/phase"), "" | "Planning" | "Installing");
        let mut is_told = false;
        loop {
            let plans = self.site.list(&INSTALL_PLAN, "").await?;
            let mut under_way = plans.iter().filter(is_under_way);
            let Some(plan) = under_way.find(|plan| is_owned(plan, subscriptions)) else {
                return Ok(());
            };
            if Instant::now() > self.deadline {
                return Err(self.late("InstallPlan", name(plan), "it is still being carried out"));
            }
            if !is_told {
                self.stages.tell(&format!(
                    "waiting InstallPlan {}: it is being carried out",
                    name(plan)
                ));
                is_told = true;
            }
            sleep(PAUSE).await;
        }
    }

    /// Versions, and the Deployments that OLM has made of them.
    pub(super) async fn versions(&self, csvs: &[Value]) -> Outcome {
        self.all(CSV, "ClusterServiceVersion", csvs).await?;
        for name in csvs.iter().flat_map(deployments) {
            self.gone(&self.near(DEPLOYMENT, "Deployment", name), |found| {
                is_owned(found, csvs)
            })
            .await?;
        }
        Ok(())
    }

    /// What was made for the trial itself, the catalog last.
    pub(super) async fn rest(&self, trial: &Trial, removal: &Removal) -> Outcome {
        self.all(OPERATOR_GROUP, "OperatorGroup", &removal.groups).await?;
        self.all(CATALOG_SOURCE, "CatalogSource", &removal.sources)
            .await?;
        let server = trial.name();
        let server = self.near(DEPLOYMENT, "Deployment", &server);
        self.gone(&server, |found| is_owned(found, &removal.sources))
            .await
    }

    /// Deletes the object of this UID.
    pub(super) async fn thing(&self, thing: &Thing<'_>, uid: &str) -> Outcome {
        let Thing {
            kind,
            title,
            namespace,
            name,
        } = thing;
        let deleted = self.site.writer.delete(kind, *namespace, name, uid).await;
        deleted.map_err(|refusal| format!("cannot delete the {title} {name}: {refusal}"))?;
        self.gone(thing, |found| text(found, "/metadata/uid") == uid)
            .await
    }

    async fn all(&self, kind: Kind<'static>, title: &'static str, objects: &[Value]) -> Outcome {
        for object in objects {
            let thing = self.near(kind, title, name(object));
            self.thing(&thing, text(object, "/metadata/uid")).await?;
        }
        Ok(())
    }

    fn near<'n>(&'n self, kind: Kind<'static>, title: &'static str, name: &'n str) -> Thing<'n> {
        Thing {
            kind,
            title,
            namespace: Some(&self.site.namespace),
            name,
        }
    }

    /// Waits until the object of that name is not the one that is meant, or there is none.
    async fn gone(&self, thing: &Thing<'_>, is_meant: impl Fn(&Value) -> bool) -> Outcome {
        let Thing {
            kind,
            title,
            namespace,
            name,
        } = thing;
        let mut is_told = false;
        loop {
            let why = match self.site.reader.get(kind, *namespace, name).await {
                Ok(found) => match found.filter(&is_meant) {
                    None => {
                        self.stages.tell(&format!("gone    {title} {name}"));
                        return Ok(());
                    }
                    Some(object) => held(&object),
                },
                // It may answer the next time
                Err(refusal) => format!("it cannot be read: {refusal}"),
            };
            if Instant::now() > self.deadline {
                return Err(self.late(title, name, &why));
            }
            if !is_told {
                self.stages.tell(&format!("waiting {title} {name}"));
                is_told = true;
            }
            sleep(PAUSE).await;
        }
    }

    fn late(&self, title: &str, name: &str, why: &str) -> Failure {
        format!(
            "the {title} {name} is still there after {} s: {why}; the same command goes on where this one ended",
            self.patience.as_secs()
        )
        .into()
    }
}

/// What keeps an object that is deleted.
fn held(object: &Value) -> String {
    match list(object, "/metadata/finalizers") {
        [] => "the garbage collector has not come to it".to_owned(),
        finalizers => format!("its finalizers are {}", Value::from(finalizers)),
    }
}

/// Whether one of these objects owns it.
fn is_owned(object: &Value, owners: &[Value]) -> bool {
    let references = list(object, "/metadata/ownerReferences").iter();
    references
        .map(|reference| text(reference, "/uid"))
        .any(|uid| owners.iter().any(|owner| text(owner, "/metadata/uid") == uid))
}
