//! Puts right what leads to the webhook: the conversion of our CustomResourceDefinitions and, without OLM, the CA bundles of our webhook
//! configurations.
//!
//! A definition that OLM has just put there has a conversion that leads nowhere, and its versions that are not stored are closed. Whoever runs at that
//! time mends the one and opens the others by one write, at once.
//!
//! Without any conversion, as OLM leaves a definition whose operator it removes, the API server rewrites `apiVersion` and nothing else, and drops what
//! the other version has no field for. Then a version that is not stored must not be open: it is closed as soon as that is seen, and opened by the
//! write that heals the conversion.
//!
//! Each object is watched by its name, and looked at every half minute besides. What is wrong is decided purely, on what was read, and the
//! patch carries the `resourceVersion` of that; what is due by now is a pure step as well. A conflict ends the round, and the next look decides
//! anew. What leads to somebody else is said once and left alone, and so is a bundle of OLM's that
//! vouches for what is served, what OLM v1 keeps as its bundle has it, and in a definition an authority that
//! cert-manager puts in: nobody is fought with.

mod decide;
mod due;
mod target;

use std::convert::Infallible;
use std::time::Duration;

use futures::stream::select_all;
use futures::{FutureExt, StreamExt};
use kube::Client;
use tokio::time::{Instant, sleep, sleep_until};

pub use self::decide::{
    Configuration, Converter, Definition, DefinitionSpec, Left, Metadata, OwnerReference, Verdict, Wanted,
};
use self::target::{Kind, Outcome, Target};
use super::WebhookService;
use super::served::{Certificates, Served};
use crate::runtime::backoff::Backoff;
use crate::runtime::clock::Clock;

/// How often everything is looked at even if no watch tells of a change.
const INTERVAL: Duration = Duration::from_secs(30);
/// After a look that failed.
const RETRY: Backoff = Backoff {
    base: Duration::from_secs(1),
    max: Duration::from_secs(60),
};
/// So long after a look, events are answered by one more, so that an object that somebody writes all the time does not keep us busy. The first after a while is
/// answered at once: OLM installs an operator a second time if it finds no authority in any definition, which it has just written without one.
const GATHER: Duration = Duration::from_millis(300);

/// What is to lead to the webhook, by name.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    /// CustomResourceDefinitions.
    pub definitions: Vec<Converted>,
    /// Under which path their conversion is answered: `/convert`.
    pub conversion_path: String,
    /// The annotation of a definition that names, separated by commas, the versions to be served only while it is converted: OLM leaves them closed.
    pub opened: &'static str,
    /// For how long something is wrong before it is healed. A version that must not be open is closed without it.
    pub patience: Duration,
    /// ValidatingWebhookConfigurations. None under OLM, which makes its own.
    pub validating: Vec<String>,
    /// MutatingWebhookConfigurations. None under OLM.
    pub mutating: Vec<String>,
}

/// A CustomResourceDefinition that the webhook converts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// Its name: `PLURAL.GROUP`.
    pub name: String,
    /// The versions that are converted. Others, of a newer operator, are neither opened nor closed.
    pub versions: Vec<String>,
}

/// What a look at all objects brought.
struct Look {
    all_well: bool,
    /// When the next one is due, if one of them waits for it.
    next: Option<Instant>,
}

/// Sees to it that the API server finds the webhook and trusts it.
pub struct Injector {
    client: Client,
    service: WebhookService,
    clock: Clock,
    patience: Duration,
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

impl Injector {
    /// For the webhook behind `service`. `clock` should show the API server's time.
    pub fn new(client: Client, service: WebhookService, targets: Targets, clock: Clock) -> Self {
        let (path, opened) = (targets.conversion_path, targets.opened);
        let definitions = targets.definitions.into_iter().map(|definition| {
            let converter = Converter {
                path: path.clone(),
                opened,
                versions: definition.versions,
            };
            Target::new(Kind::Definition(converter), definition.name)
        });
        let of_kind = |kind: Kind| move |name| Target::new(kind.clone(), name);
        let validating = targets.validating.into_iter().map(of_kind(Kind::Validating));
        let mutating = targets.mutating.into_iter().map(of_kind(Kind::Mutating));
        Self {
            client,
            service,
            clock,
            patience: targets.patience,
            targets: definitions.chain(validating).chain(mutating).collect(),
        }
    }

    /// Looks whenever an object or what is served has changed, and now and then besides. Does nothing before there is a certificate.
    pub async fn follow(mut self, certificates: Certificates) -> Infallible {
        let mut served = certificates.subscribe();
        let mut changes = self.changes();
        let mut failures = 0;
        let mut looked = Instant::now();
        let mut wake = looked + GATHER;
        loop {
            tokio::select! {
                () = sleep_until(wake) => {}
                _ = served.changed() => sleep(GATHER).await,
                Some(()) = changes.next() => sleep_until(looked + GATHER).await,
            }
            // Before the look, which then answers all that is known by now.
            while changes.next().now_or_never().flatten().is_some() {}
            let present = served.borrow_and_update().clone();
            let look = match present {
                Some(present) => self.look_at_all(&present).await,
                None => Look {
                    all_well: true,
                    next: None,
                },
            };
            looked = Instant::now();
            failures = if look.all_well { 0 } else { failures + 1 };
            let wait = if look.all_well {
                INTERVAL
            } else {
                RETRY.delay(failures - 1)
            };
            let latest = Instant::now() + wait;
            wake = look.next.map_or(latest, |next| next.min(latest));
        }
    }

    /// Tells of each change of any object, and of each watch that failed: then one has to look.
    fn changes(&self) -> impl futures::Stream<Item = ()> + Unpin + use<> {
        select_all(
            self.targets
                .iter()
                .map(|target| target.watch(self.client.clone())),
        )
    }

    async fn look_at_all(&mut self, served: &Served) -> Look {
        let mut look = Look {
            all_well: true,
            next: None,
        };
        for target in &mut self.targets {
            let wanted = Wanted {
                service: &self.service,
                served,
                now: self.clock.now(),
            };
            match target.look(&self.client, wanted, self.patience).await {
                Outcome::Settled => {}
                Outcome::Again(at) => look.next = Some(look.next.map_or(at, |next| next.min(at))),
                Outcome::Failed => look.all_well = false,
            }
        }
        look
    }
}

#[cfg(test)]
mod tests;
