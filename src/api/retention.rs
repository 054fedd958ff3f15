//! What becomes of a volume that nobody uses any more, in the words of a StatefulSet. What happens when nobody says is each kind's own choice.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What becomes of a volume that nobody uses any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Retention {
    /// It stays, with all that is on it, until somebody deletes it.
    Retain,
    /// It goes.
    Delete,
}

impl Retention {
    /// For the default of a field.
    pub(super) fn retain() -> Self {
        Self::Retain
    }

    /// For the default of a field.
    pub(super) fn delete() -> Self {
        Self::Delete
    }
}
