//! Constant keep-alive load over raw HTTP/1.1, which tells apart what an HTTP library folds into one error.
//!
//! A request *fails* when the server began to answer and did not finish, when it answered 5xx, or when a fresh connection gave
//! nothing. One that got nothing on a connection that had served before is counted apart, as `lost_reused`: the server may have
//! closed an idle connection at the moment that the client chose it, and no byte says that nginx had begun to read the request.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(20);
/// How many failures are spelled out.
const SPELLED_OUT: usize = 10;

/// Where the next connection goes; none while nothing is ready.
pub type Target = Arc<dyn Fn() -> Option<SocketAddr> + Send + Sync>;

/// What load to make.
#[derive(Clone)]
pub struct Load {
    pub target: Target,
    pub host: String,
    pub path: String,
    /// Connections, each with one request at a time.
    pub connections: usize,
    /// Between an answer and the next request on the same connection.
    pub pause: Duration,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Whole answers by status.
    pub answers: BTreeMap<u16, u64>,
    /// Failures in the sense above.
    pub failed: u64,
    /// The first few, spelled out, with the time since the start.
    pub failures: Vec<String>,
    /// Requests that got nothing on a connection that had served before.
    pub lost_reused: u64,
    /// Connections that could not be opened.
    pub refused: u64,
    /// Connections opened.
    pub connections: u64,
    /// Answers that carried `Connection: close`.
    pub closed: u64,
    /// The slowest answer.
    pub slowest: Duration,
    /// The longest time in which no request was answered.
    pub longest_silence: Duration,
    last_answer: Option<Instant>,
}

impl Report {
    /// Answers with 200.
    pub fn ok(&self) -> u64 {
        self.answers.get(&200).copied().unwrap_or(0)
    }

    /// What a soak collects: `figure NAME VALUE UNIT` lines.
    #[allow(dead_code, reason = "each test binary uses what it needs of this")]
    pub fn print_figures(&self, what: &str) {
        println!("figure {what}.answered {} requests", self.ok());
        println!("figure {what}.failed {} requests", self.failed + self.refused);
        println!("figure {what}.lost_reused {} requests", self.lost_reused);
        println!("figure {what}.slowest_answer {} ms", self.slowest.as_millis());
        println!(
            "figure {what}.longest_silence {} ms",
            self.longest_silence.as_millis()
        );
    }

    /// Panics unless there was load and nothing of it failed.
    pub fn assert_nothing_failed(&self, what: &str) {
        assert!(self.ok() > 0, "{what}: no request was answered: {self:?}");
        assert_eq!((self.failed, self.refused), (0, 0), "{what}: {self:?}");
    }
}

/// Load that is being made.
pub struct Running {
    stop: CancellationToken,
    tasks: JoinSet<()>,
    report: Arc<Mutex<Report>>,
}

impl Load {
    pub fn to(address: SocketAddr) -> Self {
        Self {
            target: Arc::new(move || Some(address)),
            host: "example.com".to_owned(),
            path: "/".to_owned(),
            connections: 8,
            pause: Duration::from_millis(5),
        }
    }

    pub fn start(self) -> Running {
        let (stop, report) = (CancellationToken::new(), Arc::new(Mutex::new(Report::default())));
        let (mut tasks, started) = (JoinSet::new(), Instant::now());
        for _ in 0..self.connections {
            let client = Client {
                load: self.clone(),
                stop: stop.clone(),
                report: Arc::clone(&report),
                started,
            };
            tasks.spawn(client.run());
        }
        Running { stop, tasks, report }
    }
}

impl Running {
    pub fn so_far(&self) -> Report {
        self.report.lock().unwrap().clone()
    }

    /// Lets every request in flight end, then reports.
    pub async fn stop(mut self) -> Report {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
        self.so_far()
    }
}

struct Client {
    load: Load,
    stop: CancellationToken,
    report: Arc<Mutex<Report>>,
    started: Instant,
}

