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
use crate::olm::status::{Kind, Report, State, plan, text as told};
use crate::olm::trial::Trial;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// Where something is wrong for so long, nothing is waited for any more.
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
    let mut wrong: Option<(Place, Instant)> = None;
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

/// Where something is wrong. Not what: a pull that fails and the pause after it are told with other words by turns.
type Place = (Kind, String);

/// Where something is wrong, and since when.
fn still_wrong(before: Option<(Place, Instant)>, report: &Report) -> Option<(Place, Instant)> {
    let first = report.chains.first().and_then(|chain| chain.first.as_ref());
    let first = first.filter(|_| report.state == State::Wrong)?;
    let place = (first.kind, first.name.clone());
    before
        .filter(|(known, _)| *known == place)
        .or_else(|| Some((place, Instant::now())))
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
    use crate::olm::status::{Chain, First, Mark, Trouble};
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

    fn wrong(kind: Kind, name: &str, what: &str) -> Report {
        let trouble = Trouble {
            what: what.to_owned(),
            why: Vec::new(),
            helps: Vec::new(),
        };
        let first = First {
            kind,
            name: name.to_owned(),
            mark: Mark::Wrong,
            trouble,
        };
        let chain = Chain {
            namespace: "shop".to_owned(),
            subscription: "a".to_owned(),
            state: State::Wrong,
            links: Vec::new(),
            first: Some(first),
        };
        Report::new("a", vec![chain], None)
    }

    #[test]
    fn what_is_told_with_other_words_by_turns_is_wrong_since_the_first_of_them() {
        // No other time than that of before can be this one
        let long_ago = Instant::now() + STAYS;
        let before = Some(((Kind::Deployment, "shop/a".to_owned()), long_ago));
        let since = |report: &Report| still_wrong(before.clone(), report).map(|(_, since)| since);
        for words in ["ErrImagePull of pod a-1", "ImagePullBackOff of pod a-1"] {
            assert_eq!(since(&wrong(Kind::Deployment, "shop/a", words)), Some(long_ago));
        }
        for (kind, name) in [(Kind::Deployment, "shop/b"), (Kind::Bundle, "shop/a")] {
            assert_ne!(since(&wrong(kind, name, "another")), Some(long_ago));
        }
        let mut well = wrong(Kind::Deployment, "shop/a", "it was");
        well.state = State::InProgress;
        assert_eq!(since(&well), None, "nothing is wrong any more");
    }
}
