//! Asks the agents in the pods what their nginx serves: the one thing that the cluster's own objects do not tell.

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use http::{StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::time::{Instant, timeout_at};

use super::loaded::{AskError, Asked, Target};
use crate::api::my_proxy::agent::{MAX_REPORT, PORT, REPORT, Report};

/// How long one agent has to answer.
const ANSWER: Duration = Duration::from_secs(1);
/// How long the agents of one proxy have together. A worker waits for it, and so does the end of the operator.
const ALL_ANSWERS: Duration = Duration::from_secs(3);
/// How many agents of one proxy are asked at once.
const AT_ONCE: usize = 32;
/// How long a silent agent is left alone, so that workers do not wait for it again and again: at first, doubled each time, at last.
const PAUSE: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(480));
/// How many silent agents are remembered.
const MEMORY: usize = 4096;

/// Whoever can ask one agent: [`HttpAgents`], or a test that answers for them.
pub trait Agents: Debug + Send + Sync + 'static {
    /// What the agent of the pod with this address says now.
    fn report(&self, pod: IpAddr) -> BoxFuture<'_, Result<Report, AskError>>;
}

/// Asks over plain HTTP, without a proxy and without following redirects, and reads no more than a report can be long.
#[derive(Clone, Debug)]
pub struct HttpAgents {
    client: Client<HttpConnector, Empty<Bytes>>,
    port: u16,
}

impl Default for HttpAgents {
    fn default() -> Self {
        Self::on_port(PORT)
    }
}

impl HttpAgents {
    /// Asks agents that listen on another port than theirs.
    pub fn on_port(port: u16) -> Self {
        // A connection is of no use for a second question: that comes seconds later, if at all.
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .build_http();
        Self { client, port }
    }

    async fn get(&self, agent: SocketAddr) -> Result<Report, AskError> {
        let unreachable = |error: &(dyn Error + 'static)| AskError::Unreachable(root_of(error));
        let uri = Uri::builder()
            .scheme("http")
            .authority(agent.to_string())
            .path_and_query(REPORT)
            .build()
            .map_err(|error| unreachable(&error))?;
        let response = self.client.get(uri).await.map_err(|error| unreachable(&error))?;
        if response.status() != StatusCode::OK {
            return Err(AskError::Refused(response.status()));
        }
        let body = Limited::new(response.into_body(), MAX_REPORT).collect().await;
        let body = body.map_err(|error| unreachable(&*error))?.to_bytes();
        serde_json::from_slice(&body).map_err(|error| AskError::Malformed(error.to_string()))
    }
}

impl Agents for HttpAgents {
    fn report(&self, pod: IpAddr) -> BoxFuture<'_, Result<Report, AskError>> {
        self.get(SocketAddr::new(pod, self.port)).boxed()
    }
}

