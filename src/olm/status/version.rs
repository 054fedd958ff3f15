//! The versions that are installed, and what keeps one from taking another's place.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::command::patch;
use super::facts::Facts;
use super::field::{condition, is_new, list, name, namespace, number, path, said, text, time};
use super::link::{Kind, Link, Trouble};
use super::plan::subscribe_again;
use crate::olm::findings::listed;

/// Judges the versions, the oldest first, each after what it says of being upgraded.
pub(super) fn links(facts: &Facts, now: Timestamp) -> Vec<Link> {
    let versions = match facts.versions() {
        Err(why) => return vec![new(facts, facts.current()).unseen(&why)],
        Ok(versions) => versions,
    };
    let is_upgrade = versions.len() > 1;
    let mut links = Vec::new();
    for (place, csv) in versions.iter().enumerate() {
        links.push(version(csv, facts, now));
        let is_replaced = is_upgrade && place + 1 < versions.len();
        links.extend(upgradeable(csv, facts, is_replaced));
    }
    let plan_is_done = facts
        .known_plan()
        .is_some_and(|plan| text(plan, "/status/phase") == "Complete");
    let is_there = versions.iter().any(|csv| name(csv) == facts.current());
    if versions.is_empty() || plan_is_done && !is_there {
        links.push(absent(facts, plan_is_done));
    }
    links
}

fn new(facts: &Facts, name: &str) -> Link {
    Link::new(
        Kind::ClusterServiceVersion,
        format!("{}/{name}", facts.namespace()),
    )
}

/// What the Subscription progresses to is not there: either it is not time yet, or somebody took it away.
fn absent(facts: &Facts, plan_is_done: bool) -> Link {
    let link = new(facts, facts.current());
    if !plan_is_done {
        return link.state("none yet").not_yet();
    }
    let trouble = Trouble::new(format!(
        "{} is not there, although OLM has carried out the plan that brought it.",
        facts.current()
    ))
    .because("Whoever deletes a version and leaves its Subscription gets neither that version again nor another: OLM waits for it.");
    link.state("gone").wrong(subscribe_again(trouble, facts))
}

fn version(csv: &Value, facts: &Facts, now: Timestamp) -> Link {
    let phase = match text(csv, "/status/phase") {
        "" => "not looked at yet",
        phase => phase,
    };
    let reason = text(csv, "/status/reason");
    let since = time(csv, "/status/lastTransitionTime").or_else(|| time(csv, "/metadata/creationTimestamp"));
    let link = new(facts, name(csv))
        .state(phase)
        .since(since)
        .detail(
            "reason",
            Some(reason).filter(|_| phase != "Succeeded").unwrap_or_default(),
        )
        .detail("replaces", text(csv, "/spec/replaces"));
    let is_new =
        is_new(csv, "/status/lastTransitionTime", now) || is_new(csv, "/metadata/creationTimestamp", now);
    match phase {
        "Succeeded" => link,
        // What takes its place tells what is waited for
        "Replacing" | "Deleting" => link.not_yet(),
        "Failed" => failed(link, csv),
        "Pending" => pending(link, csv, is_new),
        "InstallReady" | "Installing" => link
            .waits(quoted(format!("OLM installs {}.", name(csv)), csv))
            .follows(),
        _ if is_new => link.waits(Trouble::new(format!("OLM has not looked at {} yet.", name(csv)))),
        _ => link.wrong(
            quoted(format!("OLM does not look at {}.", name(csv)), csv).command(
                "see whether OLM runs, and what it logs",
                "kubectl get pods -A -l app=olm-operator",
            ),
        ),
    }
}

fn quoted(what: String, csv: &Value) -> Trouble {
    Trouble::new(what).quoting("status", said(&csv["status"]))
}

fn failed(link: Link, csv: &Value) -> Link {
    let link = link.wrong(
        unmet(quoted(format!("{} has failed.", name(csv)), csv), csv).command(
            "see all that OLM did",
            format!(
                "kubectl -n {} describe clusterserviceversion {}",
                namespace(csv),
                name(csv)
            ),
        ),
    );
    // Deployments that do not become ready: they tell why
    match text(csv, "/status/reason") {
        "InstallCheckFailed" | "ComponentUnhealthy" | "InstallComponentFailed" | "NeedsReinstall" => {
            link.follows()
        }
        _ => link,
    }
}

