//! From a catalog to a running operator.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::catalog;
use crate::objects::{CSV, INSTALL_PLAN, OPERATOR_GROUP, text};
use crate::olm::{self, SOON, Wish};
use crate::operator;
use crate::outcome::{Outcome, ensure};
use crate::wait::{Seen, throughout, until};
use crate::world::{OPERATORS, World};

/// How long nothing may happen for "it waits" to be believed.
const QUIET: Duration = Duration::from_secs(5);

pub async fn a_subscription_leads_to_a_csv_that_succeeded(world: Arc<World>) -> Outcome {
    olm::clean(&world).await?;
    olm::operator_group(&world, None).await?;
    let started = Instant::now();
    catalog::provide_first(&world).await?;
    let catalog = started.elapsed().as_secs_f64();

    olm::subscribe(&world, Wish::automatic("stable")).await?;
    olm::succeeded(&world, "0.3.0").await?;
    let csv = started.elapsed().as_secs_f64() - catalog;
    operator::ready(&world, OPERATORS).await?;
    let leads = started.elapsed().as_secs_f64() - catalog;
    world.figure("olm.catalog_to_ready", catalog, "s");
    world.figure("olm.subscription_to_succeeded", csv, "s");
    world.figure("olm.subscription_to_leader", leads, "s");

    let image = operator::image(&world, OPERATORS).await?;
    ensure!(
        image == world.operator_image("0.3.0"),
        "the operator's image is {image}"
    );
    let second = world.run("hack/deploy", &[&image]).await;
    let told = "OLM runs the operator in namespace operators";
    ensure!(
        second
            .as_ref()
            .is_err_and(|error| error.to_string().contains(told)),
        "a second one beside it was not refused: {second:?}"
    );
    Ok(())
}

pub async fn an_operator_group_with_target_namespaces_is_refused(world: Arc<World>) -> Outcome {
    olm::fresh(&world).await?;
    for (targets, reason) in [
        (
            vec![OPERATORS],
            "OwnNamespace InstallModeType not supported, cannot configure to watch own namespace",
        ),
        (
            vec!["default"],
            "SingleNamespace InstallModeType not supported, cannot configure to watch one namespace",
        ),
    ] {
        olm::operator_group(&world, Some(&targets)).await?;
        if world
            .find(CSV, OPERATORS, &olm::csv_name("0.3.0"))
            .await?
            .is_none()
        {
            olm::subscribe(&world, Wish::automatic("first")).await?;
        }
        until(
            format!("OLM to refuse targetNamespaces {targets:?}"),
            olm::INSTALL,
            || async {
                let csv = world.get(CSV, OPERATORS, &olm::csv_name("0.3.0")).await?;
                let seen = ["/status/phase", "/status/reason", "/status/message"]
                    .map(|field| text(&csv, field).to_owned());
                let wanted = ["Failed", "UnsupportedOperatorGroup", reason].map(str::to_owned);
                Ok(Seen::equal(&seen, &wanted))
            },
        )
        .await?;
    }
    ensure!(
        operator::deployment(&world, OPERATORS).await.is_err(),
        "OLM refused the CSV and yet started the operator"
    );

    // The remedy in README.md, without anything else: the group's spec made empty
    let whole = json!({"spec": {"targetNamespaces": null}});
    world.merge(OPERATOR_GROUP, OPERATORS, olm::GROUP, whole).await?;
    olm::succeeded(&world, "0.3.0").await
}

pub async fn starting_csv_and_manual_approval_wait_for_the_user(world: Arc<World>) -> Outcome {
    olm::fresh(&world).await?;
    olm::subscribe(&world, Wish::manual("candidate", "0.3.0")).await?;
    olm::waiting_plan(&world, "0.3.0").await?;
    throughout("nothing installed before the approval", QUIET, || async {
        let csv = world.find(CSV, OPERATORS, &olm::csv_name("0.3.0")).await?;
        Ok(Seen::when(csv.is_none(), (), "the CSV is there"))
    })
    .await?;
    olm::approve(&world, "0.3.0").await?;
    olm::succeeded(&world, "0.3.0").await?;
    operator::ready(&world, OPERATORS).await?;

    // The channel's head is newer: OLM offers it and waits
    let offer = olm::waiting_plan(&world, "0.3.1").await?;
    let before = operator::uids(&operator::pods(&world, OPERATORS).await?);
    throughout("0.3.0 until the upgrade is approved", QUIET, || async {
        let next = world.find(CSV, OPERATORS, &olm::csv_name("0.3.1")).await?;
        let plan = world
            .get(
                INSTALL_PLAN,
                OPERATORS,
                offer.metadata.name.as_deref().unwrap_or_default(),
            )
            .await?;
        let phase = text(&plan, "/status/phase");
        Ok(Seen::when(
            next.is_none() && phase == "RequiresApproval",
            (),
            format_args!("plan {phase}, next CSV {:?}", next.is_some()),
        ))
    })
    .await?;
    let after = operator::uids(&operator::pods(&world, OPERATORS).await?);
    ensure!(
        before == after,
        "the operator's pods were replaced without an approval"
    );

    let started = Instant::now();
    olm::approve(&world, "0.3.1").await?;
    olm::succeeded(&world, "0.3.1").await?;
    world.figure("olm.approval_to_succeeded", started.elapsed().as_secs_f64(), "s");
    world
        .wait_gone(CSV, OPERATORS, &olm::csv_name("0.3.0"), SOON)
        .await?;
    let image = operator::image(&world, OPERATORS).await?;
    ensure!(
        image == world.operator_image("0.3.1"),
        "after the upgrade the image is {image}"
    );
    operator::ready(&world, OPERATORS).await
}
