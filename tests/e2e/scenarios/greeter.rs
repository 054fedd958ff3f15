//! The sample operator, from the catalog to its removal, as its tutorial has it.

use std::sync::Arc;
use std::time::Instant;

use kube::ResourceExt;

use super::uninstall::{commands, without_timeout};
use crate::catalog;
use crate::greeter::{self, NAME, says};
use crate::objects::{CRD, CSV, DEPLOYMENT, PERSON, container_field, names};
use crate::olm::{self, SOON};
use crate::outcome::{Outcome, ensure};
use crate::world::{OPERATORS, World};

/// examples/greeter/README.md, "Remove it".
const REMOVAL: &[&str] = &[
    "delete greetings,people --all --all-namespaces --timeout=60s",
    "-n operators delete subscription roadstead-greeter",
    "-n operators delete csv -l operators.coreos.com/roadstead-greeter.operators --timeout=60s",
    "delete crd greetings.roadstead.dev people.roadstead.dev --timeout=60s",
    "-n operators delete lease roadstead-greeter",
    "delete operators.operators.coreos.com roadstead-greeter.operators --timeout=60s",
];

pub async fn a_second_package_installs_the_sample_operator_which_greets_and_holds_people(
    world: Arc<World>,
) -> Outcome {
    olm::clean(&world).await?;
    olm::operator_group(&world, None).await?;
    catalog::provide(&world).await?;
    let started = Instant::now();
    greeter::subscribe(&world, olm::PACKAGE).await?;
    greeter::succeeded(&world, "0.1.0").await?;
    world.figure("olm.greeter_to_succeeded", started.elapsed().as_secs_f64(), "s");
    let deployment = world.get(DEPLOYMENT, OPERATORS, NAME).await?;
    let image = container_field(&deployment, "/image").and_then(|image| image.as_str());
    ensure!(
        image == Some(&world.settings.greeter),
        "the sample operator's image is {image:?}"
    );

    let namespace = world.namespace("greeter").await?;
    world
        .kubectl(&format!(
            "-n {namespace} apply -f examples/greeter/manifests/samples.yaml"
        ))
        .await?;
    let both = "Hello to the Doe family: Jane, John";
    says(&world, &namespace, "does", both, &["janed", "johnd"]).await?;
    jane_goes(&world, &namespace).await?;

    let readme = std::fs::read_to_string(world.settings.source.join("examples/greeter/README.md"))?;
    let documented = commands(&readme, "## Remove it")?;
    let ours: Vec<String> = REMOVAL.iter().map(|it| without_timeout(it)).collect();
    ensure!(
        documented == ours,
        "examples/greeter/README.md, \"Remove it\", lists other commands than these tests run: {documented:#?}"
    );
    olm::plans_settled(&world).await?;
    for command in REMOVAL {
        world.kubectl(command).await?;
    }
    for (kind, namespace, name) in [
        (DEPLOYMENT, OPERATORS, NAME),
        (CRD, "", "greetings.roadstead.dev"),
        (CRD, "", "people.roadstead.dev"),
    ] {
        world.wait_gone(kind, namespace, name, SOON).await?;
    }
    let left = names(&world.list(CSV, OPERATORS, "").await?);
    ensure!(left.iter().all(|csv| !csv.starts_with(NAME)), "left: {left:?}");
    greeter::remove(&world).await
}

/// Whoever is named is held; whoever is deleted stops being named and goes.
async fn jane_goes(world: &World, namespace: &str) -> Outcome {
    for name in ["janed", "johnd"] {
        let person = world.get(PERSON, namespace, name).await?;
        ensure!(
            person.finalizers().iter().any(|it| it == "roadstead.dev/cleanup"),
            "the Greeting names {name}, and nothing holds it: {:?}",
            person.finalizers()
        );
    }
    world.delete(PERSON, namespace, "janed").await?;
    world.wait_gone(PERSON, namespace, "janed", SOON).await?;
    let john = "Hello to the Doe family: John";
    says(world, namespace, "does", john, &["johnd"]).await
}
