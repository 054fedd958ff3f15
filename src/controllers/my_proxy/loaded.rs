//! Whether the pods serve what nginx accepted, from what their agents say. Pure.
//!
//! A Deployment that is rolled out does not tell: a changed configuration reaches running pods through a mounted ConfigMap, once each
//! kubelet has looked at it and each agent has had nginx reload.

use std::net::IpAddr;
use std::time::Duration;

use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::api::my_proxy::agent::{MAX_REASON, PORT, REPORT, Report};
use crate::api::text::shorten;

/// Between two questions to pods that are still loading: at first, and at last.
const LOADING: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// Between two questions to pods of which one refused or did not answer: somebody may have mended its Secret, or the way to it.
const AMISS: Duration = Duration::from_secs(30);
/// Between two questions to pods that had nothing to complain of. A certificate that is renewed and refused shows only when asked for.
const CERTIFICATE: Duration = Duration::from_secs(300);

/// How long the cache may be behind: a watch that broke is back after a minute at most.
const LOST: SignedDuration = SignedDuration::from_secs(90);

/// A pod that is to be asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Its name.
    pub pod: String,
    /// Where it is, if the kubelet has said so.
    pub address: Option<IpAddr>,
}

impl Target {
    /// Of a pod.
    pub fn of(pod: &Pod) -> Self {
        let status = pod.status.as_ref();
        Self {
            pod: pod.name_any(),
            address: status.and_then(|status| status.pod_ip.as_deref()?.parse().ok()),
        }
    }
}

/// A pod that was asked.
#[derive(Debug)]
pub struct Asked {
    /// Its name.
    pub pod: String,
    /// What its agent said.
    pub answer: Result<Report, AskError>,
}

/// Why an agent did not tell.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The pod is ready, and nobody has been told where it is.
    #[error("it has no address")]
    NoAddress,
    /// There was no answer in time.
    #[error("no answer on port {PORT} in time")]
    Late,
    /// There was no time left to ask it, after others had taken so long.
    #[error("it could not be asked, since others did not answer in time")]
    NotReached,
    /// No connection, or one that broke.
    #[error("no answer on port {PORT}: {0}")]
    Unreachable(String),
    /// Something other than an agent answers.
    #[error("port {PORT} answers GET {REPORT} with {0}")]
    Refused(StatusCode),
    /// The answer is not a report.
    #[error("port {PORT} answers GET {REPORT} with something else than a report: {0}")]
    Malformed(String),
}

/// What is known of what the pods serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loaded {
    /// There was nothing to ask about yet, or nobody is to be asked.
    NotAsked,
    /// What the pods should serve is lost: somebody changed or deleted their ConfigMap.
    NothingToServe,
    /// All of them serve it.
    Everywhere,
    /// Some have yet to take it.
    Loading {
        /// How many serve it.
        serving: usize,
        /// How many there are.
        pods: usize,
        /// The first that does not, if it is known.
        waiting: Option<String>,
    },
    /// A pod does not take what is mounted into it, and keeps serving what it had.
    Refused {
        /// The first such pod.
        pod: String,
        /// nginx's own words.
        reason: String,
    },
    /// It is not known what a pod serves.
    Silent {
        /// The first such pod.
        pod: String,
        /// Why it did not tell.
        error: String,
    },
}

/// What one answer means.
enum Meaning<'a> {
    Serves,
    Loads,
    Refuses(&'a str),
    Unknown(String),
}

impl<'a> Meaning<'a> {
    fn of(answer: &'a Result<Report, AskError>, wanted: &str) -> Self {
        let report = match answer {
            Ok(report) => report,
            Err(error) => return Self::Unknown(error.to_string()),
        };
        match (&report.refused, report.mounted.as_deref()) {
            // A refusal of what was mounted before is none of this.
            (Some(reason), None) => return Self::Refuses(reason),
            (Some(reason), Some(mounted)) if mounted == wanted => return Self::Refuses(reason),
            _ => {}
        }
        match (report.config.as_deref(), &report.generation) {
            (Some(config), _) if config == wanted => Self::Serves,
            (None, Some(_)) => Self::Unknown("its agent does not know what nginx serves".to_owned()),
            _ => Self::Loads,
        }
    }
}

/// Judges the answers of pods, given how many there are to be and the
/// [`config_hash`](crate::api::my_proxy::agent::config_hash) of what they are to serve.
///
/// What is known to be amiss comes before what is not known. A pod that nobody could name yet counts as one that has yet to take it.
pub fn judge(wanted: &str, pods: usize, asked: &[Asked]) -> Loaded {
    let pods = pods.max(asked.len());
    let (mut serving, mut waiting, mut silent, mut loads) = (0, None, None, pods > asked.len());
    for Asked { pod, answer } in asked {
        match Meaning::of(answer, wanted) {
            Meaning::Serves => serving += 1,
            Meaning::Loads => {
                loads = true;
                waiting = waiting.or_else(|| Some(pod.clone()));
            }
            Meaning::Refuses(reason) => {
                let (pod, reason) = (pod.clone(), shorten(reason, MAX_REASON));
                return Loaded::Refused { pod, reason };
            }
            Meaning::Unknown(error) => {
                silent = silent.or_else(|| Some((pod.clone(), error)));
            }
        }
    }
    match silent {
        _ if loads => Loaded::Loading {
            serving,
            pods,
            waiting,
        },
        Some((pod, error)) => Loaded::Silent { pod, error },
        None => Loaded::Everywhere,
    }
}

