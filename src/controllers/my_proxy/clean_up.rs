//! The way out of a proxy that is being deleted.

use super::FINALIZER;
use super::announce::{Announcement, tell};
use super::error::Error;
use super::observe::Observed;
use super::status::{DELETING, deleting};
use crate::api::my_proxy::MyProxy;
use crate::runtime::client::is_not_found;
use crate::runtime::events::EventType;
use crate::runtime::finalizers;
use crate::runtime::reconcile::{Context, Next};

/// Deletes the children and lets go of the object once the caches have none left. What they have not seen yet is collected by the
/// cluster, since each child names its owner.
///
/// # Errors
/// When a child, the status or the finalizer could not be written.
pub async fn clean_up(proxy: &MyProxy, observed: &Observed, context: &Context) -> Result<Next, Error> {
    if finalizers::orphans(proxy) || observed.is_empty() {
        return match finalizers::remove(context.client(), proxy, FINALIZER).await {
            Err(error) if !is_not_found(&error) => Err(Error::Finalizer(error)),
            _ => Ok(Next::OnChange),
        };
    }
    let known = proxy.status.as_ref().and_then(|status| status.phase.as_deref()) == Some(DELETING);
    let status = deleting(proxy, &observed.pods, context.now());
    context.apply().status(proxy, &status).await?;
    if !known {
        let note = "its Deployment, Service and configuration are being deleted".to_owned();
        let announcement = Announcement {
            type_: EventType::Normal,
            reason: "Deleting".to_owned(),
            action: "Delete",
            note,
        };
        tell(proxy, context, vec![announcement]).await;
    }
    let Observed {
        deployments,
        services,
        config_maps,
        jobs,
        budgets,
        pods: _,
    } = observed;
    let (apply, none) = (context.apply(), [""; 0]);
    // The way in first, so that clients are refused at once and not by pods that go away.
    apply.prune(proxy, services, none).await?;
    apply.prune(proxy, deployments, none).await?;
    apply.prune(proxy, jobs, none).await?;
    apply.prune(proxy, config_maps, none).await?;
    apply.prune(proxy, budgets, none).await?;
    Ok(Next::OnChange)
}
