//! `roadstead log-level`: Read or change what the operator in the same pod logs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::Outcome;
use crate::runtime::admin::LOG_LEVEL;
use crate::telemetry::logs::LogLevel;

const PATIENCE: Duration = Duration::from_secs(5);

/// Read or change what the operator in the same pod logs: kubectl exec deploy/roadstead-operator -- /roadstead log-level debug
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A level (off, error, warn, info, debug, trace) or directives such as info,roadstead::runtime=debug. Without it, the level is printed.
    level: Option<LogLevel>,
    /// Where the operator's admin listener is.
    #[arg(long, env = "ADMIN_ADDRESS", default_value = super::run::ADMIN_ADDRESS)]
    admin_address: SocketAddr,
}

/// Runs the subcommand.
pub fn main(args: Args) -> Outcome {
    let level = args.level.map(|level| level.to_string());
    let answer = ask(args.admin_address, level.as_deref()).map_err(|error| {
        format!(
            "cannot reach the operator's admin listener at {}: {error}",
            args.admin_address
        )
    })?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .ok_or("the admin listener's answer is no HTTP")?;
    if head.split_whitespace().nth(1) != Some("200") {
        return Err(body.trim().into());
    }
    print!("{body}");
    Ok(())
}

/// One request and its answer. HTTP/1.0, so that the answer ends with the connection.
fn ask(address: SocketAddr, level: Option<&str>) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let body = level.unwrap_or_default();
    let method = if level.is_some() { "PUT" } else { "GET" };
    write!(
        stream,
        "{method} {LOG_LEVEL} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.take(64 * 1024).read_to_string(&mut answer)?;
    Ok(answer)
}
