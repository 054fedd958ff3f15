//! What a step of a scenario returns: its result, or a text that says why the promise is not kept.

use std::fmt;

/// Why a scenario failed, in words for a person.
#[derive(Debug)]
pub struct Failure(String);

pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// Failure itself is no std::error::Error, so that every error of a library becomes one with `?`.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Fails the scenario with the message unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::outcome::Failure::new(format!($($message)+)));
        }
    };
}
pub(crate) use ensure;
