//! The Subscription, and what the resolver says of its namespace.

use jiff::Timestamp;
use serde_json::Value;

use super::GRACE;
use super::bundle::{self, has_next};
use super::catalog::{connected_since, is_awaited};
use super::command::{delete_subscription, list_packages, look_again, word};
use super::facts::{Facts, source};
use super::field::{condition_is, is_new, list, name, namespace, said, text, time};
use super::link::{Kind, Link, Trouble};
use crate::olm::findings::listed;

/// Judges the Subscription.
pub(super) fn link(facts: &Facts, now: Timestamp) -> Link {
    let link = described(facts);
    if let Some(trouble) = twice(facts) {
        return link.wrong(trouble);
    }
    let failed = condition_is(&facts.subscription, "ResolutionFailed", "True");
    let outlived = failed.filter(|condition| is_outlived(facts, condition));
    if let (Some(condition), None) = (failed, outlived) {
        let link = link.since(time(condition, "/lastTransitionTime"));
        let orphan = orphan(text(condition, "/message"));
        if let Some(former) = orphan.filter(|orphan| is_gone(facts, orphan)) {
            let trouble = Trouble::new(format!(
                "{former} was in the way and has gone, and OLM has not looked again since: it does in about a quarter of an hour."
            ));
            let trouble = trouble.quoting("condition ResolutionFailed", said(condition));
            return link.waits(trouble.command(
                "any change of the Subscription makes it look at once",
                look_again(facts.namespace(), facts.subscription()),
            ));
        }
        if let Some(leaving) = orphan.filter(|orphan| is_leaving(facts, orphan)) {
            let trouble = Trouble::new(format!("OLM resolves again once {leaving} has gone."));
            return link.waits(trouble.quoting("condition ResolutionFailed", said(condition)));
        }
        if let Some(trouble) = read_since(facts, condition, now) {
            return link.waits(trouble).follows();
        }
        // A catalog that has just come is read a moment later
        let is_new = is_new(&facts.subscription, "/metadata/creationTimestamp", now);
        return link.wrong_unless_new(is_new, unresolved(facts, condition));
    }
    if let Some(condition) = condition_is(&facts.subscription, "CatalogSourcesUnhealthy", "True")
        && let Some(trouble) = others_unhealthy(facts, condition)
    {
        return link.wrong_unless_new(is_new(condition, "/lastTransitionTime", now), trouble);
    }
    let link = match outlived.and_then(|condition| orphan(text(condition, "/message"))) {
        Some(former) => link.detail(
            "resolver",
            format!("has not looked again since {former} has gone"),
        ),
        None => link,
    };
    match text(&facts.subscription, "/status/state") {
        "AtLatestKnown" => link,
        "" if facts.current().is_empty() => unresolved_yet(link, facts, now),
        // Plan and version tell what is waited for
        _ => link.not_yet(),
    }
}

fn described(facts: &Facts) -> Link {
    let subscription = &facts.subscription;
    let state = match text(subscription, "/status/state") {
        "" => "not resolved yet",
        state => state,
    };
    let next = Some(facts.current()).filter(|current| *current != facts.installed());
    let elsewhere: Vec<&str> = facts.elsewhere.iter().map(namespace).collect();
    Link::new(
        Kind::Subscription,
        format!("{}/{}", facts.namespace(), facts.subscription()),
    )
    .state(state)
    .since(time(subscription, "/status/lastUpdated"))
    .detail("channel", text(subscription, "/spec/channel"))
    .detail("approval", approval(subscription))
    .detail("installed", facts.installed())
    .detail("next", next.unwrap_or_default())
    .detail("pinned", pinned(facts))
    .detail("deprecated", deprecated(subscription))
    .detail("alsoIn", listed(elsewhere))
}

fn approval(subscription: &Value) -> &str {
    match text(subscription, "/spec/installPlanApproval") {
        "" => "Automatic",
        approval => approval,
    }
}

/// What is installed is what was asked for, and nothing else comes unless somebody approves it.
fn pinned(facts: &Facts) -> &str {
    let starting = text(&facts.subscription, "/spec/startingCSV");
    let is_pinned = approval(&facts.subscription) == "Manual" && starting == facts.installed();
    if is_pinned && !starting.is_empty() {
        "by startingCSV"
    } else {
        ""
    }
}

fn deprecated(subscription: &Value) -> String {
    condition_is(subscription, "Deprecated", "True")
        .map(|condition| text(condition, "/message").to_owned())
        .unwrap_or_default()
}

