//! The CatalogSource, and what it has of the package.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::GRACE;
use super::command::{SUBSCRIPTION, list_packages, patch, word};
use super::facts::{Facts, selector_of_pods, source, trial_of};
use super::field::{condition_is, list, name, namespace, number, path, said, text, time};
use super::link::{Kind, Link, Mark, Trouble};
use super::pods::{Ailing, ailing, is_ready, ready_since};
use crate::olm::findings::listed;

/// What a catalog's pod is given to become ready: its image may have to be pulled, and OLM probes it each ten seconds.
const STARTS: SignedDuration = SignedDuration::from_mins(5);

/// What OLM is given to reach a catalog that is served: after each failure gRPC waits longer before it tries again, up to two minutes and a fifth of that, and
/// a try takes up to twenty seconds.
const RECONNECTS: SignedDuration = SignedDuration::from_mins(3);

/// Judges the CatalogSource that the Subscription names.
pub(super) fn catalog_source(facts: &Facts, now: Timestamp) -> Link {
    let (namespace, name) = source(&facts.subscription);
    let link = Link::new(Kind::CatalogSource, format!("{namespace}/{name}"));
    match &facts.source {
        Err(why) => link.unseen(why),
        Ok(None) => link.state("absent").wrong(absent(facts)),
        Ok(Some(source)) => judged(described(link, source, facts), source, facts, now),
    }
}

fn described(link: Link, source: &Value, facts: &Facts) -> Link {
    let connection = &source["status"]["connectionState"];
    let priority = match number(source, "/spec/priority") {
        0 => String::new(),
        priority => priority.to_string(),
    };
    let pods = facts.source_pods.as_deref().unwrap_or_default();
    let pods: Vec<&str> = pods.iter().map(name).collect();
    let state = match text(connection, "/lastObservedState") {
        "" => "not connected yet",
        state => state,
    };
    link.state(state)
        .since(time(connection, "/lastConnect"))
        .detail("image", text(source, "/spec/image"))
        .detail("address", text(source, "/spec/address"))
        .detail("pod", pods.join(", "))
        .time("lastPoll", time(source, "/status/latestImageRegistryPoll"))
        .detail("priority", priority)
}

fn judged(link: Link, source: &Value, facts: &Facts, now: Timestamp) -> Link {
    let path = path(source);
    if !text(source, "/status/reason").is_empty() {
        let trouble = Trouble::new(format!("OLM cannot use the CatalogSource {path}."))
            .quoting("status", said(&source["status"]));
        return link.wrong(trouble);
    }
    if is_out_of_sight(facts, source) {
        return link.wrong(out_of_sight(facts, &path));
    }
    let pods = facts.source_pods.as_deref().unwrap_or_default();
    let has_passed = |since: Option<Timestamp>, time| now.duration_since(since.unwrap_or(now)) >= time;
    if let Some(ailing) = ailing(pods).filter(|_| !pods.iter().any(is_ready)) {
        return link.wrong(not_served(source, &ailing));
    }
    match text(source, "/status/connectionState/lastObservedState") {
        "READY" => link,
        _ if is_starting(source, facts) && has_passed(begun(source, pods), STARTS) => {
            link.wrong(never_ready(source, pods))
        }
        _ if is_starting(source, facts) => link.waits(Trouble::new(format!(
            "The catalog {path} is being started: no pod of it is ready yet."
        ))),
        "TRANSIENT_FAILURE" | "SHUTDOWN" if has_passed(reachable(source, pods), RECONNECTS) => {
            link.wrong(unreachable(source))
        }
        _ => link.waits(Trouble::new(format!(
            "OLM has not connected to the catalog {path} yet."
        ))),
    }
}

fn not_served(source: &Value, ailing: &Ailing<'_>) -> Trouble {
    let path = path(source);
    let trouble = Trouble::new(format!("The catalog {path} is not served: {}.", ailing.summary()));
    let trouble = match trial_of(source) {
        Some(package) => other_server(trouble, package, namespace(source), ailing),
        None if ailing.lacks_image() => trouble.advise(format!(
            "see that {:?} exists and that nodes may pull it; spec.secrets of the CatalogSource names the secrets for it",
            text(source, "/spec/image")
        )),
        None => trouble,
    };
    ailing.explain(trouble)
}

/// A trial's catalog is served by this program, from an image that whoever began the trial has named, or left to be the published one.
fn other_server(trouble: Trouble, package: &str, namespace: &str, ailing: &Ailing<'_>) -> Trouble {
    let (image, names) = (ailing.image(), "--server-image or ROADSTEAD_SERVER_IMAGE");
    let advice = if ailing.lacks_image() {
        format!(
            "the cluster cannot pull the server's image {image:?}: name one of this program that it can pull with {names}, or the secrets for it with --pull-secret; what there is has to go first"
        )
    } else {
        format!(
            "see that the server's image {image:?} is one of this program: {names} names it; what there is has to go first"
        )
    };
    trouble.command(
        advice,
        format!("roadstead bundle cleanup {} -n {namespace}", word(package)),
    )
}

