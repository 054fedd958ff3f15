//! Rules of CustomResourceDefinitions: those by which the API server refuses one (`ValidateCustomResourceDefinition`).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::pointer::dotted;
use super::read::{Bundle, Object};
use super::structural;
use crate::olm::findings::{Code, Finding, bundle as codes};
use crate::olm::manifests::text;
use crate::olm::names::{is_dns_1035_label, is_dns_subdomain};
use crate::olm::opened::is_seen_to;

pub(super) fn check(bundle: &Bundle, found: &mut Vec<Finding>) {
    for crd in bundle.crds() {
        let mut judge = Judge { crd, found };
        judge.names();
        judge.versions();
        judge.conversion();
    }
}

struct Judge<'a> {
    crd: &'a Object,
    found: &'a mut Vec<Finding>,
}

impl Judge<'_> {
    /// `accepted` goes on after the value, such as `it must be set`.
    fn wrong(&mut self, code: &'static Code, pointer: &str, accepted: &str) {
        let value = self.crd.body.pointer(pointer).unwrap_or(&Value::Null);
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
            self.schema(&at, version);
            self.columns(&at, version);
            self.subresources(&at, version);
        }
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
            self.path(&format!("{at}/jsonPath"), "");
        }
        let selectable = version["selectableFields"].as_array();
        for index in 0..selectable.map_or(0, Vec::len) {
            self.path(&format!("{at}/selectableFields/{index}/jsonPath"), "");
        }
    }

    fn subresources(&mut self, at: &str, version: &Value) {
        if !version["subresources"]["scale"].is_object() {
            return;
        }
        let at = format!("{at}/subresources/scale");
        self.path(&format!("{at}/specReplicasPath"), ".spec.");
        self.path(&format!("{at}/statusReplicasPath"), ".status.");
        let selector = format!("{at}/labelSelectorPath");
        if !self.crd.text(&selector).is_empty() {
            self.path(&selector, "");
        }
    }

    fn path(&mut self, pointer: &str, begin: &str) {
        let path = self.crd.text(pointer);
        if path.len() < 2 || !path.starts_with('.') || !path.starts_with(begin) {
            let begin = if begin.is_empty() { "." } else { begin };
            self.wrong(
                &codes::CRD_COLUMNS,
                pointer,
                &format!("it must begin with {begin}"),
            );
        }
    }

    fn conversion(&mut self) {
        let crd = self.crd;
        let conversion = &crd.body["spec"]["conversion"];
        if conversion.is_null() {
            return;
        }
        let webhook = &conversion["webhook"];
        match crd.text("/spec/conversion/strategy") {
            "None" if webhook.is_null() => return,
            "None" => {
                return self.wrong(
                    &codes::CRD_CONVERSION,
                    "/spec/conversion/webhook",
                    "None has no webhook",
                );
            }
            "Webhook" => {}
            _ => {
                let accepted = "accepted are None and Webhook";
                return self.wrong(&codes::CRD_CONVERSION, "/spec/conversion/strategy", accepted);
            }
        }
        let client = &webhook["clientConfig"];
        if client["url"].is_string() == client["service"].is_object() {
            let accepted = "it must have either url or service";
            self.wrong(
                &codes::CRD_CONVERSION,
                "/spec/conversion/webhook/clientConfig",
                accepted,
            );
        }
        let known = [json!("v1"), json!("v1beta1")];
        let versions = crd.list("/spec/conversion/webhook/conversionReviewVersions");
        if !versions.iter().any(|version| known.contains(version)) {
            let accepted = "v1 must be among them";
            self.wrong(
                &codes::CRD_CONVERSION,
                "/spec/conversion/webhook/conversionReviewVersions",
                accepted,
            );
        }
        if !is_seen_to(&crd.body) {
            let message = format!("{} comes with a conversion webhook", crd.name());
            self.found
                .push(crd.finding(&codes::CRD_CONVERSION_LEFT, "/spec/conversion", message));
        }
    }
}
