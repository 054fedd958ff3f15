//! Whether images are for the platforms on which the ClusterServiceVersion says that the operator runs (`multiarch`).
//!
//! The rules are those of upstream's validator of that name, which pulls every image with Docker. Here nobody is asked: what images are for comes with the
//! call. Upstream judges otherwise where
//!
//! * a label is to be found: it looks for the architecture anywhere in the label, so that `arch.arm64` names `arm` as well;
//! * an image is that of an init container, at which it does not look: the node runs it first, so a pod in which it is for another architecture never starts;
//! * images of one pod differ: the pod runs where all of them do, so its affinity is compared with what they have in common. Upstream compares it with each, and
//!   wants nodes to be asked for on which the others fail;
//! * an affinity has several terms, of which one will do: with one that names no platform the pod may go anywhere. Upstream passes over that one;
//! * `nodeSelector` asks for the platform, which counts for the scheduler as much, and not for upstream;
//! * an image is for linux/amd64 and windows/arm64, and the operator's for linux/arm64: upstream compares architectures and OSs apart.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::read::{Bundle, Object};
use crate::olm::findings::{Finding, bundle as codes, listed};
use crate::olm::manifests::{list, text};
use crate::olm::oci::Platform;

/// What images are for, by their names as the bundle has them; or why one could not be looked at. `unknown/unknown` may be among the
/// platforms, and counts for none.
pub type Platforms = BTreeMap<String, Result<BTreeSet<Platform>, String>>;

/// What the containers are called by which scaffolds of the operator SDK have the operator, and a proxy beside it.
const MANAGER: &str = "manager";
const PROXY: &str = "kube-rbac-proxy";

/// So many names of each half are looked at, which is more than Go knows. All pairs are made of them, and whoever has written the bundle may mean harm.
const MOST: usize = 32;

/// One half of a platform.
struct Half {
    /// The labels that name one begin so.
    label: &'static str,
    /// What is supported where no label names one.
    default: &'static str,
    /// The label of nodes.
    node: &'static str,
    of: fn(&Platform) -> &str,
}

const ARCHITECTURE: Half = Half {
    label: "operatorframework.io/arch.",
    default: "amd64",
    node: "kubernetes.io/arch",
    of: |platform| &platform.architecture,
};
const SYSTEM: Half = Half {
    label: "operatorframework.io/os.",
    default: "linux",
    node: "kubernetes.io/os",
    of: |platform| &platform.os,
};

/// What Deployments make pods of.
struct Pods<'a> {
    deployment: &'a str,
    /// Where their specification is.
    pointer: String,
    spec: &'a Value,
    /// Of all containers, with where each is named.
    images: Vec<(&'a str, String)>,
    /// Those that are taken for the operator itself: nothing says which it is.
    managers: Vec<&'a str>,
}

/// An image that could be looked at.
struct Seen {
    /// Where it is named first.
    pointer: String,
    platforms: BTreeSet<Platform>,
}

/// Judges a bundle by what its images are for. Findings come sorted by file and line; there are none without a ClusterServiceVersion.
pub fn validate_platforms(bundle: &Bundle, platforms: &Platforms) -> Vec<Finding> {
    let Some(csv) = bundle.csv() else {
        return Vec::new();
    };
    let pods = pods(csv);
    let mut found = Vec::new();
    let seen = seen(csv, &pods, platforms, &mut found);
    let managers = pods.iter().flat_map(|pods| &pods.managers);
    let managers = managers.filter_map(|image| seen.get(image));
    let managers: BTreeSet<Platform> = managers.flat_map(|seen| seen.platforms.clone()).collect();
    let promised = promised(csv);
    for half in [ARCHITECTURE, SYSTEM] {
        unlabelled(csv, &half, &managers, &mut found);
    }
    for (image, seen) in &seen {
        lacking(csv, image, seen, &promised, &managers, &mut found);
    }
    for pods in &pods {
        affinity(csv, pods, &seen, &mut found);
    }
    found.sort();
    found.dedup();
    found
}

impl Bundle {
    /// The images that are deployed or related, each once: those of which [`validate_platforms`] wants to know what they are for.
    pub fn images(&self) -> BTreeSet<&str> {
        let csv = self.csv();
        csv.map(|csv| named(csv, &pods(csv)).into_keys().collect())
            .unwrap_or_default()
    }
}

