//! What people say of an operator where no base ClusterServiceVersion does, or in the place of what that says.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::str::FromStr;

use serde_json::{Map, Value, json};

use super::csv::INSTALL_MODES;
use super::icon::Icon;
use super::manifests::{Manifest, is_kind, list, text};
use super::{Error, Manifests};

const GROUP: &str = "operators.coreos.com";
const KIND: &str = "ClusterServiceVersion";

/// What is said. What is not, the base says, or nobody.
#[derive(Debug, Clone, Default)]
pub struct Described {
    /// What consoles call it. Without a base and this: as the package.
    pub display_name: Option<String>,
    /// In Markdown.
    pub description: Option<String>,
    /// One line.
    pub summary: Option<String>,
    /// What consoles show of it.
    pub icon: Option<Icon>,
    /// Who provides it, with a URL.
    pub provider: Option<Party>,
    /// Who maintains it, with an address.
    pub maintainers: Vec<Party>,
    /// Where more is to be read, with a URL.
    pub links: Vec<Party>,
    /// What it is found by.
    pub keywords: Vec<String>,
    /// The oldest Kubernetes that it works on.
    pub min_kube_version: Option<semver::Version>,
    /// In which namespaces it can work. Without a base and this: all of the cluster's.
    pub install_modes: Vec<InstallMode>,
}

/// `NAME <CONTACT>`: a name, and where whoever has it is to be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Party {
    name: String,
    contact: String,
}

impl FromStr for Party {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.strip_suffix('>').and_then(|text| text.split_once('<'));
        let (name, contact) = parts.unwrap_or((text, ""));
        let (name, contact) = (name.trim().to_owned(), contact.trim().to_owned());
        if name.is_empty() || name.contains(['<', '>']) || (parts.is_some() && contact.is_empty()) {
            return Err("accepted is NAME, or NAME <CONTACT>".to_owned());
        }
        Ok(Self { name, contact })
    }
}

impl Party {
    fn json(&self, contact: &str) -> Value {
        let mut json = json!({"name": self.name});
        if !self.contact.is_empty() {
            json[contact] = json!(self.contact);
        }
        json
    }
}

/// One of OLM's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstallMode(&'static str);

impl FromStr for InstallMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = INSTALL_MODES.into_iter().find(|mode| *mode == text);
        known
            .map(Self)
            .ok_or_else(|| format!("accepted are {}", INSTALL_MODES.join(", ")))
    }
}

impl Described {
    /// The manifests with a base that says all this. Where there is none it is made, for an operator of this name.
    ///
    /// # Errors
    /// [`Error::NoBase`]: there is none, and no name.
    pub fn complete(&self, mut manifests: Manifests, package: Option<&str>) -> Result<Manifests, Error> {
        if manifests.of_kind(GROUP, KIND).next().is_none() {
            let package = package.ok_or(Error::NoBase)?;
            manifests.merge(Manifests::of([Manifest {
                source: PathBuf::from("the options"),
                body: made(&manifests, package),
            }]));
        }
        Ok(manifests.map(|body| {
            let mut body = body.clone();
            if is_kind(&body, GROUP, KIND) {
                self.describe(&mut body);
            }
            Some(body)
        }))
    }

    fn describe(&self, csv: &mut Value) {
        if let Some(summary) = &self.summary {
            csv["metadata"]["annotations"]["description"] = json!(summary);
        }
        let mut spec = Map::new();
        let mut say =
            |field: &str, value: Option<Value>| value.map(|value| spec.insert(field.to_owned(), value));
        say("displayName", self.display_name.as_ref().map(|name| json!(name)));
        say("description", self.description.as_ref().map(|text| json!(text)));
        say("icon", self.icon.as_ref().map(|icon| json!([icon.json()])));
        say(
            "provider",
            self.provider.as_ref().map(|provider| provider.json("url")),
        );
        say(
            "maintainers",
            several(&self.maintainers, |party| party.json("email")),
        );
        say("links", several(&self.links, |party| party.json("url")));
        say("keywords", several(&self.keywords, |word| json!(word)));
        say(
            "minKubeVersion",
            self.min_kube_version.as_ref().map(|version| json!(version)),
        );
        let modes = (!self.install_modes.is_empty()).then(|| modes(&self.install_modes));
        say("installModes", modes);
        if let Some(said) = csv["spec"].as_object_mut() {
            said.extend(spec);
        }
    }
}

/// Nothing, if there are none.
fn several<T>(all: &[T], json: impl Fn(&T) -> Value) -> Option<Value> {
    (!all.is_empty()).then(|| all.iter().map(json).collect())
}

fn modes(supported: &[InstallMode]) -> Value {
    let mode = |mode| json!({"type": mode, "supported": supported.contains(&InstallMode(mode))});
    INSTALL_MODES.into_iter().map(mode).collect()
}

/// A base that says what must be said.
fn made(manifests: &Manifests, package: &str) -> Value {
    let mut base = json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": KIND,
        "metadata": {"name": package, "annotations": {"capabilities": "Basic Install"}},
        "spec": {"displayName": package, "installModes": modes(&[InstallMode("AllNamespaces")])},
    });
    if let Some(image) = operator_image(manifests) {
        base["metadata"]["annotations"]["containerImage"] = json!(image);
    }
    base
}

