//! Instances of PostgreSQL on loopback addresses, as their managers would have them.

use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use roadstead::api::database::agent::{Member, Quorum, REPLICATION_USER, Settings};
use roadstead::instance::postgres::options::Options;
use roadstead::instance::postgres::postmaster::{Postmaster, kill_all};
use roadstead::instance::postgres::programs::Programs;
use roadstead::instance::postgres::protocol::Running;
use roadstead::instance::postgres::sql::Local;
use roadstead::instance::postgres::volume::{Volume, VolumeError};
use roadstead::instance::postgres::{certificates, config};
use rustix::process::{Signal, kill_process};
use tokio::time::{Instant, sleep};

/// How long anything may take that takes a second.
pub const SOON: Duration = Duration::from_secs(20);
/// The owner's password.
pub const PASSWORD: &str = "correct horse";

#[path = "database_authority.rs"]
#[allow(dead_code, reason = "each binary uses what it needs of this")]
mod authority;

#[path = "postgres_user.rs"]
mod user;

pub use authority::Authority;
use user::user;

/// One instance, ended with all its processes when it is dropped.
pub struct Instance {
    pub options: Options,
    pub settings: Settings,
    pub programs: Programs,
    pub volume: Option<Volume>,
    pub postmaster: Option<Postmaster>,
    pub local: Local,
    pub authority: Arc<Authority>,
    /// The authorities that another instance has told of.
    pub told: String,
    _folder: tempfile::TempDir,
}

/// Two instances of one database, orders-0 on 127.0.0.2 and orders-1 on 127.0.0.3.
pub async fn two() -> [Instance; 2] {
    let authority = Arc::new(Authority::new());
    let port = unused_port();
    [
        Instance::new(0, port, &authority).await,
        Instance::new(1, port, &authority).await,
    ]
}

fn unused_port() -> u16 {
    // Taken on all addresses at once.
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    listener.local_addr().unwrap().port()
}

