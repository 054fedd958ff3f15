//! The catalog that the scenarios subscribe to, and how its next publication comes about.
//!
//! `hack/e2e` builds publications of one catalog as tags, of which those from the third on are for OLM v1 (`scenarios::olm_v1`). To publish is to move the tag that the CatalogSource
//! watches, which is what a push to that tag does. One CatalogSource serves all scenarios, since its pod
//! takes the longest to start:
//!
//! | channel | first publication | second publication |
//! | --- | --- | --- |
//! | `stable` | 0.3.0 | 0.3.0, 0.3.1 |
//! | `candidate` | 0.3.0, 0.3.1 | the same |
//! | `first` | 0.3.0 | the same |
//! | `broken` | 0.2.0 as it was released, 0.3.2, whose operator image does not exist | the same |
//! | `released` | 0.1.0 and 0.2.0 as they were released, 0.3.0, and 0.4.0, which has no v1alpha1 | the same |
//!
//! Beside the package `roadstead` it holds `roadstead-greeter`, the sample operator, whose one version is in every channel of its own.

use serde_json::json;

use crate::objects::{CATALOG_SOURCE, text};
use crate::olm::{PACKAGE, SOON, catalog_ready};
use crate::outcome::Outcome;
use crate::world::{OPERATORS, OURS, World};

/// The image of the catalog, and the tag that is watched.
const IMAGE: &str = "roadstead-catalog";
const WATCHED: &str = "e2e";
/// Annotation on the CatalogSource: which publication its tag was moved to last.
const PUBLICATION: &str = "roadstead.dev/e2e-publication";

/// The CatalogSource with whichever publication it has.
pub async fn provide(world: &World) -> Outcome {
    if world.find(CATALOG_SOURCE, OPERATORS, PACKAGE).await?.is_some() {
        return catalog_ready(world).await;
    }
    provide_first(world).await
}

/// The CatalogSource with the first publication.
pub async fn provide_first(world: &World) -> Outcome {
    let image = world.image(IMAGE, WATCHED);
    if let Some(source) = world.find(CATALOG_SOURCE, OPERATORS, PACKAGE).await? {
        let first = source
            .metadata
            .annotations
            .as_ref()
            .and_then(|it| it.get(PUBLICATION))
            .is_some_and(|it| it == "1");
        if first && text(&source, "/spec/image") == image {
            return catalog_ready(world).await;
        }
        remove(world).await?;
    }
    move_tag(world, "1").await?;
    let source = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": PACKAGE, "labels": {OURS: "true"}, "annotations": {PUBLICATION: "1"}},
        "spec": {
            "sourceType": "grpc",
            "image": image,
            "displayName": "Roadstead (end-to-end tests)",
            "grpcPodConfig": {"securityContextConfig": "restricted"},
            "updateStrategy": {"registryPoll": {"interval": "15s"}},
        },
    });
    world.apply(OPERATORS, source).await?;
    catalog_ready(world).await
}

/// Moves the watched tag to the second publication. OLM finds out by itself.
pub async fn publish_second(world: &World) -> Outcome {
    move_tag(world, "2").await?;
    let annotation = json!({"metadata": {"annotations": {PUBLICATION: "2"}}});
    world
        .merge(CATALOG_SOURCE, OPERATORS, PACKAGE, annotation)
        .await?;
    Ok(())
}

/// Deletes the CatalogSource and waits until it is gone.
pub async fn remove(world: &World) -> Outcome {
    world.delete(CATALOG_SOURCE, OPERATORS, PACKAGE).await?;
    world.wait_gone(CATALOG_SOURCE, OPERATORS, PACKAGE, SOON).await
}

async fn move_tag(world: &World, publication: &str) -> Outcome {
    let from = format!(
        "docker://{}",
        world.image(IMAGE, &format!("{WATCHED}-{publication}"))
    );
    let to = format!("docker://{}", world.image(IMAGE, WATCHED));
    let insecure = ["--src-tls-verify=false", "--dest-tls-verify=false"];
    world
        .run(
            "skopeo",
            &[
                "--insecure-policy",
                "copy",
                "--quiet",
                "--preserve-digests",
                insecure[0],
                insecure[1],
                &from,
                &to,
            ],
        )
        .await
        .map(drop)
}
