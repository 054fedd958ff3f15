//! PostgreSQL under supervision: initialise, join, follow, elect, promote, fence, rewind.
//!
//! | room | what |
//! | --- | --- |
//! | [`identity`] | who holds the Lease: one process in one pod |
//! | [`lease`], [`pods`], [`secrets`] | what is asked of the API server, each time with a limit ([`bounded`]) |
//! | [`tls`], [`server`], [`peers`] | what instances, the operator and others are answered, and what other instances are asked |
//! | [`protocol`] | what to do next, from all that is known. Pure: no client, no clock |
//! | [`options`] | where everything is |
//! | [`volume`] | the lock that all who work with the data hold, and what becomes of the data while PostgreSQL is stopped |
//! | [`programs`] | PostgreSQL's programs that make data: initdb, pg_basebackup, pg_rewind |
//! | [`log`] | how far the log of a stopped PostgreSQL goes |
//! | [`history`] | keeps timelines that were begun elsewhere from being begun again |
//! | [`config`] | what PostgreSQL goes by, and how it finds others ([`conninfo`]). Pure |
//! | [`floors`] | settings of which a replica needs as much as its primary. Pure |
//! | [`certificates`] | copies of the mounted ones, as PostgreSQL wants them |
//! | [`postmaster`] | the server: its start, its end, and what is left of it |
//! | [`sql`] | what is asked of it and told it |
//! | [`content`] | users, databases and extensions |
//! | [`supervisor`] | the life of the container |
//! | [`canary`] | a write every now and then, which tells one that hangs |
//!
//! Who may be primary is decided by a Lease per database, which the instances pass on among themselves: failover needs no operator. A process that cannot
//! renew it ends its PostgreSQL before anybody else may take it.

pub mod bounded;
pub mod canary;
pub mod certificates;
pub mod config;
pub mod conninfo;
pub mod content;
mod control;
mod effort;
mod exposition;
mod files;
pub mod floors;
pub mod history;
mod holders;
pub mod identity;
pub mod lease;
mod lines;
pub mod log;
pub mod options;
pub mod peers;
pub mod pods;
pub mod postmaster;
mod prepare;
pub mod program;
pub mod programs;
pub mod protocol;
pub mod secrets;
pub mod server;
mod session;
pub mod sql;
pub mod supervisor;
pub mod tls;
pub mod volume;
