//! Upgrades that leave versions out, by `skips` and by `skipRange`, from a catalog that its own image serves, and one more once OLM takes only the files out of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::trial;
use crate::greeter::{self, NAME};
use crate::objects::{CATALOG_SOURCE, INSTALL_PLAN};
use crate::olm::{self, SOON};
use crate::outcome::{Outcome, ensure};
use crate::world::{OPERATORS, OURS, World};

/// The CatalogSource, and the image of its catalog.
const SOURCE: &str = "roadstead-edges";
const PROGRAM: &str = "./dist/roadstead";

/// Who serves the catalog.
#[derive(Clone, Copy, PartialEq)]
enum Server {
    /// The image of the catalog.
    Itself,
    /// A pod with OLM's own program, which is given the files of the image.
    Olm,
}

pub async fn versions_that_are_left_out_are_never_installed_whoever_serves_the_catalog(
    world: Arc<World>,
) -> Outcome {
    olm::clean(&world).await?;
    olm::operator_group(&world, None).await?;
    let outcome = upgrades(&world).await;
    // Even then nothing may stay in the way of the scenarios after it
    let removed = remove(&world).await;
    outcome.and(removed)
}

async fn upgrades(world: &World) -> Outcome {
    let folder = world.settings.scratch.join("edges");
    if folder.exists() {
        // Of a run before, whose catalog has all versions
        std::fs::remove_dir_all(&folder)?;
    }
    add(world, "1.0.0", &[]).await?;
    publish(world, "1", Server::Itself).await?;
    greeter::subscribe(world, SOURCE).await?;
    greeter::succeeded(world, "1.0.0").await?;

    add(world, "1.1.0", &["--replaces", "1.0.0"]).await?;
    add(world, "1.2.0", &["--replaces", "1.0.0", "--skips", "1.1.0"]).await?;
    publish(world, "2", Server::Itself).await?;
    greeter::succeeded(world, "1.2.0").await?;

    add(world, "1.3.0", &["--replaces", "1.2.0"]).await?;
    let range = ["--replaces", "1.3.0", "--skip-range", ">=1.2.0 <2.0.0"];
    add(world, "2.0.0", &range).await?;
    publish(world, "3", Server::Itself).await?;
    greeter::succeeded(world, "2.0.0").await?;

    add(world, "2.1.0", &["--replaces", "2.0.0"]).await?;
    publish(world, "4", Server::Olm).await?;
    greeter::succeeded(world, "2.1.0").await?;

    let plans = world.list(INSTALL_PLAN, OPERATORS, "").await?;
    let planned: BTreeSet<&str> = plans
        .iter()
        .filter_map(|plan| plan.data.pointer("/spec/clusterServiceVersionNames"))
        .filter_map(Value::as_array)
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let expected = ["1.0.0", "1.2.0", "2.0.0", "2.1.0"].map(|version| format!("{NAME}.v{version}"));
    ensure!(
        planned.iter().eq(expected.iter()),
        "plans were made of {planned:?} instead of {expected:?}"
    );
    Ok(())
}

/// Adds a version to the catalog, whose folder stays for the next.
async fn add(world: &World, version: &str, edges: &[&str]) -> Outcome {
    let bundle = trial::push(world, version).await?;
    let folder = folder(world);
    let add = [
        "catalog",
        "add",
        &bundle,
        "--catalog",
        &folder,
        "--channel",
        "stable",
    ];
    world.run(PROGRAM, &[&add[..], edges].concat()).await.map(drop)
}

/// Pushes the catalog, and lets the CatalogSource name it.
async fn publish(world: &World, publication: &str, server: Server) -> Outcome {
    let image = world.image(SOURCE, &format!("{publication}-{}", world.settings.content));
    world
        .run(PROGRAM, &["catalog", "push", &folder(world), &image])
        .await?;
    let mut pod = json!({"securityContextConfig": "restricted"});
    if server == Server::Olm {
        pod["extractContent"] = json!({"catalogDir": "/configs"});
    }
    let source = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": SOURCE, "labels": {OURS: "true"}},
        "spec": {
            "sourceType": "grpc",
            "image": image,
            "displayName": "Versions that are left out (end-to-end tests)",
            "grpcPodConfig": pod,
        },
    });
    world.apply(OPERATORS, source).await.map(drop)
}

fn folder(world: &World) -> String {
    world.settings.scratch.join("edges/catalog").display().to_string()
}

async fn remove(world: &World) -> Outcome {
    greeter::remove(world).await?;
    world.delete(CATALOG_SOURCE, OPERATORS, SOURCE).await?;
    world.wait_gone(CATALOG_SOURCE, OPERATORS, SOURCE, SOON).await
}
