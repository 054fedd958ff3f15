//! What a user of OLM does and sees: catalog, group, subscription, plans, CSVs.

use std::time::Duration;

use jiff::SignedDuration;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams};
use serde_json::{Value, json};

use crate::catalog;
use crate::greeter;
use crate::objects::{
    CATALOG_SOURCE, CSV, DEPLOYMENT, INSTALL_PLAN, LEASE, OPERATOR_GROUP, SUBSCRIPTION, names, text,
};
use crate::operator;
use crate::outcome::Outcome;
use crate::wait::{Seen, until};
use crate::world::{DEMO, OPERATORS, OURS, World};

/// The package, and the name of the Subscription, the CatalogSource and the OperatorGroup of these tests.
pub const PACKAGE: &str = "roadstead";
/// The name that installations of OLM, and config/olm, give the group of this namespace.
pub const GROUP: &str = "global-operators";
/// From a Subscription, or from an approval, to a CSV that succeeded: catalog poll, unpack Job, rollout.
pub const INSTALL: Duration = Duration::from_secs(120);
/// OLM looks at a plan again five seconds after it began to carry it out, and carrying it out takes up to three.
const PLAN_SETTLES: SignedDuration = SignedDuration::from_secs(10);
/// What OLM does without starting a pod.
pub const SOON: Duration = Duration::from_secs(45);

/// How an upgrade is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approval {
    Automatic,
    Manual,
}

/// What is asked of OLM.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'a> {
    pub channel: &'a str,
    /// The version to begin with; the head of the channel where there is none.
    pub starting: Option<&'a str>,
    pub approval: Approval,
    /// Whether the Subscription says which nginx a proxy has that names none.
    ///
    /// OLM goes by what a Subscription configures only for the version that this one calls installed. An upgrade makes that the new version a moment before the old one
    /// is being replaced, and OLM may use that moment to roll out the old one once more, without what was configured.
    pub configured: bool,
}

impl<'a> Wish<'a> {
    pub fn automatic(channel: &'a str) -> Self {
        Self {
            channel,
            starting: None,
            approval: Approval::Automatic,
            configured: true,
        }
    }

    pub fn manual(channel: &'a str, starting: &'a str) -> Self {
        Self {
            channel,
            starting: Some(starting),
            approval: Approval::Manual,
            configured: true,
        }
    }
}

pub fn csv_name(version: &str) -> String {
    format!("{PACKAGE}.v{version}")
}

/// No operator, no Subscription, no object of an earlier scenario; the catalog is there with the first publication,
/// and the group selects all namespaces.
pub async fn fresh(world: &World) -> Outcome {
    clean(world).await?;
    operator_group(world, None).await?;
    catalog::provide(world).await
}

/// Removes what an earlier scenario installed and made; keeps the catalog.
pub async fn clean(world: &World) -> Outcome {
    world.remove_namespaces().await?;
    greeter::remove(world).await?;
    uninstall(world).await?;
    let demo = format!("-n operators delete catalogsource -l {DEMO} --ignore-not-found");
    world.kubectl(&demo).await?;
    // An operator whose rights went with its CSV could not release it, and the next would wait until it expires
    world.delete(LEASE, OPERATORS, operator::NAME).await?;
    // Plans have the Subscription as owner, but the collector may be slow, and one left over would be approved or used again
    world
        .api(INSTALL_PLAN, OPERATORS)
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await?;
    Ok(())
}

/// Deletes the Subscription and the CSVs, as README.md says, and waits until OLM has taken the operator away.
pub async fn uninstall(world: &World) -> Outcome {
    plans_settled(world).await?;
    world
        .kubectl("-n operators delete subscription roadstead --ignore-not-found")
        .await?;
    world
        .kubectl("-n operators delete csv -l operators.coreos.com/roadstead.operators --ignore-not-found --timeout=60s")
        .await?;
    // A CSV that OLM had no time to label
    for csv in names(&world.list(CSV, OPERATORS, "").await?) {
        if csv.starts_with(&csv_name("")) {
            world.delete(CSV, OPERATORS, &csv).await?;
            world.wait_gone(CSV, OPERATORS, &csv, SOON).await?;
        }
    }
    world.wait_gone(DEPLOYMENT, OPERATORS, operator::NAME, SOON).await
}

/// The one OperatorGroup of the operator's namespace; `None` selects all namespaces.
pub async fn operator_group(world: &World, targets: Option<&[&str]>) -> Outcome {
    for group in names(&world.list(OPERATOR_GROUP, OPERATORS, "").await?) {
        world.delete(OPERATOR_GROUP, OPERATORS, &group).await?;
        world.wait_gone(OPERATOR_GROUP, OPERATORS, &group, SOON).await?;
    }
    let spec = targets.map_or_else(|| json!({}), |targets| json!({"targetNamespaces": targets}));
    let group = json!({
        "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": GROUP, "labels": {OURS: "true"}},
        "spec": spec,
    });
    world.apply(OPERATORS, group).await?;
    Ok(())
}

