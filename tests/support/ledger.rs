//! Clients of a database that write all the time and keep a ledger of what was acknowledged.
//!
//! An acknowledged write must be there afterwards, whatever happened. One whose connection was lost, or that was not answered in time, may
//! be there or not. One that PostgreSQL refused must not be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_postgres::error::Severity;
use tokio_postgres::{Client, Config, NoTls};
use tokio_util::sync::CancellationToken;

/// How long a connection may take until queries can be sent.
const CONNECT: Duration = Duration::from_secs(1);
/// How long a statement may take, its commit included.
const STATEMENT: Duration = Duration::from_secs(2);
/// Before the next attempt after an error.
const RETRY: Duration = Duration::from_millis(20);
/// How long all rows may take to be read.
const READ: Duration = Duration::from_secs(20);
/// How many errors are spelled out.
const SPELLED_OUT: usize = 10;

/// Writer and number.
pub type Entry = (i32, i64);

/// How much is written.
#[derive(Clone, Debug)]
pub struct Options {
    /// Writers, each with a connection of its own and one statement at a time.
    pub writers: i32,
    /// Between an acknowledgement and the next statement of the same writer.
    pub pause: Duration,
    /// It ends by itself after this time.
    pub limit: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            writers: 4,
            pause: Duration::from_millis(5),
            limit: Duration::from_secs(300),
        }
    }
}

/// Makes the table, empty.
pub async fn prepare(config: &Config) -> Result<(), String> {
    let statement = "DROP TABLE IF EXISTS ledger;
        CREATE TABLE ledger (writer int, number bigint, PRIMARY KEY (writer, number))";
    let connection = Connection::open(config).await.map_err(|error| error.text)?;
    let made = timeout(READ, connection.client.batch_execute(statement)).await;
    made.map_err(|_| late(READ))?.map_err(|error| describe(&error))
}

/// What the table holds.
pub async fn rows(config: &Config) -> Result<BTreeSet<Entry>, String> {
    let connection = Connection::open(config).await.map_err(|error| error.text)?;
    let rows = connection.client.query("SELECT writer, number FROM ledger", &[]);
    let rows = timeout(READ, rows).await.map_err(|_| late(READ))?;
    let rows = rows.map_err(|error| describe(&error))?;
    rows.iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
        .collect::<Result<_, tokio_postgres::Error>>()
        .map_err(|error| describe(&error))
}

/// Writers at work; cut off when it is dropped.
pub struct Ledger {
    stop: CancellationToken,
    writers: JoinSet<()>,
    book: Arc<Mutex<Book>>,
}

impl Ledger {
    /// Begins to write into the table that [`prepare`] made. `connect` is asked before each connection.
    pub fn start(connect: impl Fn() -> Config + Send + Sync + 'static, options: Options) -> Self {
        let (stop, book) = (CancellationToken::new(), Arc::new(Mutex::new(Book::default())));
        let connect: Connect = Arc::new(connect);
        let end = Instant::now() + options.limit;
        let mut writers = JoinSet::new();
        for id in 0..options.writers {
            let writer = Writer {
                id,
                connect: Arc::clone(&connect),
                pause: options.pause,
                end,
                stop: stop.clone(),
                book: Arc::clone(&book),
            };
            writers.spawn(writer.run());
        }
        Self { stop, writers, book }
    }

    /// How many writes were acknowledged so far.
    pub fn acknowledged(&self) -> usize {
        lock(&self.book).acknowledged()
    }

    /// How many writes were acknowledged after a moment.
    pub fn acknowledged_since(&self, moment: Instant) -> usize {
        lock(&self.book).acknowledged_since(moment)
    }

    /// [`Book::pause`] as far as it is known.
    pub fn pause(&self, from: Instant, to: Instant) -> Duration {
        lock(&self.book).pause(from, to)
    }

    /// How many writes may be there or not, and how many were refused.
    pub fn failed(&self) -> (usize, usize) {
        let book = lock(&self.book);
        (book.unknown(), book.refused())
    }

    /// The last few errors that the writers met, and when.
    pub fn errors(&self) -> Vec<String> {
        lock(&self.book).errors.clone()
    }

    /// The book as it is now, while writing goes on.
    pub fn book(&self) -> Book {
        lock(&self.book).clone()
    }

    /// Lets the statements in flight end, then closes the book.
    pub async fn stop(mut self) -> Book {
        self.stop.cancel();
        while self.writers.join_next().await.is_some() {}
        lock(&self.book).clone()
    }
}

/// What became of all writes.
#[derive(Clone, Debug, Default)]
pub struct Book {
    acknowledged: BTreeMap<Entry, Instant>,
    /// In the order in which they came
    moments: Vec<Instant>,
    unknown: BTreeSet<Entry>,
    refused: usize,
    errors: Vec<String>,
}

