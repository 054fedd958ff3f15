//! Why a pod is not well, in the words of the kubelet and of the scheduler.

use jiff::Timestamp;
use serde_json::Value;

use super::field::{condition_is, list, name, namespace, number, path, said, text, time};
use super::link::Trouble;

/// What keeps one pod from being well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ailing<'a> {
    pod: &'a Value,
    container: &'a str,
    pub(super) reason: &'a str,
    message: String,
    /// How the container ended last.
    ended: Option<&'a Value>,
    since: Option<Timestamp>,
}

/// The first pod that will not become well by itself, with why. What only takes its time is not among them.
pub(super) fn ailing(pods: &[Value]) -> Option<Ailing<'_>> {
    let mut present = pods
        .iter()
        .filter(|pod| text(pod, "/metadata/deletionTimestamp").is_empty());
    present.find_map(of_pod)
}

/// Whether all containers of a pod are ready.
pub(super) fn is_ready(pod: &Value) -> bool {
    condition_is(pod, "Ready", "True").is_some()
}

/// Since when they are.
pub(super) fn ready_since(pod: &Value) -> Option<Timestamp> {
    time(condition_is(pod, "Ready", "True")?, "/lastTransitionTime")
}

fn of_pod(pod: &Value) -> Option<Ailing<'_>> {
    unschedulable(pod)
        .or_else(|| {
            let init = list(pod, "/status/initContainerStatuses");
            let mut all = init.iter().chain(list(pod, "/status/containerStatuses"));
            all.find_map(|status| of_container(pod, status))
        })
        .or_else(|| failed(pod))
}

fn unschedulable(pod: &Value) -> Option<Ailing<'_>> {
    let condition = condition_is(pod, "PodScheduled", "False")?;
    Some(Ailing {
        pod,
        container: "",
        reason: text(condition, "/reason"),
        message: text(condition, "/message").to_owned(),
        ended: None,
        since: time(condition, "/lastTransitionTime"),
    })
}

/// An evicted pod, say.
fn failed(pod: &Value) -> Option<Ailing<'_>> {
    let status = pod.get("status")?;
    (text(status, "/phase") == "Failed").then(|| Ailing {
        pod,
        container: "",
        reason: match text(status, "/reason") {
            "" => "Failed",
            reason => reason,
        },
        message: text(status, "/message").to_owned(),
        ended: None,
        since: None,
    })
}

fn of_container<'a>(pod: &'a Value, status: &'a Value) -> Option<Ailing<'a>> {
    let ended = status.pointer("/lastState/terminated");
    let ailing = |reason: &'a str, message: &str, ended: Option<&'a Value>| Ailing {
        pod,
        container: text(status, "/name"),
        reason,
        message: message.to_owned(),
        ended,
        since: ended.and_then(|ended| time(ended, "/finishedAt")),
    };
    if let Some(waiting) = status.pointer("/state/waiting") {
        let reason = text(waiting, "/reason");
        return (!takes_its_time(reason)).then(|| ailing(reason, text(waiting, "/message"), ended));
    }
    if let Some(over) = status.pointer("/state/terminated") {
        let has_failed = number(over, "/exitCode") != 0;
        return has_failed.then(|| ailing(text(over, "/reason"), "", Some(over)));
    }
    // It runs again, and is not well yet: how it ended last is what is known
    let is_ready = status.get("ready").and_then(Value::as_bool).unwrap_or_default();
    let again = ended.filter(|ended| !is_ready && number(ended, "/exitCode") != 0)?;
    Some(ailing(text(again, "/reason"), "", Some(again)))
}

fn takes_its_time(reason: &str) -> bool {
    matches!(reason, "" | "ContainerCreating" | "PodInitializing")
}

impl<'a> Ailing<'a> {
    /// Empty where it is the pod as a whole.
    pub(super) fn container(&self) -> &str {
        self.container
    }

    /// The container's image; empty where it is the pod as a whole.
    pub(super) fn image(&self) -> &'a str {
        let of = |pointer| list(self.pod, pointer).iter();
        let mut all = of("/spec/containers").chain(of("/spec/initContainers"));
        let own = all.find(|container| text(container, "/name") == self.container);
        own.map(|container| text(container, "/image")).unwrap_or_default()
    }

    /// Such as `ImagePullBackOff in container manager`. What comes and goes while nothing changes, as a pull and the pause after it, has one name.
    pub(super) fn brief(&self) -> String {
        let reason = match self.reason {
            "ErrImagePull" => "ImagePullBackOff",
            _ if self.lacks_memory() => "OOMKilled",
            _ if self.has_ended() => "CrashLoopBackOff",
            reason => reason,
        };
        match self.container {
            "" => reason.to_owned(),
            container => format!("{reason} in container {container}"),
        }
    }

    pub(super) fn since(&self) -> Option<Timestamp> {
        self.since
    }

    /// Whether an image is not to be had.
    pub(super) fn lacks_image(&self) -> bool {
        matches!(
            self.reason,
            "ImagePullBackOff"
                | "ErrImagePull"
                | "InvalidImageName"
                | "ErrImageNeverPull"
                | "ImageInspectError"
        )
    }

    /// Whether a container took more memory than it may.
    pub(super) fn lacks_memory(&self) -> bool {
        self.reason == "OOMKilled"
            || self
                .ended
                .is_some_and(|ended| text(ended, "/reason") == "OOMKilled")
    }

    pub(super) fn is_unschedulable(&self) -> bool {
        self.reason == "Unschedulable"
    }

    /// Such as `ImagePullBackOff in pod olm/gadgets-x7k`.
    pub(super) fn summary(&self) -> String {
        match self.container {
            "" => format!("{} of pod {}", self.reason, path(self.pod)),
            container => format!(
                "{} in container {container} of pod {}",
                self.reason,
                path(self.pod)
            ),
        }
    }

    /// Adds why, and how to see more of it.
    pub(super) fn explain(&self, trouble: Trouble) -> Trouble {
        let (namespace, pod) = (namespace(self.pod), name(self.pod));
        let trouble = trouble
            .quoting(format!("pod {pod}, {}", self.reason), self.message.clone())
            .quoting(format!("pod {pod}, how it ended last"), self.end());
        if self.has_ended() {
            let earlier = if self.ended_before() { " --previous" } else { "" };
            let logs = format!(
                "kubectl -n {namespace} logs {pod} -c {} --tail=40{earlier}",
                self.container
            );
            return trouble.command("see what it logged before it ended", logs);
        }
        trouble.command(
            "see all that is known of the pod",
            format!("kubectl -n {namespace} describe pod {pod}"),
        )
    }

    fn has_ended(&self) -> bool {
        self.ended.is_some() && !self.lacks_image()
    }

    /// Whether another run has begun, or is going to, since.
    fn ended_before(&self) -> bool {
        let all = list(self.pod, "/status/containerStatuses")
            .iter()
            .chain(list(self.pod, "/status/initContainerStatuses"));
        all.filter(|status| text(status, "/name") == self.container)
            .any(|status| status.pointer("/state/terminated").is_none())
    }

    fn end(&self) -> String {
        let Some(ended) = self.ended else {
            return String::new();
        };
        let code = number(ended, "/exitCode");
        let said = said(ended);
        if said.is_empty() {
            format!("exit code {code}")
        } else {
            format!("exit code {code}, {}", said.trim_end())
        }
    }
}
