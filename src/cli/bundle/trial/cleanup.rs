//! `roadstead bundle cleanup`

use std::io::Write as _;

use kube::api::ListParams;
use serde_json::Value;

use super::remover::{Remover, Thing};
use super::{Patience, Site, Where};
use crate::cli::cluster::reader::{
    CATALOG_SOURCE, CONFIG_MAP, CSV, DEFINITION, Kind, NO_COPIES, OPERATOR_GROUP, Refusal, SUBSCRIPTION,
    SUMMARY,
};
use crate::cli::stop::until_stopped;
use crate::cli::{Failure, Outcome, print};
use crate::olm::manifests::text;
use crate::olm::trial::{Definition, Present, Refused, Removal, Trial, removal, stays, still_there};

/// So many objects of a kind are named.
const SHOWN: u32 = 5;
/// So many of them are counted, where they are only counted.
const COUNTED: u32 = 100;

#[derive(Debug, clap::Args)]
pub(in crate::cli::bundle) struct Args {
    /// The package.
    package: String,
    #[command(flatten)]
    place: Where,
    /// Delete the definitions, too, that came with the trial and that no other version owns. Refused as long as there is an object of one.
    #[arg(long)]
    definitions: bool,
    #[command(flatten)]
    patience: Patience,
}

pub(in crate::cli::bundle) fn main(args: &Args) -> Outcome {
    let namespace = until_stopped(cleanup(args))?;
    print(|out| writeln!(out, "the trial of {} is gone from {namespace}", args.package))
}

async fn cleanup(args: &Args) -> Result<String, Failure> {
    let site = Site::of(&args.place).await?;
    let trial = site.trial(&args.package);
    site.exists("").await?;
    let (present, sees_all) = present(&site, &trial).await?;
    let mut removal = match removal(&trial, &present) {
        Err(Refused::Nothing { .. }) => return Err(trial.nothing(&site.trials(&trial).await).into()),
        found => found?,
    };
    let kept = if args.definitions {
        Vec::new()
    } else {
        kept(&site, &trial, &removal).await
    };
    if args.definitions {
        if !sees_all {
            return Err("nothing was deleted: ClusterServiceVersions of other namespaces may not be read, so nobody can tell whose the definitions are; leave --definitions out".into());
        }
        let (definitions, _) = removable(&site, &trial, &removal)
            .await
            .map_err(|error| format!("nothing was deleted: {error}"))?;
        for definition in &definitions {
            empty(&site, definition)
                .await
                .map_err(|left| format!("nothing was deleted: {left}"))?;
        }
    }
    for note in &removal.notes {
        eprintln!("note: {note}");
    }
    let remover = Remover::begin(&site, args.patience.timeout);
    let own = removal.subscriptions.clone();
    remover.subscriptions(&own).await?;
    // What a plan that was under way has brought since is the trial's, too
    loop {
        remover.settled(&own).await?;
        removal = again(&site, &trial, &own).await?;
        if removal.csvs.is_empty() {
            break;
        }
        remover.versions(&removal.csvs).await?;
    }
    // Among them what that plan has brought
    let (definitions, staying) = match args.definitions {
        true => removable(&site, &trial, &removal).await.map_err(|error| {
            format!("the operator is gone, its definitions and its catalog are not: {error}")
        })?,
        false => (Vec::new(), kept),
    };
    for definition in &definitions {
        empty(&site, definition).await.map_err(|left| {
            format!("the operator is gone, its definitions and its catalog are not: {left}")
        })?;
        let name = definition.name();
        let thing = Thing {
            kind: DEFINITION,
            title: "CustomResourceDefinition",
            namespace: None,
            name: &name,
        };
        remover.thing(&thing, &definition.uid).await?;
    }
    remover.rest(&trial, &removal).await?;
    for note in staying {
        eprintln!("note: {note}");
    }
    if args.definitions {
        forget(&site, &trial).await;
    }
    Ok(site.namespace)
}

/// What goes, now that the trial's Subscriptions have gone.
async fn again(site: &Site, trial: &Trial, own: &[Value]) -> Result<Removal, Failure> {
    let (mut present, _) = present(site, trial).await?;
    present.subscriptions.extend_from_slice(own);
    Ok(removal(trial, &present)?)
}

