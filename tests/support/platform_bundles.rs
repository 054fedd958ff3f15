//! Bundles and what their images are for: the codes that are found, and where upstream's validator judges otherwise, why.

#![allow(dead_code, reason = "each test binary uses what it needs of this")]

use std::collections::BTreeMap;

use roadstead::olm::oci::Platform;
use roadstead::olm::registry_v1::Platforms;
use serde_json::{Value, json};

use crate::broken_bundles::{Files, plain, put};

/// What a registry has by the name of an image.
#[derive(Clone, Copy)]
pub enum Image {
    /// A list of images for these.
    For(&'static [&'static str]),
    /// One image, without a list.
    Alone(&'static str),
    Missing,
}

/// A bundle with its images, and what is to be found.
pub struct Case {
    pub name: &'static str,
    pub files: Files,
    pub images: BTreeMap<&'static str, Image>,
    /// In the order of the alphabet, each as often as it is found.
    pub codes: &'static [&'static str],
    /// Why upstream's verdict is graver or milder.
    pub differs: Option<&'static str>,
}

impl Case {
    /// What the images are for, as our client tells it.
    pub fn platforms(&self) -> Platforms {
        let each = self.images.iter().map(|(name, image)| {
            let platforms = match image {
                Image::For(platforms) => Ok(platforms.iter().map(|it| it.parse().unwrap()).collect()),
                Image::Alone(platform) => Ok([platform.parse().unwrap()].into()),
                Image::Missing => Err("there is none".to_owned()),
            };
            ((*name).to_owned(), platforms)
        });
        each.collect()
    }

    fn differs(mut self, why: &'static str) -> Self {
        self.differs = Some(why);
        self
    }
}

/// What `docker manifest inspect` prints; nothing of an image that is not there.
pub fn inspected(image: Image) -> Option<Value> {
    let list = |platform: &&str| json!({"platform": platform.parse::<Platform>().unwrap()});
    match image {
        Image::For(platforms) => Some(json!({"manifests": platforms.iter().map(list).collect::<Vec<_>>()})),
        Image::Alone(_) => Some(json!({"schemaVersion": 2, "config": {}, "layers": []})),
        Image::Missing => None,
    }
}

pub const OPERATOR: &str = "registry.example.org/widgets:v1";
pub const OTHER: &str = "registry.example.org/other:v1";
const POD: &str = "/spec/install/spec/deployments/0/spec/template/spec";
const AMD: Image = Image::For(&["linux/amd64"]);
const ARM: Image = Image::For(&["linux/arm64"]);
const BOTH: Image = Image::For(&["linux/amd64", "linux/arm64"]);

/// Nothing is wrong with it if its image is for [`BOTH`].
pub fn sound() -> Files {
    let mut files = plain();
    put(
        &mut files.csv,
        &format!("{POD}/containers/0/image"),
        json!(OPERATOR),
    );
    put(&mut files.csv, "/spec/relatedImages/0/image", json!(OPERATOR));
    labels(&["arch.amd64", "arch.arm64"])(&mut files);
    asks_for(&["amd64", "arm64"])(&mut files);
    files
}

/// `codes` of a bundle that is changed, whose operator's image is so.
fn of(
    name: &'static str,
    operator: Image,
    codes: &'static [&'static str],
    change: impl FnOnce(&mut Files),
) -> Case {
    let mut files = sound();
    change(&mut files);
    Case {
        name,
        files,
        images: BTreeMap::from([(OPERATOR, operator)]),
        codes,
        differs: None,
    }
}

fn with(mut case: Case, other: Image) -> Case {
    case.images.insert(OTHER, other);
    case
}

fn labels(names: &'static [&'static str]) -> impl FnOnce(&mut Files) {
    move |files| {
        let labels = names
            .iter()
            .map(|name| (format!("operatorframework.io/{name}"), json!("supported")));
        files.csv["metadata"]["labels"] = Value::Object(labels.collect());
    }
}

fn term(os: &[&str], architectures: &[&str]) -> Value {
    json!({"matchExpressions": [
        {"key": "kubernetes.io/os", "operator": "In", "values": os},
        {"key": "kubernetes.io/arch", "operator": "In", "values": architectures},
    ]})
}

fn terms(terms: Value) -> impl FnOnce(&mut Files) {
    move |files| {
        let required =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        put(
            &mut files.csv,
            &format!("{POD}/affinity"),
            json!({"nodeAffinity": required}),
        );
    }
}

fn asks_for(architectures: &'static [&'static str]) -> impl FnOnce(&mut Files) {
    terms(json!([term(&["linux"], architectures)]))
}

