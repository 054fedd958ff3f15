//! A write every now and then, which tells a PostgreSQL that hangs from one that works.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::options::Options;
use super::prepare::BEAT;
use super::protocol::HUNG;
use super::session::{Session, SqlError};

/// How long a write may take, connecting included: a disk that is slow is not one that hangs.
const BOUND: Duration = HUNG;
/// How old a connection may be: a new one shows that PostgreSQL still takes them.
const AGE: Duration = Duration::from_secs(10);

/// The SQLSTATE of a PostgreSQL that starts up or shuts down.
const CANNOT_CONNECT_NOW: &str = "57P03";

/// What became of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beat {
    /// It is on the local disk.
    Committed,
    /// PostgreSQL is alive and refuses it: the disk is full, say, or it has just become a replica.
    Answered {
        /// The SQLSTATE.
        code: String,
        /// The text is PostgreSQL's own.
        message: String,
    },
    /// There was no answer, or nobody to give one.
    Silent(String),
}

/// That it takes no connections, since it is shutting down, is no sign of life: that may never end.
async fn connect(options: &Options) -> Result<Session, SqlError> {
    let session = Session::open(options, "postgres", BOUND).await;
    session.map_err(|error| match error {
        SqlError::Answered { code, message } if code == CANNOT_CONNECT_NOW => SqlError::Gone(message),
        error => error,
    })
}

/// Writes the heartbeat, over a connection of its own, so that nothing else of ours can hold it up.
#[derive(Debug)]
pub struct Canary {
    options: Options,
    session: Option<(Session, Instant)>,
}

impl Canary {
    /// Nothing is connected before the first write.
    pub fn new(options: &Options) -> Self {
        Self {
            options: options.clone(),
            session: None,
        }
    }

    /// Writes once, which takes [`HUNG`] at most. It does not wait for a replica.
    pub async fn beat(&mut self) -> Beat {
        let session = self
            .session
            .take()
            .filter(|(session, opened)| opened.elapsed() < AGE && !session.is_closed());
        let write = async {
            let (session, opened) = match session {
                Some(session) => session,
                None => (connect(&self.options).await?, Instant::now()),
            };
            session.ask(BEAT, BOUND).await?;
            Ok((session, opened))
        };
        match timeout(BOUND, write).await {
            Ok(Ok(session)) => {
                self.session = Some(session);
                Beat::Committed
            }
            Ok(Err(SqlError::Answered { code, message })) => Beat::Answered { code, message },
            Ok(Err(error)) => Beat::Silent(error.to_string()),
            Err(_) => Beat::Silent(SqlError::Silent(BOUND.as_millis()).to_string()),
        }
    }
}