/// How one exchange ended.
enum Exchange {
    Answered {
        status: u16,
        close: bool,
    },
    /// Nothing came back.
    Nothing(String),
    /// Something came back, not all of it.
    Broken(String),
}

impl Client {
    async fn run(self) {
        while !self.stop.is_cancelled() {
            let Some(address) = (self.load.target)() else {
                sleep(Duration::from_millis(10)).await;
                continue;
            };
            match timeout(Duration::from_secs(5), TcpStream::connect(address)).await {
                Ok(Ok(stream)) => self.converse(stream, address).await,
                _ => {
                    self.note(|report| report.refused += 1);
                    sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }

    /// Requests on one connection until somebody closes it.
    async fn converse(&self, mut stream: TcpStream, address: SocketAddr) {
        let _ = stream.set_nodelay(true);
        self.note(|report| report.connections += 1);
        let mut reused = false;
        while !self.stop.is_cancelled() {
            let began = Instant::now();
            let exchange = timeout(REQUEST, self.exchange(&mut stream)).await;
            let exchange = exchange.unwrap_or_else(|_| Exchange::Broken("no answer in time".to_owned()));
            match exchange {
                Exchange::Answered { status, close } => {
                    self.answered(status, close, began);
                    if close {
                        return;
                    }
                }
                Exchange::Nothing(_) if reused => return self.note(|report| report.lost_reused += 1),
                Exchange::Nothing(why) => {
                    return self.failed(&format!("{address}: nothing on a fresh connection: {why}"));
                }
                Exchange::Broken(why) => return self.failed(&format!("{address}: {why}")),
            }
            reused = true;
            sleep(self.load.pause).await;
        }
    }

    async fn exchange(&self, stream: &mut TcpStream) -> Exchange {
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\n\r\n",
            self.load.path, self.load.host
        );
        if let Err(error) = stream.write_all(request.as_bytes()).await {
            return Exchange::Nothing(error.to_string());
        }
        let mut bytes = Vec::new();
        let head = loop {
            match read_more(stream, &mut bytes).await {
                Err(why) if bytes.is_empty() => return Exchange::Nothing(why),
                Err(why) => return Exchange::Broken(format!("cut in the head: {why}")),
                Ok(()) => {}
            }
            if let Some(end) = find(&bytes, b"\r\n\r\n") {
                break end + 4;
            }
        };
        let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
        let status = text
            .split(' ')
            .nth(1)
            .and_then(|word| word.parse().ok())
            .unwrap_or(0);
        let field = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name))
                .map(str::trim)
                .map(str::to_owned)
        };
        let length = field("content-length:").and_then(|value| value.parse::<usize>().ok());
        let complete = |bytes: &[u8]| match length {
            Some(length) => bytes.len() >= head + length,
            None => bytes.ends_with(b"0\r\n\r\n"),
        };
        while !complete(&bytes) {
            if let Err(why) = read_more(stream, &mut bytes).await {
                return Exchange::Broken(format!("cut in the body: {why}"));
            }
        }
        Exchange::Answered {
            status,
            close: field("connection:").as_deref() == Some("close"),
        }
    }

    fn answered(&self, status: u16, close: bool, began: Instant) {
        if status >= 500 {
            self.failed(&format!("status {status}"));
        }
        let now = Instant::now();
        self.note(|report| {
            *report.answers.entry(status).or_default() += 1;
            report.closed += u64::from(close);
            report.slowest = report.slowest.max(now - began);
            let last = report.last_answer.replace(now).unwrap_or(self.started);
            report.longest_silence = report.longest_silence.max(now - last);
        });
    }

    fn failed(&self, why: &str) {
        let at = self.started.elapsed();
        self.note(|report| {
            report.failed += 1;
            if report.failures.len() < SPELLED_OUT {
                report.failures.push(format!("{:.3} s: {why}", at.as_secs_f64()));
            }
        });
    }

    fn note(&self, change: impl FnOnce(&mut Report)) {
        change(&mut self.report.lock().unwrap());
    }
}

async fn read_more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Result<(), String> {
    match stream.read_buf(bytes).await {
        Ok(0) => Err("closed".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
