//! Asks the instance managers in the pods what they know: what PostgreSQL does, no object of the cluster tells.

use std::collections::HashMap;
use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use tokio::time::{Instant, timeout};

use crate::api::database::agent::{Handover, PORT, Report, Restart};
use crate::api::text::shorten;
use crate::pki::authority::Identity;

/// How long instances have to answer; all are asked at once. A worker waits for it, and so does the end of the operator.
const ANSWER: Duration = Duration::from_secs(2);
/// How many instances of one database are asked: more than there may be.
const MOST: usize = 16;
/// How many silent instances are remembered, and for how long if there are more.
const MEMORY: usize = 4096;
const FORGOTTEN: Duration = Duration::from_secs(3600);
/// The longest reason of a failure that is told, in bytes.
const MAX_REASON: usize = 300;

/// Whoever can ask one instance: the real one over mutual TLS, or a test that answers for them.
pub trait Instances: Debug + Send + Sync + 'static {
    /// What the manager at the instance's address says at `GET /status`, or in words why it is not known.
    ///
    /// Its certificate has to be for the instance's host, from one of the authorities of `identity`, whose certificate is shown to it. At most [`MAX_REPORT`](crate::api::database::agent::MAX_REPORT) bytes
    /// are read. It may be dropped at any time.
    fn report<'a>(
        &'a self,
        identity: &'a Identity,
        target: &'a Target,
    ) -> BoxFuture<'a, Result<Report, String>>;

    /// Has this instance, and no other at its address, begin with something, or says in words why it does not. All else as [`Self::report`].
    fn order<'a>(
        &'a self,
        identity: &'a Identity,
        target: &'a Target,
        order: &'a Order,
    ) -> BoxFuture<'a, Result<(), String>>;
}

/// What an instance is told to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// A primary: to let another instance take over.
    HandOver(Handover),
    /// To start PostgreSQL again.
    Restart(Restart),
}

/// An instance that is to be asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The pod's name.
    pub pod: String,
    /// The pod's UID.
    pub uid: String,
    /// Where it is.
    pub address: IpAddr,
    /// For which name its certificate has to be.
    pub host: String,
}

impl Target {
    /// Of a pod that runs; `host` names pods.
    pub fn of(pod: &Pod, host: impl Fn(&str) -> String) -> Option<Self> {
        let status = pod.status.as_ref()?;
        let name = pod.name_any();
        Some(Self {
            host: host(&name),
            uid: pod.uid().unwrap_or_default(),
            address: status.pod_ip.as_deref()?.parse().ok()?,
            pod: name,
        })
    }
}

/// An instance that was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The pod's name.
    pub pod: String,
    /// What its manager said, or why that is not known.
    pub answer: Result<Report, String>,
    /// For how long that has not been known: since it was first asked in vain.
    pub silent: Duration,
}

impl Asked {
    /// Nobody could be asked, for this reason.
    pub fn in_vain(target: Target, reason: &str) -> Self {
        Self {
            pod: target.pod,
            answer: Err(reason.to_owned()),
            silent: Duration::ZERO,
        }
    }
}

/// Asks all instances of a database, and remembers since when somebody is silent: one lost answer tells nothing of whoever should have given it.
#[derive(Debug)]
pub struct Survey {
    instances: Arc<dyn Instances>,
    /// By the UID of the pod.
    silent: Mutex<HashMap<String, Instant>>,
}

impl Survey {
    /// Of these instances.
    pub fn new(instances: Arc<dyn Instances>) -> Self {
        Self {
            instances,
            silent: Mutex::default(),
        }
    }

    /// Asks these, and gives the answers in the same order. It takes a bounded time, whatever they do.
    pub async fn ask(&self, identity: &Identity, targets: Vec<Target>) -> Vec<Asked> {
        let asked = targets.into_iter().take(MOST).map(|target| async move {
            let asking = self.instances.report(identity, &target);
            let answer = timeout(ANSWER, asking).await;
            let answer = answer.unwrap_or_else(|_| Err(format!("no answer on port {PORT} in time")));
            // Certificates are for all instances, and the address may be another's by now.
            let answer = answer.and_then(|report| match report.name == target.pod {
                true => Ok(report),
                false => Err(format!("{} answers at its address", report.name)),
            });
            Asked {
                silent: self.silent_for(&target, answer.is_err()),
                answer: answer.map_err(|reason| shorten(&reason, MAX_REASON)),
                pod: target.pod,
            }
        });
        join_all(asked).await
    }