impl Instance {
    pub async fn new(ordinal: usize, port: u16, authority: &Arc<Authority>) -> Self {
        // In memory if there is such a place: what is tried here is not the disk.
        let mut place = tempfile::Builder::new();
        let folder = place.prefix("pg").tempdir_in("/dev/shm");
        let folder = folder.or_else(|_| place.tempdir()).unwrap();
        let path = |name: &str| folder.path().join(name);
        let member = |ordinal: usize| Member {
            name: format!("orders-{ordinal}"),
            host: format!("127.0.0.{}", ordinal + 2),
        };
        let own = member(ordinal);
        let options = Options {
            name: own.name,
            namespace: "shop".to_owned(),
            tls: path("tls"),
            server_tls: path("server-tls"),
            volume: path("volume"),
            run: path("run"),
            address: Some(own.host.parse().unwrap()),
            port,
            user: user(),
            ..Options::default()
        };
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::create_dir(&options.volume).unwrap();
        if options.user.is_some() {
            chown(&options.volume, options.user, None).unwrap();
        }
        authority.mount(&options.tls, REPLICATION_USER, "orders-0");
        let programs = match std::env::var("ROADSTEAD_TEST_POSTGRES_MAJOR") {
            Ok(major) => Programs::find(&options, major.parse().unwrap()).await.unwrap(),
            Err(_) => newest(&options).await,
        };
        let settings = Settings {
            database: "orders".to_owned(),
            namespace: "shop".to_owned(),
            major: programs.major,
            members: vec![member(0), member(1)],
            parameters: [("shared_buffers", "16MB"), ("wal_keep_size", "512MB")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            tls: true,
            ..Settings::default()
        };
        Self {
            volume: Some(Volume::lock(&options).unwrap()),
            local: Local::new(&options),
            options,
            settings,
            programs,
            postmaster: None,
            authority: Arc::clone(authority),
            told: String::new(),
            _folder: folder,
        }
    }

    pub fn volume(&self) -> &Volume {
        self.volume.as_ref().unwrap()
    }

    /// Says what it goes by; true if that has changed.
    pub fn configure(&self, upstream: Option<usize>, quorum: Option<&Quorum>) -> bool {
        let upstream = upstream.map(|ordinal| &self.settings.members[ordinal]);
        let files = config::render(&self.settings, &self.options, upstream, quorum);
        certificates::copy(&self.options, &[self.told.as_str()], jiff::Timestamp::now()).unwrap();
        files.write(&self.options).unwrap()
    }

    pub async fn initialise(&mut self) {
        self.configure(None, None);
        self.programs.initdb(&self.options, self.volume()).await.unwrap();
        self.start().await;
        self.local.prepare(&self.settings, Some(PASSWORD)).await.unwrap();
    }

    pub async fn join(&mut self, upstream: usize) {
        self.configure(Some(upstream), None);
        let host = self.settings.members[upstream].host.clone();
        self.programs
            .base_backup(&self.options, self.volume(), &host)
            .await
            .unwrap();
        self.start().await;
    }

    pub async fn start(&mut self) {
        self.volume().clean().unwrap();
        self.postmaster = Some(Postmaster::start(&self.programs, &self.options, self.volume()).unwrap());
        self.observe_until("an answer", |_| true).await;
    }

    pub async fn stop(&mut self) -> ExitStatus {
        let mut postmaster = self.postmaster.take().unwrap();
        postmaster.stop_fast();
        tokio::time::timeout(SOON, postmaster.wait())
            .await
            .unwrap()
            .unwrap()
    }

    pub async fn kill(&mut self) {
        assert!(kill_all(self.volume(), SOON).await.unwrap());
        self.postmaster = None;
    }

    pub async fn observe_until(&mut self, what: &str, good: impl Fn(&Running) -> bool) -> Running {
        let deadline = Instant::now() + SOON;
        loop {
            let seen = self.local.observe(&self.settings.members).await;
            if let Ok(seen) = &seen
                && good(seen)
            {
                return seen.clone();
            }
            assert!(
                Instant::now() < deadline,
                "{} waits for {what}: {seen:?}",
                self.options.name
            );
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// A person at the socket.
    pub async fn connect(&self, user: &str, database: &str) -> Result<Client, tokio_postgres::Error> {
        let mut config = tokio_postgres::Config::new();
        config.user(user).dbname(database).port(self.options.port);
        if user == "postgres" {
            config.host_path(&self.options.run);
        } else {
            config
                .host(&self.settings.members[self.ordinal()].host)
                .password(PASSWORD);
        }
        let (client, connection) = config.connect(tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    fn ordinal(&self) -> usize {
        let own = |member: &Member| member.name == self.options.name;
        self.settings.members.iter().position(own).unwrap()
    }
}

pub use tokio_postgres::Client;

impl Drop for Instance {
    fn drop(&mut self) {
        let Some(volume) = &self.volume else { return };
        // All at once, and again for what they started meanwhile. They are asked first: a PostgreSQL that is killed leaves its shared memory behind, of
        // which a system has so many pieces only.
        for round in 0..100 {
            let holders = volume.holders().unwrap_or_default();
            if holders.is_empty() {
                return;
            }
            let signals: &[Signal] = match round {
                0 => &[Signal::CONT, Signal::QUIT],
                1..50 => &[],
                _ => &[Signal::KILL],
            };
            for (pid, signal) in holders
                .iter()
                .flat_map(|pid| signals.iter().map(move |signal| (pid, signal)))
            {
                let _ = kill_process(*pid, *signal);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

async fn newest(options: &Options) -> Programs {
    for major in (14..=18).rev() {
        if let Ok(programs) = Programs::find(options, major).await {
            return programs;
        }
    }
    panic!("this test needs PostgreSQL 14 to 18")
}

/// Waits for the lock of a volume, as a manager does at its start.
pub async fn lock(options: &Options) -> Volume {
    let deadline = Instant::now() + SOON;
    loop {
        match Volume::lock(options) {
            Ok(volume) => return volume,
            Err(VolumeError::Held(_)) if Instant::now() < deadline => sleep(Duration::from_millis(20)).await,
            Err(error) => panic!("{error}"),
        }
    }
}