impl Loaded {
    /// The same, but that pods which nobody could name for a while, or which were `given_up` before, count as silent: their labels were
    /// changed by hand, and waiting does not bring them back.
    pub fn without_the_lost(self, given_up: bool, loading_since: Timestamp, now: Timestamp) -> Self {
        let lasts = now.duration_since(loading_since) > LOST;
        match self {
            Self::Loading { waiting: None, .. } if given_up || lasts => Self::Silent {
                pod: "of the Deployment".to_owned(),
                error: "it lacks the label by which the operator knows it".to_owned(),
            },
            other => other,
        }
    }

    /// When to ask again, if nothing changes before: more seldom the longer pods have been `loading_since`.
    pub fn ask_again(&self, certificate: bool, loading_since: Timestamp, now: Timestamp) -> Option<Duration> {
        match self {
            Self::Loading { .. } => {
                let (first, last) = LOADING;
                let age = Duration::try_from(now.duration_since(loading_since)).unwrap_or_default();
                Some((age / 4).clamp(first, last))
            }
            Self::Refused { .. } | Self::Silent { .. } => Some(AMISS),
            Self::Everywhere if certificate => Some(CERTIFICATE),
            Self::Everywhere | Self::NotAsked | Self::NothingToServe => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    type Answer = Result<Report, AskError>;

    fn says(config: &str, mounted: &str, refused: Option<&str>) -> Answer {
        Ok(Report {
            config: Some(config.into()),
            mounted: Some(mounted.into()),
            refused: refused.map(str::to_owned),
            ..Report::default()
        })
    }

    /// Nothing mounted can be read.
    fn blind(config: &str) -> Answer {
        Ok(Report {
            config: Some(config.into()),
            refused: Some("[emerg] no".into()),
            ..Report::default()
        })
    }

    fn forgetful() -> Answer {
        Ok(Report {
            generation: Some("0123".into()),
            ..Report::default()
        })
    }

    fn judged(answers: Vec<Answer>) -> Loaded {
        let asked = answers.into_iter().enumerate().map(|(number, answer)| Asked {
            pod: format!("edge-{number}"),
            answer,
        });
        judge("new", 2, &asked.collect::<Vec<_>>())
    }

    fn loading(serving: usize, waiting: Option<&str>) -> Loaded {
        Loaded::Loading {
            serving,
            pods: 2,
            waiting: waiting.map(str::to_owned),
        }
    }

    fn refused() -> Loaded {
        Loaded::Refused {
            pod: "edge-1".into(),
            reason: "[emerg] no".into(),
        }
    }

    fn silent(error: &str) -> Loaded {
        Loaded::Silent {
            pod: "edge-1".into(),
            error: error.into(),
        }
    }

    #[rstest]
    #[case::all(vec![says("new", "new", None), says("new", "new", None)], Loaded::Everywhere)]
    #[case::mounted_and_not_yet_served(vec![says("new", "new", None), says("old", "new", None)], loading(1, Some("edge-1")))]
    #[case::not_mounted_yet(vec![says("old", "old", None), says("old", "old", None)], loading(0, Some("edge-0")))]
    #[case::not_started(vec![says("new", "new", None), Ok(Report::default())], loading(1, Some("edge-1")))]
    #[case::not_seen_yet(vec![says("new", "new", None)], loading(1, None))]
    #[case::none_seen_yet(vec![], loading(0, None))]
    #[case::refused(vec![says("old", "new", None), says("old", "new", Some("[emerg] no"))], refused())]
    #[case::refused_before(vec![says("new", "new", None), says("old", "old", Some("x"))], loading(1, Some("edge-1")))]
    // The configuration is served, with the certificate before this one.
    #[case::certificate(vec![says("new", "new", None), says("new", "new", Some("[emerg] no"))], refused())]
    #[case::unreadable(vec![says("new", "new", None), blind("new")], refused())]
    #[case::silent(vec![says("new", "new", None), Err(AskError::NoAddress)], silent("it has no address"))]
    #[case::forgetful(vec![says("new", "new", None), forgetful()], silent("its agent does not know what nginx serves"))]
    #[case::silent_while_another_loads(vec![says("old", "old", None), Err(AskError::NoAddress)], loading(0, Some("edge-0")))]
    #[case::silent_while_another_refuses(vec![Err(AskError::Late), says("old", "new", Some("[emerg] no"))], refused())]
    fn what_pods_serve_is_what_their_agents_say(#[case] answers: Vec<Answer>, #[case] expected: Loaded) {
        assert_eq!(judged(answers), expected);
    }

    #[rstest]
    #[case::behind(loading(1, None), false, 90, false)]
    #[case::lost(loading(1, None), false, 91, true)]
    #[case::lost_before(loading(1, None), true, 0, true)]
    #[case::known(loading(1, Some("edge-1")), true, 91, false)]
    fn pods_that_nobody_can_name_are_given_up(
        #[case] loaded: Loaded,
        #[case] given_up: bool,
        #[case] age: i64,
        #[case] silent: bool,
    ) {
        let at = |second| Timestamp::from_second(second).unwrap();
        let judged = loaded.without_the_lost(given_up, at(0), at(age));
        assert_eq!(matches!(judged, Loaded::Silent { .. }), silent, "{judged:?}");
    }

    #[rstest]
    #[case(0, 1)]
    #[case(20, 5)]
    #[case(4000, 10)]
    #[case(-5, 1)] // the clock was put back
    fn loading_pods_are_asked_more_and_more_seldom(#[case] age: i64, #[case] seconds: u64) {
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(
            loading(0, None).ask_again(false, at(1000), at(1000 + age)),
            Some(Duration::from_secs(seconds))
        );
    }

    #[test]
    fn pods_that_serve_what_they_should_are_left_alone_unless_a_certificate_may_be_renewed() {
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(Loaded::Everywhere.ask_again(false, now, now), None);
        assert_eq!(Loaded::Everywhere.ask_again(true, now, now), Some(CERTIFICATE));
    }
}