    /// Tells one what to do. It takes a bounded time.
    pub async fn order(&self, identity: &Identity, target: &Target, order: &Order) -> Result<(), String> {
        let ordering = self.instances.order(identity, target, order);
        let outcome = timeout(ANSWER, ordering).await;
        let outcome = outcome.unwrap_or_else(|_| Err(format!("no answer on port {PORT} in time")));
        outcome.map_err(|reason| shorten(&reason, MAX_REASON))
    }

    fn silent_for(&self, target: &Target, is_silent: bool) -> Duration {
        let now = Instant::now();
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_silent {
            silent.remove(&target.uid);
            return Duration::ZERO;
        }
        if silent.len() >= MEMORY {
            // Pods that are gone are not asked again, and so are never removed otherwise.
            silent.retain(|_, since| now.duration_since(*since) < FORGOTTEN);
        }
        match silent.get(&target.uid) {
            Some(since) => now.duration_since(*since),
            None if silent.len() >= MEMORY => Duration::ZERO,
            None => {
                silent.insert(target.uid.clone(), now);
                Duration::ZERO
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::controllers::database::testing::identity;

    /// The first pod never answers, the second at once, the third refuses.
    #[derive(Debug)]
    struct Mixed;

    impl Instances for Mixed {
        fn report<'a>(
            &'a self,
            _: &'a Identity,
            target: &'a Target,
        ) -> BoxFuture<'a, Result<Report, String>> {
            async move {
                match target.host.as_str() {
                    "orders-0.x" => std::future::pending().await,
                    "orders-1.x" | "orders-3.x" => Ok(report_of("orders-1")),
                    _ => Err("x".repeat(1000)),
                }
            }
            .boxed()
        }

        fn order<'a>(
            &'a self,
            _: &'a Identity,
            _: &'a Target,
            _: &'a Order,
        ) -> BoxFuture<'a, Result<(), String>> {
            std::future::pending().boxed()
        }
    }

    fn report_of(name: &str) -> Report {
        Report {
            name: name.to_owned(),
            ..Report::default()
        }
    }

    fn targets(count: usize) -> Vec<Target> {
        let target = |ordinal: usize| Target {
            pod: format!("orders-{ordinal}"),
            uid: ordinal.to_string(),
            address: [10, 0, 0, 1].into(),
            host: format!("orders-{ordinal}.x"),
        };
        (0..count).map(target).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn silent_instances_hold_up_a_reconcile_for_a_bounded_time_and_it_is_known_since_when_they_are() {
        let survey = Survey::new(Arc::new(Mixed));
        let identity = identity();
        let started = Instant::now();
        let asked = survey.ask(&identity, targets(100)).await;
        assert_eq!(started.elapsed(), ANSWER);
        assert_eq!(asked.len(), MOST);
        assert_eq!(asked[0].answer, Err("no answer on port 8008 in time".to_owned()));
        assert_eq!(asked[1].answer, Ok(report_of("orders-1")));
        assert_eq!(asked[2].answer.as_ref().unwrap_err().len(), MAX_REASON);
        // Its address was given to another pod.
        assert_eq!(asked[3].answer, Err("orders-1 answers at its address".to_owned()));
        assert!(asked.iter().all(|asked| asked.silent == Duration::ZERO));

        tokio::time::sleep(Duration::from_secs(7)).await;
        let again = survey.ask(&identity, targets(3)).await;
        // What refuses at once was known to before those were waited for that say nothing.
        let silent: Vec<_> = again.iter().map(|asked| asked.silent.as_secs()).collect();
        assert_eq!(silent, [9, 0, 9]);
        // A pod of the same name that was made anew is another one.
        let mut renewed = targets(1);
        renewed[0].uid = "another".into();
        assert_eq!(survey.ask(&identity, renewed).await[0].silent, Duration::ZERO);

        let started = Instant::now();
        let order = Order::Restart(Restart::default());
        let outcome = survey.order(&identity, &targets(1)[0], &order).await;
        assert_eq!(outcome, Err("no answer on port 8008 in time".to_owned()));
        assert_eq!(started.elapsed(), ANSWER);
    }
}