/// OLM resolves both, and the second finds the kinds of the first in its way.
fn twice(facts: &Facts) -> Option<Trouble> {
    let package = facts.package_name();
    let same: Vec<&Value> = facts
        .neighbours
        .iter()
        .filter(|other| text(other, "/spec/name") == package)
        .collect();
    let first = same.first()?;
    let others = listed(same.iter().map(|other| name(other)));
    // What has something installed is the one to keep
    let ours = std::iter::once(&facts.subscription);
    let idle = same
        .iter()
        .copied()
        .chain(ours)
        .find(|it| text(it, "/status/installedCSV").is_empty());
    let resolution = condition_is(&facts.subscription, "ResolutionFailed", "True");
    Some(
        Trouble::new(format!(
            "The namespace {} subscribes to {package} more than once: by {} and by {others}.",
            facts.namespace(),
            facts.subscription()
        ))
        .quoting(
            "condition ResolutionFailed",
            resolution.map(said).unwrap_or_default(),
        )
        .command(
            "delete all but one",
            delete_subscription(facts.namespace(), name(idle.unwrap_or(first))),
        ),
    )
}

/// OLM resolves a namespace as a whole, so what one Subscription asks in vain keeps all others from anything new.
fn unresolved(facts: &Facts, condition: &Value) -> Trouble {
    let message = text(condition, "/message");
    let namespace = facts.namespace();
    let culprits: Vec<&str> = facts
        .neighbours
        .iter()
        .map(name)
        .filter(|other| names_subscription(message, other))
        .collect();
    let is_ours = names_subscription(message, facts.subscription()) || culprits.is_empty();
    let what = if is_ours {
        format!("OLM finds no version that satisfies the Subscriptions of the namespace {namespace}.")
    } else {
        format!(
            "OLM cannot resolve another Subscription of the namespace {namespace}, {}, and this one waits with it.",
            listed(culprits.iter().copied())
        )
    };
    let trouble = Trouble::new(what).quoting("condition ResolutionFailed", said(condition));
    let trouble = advised(
        trouble,
        message,
        facts,
        culprits.first().filter(|_| !is_ours).copied(),
    );
    match facts.neighbours.len() {
        0 => trouble,
        others => trouble.because(format!(
            "OLM resolves all Subscriptions of a namespace together: until this is mended, none of the {} here gets anything new.",
            others + 1
        )),
    }
}

/// Whether a message of the resolver is about a Subscription of this name.
fn names_subscription(message: &str, name: &str) -> bool {
    let is_word_end =
        |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || "-.".contains(next));
    message
        .match_indices("subscription ")
        .filter_map(|(place, word)| message[place + word.len()..].strip_prefix(name))
        .any(is_word_end)
}

fn advised(trouble: Trouble, message: &str, facts: &Facts, culprit: Option<&str>) -> Trouble {
    let namespace = facts.namespace();
    if let Some(culprit) = culprit {
        return trouble.command(
            "correct that Subscription, or delete it",
            delete_subscription(namespace, culprit),
        );
    }
    if let Some(orphan) = orphan(message) {
        return trouble.command(
            format!("{orphan} is installed and no Subscription has it. If this one is to take it over, delete the version: its Deployments go, its definitions and their objects stay"),
            format!("kubectl -n {namespace} delete clusterserviceversion {}", word(orphan)),
        );
    }
    if is_of_a_catalog(message) {
        return trouble.command(
            "one catalog that OLM cannot read is enough: see which are not READY, and mend or delete those",
            "kubectl get catalogsources -A -o custom-columns=NS:.metadata.namespace,NAME:.metadata.name,STATE:.status.connectionState.lastObservedState",
        );
    }
    let (source_namespace, source) = source(&facts.subscription);
    trouble.command(
        "compare with what the catalog has",
        list_packages(source_namespace, source),
    )
}

/// What OLM said of a catalog that it could not read stays until it has resolved again, and it resolves again when it has read the catalog and unpacked
/// what it has chosen.
fn read_since(facts: &Facts, condition: &Value, now: Timestamp) -> Option<Trouble> {
    if !is_of_our_catalog_alone(text(condition, "/message"), facts) {
        return None;
    }
    let is_chosen = bundle::link(facts).trouble.is_some();
    let connected = connected_since(facts).filter(|since| now.duration_since(*since) < GRACE);
    let is_before =
        connected.is_some_and(|since| told_at(facts, condition).is_some_and(|told| told <= since));
    let what = match () {
        () if is_awaited(facts, now) => "OLM resolves again once it has read the catalog.",
        () if is_before || connected_since(facts).is_some() && is_chosen => {
            "OLM has read the catalog since it could not, and resolves again."
        }
        () => return None,
    };
    Some(Trouble::new(what).quoting("condition ResolutionFailed, of before", said(condition)))
}

