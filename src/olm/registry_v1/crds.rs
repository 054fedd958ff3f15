//! Rules of CustomResourceDefinitions: those by which the API server refuses one (`ValidateCustomResourceDefinition`).

use std::collections::BTreeSet;

use serde_json::Value;

use super::read::{Bundle, Object};
use super::{conversion, structural};
use crate::olm::findings::{Code, Finding, bundle as codes, shortened};
use crate::olm::manifests::{list, text};
use crate::olm::names::{is_dns_1035_label, is_dns_subdomain};
use crate::olm::pointer::dotted;

/// What may not be said at the root of a schema beside a status subresource. What the API server does not know it drops before it looks.
const NOT_BESIDE_STATUS: [&str; 22] = [
    "id",
    "$schema",
    "$ref",
    "default",
    "enum",
    "maxProperties",
    "minProperties",
    "allOf",
    "oneOf",
    "anyOf",
    "not",
    "additionalProperties",
    "patternProperties",
    "dependencies",
    "additionalItems",
    "definitions",
    "nullable",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
];

pub(super) fn check(bundle: &Bundle, found: &mut Vec<Finding>) {
    for crd in bundle.crds() {
        let mut judge = Judge { crd, found };
        judge.names();
        judge.versions();
        conversion::check(&mut judge);
    }
}

pub(super) struct Judge<'a> {
    pub(super) crd: &'a Object,
    pub(super) found: &'a mut Vec<Finding>,
}

