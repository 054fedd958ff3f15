//! The types that users write: one folder per kind, one file per version. Nothing here holds a client.

#[cfg(test)]
mod admission;
pub mod conversion;
pub mod cost;
pub mod database;
pub mod my_proxy;
pub mod placement;
pub mod problem;
pub mod quantity;
pub mod redis_cluster;
pub mod reference;
pub mod resources;
pub mod retention;
pub mod rules;
pub mod served;
pub mod settings;
#[cfg(test)]
mod testing;
pub mod text;
pub mod trino_cluster;
