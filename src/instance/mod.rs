//! What runs inside an operand's container: process supervision, and what each service needs there.
//!
//! The operator's binary is copied into the operand's container by [`install`], so it must run on whatever that image holds, or
//! does not hold. What it goes by are files and signals; a database's instances have a token as well, for their Lease, their pods' labels and Secrets that
//! the spec names.

pub mod install;
pub mod nginx;
pub mod orphans;
pub mod postgres;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use tokio::net::TcpListener;

/// Listens on every address, IPv6 included where the kernel knows it.
///
/// # Errors
/// When the port is taken.
pub(crate) async fn listen(port: u16) -> io::Result<TcpListener> {
    match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        Ok(listener) => Ok(listener),
        Err(_) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await,
    }
}