impl Judge<'_> {
    /// `accepted` goes on after the value, such as `it must be set`.
    pub(super) fn wrong(&mut self, code: &'static Code, pointer: &str, accepted: &str) {
        let value = shortened(self.crd.body.pointer(pointer).unwrap_or(&Value::Null));
        let field = dotted(pointer);
        let message = format!("{}: {field} is {value}; {accepted}", self.crd.name());
        self.found.push(self.crd.finding(code, pointer, message));
    }

    fn names(&mut self) {
        let crd = self.crd;
        let (group, plural) = (crd.text("/spec/group"), crd.text("/spec/names/plural"));
        let expected = format!("{plural}.{group}");
        if crd.name() != expected {
            self.wrong(
                &codes::CRD_NAMES,
                "/metadata/name",
                &format!("it must be {expected}"),
            );
        }
        if !is_dns_subdomain(group) || !group.contains('.') {
            let accepted = "it must be a domain with at least one dot";
            self.wrong(&codes::CRD_NAMES, "/spec/group", accepted);
        }
        let is_protected = ["k8s.io", "kubernetes.io"]
            .iter()
            .any(|own| group == *own || group.ends_with(&format!(".{own}")));
        if is_protected && crd.body["metadata"]["annotations"]["api-approved.kubernetes.io"].is_null() {
            let accepted = "a group of Kubernetes needs the annotation api-approved.kubernetes.io";
            self.wrong(&codes::CRD_NAMES, "/spec/group", accepted);
        }
        if !["Cluster", "Namespaced"].contains(&crd.text("/spec/scope")) {
            self.wrong(
                &codes::CRD_NAMES,
                "/spec/scope",
                "accepted are Cluster and Namespaced",
            );
        }
        for (field, is_needed) in [
            ("plural", true),
            ("kind", true),
            ("singular", false),
            ("listKind", false),
        ] {
            let pointer = format!("/spec/names/{field}");
            let name = crd.text(&pointer).to_ascii_lowercase();
            // Only kinds have capitals
            let as_it_is = field.to_ascii_lowercase().ends_with("kind") || crd.text(&pointer) == name;
            let fits = as_it_is && is_dns_1035_label(&name) || name.is_empty() && !is_needed;
            if !fits {
                self.wrong(
                    &codes::CRD_NAMES,
                    &pointer,
                    "it must be letters, digits and dashes",
                );
            }
        }
        if !crd.text("/spec/names/kind").is_empty()
            && crd.text("/spec/names/kind") == crd.text("/spec/names/listKind")
        {
            self.wrong(
                &codes::CRD_NAMES,
                "/spec/names/listKind",
                "it must not be the kind",
            );
        }
        for field in ["shortNames", "categories"] {
            for index in 0..crd.list(&format!("/spec/names/{field}")).len() {
                let pointer = format!("/spec/names/{field}/{index}");
                if !is_dns_1035_label(crd.text(&pointer)) {
                    let accepted = "it must be lower-case letters, digits and dashes";
                    self.wrong(&codes::CRD_NAMES, &pointer, accepted);
                }
            }
        }
        if crd.body["spec"]["preserveUnknownFields"] == true {
            self.wrong(
                &codes::CRD_SCHEMA,
                "/spec/preserveUnknownFields",
                "it must be false",
            );
        }
    }

    fn versions(&mut self) {
        let crd = self.crd;
        let versions = crd.list("/spec/versions");
        if versions.is_empty() {
            return self.wrong(
                &codes::CRD_VERSIONS,
                "/spec/versions",
                "it must list at least one",
            );
        }
        let stored = versions
            .iter()
            .filter(|version| version["storage"] == true)
            .count();
        if stored != 1 {
            let message = format!(
                "{}: {stored} of its versions are stored; it must be one",
                crd.name()
            );
            self.found
                .push(crd.finding(&codes::CRD_VERSIONS, "/spec/versions", message));
        }
        let mut seen = BTreeSet::new();
        for (index, version) in versions.iter().enumerate() {
            let at = format!("/spec/versions/{index}");
            let name = text(version, "/name");
            if !is_dns_1035_label(name) {
                self.wrong(
                    &codes::CRD_VERSIONS,
                    &format!("{at}/name"),
                    "it must be like v1alpha1",
                );
            } else if !seen.insert(name) {
                self.wrong(&codes::CRD_VERSIONS, &format!("{at}/name"), "it is there twice");
            }
            self.deprecation(&at, version);
            self.schema(&at, version);
            self.columns(&at, version);
            self.selectable(&at, version);
            self.subresources(&at, version);
        }
    }

    fn deprecation(&mut self, at: &str, version: &Value) {
        let Some(warning) = version["deprecationWarning"].as_str() else {
            return;
        };
        let accepted = if version["deprecated"] != true {
            "it is said of deprecated versions only"
        } else if warning.is_empty() || warning.len() > 256 || warning.chars().any(char::is_control) {
            "it must be a line of at most 256 characters"
        } else {
            return;
        };
        self.wrong(
            &codes::CRD_VERSIONS,
            &format!("{at}/deprecationWarning"),
            accepted,
        );
    }

    fn schema(&mut self, at: &str, version: &Value) {
        let schema = &version["schema"]["openAPIV3Schema"];
        if !schema.is_object() {
            return self.wrong(&codes::CRD_SCHEMA, &format!("{at}/schema"), "it must be a schema");
        }
        for (inner, why) in structural::breaches(schema) {
            let pointer = format!("{at}/schema/openAPIV3Schema{inner}");
            let place = match inner.as_str() {
                "" => "the schema".to_owned(),
                inner => dotted(inner),
            };
            let message = format!(
                "{}, version {}: {place} {why}",
                self.crd.name(),
                text(version, "/name")
            );
            self.found
                .push(self.crd.finding(&codes::CRD_SCHEMA, &pointer, message));
        }
    }

    fn columns(&mut self, at: &str, version: &Value) {
        let columns = version["additionalPrinterColumns"].as_array();
        for index in 0..columns.map_or(0, Vec::len) {
            let at = format!("{at}/additionalPrinterColumns/{index}");
            if self.crd.text(&format!("{at}/name")).is_empty() {
                self.wrong(&codes::CRD_COLUMNS, &format!("{at}/name"), "it must be set");
            }
            let types = ["integer", "number", "string", "boolean", "date"];
            if !types.contains(&self.crd.text(&format!("{at}/type"))) {
                let accepted = "accepted are integer, number, string, boolean and date";
                self.wrong(&codes::CRD_COLUMNS, &format!("{at}/type"), accepted);
            }
            let formats = [
                "",
                "byte",
                "date",
                "date-time",
                "double",
                "float",
                "int32",
                "int64",
                "password",
            ];
            if !formats.contains(&self.crd.text(&format!("{at}/format"))) {
                let accepted = "accepted are byte, date, date-time, double, float, int32, int64 and password";
                self.wrong(&codes::CRD_COLUMNS, &format!("{at}/format"), accepted);
            }
            self.path(&format!("{at}/jsonPath"), &["."]);
        }
    }

    fn selectable(&mut self, at: &str, version: &Value) {
        let fields = list(version, "/selectableFields");
        if fields.len() > 8 {
            let pointer = format!("{at}/selectableFields");
            self.wrong(&codes::CRD_COLUMNS, &pointer, "it must list 8 at most");
        }
        let mut seen = BTreeSet::new();
        for (index, field) in fields.iter().enumerate() {
            let pointer = format!("{at}/selectableFields/{index}/jsonPath");
            let path = text(field, "/jsonPath");
            let mut schema = &version["schema"]["openAPIV3Schema"];
            for part in path.split('.').skip(1) {
                schema = &schema["properties"][part];
            }
            let accepted = if !path.starts_with('.') || path.split('.').nth(1) == Some("metadata") {
                "it must begin with . and lead to a field that is not of metadata"
            } else if !["string", "boolean", "integer"].contains(&text(schema, "/type")) {
                "it must lead to text, an integer or a boolean"
            } else if !seen.insert(path) {
                "it is there twice"
            } else {
                continue;
            };
            self.wrong(&codes::CRD_COLUMNS, &pointer, accepted);
        }
    }

    fn subresources(&mut self, at: &str, version: &Value) {
        if version["subresources"]["status"].is_object() {
            self.beside_status(at, version);
        }
        if !version["subresources"]["scale"].is_object() {
            return;
        }
        let at = format!("{at}/subresources/scale");
        self.path(&format!("{at}/specReplicasPath"), &[".spec."]);
        self.path(&format!("{at}/statusReplicasPath"), &[".status."]);
        let selector = format!("{at}/labelSelectorPath");
        if !self.crd.text(&selector).is_empty() {
            self.path(&selector, &[".spec.", ".status."]);
        }
    }

    /// The schema of the status alone is taken out of the whole, which is why the root may not say everything.
    fn beside_status(&mut self, at: &str, version: &Value) {
        let schema = version["schema"]["openAPIV3Schema"].as_object();
        for (field, value) in schema.into_iter().flatten() {
            if structural::is_said(value) && NOT_BESIDE_STATUS.contains(&field.as_str()) {
                let pointer = format!("{at}/schema/openAPIV3Schema/{field}");
                let accepted = "it must not stand at the root where there is a status subresource";
                self.wrong(&codes::CRD_SCHEMA, &pointer, accepted);
            }
        }
    }

    fn path(&mut self, pointer: &str, begins: &[&str]) {
        let path = self.crd.text(pointer);
        if !begins
            .iter()
            .any(|begin| path.len() > begin.len() && path.starts_with(begin))
        {
            let accepted = format!("it must begin with {}", begins.join(" or "));
            self.wrong(&codes::CRD_COLUMNS, pointer, &accepted);
        }
    }
}
