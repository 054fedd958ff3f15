//! What the operator and the instance managers in a database's pods agree on: the files that the operator gives them, and what they say of
//! themselves.
//!
//! An instance manager may be older or newer than the operator, since an update of the operator restarts no database: fields are only ever added, and
//! one that the other side does not send is as if it knew nothing of it.

mod content;
mod lsn;
mod record;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use super::v1::Synchronous;
use crate::api::text::sha256_hex;
pub use content::{Extension, LogicalDatabase, MAX_UNMADE, MAX_UNMADE_TEXT, User};
pub use lsn::{Lsn, NotLsn};
pub use record::{Quorum, Record};

/// The port of a pod on which its instance manager answers over HTTPS.
pub const PORT: u16 = 8008;
/// The port of PostgreSQL.
pub const POSTGRES_PORT: u16 = 5432;
/// The longest [`Report`], in bytes: whoever asks reads no more.
pub const MAX_REPORT: usize = 64 << 10;
/// The file of [`Settings`] in the mounted ConfigMap.
pub const SETTINGS: &str = "instance.json";

/// Where the volume is mounted.
pub const DATA_DIR: &str = "/var/lib/roadstead";
/// Where the ConfigMap with [`SETTINGS`] is mounted.
pub const SETTINGS_DIR: &str = "/etc/roadstead/postgres";
/// Where the Secret with the authorities and the certificate of the instances is mounted.
pub const TLS_DIR: &str = "/etc/roadstead/tls";
/// What is in a Secret with a certificate: the authorities, the chain and its key.
pub const TLS_FILES: [&str; 3] = ["ca.crt", "tls.crt", "tls.key"];
/// Where the Secret with the certificate that the author names for PostgreSQL is mounted, if one is named. What is in it may come later than the pod.
pub const SERVER_TLS_DIR: &str = "/etc/roadstead/server-tls";
/// Where the owner's name and password are mounted.
pub const CREDENTIALS_DIR: &str = "/etc/roadstead/credentials";
/// The instance manager's private folder, in memory.
pub const RUN_DIR: &str = "/run/roadstead";

/// Anybody: 200 while the manager itself works. The kubelet ends the container when it does not.
pub const LIVENESS: &str = "/healthz";
/// Anybody: 200 while PostgreSQL serves in the role that this instance has.
pub const READINESS: &str = "/readyz";
/// Anybody: numbers for Prometheus.
pub const METRICS: &str = "/metrics";
/// Instances and the operator: a [`Report`] as JSON. Whoever asks compares its name with that of whom it meant.
pub const STATUS: &str = "/status";
/// Instances alone, at a path [`meant_for`] this one: POST of a [`Plea`], answered with 200 if it is granted and 409 with the reason as text if not.
pub const FAILSAFE: &str = "/failsafe";
/// The operator alone, as [`FAILSAFE`]: POST of a [`Handover`], answered with 202 once it has begun and 409 with the reason as text if it cannot.
pub const SWITCHOVER: &str = "/switchover";
/// The operator alone, as [`FAILSAFE`]: POST of a [`Restart`], answered with 202 once it has begun and 409 with the reason as text if there is none for it.
pub const RESTART: &str = "/restart";

/// The organisational unit in the certificate of an instance.
pub const INSTANCE_ROLE: &str = "instance";
/// The organisational unit in the certificate of the operator.
pub const OPERATOR_ROLE: &str = "operator";
/// The common name in the certificate of an instance, and the role by which instances replicate.
pub const REPLICATION_USER: &str = "roadstead_replication";
/// The label of a pod that says which [`Role`] it has.
pub const ROLE_LABEL: &str = "roadstead.dev/role";
/// The annotation of a database's Lease in which its instances keep a [`Record`]: what they need besides who holds it.
pub const RECORD: &str = "roadstead.dev/database";
/// The container in which the instance manager and PostgreSQL run.
pub const CONTAINER: &str = "postgres";

