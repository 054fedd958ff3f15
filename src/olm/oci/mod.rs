//! Images of bundles and catalogs, without a container tool: built as OCI image layouts, pushed to registries, pulled from them and unpacked.
//!
//! ```text
//! a bundle's folder ──bundle::image───▶ Content ──layout::write──▶ a layout, in a folder or a tar
//! a catalog's folder ──catalog::image─▶  │  ▲ ◀──layout::open───
//!                                        │  └──Registry::pull── a registry
//!                                        ├──Registry::push──▶ a registry
//!                                        └──unpack──▶ a bundle's folder
//! ```
//!
//! What is built is the same to the byte each time. What is read is verified by its digest, and has bounds on everything that somebody else decides.

mod build;
pub mod bundle;
pub mod catalog;
mod content;
pub mod credentials;
mod digest;
mod elf;
mod error;
mod files;
mod layer;
pub mod layout;
mod name;
mod output;
pub mod registry;
mod types;
pub mod unpack;
mod watch;

pub use build::Created;
pub use content::Content;
pub use digest::Digest;
pub use error::Error;
pub use name::{Name, Version};
pub(super) use output::own;
pub use output::{Scratch, remove_what_is_unfinished};
pub use types::{Descriptor, Platform};
pub use watch::Watch;
