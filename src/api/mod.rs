//! The types that users write: one folder per kind, one file per version. Nothing here holds a client.

pub mod conversion;
pub mod database;
pub mod my_proxy;
pub mod problem;
pub mod resources;
pub mod rules;
#[cfg(test)]
mod testing;