/// What the operator has decided for all instances of a database.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// The name of the Database, of its Lease, of a database and of the role that owns it.
    pub database: String,
    /// Where all of it is.
    pub namespace: String,
    /// The major version of PostgreSQL.
    pub major: u32,
    /// The instances that there are to be, by their ordinals.
    pub members: Vec<Member>,
    /// PostgreSQL's settings: the author's over those that the operator chooses by size. None that the instance manager owns.
    pub parameters: BTreeMap<String, String>,
    /// Whether a commit waits for a replica.
    pub synchronous: Synchronous,
    /// How far behind a replica may be and still take over where commits did not wait for it, in bytes of WAL.
    pub maximum_lag: u64,
    /// PostgreSQL's identifier of the data, once the operator knows it. Nothing else is ever initialised or served then.
    pub system_identifier: Option<String>,
    /// The members whose volumes were there before this Database, as long as no identifier is known: there may be data on them, so each has to say what it holds
    /// before any data is made or led.
    pub retained: BTreeSet<String>,
    /// Whether clients can connect over TLS.
    pub tls: bool,
    /// Whether clients have to.
    pub tls_required: bool,
    /// How long things take.
    pub timing: Timing,
    /// Instances that are about to be stopped: no commit waits for them as long as it need not.
    pub excused: BTreeSet<String>,
    /// From then on they are not excused any more.
    pub excused_until: Option<Timestamp>,
    /// The users besides the owner.
    pub users: Vec<User>,
    /// The databases, the one that is named as the Database among them.
    pub databases: Vec<LogicalDatabase>,
}

impl Settings {
    /// Whether an instance of this name is to be there.
    pub fn has_member(&self, name: &str) -> bool {
        self.members.iter().any(|member| member.name == name)
    }

    /// The names of all instances that are to be there but this one.
    pub fn others<'a>(&'a self, me: &'a str) -> impl Iterator<Item = &'a str> {
        let names = self.members.iter().map(|member| member.name.as_str());
        names.filter(move |name| *name != me)
    }
}

/// An instance, which is also a pod of the StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Member {
    /// The pod's name.
    pub name: String,
    /// Where the others find it: a DNS name or an address.
    pub host: String,
}

/// The times of the Lease, in milliseconds. Instances learn of other ones at different times; whoever may be primary goes by what was written into the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Timing {
    /// For how long a primary that fell silent keeps the Lease.
    pub lease_ms: u64,
    /// A primary that could not renew the Lease for so long stops at once.
    pub renew_deadline_ms: u64,
    /// How often it is renewed, and looked at.
    pub retry_ms: u64,
}

impl Timing {
    /// Of a Lease that a primary keeps for so many seconds.
    pub fn of(seconds: u32) -> Self {
        let lease_ms = u64::from(seconds) * 1000;
        Self {
            lease_ms,
            renew_deadline_ms: lease_ms / 3 * 2,
            // What is read is read as often, and other bounds count on that.
            retry_ms: (lease_ms / 6).clamp(1000, 2000),
        }
    }

    /// See [`Self::lease_ms`].
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// See [`Self::renew_deadline_ms`].
    pub fn renew_deadline(&self) -> Duration {
        Duration::from_millis(self.renew_deadline_ms)
    }

    /// See [`Self::retry_ms`].
    pub fn retry(&self) -> Duration {
        Duration::from_millis(self.retry_ms)
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self::of(6)
    }
}

/// Which part an instance plays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It takes writes.
    Primary,
    /// It follows the primary.
    Replica,
    /// Neither, for now.
    #[default]
    #[serde(other)]
    None,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Primary, Self::Replica, Self::None];

    /// As it is written in a [`Report`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Replica => "replica",
            Self::None => "none",
        }
    }

    /// What [`ROLE_LABEL`] says of a pod; none where it has no such label.
    pub fn label(self) -> Option<&'static str> {
        (self != Self::None).then(|| self.name())
    }
}

/// What an instance is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// It makes the first data.
    Initialising,
    /// It copies the data of the primary.
    Joining,
    /// It goes back to where it and the primary parted.
    Rewinding,
    /// PostgreSQL starts, and may have to recover first.
    Starting,
    /// It becomes the primary.
    Promoting,
    /// It is the primary.
    Leading,
    /// It follows the primary.
    Streaming,
    /// It is a replica that does not follow at the moment.
    Detached,
    /// It stops.
    Stopping,
    /// It cannot go on; its message says why.
    Failed,
    /// It waits for something that its message names.
    #[default]
    #[serde(other)]
    Waiting,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Initialising,
        Self::Joining,
        Self::Rewinding,
        Self::Starting,
        Self::Promoting,
        Self::Leading,
        Self::Streaming,
        Self::Detached,
        Self::Stopping,
        Self::Failed,
        Self::Waiting,
    ];

    /// As it is written in a [`Report`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Initialising => "Initialising",
            Self::Joining => "Joining",
            Self::Rewinding => "Rewinding",
            Self::Starting => "Starting",
            Self::Promoting => "Promoting",
            Self::Leading => "Leading",
            Self::Streaming => "Streaming",
            Self::Detached => "Detached",
            Self::Stopping => "Stopping",
            Self::Failed => "Failed",
            Self::Waiting => "Waiting",
        }
    }
}