/// OLM tries to connect from the beginning, and says that it fails, before the pod that serves the catalog is ready.
fn is_starting(source: &Value, facts: &Facts) -> bool {
    let has_pods = text(source, "/spec/address").is_empty() || trial_of(source).is_some();
    let pods = facts.source_pods.as_ref();
    has_pods && pods.is_ok_and(|pods| !pods.iter().any(is_ready))
}

/// Since when OLM could have connected. That time of its own moves with every change of what it says of the connection.
fn reachable(source: &Value, pods: &[Value]) -> Option<Timestamp> {
    let told = [
        "/metadata/creationTimestamp",
        "/status/connectionState/lastConnect",
    ];
    let told = told.into_iter().filter_map(|pointer| time(source, pointer));
    told.chain(pods.iter().filter_map(ready_since)).max()
}

/// Whether OLM may still come to read the catalog that the Subscription names, so that what follows from its not being read is nobody's trouble yet.
pub(super) fn is_awaited(facts: &Facts, now: Timestamp) -> bool {
    catalog_source(facts, now).mark == Mark::Waiting
}

/// Since when the catalog that the Subscription names has been connected.
pub(super) fn connected_since(facts: &Facts) -> Option<Timestamp> {
    let source = facts.source.as_ref().ok()?.as_ref()?;
    let is_ready = text(source, "/status/connectionState/lastObservedState") == "READY";
    time(source, "/status/connectionState/lastConnect").filter(|_| is_ready)
}

/// Since when the catalog has been waited for: its last pod, or whatever one has to be made of.
fn begun(source: &Value, pods: &[Value]) -> Option<Timestamp> {
    let made = |object: &Value| time(object, "/metadata/creationTimestamp");
    pods.iter().filter_map(made).max().or_else(|| made(source))
}

/// Its volume or its network does not come, say, or nobody lets OLM make it. Only Events tell.
fn never_ready(source: &Value, pods: &[Value]) -> Trouble {
    let (path, namespace) = (path(source), namespace(source));
    let minutes = STARTS.as_mins();
    let Some(pod) = pods.last() else {
        let maker = match trial_of(source) {
            Some(_) => "its Deployment",
            None => "OLM",
        };
        let trouble = Trouble::new(format!(
            "The catalog {path} is not served: for more than {minutes} minutes {maker} has made no pod of it."
        ));
        let events = format!("kubectl -n {namespace} get events --sort-by .lastTimestamp");
        return trouble.command("see whether something keeps pods from being made there", events);
    };
    let trouble = Trouble::new(format!(
        "The catalog {path} is not served: its pod {} has not become ready in {minutes} minutes.",
        name(pod)
    ));
    let describe = format!("kubectl -n {namespace} describe pod {}", name(pod));
    trouble.command("see what it waits for", describe)
}

fn absent(facts: &Facts) -> Trouble {
    let (namespace, name) = source(&facts.subscription);
    let unhealthy = condition_is(&facts.subscription, "CatalogSourcesUnhealthy", "True");
    Trouble::new(format!(
        "There is no CatalogSource {name} in the namespace {namespace}, which the Subscription names."
    ))
    .quoting(
        "condition CatalogSourcesUnhealthy",
        unhealthy.map(said).unwrap_or_default(),
    )
    .command(
        "see which there are, and name one of them in spec.source and spec.sourceNamespace of the Subscription, or create this one",
        "kubectl get catalogsources -A",
    )
}

/// OLM looks at catalogs of the Subscription's own namespace and of one more, which is for all. Which that is only its flags say, so it is told by those that
/// the Subscription's status lists.
fn is_out_of_sight(facts: &Facts, source: &Value) -> bool {
    let looked_at = list(&facts.subscription, "/status/catalogHealth");
    namespace(source) != facts.namespace()
        && !looked_at.is_empty()
        && !looked_at.iter().any(|health| {
            text(health, "/catalogSourceRef/name") == name(source)
                && text(health, "/catalogSourceRef/namespace") == namespace(source)
        })
}

fn out_of_sight(facts: &Facts, path: &str) -> Trouble {
    let looked_at = list(&facts.subscription, "/status/catalogHealth").iter();
    let looked_at: Vec<String> = looked_at
        .map(|health| {
            format!(
                "{}/{}",
                text(health, "/catalogSourceRef/namespace"),
                text(health, "/catalogSourceRef/name")
            )
        })
        .collect();
    let looked_at = listed(looked_at.iter().map(String::as_str));
    Trouble::new(format!(
        "OLM does not look at {path} for Subscriptions of the namespace {}.",
        facts.namespace()
    ))
    .because(format!(
        "A catalog is for the Subscriptions of its own namespace, unless it is in OLM's global one; here OLM looks at {looked_at}."
    ))
    .advise("put the CatalogSource into the Subscription's namespace, or into OLM's global one")
}