/// What is there, and whether the versions of all namespaces are among it.
async fn present(site: &Site, trial: &Trial) -> Result<(Present, bool), Failure> {
    // First, since it tells whether there is OLM at all
    let subscriptions = site.list(&SUBSCRIPTION, "").await?;
    let everywhere = ListParams::default().labels(NO_COPIES);
    let (csvs, sees_all) = match site.reader.list(&CSV, None, everywhere).await {
        Ok(csvs) => (csvs, true),
        Err(Refusal::Forbidden(_)) => (site.list(&CSV, NO_COPIES).await?, false),
        Err(refusal) => return Err(format!("cannot read {CSV}: {refusal}").into()),
    };
    let present = Present {
        subscriptions,
        sources: site.list(&CATALOG_SOURCE, &trial.selector()).await?,
        groups: site.list(&OPERATOR_GROUP, &trial.selector()).await?,
        csvs,
        content: site.get(&CONFIG_MAP, &trial.name()).await?,
    };
    Ok((present, sees_all))
}

/// The definitions that are there and may go, and why others stay.
async fn removable(
    site: &Site,
    trial: &Trial,
    removal: &Removal,
) -> Result<(Vec<Definition>, Vec<String>), Failure> {
    let (mut definitions, mut staying) = (Vec::new(), Vec::new());
    for name in &removal.definitions {
        let found = site.reader.get(&DEFINITION, None, name).await;
        let found = found.map_err(|refusal| format!("cannot read the definition {name}: {refusal}"))?;
        match found.map(|found| Definition::of(trial, &found, &removal.sources)) {
            None => {}
            Some(Ok(definition)) => definitions.push(definition),
            Some(Err(stays)) => staying.push(stays),
        }
    }
    Ok((definitions, staying))
}

/// A line for each definition that the trial has brought, which nobody has asked to delete. Who may not read them is told nothing: all else goes all the same.
async fn kept(site: &Site, trial: &Trial, removal: &Removal) -> Vec<String> {
    let mut notes = Vec::new();
    for name in &removal.definitions {
        let Ok(Some(found)) = site.reader.get(&DEFINITION, None, name).await else {
            continue;
        };
        let Ok(definition) = Definition::of(trial, &found, &removal.sources) else {
            continue;
        };
        let root = definition.root();
        let objects = site
            .reader
            .some(&Kind::defined(&root, &definition.plural), COUNTED)
            .await;
        let objects = objects.ok().map(|(some, more)| (some.len(), more));
        notes.push(stays(&definition, objects));
    }
    notes
}

/// Whether there is no object of a definition.
///
/// # Errors
/// Some of the objects, or why nobody can tell.
async fn empty(site: &Site, definition: &Definition) -> Result<(), String> {
    let root = definition.root();
    let some = site
        .reader
        .some(&Kind::defined(&root, &definition.plural), SHOWN)
        .await;
    let (objects, more) =
        some.map_err(|refusal| format!("cannot tell whether there are {}: {refusal}", definition.name()))?;
    if objects.is_empty() {
        return Ok(());
    }
    Err(format!(
        "there are objects of a definition that would go ({}); delete them first, while their operator runs",
        still_there(definition, &objects, more)
    ))
}

/// OLM's own summary of what belonged together stays behind when all of that has gone. It says nothing then, so that it cannot be deleted is no failure.
async fn forget(site: &Site, trial: &Trial) {
    let name = format!("{}.{}", trial.package, trial.namespace);
    let forgotten = match site.reader.get(&SUMMARY, None, &name).await {
        Ok(Some(found)) => {
            let uid = text(&found, "/metadata/uid");
            site.writer.delete(&SUMMARY, None, &name, uid).await
        }
        // Nor is there one where nobody knows the kind
        Ok(None) | Err(Refusal::Unknown) => Ok(()),
        Err(refusal) => Err(refusal),
    };
    if let Err(refusal) = forgotten {
        eprintln!("note: OLM's summary, the Operator {name}, stays: {refusal}");
    }
}
