//! PostgreSQL under supervision: initialise, join, follow, elect, promote, fence, rewind.
//!
//! | room | what |
//! | --- | --- |
//! | [`protocol`] | what to do next, from all that is known. Pure: no client, no clock |
//! | [`record`] | what the instances keep in the Lease |
//!
//! Who may be primary is decided by a Lease per database, which the instances pass on among themselves: failover needs no operator. A process that cannot
//! renew it ends its PostgreSQL before anybody else may take it.

pub mod protocol;
pub mod record;
