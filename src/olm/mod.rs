//! ClusterServiceVersion, bundle and catalog. Works on manifests and knows no kind of ours, so it serves any operator.
//!
//! ```text
//! manifests + base ClusterServiceVersion ──bundle::generate──▶ bundle/ ──Rendered::read──▶ Catalog::add ──▶ catalog/
//!                                             ▲                                                │
//!                                             └────────────── spec.replaces ◀──────────────────┘
//! ```
//!
//! On the command line (every folder can be another one, so that a test publishes version by version without touching what is
//! checked in):
//!
//! ```sh
//! roadstead bundle generate --input config --catalog S/catalog --output S/bundle \
//!     --version 0.2.0 --image localhost:5000/roadstead-operator:v0.2.0
//! #   writes S/bundle/{manifests,metadata,tests} and S/bundle.Dockerfile (build context: S)
//! roadstead catalog generate --bundle S/bundle --output S/catalog [--channels candidate]
//! #   writes S/catalog/roadstead/catalog.yaml and S/catalog.Dockerfile (build context: S); the bundle image's name is derived
//! #   from the operator's (localhost:5000/roadstead-bundle:v0.2.0) unless --bundle-image says another
//! ```

pub mod bundle;
pub mod catalog;
mod contents;
pub mod csv;
pub mod described;
pub mod descriptors;
mod error;
pub mod fbc;
pub mod findings;
pub mod icon;
pub mod images;
mod json;
pub mod manifests;
mod names;
pub mod oci;
mod opened;
pub mod permissions;
mod pointer;
pub mod registry;
pub mod registry_v1;
pub mod status;
mod tree;
pub mod trial;
pub mod webhooks;
pub mod yaml;

pub use error::Error;
pub use manifests::Manifests;
pub use opened::OPENED;
pub use tree::{Difference, Tree};
