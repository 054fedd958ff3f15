//! ClusterServiceVersion, bundle and catalog. Works on manifests and knows no kind of ours, so it serves any operator.
//!
//! ```text
//! manifests + base ClusterServiceVersion ──bundle::generate──▶ bundle/ ──Rendered::read──▶ Catalog::add ──▶ catalog/
//!                                             ▲                                                │
//!                                             └────────────── spec.replaces ◀──────────────────┘
//! ```
//!
//! An operator on kube packages itself from its own types, in a build step or a subcommand of its own:
//!
//! ```
//! use kube::{CustomResource, CustomResourceExt as _};
//! use roadstead::olm::{Manifests, bundle, csv, described::Described};
//! use std::path::Path;
//!
//! #[derive(CustomResource, Clone, Debug, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
//! #[kube(group = "example.org", version = "v1", kind = "Widget", namespaced)]
//! struct WidgetSpec {
//!     size: u32,
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let deployment = serde_json::json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "widgets"},
//! #     "spec": {"template": {"spec": {"containers": [{"name": "operator", "image": "example.org/widgets:v1.0.0"}]}}}});
//! # let root = tempfile::tempdir()?;
//! # let root = root.path();
//! // Anything that serialises as an object: `deployment`, roles and bindings are of k8s-openapi, say. `Manifests::read` reads a folder of files
//! let mut manifests = Manifests::of_objects([Widget::crd()])?;
//! manifests.merge(Manifests::of_objects([deployment])?);
//! let described = Described { summary: Some("Makes widgets.".into()), ..Described::default() };
//! let options = bundle::Options {
//!     csv: csv::Options {
//!         package: "widgets".into(),
//!         version: "1.0.0".parse()?,
//!         image: None,
//!         digests: Default::default(),
//!         replaces: None,
//!     },
//!     channels: vec!["stable".into()],
//!     default_channel: "stable".into(),
//!     folder: "bundle".into(),
//!     installer: bundle::Installer::Olm,
//! };
//! let files = bundle::generate(&described.complete(manifests, Some("widgets"))?, &options)?;
//! files.write(root)?; // bundle/ and bundle.Dockerfile
//! # let csv = std::fs::read_to_string(root.join("bundle/manifests/widgets.clusterserviceversion.yaml"))?;
//! # assert!(csv.contains("name: widgets.example.org") && csv.contains("image: example.org/widgets:v1.0.0"), "{csv}");
//! # assert!(root.join("bundle/manifests/example.org_widgets.yaml").is_file() && root.join("bundle.Dockerfile").is_file());
//! # Ok(())
//! # }
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

pub mod accounts;
mod aggregation;
pub mod bounded;
pub mod bundle;
pub mod catalog;
mod cel;
mod contents;
pub mod csv;
pub mod described;
pub mod descriptors;
mod dockerfile;
mod encoding;
mod error;
pub mod fbc;
mod file_name;
pub mod findings;
pub mod icon;
pub mod images;
mod json;
mod lists;
pub mod manifests;
mod names;
pub mod oci;
mod opened;
mod pattern;
pub mod permissions;
mod pointer;
pub mod registry;
pub mod registry_v1;
pub mod status;
mod tree;
pub mod trial;
pub mod webhooks;
mod whole;
pub mod yaml;

pub use error::Error;
pub use manifests::Manifests;
pub use opened::OPENED;
pub use tree::{Difference, Tree};
