//! Puts right what leads to the webhook: the conversion of our CustomResourceDefinitions and, without OLM, the CA bundles of our webhook
//! configurations.
//!
//! While OLM replaces a definition, its conversion is `None` until the new ClusterServiceVersion is installed. The API server then rewrites
//! `apiVersion` and nothing else, and drops what the other version has no field for. So whoever runs at that time brings the conversion
//! back, within seconds.
//!
//! Each object is watched by its name, and looked at every half minute besides. What is wrong is decided purely, on what was read, and the
//! patch carries the `resourceVersion` of that. What leads to somebody else is said once and left alone, and so is a bundle of OLM's that
//! vouches for what is served: nobody is fought with.

mod decide;

use std::convert::Infallible;
use std::time::Duration;

use futures::stream::{BoxStream, select_all};
use futures::{FutureExt, StreamExt, TryStreamExt, future};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{GetParams, Patch, PatchParams};
use kube::core::{PartialObjectMeta, Request};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use tokio::time::sleep;
use tracing::{info, warn};

pub use self::decide::{Configuration, Definition, DefinitionSpec, Metadata, Verdict, Wanted};
use super::served::{Certificates, Served};
use super::told::Told;
use super::{ATTEMPTS, RequestFailed, WebhookService, within_deadline};
use crate::runtime::backoff::Backoff;
use crate::runtime::clock::Clock;

/// How often everything is looked at even if no watch tells of a change.
const INTERVAL: Duration = Duration::from_secs(30);
/// After a look that failed.
const RETRY: Backoff = Backoff {
    base: Duration::from_secs(1),
    max: Duration::from_secs(60),
};
/// Events of this time are answered by one look, so that an object that somebody writes all the time does not keep us busy.
const GATHER: Duration = Duration::from_millis(300);
/// After this time, in seconds, the server ends a watch and it is begun anew.
const WATCH_SECONDS: u32 = 240;

/// What is to lead to the webhook, by name.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    /// CustomResourceDefinitions.
    pub definitions: Vec<String>,
    /// Under which path their conversion is answered: `/convert`.
    pub conversion_path: String,
    /// ValidatingWebhookConfigurations. None under OLM, which makes its own.
    pub validating: Vec<String>,
    /// MutatingWebhookConfigurations. None under OLM.
    pub mutating: Vec<String>,
}

/// Sees to it that the API server finds the webhook and trusts it.
pub struct Injector {
    client: Client,
    service: WebhookService,
    clock: Clock,
    targets: Vec<Target>,
}

impl std::fmt::Debug for Injector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Injector")
            .field("service", &self.service)
            .field("targets", &self.targets)
            .finish_non_exhaustive()
    }
}

/// One object, and what was last said of it.
#[derive(Debug)]
struct Target {
    kind: Kind,
    name: String,
    told: Told,
}

#[derive(Clone, Debug)]
enum Kind {
    Definition { path: String },
    Validating,
    Mutating,
}

/// Why an object may not be as it should.
#[derive(Debug, thiserror::Error)]
enum InjectionError {
    #[error(transparent)]
    Request(#[from] RequestFailed),
    #[error("others wrote it each time that it was to be written")]
    Contended,
}

impl Injector {
    /// For the webhook behind `service`. `clock` should show the API server's time.
    pub fn new(client: Client, service: WebhookService, targets: Targets, clock: Clock) -> Self {
        let target = |kind: Kind| {
            move |name: String| Target {
                kind: kind.clone(),
                name,
                told: Told::default(),
            }
        };
        let path = targets.conversion_path;
        let definitions = targets
            .definitions
            .into_iter()
            .map(target(Kind::Definition { path }));
        let validating = targets.validating.into_iter().map(target(Kind::Validating));
        let mutating = targets.mutating.into_iter().map(target(Kind::Mutating));
        Self {
            client,
            service,
            clock,
            targets: definitions.chain(validating).chain(mutating).collect(),
        }
    }

    /// Looks whenever an object or what is served has changed, and now and then besides. Does nothing before there is a certificate.
    pub async fn follow(mut self, certificates: Certificates) -> Infallible {
        let mut served = certificates.subscribe();
        let mut changes = self.changes();
        let mut failures = 0;
        loop {
            sleep(GATHER).await;
            // Before the look, which then answers all that is known by now.
            while changes.next().now_or_never().flatten().is_some() {}
            let present = served.borrow_and_update().clone();
            let all_well = match present {
                Some(present) => self.look_at_all(&present).await,
                None => true,
            };
            failures = if all_well { 0 } else { failures + 1 };
            let wait = if all_well {
                INTERVAL
            } else {
                RETRY.delay(failures - 1)
            };
            tokio::select! {
                () = sleep(wait) => {}
                _ = served.changed() => {}
                Some(()) = changes.next() => {}
            }
        }
    }

