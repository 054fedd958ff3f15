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

/// The longest answer that is read, in bytes.
pub const MAX_REPORT: usize = 64 * 1024;
/// How long instances have to answer; all are asked at once. A worker waits for it, and so does the end of the operator.
const ANSWER: Duration = Duration::from_secs(2);
/// How many instances of one database are asked: more than there may be.
const MOST: usize = 16;
/// How long an instance is left alone that let us wait in vain, so that workers do not wait for it again and again: at first, doubled each time, at last.
const PAUSE: (Duration, Duration) = (Duration::from_secs(4), Duration::from_secs(60));
/// How many silent instances are remembered.
const MEMORY: usize = 4096;
/// The longest reason of a failure that is told, in bytes.
const MAX_REASON: usize = 300;

/// Whoever can ask one instance: the real one over mutual TLS, or a test that answers for them.
pub trait Instances: Debug + Send + Sync + 'static {
    /// What the manager of the instance at this address says at `GET /status`, or in words why it is not known.
    ///
    /// Its certificate has to be for `host`, from one of the authorities of `identity`, whose certificate is shown to it. At most [`MAX_REPORT`] bytes
    /// are read. It may be dropped at any time.
    fn report<'a>(
        &'a self,
        identity: &'a Identity,
        address: IpAddr,
        host: &'a str,
    ) -> BoxFuture<'a, Result<Report, String>>;

    /// Has the instance at this address begin with something, or says in words why it does not. All else as [`Self::report`].
    fn order<'a>(
        &'a self,
        identity: &'a Identity,
        address: IpAddr,
        host: &'a str,
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
}

/// Asks all instances of a database, and leaves those alone for a while that did not answer in time.
#[derive(Debug)]
pub struct Survey {
    instances: Arc<dyn Instances>,
    silent: Mutex<HashMap<Target, Silence>>,
}

#[derive(Clone, Copy, Debug)]
struct Silence {
    pause: Duration,
    until: Instant,
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
            let answer = self.ask_one(identity, &target).await;
            let answer = answer.map_err(|reason| shorten(&reason, MAX_REASON));
            Asked {
                pod: target.pod,
                answer,
            }
        });
        join_all(asked).await
    }

    /// Tells one what to do. It takes a bounded time.
    pub async fn order(&self, identity: &Identity, target: &Target, order: &Order) -> Result<(), String> {
        let ordering = self
            .instances
            .order(identity, target.address, &target.host, order);
        let outcome = timeout(ANSWER, ordering).await;
        let outcome = outcome.unwrap_or_else(|_| Err(format!("no answer on port {PORT} in time")));
        outcome.map_err(|reason| shorten(&reason, MAX_REASON))
    }

    async fn ask_one(&self, identity: &Identity, target: &Target) -> Result<Report, String> {
        let late = || format!("no answer on port {PORT} in time");
        if self.is_left_alone(target) {
            return Err(late());
        }
        let asking = self.instances.report(identity, target.address, &target.host);
        let answer = timeout(ANSWER, asking).await;
        self.remember(target, answer.is_err());
        answer.unwrap_or_else(|_| Err(late()))
    }

    fn is_left_alone(&self, target: &Target) -> bool {
        let silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent
            .get(target)
            .is_some_and(|silence| Instant::now() < silence.until)
    }

    fn remember(&self, target: &Target, is_silent: bool) {
        let (first, last) = PAUSE;
        let now = Instant::now();
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        let before = silent.remove(target);
        if !is_silent {
            return;
        }
        if silent.len() >= MEMORY {
            // Pods that are gone are not asked for again, and so are never removed otherwise.
            silent.retain(|_, silence| now < silence.until);
        }
        if silent.len() < MEMORY {
            let pause = before.map_or(first, |before| (before.pause * 2).min(last));
            let until = now + pause;
            silent.insert(target.clone(), Silence { pause, until });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt as _;

    use super::*;
    use crate::controllers::database::testing::identity;

    /// The first pod never answers, the second at once, the third refuses.
    #[derive(Debug, Default)]
    struct Mixed {
        questions: AtomicUsize,
    }

    impl Instances for Mixed {
        fn report<'a>(
            &'a self,
            _: &'a Identity,
            _: IpAddr,
            host: &'a str,
        ) -> BoxFuture<'a, Result<Report, String>> {
            self.questions.fetch_add(1, Ordering::Relaxed);
            async move {
                match host {
                    "orders-0.x" => std::future::pending().await,
                    "orders-1.x" => Ok(Report::default()),
                    _ => Err("x".repeat(1000)),
                }
            }
            .boxed()
        }

        fn order<'a>(
            &'a self,
            _: &'a Identity,
            _: IpAddr,
            _: &'a str,
            _: &'a Order,
        ) -> BoxFuture<'a, Result<(), String>> {
            std::future::pending().boxed()
        }
    }

    fn targets(count: usize) -> Vec<Target> {
        let target = |ordinal| Target {
            pod: format!("orders-{ordinal}"),
            uid: "1".into(),
            address: [10, 0, 0, 1].into(),
            host: format!("orders-{ordinal}.x"),
        };
        (0..count).map(target).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn silent_instances_hold_up_a_reconcile_for_a_bounded_time_and_then_for_none() {
        let instances = Arc::new(Mixed::default());
        let survey = Survey::new(Arc::clone(&instances) as Arc<dyn Instances>);
        let identity = identity();
        let started = Instant::now();
        let asked = survey.ask(&identity, targets(100)).await;
        assert_eq!(started.elapsed(), ANSWER);
        assert_eq!(asked.len(), MOST);
        assert_eq!(asked[0].answer, Err("no answer on port 8008 in time".to_owned()));
        assert_eq!(asked[1].answer, Ok(Report::default()));
        assert_eq!(asked[2].answer.as_ref().unwrap_err().len(), MAX_REASON);

        let started = Instant::now();
        let again = survey.ask(&identity, targets(3)).await;
        assert_eq!(again, asked[..3]);
        assert_eq!(started.elapsed(), Duration::ZERO);
        // The two that answered were asked again, and the silent one will be.
        assert_eq!(instances.questions.load(Ordering::Relaxed), MOST + 2);
        tokio::time::sleep(PAUSE.0).await;
        survey.ask(&identity, targets(1)).await;
        assert_eq!(instances.questions.load(Ordering::Relaxed), MOST + 3);

        let started = Instant::now();
        let order = Order::Restart(Restart::default());
        let outcome = survey.order(&identity, &targets(1)[0], &order).await;
        assert_eq!(outcome, Err("no answer on port 8008 in time".to_owned()));
        assert_eq!(started.elapsed(), ANSWER);
    }
}
