//! What an instance is to do next, decided from what it knows: of itself, of the Lease, of the others. Pure.

mod facts;

pub use facts::{Data, Running, Server, Stored};
