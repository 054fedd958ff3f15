//! What runs inside an operand's container: process supervision, and what each service needs there.

pub mod nginx;