    /// Tells of each change of any object, and of each watch that failed: then one has to look.
    fn changes(&self) -> impl futures::Stream<Item = ()> + Unpin + use<> {
        select_all(
            self.targets
                .iter()
                .map(|target| target.kind.watch(self.client.clone(), &target.name)),
        )
    }

    /// Whether none failed.
    async fn look_at_all(&mut self, served: &Served) -> bool {
        let mut all_well = true;
        for target in &mut self.targets {
            let wanted = Wanted {
                service: &self.service,
                served,
                now: self.clock.now(),
            };
            let outcome = target.settle(&self.client, wanted).await;
            all_well &= outcome.is_ok();
            target.tell(outcome);
        }
        all_well
    }
}

impl Target {
    /// Reads the object and writes what has to be another, until nothing has. To whom it leads, if not to us.
    async fn settle(&self, client: &Client, wanted: Wanted<'_>) -> Result<Option<String>, InjectionError> {
        for _ in 0..ATTEMPTS {
            let verdict = match &self.kind {
                Kind::Definition { path } => wanted.conversion(&self.get(client).await?, path),
                Kind::Validating | Kind::Mutating => wanted.configuration(&self.get(client).await?),
            };
            let (wrong, patch) = match verdict {
                Verdict::Right => return Ok(None),
                Verdict::NotOurs(stranger) => return Ok(Some(stranger)),
                Verdict::Heal { wrong, patch } => (wrong, patch),
            };
            match self.patch(client, patch).await {
                Ok(()) => {
                    info!(
                        kind = self.kind.name(),
                        name = self.name,
                        wrong,
                        "healed, so that it leads to the webhook"
                    );
                    return Ok(None);
                }
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(InjectionError::Contended)
    }

    fn tell(&mut self, outcome: Result<Option<String>, InjectionError>) {
        let (kind, name) = (self.kind.name(), &self.name);
        match outcome {
            Ok(None) => {
                if self.told.clear() {
                    info!(kind, name, "leads to the webhook again");
                }
            }
            Ok(Some(stranger)) => {
                if self.told.note(&stranger) {
                    warn!(
                        kind,
                        name,
                        leads_to = stranger,
                        "does not lead to our webhook; left alone"
                    );
                }
            }
            Err(error) => {
                let error = error.to_string();
                if self.told.note(&error) {
                    warn!(
                        kind,
                        name, error, "it is not certain that it leads to the webhook"
                    );
                }
            }
        }
    }

    async fn get<T: DeserializeOwned>(&self, client: &Client) -> Result<T, RequestFailed> {
        let request = async {
            let request = Request::new(self.kind.url_path())
                .get(&self.name, &GetParams::default())
                .map_err(kube::Error::BuildRequest)?;
            client.request(request).await
        };
        within_deadline(&format!("read the {} {}", self.kind.name(), self.name), request).await
    }

    async fn patch(&self, client: &Client, patch: Value) -> Result<(), RequestFailed> {
        let request = async {
            let request = Request::new(self.kind.url_path())
                .patch(&self.name, &PatchParams::default(), &Patch::Merge(patch))
                .map_err(kube::Error::BuildRequest)?;
            client.request::<IgnoredAny>(request).await.map(drop)
        };
        within_deadline(&format!("write the {} {}", self.kind.name(), self.name), request).await
    }
}

impl Kind {
    fn name(&self) -> &'static str {
        match self {
            Self::Definition { .. } => "CustomResourceDefinition",
            Self::Validating => "ValidatingWebhookConfiguration",
            Self::Mutating => "MutatingWebhookConfiguration",
        }
    }

    fn url_path(&self) -> String {
        match self {
            Self::Definition { .. } => CustomResourceDefinition::url_path(&(), None),
            Self::Validating => ValidatingWebhookConfiguration::url_path(&(), None),
            Self::Mutating => MutatingWebhookConfiguration::url_path(&(), None),
        }
    }

    fn watch(&self, client: Client, name: &str) -> BoxStream<'static, ()> {
        match self {
            Self::Definition { .. } => watch::<CustomResourceDefinition>(client, name),
            Self::Validating => watch::<ValidatingWebhookConfiguration>(client, name),
            Self::Mutating => watch::<MutatingWebhookConfiguration>(client, name),
        }
    }
}

/// Tells when the object of this name has changed. Only metadata is watched: a definition is large, and is read when it is needed.
fn watch<K>(client: Client, name: &str) -> BoxStream<'static, ()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let config = watcher::Config::default()
        .fields(&format!("metadata.name={name}"))
        .timeout(WATCH_SECONDS);
    watcher(Api::<PartialObjectMeta<K>>::all(client), config)
        // A list begins, of which nobody knows whether it will be answered: taken for a success, it would end every back-off.
        .try_filter(|event| future::ready(!matches!(event, Event::Init)))
        .default_backoff()
        .map(drop)
        .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::captured::Captured;
    use crate::webhook::certificates::served::Trust;
    use crate::webhook::certificates::testing::{Issued, at};
    use http::{Method, Request as HttpRequest, Response};
    use http_body_util::Full;
    use kube::client::Body;
    use serde_json::json;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const HOUR: Duration = Duration::from_secs(3600);

