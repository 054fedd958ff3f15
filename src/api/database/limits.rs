//! How much a database may ask for: in the schema, which the API server goes by, and in [`super::validate`], which does not trust that. Also the
//! default that both versions share.

/// The longest name of a Database, in bytes. The tightest of the objects named after it decide: a StatefulSet's pods carry
/// `NAME-HASH` as the label `controller-revision-hash` (63 less a dash and 10 of hash), a CronJob's Jobs are `NAME-MINUTES` (63 less 11),
/// and the Service `NAME-instances` would leave one byte more.
pub const MAX_NAME: usize = 52;
/// The oldest major version of PostgreSQL that is known to work.
pub const MIN_MAJOR: u32 = 14;
/// The newest major version of PostgreSQL that is known to work.
pub const MAX_MAJOR: u32 = 18;
/// The longest version, such as `17.10`, in bytes.
pub const MAX_VERSION: usize = 5;
/// Instances of a database: every one confirms to every other, and all of them stand in one Lease.
pub const MAX_INSTANCES: i32 = 9;
/// The longest quantity that is a string in the schema, in bytes.
pub const MAX_QUANTITY: usize = 32;
/// The smallest volume: what initdb writes, and a few segments of WAL.
pub const MIN_STORAGE: &str = "256Mi";
/// The least memory that a container may be limited to.
pub const MIN_MEMORY: &str = "128Mi";
/// The greatest loss that may be agreed to: more is not a replica that lags, but one that is broken.
pub const MAX_LAG: &str = "1Gi";
/// The shortest time in seconds for which a primary that fell silent keeps the Lease: less is what a busy API server or node takes now and then.
pub const MIN_LEASE: i32 = 6;
/// The longest, in seconds: nobody takes writes meanwhile.
pub const MAX_LEASE: i32 = 60;
/// PostgreSQL's settings.
pub const MAX_PARAMETERS: usize = 100;
/// The longest value of a setting, in bytes.
pub const MAX_VALUE: usize = 1000;
/// PostgreSQL's own bound on a name (NAMEDATALEN less its end), in bytes.
pub const MAX_IDENTIFIER: usize = 63;
/// Users of a database.
pub const MAX_USERS: usize = 64;
/// Roles that a user is a member of.
pub const MAX_MEMBER_OF: usize = 16;
/// The greatest limit on a user's connections, PostgreSQL's own bound on `max_connections` for all of them.
pub const MAX_CONNECTIONS: i32 = 262_143;
/// Databases inside a Database.
pub const MAX_DATABASES: usize = 32;
/// Extensions of a database.
pub const MAX_EXTENSIONS: usize = 32;
/// The longest cron expression, in bytes.
pub const MAX_SCHEDULE: usize = 100;
/// When backups are made if their author does not say.
pub const DEFAULT_SCHEDULE: &str = "0 2 * * *";