/// What there is on an instance's volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Contents {
    /// Nothing.
    Nothing,
    /// Something of which PostgreSQL can make nothing.
    Broken,
    /// Data.
    Data,
    /// It was not looked at yet, or cannot be read.
    #[default]
    #[serde(other)]
    Unknown,
}

/// What an instance says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Report {
    /// The pod's name.
    pub name: String,
    /// How it would appear in the Lease: the pod's UID and a number that no other process has, with a dash between.
    pub identity: String,
    /// Whether its PostgreSQL has ended, and is never started again by whoever has this identity: if the Lease names it, that is as good as given back. Once its
    /// pod is deleted, the API server may take no write from it any more.
    pub gone: bool,
    /// Which part it plays.
    pub role: Role,
    /// What it is doing.
    pub state: State,
    /// For people: what it waits for, or why it failed.
    pub message: Option<String>,
    /// What there is on its volume.
    pub contents: Contents,
    /// PostgreSQL's identifier of its data, also while PostgreSQL is stopped.
    pub system_identifier: Option<String>,
    /// Whether its data is that of a primary, not of a replica.
    pub led: bool,
    /// Up to where, on which timeline, the log of that does not go, although it once did.
    pub lacks_up_to: Option<(u32, Lsn)>,
    /// Up to where it wrote as a primary what the timeline named here began without the last of ([`Record::missing_since`]): found once it is back.
    pub wrote_up_to: Option<(u32, Lsn)>,
    /// Whether PostgreSQL can make nothing of its data.
    pub damaged: bool,
    /// The timeline that it is on, also while PostgreSQL is stopped.
    pub timeline: Option<u32>,
    /// The timeline of its last checkpoint: nobody is rewound to it before that is the one that it is on.
    pub checkpoint: Option<u32>,
    /// How far its data goes, applied or not: what it has flushed as a primary, or received and flushed as a replica; none before that is known.
    pub received: Option<Lsn>,
    /// How long ago PostgreSQL said so, in milliseconds: what it has received since then is not told.
    pub looked_ms: Option<u64>,
    /// The same, and while PostgreSQL is stopped, or applies what it has, how far its data goes at least.
    pub end: Option<Lsn>,
    /// How far it has applied that.
    pub replayed: Option<Lsn>,
    /// Whether it is a replica that the primary sends to.
    pub streaming: bool,
    /// Whether it has a process that receives, or is about to: then it may have more than it says by now.
    pub receiving: bool,
    /// Those that stream from it.
    pub standbys: Vec<Standby>,
    /// How long ago a write of its own was committed, in milliseconds; a primary's alone.
    pub wrote_ms: Option<u64>,
    /// How long ago the API server last answered it, in milliseconds.
    pub api_ms: Option<u64>,
    /// The version of PostgreSQL that runs, such as `17.6`.
    pub version: Option<String>,
    /// The version of the instance manager.
    pub manager: String,
    /// The [`settings_hash`] of the settings that it goes by.
    pub settings: Option<String>,
    /// PostgreSQL's settings that take effect only after a restart.
    pub pending_restart: Vec<String>,
    /// Why settings were not taken, if they were not: of each that PostgreSQL refuses at most [`MAX_UNMADE_TEXT`] bytes, of [`MAX_UNMADE`] at most.
    pub refused: Option<String>,
    /// Why the certificate that the author names for PostgreSQL is not shown, and what is instead, if there is to be one.
    pub certificate: Option<String>,
    /// Who vouches for what PostgreSQL shows here, as PEM of at most 16 KiB: by these the other instances verify it, whatever they show themselves. Empty
    /// where it is the authority of the instances.
    pub authorities: String,
    /// Whether one of these was lowered of which a replica must have as much as its primary: the primary is to be started again first.
    pub lowered: bool,
    /// The last orderly stop of a primary after which writes were accepted here.
    pub pause: Option<Pause>,
    /// The [`settings_hash`] of the settings whose users, databases and extensions are all there; a primary's alone.
    pub made: Option<String>,
    /// Which of them are not, and why: at most [`MAX_UNMADE`] texts of [`MAX_UNMADE_TEXT`] bytes, such as
    /// `spec.users[app]: Secret app-password has no key password`. None of them tells a secret.
    pub unmade: Vec<String>,
}

