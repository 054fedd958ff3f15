//! Whoever ends a command gets the prompt back, and nothing of it stays behind.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/broken_bundles.rs"]
mod broken_bundles;

use std::io::Read as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use broken_bundles::plain;
use rstest::rstest;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

/// No command takes longer to begin, or to end.
const SOON: Duration = Duration::from_secs(20);

fn begun(folder: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roadstead"));
    command.args(arguments).current_dir(folder);
    command.env("TMPDIR", folder.join("tmp"));
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    piped.spawn().unwrap()
}

/// Waits until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < SOON, "{what}: not within {SOON:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends the signal. Gives what the command said when it had ended.
fn ended(mut child: Child, signal: Signal) -> String {
    kill_process(Pid::from_child(&child), signal).unwrap();
    until("ended", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    said
}

fn holds(folder: &Path) -> Vec<String> {
    let listed = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = listed
        .map(|found| found.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[rstest]
#[case::by_a_person(Signal::INT)]
#[case::by_whoever_runs_it(Signal::TERM)]
fn while_a_registry_is_waited_for(#[case] signal: Signal) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("tmp")).unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let image = format!("{}/a:1", silent.local_addr().unwrap());
    let child = begun(folder.path(), &["bundle", "pull", &image, "--output", "pulled"]);
    let connection = silent.accept().unwrap();
    assert_eq!(ended(child, signal), "roadstead: it was told to stop\n");
    drop(connection);
    assert_eq!(holds(folder.path()), ["tmp"]);
}

/// Nobody reads what it prints, so it waits with all that it keeps on the disk.
#[rstest]
#[case::by_a_person(Signal::INT)]
#[case::by_whoever_runs_it(Signal::TERM)]
fn while_it_works_by_itself(#[case] signal: Signal) {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut files = plain();
    files.csv["spec"]["description"] = json!("x".repeat(300_000));
    files.write(&folder.path().join("bundle"));
    let mut child = begun(folder.path(), &["catalog", "render", "bundle"]);
    let mut first = [0];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(holds(&temporary).len(), 1, "it keeps something");
    assert_eq!(ended(child, signal), "roadstead: it was told to stop\n");
    assert_eq!(holds(&temporary), [""; 0]);
}
