//! What is done to the instances themselves, one thing in each reconcile.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

/// Something that takes an instance out of service for a moment.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Its pod is deleted, and made anew as the StatefulSet has it by now.
    Replace {
        /// This very pod.
        pod: Arc<Pod>,
        /// For people.
        why: String,
    },
    /// The primary gives way to another instance, in order.
    HandOver {
        /// The primary.
        from: String,
        /// Who takes over.
        to: String,
        /// For people.
        why: String,
    },
    /// PostgreSQL is started again where it is.
    Restart {
        /// The instance.
        instance: String,
        /// For people.
        why: String,
    },
}

impl Step {
    /// In words, as something that is under way.
    pub fn told(&self) -> String {
        match self {
            Self::Replace { pod, why } => format!("the pod of {} is replaced: {why}", pod.name_any()),
            Self::HandOver { from, to, why } => format!("{from} hands over to {to}: {why}"),
            Self::Restart { instance, why } => format!("PostgreSQL of {instance} is started again: {why}"),
        }
    }
}

/// What comes next on a way of several steps.
#[derive(Clone, Debug, PartialEq)]
pub enum Course {
    /// Nothing is to be done.
    Done,
    /// Something has to come about by itself first; what that is.
    Wait(String),
    /// This.
    Take(Step),
    /// This as well, but it could not be begun: it is tried again.
    Retry {
        /// What is next.
        step: Step,
        /// For people: what kept it from being begun.
        why: String,
    },
}

impl Course {
    /// What would be next is not begun now, since something else comes first.
    pub fn put_off(&mut self, first: impl Into<String>) {
        if let Self::Take(_) = self {
            *self = Self::Wait(first.into());
        }
    }

    /// What is under way, in words.
    pub fn told(&self) -> Option<String> {
        match self {
            Self::Done => None,
            Self::Wait(what) => Some(format!("waiting for {what}")),
            Self::Take(step) => Some(step.told()),
            Self::Retry { step, why } => Some(format!("cannot begin yet ({why}): {}", step.told())),
        }
    }
}
