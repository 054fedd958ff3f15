//! `roadstead bundle upgrade`

use std::io::Write as _;

use serde_json::Value;

use super::stages::Stages;
use super::{Bundle, Definitions, Patience, Site, Where, follow, told_to_stop};
use crate::cli::catalog::{EdgeArgs, tell_risks};
use crate::cli::cluster::reader::{CONFIG_MAP, CSV, DEPLOYMENT, NO_COPIES, SUBSCRIPTION};
use crate::cli::cluster::writer::Same;
use crate::cli::stop::until_stopped;
use crate::cli::{Failure, Outcome, print};
use crate::olm::catalog::{Catalog, Rendered};
use crate::olm::manifests::text;
use crate::olm::trial::{Refused, Trial, content_of, extend, succeeded, unclaimed, way};

#[derive(Debug, clap::Args)]
pub(in crate::cli::bundle) struct Args {
    #[command(flatten)]
    bundle: Bundle,
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    edges: EdgeArgs,
    #[command(flatten)]
    definitions: Definitions,
    #[command(flatten)]
    patience: Patience,
}

pub(in crate::cli::bundle) fn main(args: &Args) -> Outcome {
    let rendered = args.bundle.rendered()?;
    let (package, name) = (rendered.package().to_owned(), rendered.name().to_owned());
    let namespace =
        until_stopped(upgrade(args, rendered)).map_err(|error| told_to_stop(error, &package, &args.place))?;
    print(|out| writeln!(out, "{name} runs in {namespace}"))
}

/// What is tried now.
struct Tried {
    subscription: Value,
    content: Value,
    server: Value,
    channel: String,
    installed: String,
    catalog: Catalog,
}

async fn upgrade(args: &Args, rendered: Rendered) -> Result<String, Failure> {
    let mut stages = Stages::begin();
    let site = Site::of(&args.place).await?;
    let trial = site.trial(rendered.package());
    let mut tried = tried(&site, &trial).await?;
    let name = rendered.name().to_owned();
    if tried.installed == name {
        return Err(Refused::Same { name }.into());
    }
    let csvs = site.list(&CSV, NO_COPIES).await?;
    succeeded(&trial, &csvs, &tried.subscription)?;
    let edges = args.edges.edges(&tried.catalog, &name)?;
    args.definitions.check(&site, &trial, &rendered).await?;
    extend(&mut tried.catalog, rendered, &tried.channel, &edges)?;
    let way = way(&tried.catalog, &tried.channel, &tried.installed, &name)?;
    unclaimed(&trial, &way, &csvs, &tried.subscription)?;
    tell_risks(&tried.catalog, &name);
    stages.tell(&way.told(&tried.installed));
    serve(&site, &trial, &tried).await?;
    follow::until_installed(&site, &trial, &way.steps, args.patience.timeout, &mut stages).await?;
    Ok(site.namespace)
}

async fn tried(site: &Site, trial: &Trial) -> Result<Tried, Failure> {
    let Trial { package, namespace } = trial;
    let not_tried = || Refused::NotTried {
        package: package.clone(),
        namespace: namespace.clone(),
    };
    site.exists("").await?;
    // Whether there is OLM at all
    let subscriptions = site.list(&SUBSCRIPTION, &trial.selector()).await?;
    let Some(subscription) = subscriptions.into_iter().next() else {
        let elsewhere = site.trials(trial).await;
        return Err(match elsewhere[..] {
            [] => not_tried().into(),
            _ => trial.nothing(&elsewhere).into(),
        });
    };
    let name = trial.name();
    let of_trial = async |kind| Ok::<_, Failure>(site.get(kind, &name).await?.filter(|it| trial.owns(it)));
    let content = of_trial(&CONFIG_MAP).await?.ok_or_else(not_tried)?;
    let server = of_trial(&DEPLOYMENT).await?.ok_or_else(not_tried)?;
    let installed = text(&subscription, "/status/installedCSV").to_owned();
    if installed.is_empty() {
        return Err(Refused::NotInstalled {
            package: package.clone(),
            namespace: namespace.clone(),
        }
        .into());
    }
    let object = format!("ConfigMap {name}");
    let catalog = Catalog::of_text(&object, content_of(&content), package);
    let catalog = catalog.map_err(|error| Refused::Unreadable {
        object,
        why: error.to_string(),
    })?;
    Ok(Tried {
        channel: text(&subscription, "/spec/channel").to_owned(),
        subscription,
        content,
        server,
        installed,
        catalog,
    })
}

/// The catalog first, since the pod that comes then reads it. OLM's connection breaks with the pod of before, and it looks again.
async fn serve(site: &Site, trial: &Trial, tried: &Tried) -> Outcome {
    let catalog = tried.catalog.text()?;
    let content = trial.other_content(&catalog)?;
    let merged = site.writer.merge(
        &CONFIG_MAP,
        &site.namespace,
        &tried.content,
        Same::Version,
        content,
    );
    merged
        .await
        .map_err(|refusal| format!("cannot change the ConfigMap: {refusal}"))?;
    let server = trial.other_server(&catalog);
    let merged = site
        .writer
        .merge(&DEPLOYMENT, &site.namespace, &tried.server, Same::Object, server);
    merged.await.map_err(|refusal| {
        format!("cannot change the Deployment: {refusal}; the catalog has the version already, so the same command goes on")
    })?;
    Ok(())
}
