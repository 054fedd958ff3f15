//! nginx under supervision: check, drain, reload, graceful stop.
//!
//! | file | what |
//! | --- | --- |
//! | [`inputs`] | reads what the cluster mounts: configuration, certificate, resolv.conf |
//! | [`machine`] | writes the parts of the configuration that depend on the pod. Pure |
//! | [`generation`] | a folder with one complete configuration; a link names the active one |
//! | [`check`] | `nginx -t`, and what it says, fit for a person |
//! | [`process`] | the nginx process, and questions to it over its own socket |
//! | [`supervisor`] | the life of the container: start, reload, stop |
//! | [`probes`] | what the kubelet and people ask over HTTP |
//!
//! No nginx ever reads a configuration that `nginx -t` has not accepted in this pod, and certificate and key live in the same
//! generation as the text that uses them: a renewal that went wrong leaves the old pair serving.

pub mod check;
pub mod generation;
pub mod inputs;
pub mod machine;
pub mod probes;
pub mod process;
pub mod state;
pub mod supervisor;

use std::path::PathBuf;
use std::time::Duration;

/// Where everything is and how long things take.
#[derive(Clone, Debug)]
pub struct Options {
    /// The nginx program: a path, or a name to be found on `PATH`.
    pub nginx: PathBuf,
    /// The folder that holds `nginx.conf`, as the ConfigMap is mounted.
    pub config: PathBuf,
    /// The folder that holds `tls.crt` and `tls.key`, as the Secret is mounted.
    pub tls: Option<PathBuf>,
    /// Where generations, the drain flag and sockets live. Private, in memory, as it holds the key. At most 60 bytes long,
    /// since the path of a unix socket is limited.
    pub run: PathBuf,
    /// Where nginx puts bodies that do not fit into memory.
    pub scratch: PathBuf,
    /// The resolver configuration of the pod.
    pub resolv_conf: PathBuf,
    /// The port of plain HTTP.
    pub port: u16,
    /// The port of HTTPS, used when the configuration includes `listen_tls.conf`.
    pub tls_port: u16,
    /// The port of the agent's own HTTP server.
    pub probe_port: u16,
    /// How long things take.
    pub timing: Timing,
}

/// Every wait of the agent.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Between two looks at the mounted files.
    pub poll: Duration,
    /// Between two attempts at a configuration that was refused here, in case the reason went away.
    pub retry_refused: Duration,
    /// How long answers carry `Connection: close` before a reload.
    pub reload_drain: Duration,
    /// How long they still do after the new workers answer, while the old ones notice that they are to go.
    pub settle: Duration,
    /// How long the pod keeps serving after it was asked to stop, until every load balancer has heard that it goes.
    pub stop_drain: Duration,
    /// How long requests in flight may take after that.
    pub stop: Duration,
    /// How long `nginx -t`, a start or a reload may take.
    pub nginx: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(1),
            retry_refused: Duration::from_secs(60),
            reload_drain: Duration::from_secs(2),
            settle: Duration::from_secs(1),
            stop_drain: Duration::from_secs(10),
            stop: Duration::from_secs(30),
            nginx: Duration::from_secs(20),
        }
    }
}

impl Options {
    /// The link to the generation that nginx runs.
    pub fn active(&self) -> PathBuf {
        self.run.join("active")
    }

    /// While this file exists, answers carry `Connection: close`.
    pub fn drain_flag(&self) -> PathBuf {
        self.run.join("drain")
    }

    /// The socket on which nginx answers questions about itself.
    pub fn socket(&self) -> PathBuf {
        self.run.join("nginx.sock")
    }
}