/// When a condition was written. OLM leaves that out of some, and tells of the whole status alone.
fn told_at(facts: &Facts, condition: &Value) -> Option<Timestamp> {
    time(condition, "/lastTransitionTime").or_else(|| time(&facts.subscription, "/status/lastUpdated"))
}

/// Whether a message of the resolver is that it could not read a catalog.
fn is_of_a_catalog(message: &str) -> bool {
    message.contains("failed to populate resolver cache") || message.contains("failed to list bundles")
}

/// The same, and of no other catalog than the one that the Subscription names. Versions of OLM name it differently.
fn is_of_our_catalog_alone(message: &str, facts: &Facts) -> bool {
    let (namespace, name) = source(&facts.subscription);
    let named = |lead: &str| -> Vec<String> {
        let after = message.split(lead).skip(1);
        after
            .filter_map(|rest| rest.split([' ', ',', ']']).next())
            .map(|word| word.trim_end_matches(':').to_owned())
            .collect()
    };
    let ours = [
        ("from source ", format!("{name}/{namespace}")),
        ("using catalogsource ", format!("{namespace}/{name}")),
    ];
    let mut all = ours
        .iter()
        .flat_map(|(lead, path)| named(lead).into_iter().map(move |it| it == *path));
    let is_first = all.next().unwrap_or_default();
    is_of_a_catalog(message) && is_first && all.all(|is_ours| is_ours)
}

/// The version in a message of the resolver that is installed without a Subscription.
fn orphan(message: &str) -> Option<&str> {
    let (before, _) = message.split_once(" exists and is not referenced by a subscription")?;
    before.split_whitespace().next_back()
}

/// OLM does not look again when a version goes, so what it said at the end of an upgrade of the version of before stays until something else makes it
/// look. That is nobody's trouble where there is nothing to install.
fn is_outlived(facts: &Facts, condition: &Value) -> bool {
    let is_complete = text(&facts.subscription, "/status/state") == "AtLatestKnown" && !has_next(facts);
    is_complete && orphan(text(condition, "/message")).is_some_and(|orphan| is_gone(facts, orphan))
}

fn is_gone(facts: &Facts, version: &str) -> bool {
    let is_there = |csvs: &Vec<Value>| csvs.iter().any(|csv| name(csv) == version);
    facts.csvs.as_ref().is_ok_and(|csvs| !is_there(csvs))
}

/// At the end of an upgrade, the version of before is for a moment one without a Subscription.
fn is_leaving(facts: &Facts, version: &str) -> bool {
    facts.csvs.as_ref().is_ok_and(|csvs| {
        let found = csvs.iter().find(|csv| name(csv) == version);
        found.is_some_and(|csv| {
            matches!(text(csv, "/status/phase"), "Replacing" | "Deleting")
                || !text(csv, "/metadata/deletionTimestamp").is_empty()
        })
    })
}

/// Catalogs but our own, which has a link of its own, that OLM calls unhealthy.
fn others_unhealthy(facts: &Facts, condition: &Value) -> Option<Trouble> {
    let (source_namespace, source) = source(&facts.subscription);
    let others: Vec<String> = list(&facts.subscription, "/status/catalogHealth")
        .iter()
        .filter(|health| health.get("healthy").and_then(Value::as_bool) == Some(false))
        .map(|health| &health["catalogSourceRef"])
        .map(|reference| format!("{}/{}", text(reference, "/namespace"), text(reference, "/name")))
        .filter(|path| *path != format!("{source_namespace}/{source}"))
        .collect();
    let first = others.first()?;
    let (namespace, name) = first.split_once('/')?;
    let listed = listed(others.iter().map(String::as_str));
    let trouble = Trouble::new(format!("Another catalog is not well: {listed}."))
        .quoting("condition CatalogSourcesUnhealthy", said(condition))
        .because("OLM reads all catalogs that a namespace sees before it resolves anything there.");
    Some(trouble.command(
        "mend it, or delete it",
        format!("kubectl -n {namespace} describe catalogsource {name}"),
    ))
}

fn unresolved_yet(link: Link, facts: &Facts, now: Timestamp) -> Link {
    let trouble = Trouble::new("OLM has not resolved the Subscription yet.");
    if is_new(&facts.subscription, "/metadata/creationTimestamp", now)
        || condition_is(&facts.subscription, "BundleUnpacking", "True").is_some()
        || condition_is(&facts.subscription, "BundleUnpackFailed", "True").is_some()
    {
        return link.not_yet();
    }
    let trouble = trouble.command(
        "where no link before this one is wrong, see whether OLM runs, and what it logs",
        "kubectl get pods -A -l app=catalog-operator",
    );
    link.wrong(trouble).follows()
}
