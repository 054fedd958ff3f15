//! What is wrong with the way to the webhook, and the patch that puts it right. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use rustls::pki_types::CertificateDer;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::pki::authority::OVERLAP;
use crate::pki::trust::{is_injection, vouches};
use crate::pki::x509::{Facts, certificates_in, to_pem};
use crate::webhook::certificates::WebhookService;
use crate::webhook::certificates::served::{Served, Trust};

/// What the API server takes for the port of a Service that is named without one.
const DEFAULT_PORT: u16 = 443;
/// The only version of the review that the webhook speaks.
const REVIEW_VERSION: &str = "v1";
/// So many certificates of others are kept beside ours. OLM puts in one, and a rotation of its own makes two.
const MOST_OF_OTHERS: usize = 4;

/// What there is to do about an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Nothing: it leads to us, and trusts what we serve.
    Right,
    /// Nothing, though it is not as it should be.
    Leave(Left),
    /// To write this.
    Heal {
        /// What is wrong, for people.
        wrong: String,
        /// A JSON merge patch. It holds the `resourceVersion` of what was looked at.
        patch: Value,
        /// Another, for what cannot wait until the first is due: it closes versions that are open while nothing converts.
        close: Option<Value>,
        /// Whether this may be what somebody else is about to do something with: OLM takes the conversion away from an operator that it removes.
        /// One that is there and leads to nobody is not that, and where objects are stored in several versions nobody may read them meanwhile.
        can_wait: bool,
    },
}

/// What is not as it would be if it were up to us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// It leads to somebody else; to whom.
    Stranger(String),
    /// It leads to us, and OLM v1 keeps versions of it closed; which.
    KeptClosed(String),
    /// It leads to us, and trusts an authority that somebody else puts in and that does not vouch for what we serve, which it will once our pods have the
    /// certificate that belongs to it.
    Injected,
}

/// By what a CustomResourceDefinition is converted.
#[derive(Clone, Debug)]
pub struct Converter {
    /// Under which path the webhook answers.
    pub path: String,
    /// The annotation of a definition that names, separated by commas, the versions that are served only while there is a conversion.
    pub opened: &'static str,
    /// The versions that the webhook converts. No other is opened or closed: to open what a newer operator converts would fail every request.
    pub versions: Vec<String>,
}

/// The part of an object's metadata that is needed here.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// What a patch has to be guarded by.
    pub resource_version: String,
    /// What else is said of it.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// Who keeps it, among others.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Who owns it.
    #[serde(default)]
    pub owner_references: Vec<OwnerReference>,
}

/// The part of an owner that is needed here.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    /// Its group and version.
    pub api_version: String,
}

impl Metadata {
    /// Whether OLM v1 has installed it. Whenever it looks, and each change makes it look, it puts back every field that its bundle has, and leaves those that it
    /// has not, as an authority. It owns what it has installed, but for what is to outlive it, which has a label alone.
    fn is_kept_by_olm_v1(&self) -> bool {
        let mut owners = self.owner_references.iter();
        let kept = self.annotations.get("helm.sh/resource-policy");
        owners.any(|owner| owner.api_version.starts_with("olm.operatorframework.io/"))
            || kept.is_some() && self.labels.contains_key("olm.operatorframework.io/owner-kind")
    }

    /// Whether somebody puts an authority into it, and puts it back. Of a new certificate that is there a minute before our pods have it.
    fn is_injected(&self) -> bool {
        self.annotations.keys().any(|annotation| is_injection(annotation))
    }
}

/// The part of a CustomResourceDefinition that is needed here.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Definition {
    /// Its metadata.
    pub metadata: Metadata,
    /// Its specification.
    pub spec: DefinitionSpec,
    #[serde(default)]
    status: DefinitionStatus,
}

/// The specification of a [`Definition`].
#[derive(Clone, Debug, Default, Deserialize)]
pub struct DefinitionSpec {
    conversion: Option<Conversion>,
    /// As they are: a merge patch replaces the whole list.
    #[serde(default)]
    versions: Vec<Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DefinitionStatus {
    #[serde(default)]
    stored_versions: Vec<String>,
}

impl Definition {
    /// Whether all objects are stored in the version in which they are written: then that can be read without any conversion.
    fn is_stored_in_one_version(&self) -> bool {
        let stored = self
            .spec
            .versions
            .iter()
            .find(|version| version["storage"] == json!(true));
        let others = |name: &String| stored.is_none_or(|stored| stored["name"] != json!(name));
        !self.status.stored_versions.iter().any(others)
    }

