//! What any operator needs. Nothing here knows a kind.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`manager`] | fills the caches, waits for the lease, runs the controllers, ends in order |
//! | [`cache`] | a local copy of the objects of a kind, by key and by owner |
//! | [`controller`] | one kind, one queue, some workers; contains panics and timeouts |
//! | [`reconcile`] | what a controller's author writes: [`reconcile::Reconciler`] |
//! | [`retry`] | what an error is called, and when to try again |
//! | [`predicates`] | which updates are worth a reconcile |
//! | [`apply`] | the only writer of children and status |
//! | [`conditions`], [`events`], [`finalizers`] | what is said of an object, and what keeps it |
//! | [`lease`], [`client`] | who may write, and the fence that sees to it |
//! | [`queue`], [`backoff`] | what is to be done, and when again |
//! | [`migration`] | moves stored objects to the version that is stored now |
//! | [`mutual_tls`] | HTTPS between parts of the product that show each other certificates of one authority |
//! | [`upgradeable`] | keeps OLM from updating the operator in the middle of something dangerous |
//! | [`health`], [`metrics`], [`admin`] | what others can see of the operator, and what they can change |
//! | [`signals`] | when to end |
//! | [`mounted`] | what the kubelet brings into a container |
//! | [`clock`], [`jitter`], [`key`] | small things |
//!
//! Time is tokio's, and the wall clock an option, so that all of it runs on a paused clock against an API server in memory
//! ([`client::Clients::over`]). Iteration is in order of keys, and nothing is random but for the name of the process.
//!
//! # A controller
//!
//! Make caches with [`manager::Manager::cache`], implement [`reconcile::Reconciler`], describe the controller with
//! [`controller::Controller`], and add it with [`manager::Manager::add`].

pub mod admin;
pub mod apply;
pub mod backoff;
pub mod cache;
pub mod client;
pub mod clock;
pub mod conditions;
pub mod controller;
pub mod events;
pub mod finalizers;
pub mod health;
pub mod jitter;
pub mod key;
pub mod lease;
pub mod manager;
pub mod metrics;
pub mod migration;
pub mod mounted;
pub mod mutual_tls;
pub mod predicates;
pub mod queue;
pub mod reconcile;
mod rest;
pub mod retry;
pub mod signals;
pub mod upgradeable;
