//! The registry of a catalog: what OLM's `CatalogSource` asks, over gRPC.
//!
//! ```text
//! folder ──fbc::read──▶ Index (what every list needs, in memory; where everything is, on disk) ──▶ Answers ──▶ serve
//!    ▲                                                                                               │
//!    └──────────────────────────────── watched: another Index takes its place ◀──────────────────────┘
//! ```
//!
//! Answers are those of `opm serve`, field by field. What is only asked for one bundle at a time, its ClusterServiceVersion and objects, is read from disk when it is
//! asked for.

mod answers;
mod by_name;
mod convert;
mod csv;
mod disk;
mod follow;
mod index;
mod places;
mod serve;
pub(in crate::olm) mod sizes;
mod watched;

pub use answers::Answers;
pub use index::{Index, Refused};
pub use places::Patience;
pub use serve::{Limits, serve};
pub use watched::Watched;

/// Messages and services, as `registry.proto` defines them.
#[allow(
    missing_docs,
    clippy::doc_markdown,
    clippy::derive_partial_eq_without_eq,
    reason = "generated"
)]
pub mod api {
    tonic::include_proto!("api");

    /// The definition itself, for reflection.
    pub const DESCRIPTION: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/registry.bin"));
}