    /// The versions with those served, or closed, that the annotation names and the webhook converts; nothing if they are already. The stored one
    /// needs no conversion, and stays as it is.
    fn with_served(&self, converter: &Converter, served: bool) -> Option<Vec<Value>> {
        let named = self.metadata.annotations.get(converter.opened)?;
        let is_ours = |version: &Value| {
            let name = version["name"].as_str().unwrap_or_default();
            let is_named = named.split(',').any(|named| named.trim() == name);
            is_named
                && version["storage"] != json!(true)
                && converter.versions.iter().any(|converted| converted == name)
        };
        let mut versions = self.spec.versions.clone();
        let mut is_news = false;
        for version in versions.iter_mut().filter(|version| is_ours(version)) {
            is_news |= version["served"] != json!(served);
            version["served"] = json!(served);
        }
        is_news.then_some(versions)
    }

    /// The names of those of these versions that are closed as yet.
    fn unserved_of(&self, opened: &[Value]) -> String {
        let pairs = self.spec.versions.iter().zip(opened);
        let changed = pairs.filter(|(present, opened)| present != opened);
        let names: Vec<&str> = changed
            .filter_map(|(present, _)| present["name"].as_str())
            .collect();
        names.join(", ")
    }

    /// The patch that closes what is open while nothing converts: what is written in such a version loses what the stored one says otherwise.
    fn closed(&self, converter: &Converter) -> Option<Value> {
        let versions = self.with_served(converter, false)?;
        Some(json!({
            "metadata": {"resourceVersion": self.metadata.resource_version},
            "spec": {"versions": versions},
        }))
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Conversion {
    #[serde(default)]
    strategy: String,
    webhook: Option<ConversionWebhook>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConversionWebhook {
    client_config: Option<ClientConfig>,
    #[serde(default)]
    conversion_review_versions: Vec<String>,
}

/// A ValidatingWebhookConfiguration or a MutatingWebhookConfiguration.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Configuration {
    /// Its metadata.
    pub metadata: Metadata,
    /// As they are: a merge patch replaces the whole list, and nothing in it may be lost that this operator does not know.
    #[serde(default)]
    pub webhooks: Vec<Value>,
}

/// How the API server reaches a webhook.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientConfig {
    url: Option<String>,
    service: Option<ServiceReference>,
    ca_bundle: Option<ByteString>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct ServiceReference {
    namespace: String,
    name: String,
    port: Option<u16>,
    path: Option<String>,
}

/// Where a webhook of ours is, and what has to be trusted there.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Behind which Service.
    pub service: &'a WebhookService,
    /// What is served there.
    pub served: &'a Served,
    /// The time by which certificates are judged.
    pub now: Timestamp,
}

impl ClientConfig {
    /// To whom it leads, if that is somebody else. What leads nowhere is no one's.
    fn stranger(&self, ours: &WebhookService) -> Option<String> {
        if let Some(url) = &self.url {
            return Some(url.clone());
        }
        self.service.as_ref()?.stranger(ours)
    }

    /// Whether no request can succeed: a Service has no certificate that the API server would trust by itself.
    fn leads_nowhere(&self) -> bool {
        self.url.is_none() && self.ca_bundle.as_ref().is_none_or(|bundle| bundle.0.is_empty())
    }

