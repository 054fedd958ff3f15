//! What an instance may be told to do, and what of it takes long.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::api::database::agent::{Lsn, Quorum, Record};

/// What takes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// [`Command::Initialise`]
    Initialising,
    /// [`Command::Join`]
    Joining,
    /// [`Command::Rewind`]
    Rewinding,
    /// [`Command::Promote`]
    Promoting,
    /// [`Command::Stop`]
    Stopping,
    /// Anything else that is soon over.
    Other,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Nothing: all is as it should be.
    Idle,
    /// Nothing, until something is new. For people: what is being waited for.
    Wait(String),
    /// Nothing, and a person is needed: why.
    Fail(String),
    /// Write the Lease.
    Write(Write, Record),
    /// Ask these to promise: every other instance that may lead.
    Plead(Pleading),
    /// Make the first data.
    Initialise,
    /// Copy the data of the instance of this name. What there was is put aside until the copy streams.
    Join(String),
    /// Go back to where this instance and that of this name parted, and become its replica.
    Rewind(String),
    /// Find out whether the log of the stopped PostgreSQL goes up to there on this timeline.
    Prove(u32, Lsn),
    /// Start PostgreSQL as a primary, whose commits wait for this.
    Lead(Option<Quorum>),
    /// Start PostgreSQL as a replica of the instance of this name, or have it turn there.
    Follow(Option<String>),
    /// Have the running replica become the primary, on a timeline after this one, with commits that wait for this.
    Promote(u32, Option<Quorum>),
    /// Have commits wait for this.
    Synchronise(Option<Quorum>),
    /// Find out whether the PostgreSQL of the instance of this name can be connected to.
    Reach(String),
    /// Stop PostgreSQL.
    Stop(How),
    /// Nothing is left to do: end.
    Exit,
}

/// Whom a holder asks that cannot renew the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pleading {
    /// By their names.
    pub others: BTreeSet<String>,
    /// Whether the API server answers the holder, and only takes no writes.
    pub hears: bool,
    /// For how long the holder claims the Lease, and so for how long a promise has to last.
    pub lease: Duration,
}

/// Why the Lease is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// To hold it from now on.
    Claim,
    /// To go on holding it.
    Renew,
    /// To give it back.
    Release,
}

/// How PostgreSQL is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// In order: sessions are ended, and replicas get all there is.
    Fast,
    /// At once, without a word to anybody, by SIGKILL if need be. It will have to recover.
    Immediate,
}
