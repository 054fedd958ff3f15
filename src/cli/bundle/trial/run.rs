//! `roadstead bundle run`

use std::io::Write as _;

use serde_json::Value;

use super::stages::Stages;
use super::{Bundle, Definitions, Patience, Site, Where, follow, told_to_stop};
use crate::cli::cluster::reader::{
    CATALOG_SOURCE, CONFIG_MAP, CSV, DEPLOYMENT, Kind, NO_COPIES, OPERATOR_GROUP, Refusal, SECRET, SERVICE,
    SUBSCRIPTION,
};
use crate::cli::stop::until_stopped;
use crate::cli::{Failure, Outcome, print};
use crate::olm::catalog::{Catalog, Edges, Rendered, default_channel_of};
use crate::olm::manifests::text;
use crate::olm::trial::{self, Place, Trial, begin, extend};
use crate::package::operator_image;

/// The channel of a bundle that names none.
const CHANNEL: &str = "trial";

#[derive(Debug, clap::Args)]
pub(in crate::cli::bundle) struct Args {
    #[command(flatten)]
    bundle: Bundle,
    #[command(flatten)]
    place: Where,
    /// The channel of the catalog. Default: the bundle's own default channel.
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// The namespaces that the operator is to look after, if no OperatorGroup says so yet. Default: all where it supports that, or the one in which it is.
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',')]
    watch: Vec<String>,
    /// The image of this program, which serves the catalog in the cluster. Default: the one that is published with this version.
    #[arg(long, value_name = "IMAGE", env = "ROADSTEAD_SERVER_IMAGE")]
    server_image: Option<String>,
    /// Secrets of the namespace with which the cluster pulls the bundle's image, and the server's. What the operator's own pods pull is its service account's.
    #[arg(long = "pull-secret", value_name = "SECRET", value_delimiter = ',')]
    pull_secrets: Vec<String>,
    #[command(flatten)]
    definitions: Definitions,
    #[command(flatten)]
    patience: Patience,
}

/// What is tried.
struct Wanted {
    /// The bundle's name, which is the version's.
    csv: String,
    channel: String,
    /// The catalog that has it alone.
    catalog: String,
    modes: Vec<Value>,
}

pub(in crate::cli::bundle) fn main(args: &Args) -> Outcome {
    let rendered = args.bundle.rendered()?;
    let package = rendered.package().to_owned();
    let wanted = wanted(rendered.clone(), args.channel.as_deref())?;
    let namespace = until_stopped(run(args, &rendered, &wanted))
        .map_err(|error| told_to_stop(error, &package, &args.place))?;
    print(|out| writeln!(out, "{} runs in {namespace}", wanted.csv))
}

fn wanted(rendered: Rendered, channel: Option<&str>) -> Result<Wanted, Failure> {
    let defaults = [
        rendered.default_channel.clone(),
        default_channel_of(&rendered.channels),
        CHANNEL.to_owned(),
    ];
    let default = defaults.into_iter().find(|channel| !channel.is_empty());
    let channel = trial::channel(channel, &default.unwrap_or_default(), &rendered.channels)?;
    let csv = rendered.name().to_owned();
    let modes = rendered.bundle().install_modes().cloned().collect();
    let mut catalog = Catalog::empty(rendered.package());
    extend(&mut catalog, rendered, &channel, &Edges::default())?;
    Ok(Wanted {
        csv,
        channel,
        catalog: catalog.text()?,
        modes,
    })
}

async fn run(args: &Args, bundle: &Rendered, wanted: &Wanted) -> Result<String, Failure> {
    let mut stages = Stages::begin();
    let site = Site::of(&args.place).await?;
    let trial = site.trial(bundle.package());
    let place = place(&site, &trial).await?;
    let group = begin(&trial, &place, &wanted.csv, &wanted.modes, &args.watch)?;
    args.definitions.check(&site, &trial, bundle).await?;
    for secret in &args.pull_secrets {
        check_secret(&site, secret).await?;
    }
    let image = args.server_image.clone();
    let image = image.unwrap_or_else(|| operator_image(env!("CARGO_PKG_VERSION")));
    stages.tell(&format!(
        "{} in {}: making the catalog {}",
        wanted.csv,
        site.namespace,
        trial.name()
    ));
    let source = trial.source(&args.pull_secrets);
    make(&site, &trial, wanted, &source, &image, group.as_ref()).await?;
    let versions = [wanted.csv.clone()];
    follow::until_installed(&site, &trial, &versions, args.patience.timeout, &mut stages).await?;
    Ok(site.namespace)
}

