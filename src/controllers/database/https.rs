//! Asks instances, and tells them what to do, over HTTPS, as an operator that runs does it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::StatusCode;
use tokio::time::Instant;

use super::instances::{Instances, Order, Target};
use crate::api::database::agent::{
    INSTANCE_ROLE, MAX_REPORT, PORT, RESTART, Report, STATUS, SWITCHOVER, meant_for,
};
use crate::pki::authority::Identity;
use crate::runtime::mutual_tls::{Answer, Client, Credentials, Limit};

/// What an instance may say of itself, and how long it has.
const LIMIT: Limit = Limit {
    time: Duration::from_secs(1),
    size: MAX_REPORT,
};
/// For how many databases a client is kept; of more, those that have not been asked for the longest time get one anew each time.
const MOST: usize = 128;
/// A database that has not been asked for so long is gone. Those that are there are asked every half minute.
const GONE: Duration = Duration::from_secs(600);

/// Asks over mutual TLS, by the pod's address and not by DNS, which may not know a pod yet or still know another.
///
/// It keeps one client for each database, until the database's identity is another.
#[derive(Debug)]
pub struct HttpsInstances {
    port: u16,
    clients: Mutex<HashMap<String, Kept>>,
}

/// A client, and what it was made of.
#[derive(Debug)]
struct Kept {
    identity: Identity,
    client: Client,
    used: Instant,
}

impl Default for HttpsInstances {
    fn default() -> Self {
        Self::on_port(PORT)
    }
}

impl HttpsInstances {
    /// Asks instances that listen on another port than theirs.
    pub fn on_port(port: u16) -> Self {
        Self {
            port,
            clients: Mutex::default(),
        }
    }

    async fn ask(&self, identity: &Identity, target: &Target) -> Result<Report, String> {
        let client = self.client(identity, database_of(&target.host))?;
        let address = SocketAddr::new(target.address, self.port);
        let answer = client.get_at(address, &target.host, STATUS, LIMIT).await;
        let answer = answer.map_err(|error| error.to_string())?;
        if answer.status != StatusCode::OK {
            return Err(refusal(&answer));
        }
        serde_json::from_slice(&answer.body).map_err(|error| format!("its answer is no report: {error}"))
    }

    async fn tell(&self, identity: &Identity, target: &Target, order: &Order) -> Result<(), String> {
        let client = self.client(identity, database_of(&target.host))?;
        let address = SocketAddr::new(target.address, self.port);
        let (path, body) = match order {
            Order::HandOver(handover) => (SWITCHOVER, serde_json::to_vec(handover)),
            Order::Restart(restart) => (RESTART, serde_json::to_vec(restart)),
        };
        let body = body.map_err(|error| error.to_string())?;
        let path = meant_for(&target.pod, path);
        let answer = client
            .post_at(address, &target.host, &path, body.into(), LIMIT)
            .await;
        let answer = answer.map_err(|error| error.to_string())?;
        if answer.status == StatusCode::ACCEPTED {
            Ok(())
        } else {
            Err(refusal(&answer))
        }
    }

    fn client(&self, identity: &Identity, database: &str) -> Result<Client, String> {
        let now = Instant::now();
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = clients.get_mut(database);
        if let Some(kept) = kept.filter(|kept| kept.identity == *identity) {
            kept.used = now;
            return Ok(kept.client.clone());
        }
        let client = connect_as(identity)?;
        clients.remove(database);
        clients.retain(|_, kept| now.duration_since(kept.used) < GONE);
        if clients.len() >= MOST {
            let oldest = clients.iter().min_by_key(|(_, kept)| kept.used);
            if let Some(oldest) = oldest.map(|(database, _)| database.clone()) {
                clients.remove(&oldest);
            }
        }
        let kept = Kept {
            identity: identity.clone(),
            client: client.clone(),
            used: now,
        };
        clients.insert(database.to_owned(), kept);
        Ok(client)
    }
}

impl Instances for HttpsInstances {
    fn report<'a>(
        &'a self,
        identity: &'a Identity,
        target: &'a Target,
    ) -> BoxFuture<'a, Result<Report, String>> {
        self.ask(identity, target).boxed()
    }

    fn order<'a>(
        &'a self,
        identity: &'a Identity,
        target: &'a Target,
        order: &'a Order,
    ) -> BoxFuture<'a, Result<(), String>> {
        self.tell(identity, target, order).boxed()
    }
}

fn refusal(answer: &Answer) -> String {
    let reason = String::from_utf8_lossy(&answer.body);
    format!("{}: {}", answer.status, reason.trim())
}

fn connect_as(identity: &Identity) -> Result<Client, String> {
    let credentials = Credentials::new(&identity.authorities, identity.pair.certified());
    let credentials = credentials.map_err(|error| error.to_string())?;
    Client::new(&credentials, INSTANCE_ROLE).map_err(|error| format!("no TLS: {error}"))
}

/// What the hosts of a database's instances have in common: all but the first label, which is the pod.
fn database_of(host: &str) -> &str {
    host.split_once('.').map_or(host, |(_, database)| database)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::database::testing::identity;

    fn kept(instances: &HttpsInstances) -> Vec<String> {
        let clients = instances.clients.lock().unwrap();
        let mut kept: Vec<_> = clients.keys().cloned().collect();
        kept.sort();
        kept
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_kept_for_each_database_until_its_identity_changes_or_it_is_gone() {
        let instances = HttpsInstances::default();
        let (first, second) = (identity(), identity());
        for host in ["orders-0.a", "orders-1.a", "users-0.b"] {
            instances.client(&first, database_of(host)).unwrap();
        }
        assert_eq!(kept(&instances), ["a", "b"]);
        let shown = |instances: &HttpsInstances| instances.clients.lock().unwrap()["a"].identity.clone();
        assert_eq!(shown(&instances), first);
        instances.client(&second, "a").unwrap();
        assert_eq!(shown(&instances), second);
        assert_eq!(kept(&instances), ["a", "b"]);

        tokio::time::advance(GONE).await;
        instances.client(&first, "c").unwrap();
        assert_eq!(kept(&instances), ["c"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_kept_is_bounded_and_the_one_that_was_not_asked_for_longest_goes_first() {
        let instances = HttpsInstances::default();
        let identity = identity();
        for number in 0..MOST {
            instances.client(&identity, &number.to_string()).unwrap();
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        instances.client(&identity, "0").unwrap();
        instances.client(&identity, "another").unwrap();
        let kept = kept(&instances);
        assert_eq!(kept.len(), MOST);
        assert!(kept.contains(&"0".to_owned()) && !kept.contains(&"1".to_owned()));
    }
}
