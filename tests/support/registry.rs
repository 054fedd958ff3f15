//! An image registry for the length of a test, on a loopback port of its own, and images built without a container daemon.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Debian's docker-registry. It ends with the value.
pub struct Registry {
    process: Child,
    folder: TempDir,
    /// `127.0.0.1:PORT`
    pub host: String,
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Registry {
    /// Starts one, and waits until it takes connections.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let host = format!("127.0.0.1:{port}");
        let storage = folder.path().join("storage");
        let config = folder.path().join("config.yml");
        let text = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: \"{host}\"}}\n",
            storage.display()
        );
        std::fs::write(&config, text).unwrap();
        let process = Command::new("docker-registry")
            .arg("serve")
            .arg(config)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("cannot start docker-registry ({error}); run `hack/cluster/cluster programs`")
            });
        let deadline = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(&host).is_err() {
            assert!(
                Instant::now() < deadline,
                "the registry at {host} takes no connection after 20 s"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        Self {
            process,
            folder,
            host,
        }
    }

    /// Builds an image from the root of the repository and pushes it; gives its reference.
    pub fn publish(&self, root: &Path, dockerfile: &str, name: &str, arguments: &[&str]) -> String {
        let reference = format!("{}/{name}", self.host);
        let build = [
            "bud",
            "--isolation",
            "chroot",
            "--tag",
            &reference,
            "--file",
            dockerfile,
        ];
        self.buildah(root, &[&build[..], arguments, &["."]].concat());
        self.buildah(root, &["push", "--tls-verify=false", &reference]);
        reference
    }

    /// The storage driver `vfs` needs no mounts, so that nothing stays behind.
    fn buildah(&self, root: &Path, arguments: &[&str]) {
        let path = |name: &str| self.folder.path().join(name);
        let mut command = Command::new("buildah");
        command
            .arg("--root")
            .arg(path("images"))
            .arg("--runroot")
            .arg(path("run"))
            .args(["--storage-driver", "vfs"]);
        let output = without_proxy(command.args(arguments).current_dir(root));
        assert!(
            output.status.success(),
            "buildah {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// A proxy of the caller's would swallow requests meant for this machine.
pub fn without_proxy(command: &mut Command) -> Output {
    for name in [
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
    ] {
        command.env_remove(name);
    }
    command.output().unwrap_or_else(|error| {
        panic!(
            "cannot start {:?} ({error}); run `hack/cluster/cluster programs`",
            command.get_program()
        )
    })
}