    /// How often an injector asks within an hour a server that gives this answer to a look at the definition, refuses every write as late,
    /// and permits no watch.
    async fn an_hour(code: u16, answer: Value) -> usize {
        let asked = Arc::<AtomicUsize>::default();
        let counter = Arc::clone(&asked);
        let service = tower::service_fn(move |request: HttpRequest<Body>| {
            counter.fetch_add(1, Ordering::Relaxed);
            let is_look = request.uri().path().ends_with("/things.test");
            let (code, answer) = match *request.method() {
                Method::PATCH => (409, status(409, "another was first")),
                _ if is_look => (code, answer.clone()),
                _ => (403, status(403, "no watch for you")),
            };
            let response = Response::builder().status(code);
            let response = response.body(Full::new(bytes::Bytes::from(answer.to_string())));
            async move { Ok::<_, Infallible>(response.unwrap()) }
        });
        let webhook = WebhookService {
            namespace: "ns".into(),
            name: "a".into(),
            port: 443,
        };
        let targets = Targets {
            definitions: vec!["things.test".into()],
            conversion_path: "/convert".into(),
            ..Targets::default()
        };
        let injector = Injector::new(
            Client::new(service, "ns"),
            webhook,
            targets,
            Clock::telling(|| at(0)),
        );
        let certificates = Certificates::default();
        certificates.publish(Served {
            pair: Issued::by_new_authority("a.ns.svc", at(0)).pair(),
            trust: Trust::Theirs,
        });
        let ended = tokio::time::timeout(HOUR, injector.follow(certificates)).await;
        assert!(ended.is_err(), "it never ends");
        asked.load(Ordering::Relaxed)
    }

    fn status(code: u16, message: &str) -> Value {
        json!({"kind": "Status", "status": "Failure", "code": code, "reason": "Forbidden", "message": message})
    }

    #[tokio::test(start_paused = true)]
    async fn trouble_is_told_once_and_not_hammered_on() {
        let logged = Captured::begin();
        let asked = an_hour(500, status(500, "etcd is away")).await;
        let told =
            logged.lines_with("cannot read the CustomResourceDefinition things.test: ApiError: etcd is away");
        assert_eq!(told.len(), 1, "{told:?}");
        assert!((60..700).contains(&asked), "{asked} requests in an hour");
    }

    #[tokio::test(start_paused = true)]
    async fn whom_it_leads_to_is_told_once_if_not_to_us() {
        let logged = Captured::begin();
        let client_config = json!({"service": {"namespace": "ns", "name": "b"}});
        let conversion = json!({"strategy": "Webhook", "webhook": {"clientConfig": client_config}});
        let definition = json!({"metadata": {"resourceVersion": "1"}, "spec": {"conversion": conversion}});
        let asked = an_hour(200, definition).await;
        let told = logged.lines_with("the Service ns/b");
        assert_eq!(told.len(), 1, "{told:?}");
        assert!((60..700).contains(&asked), "{asked} requests in an hour");
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_others_write_each_time_is_given_up_for_now() {
        let logged = Captured::begin();
        let definition = json!({"metadata": {"resourceVersion": "1"}, "spec": {}});
        let asked = an_hour(200, definition).await;
        let told = logged.lines_with("others wrote it each time");
        assert_eq!(told.len(), 1, "{told:?}");
        assert!((60..2000).contains(&asked), "{asked} requests in an hour");
    }
}
