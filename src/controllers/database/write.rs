//! Writes what was decided: the one place of this controller that changes children.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use rustls::crypto::aws_lc_rs;

use super::Settings;
use super::announce::Announcement;
use super::certificates::{self, INSTANCE};
use super::desired::secrets::{self, Randomness, password_in};
use super::desired::settings::read;
use super::desired::{Decided, Owner, Parent, Resources, build, names};
use super::error::Error;
use super::lease::Held;
use super::live::Ground;
use super::observe::{Observed, named};
use crate::api::database::agent::{SETTINGS, Synchronous, settings_hash};
use crate::controllers::common::announce::workload_written;
use crate::controllers::common::mark::mark;
use crate::pki::authority::{Data, step};
use crate::runtime::apply::{Applier, Outcome};
use crate::runtime::events::EventType;

/// The annotation of a pod that names the settings which its kubelet is to deliver.
const TOLD: &str = "roadstead.dev/settings";

/// What is known of the children after the writes, those that failed included: as they were written last, or as they were observed.
#[derive(Default)]
pub struct Applied {
    /// The instances.
    pub stateful_set: Option<Arc<StatefulSet>>,
    /// What they go by.
    pub settings: Option<Arc<ConfigMap>>,
    /// Who leads them.
    pub lease: Option<Arc<Lease>>,
    /// The authority, and what it has issued.
    pub certificates: Data,
    /// What is worth telling.
    pub announcements: Vec<Announcement>,
}

impl Applied {
    /// What there was.
    pub fn of(observed: &Observed, database: &str) -> Self {
        let secret = |name: &str| named(&observed.secrets, name).map(|secret| &**secret);
        Self {
            stateful_set: named(&observed.stateful_sets, database).cloned(),
            settings: named(&observed.config_maps, &names::settings(database)).cloned(),
            lease: named(&observed.leases, database).cloned(),
            certificates: certificates::held(
                secret(&names::authority(database)),
                secret(&names::tls(database)),
            ),
            announcements: Vec::new(),
        }
    }

    /// What names the settings that instances should go by.
    pub fn settings_hash(&self) -> Option<String> {
        let settings = self.settings.as_ref()?;
        settings.data.as_ref()?.get(SETTINGS).map(settings_hash)
    }

    /// Whether there are instances, and an authority that issues their certificates.
    pub fn has_certificates(&self, parent: &Parent, observed: &Observed) -> bool {
        let authority = named(&observed.secrets, &names::authority(&parent.name));
        self.stateful_set.is_some() && authority.is_some()
    }

    /// What it is judged by.
    pub fn ground(&self) -> Ground {
        let told = self.settings.as_deref().and_then(read);
        Ground {
            stateful_set: self.stateful_set.clone(),
            lease: self.lease.as_deref().map(Held::of).unwrap_or_default(),
            settings: self.settings_hash(),
            required: told.is_some_and(|told| told.synchronous == Synchronous::Required),
        }
    }
}

/// Writes the children in the order in which they need each other, then removes those that are no longer wanted.
///
/// # Errors
/// The first write that failed. What was done until then is in `applied`.
pub async fn write(
    apply: &Applier,
    owner: &Owner<'_>,
    settings: &Settings,
    decided: &Decided,
    observed: &Observed,
    applied: &mut Applied,
    now: Timestamp,
) -> Result<(), Error> {
    let Resources {
        service_account,
        role,
        role_binding,
        lease,
        settings: told,
        primary,
        read_only,
        instances,
        stateful_set,
        disruption_budget,
    } = build(owner, settings, decided)?;
    let account = service_account.name_any();
    apply
        .apply(service_account, named(&observed.service_accounts, &account))
        .await?;
    apply.apply(role, named(&observed.roles, &account)).await?;
    apply
        .apply(role_binding, named(&observed.role_bindings, &account))
        .await?;
    // Its metadata alone: what instances write stays as it is. Without its labels no cache would know of it.
    let lease = apply.apply(lease, named(&observed.leases, owner.name())).await?;
    applied.lease = Some(lease.object);
    write_credentials(apply, owner, settings, observed).await?;
    write_certificates(apply, &owner.parent, settings, observed, applied, now).await?;
    let told = apply
        .apply(told, named(&observed.config_maps, &names::settings(owner.name())))
        .await?;
    applied.settings = Some(told.object);
    for service in [instances, primary, read_only] {
        let name = service.name_any();
        apply.apply(service, named(&observed.services, &name)).await?;
    }
    let written = apply
        .apply(stateful_set, named(&observed.stateful_sets, owner.name()))
        .await?;
    applied
        .announcements
        .extend(workload_written("StatefulSet", owner.name(), written.outcome));
    applied.stateful_set = Some(written.object);
    let mut budgets = Vec::new();
    if let Some(budget) = disruption_budget {
        let name = budget.name_any();
        apply.apply(budget, named(&observed.budgets, &name)).await?;
        budgets.push(name);
    }
    apply.prune(owner.object, &observed.budgets, &budgets).await?;
    if let Some(settings) = applied.settings_hash() {
        // One that was not marked is with the next reconcile, and its kubelet looks in its own time.
        mark(apply, observed.pods.iter(), TOLD, &settings).await;
    }
    Ok(())
}