async fn place(site: &Site, trial: &Trial) -> Result<Place, Failure> {
    let namespace = &site.namespace;
    site.exists(&format!("; `kubectl create namespace {namespace}` makes it"))
        .await?;
    // First, since it tells whether there is OLM at all
    let subscriptions = site.list(&SUBSCRIPTION, "").await?;
    let mut taken = Vec::new();
    let name = trial.name();
    for (kind, title) in [
        (CATALOG_SOURCE, "CatalogSource"),
        (CONFIG_MAP, "ConfigMap"),
        (SERVICE, "Service"),
        (DEPLOYMENT, "Deployment"),
        (OPERATOR_GROUP, "OperatorGroup"),
    ] {
        let found = site.get(&kind, &name).await?;
        taken.extend(found.map(|found| (title.to_owned(), found)));
    }
    Ok(Place {
        subscriptions,
        groups: site.list(&OPERATOR_GROUP, "").await?,
        csvs: site.list(&CSV, NO_COPIES).await?,
        taken,
    })
}

/// Without it, or with one of another kind, what pulls would be told so by its pods alone.
async fn check_secret(site: &Site, name: &str) -> Outcome {
    let namespace = &site.namespace;
    let found = match site.reader.get(&SECRET, Some(namespace), name).await {
        // Who may not look at Secrets may have one all the same
        Err(Refusal::Forbidden(_)) => return Ok(()),
        found => found.map_err(|refusal| format!("cannot read Secret {namespace}/{name}: {refusal}"))?,
    };
    let kind = found.as_ref().map(|secret| text(secret, "/type"));
    match kind {
        Some("kubernetes.io/dockerconfigjson" | "kubernetes.io/dockercfg") => Ok(()),
        Some(other) => Err(format!(
            "--pull-secret is {name:?}, a Secret of type {other:?}; accepted are kubernetes.io/dockerconfigjson and kubernetes.io/dockercfg"
        )
        .into()),
        None => Err(format!(
            "--pull-secret is {name:?}, and {namespace} has no such Secret; `kubectl create secret docker-registry {name} -n {namespace}` makes one"
        )
        .into()),
    }
}

/// In an order in which each finds what it needs. What could not be made is told with what is there by then; `cleanup` removes that.
async fn make(
    site: &Site,
    trial: &Trial,
    wanted: &Wanted,
    source: &Value,
    image: &str,
    group: Option<&Value>,
) -> Outcome {
    let create = async |kind: &Kind<'_>, object: &Value| {
        let made = site.writer.create(kind, &site.namespace, object).await;
        made.map_err(|refusal| {
            let Trial { package, namespace } = trial;
            let what = object["kind"].as_str().unwrap_or_default();
            Failure::from(format!(
                "cannot create the {what}: {refusal}; `roadstead bundle cleanup {package} -n {namespace}` removes what was made before it"
            ))
        })
    };
    // Whether it may be as large as it is, before anything is made
    trial.content(&wanted.catalog, &Value::Null)?;
    let source = create(&CATALOG_SOURCE, source).await?;
    create(&CONFIG_MAP, &trial.content(&wanted.catalog, &source)?).await?;
    create(&SERVICE, &trial.service(&source)).await?;
    create(&DEPLOYMENT, &trial.server(&wanted.catalog, image, &source)).await?;
    if let Some(group) = group {
        create(&OPERATOR_GROUP, group).await?;
    }
    create(&SUBSCRIPTION, &trial.subscription(&wanted.channel, &wanted.csv)).await?;
    Ok(())
}
