//! Waits until OLM has installed a version, and approves what may be approved without asking anybody.

use std::io;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};

use super::Site;
use super::stages::Stages;
use crate::cli::Failure;
use crate::cli::cluster::reader::{INSTALL_PLAN, SUBSCRIPTION};
use crate::cli::cluster::writer::Same;
use crate::cli::status::read_report;
use crate::olm::manifests::{list, text};
use crate::olm::status::{Report, State, plan, text as told};
use crate::olm::trial::Trial;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// What is wrong for so long is not waited for any more.
const STAYS: Duration = Duration::from_secs(60);

/// What was seen at one look.
enum Seen {
    /// What the Subscription has installed, and all that is told of it.
    Chain(String, Box<Report>),
    /// Somebody has deleted the Subscription.
    Gone,
}

/// Waits until a version is what the Subscription has installed, and all of its chain is well. `versions` are those that may be installed on the way.
pub(super) async fn until_installed(
    site: &Site,
    trial: &Trial,
    versions: &[String],
    patience: Duration,
    stages: &mut Stages,
) -> Result<(), Failure> {
    let (begun, deadline) = (Instant::now(), Instant::now() + patience);
    let wanted = versions.last().map_or("", String::as_str);
    let late = |last| Err(late(trial, wanted, begun.elapsed(), last));
    let mut last = Err("nothing was seen of it".to_owned());
    let mut wrong: Option<(String, Instant)> = None;
    loop {
        match timeout_at(deadline, look(site, trial, versions)).await {
            Ok(Ok(Seen::Chain(installed, report))) => {
                if let Some(chain) = report.chains.first() {
                    stages.follow(chain);
                }
                if installed == wanted && report.state == State::Well {
                    return Ok(());
                }
                wrong = still_wrong(wrong, &report);
                last = Ok(*report);
                if wrong.as_ref().is_some_and(|(_, since)| since.elapsed() > STAYS) {
                    return late(last);
                }
            }
            Ok(Ok(Seen::Gone)) => return late(Err("the Subscription is not there any more".to_owned())),
            // It may answer the next time
            Ok(Err(error)) => last = Err(error.to_string()),
            Err(_) => return late(last),
        }
        if Instant::now() + PAUSE > deadline {
            return late(last);
        }
        sleep(PAUSE).await;
    }
}

/// What is wrong, and since when it is that.
fn still_wrong(before: Option<(String, Instant)>, report: &Report) -> Option<(String, Instant)> {
    let first = report.chains.first().and_then(|chain| chain.first.as_ref());
    let what = &first.filter(|_| report.state == State::Wrong)?.trouble.what;
    before
        .filter(|(known, _)| known == what)
        .or_else(|| Some((what.clone(), Instant::now())))
}

async fn look(site: &Site, trial: &Trial, versions: &[String]) -> Result<Seen, Failure> {
    let subscription = site.get(&SUBSCRIPTION, &trial.package).await?;
    let Some(subscription) = subscription.filter(|subscription| trial.owns(subscription)) else {
        return Ok(Seen::Gone);
    };
    if let Some(name) = plan(&subscription)
        && let Some(plan) = site.get(&INSTALL_PLAN, name).await?
        && may_be_approved(&plan, versions)
    {
        let approved = json!({"spec": {"approved": true}});
        site.writer
            .merge(&INSTALL_PLAN, &site.namespace, &plan, Same::Version, approved)
            .await
            .map_err(|refusal| format!("cannot approve the InstallPlan {name}: {refusal}"))?;
    }
    let installed = text(&subscription, "/status/installedCSV").to_owned();
    let (namespace, now) = (Some(site.namespace.as_str()), Timestamp::now());
    let report = read_report(&site.reader, &trial.package, namespace, now).await?;
    Ok(Seen::Chain(installed, Box::new(report)))
}

/// A plan waits for a person wherever one Subscription of the namespace does. One that brings nothing but what was asked for may go on; whoever asked is there.
fn may_be_approved(plan: &Value, versions: &[String]) -> bool {
    let brings = list(plan, "/spec/clusterServiceVersionNames");
    let is_asked_for = |name: &Value| versions.iter().any(|version| name == version);
    text(plan, "/status/phase") == "RequiresApproval"
        && plan["spec"]["approved"] != json!(true)
        && !brings.is_empty()
        && brings.iter().all(is_asked_for)
}

/// What was seen last is told whole: it is why.
fn late(trial: &Trial, wanted: &str, took: Duration, last: Result<Report, String>) -> Failure {
    let Trial { package, namespace } = trial;
    let why = match last {
        Ok(report) => {
            // Who cannot be told that is told the rest
            let _ = told::write(&mut io::stderr().lock(), &report, Timestamp::now());
            String::new()
        }
        Err(why) => format!(" ({why})"),
    };
    format!(
        "{wanted} does not run in {namespace} after {} s{why}; `roadstead status {package} -n {namespace}` looks again, `roadstead bundle cleanup {package} -n {namespace}` \
         removes what there is",
        took.as_secs()
    )
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::what_was_asked_for("RequiresApproval", json!(["a.v2"]), true)]
    #[case::what_is_on_the_way("RequiresApproval", json!(["a.v1", "a.v2"]), true)]
    #[case::anothers_too("RequiresApproval", json!(["a.v2", "b.v1"]), false)]
    #[case::nothing("RequiresApproval", json!([]), false)]
    #[case::at_work_already("Installing", json!(["a.v2"]), false)]
    fn a_plan_is_approved_for_what_was_asked_for_alone(
        #[case] phase: &str,
        #[case] brings: Value,
        #[case] approved: bool,
    ) {
        let plan = json!({"spec": {"approved": false, "clusterServiceVersionNames": brings}, "status": {"phase": phase}});
        let versions = ["a.v1".to_owned(), "a.v2".to_owned()];
        assert_eq!(may_be_approved(&plan, &versions), approved);
    }
}
