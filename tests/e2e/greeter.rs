//! The sample operator of examples/greeter, a second package of the catalog.

use std::time::Duration;

use kube::ResourceExt;
use serde_json::json;

use crate::objects::{
    CRD, CSV, DEPLOYMENT, GREETING, Kind, LEASE, OPERATOR, PERSON, SUBSCRIPTION, names, text,
};
use crate::olm::{INSTALL, SOON, plans_settled};
use crate::outcome::Outcome;
use crate::wait::{Seen, until};
use crate::world::{OPERATORS, World};

/// The package, its Subscription, its Deployment and its Lease.
pub const NAME: &str = "roadstead-greeter";
pub const CRDS: [&str; 2] = ["greetings.roadstead.dev", "people.roadstead.dev"];
/// What the status of a Greeting follows within.
const FOLLOWS: Duration = Duration::from_secs(30);

/// Subscribes to the sample operator in a catalog. OLM approves by itself.
pub async fn subscribe(world: &World, source: &str) -> Outcome {
    let subscription = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": {"name": NAME},
        "spec": {
            "name": NAME, "channel": "stable", "source": source, "sourceNamespace": OPERATORS,
            "installPlanApproval": "Automatic",
        },
    });
    world.apply(OPERATORS, subscription).await.map(drop)
}

/// Waits until a version of the sample operator succeeded.
pub async fn succeeded(world: &World, version: &str) -> Outcome {
    let csv = format!("{NAME}.v{version}");
    until(format!("{csv} to be Succeeded"), INSTALL, || async {
        let subscription = world.get(SUBSCRIPTION, OPERATORS, NAME).await?;
        let installed = text(&subscription, "/status/installedCSV");
        if installed != csv {
            return Ok(Seen::NotYet(format!("installed is {installed:?}")));
        }
        let Some(csv) = world.find(CSV, OPERATORS, &csv).await? else {
            return Ok(Seen::NotYet("it is not there".to_owned()));
        };
        let phase = text(&csv, "/status/phase");
        let message = text(&csv, "/status/message");
        Ok(Seen::when(
            phase == "Succeeded",
            (),
            format_args!("{phase}: {message}"),
        ))
    })
    .await
}

/// Removes it and everything of it, in whatever state an earlier run left it; does nothing where there is nothing.
pub async fn remove(world: &World) -> Outcome {
    plans_settled(world).await?;
    world.delete(SUBSCRIPTION, OPERATORS, NAME).await?;
    for csv in names(&world.list(CSV, OPERATORS, "").await?) {
        if csv.starts_with(NAME) {
            world.delete(CSV, OPERATORS, &csv).await?;
            world.wait_gone(CSV, OPERATORS, &csv, SOON).await?;
        }
    }
    world.wait_gone(DEPLOYMENT, OPERATORS, NAME, SOON).await?;
    for kind in [GREETING, PERSON] {
        abandon(world, kind).await?;
    }
    for crd in CRDS {
        world.delete(CRD, "", crd).await?;
        world.wait_gone(CRD, "", crd, SOON).await?;
    }
    world.delete(LEASE, OPERATORS, NAME).await?;
    world.delete(OPERATOR, "", &format!("{NAME}.{OPERATORS}")).await
}

/// Deletes all objects of a kind even though no operator is there to let go of them.
async fn abandon(world: &World, kind: Kind) -> Outcome {
    for object in world.list_everywhere(kind, "").await? {
        let namespace = object.namespace().unwrap_or_default();
        world.delete(kind, &namespace, &object.name_any()).await?;
        let finalizers = json!({"metadata": {"finalizers": null}});
        // It may have gone between the two
        let _ = world
            .merge(kind, &namespace, &object.name_any(), finalizers)
            .await;
    }
    Ok(())
}

/// Waits until the Greeting has this message and names these people.
pub async fn says(world: &World, namespace: &str, greeting: &str, message: &str, people: &[&str]) -> Outcome {
    until(
        format!("Greeting {greeting} to say {message:?} and to name {people:?}"),
        FOLLOWS,
        || async {
            let greeting = world.get(GREETING, namespace, greeting).await?;
            let said = text(&greeting, "/status/message");
            let named = greeting
                .data
                .pointer("/status/people")
                .cloned()
                .unwrap_or_default();
            let right = said == message && named == json!(people);
            Ok(Seen::when(right, (), format_args!("{said:?}, {named}")))
        },
    )
    .await
}