fn pending(link: Link, csv: &Value, is_new: bool) -> Link {
    match text(csv, "/status/reason") {
        // The version before says what
        "OperatorConditionNotUpgradeable" => {
            let trouble = quoted(format!("{} is held back by the version before it.", name(csv)), csv);
            link.waits(trouble).follows()
        }
        "NeedsReinstall" | "ComponentUnhealthy" => {
            link.waits(quoted(format!("OLM is about to install {} again.", name(csv)), csv)).follows()
        }
        "RequirementsNotMet" if !is_new => link.wrong(unmet(
            quoted(format!("{} lacks what it requires.", name(csv)), csv),
            csv,
        ).advise("definitions and API services that it only uses come with another operator; all else comes with the bundle, and somebody has deleted or changed it since")),
        _ => link.waits(unmet(quoted(format!("OLM looks at what {} requires.", name(csv)), csv), csv)),
    }
}

/// Adds the requirements that are not met.
fn unmet(trouble: Trouble, csv: &Value) -> Trouble {
    const MOST: usize = 4;
    let requirements = list(csv, "/status/requirementStatus").iter();
    let unmet: Vec<&Value> = requirements
        .filter(|requirement| text(requirement, "/status") != "Present")
        .collect();
    let shown = unmet.iter().take(MOST).fold(trouble, |trouble, requirement| {
        let of = format!(
            "{} {}, {}",
            text(requirement, "/kind"),
            text(requirement, "/name"),
            text(requirement, "/status")
        );
        trouble.quoting(of, requirement_says(requirement))
    });
    match unmet.len().checked_sub(MOST) {
        None | Some(0) => shown,
        Some(more) => shown.because(format!("And {more} more requirements are not met.")),
    }
}

fn requirement_says(requirement: &Value) -> String {
    let own = text(requirement, "/message");
    let dependents: Vec<&str> = list(requirement, "/dependents")
        .iter()
        .filter(|dependent| text(dependent, "/status") != "Satisfied")
        .map(|dependent| text(dependent, "/message"))
        .collect();
    if dependents.is_empty() {
        return own.to_owned();
    }
    format!("{own}: {}", listed(dependents))
}

/// Whether the operator lets OLM put the next version in its place. Without a word of it there is no link.
fn upgradeable(csv: &Value, facts: &Facts, is_replaced: bool) -> Option<Link> {
    let conditions = facts.conditions.as_deref().ok()?;
    let object = conditions.iter().find(|object| name(object) == name(csv))?;
    let mut overrides = list(object, "/spec/overrides").iter();
    let overridden = overrides.find(|condition| text(condition, "/type") == "Upgradeable");
    let condition = overridden.or_else(|| condition(object, "Upgradeable"))?;
    let link = Link::new(Kind::OperatorCondition, path(object))
        .since(time(condition, "/lastTransitionTime"))
        .detail(
            "overridden",
            overridden.map(|_| "by somebody").unwrap_or_default(),
        );
    let is_outdated = overridden.is_none()
        && number(condition, "/observedGeneration") != number(object, "/metadata/generation");
    let holds = is_outdated || text(condition, "/status") == "False";
    let link = link.state(format!("Upgradeable={}", text(condition, "/status")));
    if !holds {
        return Some(link);
    }
    let link = link.detail("holds", "the next version back");
    Some(if is_replaced {
        link.waits(held(object, condition, is_outdated))
    } else {
        link
    })
}

fn held(object: &Value, condition: &Value, is_outdated: bool) -> Trouble {
    let trouble = Trouble::new(format!("{} says that it must not be upgraded now.", name(object)))
        .quoting("condition Upgradeable", said(condition));
    let trouble = if is_outdated {
        trouble.because(
            "The condition is of an earlier generation of the OperatorCondition, which OLM takes for a no.",
        )
    } else {
        trouble
    };
    trouble.command(
        "wait until it allows it; or, against its will, which may cost what it protects, let the upgrade in",
        patch(
            namespace(object),
            "operatorcondition",
            name(object),
            json!({"overrides": [{"type": "Upgradeable", "status": "True", "reason": "Forced", "message": "by hand"}]}),
        ),
    )
}
