//! Asks the other instances.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use http::StatusCode;
use tokio::time::Instant;

use super::tls::Tls;
use crate::api::database::agent::{FAILSAFE, MAX_REPORT, Member, Plea, Report, STATUS, meant_for};
use crate::runtime::mutual_tls::{Answer, CallError, Client, Limit};

/// What an instance may say of itself.
const REPORT: Limit = Limit {
    time: Duration::from_secs(1),
    size: MAX_REPORT,
};
/// A holder that has lost the API server has little time left.
const PLEA: Limit = Limit {
    time: Duration::from_millis(800),
    size: 4 << 10,
};
/// As much of a reason is kept, in characters.
const REASON: usize = 200;

/// An instance did not say what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// There is no certificate to show yet.
    #[error("there is no certificate to ask with yet")]
    NoCertificate,
    /// There is no answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// It answered with another status than 200.
    #[error("{status}: {reason}")]
    Refused {
        /// The status.
        status: StatusCode,
        /// The beginning of what it said.
        reason: String,
    },
    /// Another instance answers at its address.
    #[error("{0:?} answers at its address")]
    Another(String),
    /// What it answered is no report.
    #[error("its answer is no report: {0}")]
    Malformed(String),
}

/// The other instances. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Peers {
    tls: Tls,
    port: u16,
}

impl Peers {
    /// Asks with what this instance shows at the moment.
    pub fn on_port(tls: Tls, port: u16) -> Self {
        Self { tls, port }
    }

    /// What each of these says of itself, with the moment at which it was asked: what it says was so no earlier than that, but for the age of the report itself. It takes a second at most, whatever
    /// they do.
    pub async fn survey(&self, members: &[Member]) -> BTreeMap<String, Result<(Report, Instant), PeerError>> {
        let port = self.port;
        let ask = |client: Client, member: Member| async move {
            let asked_at = Instant::now();
            let answer = client.get(&member.host, port, STATUS, REPORT).await?;
            let report: Result<Report, _> = serde_json::from_slice(accepted(&answer)?);
            let report = report.map_err(|error| PeerError::Malformed(error.to_string()))?;
            // Their certificates are all alike, and names may lead to where it was before.
            if report.name != member.name {
                return Err(PeerError::Another(report.name));
            }
            Ok((report, asked_at))
        };
        self.all(members, ask).await
    }

    /// Asks each of these for this. Those that grant it are `Ok`. It takes 800 ms at most, whatever they do.
    pub async fn plead(&self, members: &[Member], plea: &Plea) -> BTreeMap<String, Result<(), PeerError>> {
        let port = self.port;
        let json = serde_json::to_vec(plea).map_err(|error| PeerError::Malformed(error.to_string()));
        let json = json.map(Bytes::from);
        let ask = |client: Client, member: Member| {
            let json = json.clone();
            async move {
                let path = meant_for(&member.name, FAILSAFE);
                let answer = client.post(&member.host, port, &path, json?, PLEA).await?;
                accepted(&answer).map(drop)
            }
        };
        self.all(members, ask).await
    }

    /// Asks all at once; none waits for another.
    async fn all<T, F>(
        &self,
        members: &[Member],
        ask: impl Fn(Client, Member) -> F,
    ) -> BTreeMap<String, Result<T, PeerError>>
    where
        F: Future<Output = Result<T, PeerError>>,
    {
        let client = self.tls.client();
        let asked: Vec<_> = members
            .iter()
            .map(|member| {
                let name = member.name.clone();
                let answer = client.clone().map(|client| ask(client, member.clone()));
                async move {
                    match answer {
                        Some(answer) => (name, answer.await),
                        None => (name, Err(PeerError::NoCertificate)),
                    }
                }
            })
            .collect();
        join_all(asked).await.into_iter().collect()
    }
}

fn accepted(answer: &Answer) -> Result<&[u8], PeerError> {
    if answer.status == StatusCode::OK {
        return Ok(&answer.body);
    }
    let reason = String::from_utf8_lossy(&answer.body);
    Err(PeerError::Refused {
        status: answer.status,
        reason: reason.trim().chars().take(REASON).collect(),
    })
}