/// Subscribes, and waits until OLM has taken that up.
pub async fn subscribe(world: &World, wish: Wish<'_>) -> Outcome {
    create_subscription(world, wish).await?;
    if !taken_up(world).await? {
        world.note("OLM took a CSV that was just gone for installed; subscribing again, as README.md says");
        world
            .kubectl("-n operators delete subscription roadstead --ignore-not-found")
            .await?;
        create_subscription(world, wish).await?;
    }
    Ok(())
}

async fn create_subscription(world: &World, wish: Wish<'_>) -> Outcome {
    let approval = match wish.approval {
        Approval::Automatic => "Automatic",
        Approval::Manual => "Manual",
    };
    let mut spec = json!({
        "name": PACKAGE,
        "channel": wish.channel,
        "source": PACKAGE,
        "sourceNamespace": OPERATORS,
        "installPlanApproval": approval,
    });
    if wish.configured {
        spec["config"] = json!({"env": [{"name": "RELATED_IMAGE_NGINX", "value": world.settings.nginx}]});
    }
    if let Some(version) = wish.starting {
        spec["startingCSV"] = json!(csv_name(version));
    }
    let subscription = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": PACKAGE, "labels": {OURS: "true"}}, "spec": spec,
    });
    world.apply(OPERATORS, subscription).await?;
    Ok(())
}

/// The operator at this version, however it came about; uses what is there if it is that and well.
pub async fn installed(world: &World, version: &str) -> Outcome {
    if world.is_shared() {
        return operator::ready(world, OPERATORS).await;
    }
    if is_well(world, version).await? {
        world.remove_namespaces().await?;
        return operator::ready(world, OPERATORS).await;
    }
    fresh(world).await?;
    install(world, Wish::manual("candidate", version), version).await
}

/// Subscribes, approves if need be, and waits until the version's operator leads.
pub async fn install(world: &World, wish: Wish<'_>, version: &str) -> Outcome {
    subscribe(world, wish).await?;
    if wish.approval == Approval::Manual {
        approve(world, version).await?;
    }
    succeeded(world, version).await?;
    operator::ready(world, OPERATORS).await
}

/// Waits until OLM has looked at the Subscription. False if it takes a CSV for installed that is not there, as it does at times when one
/// was deleted just before: then it waits for ever.
async fn taken_up(world: &World) -> Outcome<bool> {
    until("OLM to look at the Subscription", INSTALL, || async {
        let subscription = world.get(SUBSCRIPTION, OPERATORS, PACKAGE).await?;
        let (installed, current) = (
            text(&subscription, "/status/installedCSV"),
            text(&subscription, "/status/currentCSV"),
        );
        if !installed.is_empty() && world.find(CSV, OPERATORS, installed).await?.is_none() {
            return Ok(Seen::There(false));
        }
        Ok(Seen::when(
            !current.is_empty(),
            true,
            "nothing in its status".to_owned(),
        ))
    })
    .await
}

/// Whether the Subscription is there with this channel and approves by itself.
pub async fn follows(world: &World, channel: &str) -> Outcome<bool> {
    let subscription = world.find(SUBSCRIPTION, OPERATORS, PACKAGE).await?;
    Ok(subscription.is_some_and(|it| {
        text(&it, "/spec/channel") == channel && text(&it, "/spec/installPlanApproval") == "Automatic"
    }))
}

/// Whether this version, and no other, is installed and succeeded.
pub async fn is_well(world: &World, version: &str) -> Outcome<bool> {
    let csvs = world.list(CSV, OPERATORS, "").await?;
    let ours: Vec<&DynamicObject> = csvs
        .iter()
        .filter(|csv| {
            csv.metadata
                .name
                .as_deref()
                .is_some_and(|name| name.starts_with(&csv_name("")))
        })
        .collect();
    let [csv] = ours[..] else { return Ok(false) };
    Ok(csv.metadata.name.as_deref() == Some(&csv_name(version))
        && csv.metadata.deletion_timestamp.is_none()
        && text(csv, "/status/phase") == "Succeeded"
        && world.find(SUBSCRIPTION, OPERATORS, PACKAGE).await?.is_some())
}

/// Waits until the CSV of the version has this phase, and returns the CSV.
pub async fn phase(world: &World, version: &str, wanted: &str, limit: Duration) -> Outcome<DynamicObject> {
    until(
        format!("CSV {} to be {wanted}", csv_name(version)),
        limit,
        || async {
            let csv = world.get(CSV, OPERATORS, &csv_name(version)).await?;
            let phase = text(&csv, "/status/phase").to_owned();
            let instead = format!(
                "{phase} ({}: {})",
                text(&csv, "/status/reason"),
                text(&csv, "/status/message")
            );
            Ok(Seen::when(phase == wanted, csv, instead))
        },
    )
    .await
}