/// The only image, or that of the only container that is called as kubebuilder calls the operator's. Of several others nobody can tell which one it is.
fn operator_image(manifests: &Manifests) -> Option<&str> {
    let deployments = manifests.of_kind("apps", "Deployment");
    let containers = deployments.flat_map(|deployment| list(deployment, "/spec/template/spec/containers"));
    let containers: Vec<_> = containers.collect();
    let of = |is_meant: fn(&Value) -> bool| {
        let meant = containers.iter().filter(|container| is_meant(container));
        let images: BTreeSet<&str> = meant.map(|container| text(container, "/image")).collect();
        images.first().copied().filter(|_| images.len() == 1)
    };
    of(|_| true).or_else(|| of(|container| text(container, "/name") == "manager"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rstest::rstest;

    use super::*;

    fn deployment(images: &[&str]) -> Manifests {
        let containers: Vec<Value> = images.iter().map(|image| json!({"image": image})).collect();
        let body = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
            "spec": {"template": {"spec": {"containers": containers}}}});
        Manifests::of([Manifest {
            source: PathBuf::from("a.yaml"),
            body,
        }])
    }

    fn csv(manifests: &Manifests) -> &Value {
        manifests.of_kind(GROUP, KIND).next().unwrap()
    }

    #[test]
    fn a_base_is_made_where_there_is_none() {
        let described = Described {
            summary: Some("Screws.".to_owned()),
            maintainers: vec![
                "Jane <jane@example.org>".parse().unwrap(),
                "John".parse().unwrap(),
            ],
            provider: Some("Acme <https://example.org>".parse().unwrap()),
            icon: Icon::of_file(Path::new("icon.svg"), b"<svg/>".to_vec()),
            ..Described::default()
        };
        let manifests = described
            .complete(deployment(&["r/a:1"]), Some("widgets"))
            .unwrap();
        let csv = csv(&manifests);
        let annotations =
            json!({"capabilities": "Basic Install", "containerImage": "r/a:1", "description": "Screws."});
        assert_eq!(
            csv["metadata"],
            json!({"name": "widgets", "annotations": annotations})
        );
        assert_eq!(csv["spec"]["displayName"], "widgets");
        assert_eq!(
            csv["spec"]["provider"],
            json!({"name": "Acme", "url": "https://example.org"})
        );
        let maintainers = json!([{"name": "Jane", "email": "jane@example.org"}, {"name": "John"}]);
        assert_eq!(csv["spec"]["maintainers"], maintainers);
        assert_eq!(
            csv["spec"]["icon"],
            json!([{"base64data": "PHN2Zy8+", "mediatype": "image/svg+xml"}])
        );
        let supported = list(csv, "/spec/installModes")
            .iter()
            .filter(|mode| mode["supported"] == true);
        assert_eq!(
            supported.map(|mode| text(mode, "/type")).collect::<Vec<_>>(),
            ["AllNamespaces"]
        );
    }

    #[test]
    fn of_several_images_none_is_taken_for_the_operator() {
        let manifests = Described::default().complete(deployment(&["r/a:1", "r/b:1"]), Some("widgets"));
        assert_eq!(
            csv(&manifests.unwrap())["metadata"]["annotations"]["containerImage"],
            Value::Null
        );
    }

    /// As kubebuilder lays an operator out.
    #[test]
    fn beside_a_proxy_the_container_manager_is_the_operator() {
        let containers = json!([{"name": "kube-rbac-proxy", "image": "r/proxy:1"}, {"name": "manager", "image": "controller:latest"}]);
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
            "spec": {"template": {"spec": {"containers": containers}}}});
        let manifests = Manifests::of_objects([deployment]).unwrap();
        let manifests = Described::default().complete(manifests, Some("widgets")).unwrap();
        let annotations = &csv(&manifests)["metadata"]["annotations"];
        assert_eq!(annotations["containerImage"], "controller:latest");
    }

    #[test]
    fn what_is_said_takes_the_place_of_what_the_base_says_and_the_rest_stays() {
        let base = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": KIND, "metadata": {"name": "a"},
            "spec": {"displayName": "A", "description": "x", "keywords": ["b"]}});
        let mut manifests = deployment(&["r/a:1"]);
        manifests.merge(Manifests::of([Manifest {
            source: PathBuf::from("base.yaml"),
            body: base,
        }]));
        let described = Described {
            description: Some("y".to_owned()),
            install_modes: vec!["OwnNamespace".parse().unwrap()],
            ..Described::default()
        };
        let manifests = described.complete(manifests, Some("other")).unwrap();
        let csv = csv(&manifests);
        assert_eq!(
            (text(csv, "/metadata/name"), text(csv, "/spec/displayName")),
            ("a", "A")
        );
        assert_eq!(
            (text(csv, "/spec/description"), text(csv, "/spec/keywords/0")),
            ("y", "b")
        );
        assert_eq!(
            csv["spec"]["installModes"][0],
            json!({"type": "OwnNamespace", "supported": true})
        );
        assert_eq!(csv["spec"]["installModes"][3]["supported"], false);
    }

    #[test]
    fn without_a_base_there_must_be_a_name() {
        let error = Described::default().complete(deployment(&[]), None).unwrap_err();
        assert!(error.to_string().contains("--package"), "{error}");
    }

    #[rstest]
    #[case("", false)]
    #[case("<a@b>", false)]
    #[case("A <>", false)]
    #[case("A <", false)]
    #[case("A", true)]
    #[case("A B <a@b>", true)]
    fn a_party_has_a_name(#[case] text: &str, #[case] is_one: bool) {
        assert_eq!(text.parse::<Party>().is_ok(), is_one);
    }
}
