//! `roadstead instance nginx`: Supervise nginx.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use super::{begin, fail};
use crate::api::my_proxy::agent::{self, MAX_REASON, REFUSED};
use crate::api::text::shorten;
use crate::instance::nginx::check::{CheckError, check_once};
use crate::instance::nginx::{Options, Timing, supervisor};

#[derive(Debug, clap::Args)]
pub(super) struct Nginx {
    /// Run `nginx -t` once on the mounted configuration and exit: 0 if nginx accepts it, 3 if it refuses it, 1 if it cannot be checked.
    #[arg(long)]
    check: bool,
    /// The nginx program.
    #[arg(long, default_value = "nginx")]
    nginx: PathBuf,
    /// The folder that holds nginx.conf.
    #[arg(long, default_value = "/etc/roadstead/nginx")]
    config: PathBuf,
    /// The folder that holds tls.crt and tls.key.
    #[arg(long)]
    tls: Option<PathBuf>,
    /// A private folder for the configuration in use, best in memory.
    #[arg(long, default_value = "/run/roadstead")]
    run: PathBuf,
    /// A folder for request and response bodies that do not fit into memory.
    #[arg(long, default_value = "/tmp")]
    scratch: PathBuf,
    /// The resolver configuration to take name servers from.
    #[arg(long, default_value = "/etc/resolv.conf")]
    resolv_conf: PathBuf,
    /// The port of plain HTTP.
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// The port of HTTPS.
    #[arg(long, default_value_t = 8443)]
    tls_port: u16,
    /// The port of /healthz, /readyz, /config and /metrics.
    #[arg(long, default_value_t = agent::PORT)]
    probe_port: u16,
    /// Milliseconds between two looks at the mounted files.
    #[arg(long, default_value_t = 1000)]
    poll_ms: u64,
    /// Milliseconds of `Connection: close` before a reload.
    #[arg(long, default_value_t = 2000)]
    reload_drain_ms: u64,
    /// Milliseconds to keep serving after being asked to stop, while load balancers learn that the pod goes.
    #[arg(long, default_value_t = 10_000)]
    stop_drain_ms: u64,
    /// Milliseconds that requests in flight may take after that.
    #[arg(long, default_value_t = 30_000)]
    stop_ms: u64,
    /// Where the reason of a failure is written for the kubelet.
    #[arg(long, default_value = "/dev/termination-log")]
    termination_log: PathBuf,
}

/// Runs it; the exit code is the container's.
pub(super) fn run(args: Nginx) -> ExitCode {
    let runtime = match begin() {
        Ok(runtime) => runtime,
        Err(failed) => return failed,
    };
    let (check, termination_log) = (args.check, args.termination_log.clone());
    let outcome = runtime.block_on(async move {
        if check {
            check_once(&args.into()).await.map(|()| 0).map_err(|error| {
                let code = if matches!(error, CheckError::Refused(_)) {
                    REFUSED
                } else {
                    1
                };
                (code, error.to_string())
            })
        } else {
            supervisor::run(args.into())
                .await
                .map_err(|error| (1, error.to_string()))
        }
    });
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err((code, message)) => {
            // Where there is no such file, standard error has to do.
            let _ = std::fs::write(&termination_log, shorten(&message, MAX_REASON));
            fail(&message);
            ExitCode::from(code)
        }
    }
}

impl From<Nginx> for Options {
    fn from(args: Nginx) -> Self {
        Self {
            nginx: args.nginx,
            config: args.config,
            tls: args.tls,
            run: args.run,
            scratch: args.scratch,
            resolv_conf: args.resolv_conf,
            port: args.port,
            tls_port: args.tls_port,
            probe_port: args.probe_port,
            timing: Timing {
                poll: Duration::from_millis(args.poll_ms),
                reload_drain: Duration::from_millis(args.reload_drain_ms),
                stop_drain: Duration::from_millis(args.stop_drain_ms),
                stop: Duration::from_millis(args.stop_ms),
                ..Timing::default()
            },
        }
    }
}
