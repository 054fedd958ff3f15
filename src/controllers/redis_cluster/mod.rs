//! Redis Cluster: shards that hold the keys, which grow, shrink and heal without losing one.
//!
//! What is next is decided by [`topology`], pure, from what every node says of itself; [`ask`] asks them, [`carry_out`] brings one step to them, and all is asked anew.
//! Nothing is remembered between, so an operator that ends anywhere leaves a cluster from which another goes on.
//!
//! This is the protocol alone; it has no controller yet, so the kind is not shipped.

pub mod ask;
pub mod carry_out;
pub mod client;
pub mod go_over;
pub mod topology;
pub mod wire;
