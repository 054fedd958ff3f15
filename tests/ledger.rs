//! The judges of a database's promises: who accepts writes, and the ledger of those that were acknowledged. The latter is tried on a real
//! PostgreSQL: it would be no judge if it lost count itself.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

// The end-to-end tests use the rest
#[allow(dead_code)]
#[path = "support/ledger.rs"]
mod ledger;
#[allow(dead_code)]
#[path = "support/sightings.rs"]
mod sightings;

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ledger::{Ledger, Options};
use tokio_postgres::{Config, NoTls};

/// Debian's.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";
const ENOUGH: Duration = Duration::from_secs(30);

/// PostgreSQL on a unix socket in a folder of its own.
struct Server {
    folder: tempfile::TempDir,
    postmaster: Option<Child>,
}

impl Server {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        if rustix::process::geteuid().is_root() {
            let owned = Command::new("chown").arg("postgres:").arg(folder.path()).status();
            assert!(owned.unwrap().success(), "there is no user postgres");
        }
        let mut server = Self {
            folder,
            postmaster: None,
        };
        let made = server
            .program("initdb")
            .args(["--auth=trust", "--username=postgres", "--no-sync"])
            .status();
        assert!(made.unwrap().success(), "initdb failed");
        server.go_on().await;
        server
    }

    async fn go_on(&mut self) {
        let mut postgres = self.program("postgres");
        postgres
            .args(["-c", "listen_addresses=", "-k"])
            .arg(self.folder.path());
        self.postmaster = Some(postgres.spawn().unwrap());
        let begun = Instant::now();
        while self.config().connect(NoTls).await.is_err() {
            assert!(begun.elapsed() < ENOUGH, "PostgreSQL does not start");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn kill(&mut self) {
        if let Some(mut postmaster) = self.postmaster.take() {
            postmaster.kill().unwrap();
            postmaster.wait().unwrap();
        }
    }

    /// A program on the data, as the owner of the folder: PostgreSQL refuses to run as root.
    fn program(&self, name: &str) -> Command {
        let owner = self.folder.path().metadata().unwrap();
        let mut command = Command::new(Path::new(PROGRAMS).join(name));
        command
            .uid(owner.uid())
            .gid(owner.gid())
            .arg("-D")
            .arg(self.folder.path().join("data"))
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    fn config(&self) -> Config {
        let mut config = Config::new();
        config
            .host_path(self.folder.path())
            .user("postgres")
            .dbname("postgres");
        config
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_missing_after_a_postmaster_was_killed_and_what_is_taken_away_is_noticed() {
    let mut server = Server::start().await;
    let config = server.config();
    ledger::prepare(&config).await.unwrap();
    let ledger = Ledger::start(move || config.clone(), Options::default());
    until("writes", || ledger.acknowledged() > 200).await;

    let killed = Instant::now();
    server.kill();
    // Its children notice by themselves, and hold the shared memory until then
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.go_on().await;
    until("writes after a restart", || {
        ledger.acknowledged_since(killed) > 200
    })
    .await;
    let book = ledger.stop().await;

    let mut rows = ledger::rows(&server.config()).await.unwrap();
    assert_eq!(book.missing(&rows), []);
    assert_eq!(book.unexpected(&rows), []);
    let pause = book.pause(killed, Instant::now());
    assert!(
        pause >= Duration::from_millis(900) && pause < ENOUGH && book.longest_gap() >= pause / 2,
        "{pause:?}, longest {:?}: {:?}",
        book.longest_gap(),
        book.errors()
    );
    assert!(
        book.unknown() <= 4,
        "more in doubt than were in flight: {}",
        book.unknown()
    );

    let taken = rows.pop_first().unwrap();
    assert_eq!(book.missing(&rows), [taken]);
    rows.insert((7, 7));
    assert_eq!(book.unexpected(&rows), [(7, 7)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_holds_no_writer_longer_than_its_deadline() {
    let server = Server::start().await;
    let config = server.config();
    ledger::prepare(&config).await.unwrap();
    // An exclusive lock: every insert waits
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("BEGIN; LOCK TABLE ledger").await.unwrap();
    let ledger = Ledger::start(move || config.clone(), Options::default());
    tokio::time::sleep(Duration::from_millis(2500)).await;
    client.batch_execute("COMMIT").await.unwrap();
    until("writes", || ledger.acknowledged() > 20).await;
    let stopping = Instant::now();
    let book = ledger.stop().await;
    assert!(stopping.elapsed() < Duration::from_secs(3));
    assert_eq!(book.unknown(), 4, "{:?}", book.errors());
    assert_eq!(book.missing(&ledger::rows(&server.config()).await.unwrap()), []);
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < ENOUGH, "no {what} within {ENOUGH:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
