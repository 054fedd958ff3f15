//! The Deployments of the version that serves, and their pods.

use serde_json::{Value, json};

use super::command::{SUBSCRIPTION, patch};
use super::facts::{Deployed, Facts, serving};
use super::field::{condition, condition_is, list, number, path, said, text, time};
use super::link::{Kind, Link, Trouble};
use super::pods::{Ailing, ailing};

/// Judges the Deployments.
pub(super) fn links(facts: &Facts) -> Vec<Link> {
    let csvs = facts.csvs.as_deref().unwrap_or_default();
    let phase = serving(&facts.subscription, csvs).map(|csv| text(csv, "/status/phase"));
    // OLM makes the Deployments when it has begun to install
    let is_due = matches!(phase, Some("Installing" | "Succeeded" | "Failed" | "Replacing"));
    facts
        .deployments
        .iter()
        .map(|deployed| link(facts, deployed, is_due))
        .collect()
}

fn link(facts: &Facts, deployed: &Deployed, is_due: bool) -> Link {
    let link = Link::new(
        Kind::Deployment,
        format!("{}/{}", facts.namespace(), deployed.name),
    );
    match &deployed.deployment {
        Err(why) => link.unseen(why),
        Ok(None) if !is_due => link.state("not there yet").not_yet(),
        Ok(None) => {
            let what = format!("The Deployment {} is not there.", link.name);
            link.state("absent").wrong(
                Trouble::new(what).advise(
                    "OLM makes it anew once it notices; if it does not, the version's status says why",
                ),
            )
        }
        Ok(Some(deployment)) => judged(link, deployment, deployed, facts),
    }
}

fn judged(link: Link, deployment: &Value, deployed: &Deployed, facts: &Facts) -> Link {
    let status = &deployment["status"];
    let wanted = deployment
        .pointer("/spec/replicas")
        .and_then(Value::as_i64)
        .unwrap_or(1);
    let [ready, updated, all] =
        ["/readyReplicas", "/updatedReplicas", "/replicas"].map(|field| number(status, field));
    let is_seen = number(status, "/observedGeneration") >= number(deployment, "/metadata/generation");
    let progressing = condition(deployment, "Progressing");
    let link = link
        .state(format!("{ready} of {wanted} ready"))
        .since(progressing.and_then(|condition| time(condition, "/lastUpdateTime")))
        .detail(
            "updated",
            Some(updated)
                .filter(|updated| *updated != wanted)
                .map(|updated| updated.to_string())
                .unwrap_or_default(),
        );
    if is_seen && ready >= wanted && updated >= wanted && all <= updated {
        return link;
    }
    let rest = match () {
        () if !is_seen => ", not looked at yet".to_owned(),
        () if updated < wanted => format!(", {updated} of {wanted} of the new version"),
        () if all > updated => format!(", {} of before still there", all - updated),
        () => String::new(),
    };
    let link = link.state(format!("{ready} of {wanted} ready{rest}"));
    let pods = deployed.pods.as_deref().unwrap_or_default();
    let trouble = Trouble::new(format!(
        "The Deployment {} does not have the pods that it should.",
        path(deployment)
    ));
    if let Some(ailing) = ailing(pods) {
        let link = link.state(format!("{ready} of {wanted} ready: {}", ailing.brief()));
        return unwell(link, &ailing, deployment, facts);
    }
    if let Some(condition) = condition_is(deployment, "ReplicaFailure", "True") {
        let trouble = trouble
            .quoting("condition ReplicaFailure", said(condition))
            .advise("the API server refuses the pods: a quota, the namespace's pod security, or a webhook, as it says");
        return link.wrong(trouble);
    }
    if let Some(condition) = condition_is(deployment, "Progressing", "False") {
        let trouble = trouble.quoting("condition Progressing", said(condition)).command(
            "see what its pods wait for",
            format!(
                "kubectl -n {} describe pods -l {}",
                facts.namespace(),
                selector(deployment)
            ),
        );
        return link.wrong(trouble);
    }
    let why = progressing.map(said).unwrap_or_default();
    link.waits(
        Trouble::new(format!(
            "The Deployment {} is being rolled out.",
            path(deployment)
        ))
        .quoting("condition Progressing", why),
    )
}

fn unwell(link: Link, ailing: &Ailing<'_>, deployment: &Value, facts: &Facts) -> Link {
    let trouble = Trouble::new(format!(
        "The operator does not run as it should: {}.",
        ailing.summary()
    ));
    let (namespace, subscription) = (facts.namespace(), facts.subscription());
    let trouble = if ailing.lacks_memory() {
        trouble.command(
            "give it twice the memory; OLM takes a change of the Deployment back, but not of the Subscription",
            patch(
                namespace,
                SUBSCRIPTION,
                subscription,
                json!({"config": {"resources": {"limits": {"memory": more_memory(deployment, ailing.container())}}}}),
            ),
        )
    } else if ailing.is_unschedulable() {
        trouble.advise("make room, or say in spec.config of the Subscription (nodeSelector, tolerations, resources) where it may run: OLM takes a change of the Deployment back")
    } else if ailing.lacks_image() {
        trouble.advise(format!(
            "see that the images of {} exist, and that its service account may pull them",
            path(deployment)
        ))
    } else {
        trouble
    };
    let since = ailing.since();
    let trouble = ailing.explain(trouble);
    match since {
        Some(since) => link.since(Some(since)),
        None => link,
    }
    .wrong(trouble)
}

/// Twice what the container may take.
fn more_memory(deployment: &Value, container: &str) -> String {
    let containers = list(deployment, "/spec/template/spec/containers");
    let limit = containers
        .iter()
        .find(|it| text(it, "/name") == container)
        .map(|it| text(it, "/resources/limits/memory"))
        .unwrap_or_default();
    let unit = limit.trim_start_matches(|character: char| character.is_ascii_digit());
    let number: Option<u64> = limit[..limit.len() - unit.len()].parse().ok();
    match number.and_then(|number| number.checked_mul(2)) {
        Some(number) if matches!(unit, "Ki" | "Mi" | "Gi" | "k" | "M" | "G" | "") => {
            format!("{number}{unit}")
        }
        _ => "512Mi".to_owned(),
    }
}

/// The labels of a Deployment's pods, as a selector.
#[must_use]
pub fn selector(deployment: &Value) -> String {
    let labels = deployment
        .pointer("/spec/selector/matchLabels")
        .and_then(Value::as_object);
    let labels = labels.into_iter().flatten();
    let pairs: Vec<String> = labels
        .filter_map(|(name, value)| Some(format!("{name}={}", value.as_str()?)))
        .collect();
    pairs.join(",")
}
