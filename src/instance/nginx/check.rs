//! `nginx -t`, and what it says, fit for a person.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use super::Options;
use super::generation::{self, Unwritable};
use super::inputs::{Inputs, Unreadable};
use super::machine::Machine;
use crate::api::my_proxy::agent::MAX_REASON;
use crate::api::text::shorten;

/// Why a configuration is not to be used.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// nginx read it and refused it; the text is nginx's own.
    #[error("{0}")]
    Refused(String),
    /// nginx could not be run.
    #[error("cannot run {program}: {source}")]
    Run {
        /// The program.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// nginx did not come to an end.
    #[error("{program} {argument} did not end within {seconds} s")]
    Slow {
        /// The program.
        program: String,
        /// What it was asked.
        argument: String,
        /// The bound.
        seconds: u64,
    },
    /// A mounted file is missing.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// The generation could not be written.
    #[error(transparent)]
    Unwritable(#[from] Unwritable),
}

/// Runs `nginx -v` and looks at the machine.
///
/// # Errors
/// When nginx cannot be run.
pub async fn machine(options: &Options) -> Result<Machine, CheckError> {
    let output = run(options, &["-v".as_ref()]).await?;
    Ok(Machine::look(&String::from_utf8_lossy(&output.stderr)))
}

/// Runs `nginx -t` on the configuration in a folder.
///
/// # Errors
/// When nginx refuses it, or cannot be run, or does not end in time.
pub async fn check(options: &Options, folder: &Path) -> Result<(), CheckError> {
    let config = folder.join("nginx.conf");
    let arguments: [&OsStr; 7] = [
        "-t".as_ref(),
        "-q".as_ref(),
        "-e".as_ref(),
        "stderr".as_ref(),
        "-p".as_ref(),
        options.run.as_ref(),
        "-c".as_ref(),
    ];
    let arguments: Vec<&OsStr> = arguments.into_iter().chain([config.as_os_str()]).collect();
    let output = run(options, &arguments).await?;
    if output.status.success() {
        return Ok(());
    }
    Err(CheckError::Refused(explain(
        &String::from_utf8_lossy(&output.stderr),
        folder,
    )))
}

/// Reads the mounted files, writes a generation and checks it, once. Nothing is started.
///
/// # Errors
/// As [`check`], and when files cannot be read or written.
pub async fn check_once(options: &Options) -> Result<(), CheckError> {
    let inputs = Inputs::read(options)?;
    generation::prepare(options)?;
    let folder = generation::write(options, &machine(options).await?, &inputs)?;
    check(options, &folder).await
}

async fn run(options: &Options, arguments: &[&OsStr]) -> Result<Output, CheckError> {
    let program = || options.nginx.display().to_string();
    let mut command = Command::new(&options.nginx);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let bound: Duration = options.timing.nginx;
    match timeout(bound, command.output()).await {
        Ok(Ok(output)) => Ok(output),
        Ok(Err(source)) => Err(CheckError::Run {
            program: program(),
            source,
        }),
        Err(_) => Err(CheckError::Slow {
            program: program(),
            argument: arguments
                .first()
                .map(|text| text.to_string_lossy().into_owned())
                .unwrap_or_default(),
            seconds: bound.as_secs(),
        }),
    }
}

/// Keeps what a person needs of nginx's output: the lines that say what is wrong, once each, without the name of the program,
/// times, process ids, and the folder, which is not where the author's file is. The same mistake gives the same text.
fn explain(output: &str, folder: &Path) -> String {
    let folder = format!("{}/", folder.display());
    let mut lines: Vec<String> = Vec::new();
    for line in output.lines() {
        let Some((level, text)) = ["[emerg]", "[crit]", "[alert]", "[error]"]
            .iter()
            .find_map(|level| line.split_once(level).map(|(_, text)| (*level, text)))
        else {
            continue;
        };
        let text = text.trim_start();
        let text = match text.split_once("#") {
            // `12#12: ` in lines of the error log.
            Some((pid, rest)) if pid.bytes().all(|b| b.is_ascii_digit()) => {
                rest.split_once(": ").map_or(text, |(_, text)| text)
            }
            _ => text,
        };
        let line = format!("{level} {}", text.replace(&folder, ""));
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let text = if lines.is_empty() {
        output.trim().to_owned()
    } else {
        lines.join("\n")
    };
    shorten(&text, MAX_REASON)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nginx_says_is_the_same_for_the_same_mistake() {
        let one = "nginx: [emerg] unknown directive \"x\" in /run/a/nginx.conf:3\n\
                   nginx: configuration file /run/a/nginx.conf test failed\n";
        let other = "2026/11/21 08:00:00 [emerg] 12#12: unknown directive \"x\" in /run/a/nginx.conf:3\n";
        let expected = "[emerg] unknown directive \"x\" in nginx.conf:3";
        assert_eq!(explain(one, Path::new("/run/a")), expected);
        assert_eq!(explain(&format!("{one}{other}"), Path::new("/run/a")), expected);
    }

    #[test]
    fn an_unknown_output_is_given_whole_and_bounded() {
        assert_eq!(
            explain("exec format error\n", Path::new("/run/a")),
            "exec format error"
        );
        assert_eq!(explain(&"é".repeat(4000), Path::new("/run/a")).len(), MAX_REASON);
    }
}
