//! RedisCluster: a Redis Cluster whose hash slots are spread over shards.
//!
//! [`v1`] is what is stored, [`v1alpha1`] the shape that users of the first version write, [`to_v1`] and [`to_v1alpha1`] go between them;
//! [`validate`] turns an object into a [`ValidRedisCluster`], the only form from which its objects and its configuration can be built.

mod convert;
mod limits;
mod served;
pub mod v1;
pub mod v1alpha1;
mod validate;

pub use convert::{status_to_v1, status_to_v1alpha1, to_v1, to_v1alpha1, versions};
pub use limits::{MAX_NAME, OPERATOR_USER};
pub use served::served;
pub use validate::{ValidRedisCluster, validate, validate_update};
