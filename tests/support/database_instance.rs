//! One instance of a database as processes on loopback, and its way to the API server, which can be cut.

use std::fs::Permissions;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::authority::Authority;
use super::user::user;
use roadstead::api::database::agent::SETTINGS;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// PostgreSQL's programs, as Debian has them.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// An instance. It ends with all its processes when it is dropped.
pub struct Instance {
    pub name: String,
    pub address: IpAddr,
    pub(super) folder: PathBuf,
    pub(super) process: Mutex<Option<Child>>,
    pub(super) way: Way,
}

impl Instance {
    /// Every process that works with the volume.
    pub fn processes(&self) -> Vec<Pid> {
        let Ok(lock) = std::fs::metadata(self.folder.join("volume/lock")) else {
            return Vec::new();
        };
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        all.filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let input = std::fs::metadata(entry.path().join("fd/0")).ok()?;
            (input.ino() == lock.ino() && input.dev() == lock.dev()).then(|| Pid::from_raw(pid))?
        })
        .collect()
    }

    /// The first process of PostgreSQL.
    pub fn postmaster(&self) -> Pid {
        let text = std::fs::read_to_string(self.folder.join("volume/data/postmaster.pid")).unwrap();
        Pid::from_raw(text.lines().next().unwrap().parse().unwrap()).unwrap()
    }

    /// The process of PostgreSQL that calls itself this.
    pub fn process(&self, title: &str) -> Pid {
        let is_called = |pid: &Pid| {
            let command = std::fs::read_to_string(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
            command.is_ok_and(|command| command.contains(title))
        };
        self.processes().into_iter().find(is_called).unwrap()
    }

    pub fn signal_all(&self, signal: Signal) {
        for pid in self.processes() {
            let _ = kill_process(pid, signal);
        }
    }

    pub fn is_running(&self) -> bool {
        let mut process = self.process.lock().unwrap();
        process
            .as_mut()
            .is_some_and(|process| process.try_wait().unwrap().is_none())
    }

    /// Asks the manager to end, as the kubelet does.
    pub fn ask_to_stop(&self) {
        let process = self.process.lock().unwrap();
        let pid = process
            .as_ref()
            .and_then(|process| Pid::from_raw(process.id().try_into().unwrap()));
        kill_process(pid.unwrap(), Signal::TERM).unwrap();
    }

    pub(super) fn end(&self) {
        if let Some(mut process) = self.process.lock().unwrap().take() {
            let _ = process.kill();
            let _ = process.wait();
        }
        // A PostgreSQL that is killed leaves its shared memory behind, of which a system has so many pieces only.
        self.signal_all(Signal::CONT);
        self.signal_all(Signal::QUIT);
        let asked = Instant::now();
        while !self.processes().is_empty() && asked.elapsed() < Duration::from_secs(10) {
            if asked.elapsed() > Duration::from_secs(1) {
                self.signal_all(Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The container that comes next is one of another pod, in which the author names a certificate of this authority.
    pub fn name_certificate(&self, authority: Option<&Authority>) {
        for folder in ["run", "server-tls"] {
            let _ = std::fs::remove_dir_all(self.folder.join(folder));
        }
        if let Some(authority) = authority {
            authority.mount(&self.folder.join("server-tls"), "orders", "orders.example.com");
        }
    }

    /// What is in that Secret is of no use any more.
    pub fn spoil_certificate(&self) {
        std::fs::write(self.folder.join("server-tls/tls.crt"), "spoilt").unwrap();
    }

    /// Where its data says of which version it is.
    pub fn version_file(&self) -> PathBuf {
        self.folder.join("volume/data/PG_VERSION")
    }

    /// The manager waits for its settings, as for a disk that does not answer, until it is let go.
    pub fn hang_the_manager(&self) -> Hung {
        let path = self.folder.join("settings").join(SETTINGS);
        let settings = std::fs::read(&path).unwrap();
        let pipe = path.with_extension("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        std::fs::rename(&pipe, &path).unwrap();
        Hung { path, settings }
    }

    /// Where its programs of PostgreSQL are.
    pub(super) fn programs(&self) -> PathBuf {
        let own = self.folder.join("programs");
        if own.exists() { own } else { PROGRAMS.into() }
    }

    /// From its next start on nobody can tell how far its log goes: the disk has faults.
    pub fn cannot_read_its_log(&self) {
        let own = self.folder.join("programs");
        std::fs::create_dir(&own).unwrap();
        for program in std::fs::read_dir(PROGRAMS).unwrap() {
            let program = program.unwrap();
            symlink(program.path(), own.join(program.file_name())).unwrap();
        }
        let waldump = own.join("pg_waldump");
        std::fs::remove_file(&waldump).unwrap();
        let fails =
            "#!/bin/sh\necho 'pg_waldump: error: could not read file: Input/output error' >&2\nexit 1\n";
        std::fs::write(&waldump, fails).unwrap();
        std::fs::set_permissions(&waldump, Permissions::from_mode(0o755)).unwrap();
    }

    /// The volume is lost.
    pub fn lose_volume(&self) {
        let volume = self.folder.join("volume");
        std::fs::remove_dir_all(&volume).unwrap();
        std::fs::create_dir(&volume).unwrap();
        chown(&volume, user(), None).unwrap();
    }

    /// Copies the volume of a container that has ended.
    pub fn keep_volume(&self) {
        self.copy("volume", "kept");
    }

    /// The volume is again as it was when it was copied.
    pub fn return_to_kept_volume(&self) {
        std::fs::remove_dir_all(self.folder.join("volume")).unwrap();
        self.copy("kept", "volume");
    }

    fn copy(&self, from: &str, to: &str) {
        let (from, to) = (self.folder.join(from), self.folder.join(to));
        let copied = Command::new("cp").arg("--archive").args([from, to]).status();
        assert!(copied.unwrap().success());
    }
}

/// A manager that waits for its settings.
pub struct Hung {
    path: PathBuf,
    settings: Vec<u8>,
}

impl Hung {
    pub fn let_go(self) {
        let pipe = std::fs::OpenOptions::new().write(true).open(&self.path);
        let mut pipe = pipe.unwrap();
        // What it reads next is a file again.
        let file = self.path.with_extension("file");
        std::fs::write(&file, &self.settings).unwrap();
        std::fs::rename(&file, &self.path).unwrap();
        pipe.write_all(&self.settings).unwrap();
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.end();
    }
}

/// A way to the API server.
pub(super) struct Way {
    pub(super) open: watch::Sender<bool>,
    pub(super) port: u16,
    task: JoinHandle<()>,
}

impl Drop for Way {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Way {
    pub(super) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (open, is_open) = watch::channel(true);
        let task = tokio::spawn(async move {
            loop {
                let Ok((mut near, _)) = listener.accept().await else {
                    return;
                };
                let mut is_open = is_open.clone();
                tokio::spawn(async move {
                    // What is cut swallows what is sent, as a network does.
                    let Ok(mut far) = TcpStream::connect(server).await else {
                        return;
                    };
                    let cut = {
                        let mut is_open = is_open.clone();
                        async move { until(&mut is_open, false).await }
                    };
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                        () = cut => until(&mut is_open, true).await,
                    }
                });
            }
        });
        Self { open, task, port }
    }
}

async fn until(is_open: &mut watch::Receiver<bool>, wanted: bool) {
    while *is_open.borrow_and_update() != wanted {
        if is_open.changed().await.is_err() {
            return;
        }
    }
}
