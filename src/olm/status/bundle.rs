//! The unpacking of a bundle: a Job in the catalog's namespace. OLM unpacks before it makes a plan, so what goes wrong is told by the Subscription, and by the
//! bundle lookups of a plan where an earlier OLM made one first.

use semver::Version;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::catalog::channel_of;
use super::command::word;
use super::facts::{Facts, source};
use super::field::{condition_is, list, name, namespace, path, said, text, time};
use super::link::{Kind, Link, Trouble};
use super::pods::{Ailing, ailing};
use crate::olm::encoding;

/// The label of the Jobs that unpack bundles, and of their pods.
pub const UNPACKS: &str = "operatorframework.io/bundle-unpack-ref";

/// Judges the unpacking of the version that the Subscription progresses to.
pub(super) fn link(facts: &Facts) -> Link {
    let lookup = lookup(facts);
    let link = Link::new(Kind::Bundle, bundle_name(facts, lookup)).detail(
        "image",
        lookup.map(|lookup| text(lookup, "/path")).unwrap_or_default(),
    );
    let Some(told) = told(facts, lookup) else {
        return match facts.known_plan() {
            Some(_) => link.state("unpacked"),
            None if facts.installed().is_empty() => link.state("nothing to unpack yet").not_yet(),
            None => link.state("nothing to unpack"),
        };
    };
    let job = job(facts, lookup, &told);
    // OLM leaves the condition in place when all is unpacked
    let was_unpacked = facts.known_plan().is_some() || !facts.installed().is_empty();
    if !told.has_failed && job.is_none() && was_unpacked {
        return link.state("unpacked");
    }
    // Until OLM has a plan for it, the Subscription still names what is installed
    let is_unplanned = told.by.starts_with("BundleUnpack");
    let is_next = is_unplanned && !facts.installed().is_empty() && facts.current() == facts.installed();
    let link = if is_next {
        Link::new(Kind::Bundle, next_name(facts))
    } else {
        link
    };
    unpacking(link, facts, &told, job)
}

/// The version after the one that is installed, where the channel has but one. Nothing says of a Job which of several it unpacks.
fn next_name(facts: &Facts) -> &str {
    let package = facts.package.as_ref().ok().and_then(Option::as_ref);
    let channel = package.and_then(|package| channel_of(package, facts));
    let entries = channel.map_or(&[][..], |channel| list(channel, "/entries"));
    let version = |entry: &Value| Version::parse(text(entry, "/version")).ok();
    let installed = entries
        .iter()
        .find(|entry| text(entry, "/name") == facts.installed());
    let Some(installed) = installed.and_then(version) else {
        return facts.package_name();
    };
    let mut later = entries
        .iter()
        .filter(|entry| version(entry).is_none_or(|version| version > installed));
    let is_other = |entry: &&Value| text(entry, "/name") != facts.installed();
    match (later.find(is_other), later.next()) {
        (Some(next), None) => text(next, "/name"),
        _ => facts.package_name(),
    }
}

fn bundle_name<'a>(facts: &'a Facts, lookup: Option<&'a Value>) -> &'a str {
    let known = lookup
        .map(|lookup| text(lookup, "/identifier"))
        .unwrap_or_default();
    let names = [
        known,
        facts.current(),
        text(&facts.subscription, "/spec/startingCSV"),
    ];
    let name = names.into_iter().find(|name| !name.is_empty());
    name.unwrap_or(facts.package_name())
}

/// What the plan says of unpacking the version that the Subscription progresses to.
fn lookup(facts: &Facts) -> Option<&Value> {
    let lookups = list(facts.known_plan()?, "/status/bundleLookups");
    lookups
        .iter()
        .find(|lookup| text(lookup, "/identifier") == facts.current())
}

/// What OLM says of an unpacking that is not over, or has failed.
struct Told<'a> {
    has_failed: bool,
    by: &'static str,
    condition: &'a Value,
}

fn told<'a>(facts: &'a Facts, lookup: Option<&'a Value>) -> Option<Told<'a>> {
    let of_lookup = |kind: &str| {
        let conditions = list(lookup?, "/conditions").iter();
        conditions
            .filter(|condition| text(condition, "/status") == "True")
            .find(|condition| text(condition, "/type") == kind)
    };
    let of_subscription = |kind| condition_is(&facts.subscription, kind, "True");
    [
        (true, "BundleUnpackFailed", of_subscription("BundleUnpackFailed")),
        (true, "BundleLookupFailed", of_lookup("BundleLookupFailed")),
        (false, "BundleLookupPending", of_lookup("BundleLookupPending")),
        (false, "BundleUnpacking", of_subscription("BundleUnpacking")),
    ]
    .into_iter()
    .find_map(|(has_failed, by, condition)| {
        Some(Told {
            has_failed,
            by,
            condition: condition?,
        })
    })
}