impl Book {
    /// How many writes were acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.acknowledged.len()
    }

    /// How many writes were acknowledged after a moment.
    pub fn acknowledged_since(&self, moment: Instant) -> usize {
        self.moments.len() - self.moments.partition_point(|at| *at <= moment)
    }

    /// How many writes may be there or not.
    pub fn unknown(&self) -> usize {
        self.unknown.len()
    }

    /// How many writes PostgreSQL refused.
    pub fn refused(&self) -> usize {
        self.refused
    }

    /// The last few errors, and when they came after the first acknowledgement.
    pub fn errors(&self) -> &[String] {
        &self.errors
    }

    /// The longest time between two acknowledgements that came one after the other, whoever wrote.
    pub fn longest_gap(&self) -> Duration {
        longest(self.moments.iter().copied())
    }

    /// The longest time within an interval in which nothing was acknowledged; its edges count as acknowledgements.
    pub fn pause(&self, from: Instant, to: Instant) -> Duration {
        let within = self.moments.iter().copied().filter(|at| (from..=to).contains(at));
        longest([from].into_iter().chain(within).chain([to.max(from)]))
    }

    /// The acknowledged writes that are not among the rows: lost ones.
    pub fn missing(&self, rows: &BTreeSet<Entry>) -> Vec<Entry> {
        let acknowledged = self.acknowledged.keys();
        acknowledged
            .filter(|entry| !rows.contains(entry))
            .copied()
            .collect()
    }

    /// The rows that were neither acknowledged nor in doubt: refused ones that are there all the same.
    pub fn unexpected(&self, rows: &BTreeSet<Entry>) -> Vec<Entry> {
        let expected = |entry: &&Entry| self.acknowledged.contains_key(entry) || self.unknown.contains(entry);
        rows.iter().filter(|entry| !expected(entry)).copied().collect()
    }

    fn acknowledge(&mut self, entry: Entry) {
        // Taken while the book is locked, so that moments are in order
        let now = Instant::now();
        self.acknowledged.insert(entry, now);
        self.moments.push(now);
    }

    fn fail(&mut self, entry: Entry, failure: &Failure) {
        if failure.unknown {
            self.unknown.insert(entry);
        } else {
            self.refused += 1;
        }
        self.complain(&failure.text);
    }

    fn complain(&mut self, why: &str) {
        let since = self.moments.first().map(Instant::elapsed).unwrap_or_default();
        if self.errors.len() == SPELLED_OUT {
            self.errors.remove(0);
        }
        self.errors.push(format!("{:.3} s: {why}", since.as_secs_f64()));
    }
}

/// The longest step of a series that grows.
fn longest(moments: impl Iterator<Item = Instant>) -> Duration {
    let mut last = None;
    let steps = moments.map(|now| now - last.replace(now).unwrap_or(now));
    steps.max().unwrap_or_default()
}

type Connect = Arc<dyn Fn() -> Config + Send + Sync>;

struct Writer {
    id: i32,
    connect: Connect,
    pause: Duration,
    end: Instant,
    stop: CancellationToken,
    book: Arc<Mutex<Book>>,
}

impl Writer {
    async fn run(self) {
        let mut next = 0;
        while self.goes_on() {
            match Connection::open(&(self.connect)()).await {
                Ok(connection) => self.write(connection, &mut next).await,
                Err(failure) => lock(&self.book).complain(&failure.text),
            }
            sleep(RETRY).await;
        }
    }

    fn goes_on(&self) -> bool {
        !self.stop.is_cancelled() && Instant::now() < self.end
    }

    /// Writes over one connection until it fails. A number is never tried twice.
    async fn write(&self, connection: Connection, next: &mut i64) {
        while self.goes_on() {
            let entry = (self.id, *next);
            *next += 1;
            match connection.insert(entry).await {
                Ok(()) => lock(&self.book).acknowledge(entry),
                Err(failure) => {
                    lock(&self.book).fail(entry, &failure);
                    return connection.give_up().await;
                }
            }
            sleep(self.pause).await;
        }
    }
}

/// Why a write was not acknowledged.
struct Failure {
    /// Whether it may have been committed all the same.
    unknown: bool,
    text: String,
}

/// A client and what reads and writes for it.
struct Connection {
    client: Client,
    driver: JoinSet<()>,
}

impl Connection {
    async fn open(config: &Config) -> Result<Self, Failure> {
        let failed = |text| Failure { unknown: false, text };
        // The whole of it: a server that is stopped still has its connections accepted by the kernel
        let opened = timeout(CONNECT, config.connect(NoTls)).await;
        let (client, connection) = opened
            .map_err(|_| failed(format!("connecting: {}", late(CONNECT))))?
            .map_err(|error| failed(format!("connecting: {}", describe(&error))))?;
        let mut driver = JoinSet::new();
        driver.spawn(async {
            // The client tells of the error
            let _ = connection.await;
        });
        Ok(Self { client, driver })
    }