/// For how long no write was accepted since a primary was stopped in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    /// How long, in milliseconds. Where two machines have a part in it, as their clocks have it.
    pub milliseconds: u64,
    /// When a write was acknowledged again.
    pub ended: Timestamp,
}

/// A replica as its primary sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Standby {
    /// The pod's name.
    pub name: String,
    /// What `pg_stat_replication` calls its state: `streaming`, `catchup`, `backup` and others.
    pub state: String,
    /// Whether commits may wait for it.
    pub synchronous: bool,
    /// How far it has written to disk.
    pub flushed: Option<Lsn>,
    /// How far it has applied.
    pub replayed: Option<Lsn>,
}

impl Standby {
    /// Whether it has caught up once, and receives what is written now.
    pub fn streams(&self) -> bool {
        self.state == "streaming"
    }
}

impl Report {
    /// Whether the instance of this name streams from the one that says so.
    pub fn streams_to(&self, name: &str) -> bool {
        let mut standbys = self.standbys.iter();
        standbys.any(|standby| standby.name == name && standby.streams())
    }
}

/// What a primary that cannot renew the Lease asks of the others: to confirm that they cannot reach the API server either, and not to take the Lease for
/// one lease duration from then on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plea {
    /// The holder that asks.
    pub holder: String,
    /// How often the Lease had changed hands when it took it.
    pub transitions: i32,
    /// For how long the holder claims the Lease from each renewal on: a promise has to last as long. Milliseconds.
    #[serde(default)]
    pub lease_ms: u64,
    /// Whether the API server answers the holder, too, and only takes no writes: then nobody else could take the Lease, and nothing would be won by its end.
    #[serde(default)]
    pub hears: bool,
}

/// What the operator asks of a primary: to stop in an orderly way, so that another one takes over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Handover {
    /// The pod's name of the instance that is to take over; the best one if there is none.
    pub to: Option<String>,
    /// For people.
    pub why: String,
}

/// What the operator asks of an instance: to start PostgreSQL again, since settings wait for that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Restart {
    /// For people.
    pub why: String,
}

/// The path, and which instance is meant. Their certificates are all alike, and an address may be another's by now: one that is not meant answers 421.
pub fn meant_for(instance: &str, path: &str) -> String {
    format!("{path}?instance={instance}")
}

/// What names settings: the SHA-256 of the file, in hex.
pub fn settings_hash(file: impl AsRef<[u8]>) -> String {
    sha256_hex(file)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_of_a_newer_manager_is_understood() {
        let report =
            r#"{"name": "a-0", "state": "Dreaming", "role": "arbiter", "received": "0/3000000", "mood": 1}"#;
        let report: Report = serde_json::from_str(report).unwrap();
        assert_eq!((report.state, report.role), (State::Waiting, Role::None));
        assert_eq!(report.received, Some(Lsn(0x300_0000)));
    }

    /// What serde takes for all that it does not know has to be the last one: so those before it are all there are.
    #[test]
    fn roles_and_states_are_called_the_same_in_a_report_and_everywhere_else() {
        for (role, index) in Role::ALL.into_iter().zip(0..) {
            assert_eq!((json!(role), role as usize), (json!(role.name()), index));
        }
        for (state, index) in State::ALL.into_iter().zip(0..) {
            assert_eq!((json!(state), state as usize), (json!(state.name()), index));
        }
        let last = (Role::None as usize, State::Waiting as usize);
        assert_eq!(last, (Role::ALL.len() - 1, State::ALL.len() - 1));
    }

    #[test]
    fn settings_of_an_older_operator_have_the_usual_times() {
        let settings: Settings = serde_json::from_str(r#"{"database": "orders"}"#).unwrap();
        assert_eq!(settings.timing.lease_ms, 6000);
        assert_eq!((settings.users.len(), settings.databases.len()), (0, 0));
    }
}