    fn bundle(&self) -> Vec<CertificateDer<'static>> {
        self.ca_bundle
            .as_ref()
            .map_or_else(Vec::new, |bundle| certificates_in(&bundle.0))
    }
}

impl ServiceReference {
    /// Which Service this is, if it is not ours.
    fn stranger(&self, ours: &WebhookService) -> Option<String> {
        let is_ours = self.namespace == ours.namespace && self.name == ours.name;
        (!is_ours).then(|| format!("the Service {}/{}", self.namespace, self.name))
    }
}

impl Wanted<'_> {
    /// What is to be done about the conversion of a CustomResourceDefinition.
    ///
    /// A conversion that leads to a Service of another name or namespace, or to a URL, is somebody else's, if it trusts anybody: no request ever
    /// succeeds by a Service without a CA bundle, and so a bundle of OLM's brings one, which knows neither the namespace nor the authority. The
    /// versions that the definition names are served by the same write, and closed while there is no webhook to convert them, unless OLM v1 keeps them.
    pub fn conversion(&self, definition: &Definition, converter: &Converter) -> Verdict {
        let present = definition.spec.conversion.clone().unwrap_or_default();
        let webhook = present.webhook.unwrap_or_default();
        let client = webhook.client_config.unwrap_or_default();
        let is_webhook = present.strategy == "Webhook";
        if is_webhook
            && !client.leads_nowhere()
            && let Some(stranger) = client.stranger(self.service)
        {
            return Verdict::Leave(Left::Stranger(stranger));
        }
        let bundle = client.bundle();
        let is_injected = self.waits_for_injected(definition, &bundle);
        let wrong = if is_webhook {
            self.wrong_address(client.service.as_ref(), &converter.path)
                .or_else(|| wrong_versions(&webhook.conversion_review_versions))
                .or_else(|| {
                    let wrong = self.wrong_bundle(&bundle).filter(|_| !is_injected);
                    wrong.map(str::to_owned)
                })
        } else {
            Some(format!("its conversion strategy is {:?}", present.strategy))
        };
        let opened = definition.with_served(converter, true);
        let is_kept = definition.metadata.is_kept_by_olm_v1();
        let (versions, kept_closed) = if is_kept { (None, opened) } else { (opened, None) };
        let unserved = || {
            versions
                .as_ref()
                .map(|_| "not every version is served".to_owned())
        };
        let Some(wrong) = wrong.or_else(unserved) else {
            return match kept_closed {
                Some(opened) => Verdict::Leave(Left::KeptClosed(definition.unserved_of(&opened))),
                None if is_injected => Verdict::Leave(Left::Injected),
                None => Verdict::Right,
            };
        };
        let is_ours_to_close = !is_webhook && !is_kept;
        Verdict::Heal {
            wrong,
            patch: self.healed(definition, &converter.path, &bundle, versions),
            close: is_ours_to_close.then(|| definition.closed(converter)).flatten(),
            can_wait: !is_webhook && definition.is_stored_in_one_version(),
        }
    }

    /// Whether a definition trusts what somebody else puts in, which does not vouch for what we serve, and will once our pods have the certificate that
    /// belongs to it.
    fn waits_for_injected(&self, definition: &Definition, bundle: &[CertificateDer<'_>]) -> bool {
        matches!(self.served.trust, Trust::Theirs)
            && definition.metadata.is_injected()
            && !bundle.is_empty()
            && self.wrong_bundle(bundle).is_some()
    }

    /// The patch that leads a conversion to us, with these versions if they are others.
    fn healed(
        &self,
        definition: &Definition,
        path: &str,
        bundle: &[CertificateDer<'_>],
        versions: Option<Vec<Value>>,
    ) -> Value {
        let client_config = json!({
            "service": {
                "namespace": self.service.namespace,
                "name": self.service.name,
                "port": self.service.port,
                "path": path,
            },
            "caBundle": self.mended(bundle),
        });
        let mut patch = json!({
            "metadata": {"resourceVersion": definition.metadata.resource_version},
            "spec": {"conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": client_config, "conversionReviewVersions": [REVIEW_VERSION]},
            }},
        });
        if let Some(versions) = versions {
            patch["spec"]["versions"] = versions.into();
        }
        patch
    }

    /// What is to be done about the bundles of a webhook configuration. Where the webhooks lead is what the manifests say, and is left alone.
    pub fn configuration(&self, configuration: &Configuration) -> Verdict {
        let mut webhooks = configuration.webhooks.clone();
        let (mut wrong, mut ours) = (Vec::new(), 0);
        for webhook in &mut webhooks {
            let client = ClientConfig::deserialize(&webhook["clientConfig"]).unwrap_or_default();
            if client.service.is_none() || client.stranger(self.service).is_some() {
                continue;
            }
            ours += 1;
            let bundle = client.bundle();
            if let Some(fault) = self.wrong_bundle(&bundle) {
                wrong.push(format!(
                    "{}: {fault}",
                    webhook["name"].as_str().unwrap_or_default()
                ));
                webhook["clientConfig"]["caBundle"] = json!(self.mended(&bundle));
            }
        }
        if ours == 0 {
            let stranger = "no webhook of it leads to our Service".to_owned();
            return Verdict::Leave(Left::Stranger(stranger));
        }
        if wrong.is_empty() {
            return Verdict::Right;
        }
        let patch = json!({
            "metadata": {"resourceVersion": configuration.metadata.resource_version},
            "webhooks": webhooks,
        });
        Verdict::Heal {
            wrong: wrong.join("; "),
            patch,
            close: None,
            can_wait: true,
        }
    }

