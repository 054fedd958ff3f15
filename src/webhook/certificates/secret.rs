//! Keeps the authority's Secret as it should be, and serves what it holds.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::sleep;
use tracing::{info, warn};

use super::served::Certificates;
use super::{ATTEMPTS, RequestFailed, SUBJECT, within_deadline};
use crate::pki::authority::{self, IssueError, Step};
use crate::runtime::backoff::Backoff;
use crate::runtime::clock::Clock;
use crate::telemetry::told::Told;

/// How often the Secret is read. Another replica's change has to be served within the overlap of a rotation, which is far longer.
const INTERVAL: Duration = Duration::from_secs(60);
/// After a failure; without a certificate the webhook cannot answer, so it begins soon.
const RETRY: Backoff = Backoff {
    base: Duration::from_secs(1),
    max: INTERVAL,
};

/// The Secret in which the authority lives. It has to be there: the manifests bring it empty, so that no right to create Secrets is needed,
/// only to `get` and `update` this one.
#[derive(Clone)]
pub struct AuthoritySecret {
    api: Api<Secret>,
    /// `NAMESPACE/NAME`, for people.
    place: String,
    name: String,
    names: BTreeSet<String>,
    clock: Clock,
}

impl std::fmt::Debug for AuthoritySecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AuthoritySecret").field(&self.place).finish()
    }
}

/// Why the Secret is not as it should be.
#[derive(Debug, thiserror::Error)]
enum SecretError {
    #[error(transparent)]
    Request(#[from] RequestFailed),
    #[error(transparent)]
    Issue(#[from] IssueError),
    #[error("others wrote the Secret {0} each time that it was to be written")]
    Contended(String),
}

impl AuthoritySecret {
    /// The Secret of this name, for a certificate with these DNS names ([`super::WebhookService::dns_names`]).
    pub fn new(client: Client, namespace: &str, name: &str, names: BTreeSet<String>, clock: Clock) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            place: format!("{namespace}/{name}"),
            name: name.to_owned(),
            names,
            clock,
        }
    }

    /// Reads the Secret again and again, writes what has to be another, and publishes what it holds.
    pub async fn follow(self, certificates: Certificates) -> Infallible {
        let mut told = Told::default();
        let mut failures = 0;
        loop {
            let wait = match self.settle().await {
                Ok(step) => {
                    if told.clear() {
                        info!(secret = self.place, "the webhook's Secret can be used again");
                    }
                    failures = 0;
                    certificates.publish(step.served);
                    INTERVAL
                }
                Err(error) => {
                    let error = error.to_string();
                    if told.note(&error) {
                        warn!(secret = self.place, error, "no new certificate for the webhook");
                    }
                    failures += 1;
                    RETRY.delay(failures - 1)
                }
            };
            sleep(wait).await;
        }
    }

    /// What the Secret says once nothing is left to write. A conflict means that another replica was first: what it wrote is as good.
    async fn settle(&self) -> Result<Step, SecretError> {
        for _ in 0..ATTEMPTS {
            let reading = format!("read the Secret {}", self.place);
            let secret = within_deadline(&reading, self.api.get(&self.name)).await?;
            let data = secret.data.clone().unwrap_or_default();
            let step = authority::step(&data, &SUBJECT, &self.names, self.clock.now())?;
            let Some(write) = &step.write else {
                return Ok(step);
            };
            // With the resourceVersion that was read, and whatever else is in it.
            let changed = Secret {
                data: Some(write.data.clone()),
                ..secret
            };
            let writing = format!("write the Secret {}", self.place);
            let params = PostParams::default();
            match within_deadline(&writing, self.api.replace(&self.name, &params, &changed)).await {
                Ok(_) => {
                    info!(secret = self.place, why = ?write.why, "the webhook's Secret was renewed");
                    return Ok(step);
                }
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(SecretError::Contended(self.place.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::testing::at;
    use crate::telemetry::captured::Captured;
    use http::{Method, Request, Response};
    use http_body_util::{BodyExt, Full};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use kube::client::Body;
    use serde_json::json;
    use std::sync::{Arc, Mutex};

    /// A server of one Secret: `refuse` says to how many writes it answers that another was first.
    struct Server {
        secret: Secret,
        refuse: u32,
        writes: u32,
    }

    impl Server {
        fn answer(&mut self, method: &Method, body: &[u8]) -> (u16, Vec<u8>) {
            if method == Method::PUT {
                let written: Secret = serde_json::from_slice(body).unwrap();
                assert_eq!(
                    written.metadata.resource_version,
                    self.secret.metadata.resource_version
                );
                if self.refuse > 0 {
                    self.refuse -= 1;
                    let status = json!({"kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict", "message": "another was first"});
                    return (409, status.to_string().into_bytes());
                }
                self.writes += 1;
                self.secret = written;
            }
            (200, serde_json::to_vec(&self.secret).unwrap())
        }
    }

    fn following(refuse: u32) -> (Arc<Mutex<Server>>, AuthoritySecret) {
        let metadata = ObjectMeta {
            name: Some("certificates".into()),
            namespace: Some("ns".into()),
            resource_version: Some("7".into()),
            ..ObjectMeta::default()
        };
        let secret = Secret {
            metadata,
            data: Some([("theirs".to_owned(), k8s_openapi::ByteString(b"kept".into()))].into()),
            ..Secret::default()
        };
        let server = Arc::new(Mutex::new(Server {
            secret,
            refuse,
            writes: 0,
        }));
        let answering = Arc::clone(&server);
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = Arc::clone(&answering);
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let (code, answer) = server.lock().unwrap().answer(&parts.method, &body);
                let response = Response::builder().status(code);
                Ok::<_, std::convert::Infallible>(
                    response.body(Full::new(bytes::Bytes::from(answer))).unwrap(),
                )
            }
        });
        let client = Client::new(service, "ns");
        let names = ["a.ns.svc".to_owned()].into();
        let secret = AuthoritySecret::new(client, "ns", "certificates", names, Clock::telling(|| at(0)));
        (server, secret)
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_meets_a_conflict_looks_again_and_what_is_not_ours_stays() {
        let (server, secret) = following(ATTEMPTS - 1);
        let step = secret.settle().await.unwrap();
        assert_eq!(server.lock().unwrap().writes, 1);
        let again = secret.settle().await.unwrap();
        assert_eq!(again.served, step.served);
        assert!(again.write.is_none());
        let server = server.lock().unwrap();
        assert_eq!(server.writes, 1);
        assert_eq!(server.secret.data.as_ref().unwrap()["theirs"].0, b"kept");
    }

    #[tokio::test(start_paused = true)]
    async fn trouble_is_told_once_and_a_certificate_is_served_soon_after_its_end() {
        let logged = Captured::begin();
        let (server, secret) = following(u32::MAX);
        let certificates = Certificates::default();
        let mut changes = certificates.subscribe();
        let running = tokio::spawn(secret.follow(certificates.clone()));
        sleep(Duration::from_secs(5)).await;
        assert!(certificates.current().is_none());
        server.lock().unwrap().refuse = 0;
        let served = tokio::time::timeout(Duration::from_secs(5), changes.changed()).await;
        assert!(served.is_ok());
        assert_eq!(
            logged.lines_with("others wrote the Secret ns/certificates").len(),
            1
        );
        assert!(logged.lines_with("PRIVATE").is_empty());
        running.abort();
    }
}
