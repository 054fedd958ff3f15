//! What is remembered from one step to the next, in parts.

use super::Moment;
use crate::api::database::agent::Timing;

/// How long this instance may be primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tenure {
    /// The shortest times for which the Lease may say that it is claimed.
    pub(super) timing: Timing,
    /// Until then PostgreSQL has to be stopped, if nothing comes of it.
    pub(super) until: Moment,
    /// When the last renewal that succeeded was sent.
    pub(super) renewed: Moment,
    /// When that was sent, or when all others were asked and promised, whichever came last.
    pub(super) confirmed: Moment,
    /// When a renewal was last sent.
    pub(super) tried: Moment,
    /// When the others were last asked.
    pub(super) pleaded: Moment,
}

/// What is to be done with a replica's data that does not receive from a primary that is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mending {
    /// Nothing is known to be wrong with it.
    #[default]
    Nothing,
    /// It may go on where the primary's does not: it is to be taken back to where they parted.
    Rewind,
    /// That was done, and it has not received since.
    Rewound,
    /// Nor will it: the primary does not have any more what it lacks. It is to be copied.
    Copy,
}

/// A state that is given up if it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passing {
    Stopped,
    Starting,
    Silent,
    Promoting,
}

/// This instance is not to be primary any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Leaving {
    /// It is to end altogether.
    pub(super) exit: bool,
    /// There is no time for an end in order.
    pub(super) hurry: bool,
    /// Who is to take over, if somebody in particular.
    pub(super) to: Option<String>,
}
