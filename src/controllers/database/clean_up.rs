//! The way out of a database that is being deleted.

use super::FINALIZER;
use super::announce::{Announcement, tell};
use super::error::Error;
use super::observe::Observed;
use super::status::{DELETING, deleting};
use super::volumes;
use crate::api::database::v1::Database;
use crate::api::retention::Retention;
use crate::runtime::client::is_not_found;
use crate::runtime::events::EventType;
use crate::runtime::finalizers;
use crate::runtime::reconcile::{Context, Next};

/// Deletes the children and lets go of the object once the caches have none left. What they have not seen yet is collected by the
/// cluster, since each child names its owner.
///
/// The instances come first, and what they need to end in order only when they are gone. Volumes stay, unless the author says that they go too.
///
/// # Errors
/// When a child, the status or the finalizer could not be written.
pub async fn clean_up(database: &Database, observed: &Observed, context: &Context) -> Result<Next, Error> {
    let going = volumes::going(database, observed);
    if finalizers::orphans(database) || observed.is_empty() && going.is_empty() {
        return match finalizers::remove(context.client(), database, FINALIZER).await {
            Err(error) if !is_not_found(&error) => Err(Error::Finalizer(error)),
            _ => Ok(Next::OnChange),
        };
    }
    let phase = database
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    let is_known = phase == Some(DELETING);
    let status = deleting(database, &observed.pods, context.now());
    context.apply().status(database, &status).await?;
    if !is_known {
        let announcement = Announcement {
            type_: EventType::Normal,
            reason: "Deleting".to_owned(),
            action: "Delete",
            note: match database.spec.storage.when_deleted {
                Retention::Retain => "its instances end, then all is deleted but their volumes".to_owned(),
                Retention::Delete => "its instances end, then all is deleted, their volumes too".to_owned(),
            },
        };
        tell(database, context, vec![announcement]).await;
    }
    let Observed {
        stateful_sets,
        services,
        config_maps,
        secrets,
        budgets,
        leases,
        roles,
        role_bindings,
        service_accounts,
        pods,
        claims: _,
    } = observed;
    let (apply, none) = (context.apply(), [""; 0]);
    // The way in first, so that clients are refused at once and not by pods that go away.
    apply.prune(database, services, none).await?;
    apply.prune(database, budgets, none).await?;
    apply.prune(database, stateful_sets, none).await?;
    // A StatefulSet that was about to be made anew has left them: nobody else would end them.
    for pod in volumes::strays(stateful_sets, pods) {
        apply.delete_stray(pod.as_ref()).await?;
    }
    if !observed.is_stopped() {
        return Ok(Next::OnChange);
    }
    apply.prune(database, config_maps, none).await?;
    apply.prune(database, leases, none).await?;
    apply.prune(database, role_bindings, none).await?;
    apply.prune(database, roles, none).await?;
    apply.prune(database, service_accounts, none).await?;
    apply.prune(database, secrets, none).await?;
    for claim in going {
        apply.delete_stray(claim.as_ref()).await?;
    }
    Ok(Next::OnChange)
}