/// The innermost reason, which is the one that people know: "Connection refused".
fn root_of(error: &(dyn Error + 'static)) -> String {
    let mut root = error;
    while let Some(source) = root.source() {
        root = source;
    }
    root.to_string()
}

/// Asks all pods of a proxy, and leaves those alone for a while that did not answer.
#[derive(Debug)]
pub struct Survey {
    agents: Arc<dyn Agents>,
    silent: Mutex<HashMap<Target, Silence>>,
}

#[derive(Clone, Debug)]
struct Silence {
    error: AskError,
    pause: Duration,
    until: Instant,
}

impl Survey {
    /// Of these agents.
    pub fn new(agents: Arc<dyn Agents>) -> Self {
        Self {
            agents,
            silent: Mutex::default(),
        }
    }

    /// Asks these pods, some at a time, and gives the answers sorted by name. It takes a bounded time, whatever they do.
    pub async fn ask(&self, targets: Vec<Target>) -> Vec<Asked> {
        let deadline = Instant::now() + ALL_ANSWERS;
        let asked = targets.into_iter().map(|target| async move {
            let answer = self.ask_one(&target, deadline).await;
            let pod = target.pod;
            Asked { pod, answer }
        });
        let mut asked: Vec<_> = stream::iter(asked).buffer_unordered(AT_ONCE).collect().await;
        asked.sort_by(|one, other| one.pod.cmp(&other.pod));
        asked
    }

    async fn ask_one(&self, target: &Target, deadline: Instant) -> Result<Report, AskError> {
        let address = target.address.ok_or(AskError::NoAddress)?;
        let now = Instant::now();
        if let Some(silence) = self.silence(target).filter(|silence| now < silence.until) {
            return Err(silence.error);
        }
        if now >= deadline {
            return Err(AskError::NotReached);
        }
        let answer = timeout_at(deadline.min(now + ANSWER), self.agents.report(address)).await;
        let answer = answer.unwrap_or(Err(AskError::Late));
        self.remember(target, &answer);
        answer
    }

    fn silence(&self, target: &Target) -> Option<Silence> {
        let silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.get(target).cloned()
    }

    fn remember(&self, target: &Target, answer: &Result<Report, AskError>) {
        let (first, last) = PAUSE;
        let now = Instant::now();
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        let before = silent.remove(target);
        let Err(error) = answer else { return };
        if silent.len() >= MEMORY {
            // Pods that are gone are not asked for again, and so are never removed otherwise.
            silent.retain(|_, silence| now < silence.until);
        }
        if silent.len() >= MEMORY {
            return;
        }
        let pause = before.map_or(first, |before| (before.pause * 2).min(last));
        let silence = Silence {
            error: error.clone(),
            pause,
            until: now + pause,
        };
        silent.insert(target.clone(), silence);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Pods whose address ends in 0 never answer, the others do after a moment.
    #[derive(Debug, Default)]
    struct SomeSilent {
        questions: AtomicUsize,
    }

    impl Agents for SomeSilent {
        fn report(&self, pod: IpAddr) -> BoxFuture<'_, Result<Report, AskError>> {
            self.questions.fetch_add(1, Ordering::Relaxed);
            let silent = matches!(pod, IpAddr::V4(pod) if pod.octets()[3] == 0);
            async move {
                if silent {
                    std::future::pending::<()>().await;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
                Ok(Report::default())
            }
            .boxed()
        }
    }

    fn target(number: u16) -> Target {
        let [high, low] = number.to_be_bytes();
        Target {
            pod: format!("edge-{number:05}"),
            address: Some(Ipv4Addr::new(10, 0, high, low).into()),
        }
    }

    fn survey() -> (Arc<SomeSilent>, Survey) {
        let agents = Arc::new(SomeSilent::default());
        (Arc::clone(&agents), Survey::new(agents))
    }

    #[tokio::test(start_paused = true)]
    async fn pods_that_never_answer_hold_up_a_reconcile_for_a_bounded_time() {
        let (_, survey) = survey();
        let started = Instant::now();
        let asked = survey
            .ask((0..200).map(|number| target(number * 256)).collect())
            .await;
        assert!(started.elapsed() <= ALL_ANSWERS + Duration::from_millis(10));
        assert_eq!(asked.len(), 200);
        assert!(asked.iter().all(|asked| asked.answer.is_err()));
    }

    #[tokio::test(start_paused = true)]
    async fn silent_pods_do_not_keep_the_others_from_being_heard() {
        let (_, survey) = survey();
        let started = Instant::now();
        let asked = survey.ask((0..1000).rev().map(target).collect()).await;
        assert!(started.elapsed() <= ANSWER * 2, "{:?}", started.elapsed());
        let silent: Vec<_> = asked.iter().filter(|asked| asked.answer.is_err()).collect();
        assert_eq!(silent.len(), 4, "{silent:?}");
        assert!(asked.is_sorted_by_key(|asked| asked.pod.clone()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_pod_is_left_alone_for_longer_and_longer_and_told_of_all_the_same() {
        let (agents, survey) = survey();
        let ask = async || {
            let started = Instant::now();
            let asked = survey.ask(vec![target(0)]).await;
            assert_eq!(asked[0].answer.as_ref().unwrap_err(), &AskError::Late);
            (agents.questions.load(Ordering::Relaxed), started.elapsed())
        };
        assert_eq!(ask().await, (1, ANSWER));
        assert_eq!(ask().await, (1, Duration::ZERO));
        tokio::time::sleep(PAUSE.0).await;
        assert_eq!(ask().await, (2, ANSWER));
        tokio::time::sleep(PAUSE.0).await;
        assert_eq!(ask().await, (2, Duration::ZERO));
    }

    #[tokio::test]
    async fn an_address_where_nobody_listens_is_told_in_the_kernels_words() {
        let free = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let agents = HttpAgents::on_port(free.port());
        let error = agents.report(free.ip()).await.unwrap_err().to_string();
        assert!(
            error.starts_with("no answer on port 8081: Connection refused"),
            "{error}"
        );
    }
}
