//! How much a proxy may ask for: in the schema, which the API server goes by, and in [`super::validate`], which does not trust that.

/// The longest path of a route, in bytes.
pub const MAX_PATH: usize = 256;
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
