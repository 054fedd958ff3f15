//! When there is nothing left to do: what is still to come about by itself. Pure.

use super::scene::Role;
use super::step::Step;
use super::survey::{Seen, Survey};

/// What a settled cluster does not have.
pub(super) fn step(survey: &Survey<'_>) -> Option<Step> {
    let what = unanswered(survey)
        .or_else(|| disagreement(survey))
        .or_else(|| survey.nodes.iter().find_map(unwell))?;
    Some(Step::Wait(what))
}

fn unanswered(survey: &Survey<'_>) -> Option<String> {
    survey
        .unanswered()
        .next()
        .map(|place| format!("{place} to answer"))
}

fn disagreement(survey: &Survey<'_>) -> Option<String> {
    let seen = survey.who_disagrees()?;
    Some(format!("{} to know who owns which slots", seen.node))
}

fn unwell(seen: &Seen<'_>) -> Option<String> {
    let (node, report) = (seen.node, seen.report);
    if seen.is_primary() != (report.role == Role::Primary) {
        Some(format!("{node} to be either a primary or a replica"))
    } else if !seen.is_primary() && !report.primary_link_up {
        Some(format!("{node} to have the data of its primary"))
    } else if !report.cluster_state_ok {
        Some(format!("{node} to serve clients"))
    } else {
        None
    }
}
