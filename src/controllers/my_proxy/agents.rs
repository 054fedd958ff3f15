//! Asks the agents in the pods what their nginx serves: the one thing that the cluster's own objects do not tell.

use std::error::Error;
use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
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
const ANSWER: Duration = Duration::from_secs(2);
/// How long the agents of one proxy have together; those that were not asked by then count as silent.
const ALL_ANSWERS: Duration = Duration::from_secs(10);
/// How many agents of one proxy are asked at once.
const AT_ONCE: usize = 8;

/// Whoever can ask agents: [`HttpAgents`], or a test that answers for them.
pub trait Agents: Debug + Send + Sync + 'static {
    /// What the agent of the pod with this address says now.
    fn report(&self, pod: IpAddr) -> BoxFuture<'_, Result<Report, AskError>>;
}

/// Asks over plain HTTP, without a proxy and without following redirects, and reads no more than a report can be long.
#[derive(Clone, Debug)]
pub struct HttpAgents {
    client: Client<HttpConnector, Empty<Bytes>>,
}

impl Default for HttpAgents {
    fn default() -> Self {
        // A connection is of no use for a second question: that comes seconds later, if at all.
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .build_http();
        Self { client }
    }
}

impl Agents for HttpAgents {
    fn report(&self, pod: IpAddr) -> BoxFuture<'_, Result<Report, AskError>> {
        self.get(SocketAddr::new(pod, PORT)).boxed()
    }
}

impl HttpAgents {
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

/// The innermost reason, which is the one that people know: "Connection refused".
fn root_of(error: &(dyn Error + 'static)) -> String {
    let mut root = error;
    while let Some(source) = root.source() {
        root = source;
    }
    root.to_string()
}

/// Asks all of these pods, a few at a time, and gives the answers in their order. It takes a bounded time, whatever they do.
pub async fn ask(agents: &dyn Agents, targets: Vec<Target>) -> Vec<Asked> {
    let deadline = Instant::now() + ALL_ANSWERS;
    let ask = |Target { pod, address }| async move {
        let answer = match address {
            None => Err(AskError::NoAddress),
            Some(address) => {
                let until = deadline.min(Instant::now() + ANSWER);
                let answer = timeout_at(until, agents.report(address)).await;
                answer.unwrap_or(Err(AskError::Late))
            }
        };
        Asked { pod, answer }
    };
    stream::iter(targets).map(ask).buffered(AT_ONCE).collect().await
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[derive(Debug)]
    struct Silent;

    impl Agents for Silent {
        fn report(&self, _pod: IpAddr) -> BoxFuture<'_, Result<Report, AskError>> {
            std::future::pending().boxed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pods_that_never_answer_hold_up_a_reconcile_for_a_bounded_time() {
        let target = |number: usize| Target {
            pod: format!("edge-{number}"),
            address: Some(Ipv4Addr::LOCALHOST.into()),
        };
        let started = Instant::now();
        let asked = ask(&Silent, (0..1000).map(target).collect()).await;
        assert!(started.elapsed() <= ALL_ANSWERS + Duration::from_millis(10));
        assert_eq!((asked.len(), asked[999].pod.as_str()), (1000, "edge-999"));
        assert!(asked.iter().all(|asked| asked.answer.is_err()));
    }

    #[tokio::test]
    async fn an_address_where_nobody_listens_is_told_in_the_kernels_words() {
        let nobody = Ipv4Addr::new(127, 66, 77, 88).into();
        let error = HttpAgents::default().report(nobody).await.unwrap_err();
        let told = error.to_string();
        assert!(
            told.starts_with("no answer on port 8081: Connection refused"),
            "{told}"
        );
    }
}
