//! What the file of an object in a bundle is called. Its parts are what others have written, so each is looked at before it becomes part of a path.

use super::Error;
use super::contents::label;
use super::encoding;
use super::manifests::{Manifest, api_group, api_version, is_kind, name, text};
use super::names::{is_dns_1035_label, is_dns_subdomain, is_path_segment};

pub(super) const SUBDOMAIN: &str = "accepted are at most 253 lowercase letters, digits, dashes and dots, with a letter or digit at both ends";
const LABEL: &str = "accepted are at most 63 lowercase letters, digits and dashes, with a letter first and a letter or digit last";
const SEGMENT: &str = "accepted is anything without slashes and percent signs, but for . and ..";

/// `GROUP_PLURAL.yaml` for a definition, `NAME_VERSION_KIND.yaml` for anything else.
///
/// # Errors
/// [`Error::Name`]: the API server would not take a part of it.
pub(super) fn file_name(manifest: &Manifest) -> Result<String, Error> {
    let body = &manifest.body;
    let part = |field: &str, value: &str, fits: bool, accepted: &'static str| {
        if fits {
            return Ok(());
        }
        Err(Error::Name {
            place: format!("{}: {}", manifest.source.display(), label(body)),
            field: field.to_owned(),
            value: value.to_owned(),
            accepted,
        })
    };
    let name = name(body);
    if api_group(body) == "rbac.authorization.k8s.io" {
        part("metadata.name", name, is_path_segment(name), SEGMENT)?;
    } else {
        part("metadata.name", name, is_dns_subdomain(name), SUBDOMAIN)?;
    }
    if is_kind(body, "apiextensions.k8s.io", "CustomResourceDefinition") {
        let (group, plural) = (text(body, "/spec/group"), text(body, "/spec/names/plural"));
        part("spec.group", group, is_dns_subdomain(group), SUBDOMAIN)?;
        part("spec.names.plural", plural, is_dns_1035_label(plural), LABEL)?;
        return Ok(format!("{group}_{plural}.yaml"));
    }
    let version = api_version(body);
    part(
        "the version in apiVersion",
        version,
        is_dns_1035_label(version),
        LABEL,
    )?;
    let kind = text(body, "/kind").to_ascii_lowercase();
    Ok(format!("{}_{version}_{kind}.yaml", escaped(name)))
}

/// A name of RBAC may hold anything, and that of a file becomes the key of a ConfigMap in which OLM keeps the bundle. Two names stay two: an underscore is always
/// the beginning of an escape, and what follows a name begins with a small letter.
fn escaped(name: &str) -> String {
    encoding::escaped(name.as_bytes(), b"-.", '_')
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn told(body: Value) -> String {
        let manifest = Manifest {
            source: "all.yaml".into(),
            body,
        };
        file_name(&manifest).unwrap_or_else(|error| error.to_string())
    }

    fn of(api_version: &str, kind: &str, name: &str) -> String {
        told(json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}))
    }

    #[rstest]
    #[case("v1", "Service", "a.b-c", "a.b-c_v1_service.yaml")]
    #[case(
        "rbac.authorization.k8s.io/v1",
        "ClusterRole",
        "..a",
        "..a_v1_clusterrole.yaml"
    )]
    #[case(
        "v1",
        "ConfigMap",
        "../../../evil",
        "all.yaml: ConfigMap ../../../evil: metadata.name is \"../../../evil\"; accepted are at most 253 lowercase letters, digits, dashes and dots, with a letter or digit at both ends"
    )]
    #[case(
        "v1",
        "ConfigMap",
        "a:b",
        "all.yaml: ConfigMap a:b: metadata.name is \"a:b\"; accepted are at most 253 lowercase letters, digits, dashes and dots, with a letter or digit at both ends"
    )]
    #[case(
        "rbac.authorization.k8s.io/v1",
        "Role",
        "../a",
        "all.yaml: Role ../a: metadata.name is \"../a\"; accepted is anything without slashes and percent signs, but for . and .."
    )]
    #[case(
        "a.b/../../v1",
        "Service",
        "a",
        "all.yaml: Service a: the version in apiVersion is \"../../v1\"; accepted are at most 63 lowercase letters, digits and dashes, with a letter first and a letter or digit last"
    )]
    fn a_file_is_called_as_its_object_whose_name_must_be_one(
        #[case] api_version: &str,
        #[case] kind: &str,
        #[case] name: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(of(api_version, kind, name), expected);
    }

    #[test]
    fn two_names_are_two_files() {
        let of = |name| of("rbac.authorization.k8s.io/v1", "ClusterRole", name);
        assert_eq!(of("op:view"), "op_3Aview_v1_clusterrole.yaml");
        assert_eq!(of("ä b"), "_C3_A4_20b_v1_clusterrole.yaml");
        let names = ["op:view", "op-view", "op_view", "op_3Aview", "op;view", "op.view"];
        let files: std::collections::BTreeSet<String> = names.into_iter().map(of).collect();
        assert_eq!(files.len(), names.len(), "{files:?}");
    }

    #[rstest]
    #[case("example.org", "widgets", "example.org_widgets.yaml")]
    #[case(
        "../..",
        "widgets",
        "all.yaml: CustomResourceDefinition widgets.example.org: spec.group is \"../..\"; accepted are at most 253 lowercase letters, digits, dashes and dots, with a letter or digit at both ends"
    )]
    #[case(
        "example.org",
        "/a",
        "all.yaml: CustomResourceDefinition widgets.example.org: spec.names.plural is \"/a\"; accepted are at most 63 lowercase letters, digits and dashes, with a letter first and a letter or digit last"
    )]
    fn that_of_a_definition_is_called_by_group_and_plural(
        #[case] group: &str,
        #[case] plural: &str,
        #[case] expected: &str,
    ) {
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.org"}, "spec": {"group": group, "names": {"plural": plural}}});
        assert_eq!(told(crd), expected);
    }
}