pub async fn succeeded(world: &World, version: &str) -> Outcome {
    phase(world, version, "Succeeded", INSTALL).await.map(drop)
}

/// Waits until OLM is done with its plans: before a removal. It goes through a plan that it has just carried out once more where its copy of it
/// is old, and whoever deletes Subscription and CSV meanwhile gets the CSV back. Nobody but a test is so quick.
pub async fn plans_settled(world: &World) -> Outcome {
    until("OLM to be done with every InstallPlan", SOON, || async {
        let plans = world.list(INSTALL_PLAN, OPERATORS, "").await?;
        let now = jiff::Timestamp::now();
        let left: Vec<String> = plans
            .iter()
            .filter(|plan| !is_settled(plan, now))
            .map(describe_plan)
            .collect();
        Ok(Seen::when(left.is_empty(), (), format_args!("{left:?}")))
    })
    .await
}

fn is_settled(plan: &DynamicObject, now: jiff::Timestamp) -> bool {
    match text(plan, "/status/phase") {
        "Complete" => text(plan, "/status/conditions/0/lastUpdateTime")
            .parse::<jiff::Timestamp>()
            .is_ok_and(|done| now.duration_since(done) > PLAN_SETTLES),
        "RequiresApproval" | "Failed" => true,
        _ => false,
    }
}

/// Waits for an InstallPlan that would install the version and waits for approval.
pub async fn waiting_plan(world: &World, version: &str) -> Outcome<DynamicObject> {
    plan_with(world, version, "RequiresApproval").await
}

/// Approves the InstallPlan of the version, once it asks for it.
pub async fn approve(world: &World, version: &str) -> Outcome {
    let plan = waiting_plan(world, version).await?;
    let name = plan.metadata.name.unwrap_or_default();
    world
        .merge(
            INSTALL_PLAN,
            OPERATORS,
            &name,
            json!({"spec": {"approved": true}}),
        )
        .await?;
    Ok(())
}

/// Has OLM carry out the plan of the version once more, and waits until it has: as it does where its record of what it did was lost.
pub async fn repeat_plan(world: &World, version: &str) -> Outcome {
    let plans = world.api(INSTALL_PLAN, OPERATORS);
    // OLM may write the plan in between
    until("the InstallPlan to be begun once more", SOON, || async {
        let mut plan = plan_with(world, version, "Complete").await?;
        let name = plan.metadata.name.clone().unwrap_or_default();
        plan.data["status"]["phase"] = json!("Installing");
        plan.data["status"]["conditions"] = json!([]);
        plan.data["status"]["startTime"] = Value::Null;
        for step in plan.data["status"]["plan"].as_array_mut().into_iter().flatten() {
            step["status"] = json!("Unknown");
        }
        plans.replace_status(&name, &PostParams::default(), &plan).await?;
        Ok(Seen::There(()))
    })
    .await?;
    carried_out(world, version).await
}

/// Waits until OLM has done all that the plan of a version says.
pub async fn carried_out(world: &World, version: &str) -> Outcome {
    plan_with(world, version, "Complete").await.map(drop)
}

/// Waits for the plan of a version to be in this phase.
async fn plan_with(world: &World, version: &str, wanted: &str) -> Outcome<DynamicObject> {
    until(
        format!("the InstallPlan for {} to be {wanted}", csv_name(version)),
        INSTALL,
        || async {
            let mut plans = world.list(INSTALL_PLAN, OPERATORS, "").await?;
            plans.retain(|plan| installs(plan, version));
            let seen: Vec<String> = plans.iter().map(describe_plan).collect();
            plans.retain(|plan| text(plan, "/status/phase") == wanted);
            Ok(plans
                .pop()
                .map_or_else(|| Seen::NotYet(format!("plans: {seen:?}")), Seen::There))
        },
    )
    .await
}

fn installs(plan: &DynamicObject, version: &str) -> bool {
    let named = plan
        .data
        .pointer("/spec/clusterServiceVersionNames")
        .and_then(Value::as_array);
    named.is_some_and(|names| names.iter().any(|name| *name == csv_name(version)))
}

fn describe_plan(plan: &DynamicObject) -> String {
    let named = plan
        .data
        .pointer("/spec/clusterServiceVersionNames")
        .map(ToString::to_string)
        .unwrap_or_default();
    format!(
        "{named} {} {}",
        text(plan, "/status/phase"),
        text(plan, "/status/message")
    )
}

/// Waits until the catalog's server answers OLM.
pub async fn catalog_ready(world: &World) -> Outcome {
    until("the CatalogSource to be READY", INSTALL, || async {
        let source = world.get(CATALOG_SOURCE, OPERATORS, PACKAGE).await?;
        let state = text(&source, "/status/connectionState/lastObservedState").to_owned();
        Ok(Seen::equal(&state.as_str(), &"READY"))
    })
    .await
}
