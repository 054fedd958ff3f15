//! What comes of a pod where no container really runs: in the simulated cluster, and with the kubelet that is played at a real API server.
//!
//! The names in an object say what happens to it: an image whose name contains [`MISSING`] cannot be pulled, a Secret whose name does is
//! not there, and nginx refuses a configuration in which [`REFUSED_HOST`] stands.

use roadstead::api::my_proxy::agent::REFUSED;
use serde_json::{Value, json};

/// In the name of an image that cannot be pulled, or of a Secret that is not there.
pub const MISSING: &str = "missing";
/// An upstream's host because of which nginx refuses a configuration.
pub const REFUSED_HOST: &str = "refused.example";

/// What comes of the containers of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Something that they need is not there.
    Waits,
    /// nginx said what it had to say of a configuration.
    Ends,
    /// nginx runs.
    Serves,
}

/// What nginx says of a configuration; nothing if it accepts it.
pub fn nginx_says(config: &str) -> Option<String> {
    let refused = config.contains(REFUSED_HOST);
    refused.then(|| format!("[emerg] invalid host \"{REFUSED_HOST}\" in /run/roadstead/nginx.conf:42"))
}

/// Gives the nginx of a pod that serves, or is to, its configuration.
///
/// # Panics
/// When it refuses that: nobody may give it one that was not checked.
pub fn give(pod: &str, config: &str) {
    if let Some(said) = nginx_says(config) {
        panic!("pod {pod} was given a configuration that nginx refuses: {said}");
    }
}

/// Starts the containers of a pod into which this configuration is mounted, if that is there; gives what comes of them, and the fields of
/// the pod's status that say so. What was missing is there if it was `mended`.
pub fn start(pod: &Value, config: Option<&str>, mended: bool, now: &str) -> (Fate, Value) {
    let container = &pod["spec"]["containers"][0];
    let statuses = |state: Value, ready: bool| {
        json!([{
            "name": container["name"], "image": container["image"], "imageID": "", "ready": ready, "restartCount": 0,
            "state": state,
        }])
    };
    let config = match obstacle(pod, config, mended) {
        Ok(config) => config,
        Err((reason, message)) => {
            let waiting = json!({"waiting": {"reason": reason, "message": message}});
            return (
                Fate::Waits,
                json!({"containerStatuses": statuses(waiting, false)}),
            );
        }
    };
    let checks = container["command"]
        .as_array()
        .is_some_and(|command| command.contains(&json!("--check")));
    if !checks {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        assert_eq!(container["name"], "nginx", "what runs in {name} is not played");
        give(name, config);
        let running = statuses(json!({"running": {"startedAt": now}}), true);
        return (
            Fate::Serves,
            json!({"phase": "Running", "containerStatuses": running}),
        );
    }
    let (phase, code, reason, message) = match nginx_says(config) {
        Some(message) => ("Failed", i64::from(REFUSED), "Error", message),
        None => ("Succeeded", 0, "Completed", String::new()),
    };
    let ended = json!({"terminated": {"exitCode": code, "reason": reason, "message": message}});
    (
        Fate::Ends,
        json!({"phase": phase, "containerStatuses": statuses(ended, false)}),
    )
}

/// The configuration with which the containers of a pod can start, or reason and message of why they cannot.
fn obstacle<'a>(
    pod: &Value,
    config: Option<&'a str>,
    mended: bool,
) -> Result<&'a str, (&'static str, String)> {
    let image = pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let no_secret = volumes.into_iter().any(|volume| {
        let secret = volume["secret"]["secretName"].as_str();
        secret.is_some_and(|secret| secret.contains(MISSING))
    });
    match config {
        Some(config) if mended => Ok(config),
        Some(_) if !no_secret && image.contains(MISSING) => {
            let message = format!("Back-off pulling image \"{image}\"");
            Err(("ImagePullBackOff", message))
        }
        Some(config) if !no_secret => Ok(config),
        _ => Err(("ContainerCreating", String::new())),
    }
}
