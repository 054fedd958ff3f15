//! PostgreSQL under supervision: initialise, join, follow, elect, promote, fence, rewind.
//!
//! | room | what |
//! | --- | --- |
//! | [`identity`] | who holds the Lease: one process in one pod |
//! | [`lease`], [`pods`] | what is asked of the API server |
//! | [`tls`], [`server`], [`peers`] | what instances, the operator and others are answered, and what other instances are asked |
//! | [`protocol`] | what to do next, from all that is known. Pure: no client, no clock |
//! | [`record`] | what the instances keep in the Lease |
//!
//! Who may be primary is decided by a Lease per database, which the instances pass on among themselves: failover needs no operator. A process that cannot
//! renew it ends its PostgreSQL before anybody else may take it.

mod exposition;
pub mod identity;
pub mod lease;
pub mod peers;
pub mod pods;
pub mod protocol;
pub mod record;
pub mod server;
pub mod tls;
