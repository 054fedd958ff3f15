//! The agent with a real nginx, servers behind it, and questions to both, all on loopback.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::{HeaderMap, Uri};
use roadstead::api::my_proxy::{MyProxy, validate};
use roadstead::controllers::my_proxy::desired::config::render;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Debian puts it where a user's PATH may not look.
const NGINX: &str = "/usr/sbin/nginx";

pub fn proxy_to(ports: &[u16]) -> String {
    let servers: Vec<_> = ports
        .iter()
        .map(|port| json!({"host": "127.0.0.1", "port": port}))
        .collect();
    render_spec(match ports {
        [] => json!({}),
        _ => {
            json!({"upstreams": [{"name": "up", "servers": servers}], "routes": [{"path": "/", "upstream": "up"}]})
        }
    })
}

pub fn render_spec(spec: Value) -> String {
    let object = json!({
        "apiVersion": "roadstead.dev/v1", "kind": "MyProxy",
        "metadata": {"name": "edge", "namespace": "shop"}, "spec": spec,
    });
    let proxy: MyProxy = serde_json::from_value(object).unwrap();
    render(&validate(&proxy).unwrap(), "cluster.local")
}

/// The agent with its nginx, in a folder of its own.
pub struct Agent {
    process: Option<Child>,
    pub folder: tempfile::TempDir,
    pub http: SocketAddr,
    pub https: SocketAddr,
    pub probes: SocketAddr,
}

impl Agent {
    pub async fn start(config: String, tls: Option<&Path>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("config")).unwrap();
        std::fs::write(folder.path().join("config/nginx.conf"), config).unwrap();
        Self::again(folder, tls, [unused_port(), unused_port(), unused_port()]).await
    }

    pub async fn again(folder: tempfile::TempDir, tls: Option<&Path>, ports: [u16; 3]) -> Self {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let mut command = command(folder.path(), &ports);
        let agent_tls = folder.path().join("tls");
        if tls.is_some() {
            std::fs::create_dir(&agent_tls).unwrap();
            command.arg("--tls").arg(&agent_tls);
        }
        let mut agent = Self {
            process: None,
            folder,
            http: address(ports[0]),
            https: address(ports[1]),
            probes: address(ports[2]),
        };
        if let Some(tls) = tls {
            agent.copy_tls(tls);
        }
        agent.process = Some(command.spawn().unwrap());
        eventually("ready", || async { get(agent.probes, "/readyz").await.0 == 200 }).await;
        agent
    }

    pub fn write_config(&self, config: &str) {
        // As the kubelet does it: a name appears with its whole content.
        let next = self.folder.path().join("config/next");
        std::fs::write(&next, config).unwrap();
        std::fs::rename(next, self.folder.path().join("config/nginx.conf")).unwrap();
    }

    pub fn copy_tls(&self, from: &Path) {
        for name in ["tls.crt", "tls.key"] {
            std::fs::copy(from.join(name), self.folder.path().join("tls").join(name)).unwrap();
        }
    }

    pub async fn config(&self) -> Value {
        serde_json::from_str(&get(self.probes, "/config").await.1).unwrap_or_default()
    }

    pub async fn wait_until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        eventually(what, || async { holds(&self.config().await) }).await;
        self.config().await
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.process.as_ref().unwrap().id()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    pub async fn terminate(self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.exit().await
    }

    pub async fn exit(mut self) -> ExitStatus {
        let mut process = self.process.take().unwrap();
        tokio::task::spawn_blocking(move || process.wait().unwrap())
            .await
            .unwrap()
    }

    /// As when the kernel ends the container; gives what survives of it.
    pub async fn kill(mut self) -> tempfile::TempDir {
        self.signal(Signal::KILL);
        self.process.take().unwrap().wait().unwrap();
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        end_nginx(folder.path());
        folder
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
            end_nginx(self.folder.path());
        }
    }
}

/// nginx runs in a process group of its own, which the master's pid names.
pub fn end_nginx(folder: &Path) {
    let pid = std::fs::read_to_string(folder.join("run/nginx.pid")).ok();
    if let Some(pid) = pid.and_then(|pid| Pid::from_raw(pid.trim().parse().ok()?)) {
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    }
}

pub fn command(folder: &Path, ports: &[u16; 3]) -> Command {
    assert!(
        Path::new(NGINX).exists(),
        "no {NGINX} to test with: run 'hack/cluster/cluster programs', or install nginx-light"
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_roadstead"));
    let path = |name: &str| -> PathBuf { folder.join(name) };
    command.args(["instance", "nginx", "--nginx", NGINX]);
    command
        .arg("--config")
        .arg(path("config"))
        .arg("--run")
        .arg(path("run"))
        .arg("--scratch")
        .arg(path("scratch"));
    command
        .arg("--resolv-conf")
        .arg(path("resolv.conf"))
        .arg("--termination-log")
        .arg(path("termination"));
    for (name, port) in ["--port", "--tls-port", "--probe-port"].iter().zip(ports) {
        command.arg(name).arg(port.to_string());
    }
    command.args([
        "--poll-ms",
        "100",
        "--reload-drain-ms",
        "500",
        "--stop-drain-ms",
        "1500",
        "--stop-ms",
        "10000",
    ]);
    // nginx reports every server that it cannot reach; to read it, take this line away.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Bound and let go, so that it is free and refuses connections.
pub fn unused_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

pub async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < Duration::from_secs(40), "no {what} within 40 s");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Status and body; 0 where there was no answer.
pub async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    ask(address, "GET", path).await
}

pub async fn ask(address: SocketAddr, method: &str, path: &str) -> (u16, String) {
    let Ok(mut stream) = TcpStream::connect(address).await else {
        return (0, String::new());
    };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: example.com:8888\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    let mut answer = String::new();
    if stream.write_all(request.as_bytes()).await.is_err()
        || stream.read_to_string(&mut answer).await.is_err()
    {
        return (0, String::new());
    }
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    (
        head.split(' ')
            .nth(1)
            .and_then(|word| word.parse().ok())
            .unwrap_or(0),
        body.to_owned(),
    )
}

/// Answers every request with what it saw of it. Gives its port.
pub async fn backend(name: &'static str) -> u16 {
    serve(
        Router::new().fallback(move |uri: Uri, headers: HeaderMap| async move {
            let headers: std::collections::BTreeMap<_, _> = headers
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()))
                .collect();
            json!({"name": name, "uri": uri.to_string(), "headers": headers}).to_string()
        }),
    )
    .await
}

pub async fn slow_backend(delay: Duration) -> u16 {
    serve(Router::new().fallback(move || async move {
        tokio::time::sleep(delay).await;
        "slow"
    }))
    .await
}

pub async fn serve(routes: Router) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(listener, routes).await });
    port
}

/// Writes `tls.crt` and `tls.key` for a name.
pub fn self_signed(folder: &Path, name: &str) {
    std::fs::create_dir(folder).unwrap();
    let output = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "1",
            "-subj",
        ])
        .arg(format!("/CN={name}"))
        .arg("-keyout")
        .arg(folder.join("tls.key"))
        .arg("-out")
        .arg(folder.join("tls.crt"))
        .output()
        .expect("openssl is there, as nginx needs its library");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The common name of the certificate that is served.
pub fn served_name(address: SocketAddr) -> String {
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &address.to_string()])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let subject = text
        .lines()
        .find_map(|line| line.strip_prefix("subject="))
        .unwrap_or_default();
    subject
        .split("CN")
        .last()
        .unwrap_or_default()
        .trim_matches([' ', '='])
        .to_owned()
}
