use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::time::timeout;

use super::{Credentials, Secret};
use crate::olm::oci::Error;

/// A person may have to unlock something.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest answer, in bytes.
const LARGEST: u64 = 1 << 20;
/// What helpers answer, and end with a failure, when they know nothing of a host.
const NOT_FOUND: &str = "credentials not found";
/// The user that stands for an identity token.
const TOKEN_USER: &str = "<token>";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    #[serde(default)]
    username: String,
    secret: String,
}

/// Asks `docker-credential-HELPER get` for what a server is to be shown. The program is looked for where all programs are.
///
/// # Errors
/// [`Error::Credentials`]: there is no such program, or it fails. Nothing that it prints is told, since that may be a secret.
pub(super) async fn get(helper: &str, server: &str) -> Result<Option<Credentials>, Error> {
    let failed = |why: String| Error::Credentials {
        host: server.to_owned(),
        why,
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !helper.bytes().all(is_plain) {
        return Err(failed(format!(
            "the helper is called {helper:?}; accepted are letters, digits, `-`, `_` and `.`"
        )));
    }
    ask(&format!("docker-credential-{helper}"), server).await
}

/// Asks a program by its name or its path.
pub(super) async fn ask(program: &str, server: &str) -> Result<Option<Credentials>, Error> {
    let failed = |why: String| Error::Credentials {
        host: server.to_owned(),
        why,
    };
    let ended = timeout(PATIENCE, run(program, server)).await;
    let late = || {
        failed(format!(
            "`{program} get` has not answered within {} s; try it by hand",
            PATIENCE.as_secs()
        ))
    };
    let (is_success, answer) = ended
        .map_err(|_| late())?
        .map_err(|error| failed(format!("cannot run `{program} get`: {error}")))?;
    if !is_success {
        let text = String::from_utf8_lossy(&answer);
        if text.trim_start().starts_with(NOT_FOUND) {
            return Ok(None);
        }
        return Err(failed(format!("`{program} get` failed; try it by hand")));
    }
    let answer: Answer = serde_json::from_slice(&answer).map_err(|_| {
        failed(format!(
            "`{program} get` answered no JSON with Username and Secret"
        ))
    })?;
    if answer.username == TOKEN_USER {
        return Ok(Some(Credentials::Identity(Secret::new(answer.secret))));
    }
    Ok(Some(Credentials::Password {
        user: answer.username,
        password: Secret::new(answer.secret),
    }))
}

/// Whether it ended well, and what it printed. Dropped, it is killed.
async fn run(program: &str, server: &str) -> std::io::Result<(bool, Vec<u8>)> {
    let mut child = Command::new(program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        match input.write_all(server.as_bytes()).await {
            // It may answer without having read
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => return Err(error),
            _ => {}
        }
    }
    let mut answer = Vec::new();
    if let Some(output) = child.stdout.take() {
        output.take(LARGEST).read_to_end(&mut answer).await?;
    }
    Ok((child.wait().await?.success(), answer))
}
