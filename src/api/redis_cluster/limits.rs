//! How much a cluster may ask for, and what it may not set: in the schema, which the API server goes by, and in [`super::validate`],
//! which does not trust that.

use kube::core::{Message, Rule};

use crate::api::settings::Names;

/// The longest name of a cluster, in bytes. A pod carries the label controller-revision-hash, at most 63 bytes long, with the name of its
/// StatefulSet, NAME-replica-5 at the longest, a dash and a hash of 10.
pub const MAX_NAME: usize = 42;
/// Shards of a cluster.
pub const MAX_SHARDS: i32 = 500;
/// Replicas of a shard; one digit, for [`MAX_NAME`].
pub const MAX_REPLICAS: i32 = 5;
/// Nodes of a cluster, replicas included: where gossip is said to take too much.
pub const MAX_NODES: i32 = 1000;
/// Users of the access control list.
pub const MAX_USERS: usize = 64;
/// The longest name of a user, in bytes.
pub const MAX_USER: usize = 63;
/// The Redis user that the operator itself is.
pub const OPERATOR_USER: &str = "roadstead";

/// What a size may be, in words.
pub(super) const SIZE: &str =
    "1, or 3 and more: with 2 shards neither could be failed over, for more than half of them have to vote";
/// What a name may be, in words.
pub(super) const NAME: &str = "a DNS label of at most 42 of a-z, 0-9 and '-', beginning with a letter and not ending in '-', since a label of its pods holds it with 21 characters more";

/// What the rules of ACL users may not do: the password comes from the Secret. Redis takes these words in any case.
pub(super) const PASSWORD_RULES: [&str; 4] = ["nopass", "resetpass", "reset", "clearselectors"];
/// The marks with which rules add or remove passwords and hashes of them.
pub(super) const PASSWORD_MARKS: [char; 4] = ['>', '<', '#', '!'];
/// What rules of a user are, in words.
pub(super) const USER_RULES: &str = "rules of a Redis ACL without passwords (>, <, #, !, nopass, resetpass) and without reset and clearselectors: the password comes from passwordSecret";

/// Settings that the operator makes itself, or that would take a node out of its hands.
pub(super) const OWNED: Names = Names {
    exact: &[
        "aclfile",
        "appenddirname",
        "appendfilename",
        "appendonly",
        "bind",
        "bind-source-addr",
        "daemonize",
        "databases",
        "dbfilename",
        "dir",
        "include",
        "loadmodule",
        "logfile",
        "masterauth",
        "masteruser",
        "pidfile",
        "port",
        "primaryauth",
        "primaryuser",
        "protected-mode",
        "rdb-del-sync-files",
        "rename-command",
        "replica-read-only",
        "replicaof",
        "requirepass",
        "shutdown-timeout",
        "slave-read-only",
        "slaveof",
        "supervised",
        "user",
    ],
    prefixes: &[
        "cluster-",
        "enable-",
        "min-replicas-",
        "min-slaves-",
        "rdma-",
        "replica-announce",
        "shutdown-on-",
        "slave-announce",
        "syslog-",
        "tls-",
        "unixsocket",
    ],
    suffixes: &[],
    because: "the operator sets it, or keeps it as Redis has it; accepted are other settings of redis.conf, such as maxmemory-policy",
};

/// For the schema of both versions: a size that can be failed over.
pub(super) fn size_rule() -> Rule {
    Rule::new("self.size != 2")
        .message(Message::Message(format!("size is 2; it must be {SIZE}")))
        .field_path(".size")
}

/// For the schema of both versions: a name that fits.
pub(super) fn name_rule() -> Rule {
    let length = MAX_NAME;
    Rule::new(format!(
        "self.metadata.name.size() <= {length} && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')"
    ))
    .message(Message::Expression(format!(
        "'metadata.name is %s; it must be {}'.format([self.metadata.name])",
        NAME.replace('\'', "")
    )))
}
