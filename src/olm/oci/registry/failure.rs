use std::time::Duration;

/// A registry was asked, and did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{asked}: {why}")]
pub struct Failure {
    asked: String,
    why: String,
    pub(super) again: Again,
}

/// Whether it may go well the next time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    Never,
    Soon,
    /// As the registry itself says.
    After(Duration),
}

impl Failure {
    pub(super) fn never(asked: &str, why: impl Into<String>) -> Self {
        Self::new(asked, why, Again::Never)
    }

    pub(super) fn soon(asked: &str, why: impl Into<String>) -> Self {
        Self::new(asked, why, Again::Soon)
    }

    pub(super) fn new(asked: &str, why: impl Into<String>, again: Again) -> Self {
        Self {
            asked: asked.to_owned(),
            why: why.into(),
            again,
        }
    }

    pub(super) fn with_remedy(mut self, remedy: &str) -> Self {
        self.why = format!("{}; {remedy}", self.why);
        self
    }
}