fn container(field: &'static str, name: &'static str) -> impl FnOnce(&mut Files) {
    move |files| {
        let pod = files.csv.pointer_mut(POD).unwrap();
        if pod[field].is_null() {
            pod[field] = json!([]);
        }
        let container = json!({"name": name, "image": OTHER});
        pod[field].as_array_mut().unwrap().push(container);
    }
}

fn related(files: &mut Files) {
    let related = files.csv["spec"]["relatedImages"].as_array_mut().unwrap();
    related.push(json!({"name": "other", "image": OTHER}));
}

fn named(name: &'static str) -> impl FnOnce(&mut Files) {
    move |files| put(&mut files.csv, &format!("{POD}/containers/0/name"), json!(name))
}

fn apply(files: &mut Files, change: impl FnOnce(&mut Files)) {
    change(files);
}

/// One change after the other.
macro_rules! changes {
    ($($change:expr),* $(,)?) => {
        |files: &mut Files| { $(apply(files, $change);)* }
    };
}

const UNSUPPORTED: &str = "multiarch-unsupported";
const LABEL: &str = "multiarch-label";
const UNEVEN: &str = "multiarch-uneven";
const AFFINITY: &str = "multiarch-affinity";
const UNSEEN: &str = "multiarch-unseen";

const COMMON: &str = "upstream wants nodes to be asked for on which another image of the pod fails";