    fn wrong_address(&self, present: Option<&ServiceReference>, path: &str) -> Option<String> {
        let Some(present) = present else {
            return Some("its conversion leads nowhere".to_owned());
        };
        if let Some(stranger) = present.stranger(self.service) {
            return Some(format!("its conversion leads to {stranger}, and trusts nobody"));
        }
        let port = present.port.unwrap_or(DEFAULT_PORT);
        let present_path = present.path.as_deref().unwrap_or_default();
        let is_right = port == self.service.port && present_path == path;
        (!is_right).then(|| format!("its conversion leads to port {port}, path {present_path:?}"))
    }

    /// What is wrong with a bundle.
    ///
    /// Under somebody else's authority it has to vouch for what we serve, by whichever certificate: then it is never touched. Of our own it
    /// has to hold all, so that it holds the next before that one issues, and none that is done with.
    fn wrong_bundle(&self, present: &[CertificateDer<'_>]) -> Option<&'static str> {
        match &self.served.trust {
            Trust::Theirs if vouches(present, &self.served.pair, &self.service.host(), self.now) => None,
            Trust::Theirs => Some("its CA bundle does not vouch for what is served"),
            Trust::Authorities(ours) if !ours.iter().all(|ours| present.contains(ours)) => {
                Some("its CA bundle lacks our authority")
            }
            Trust::Authorities(_) => present
                .iter()
                .any(|certificate| self.is_done_with(certificate))
                .then_some("its CA bundle holds what nobody serves by any more"),
        }
    }

    /// The present bundle, made right: ours, and of others what may still be needed.
    fn mended(&self, present: &[CertificateDer<'_>]) -> ByteString {
        let ours = self.ours();
        let others = present
            .iter()
            .filter(|certificate| !ours.contains(certificate) && !self.is_done_with(certificate))
            .take(MOST_OF_OTHERS);
        ByteString(to_pem(ours.iter().chain(others)).into_bytes())
    }

    fn ours(&self) -> &[CertificateDer<'static>] {
        match &self.served.trust {
            // Its authority is not known here, but the API server accepts what is itself in the bundle; see `trust`.
            Trust::Theirs => &self.served.pair.chain()[..1],
            Trust::Authorities(ours) => ours,
        }
    }

    /// Whether a certificate in a bundle is of no use: it has expired, or it is older than the authority that issues now, and every replica
    /// has long read that. One that is newer than ours is the next, which another replica has read before us; of two that differ each would
    /// otherwise undo what the other does. What belongs to others altogether is up to them.
    fn is_done_with(&self, certificate: &CertificateDer<'_>) -> bool {
        let Some(facts) = Facts::of(certificate) else {
            return true;
        };
        let is_older = |ours: &[CertificateDer<'_>]| {
            let issuing = ours.first().and_then(Facts::of);
            issuing.is_some_and(|issuing| facts.validity.from < issuing.validity.from)
        };
        let is_replaced = match &self.served.trust {
            Trust::Theirs => false,
            Trust::Authorities(ours) => {
                !ours.contains(certificate) && is_older(ours) && self.is_known_to_all()
            }
        };
        is_replaced || !facts.validity.contains(self.now)
    }

    /// A day after the Secret has no use for an old authority any more, no replica can go by it.
    fn is_known_to_all(&self) -> bool {
        self.served.pair.validity().age(self.now) >= OVERLAP.saturating_mul(2)
    }
}

/// The API server takes the first of them that it knows.
fn wrong_versions(present: &[String]) -> Option<String> {
    (present.first().map(String::as_str) != Some(REVIEW_VERSION))
        .then(|| format!("its conversion asks for reviews of the versions {present:?}"))
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
