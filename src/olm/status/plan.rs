//! The InstallPlan.

use serde_json::{Value, json};

use super::command::{SUBSCRIPTION, delete_subscription, patch};
use super::facts::{Facts, plan};
use super::field::{condition, list, name, path, said, text, texts, time};
use super::link::{Kind, Link, Trouble};
use crate::olm::findings::listed;

/// Judges the InstallPlan that the Subscription names.
pub(super) fn link(facts: &Facts) -> Link {
    let namespace = facts.namespace();
    let Some(named) = plan(&facts.subscription) else {
        let link = Link::new(Kind::InstallPlan, format!("{namespace}/"));
        return if facts.installed().is_empty() {
            link.state("none yet").not_yet()
        } else {
            link.state("none")
        };
    };
    let link = Link::new(Kind::InstallPlan, format!("{namespace}/{named}"));
    match &facts.plan {
        Err(why) => link.unseen(why),
        Ok(None) => gone(link, facts),
        Ok(Some(plan)) => judged(described(link, plan), plan, facts),
    }
}

/// A plan that was carried out may be deleted; OLM itself keeps only the latest few.
fn gone(link: Link, facts: &Facts) -> Link {
    let link = link.state("gone");
    if text(&facts.subscription, "/status/state") != "UpgradePending" {
        return link;
    }
    let trouble = Trouble::new(format!(
        "The InstallPlan {} of {} is gone, and OLM makes no other while the Subscription names it.",
        link.name,
        facts.current()
    ));
    link.wrong(stuck(trouble, facts))
}

fn described(link: Link, plan: &Value) -> Link {
    let steps = list(plan, "/status/plan");
    let done = steps.len() - open_steps(plan).count();
    let phase = match text(plan, "/status/phase") {
        "" => "not looked at yet",
        phase => phase,
    };
    let installed = condition(plan, "Installed").and_then(|condition| time(condition, "/lastTransitionTime"));
    link.state(phase)
        .since(installed.or_else(|| time(plan, "/metadata/creationTimestamp")))
        .detail("brings", listed(texts(plan, "/spec/clusterServiceVersionNames")))
        .detail("steps", format!("{done} of {}", steps.len()))
}

/// The steps whose object is not there.
fn open_steps(plan: &Value) -> impl Iterator<Item = &Value> {
    list(plan, "/status/plan")
        .iter()
        .filter(|step| !matches!(text(step, "/status"), "Present" | "Created"))
}

fn judged(link: Link, plan: &Value, facts: &Facts) -> Link {
    match text(plan, "/status/phase") {
        "Complete" => link,
        "" | "Planning" | "RequiresApproval" if is_overtaken(plan, facts) => {
            link.detail("overtaken", "what it brings is installed")
        }
        "RequiresApproval" => link.waits(approval(plan, facts)),
        "Failed" => link.wrong(failed(plan, facts)),
        "Installing" => link.waits(installing(plan)),
        _ => link.waits(Trouble::new(format!(
            "OLM has not begun with the InstallPlan {}.",
            path(plan)
        ))),
    }
}

/// Another plan may bring the same, made when somebody subscribed to something else in the namespace. Once that one was carried out, nobody needs this one, and
/// the Subscription names it all the same.
fn is_overtaken(plan: &Value, facts: &Facts) -> bool {
    let brings = texts(plan, "/spec/clusterServiceVersionNames");
    let installed = facts.csvs.as_deref().unwrap_or_default();
    !brings.is_empty()
        && brings
            .iter()
            .all(|version| installed.iter().any(|csv| name(csv) == *version))
}

fn approval(plan: &Value, facts: &Facts) -> Trouble {
    let brings = listed(texts(plan, "/spec/clusterServiceVersionNames"));
    let trouble = Trouble::new(format!("{brings} waits for somebody's approval."));
    let trouble = if text(&facts.subscription, "/spec/installPlanApproval") == "Manual" {
        trouble.because("The Subscription says installPlanApproval: Manual.")
    } else {
        trouble.because("This Subscription approves by itself, but another one of the namespace does not: one that says installPlanApproval: Manual is enough.")
    };
    trouble.command(
        "approve it",
        patch(
            facts.namespace(),
            "installplan",
            name(plan),
            json!({"approved": true}),
        ),
    )
}

fn failed(plan: &Value, facts: &Facts) -> Trouble {
    let trouble = Trouble::new(format!("The InstallPlan {} has failed.", path(plan)));
    let trouble = match condition(plan, "Installed") {
        Some(condition) if !text(condition, "/message").is_empty() => {
            trouble.quoting("condition Installed", said(condition))
        }
        _ => trouble.quoting("status", text(plan, "/status/message")),
    };
    let trouble = unfinished(trouble, plan);
    // Where the OperatorGroup says TechPreviewUnsafeFailForward, OLM goes on resolving, and calls the Subscription so
    if text(&facts.subscription, "/status/state") == "UpgradeFailed" {
        return trouble.advise("publish a version that replaces or skips the one that failed: the OperatorGroup's upgradeStrategy lets OLM go on to it");
    }
    stuck(trouble, facts)
}

fn installing(plan: &Value) -> Trouble {
    let trouble = Trouble::new(format!("OLM carries out the InstallPlan {}.", path(plan)));
    unfinished(trouble.quoting("status", text(plan, "/status/message")), plan)
}

fn unfinished(trouble: Trouble, plan: &Value) -> Trouble {
    let steps: Vec<String> = open_steps(plan)
        .map(|step| {
            format!(
                "{} {} ({})",
                text(step, "/resource/kind"),
                text(step, "/resource/name"),
                text(step, "/status")
            )
        })
        .collect();
    if steps.is_empty() {
        return trouble;
    }
    let steps = listed(steps.iter().map(String::as_str));
    trouble.quoting("steps that are not done", steps)
}

/// OLM resolves nothing for a Subscription whose plan failed or is gone while it waits for the version of that plan.
fn stuck(trouble: Trouble, facts: &Facts) -> Trouble {
    let trouble = trouble
        .because("OLM tries no plan again, and makes no other for a Subscription that waits for this one.");
    subscribe_again(trouble, facts)
}

/// A version that is there without its Subscription is in the way of a new one, so it has to go, too.
pub(super) fn subscribe_again(trouble: Trouble, facts: &Facts) -> Trouble {
    let (namespace, subscription) = (facts.namespace(), facts.subscription());
    let versions = facts.versions().unwrap_or_default();
    let names: Vec<&str> = versions.into_iter().map(name).collect();
    let keep =
        format!("kubectl -n {namespace} get {SUBSCRIPTION} {subscription} -o yaml >{subscription}.yaml");
    let mut delete = delete_subscription(namespace, subscription);
    if !names.is_empty() {
        delete = format!(
            "{delete} && kubectl -n {namespace} delete clusterserviceversion {}",
            names.join(" ")
        );
    }
    trouble.command(
        "once the cause is gone, delete the Subscription with what it has installed, and create it again. The operator is away meanwhile; its definitions and their objects stay. See first what its own documentation says of removing it",
        format!("{keep} && {delete}"),
    )
}
