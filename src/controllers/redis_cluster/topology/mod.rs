//! Which slots are where, who follows whom, and what is to be done next about it. Pure.
//!
//! What was seen of a cluster is a [`scene::Scene`]; [`step::next`] says one thing to do; it is done, and all is looked at anew. Nothing is remembered
//! between, so whatever was interrupted goes on from what is seen. How one slot goes from node to node is a state machine as well, [`moving::Mover`],
//! which is fed with answers and says commands.

mod adopt;
mod assign;
mod drain;
mod failover;
mod forget;
mod heal;
mod join;
pub mod moving;
pub mod nodes;
mod open;
mod rebalance;
mod replicate;
pub mod scene;
mod settle;
pub mod slots;
pub mod step;
pub mod survey;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod world;