    async fn insert(&self, (writer, number): Entry) -> Result<(), Failure> {
        // Simple: one message there, one back, and the commit is part of it
        let statement = format!("INSERT INTO ledger VALUES ({writer}, {number})");
        match timeout(STATEMENT, self.client.batch_execute(&statement)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Failure {
                unknown: is_unknown(error.as_db_error().map(|error| error.parsed_severity())),
                text: describe(&error),
            }),
            Err(_) => Err(Failure {
                unknown: true,
                text: late(STATEMENT),
            }),
        }
    }

    /// Asks the server to end what it may still be doing: a commit that waits for a replica does not notice that nobody listens any more, and
    /// each would keep a connection.
    async fn give_up(mut self) {
        let token = self.client.cancel_token();
        self.driver.abort_all();
        let _ = timeout(CONNECT, token.cancel_query(NoTls)).await;
    }
}

/// Whether a write that failed may have been committed. An `ERROR` undoes the transaction; `FATAL` and `PANIC` end the session, maybe while the
/// commit waited for a replica; without an answer nothing is known.
fn is_unknown(severity: Option<Option<Severity>>) -> bool {
    severity.flatten() != Some(Severity::Error)
}

fn late(limit: Duration) -> String {
    format!("no answer after {} s", limit.as_secs())
}

/// The error with what caused it, which tokio-postgres keeps apart.
fn describe(error: &tokio_postgres::Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

fn lock(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A book whose writes were acknowledged so many milliseconds after a moment.
    fn book(start: Instant, moments: &[u64]) -> Book {
        let moments: Vec<Instant> = moments
            .iter()
            .map(|ms| start + Duration::from_millis(*ms))
            .collect();
        Book {
            acknowledged: (0..).map(|number| (0, number)).zip(moments.clone()).collect(),
            moments,
            ..Book::default()
        }
    }

    fn rows(entries: &[Entry]) -> BTreeSet<Entry> {
        entries.iter().copied().collect()
    }

    #[test]
    fn an_acknowledged_write_that_is_not_there_is_missing() {
        let mut book = book(Instant::now(), &[0, 10, 20]);
        book.unknown.insert((0, 3));
        assert_eq!(book.missing(&rows(&[(0, 0), (0, 2)])), [(0, 1)]);
        assert_eq!(book.missing(&rows(&[(0, 0), (0, 1), (0, 2), (0, 3)])), []);
    }

    #[test]
    fn a_write_in_doubt_may_be_there_or_not_and_a_refused_one_must_not() {
        let mut book = book(Instant::now(), &[0]);
        let failure = |unknown| Failure {
            unknown,
            text: "gone".to_owned(),
        };
        book.fail((0, 1), &failure(true));
        book.fail((0, 2), &failure(false));
        assert_eq!((book.unknown(), book.refused()), (1, 1));
        assert_eq!(book.unexpected(&rows(&[(0, 0)])), []);
        assert_eq!(book.unexpected(&rows(&[(0, 0), (0, 1)])), []);
        assert_eq!(book.unexpected(&rows(&[(0, 0), (0, 1), (0, 2)])), [(0, 2)]);
    }

    #[test]
    fn a_pause_is_the_longest_silence_within_its_interval() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let book = book(start, &[0, 10, 500, 510, 900]);
        assert_eq!(book.longest_gap(), Duration::from_millis(490));
        for (from, to, pause) in [
            (0, 900, 490),
            (500, 900, 390),
            // Cut off by an edge, within a silence, and where nothing came any more
            (400, 510, 100),
            (20, 30, 10),
            (900, 5000, 4100),
            (900, 900, 0),
        ] {
            assert_eq!(
                book.pause(at(from), at(to)),
                Duration::from_millis(pause),
                "{from} to {to}"
            );
        }
        assert_eq!(book.acknowledged_since(at(10)), 3);
    }

    #[test]
    fn only_an_error_of_the_statement_itself_says_that_nothing_was_committed() {
        assert!(!is_unknown(Some(Some(Severity::Error))));
        assert!(is_unknown(Some(Some(Severity::Fatal))));
        assert!(is_unknown(Some(Some(Severity::Panic))));
        assert!(is_unknown(Some(None)));
        assert!(is_unknown(None));
    }

    #[test]
    fn the_last_errors_are_kept_and_no_more() {
        let mut book = Book::default();
        for number in 0..25 {
            book.complain(&number.to_string());
        }
        assert_eq!(book.errors().len(), SPELLED_OUT);
        assert!(book.errors()[9].ends_with(": 24"), "{:?}", book.errors());
    }
}