fn pods(csv: &Object) -> Vec<Pods<'_>> {
    let at = "/spec/install/spec/deployments";
    let deployments = csv.list(at).iter().enumerate();
    deployments
        .map(|(index, deployment)| {
            let spec = &deployment["spec"]["template"]["spec"];
            let pointer = format!("{at}/{index}/spec/template/spec");
            let images = ["containers", "initContainers"].map(|field| images(spec, &pointer, field));
            Pods {
                deployment: text(deployment, "/name"),
                images: images.into_iter().flatten().collect(),
                managers: managers(list(spec, "/containers")),
                pointer,
                spec,
            }
        })
        .collect()
}

/// The images that a list names, and where. One that is missing is told elsewhere.
fn images<'a>(parent: &'a Value, pointer: &str, field: &str) -> Vec<(&'a str, String)> {
    let items = list(parent, &format!("/{field}")).iter().enumerate();
    items
        .map(|(index, item)| (text(item, "/image"), format!("{pointer}/{field}/{index}/image")))
        .filter(|(image, _)| !image.is_empty())
        .collect()
}

/// As upstream has it: of the container that is called so, or else all but the proxy.
fn managers(containers: &[Value]) -> Vec<&str> {
    let is_named = containers.iter().any(|it| text(it, "/name") == MANAGER);
    let is_manager = |container: &&Value| match text(container, "/name") {
        MANAGER => true,
        PROXY => false,
        _ => !is_named,
    };
    let managers = containers.iter().filter(is_manager);
    managers.map(|container| text(container, "/image")).collect()
}

/// Every image, and where it is named first.
fn named<'a>(csv: &'a Object, pods: &[Pods<'a>]) -> BTreeMap<&'a str, String> {
    let deployed = pods.iter().flat_map(|pods| pods.images.clone());
    let related = images(&csv.body["spec"], "/spec", "relatedImages");
    let mut named = BTreeMap::new();
    for (image, pointer) in deployed.chain(related) {
        named.entry(image).or_insert(pointer);
    }
    named
}

/// The images that could be looked at. What could not be is told, and neither lacks anything nor supports it.
fn seen<'a>(
    csv: &'a Object,
    pods: &[Pods<'a>],
    platforms: &Platforms,
    found: &mut Vec<Finding>,
) -> BTreeMap<&'a str, Seen> {
    let mut seen = BTreeMap::new();
    for (image, pointer) in named(csv, pods) {
        let why = match platforms.get(image) {
            Some(Ok(platforms)) => {
                let platforms = known(platforms);
                seen.insert(image, Seen { pointer, platforms });
                continue;
            }
            Some(Err(why)) => why,
            None => "nobody was asked",
        };
        let message = format!("{image} could not be looked at: {why}");
        found.push(csv.finding(&codes::MULTIARCH_UNSEEN, &pointer, message));
    }
    seen
}

/// Without what builders file attestations by (`unknown/unknown`), and without variants, of which neither labels nor nodes tell.
fn known(platforms: &BTreeSet<Platform>) -> BTreeSet<Platform> {
    let is_known = |half: &str| !half.is_empty() && half != "unknown";
    let known = platforms
        .iter()
        .filter(|it| is_known(&it.os) && is_known(&it.architecture));
    known.map(|it| platform(&it.os, &it.architecture)).collect()
}

fn platform(os: &str, architecture: &str) -> Platform {
    Platform {
        architecture: architecture.to_owned(),
        os: os.to_owned(),
        variant: None,
    }
}

/// What labels name as supported.
fn labelled<'a>(csv: &'a Object, half: &Half) -> BTreeSet<&'a str> {
    let labels = csv.body["metadata"]["labels"].as_object().into_iter().flatten();
    let supported = labels.filter(|(_, value)| **value == "supported");
    let names = supported.filter_map(|(name, _)| name.strip_prefix(half.label));
    names.take(MOST).collect()
}

/// What is supported by labels, or without any.
fn promised(csv: &Object) -> BTreeSet<Platform> {
    let [architectures, systems] = [ARCHITECTURE, SYSTEM].map(|half| match labelled(csv, &half) {
        none if none.is_empty() => BTreeSet::from([half.default]),
        labelled => labelled,
    });
    let all = systems.iter().flat_map(|os| {
        let architectures = architectures.iter();
        architectures.map(|architecture| platform(os, architecture))
    });
    all.collect()
}