fn unreachable(source: &Value) -> Trouble {
    let address = text(source, "/status/connectionState/address");
    let trouble = Trouble::new(format!(
        "OLM cannot reach the catalog {} at {address}.",
        path(source)
    ));
    if !text(source, "/spec/address").is_empty() && trial_of(source).is_none() {
        return trouble.advise(
            "see that the server at spec.address runs, and that the network lets OLM's namespace reach it",
        );
    }
    trouble.command(
        "see what the catalog's pods log",
        format!(
            "kubectl -n {} logs -l {} --tail=40",
            namespace(source),
            word(&selector_of_pods(source))
        ),
    )
}

/// Judges what the catalog has of the package.
pub(super) fn package(facts: &Facts, now: Timestamp) -> Link {
    let link = Link::new(Kind::PackageManifest, facts.package_name());
    match &facts.package {
        Err(why) => link.unseen(why),
        Ok(None) => absent_package(link, facts, now),
        Ok(Some(package)) => channel(link, package, facts),
    }
}

fn absent_package(link: Link, facts: &Facts, now: Timestamp) -> Link {
    let link = link.state("absent");
    if !is_connected(facts) {
        return link.not_yet();
    }
    let (namespace, name) = source(&facts.subscription);
    // What serves the manifests reads a catalog by a connection of its own, a moment later perhaps
    let is_new = connected_since(facts).is_some_and(|since| now.duration_since(since) < GRACE);
    let trouble = Trouble::new(format!(
        "The catalog {namespace}/{name} has no package {:?}.",
        facts.package_name()
    ));
    link.wrong_unless_new(
        is_new,
        trouble.command(
            "see what it has, and name that in spec.name of the Subscription",
            list_packages(namespace, name),
        ),
    )
}

fn is_connected(facts: &Facts) -> bool {
    let source = facts.source.as_ref().ok().and_then(Option::as_ref);
    source.is_some_and(|source| text(source, "/status/connectionState/lastObservedState") == "READY")
}

fn channel(link: Link, package: &Value, facts: &Facts) -> Link {
    let default = text(package, "/status/defaultChannel");
    let wanted = wanted_channel(package, facts);
    let channels = list(package, "/status/channels");
    let found = channel_of(package, facts);
    let link = link
        .detail("channel", wanted)
        .detail("deprecated", text(package, "/status/deprecation/message"));
    let Some(channel) = found else {
        return link
            .state("no such channel")
            .wrong(no_channel(facts, channels, wanted, default));
    };
    let link = link
        .state("there")
        .detail("head", text(channel, "/currentCSV"))
        .detail("channelDeprecated", text(channel, "/deprecation/message"));
    let starting = text(&facts.subscription, "/spec/startingCSV");
    let entries: Vec<&str> = list(channel, "/entries")
        .iter()
        .map(|entry| text(entry, "/name"))
        .collect();
    let is_missing = !starting.is_empty() && !entries.is_empty() && !entries.contains(&starting);
    // Once something is installed, nobody asks any more where it began
    if is_missing && facts.installed().is_empty() {
        return link.wrong(no_starting_version(starting, wanted, &entries));
    }
    link
}

fn no_channel(facts: &Facts, channels: &[Value], wanted: &str, default: &str) -> Trouble {
    let names = listed(channels.iter().map(|channel| text(channel, "/name")));
    Trouble::new(format!(
        "The package {} has no channel {wanted:?}; it has {names}, and {default} is the default.",
        facts.package_name()
    ))
    .command(
        "subscribe to a channel that is there",
        patch(
            facts.namespace(),
            SUBSCRIPTION,
            facts.subscription(),
            json!({"channel": default}),
        ),
    )
}

fn no_starting_version(starting: &str, channel: &str, entries: &[&str]) -> Trouble {
    let mut shown: Vec<&str> = entries.iter().take(5).copied().collect();
    if shown.len() < entries.len() {
        shown.push("...");
    }
    Trouble::new(format!("The channel {channel} has no version {starting:?}, which spec.startingCSV names."))
        .because(format!("It has {}.", shown.join(", ")))
        .advise("a Subscription goes by startingCSV only before anything is installed: delete it, and create it again with a version that is there, or without one")
}

/// The channel that the Subscription names, or the default one if it names none.
fn wanted_channel<'a>(package: &'a Value, facts: &'a Facts) -> &'a str {
    match text(&facts.subscription, "/spec/channel") {
        "" => text(package, "/status/defaultChannel"),
        channel => channel,
    }
}

/// That channel, if the package has it.
pub(super) fn channel_of<'a>(package: &'a Value, facts: &'a Facts) -> Option<&'a Value> {
    let wanted = wanted_channel(package, facts);
    let channels = list(package, "/status/channels");
    channels.iter().find(|channel| text(channel, "/name") == wanted)
}

/// The install modes that the catalog tells of the channel's head, where the version itself is not there yet.
pub(super) fn install_modes(facts: &Facts) -> &[Value] {
    let package = facts.package.as_ref().ok().and_then(Option::as_ref);
    let channel = package.and_then(|package| channel_of(package, facts));
    channel
        .map(|channel| list(channel, "/currentCSVDesc/installModes"))
        .unwrap_or_default()
}
