//! Keys and certificates of our own: an authority that lives in a Secret, what it issues, and whether a client would believe it.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`authority`] | what a Secret with an authority should hold, decided from what it holds. No client, no clock |
//! | [`trust`] | whether a client would accept a certificate, given a bundle |
//!
//! The webhook's authority and those of databases go by the same step.

pub mod authority;
mod pair;
#[cfg(test)]
pub(crate) mod testing;
pub mod trust;
pub(crate) mod x509;

use rustls::pki_types::CertificateDer;

pub use pair::{Pair, PairError};
pub use x509::Validity;

/// By what a client should judge the certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// By authorities of our own.
    Authorities(Vec<CertificateDer<'static>>),
    /// By somebody else's, which we are not told: OLM mounts the certificate without its authority.
    Theirs,
}

/// What is served, and by what it is to be judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Served {
    /// The certificate and its key.
    pub pair: Pair,
    /// Who vouches for it.
    pub trust: Trust,
}
