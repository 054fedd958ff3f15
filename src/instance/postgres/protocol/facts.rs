//! What an instance knows of itself at one moment.

use crate::api::database::agent::{Contents, Lsn, Quorum, Standby};
use crate::instance::postgres::floors::Floors;

/// What there is on the volume while PostgreSQL is stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Data {
    /// Nothing.
    #[default]
    Empty,
    /// Something that was begun and never finished, or that cannot be read: it is of no use but to be put aside.
    Broken(String),
    /// Something of which nothing can be told here, why not: it is left alone.
    Unreadable(String),
    /// The data of a primary or a replica.
    Present(Stored),
}

impl Data {
    /// The same, as others are told of it.
    pub fn contents(&self) -> Contents {
        match self {
            Self::Empty => Contents::Nothing,
            Self::Broken(_) => Contents::Broken,
            Self::Unreadable(_) => Contents::Unknown,
            Self::Present(_) => Contents::Data,
        }
    }
}

/// What `pg_controldata` says of data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// PostgreSQL's identifier of the data.
    pub system_identifier: String,
    /// The timeline up to which it goes.
    pub timeline: u32,
    /// Whether PostgreSQL would start as a replica.
    pub standby: bool,
    /// Whether it was shut down in order.
    pub clean: bool,
    /// How far it goes at least; exactly that far, but for the word that it was shut down, if it was.
    pub end: Lsn,
    /// How many bytes each file of its log has.
    pub segment: u64,
    /// What it must have at least to start as a replica.
    pub floors: Floors,
}

/// What PostgreSQL is doing.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Server {
    /// None of its processes is there.
    #[default]
    Stopped,
    /// Its first process is there, and it does not answer yet.
    Starting,
    /// It answers.
    Running(Running),
    /// Its processes are there, and it does not answer any more.
    Silent,
}

/// What PostgreSQL says of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Running {
    /// Whether it takes writes; a replica otherwise.
    pub primary: bool,
    /// PostgreSQL's identifier of the data.
    pub system_identifier: String,
    /// The timeline that it is on: that of what it receives or has replayed last, as a replica.
    pub timeline: u32,
    /// The timeline of its last checkpoint, which is all that `pg_rewind` goes by; that of a new primary is of the one before at first.
    pub checkpoint: u32,
    /// Where that checkpoint began.
    pub redo: Lsn,
    /// How far its data goes on disk: flushed as a primary, received or replayed, whichever is further, as a replica.
    pub received: Lsn,
    /// Whether a replica still applies what it had when it was started: then `received` is how far that has got, and its data goes further.
    pub replaying: bool,
    /// How far a replica has applied that; the same as `received` for a primary.
    pub replayed: Lsn,
    /// The instance that it is told to follow, as a replica.
    pub upstream: Option<String>,
    /// Whether it receives from there.
    pub streaming: bool,
    /// Whether it has a process that receives, or is about to: then it may have more by the time this is read.
    pub receiving: bool,
    /// Whether what every primary has was made in its data.
    pub prepared: bool,
    /// Who streams from it.
    pub standbys: Vec<Standby>,
    /// What commits wait for; none if they do not wait.
    pub quorum: Option<Quorum>,
}
