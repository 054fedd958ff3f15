//! What runs inside an operand's container: process supervision, and what each service needs there.
//!
//! The operator's binary is copied into the operand's container by [`install`], so it must run on whatever that image holds, or
//! does not hold. It learns everything from files and signals: an operand's pod has no API token.

pub mod install;
pub mod nginx;
pub mod orphans;
pub mod postgres;