/// What the operator's images are for and no label names. The default needs no label while it is all that there is.
fn unlabelled(csv: &Object, half: &Half, managers: &BTreeSet<Platform>, found: &mut Vec<Finding>) {
    let labelled = labelled(csv, half);
    let theirs: BTreeSet<&str> = managers.iter().map(half.of).collect();
    let is_default = labelled.is_empty() && theirs.iter().eq([&half.default]);
    let missing: Vec<&str> = theirs.difference(&labelled).copied().collect();
    if missing.is_empty() || is_default {
        return;
    }
    let message = format!(
        "no label {}* names {}, for which images of the operator are",
        half.label,
        listed(missing)
    );
    found.push(csv.finding(&codes::MULTIARCH_LABEL, "/metadata/labels", message));
}

/// What an image is not for. What is promised is an error, and so no warning beside that, as it is of upstream's.
fn lacking(
    csv: &Object,
    image: &str,
    seen: &Seen,
    promised: &BTreeSet<Platform>,
    managers: &BTreeSet<Platform>,
    found: &mut Vec<Finding>,
) {
    let unpromised = managers - promised;
    for (code, wanted, by_whom) in [
        (
            &codes::MULTIARCH_UNSUPPORTED,
            promised,
            "which the ClusterServiceVersion supports",
        ),
        (
            &codes::MULTIARCH_UNEVEN,
            &unpromised,
            "for which images of the operator are",
        ),
    ] {
        let lacking = wanted - &seen.platforms;
        if !lacking.is_empty() {
            let message = format!(
                "{image} is for {}, and not for {}, {by_whom}",
                told(&seen.platforms),
                told(&lacking)
            );
            found.push(csv.finding(code, &seen.pointer, message));
        }
    }
}

/// Whether pods ask for the nodes on which all of their images run.
fn affinity(csv: &Object, pods: &Pods<'_>, seen: &BTreeMap<&str, Seen>, found: &mut Vec<Finding>) {
    let asked = asked(pods.spec);
    let common = common(pods, seen);
    let deployment = pods.deployment;
    let mut tell = |message: String| {
        let pointer = format!("{}/affinity", pods.pointer);
        found.push(csv.finding(&codes::MULTIARCH_AFFINITY, &pointer, message));
    };
    if asked.is_empty() {
        let common = common.map(|common| format!("; all of its images are for {}", told(&common)));
        return tell(format!(
            "Deployment {deployment} asks for nodes of no platform{}",
            common.unwrap_or_default()
        ));
    }
    let images = pods.images.iter().map(|(image, _)| *image);
    for (image, seen) in images.filter_map(|image| Some((image, seen.get(image)?))) {
        let beyond = &asked - &seen.platforms;
        if !beyond.is_empty() {
            let beyond = told(&beyond);
            tell(format!(
                "Deployment {deployment} asks for nodes of {beyond}, for which {image} is not"
            ));
        }
    }
    let missing = common.map(|common| &common - &asked).unwrap_or_default();
    if !missing.is_empty() {
        let missing = told(&missing);
        tell(format!(
            "Deployment {deployment} asks for no nodes of {missing}, for which all of its images are"
        ));
    }
}

/// What all images of a pod are for; none where there is no image, or one could not be looked at.
fn common(pods: &Pods<'_>, seen: &BTreeMap<&str, Seen>) -> Option<BTreeSet<Platform>> {
    let mut each = pods
        .images
        .iter()
        .map(|(image, _)| Some(&seen.get(image)?.platforms));
    let first = each.next()??.clone();
    each.try_fold(first, |common, platforms| Some(&common & platforms?))
}

/// The platforms of the nodes that a pod asks for; none where a node of any will do.
fn asked(spec: &Value) -> BTreeSet<Platform> {
    let terms = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    // An empty one is met by no node
    let is_met = |term: &&Value| {
        let fields = ["/matchExpressions", "/matchFields"];
        fields.iter().any(|field| !list(term, field).is_empty())
    };
    let mut terms: Vec<&Value> = list(spec, terms).iter().filter(is_met).collect();
    if terms.is_empty() {
        terms.push(&Value::Null);
    }
    let mut all = BTreeSet::new();
    for term in terms {
        let systems = demanded(spec, term, SYSTEM.node);
        let architectures = demanded(spec, term, ARCHITECTURE.node);
        if systems.is_empty() || architectures.is_empty() {
            return BTreeSet::new();
        }
        for os in systems {
            all.extend(
                architectures
                    .iter()
                    .map(|architecture| platform(os, architecture)),
            );
        }
    }
    all
}

