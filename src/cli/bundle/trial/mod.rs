//! `roadstead bundle run`, `upgrade` and `cleanup`: A bundle under development on a cluster.

use std::time::Duration;

use kube::api::ListParams;
use serde_json::Value;

mod cleanup;
mod follow;
mod remover;
mod run;
mod stages;
mod upgrade;

pub(super) use cleanup::{Args as Cleanup, main as cleanup};
pub(super) use run::{Args as Run, main as run};
pub(super) use upgrade::{Args as Upgrade, main as upgrade};

use super::images;
use crate::cli::cluster::Connection;
use crate::cli::cluster::reader::{
    CATALOG_SOURCE, DEFINITION, Kind, NAMESPACE, Reader, Refusal, SUBSCRIPTION,
};
use crate::cli::cluster::writer::Writer;
use crate::cli::held::Reading;
use crate::cli::stop::Stopped;
use crate::cli::values::positive_duration;
use crate::cli::{Failure, Outcome};
use crate::olm::catalog::{Rendered, sources};
use crate::olm::oci::unpack::{self, Bounds};
use crate::olm::oci::{Name, Scratch};
use crate::olm::registry_v1::validate;
use crate::olm::trial::{Trial, replaced};

/// Where a bundle is tried.
#[derive(Debug, clap::Args)]
struct Where {
    /// The namespace in which the operator is installed. Default: that of the kubeconfig's context.
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

/// How long it may take.
#[derive(Debug, Clone, Copy, clap::Args)]
struct Patience {
    /// How long is waited. What was begun goes on in the cluster after that.
    #[arg(long, default_value = "5m", value_name = "DURATION", value_parser = positive_duration)]
    timeout: Duration,
}

/// Which bundle.
#[derive(Debug, clap::Args)]
struct Bundle {
    /// The bundle's image, as the cluster can pull it: HOST/PATH:TAG. (`roadstead bundle push DIR IMAGE` puts it there.)
    #[arg(value_name = "IMAGE")]
    image: String,
    #[command(flatten)]
    reading: Reading,
}

impl Bundle {
    /// Pulls it and judges it. In the catalog it is named by its digest, so that no node and no Job takes one of before for it.
    fn rendered(&self) -> Result<Rendered, Failure> {
        let name = Name::of("IMAGE", &self.image).map_err(|error| {
            format!("{error}; a folder is put there by `roadstead bundle push DIR IMAGE`")
        })?;
        let scratch = Scratch::in_temporary()?;
        let (parts, files) = (scratch.path().join("parts"), scratch.path().join("bundle"));
        let content = self.reading.pull(&name, &parts, &Bounds::BUNDLE)?;
        unpack::bundle(&content, &self.reading.platform, &files, &Bounds::BUNDLE)?;
        images::refuse_errors(&self.image, &validate(&files, &[])?, "it is not installed")?;
        Ok(sources::bundle(&files, &name.with_digest(&content.root.digest))?)
    }
}

/// Definitions that others have brought.
#[derive(Debug, Clone, Copy, clap::Args)]
struct Definitions {
    /// Let OLM put the bundle's definitions in the place of those that are there already and that the trial has not brought: for the whole cluster, and they stay so.
    #[arg(long)]
    replace_definitions: bool,
}

impl Definitions {
    /// Refuses to replace what others have brought, unless that is wanted.
    async fn check(self, site: &Site, trial: &Trial, bundle: &Rendered) -> Result<(), Failure> {
        if self.replace_definitions {
            return Ok(());
        }
        let mut found = Vec::new();
        for name in bundle.bundle().definitions() {
            let definition = site.reader.get(&DEFINITION, None, name).await;
            let definition = definition.map_err(|refusal| {
                format!("cannot tell whether the definition {name} is there already: {refusal}; --replace-definitions goes on all the same")
            })?;
            found.extend(definition);
        }
        Ok(replaced(trial, &found)?)
    }
}

/// Names what removes it again, where somebody has stopped the command.
fn told_to_stop(error: Failure, package: &str, place: &Where) -> Failure {
    if !error.is::<Stopped>() {
        return error;
    }
    let namespace = place
        .namespace
        .as_ref()
        .map(|name| format!(" -n {name}"))
        .unwrap_or_default();
    format!("{error}; what was begun goes on in the cluster: `roadstead bundle cleanup {package}{namespace}` removes it").into()
}

/// A cluster with the namespace that is meant.
struct Site {
    reader: Reader,
    writer: Writer,
    namespace: String,
}

impl Site {
    async fn of(place: &Where) -> Result<Self, Failure> {
        let cluster = place.connection.cluster().await?;
        Ok(Self {
            reader: Reader::new(cluster.client.clone()),
            writer: Writer::new(cluster.client),
            namespace: place.namespace.clone().unwrap_or(cluster.namespace),
        })
    }

    fn trial(&self, package: &str) -> Trial {
        Trial {
            package: package.to_owned(),
            namespace: self.namespace.clone(),
        }
    }

    /// Refuses a namespace that is not there; `help` is what to do about it. Who may not look at namespaces may have one all the same.
    async fn exists(&self, help: &str) -> Outcome {
        let namespace = &self.namespace;
        match self.reader.get(&NAMESPACE, None, namespace).await {
            Ok(None) => Err(format!("there is no namespace {namespace}{help}").into()),
            _ => Ok(()),
        }
    }

    /// The CatalogSources of the package's trials in all namespaces; none where one may not look.
    async fn trials(&self, trial: &Trial) -> Vec<Value> {
        let selected = ListParams::default().labels(&trial.selector());
        let found = self.reader.list(&CATALOG_SOURCE, None, selected).await;
        found.unwrap_or_default()
    }

    async fn get(&self, kind: &Kind<'_>, name: &str) -> Result<Option<Value>, Failure> {
        let found = self.reader.get(kind, Some(&self.namespace), name).await;
        found.map_err(|refusal| format!("cannot read {kind} {name}: {refusal}").into())
    }

    async fn list(&self, kind: &Kind<'_>, labels: &str) -> Result<Vec<Value>, Failure> {
        let selected = ListParams::default().labels(labels);
        let found = self.reader.list(kind, Some(&self.namespace), selected).await;
        found.map_err(|refusal| match refusal {
            Refusal::Unknown if *kind == SUBSCRIPTION => {
                "this cluster has no OLM: its API server knows no Subscriptions".into()
            }
            refusal => format!("cannot read the {kind} of {}: {refusal}", self.namespace).into(),
        })
    }
}
