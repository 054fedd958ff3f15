//! The webhooks of `roadstead run`: the server, the certificates that it is served with, and what has to lead to it.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tracing::{error, info};

use super::values::Listen;
use crate::api::served::Served;
use crate::api::{database, my_proxy};
use crate::olm::OPENED;
use crate::package;
use crate::runtime::clock::Clock;
use crate::runtime::health::{self, BindError};
use crate::runtime::manager::Manager;
use crate::runtime::migration::{self, Conversion, MigrationOptions};
use crate::telemetry::metrics::Metrics;
use crate::webhook::certificates::folder::{Folder, OLM_FOLDER};
use crate::webhook::certificates::injection::{Converted, Injector, Targets};
use crate::webhook::certificates::secret::AuthoritySecret;
use crate::webhook::certificates::{Certificates, WebhookService};
use crate::webhook::{CONVERT, Limits, WebhookMetrics, routes, serve};

/// For how long OLM may be about to do something with a definition. It takes the conversion away from an operator that it removes, and soon after that
/// the operator: healed in between, the definition would lead to nobody.
const OLM_NEEDS: Duration = Duration::from_secs(5);

/// Flags of `roadstead run`.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Webhooks")]
pub(super) struct Webhooks {
    /// Where webhooks are served over HTTPS: validation, and conversion between versions; off for nowhere.
    #[arg(long, env = "WEBHOOK_ADDRESS", default_value = "off", value_name = "ADDRESS")]
    webhook_address: Listen,
    /// Folder with tls.crt and tls.key, as OLM mounts it. Where it has none, the operator makes certificates and keeps them in
    /// --webhook-secret.
    #[arg(long, default_value = OLM_FOLDER, value_name = "FOLDER")]
    webhook_certificates: PathBuf,
    /// Name of the Secret for certificates of the operator's own, in its namespace.
    #[arg(long, default_value = package::webhooks::SECRET, value_name = "NAME")]
    webhook_secret: String,
    /// Name of the Service by which the API server reaches the webhooks, in the operator's namespace.
    #[arg(long, default_value = package::webhooks::SERVICE, value_name = "NAME")]
    webhook_service: String,
}

/// Webhooks that are served.
pub(super) struct Running {
    certificates: Certificates,
    clock: Clock,
    server: JoinHandle<()>,
    /// What brings certificates, and heals what is to lead here; ends with this.
    _keepers: JoinSet<()>,
}

impl Webhooks {
    /// The kinds that are converted here: none, if nothing is served.
    fn served(&self) -> impl Iterator<Item = Served> {
        self.webhook_address.0.into_iter().flat_map(|_| served())
    }

    /// What these are called.
    pub(super) fn kinds(&self) -> Vec<String> {
        self.served()
            .map(|kind| kind.versions().kind().to_owned())
            .collect()
    }

    /// Has the manager move stored objects: only where they are converted, they can be moved from one version to another.
    pub(super) fn move_stored_objects(&self, manager: &mut Manager) {
        let definitions: Vec<String> = self.served().map(|kind| converted(&kind).name).collect();
        let options = MigrationOptions::new(Conversion::Webhook);
        migration::register(manager, &definitions, options);
    }

