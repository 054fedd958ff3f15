//! Carries out what is to be done with the instances themselves: deletes a pod, or tells an instance.

use k8s_openapi::api::apps::v1::StatefulSet;

use super::announce::Announcement;
use super::instances::{Order, Survey, Target};
use super::step::Step;
use crate::api::database::agent::{Handover, Restart};
use crate::pki::authority::Identity;
use crate::runtime::apply::Applier;
use crate::runtime::events::EventType;

/// With what it is carried out.
#[derive(Clone, Copy, Debug)]
pub struct Means<'a> {
    /// Deletes pods.
    pub apply: &'a Applier,
    /// The owner of the pods.
    pub stateful_set: Option<&'a StatefulSet>,
    /// Tells instances; none where they are not asked either.
    pub survey: Option<&'a Survey>,
    /// What the operator logs in with.
    pub identity: &'a Identity,
    /// Where instances are.
    pub targets: &'a [Target],
}

/// Begins the step, and gives what is worth telling of it.
///
/// # Errors
/// For people: why it was not begun. It may be tried again.
pub async fn carry_out(step: &Step, means: Means<'_>) -> Result<Announcement, String> {
    let (reason, action) = match step {
        Step::Replace { pod, .. } => {
            let owner = means.stateful_set.ok_or("there is no StatefulSet")?;
            let deleted = means.apply.delete(owner, pod.as_ref()).await;
            deleted.map_err(|error| error.to_string())?;
            ("Replacing", "Replace")
        }
        Step::HandOver { from, to, why } => {
            let handover = Handover {
                to: Some(to.clone()),
                why: why.clone(),
            };
            order(from, Order::HandOver(handover), means).await?;
            ("HandingOver", "HandOver")
        }
        Step::Restart { instance, why } => {
            let restart = Restart { why: why.clone() };
            order(instance, Order::Restart(restart), means).await?;
            ("Restarting", "Restart")
        }
    };
    Ok(Announcement {
        type_: EventType::Normal,
        reason: reason.to_owned(),
        action,
        note: step.told(),
    })
}

async fn order(instance: &str, order: Order, means: Means<'_>) -> Result<(), String> {
    let target = means.targets.iter().find(|target| target.pod == instance);
    let (Some(survey), Some(target)) = (means.survey, target) else {
        return Err(format!("{instance} cannot be told"));
    };
    let told = survey.order(means.identity, target, &order).await;
    told.map_err(|reason| format!("{instance}: {reason}"))
}
