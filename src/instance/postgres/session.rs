//! A connection to the local PostgreSQL, over its socket, as its superuser.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

use super::options::Options;

/// The superuser, who logs in over the socket alone.
const SUPERUSER: &str = "postgres";
/// What holds for every statement of ours. No commit of ours waits for a replica, since it would wait for one that never comes before the quorum is told; no
/// name is looked up in what others have made; nothing is logged, counted or shown with what may be a password's verifier; and what nobody waits for any more
/// ends. A setting of a library that is not loaded is set all the same, and nobody's.
const SESSION: &str = "-c search_path=pg_catalog -c synchronous_commit=local -c default_transaction_read_only=off \
    -c log_statement=none -c log_min_duration_statement=-1 -c log_min_error_statement=panic \
    -c log_min_duration_sample=-1 -c log_transaction_sample_rate=0 \
    -c track_activities=off -c pg_stat_statements.track=none \
    -c debug_print_parse=off -c debug_print_rewritten=off -c debug_print_plan=off \
    -c client_connection_check_interval=1000 -c statement_timeout=0 -c lock_timeout=0 -c idle_session_timeout=0";

/// The same for what not every version has: to one that lacks it, it would be a mistake in [`SESSION`].
const NEWER: &str = "SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'transaction_timeout' AND setting <> '0'";

/// Why PostgreSQL was of no use.
#[derive(Debug, thiserror::Error)]
pub enum SqlError {
    /// It did not answer in time.
    #[error("PostgreSQL did not answer within {0} ms")]
    Silent(u128),
    /// It answered that it will not; the texts are its own.
    #[error("PostgreSQL answers: {message} ({code})")]
    Answered {
        /// The SQLSTATE.
        code: String,
        /// The message, on one line.
        message: String,
    },
    /// It is not there, or went away.
    #[error("no connection to PostgreSQL: {0}")]
    Gone(String),
    /// It answered something else than it was asked.
    #[error("PostgreSQL answers what was not asked: {0}")]
    Odd(&'static str),
}

impl From<tokio_postgres::Error> for SqlError {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(answer) => Self::Answered {
                code: answer.code().code().to_owned(),
                message: answer.message().to_owned(),
            },
            None => Self::Gone(causes(&error)),
        }
    }
}

fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// The rows of one statement, as text.
pub(super) type Rows = Vec<Vec<Option<String>>>;

/// One connection. It is closed when this is dropped, whatever PostgreSQL was doing.
#[derive(Debug)]
pub(super) struct Session {
    client: Client,
    connection: JoinHandle<()>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Session {
    /// Connects to a database.
    pub(super) async fn open(options: &Options, database: &str, bound: Duration) -> Result<Self, SqlError> {
        let mut config = Config::new();
        config
            .host_path(&options.run)
            .port(options.port)
            .user(SUPERUSER)
            .dbname(database)
            .application_name("roadstead")
            .options(SESSION);
        let deadline = Instant::now() + bound;
        let (client, connection) = within(bound, config.connect(NoTls)).await?;
        let connection = tokio::spawn(async move {
            // Whoever asks hears of it as well.
            let _ = connection.await;
        });
        let session = Self { client, connection };
        let left = deadline.saturating_duration_since(Instant::now());
        session.ask(NEWER, left).await?;
        Ok(session)
    }

    /// Whether the server has closed it.
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Carries out statements, and gives the rows of each that has columns.
    pub(super) async fn ask(&self, statements: &str, bound: Duration) -> Result<Vec<Rows>, SqlError> {
        let messages = within(bound, self.client.simple_query(statements)).await?;
        let mut answers: Vec<Rows> = Vec::new();
        for message in messages {
            match message {
                SimpleQueryMessage::RowDescription(_) => answers.push(Vec::new()),
                SimpleQueryMessage::Row(row) => {
                    let row = (0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect();
                    if let Some(rows) = answers.last_mut() {
                        rows.push(row);
                    }
                }
                _ => {}
            }
        }
        Ok(answers)
    }
}

async fn within<T>(
    bound: Duration,
    answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, SqlError> {
    match timeout_at(Instant::now() + bound, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(SqlError::Silent(bound.as_millis())),
    }
}

/// A name in a statement: of a role, a database, or anything else.
///
/// # Errors
/// When there is no such name: PostgreSQL has none with a NUL, none that is empty, and cuts off what is longer than 63 bytes, which would be another's name.
pub fn identifier(name: &str) -> Result<String, SqlError> {
    if name.is_empty() || name.len() > 63 || name.contains('\0') {
        return Err(SqlError::Odd("a name has 1 to 63 bytes, and no NUL among them"));
    }
    Ok(format!("\"{}\"", name.replace('"', "\"\"")))
}

/// A text in a statement, whatever `standard_conforming_strings` says.
pub(super) fn literal(text: &str) -> String {
    postgres_protocol::escape::escape_literal(text)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("orders", "\"orders\"")]
    #[case("a b", "\"a b\"")]
    #[case("Orders", "\"Orders\"")]
    #[case("a\"; DROP TABLE b; --", "\"a\"\"; DROP TABLE b; --\"")]
    #[case("a\\", "\"a\\\"")]
    fn a_name_stays_a_name(#[case] name: &str, #[case] quoted: &str) {
        assert_eq!(identifier(name).unwrap(), quoted);
    }

    #[rstest]
    #[case("")]
    #[case("a\0b")]
    #[case(&"x".repeat(64))]
    fn what_cannot_be_a_name_is_refused(#[case] name: &str) {
        assert!(identifier(name).is_err());
    }

    #[test]
    fn a_text_stays_a_text() {
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(literal("a\\'"), " E'a\\\\'''");
    }
}