/// The Job that unpacks the bundle of the plan. Before there is a plan nobody says which bundle it is; then it is the newest that has not succeeded, for
/// OLM waits for every bundle that the namespace needs.
fn job<'a>(facts: &'a Facts, lookup: Option<&Value>, told: &Told<'_>) -> Option<&'a Value> {
    let jobs = facts.jobs.as_deref().unwrap_or_default();
    let open = jobs
        .iter()
        .filter(|job| condition_is(job, "Complete", "True").is_none());
    let named = lookup.map(|lookup| job_name(text(lookup, "/path")));
    let of_plan = open.clone().find(|job| Some(name(job)) == named.as_deref());
    let made = |object: &Value| time(object, "/metadata/creationTimestamp");
    // Jobs of other namespaces are in that of the catalog, too. Ours unpacks what comes after the plan, if anything does
    let planned = facts.known_plan().and_then(made);
    let newest = open
        .filter(|job| planned.is_none() || made(job) > planned)
        .max_by_key(|job| made(job));
    of_plan.or(newest.filter(|_| told.has_failed || facts.installed().is_empty() || has_next(facts)))
}

/// Whether the channel has something else than what is installed; if nobody knows, it may.
pub(super) fn has_next(facts: &Facts) -> bool {
    let package = facts.package.as_ref().ok().and_then(Option::as_ref);
    let channel = package.and_then(|package| channel_of(package, facts));
    channel.is_none_or(|channel| text(channel, "/currentCSV") != facts.installed())
}

/// As OLM names it: a hash of the image's name, cut to the length of a label.
pub(super) fn job_name(image: &str) -> String {
    let mut name = encoding::hex(&Sha256::digest(image));
    name.truncate(63);
    name
}

fn unpacking(link: Link, facts: &Facts, told: &Told<'_>, job: Option<&Value>) -> Link {
    let unread = facts
        .jobs
        .as_ref()
        .err()
        .map(|why| format!("cannot be read: {why}"))
        .unwrap_or_default();
    let link = link
        .state(if told.has_failed {
            "not unpacked"
        } else {
            "is being unpacked"
        })
        .since(time(told.condition, "/lastTransitionTime"))
        .detail("job", job.map(path).unwrap_or_default())
        .detail("jobs", unread);
    let deadline = job.and_then(|job| condition_is(job, "Failed", "True"));
    let pods = job.map(|job| pods_of(facts, job)).unwrap_or_default();
    let pods: Vec<Value> = pods.into_iter().cloned().collect();
    let ailing = ailing(&pods);
    if !told.has_failed && deadline.is_none() && ailing.is_none() {
        let trouble = Trouble::new("OLM is unpacking the bundle.");
        return link
            .waits(trouble.quoting(format!("condition {}", told.by), text(told.condition, "/message")));
    }
    link.wrong(failed(facts, told, job, deadline, ailing.as_ref()))
}

fn pods_of<'a>(facts: &'a Facts, job: &Value) -> Vec<&'a Value> {
    let pods = facts.job_pods.as_deref().unwrap_or_default().iter();
    pods.filter(|pod| {
        list(pod, "/metadata/ownerReferences")
            .iter()
            .any(|owner| text(owner, "/uid") == text(job, "/metadata/uid"))
    })
    .collect()
}

fn failed(
    facts: &Facts,
    told: &Told<'_>,
    job: Option<&Value>,
    deadline: Option<&Value>,
    ailing: Option<&Ailing<'_>>,
) -> Trouble {
    let image = job.map(image_of).filter(|image| !image.is_empty());
    let what = match (image, ailing) {
        (Some(image), Some(ailing)) => format!("The bundle {image} is not unpacked: {}.", ailing.summary()),
        (Some(image), None) => format!("The bundle {image} is not unpacked."),
        (None, _) => "A bundle that this namespace needs is not unpacked.".to_owned(),
    };
    let mut trouble = Trouble::new(what);
    if let Some(deadline) = deadline {
        trouble = trouble.quoting("the Job", said(deadline));
    }
    if let Some(ailing) = ailing {
        trouble = ailing.explain(trouble);
    }
    trouble = trouble.quoting(format!("condition {}", told.by), said(told.condition));
    let (namespace, name) = match job {
        Some(job) => (namespace(job), name(job)),
        None => {
            let (namespace, _) = source(&facts.subscription);
            return trouble.command(
                "find the Job that failed, and delete it once the cause is gone: OLM unpacks again",
                format!("kubectl -n {} get jobs,pods -l {UNPACKS}", word(namespace)),
            );
        }
    };
    trouble.command(
        "once the image can be pulled and unpacked, delete the Job: OLM makes it anew (secrets for the pull are those of spec.secrets of the CatalogSource)",
        format!("kubectl -n {namespace} delete job {name}"),
    )
}

/// The bundle's image, which the Job pulls in an init container of this name.
fn image_of(job: &Value) -> &str {
    let containers = list(job, "/spec/template/spec/initContainers");
    let pull = containers
        .iter()
        .find(|container| text(container, "/name") == "pull");
    pull.map(|container| text(container, "/image"))
        .unwrap_or_default()
}