/// The values that a label of nodes may have by a term, and by the selector, which have to agree.
fn demanded<'a>(spec: &'a Value, term: &'a Value, label: &str) -> BTreeSet<&'a str> {
    let selected = spec["nodeSelector"][label].as_str();
    let selected = selected.map(|value| BTreeSet::from([value]));
    let expressions = list(term, "/matchExpressions").iter();
    let ours = expressions.filter(|it| text(it, "/key") == label && text(it, "/operator") == "In");
    let values = ours.map(|it| {
        let values = list(it, "/values").iter().filter_map(Value::as_str);
        values.take(MOST).collect()
    });
    let each = selected.into_iter().chain(values);
    each.reduce(|one: BTreeSet<&str>, other| &one & &other)
        .unwrap_or_default()
}

fn told(platforms: &BTreeSet<Platform>) -> String {
    let names: Vec<String> = platforms.iter().map(ToString::to_string).collect();
    match names.len() {
        0 => "no platform".to_owned(),
        _ => listed(names.iter().map(String::as_str)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({"key": format!("kubernetes.io/{key}"), "operator": operator, "values": values})
    }

    fn linux() -> Value {
        expression("os", "In", &["linux"])
    }

    fn on(architectures: &[&str]) -> Value {
        json!({"matchExpressions": [linux(), expression("arch", "In", architectures)]})
    }

    fn by(expressions: &[Value]) -> Value {
        json!({"matchExpressions": expressions})
    }

    #[rstest]
    #[case::nothing(json!([]), json!({}), "no platform")]
    #[case::both_halves(json!([on(&["amd64", "arm64"])]), json!({}), "linux/amd64, linux/arm64")]
    #[case::one_half(json!([by(&[linux()])]), json!({}), "no platform")]
    #[case::anything_but(json!([by(&[linux(), expression("arch", "NotIn", &["arm64"])])]), json!({}), "no platform")]
    #[case::either_term(json!([on(&["amd64"]), on(&["arm64"])]), json!({}), "linux/amd64, linux/arm64")]
    #[case::a_term_for_any(json!([on(&["amd64"]), by(&[expression("zone", "In", &["a"])])]), json!({}), "no platform")]
    #[case::a_term_for_none(json!([on(&["amd64"]), {}]), json!({}), "linux/amd64")]
    #[case::a_node(json!([on(&["amd64"]), {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]), json!({}), "no platform")]
    #[case::each_expression(
        json!([by(&[linux(), expression("arch", "In", &["amd64", "arm64"]), expression("arch", "In", &["arm64", "s390x"])])]),
        json!({}),
        "linux/arm64"
    )]
    #[case::the_selector(json!([]), json!({"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"}), "linux/arm64")]
    #[case::both_together(json!([by(&[expression("arch", "In", &["amd64"])])]), json!({"kubernetes.io/os": "linux"}), "linux/amd64")]
    fn pods_ask_for_nodes_of_a_platform(
        #[case] terms: Value,
        #[case] selector: Value,
        #[case] expected: &str,
    ) {
        let required =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        let spec = json!({"affinity": {"nodeAffinity": required}, "nodeSelector": selector});
        assert_eq!(told(&asked(&spec)), expected);
    }

    #[rstest]
    #[case::by_its_name(&["manager", "other", "kube-rbac-proxy"], &["manager"])]
    #[case::by_none(&["one", "other", "kube-rbac-proxy"], &["one", "other"])]
    #[case::the_proxy_alone(&["kube-rbac-proxy"], &[])]
    fn the_operator_is_known_by_its_container(#[case] containers: &[&str], #[case] expected: &[&str]) {
        let containers: Vec<Value> = containers
            .iter()
            .map(|name| json!({"name": name, "image": name}))
            .collect();
        assert_eq!(managers(&containers), expected);
    }
}
