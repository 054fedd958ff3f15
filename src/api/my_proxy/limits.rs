//! How much a proxy may ask for: in the schema, which the API server goes by, and in [`super::validate`], which does not trust that.

/// The longest name of an object or Deployment, in bytes: both become label values, and the first the name of a Service.
pub const MAX_NAME: usize = 63;
/// The longest host name, and the longest name of a Secret, in bytes.
pub const MAX_HOST: usize = 253;
/// The longest path of a route, in bytes.
pub const MAX_PATH: usize = 256;
/// The longest image reference, in bytes.
pub const MAX_IMAGE: usize = 500;
/// Upstreams of a proxy.
pub const MAX_UPSTREAMS: usize = 64;
/// Servers of an upstream.
pub const MAX_SERVERS: usize = 16;
/// Routes of a proxy.
pub const MAX_ROUTES: usize = 128;
/// Pods of a proxy.
pub const MAX_REPLICAS: i32 = 1000;
/// The greatest weight of a server.
pub const MAX_WEIGHT: i32 = 100;
