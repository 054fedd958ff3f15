//! Whether the pods serve what nginx accepted, from what their agents say. Pure.
//!
//! A Deployment that is rolled out does not tell: a changed configuration reaches running pods through a mounted ConfigMap, once each
//! kubelet has looked at it and each agent has had nginx reload.

use std::net::IpAddr;
use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::api::my_proxy::agent::{MAX_REASON, PORT, REPORT, Report, shorten};

/// Between two questions to pods that are still loading: at first, and at last.
const LOADING: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// Between two questions to a pod that refused: somebody may have mended its Secret.
const REFUSED: Duration = Duration::from_secs(30);
/// Between two questions to pods that do not answer. Each costs a while, and they may never answer.
const SILENT: Duration = Duration::from_secs(120);
/// Between two questions to pods that had nothing to complain of. A certificate that is renewed and refused shows only when asked for.
const CERTIFICATE: Duration = Duration::from_secs(300);

/// A pod that is to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The pod is ready, and nobody has been told where it is.
    #[error("it has no address")]
    NoAddress,
    /// There was no answer in time.
    #[error("no answer on port {PORT} in time")]
    Late,
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
    /// There was nobody to ask, or nobody is to be asked.
    NotAsked,
    /// All of them serve it.
    Everywhere,
    /// Some have yet to take it.
    Loading {
        /// How many serve it.
        serving: usize,
        /// How many were asked.
        pods: usize,
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

/// Judges the answers, given the [`config_hash`](crate::api::my_proxy::agent::config_hash) of what is to be served.
///
/// What is known to be amiss comes before what is not known.
pub fn judge(wanted: &str, asked: &[Asked]) -> Loaded {
    if asked.is_empty() {
        return Loaded::NotAsked;
    }
    let wanted = Some(wanted);
    let refusal = asked.iter().find_map(|Asked { pod, answer }| {
        // A refusal of what was mounted before is none of this.
        let report = answer.as_ref().ok()?;
        let reason = report.refused.as_deref()?;
        (report.mounted.as_deref() == wanted).then(|| Loaded::Refused {
            pod: pod.clone(),
            reason: shorten(reason, MAX_REASON),
        })
    });
    let serves = |asked: &&Asked| matches!(&asked.answer, Ok(report) if report.config.as_deref() == wanted);
    let silence = asked.iter().find_map(|Asked { pod, answer }| {
        let error = answer.as_ref().err()?;
        Some(Loaded::Silent {
            pod: pod.clone(),
            error: error.to_string(),
        })
    });
    let (serving, answered) = (
        asked.iter().filter(serves).count(),
        asked.iter().filter(|asked| asked.answer.is_ok()).count(),
    );
    let loading = (serving < answered).then_some(Loaded::Loading {
        serving,
        pods: asked.len(),
    });
    refusal.or(loading).or(silence).unwrap_or(Loaded::Everywhere)
}

impl Loaded {
    /// When to ask again, if nothing changes before: more seldom the longer pods have been `loading_since`.
    pub fn ask_again(&self, certificate: bool, loading_since: Timestamp, now: Timestamp) -> Option<Duration> {
        match self {
            Self::Loading { .. } => {
                let (first, last) = LOADING;
                let age = Duration::try_from(now.duration_since(loading_since)).unwrap_or_default();
                Some((age / 4).clamp(first, last))
            }
            Self::Refused { .. } => Some(REFUSED),
            Self::Silent { .. } => Some(SILENT),
            Self::Everywhere if certificate => Some(CERTIFICATE),
            Self::Everywhere | Self::NotAsked => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn says(config: &str, mounted: &str, refused: Option<&str>) -> Result<Report, AskError> {
        Ok(Report {
            config: Some(config.into()),
            mounted: Some(mounted.into()),
            refused: refused.map(str::to_owned),
            ..Report::default()
        })
    }

    fn judged(answers: Vec<Result<Report, AskError>>) -> Loaded {
        let asked = answers.into_iter().enumerate().map(|(number, answer)| Asked {
            pod: format!("edge-{number}"),
            answer,
        });
        judge("new", &asked.collect::<Vec<_>>())
    }

    fn refused() -> Loaded {
        Loaded::Refused {
            pod: "edge-1".into(),
            reason: "[emerg] no".into(),
        }
    }

    fn silent() -> Loaded {
        Loaded::Silent {
            pod: "edge-1".into(),
            error: "it has no address".into(),
        }
    }

    #[rstest]
    #[case::nobody(vec![], Loaded::NotAsked)]
    #[case::all(vec![says("new", "new", None), says("new", "new", None)], Loaded::Everywhere)]
    #[case::mounted_and_not_yet_served(
        vec![says("new", "new", None), says("old", "new", None)], Loaded::Loading { serving: 1, pods: 2 }
    )]
    #[case::not_mounted_yet(vec![says("old", "old", None)], Loaded::Loading { serving: 0, pods: 1 })]
    #[case::not_started(vec![Ok(Report::default())], Loaded::Loading { serving: 0, pods: 1 })]
    #[case::refused(vec![says("old", "new", None), says("old", "new", Some("[emerg] no"))], refused())]
    #[case::refused_before(vec![says("old", "old", Some("x"))], Loaded::Loading { serving: 0, pods: 1 })]
    // The configuration is served, with the certificate before this one.
    #[case::certificate(vec![says("new", "new", None), says("new", "new", Some("[emerg] no"))], refused())]
    #[case::silent(vec![says("new", "new", None), Err(AskError::NoAddress)], silent())]
    #[case::silent_while_another_loads(
        vec![says("old", "old", None), Err(AskError::NoAddress)], Loaded::Loading { serving: 0, pods: 2 }
    )]
    fn what_pods_serve_is_what_their_agents_say(
        #[case] answers: Vec<Result<Report, AskError>>,
        #[case] expected: Loaded,
    ) {
        assert_eq!(judged(answers), expected);
    }

    #[rstest]
    #[case(0, 1)]
    #[case(20, 5)]
    #[case(4000, 10)]
    #[case(-5, 1)] // the clock was put back
    fn loading_pods_are_asked_more_and_more_seldom(#[case] age: i64, #[case] seconds: u64) {
        let at = |second| Timestamp::from_second(second).unwrap();
        let loading = Loaded::Loading { serving: 0, pods: 1 };
        assert_eq!(
            loading.ask_again(false, at(1000), at(1000 + age)),
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