    /// Begins to serve, if an address says where, until `stop` is done.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub(super) async fn start(
        &self,
        manager: &Manager,
        namespace: &str,
        cluster_domain: &str,
        metrics: &Metrics,
        stop: impl Future<Output = ()> + Clone + Send + 'static,
    ) -> Result<Option<Running>, BindError> {
        let Some(address) = self.webhook_address.0 else {
            return Ok(None);
        };
        let listener = health::listen(address, "webhooks").await?;
        let service = WebhookService {
            namespace: namespace.to_owned(),
            name: self.webhook_service.clone(),
            port: package::webhooks::SERVICE_PORT,
        };
        let mounted = self.webhook_certificates.join("tls.crt").exists();
        info!(%address, service = service.host(), mounted, "webhooks are served");

        // Every replica answers the API server, whoever leads.
        let client = manager.clients().unfenced.clone();
        let clock = manager.clients().time.clock(Clock::system());
        let certificates = Certificates::default();
        let mut keepers = JoinSet::new();
        if mounted {
            let folder = Folder::new(&self.webhook_certificates);
            keepers.spawn(until(stop.clone(), folder.follow(certificates.clone())));
        } else {
            let names = service.dns_names(cluster_domain);
            let secret = AuthoritySecret::new(
                client.clone(),
                namespace,
                &self.webhook_secret,
                names,
                clock.clone(),
            );
            keepers.spawn(until(stop.clone(), secret.follow(certificates.clone())));
        }
        let injector = Injector::new(client, service, targets(mounted), clock.clone());
        keepers.spawn(until(stop.clone(), injector.follow(certificates.clone())));
        Ok(Some(Running {
            server: tokio::spawn(answer(
                listener,
                certificates.clone(),
                WebhookMetrics::register(metrics),
                stop,
            )),
            certificates,
            clock,
            _keepers: keepers,
        }))
    }
}

/// Whoever is about to end renews nothing any more, and sends nobody to itself.
async fn until(end: impl Future<Output = ()>, work: impl Future<Output = Infallible>) {
    tokio::select! {
        () = end => {}
        never = work => match never {},
    }
}

async fn answer(
    listener: TcpListener,
    certificates: Certificates,
    metrics: WebhookMetrics,
    stop: impl Future<Output = ()> + Send,
) {
    let limits = Limits::default();
    let routes = routes(served(), limits, metrics);
    if let Err(failure) = serve(listener, Arc::new(certificates), routes, limits, stop).await {
        error!(error = %failure, "webhooks are not served");
    }
}

impl Running {
    /// Tells whether there is a certificate.
    pub(super) fn readiness(&self) -> impl Fn() -> Result<(), String> + Send + Sync + 'static {
        let (certificates, clock) = (self.certificates.clone(), self.clock.clone());
        move || certificates.ready(clock.now())
    }

    /// Waits until the last request is answered; how long that may take, the server's limits say.
    pub(super) async fn end(self) {
        if let Err(failure) = self.server.await {
            error!(error = %failure, "the webhook server did not end well");
        }
    }
}

/// The kinds for which the webhooks answer.
fn served() -> [Served; 2] {
    [my_proxy::served(), database::served()]
}

fn converted(kind: &Served) -> Converted {
    let versions = kind.versions();
    Converted {
        name: format!("{}.{}", versions.plural(), versions.group()),
        versions: versions.names().map(str::to_owned).into(),
    }
}

/// What is healed. OLM, which mounts certificates, makes the configurations of the webhooks itself, and sees to them.
fn targets(mounted: bool) -> Targets {
    let configurations = || {
        (!mounted)
            .then(|| package::webhooks::CONFIGURATION.to_owned())
            .into_iter()
            .collect()
    };
    Targets {
        definitions: served().iter().map(converted).collect(),
        conversion_path: CONVERT.to_owned(),
        opened: OPENED,
        patience: if mounted { OLM_NEEDS } else { Duration::ZERO },
        validating: configurations(),
        mutating: configurations(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::kinds;

    #[test]
    fn every_definition_with_several_versions_is_healed_and_what_the_operator_opens_is_converted() {
        let healed = targets(true).definitions;
        let shipped = kinds::all();
        let shipped: Vec<_> = shipped
            .iter()
            .filter(|kind| kind.crd.spec.versions.len() > 1)
            .collect();
        assert_eq!(healed.len(), shipped.len());
        for (healed, shipped) in healed.iter().zip(shipped) {
            assert_eq!(Some(&healed.name), shipped.crd.metadata.name.as_ref());
            for opened in shipped.opened() {
                assert!(
                    healed.versions.iter().any(|converted| converted == opened),
                    "{opened}"
                );
            }
        }
    }
}
