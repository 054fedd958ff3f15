//! The way to real nodes: one connection to each, on which commands of several callers go side by side.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo as _, RedisConnectionInfo, RedisError,
    Value,
};
use tokio::time::{Instant, timeout};

use super::wire::{Reply, Wire, WireError, Words};

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(1);
/// Who asks.
#[derive(Clone, Default)]
pub struct Credentials {
    /// The user's name and password; without, it is the default user without one.
    pub user: Option<(String, String)>,
}

/// Connections to the nodes of one cluster, all on one port.
pub struct RedisClient {
    port: u16,
    credentials: Credentials,
    connections: Mutex<Connections>,
}

/// Those that there are, each with a number that no other one ever had.
#[derive(Default)]
struct Connections {
    made: u64,
    kept: HashMap<IpAddr, (u64, MultiplexedConnection)>,
}

impl fmt::Debug for RedisClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisClient")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

impl RedisClient {
    /// A client that has no connections yet.
    pub fn new(port: u16, credentials: Credentials) -> Arc<Self> {
        Arc::new(Self {
            port,
            credentials,
            connections: Mutex::default(),
        })
    }

    /// Lets go of all connections but those to these nodes: each pod has another address than the one before it.
    pub fn retain(&self, addresses: &[IpAddr]) {
        self.connections().kept.retain(|to, _| addresses.contains(to));
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connection(&self, to: IpAddr) -> Result<(u64, MultiplexedConnection), RedisError> {
        if let Some(kept) = self.connections().kept.get(&to) {
            return Ok(kept.clone());
        }
        let mut user = RedisConnectionInfo::default();
        if let Some((name, password)) = &self.credentials.user {
            user = user.set_username(name).set_password(password);
        }
        let address = ConnectionAddr::Tcp(to.to_string(), self.port);
        let client = Client::open(address.into_connection_info()?.set_redis_settings(user))?;
        // The caller bounds each answer
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(None);
        let connection = client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        let mut connections = self.connections();
        connections.made += 1;
        let made = (connections.made, connection);
        connections.kept.insert(to, made.clone());
        Ok(made)
    }

    /// Forgets this connection, and not one that somebody else has made meanwhile.
    fn forget(&self, to: IpAddr, number: u64) {
        let kept = &mut self.connections().kept;
        if kept.get(&to).is_some_and(|(kept, _)| *kept == number) {
            kept.remove(&to);
        }
    }

    async fn ask(&self, to: IpAddr, commands: &[Words], patience: Duration) -> Result<Vec<Reply>, WireError> {
        let begun = Instant::now();
        let unreachable = |error: RedisError| WireError::Unreachable(error.to_string());
        let late = |_| WireError::TimedOut(patience);
        let connection = timeout(patience, self.connection(to)).await.map_err(late)?;
        let (number, mut connection) = connection.map_err(unreachable)?;
        let mut pipeline = redis::Pipeline::with_capacity(commands.len());
        for Words(words) in commands {
            let mut command = redis::Cmd::new();
            for word in words {
                command.arg(word.as_slice());
            }
            pipeline.add_command(command);
        }
        let sent = connection.send_packed_commands(&pipeline, 0, commands.len());
        let answers = timeout(patience.saturating_sub(begun.elapsed()), sent).await;
        let answers = answers
            .map_err(late)
            .and_then(|answers| answers.map_err(unreachable));
        if answers.is_err() {
            // Whatever comes next would wait behind what has not been answered
            self.forget(to, number);
        }
        Ok(answers?.into_iter().map(reply).collect())
    }
}

impl Wire for RedisClient {
    fn send<'a>(
        &'a self,
        to: IpAddr,
        commands: &'a [Words],
        patience: Duration,
    ) -> BoxFuture<'a, Result<Vec<Reply>, WireError>> {
        async move {
            let answers = self.ask(to, commands, patience).await?;
            if answers.len() == commands.len() {
                return Ok(answers);
            }
            Err(WireError::Unmatched {
                commands: commands.len(),
                answers: answers.len(),
            })
        }
        .boxed()
    }
}

fn reply(value: Value) -> Reply {
    match value {
        Value::Nil => Reply::Nothing,
        Value::Okay => Reply::Text(b"OK".to_vec()),
        Value::Int(number) => Reply::Number(number),
        Value::BulkString(bytes) => Reply::Text(bytes),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Reply::Text(text.into_bytes()),
        Value::Array(values) | Value::Set(values) => Reply::List(values.into_iter().map(reply).collect()),
        Value::ServerError(error) => {
            let detail = error.details().unwrap_or_default();
            Reply::Refused(format!("{} {detail}", error.code()).trim_end().to_owned())
        }
        other => Reply::Refused(format!("an answer of no kind that is known: {other:?}")),
    }
}
