//! The objects that a proxy consists of, built from a validated spec. Pure: no client, no clock.

pub mod config;
