//! A bundle under development: run, upgraded and removed by one command each, with OLM itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::greeter::{NAME, says};
use crate::objects::{
    CATALOG_SOURCE, CRD, CSV, DEPLOYMENT, GREETING, OPERATOR_GROUP, PERSON, SUBSCRIPTION, names,
};
use crate::olm::SOON;
use crate::outcome::{Failure, Outcome, ensure};
use crate::world::World;

const PROGRAM: &str = "./dist/roadstead";
/// A little more than the command itself waits: on a busy machine OLM may take a minute to connect again.
const LIMIT: Duration = Duration::from_secs(220);

pub async fn a_bundle_is_run_upgraded_and_removed_without_a_trace(world: Arc<World>) -> Outcome {
    let namespace = world.namespace("trial").await?;
    let first = push(&world, "1.0.0").await?;
    let second = push(&world, "1.1.0").await?;

    let server = world.operator_image("0.3.0");
    let run = ["run", &first, "--server-image", &server];
    let seconds = trial(
        &world,
        &namespace,
        &run,
        &format!("{NAME}.v1.0.0 runs in {namespace}"),
    )
    .await?;
    world.figure("olm.trial_run", seconds, "s");
    let greeting = "Hello to the Doe family: Jane, John";
    world
        .kubectl(&format!(
            "-n {namespace} apply -f examples/greeter/manifests/samples.yaml"
        ))
        .await?;
    says(&world, &namespace, "does", greeting, &["janed", "johnd"]).await?;

    let upgrade = ["upgrade", &second];
    let seconds = trial(
        &world,
        &namespace,
        &upgrade,
        &format!("{NAME}.v1.1.0 runs in {namespace}"),
    )
    .await?;
    world.figure("olm.trial_upgrade", seconds, "s");

    let cleanup = ["cleanup", NAME, "--definitions"];
    let gone = format!("the trial of {NAME} is gone from {namespace}");
    let Err(refused) = trial(&world, &namespace, &cleanup, &gone).await else {
        return Err(Failure::new(
            "definitions were deleted although there were objects",
        ));
    };
    let refused = refused.to_string();
    ensure!(
        refused.contains("greetings.roadstead.dev") && refused.contains("/does"),
        "{refused}"
    );
    for kind in [GREETING, PERSON] {
        for name in names(&world.list(kind, &namespace, "").await?) {
            world.delete(kind, &namespace, &name).await?;
            world.wait_gone(kind, &namespace, &name, SOON).await?;
        }
    }
    let seconds = trial(&world, &namespace, &cleanup, &gone).await?;
    world.figure("olm.trial_cleanup", seconds, "s");
    for kind in [SUBSCRIPTION, CATALOG_SOURCE, OPERATOR_GROUP, DEPLOYMENT] {
        let left = names(&world.list(kind, &namespace, "").await?);
        ensure!(left.is_empty(), "left of {}: {left:?}", kind.kind);
    }
    let left = names(&world.list(CSV, &namespace, "!olm.copiedFrom").await?);
    ensure!(left.is_empty(), "versions are left: {left:?}");
    for name in ["greetings.roadstead.dev", "people.roadstead.dev"] {
        ensure!(
            world.find(CRD, "", name).await?.is_none(),
            "the definition {name} is left"
        );
    }
    Ok(())
}

/// The image of the sample operator's bundle, of a version that is in no catalog.
pub(super) async fn push(world: &World, version: &str) -> Outcome<String> {
    let bundle = world.settings.scratch.join("trial").join(version).join("bundle");
    let (bundle, none) = (bundle.display().to_string(), world.settings.scratch.join("none"));
    let generate = [
        "bundle",
        "generate",
        "--input",
        "examples/greeter/crds",
        "--input",
        "examples/greeter/manifests",
        "--version",
        version,
    ];
    let none = none.display().to_string();
    let place = [
        "--image",
        &world.settings.greeter,
        "--catalog",
        &none,
        "--output",
        &bundle,
    ];
    world.run(PROGRAM, &[&generate[..], &place].concat()).await?;
    let image = world.image(
        "roadstead-greeter-trial",
        &format!("v{version}-{}", world.settings.content),
    );
    world.run(PROGRAM, &["bundle", "push", &bundle, &image]).await?;
    Ok(image)
}

/// Runs the command, and gives how many seconds it took.
async fn trial(world: &World, namespace: &str, arguments: &[&str], says: &str) -> Outcome<f64> {
    let started = Instant::now();
    let place = ["-n", namespace, "--timeout", "200s"];
    let said = world
        .run_within(LIMIT, PROGRAM, &[&["bundle"], arguments, &place].concat())
        .await?;
    ensure!(said.trim() == says, "it says {said:?} instead of {says:?}");
    Ok(started.elapsed().as_secs_f64())
}