/// Each rule, and each exception.
#[allow(clippy::too_many_lines, reason = "a table")]
pub fn all() -> Vec<Case> {
    vec![
        of("as-it-should-be", BOTH, &[], |_| {}),
        of(
            "the-default",
            AMD,
            &[],
            changes![labels(&[]), asks_for(&["amd64"])],
        ),
        of(
            "a-label-that-supports-nothing",
            AMD,
            &[],
            changes![asks_for(&["amd64"]), |files| {
                files.csv["metadata"]["labels"] = json!({
                    "operatorframework.io/arch.amd64": "supported",
                    "operatorframework.io/arch.s390x": "planned",
                });
            }],
        ),
        of(
            "a-variant",
            Image::For(&["linux/amd64", "linux/arm64/v8"]),
            &[],
            |_| {},
        ),
        // What labels promise
        of("the-operator-lacks-it", AMD, &[UNSUPPORTED], asks_for(&["amd64"])),
        of(
            "the-default-is-lacking",
            ARM,
            &[LABEL, UNSUPPORTED],
            changes![labels(&[]), asks_for(&["arm64"])],
        ),
        of(
            "each-pair-is-promised",
            Image::For(&["linux/amd64", "windows/arm64"]),
            &[UNSUPPORTED],
            changes![
                labels(&["arch.amd64", "arch.arm64", "os.linux", "os.windows"]),
                terms(json!([
                    term(&["linux"], &["amd64"]),
                    term(&["windows"], &["arm64"])
                ])),
            ],
        ),
        with(of("a-related-image-lacks-it", BOTH, &[UNSUPPORTED], related), AMD),
        with(
            of(
                "a-sidecar-lacks-it",
                BOTH,
                &[AFFINITY, UNSUPPORTED],
                container("containers", "kube-rbac-proxy"),
            ),
            AMD,
        ),
        with(
            of(
                "an-init-container-lacks-it",
                BOTH,
                &[AFFINITY, UNSUPPORTED],
                container("initContainers", "prepare"),
            ),
            AMD,
        )
        .differs("upstream does not look at init containers, without which the pod never starts"),
        of(
            "no-image-at-all",
            Image::For(&[]),
            &[AFFINITY, UNSUPPORTED],
            |_| {},
        ),
        of(
            "an-image-without-a-list",
            Image::Alone("linux/amd64"),
            &[],
            changes![labels(&[]), asks_for(&["amd64"])],
        )
        .differs("upstream reads lists alone, so it takes the image for one that is for nothing"),
        of(
            "one-without-a-list-that-lacks-it",
            Image::Alone("linux/arm64"),
            &[AFFINITY, UNSUPPORTED],
            |_| {},
        ),
        // What no label names
        of(
            "an-architecture-without-a-label",
            BOTH,
            &[LABEL],
            labels(&["arch.amd64"]),
        ),
        of("two-architectures-without-a-label", BOTH, &[LABEL], labels(&[])),
        of("not-even-the-default", BOTH, &[LABEL], labels(&["arch.arm64"])),
        of(
            "a-system-without-a-label",
            Image::For(&["linux/amd64", "windows/amd64"]),
            &[LABEL],
            changes![
                labels(&[]),
                terms(json!([term(&["linux", "windows"], &["amd64"])]))
            ],
        ),
        of(
            "both-without-a-label",
            Image::For(&["linux/amd64", "linux/arm64", "windows/amd64"]),
            &[LABEL, LABEL],
            changes![
                labels(&[]),
                terms(json!([
                    term(&["linux"], &["amd64", "arm64"]),
                    term(&["windows"], &["amd64"])
                ])),
            ],
        ),
        of(
            "arm-is-not-arm64",
            Image::For(&["linux/amd64", "linux/arm", "linux/arm64"]),
            &[LABEL],
            asks_for(&["amd64", "arm", "arm64"]),
        )
        .differs("upstream finds arm within the label of arm64"),
        of(
            "attestations",
            Image::For(&["linux/amd64", "linux/arm64", "unknown/unknown"]),
            &[],
            |_| {},
        ),
        with(
            of(
                "a-proxy-is-not-the-operator",
                AMD,
                &[],
                changes![
                    labels(&[]),
                    asks_for(&["amd64"]),
                    container("containers", "kube-rbac-proxy"),
                ],
            ),
            BOTH,
        )
        .differs(COMMON),
        with(
            of(
                "beside-the-manager",
                AMD,
                &[],
                changes![
                    labels(&[]),
                    asks_for(&["amd64"]),
                    named("manager"),
                    container("containers", "other"),
                ],
            ),
            BOTH,
        )
        .differs(COMMON),
        with(
            of(
                "without-a-manager-each-may-be-it",
                AMD,
                &[LABEL, UNEVEN],
                changes![
                    labels(&[]),
                    asks_for(&["amd64"]),
                    container("containers", "other"),
                ],
            ),
            BOTH,
        ),
        // What others lack
        with(
            of(
                "a-related-image-is-behind",
                BOTH,
                &[LABEL, UNEVEN],
                changes![labels(&["arch.amd64"]), related],
            ),
            AMD,
        ),
        with(
            of(
                "a-pair-is-behind",
                Image::For(&["linux/amd64", "linux/arm64"]),
                &[LABEL, UNEVEN],
                changes![labels(&["arch.amd64"]), related],
            ),
            Image::For(&["linux/amd64", "windows/arm64"]),
        ),
        with(
            of("a-related-image-is-ahead", BOTH, &[], related),
            Image::For(&["linux/amd64", "linux/arm64", "linux/s390x"]),
        ),
        // Affinity
        of("no-affinity", BOTH, &[AFFINITY], terms(json!([]))),
        of(
            "an-affinity-of-one-half",
            BOTH,
            &[AFFINITY],
            terms(json!([{"matchExpressions": [
                {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64", "arm64"]},
            ]}])),
        ),
        of(
            "an-affinity-to-others",
            BOTH,
            &[AFFINITY],
            terms(json!([{"matchExpressions": [
                {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                {"key": "kubernetes.io/arch", "operator": "NotIn", "values": ["s390x"]},
            ]}])),
        ),
        of(
            "nodes-too-many",
            BOTH,
            &[AFFINITY],
            asks_for(&["amd64", "arm64", "s390x"]),
        ),
        of("nodes-too-few", BOTH, &[AFFINITY], asks_for(&["amd64"])),
        of(
            "terms-together",
            BOTH,
            &[],
            terms(json!([
                term(&["linux"], &["amd64"]),
                term(&["linux"], &["arm64"])
            ])),
        ),
        of(
            "a-term-for-any",
            BOTH,
            &[AFFINITY],
            terms(json!([
                term(&["linux"], &["amd64", "arm64"]),
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
            ])),
        )
        .differs("upstream passes over a term that names no platform, by which the pod may go anywhere"),
        of(
            "a-selector",
            AMD,
            &[],
            changes![labels(&[]), terms(json!([])), |files| {
                let selector = json!({"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"});
                put(&mut files.csv, &format!("{POD}/nodeSelector"), selector);
            }],
        )
        .differs("upstream knows the affinity alone"),
        // What could not be looked at
        of("unseen", Image::Missing, &[UNSEEN], |_| {}),
        of(
            "unseen-without-affinity",
            Image::Missing,
            &[AFFINITY, UNSEEN],
            terms(json!([])),
        ),
        with(
            of(
                "an-unseen-sidecar",
                BOTH,
                &[UNSEEN],
                container("containers", "other"),
            ),
            Image::Missing,
        ),
        // Upstream takes it for an architecture of the operator: a label for amd64 is missing, it says
        of("unseen-without-labels", Image::Missing, &[UNSEEN], labels(&[])),
    ]
}