/// What is random is made once. A cache that does not know the Secret may be late, so what is there is taken before anything is written over it.
async fn write_credentials(
    apply: &Applier,
    owner: &Owner<'_>,
    settings: &Settings,
    observed: &Observed,
) -> Result<(), Error> {
    let domain = &settings.cluster_domain;
    let live = match named(&observed.secrets, owner.name()) {
        Some(live) => Arc::clone(live),
        None => {
            let password = secrets::password(&randomness()?);
            let made = secrets::credentials(owner, password.as_bytes(), domain);
            apply.once(made, None).await?.object
        }
    };
    let password = match password_in(&live) {
        Some(password) => password.to_vec(),
        None => secrets::password(&randomness()?).into_bytes(),
    };
    let wanted = secrets::credentials(owner, &password, domain);
    apply.apply(wanted, Some(&live)).await?;
    Ok(())
}

/// Keys are made once as well, and certificates anew in time.
///
/// # Errors
/// When one could not be made, or written.
pub async fn write_certificates(
    apply: &Applier,
    parent: &Parent,
    settings: &Settings,
    observed: &Observed,
    applied: &mut Applied,
    now: Timestamp,
) -> Result<(), Error> {
    let live = |name: &str| named(&observed.secrets, name);
    let dns_names = certificates::dns_names(&parent.name, &parent.namespace, &settings.cluster_domain);
    let mut step_from = |held: &Data| -> Result<Data, Error> {
        let step = step(held, &INSTANCE, &dns_names, now)?;
        Ok(match step.write {
            Some(write) => {
                applied.announcements.push(issued(&write.why));
                write.data
            }
            None => held.clone(),
        })
    };
    let (authority_name, tls_name) = (names::authority(&parent.name), names::tls(&parent.name));
    let mut certificates = step_from(&applied.certificates)?;
    let authority = match live(&authority_name) {
        Some(live) => Arc::clone(live),
        None => {
            let made = secrets::authority(parent, &certificates);
            let found = apply.once(made, None).await?;
            if found.outcome != Outcome::Created {
                let tls = live(&tls_name).map(|secret| &**secret);
                certificates = step_from(&certificates::held(Some(&found.object), tls))?;
            }
            found.object
        }
    };
    let (wanted, tls) = (
        secrets::authority(parent, &certificates),
        secrets::tls(parent, &certificates),
    );
    apply.apply(wanted, Some(&authority)).await?;
    apply.apply(tls, live(&tls_name)).await?;
    applied.certificates = certificates;
    Ok(())
}

fn randomness() -> Result<Randomness, Error> {
    let mut bytes = [0; size_of::<Randomness>()];
    let random = aws_lc_rs::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| Error::Randomness)?;
    Ok(bytes)
}

fn issued(why: &[&str]) -> Announcement {
    Announcement {
        type_: EventType::Normal,
        reason: "CertificatesIssued".to_owned(),
        action: "Issue",
        note: format!("certificates of the instances are made anew: {}", why.join("; ")),
    }
}
