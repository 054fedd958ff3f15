//! The reasons of conditions, each a word by which Events, docs and alerts know it. All are here, so that none is spelt twice; an instance that is on its way has the
//! name of its state as a reason, too.

/// The spec breaks a rule.
pub const INVALID_SPEC: &str = "InvalidSpec";
/// An object of that name is somebody else's.
pub const NAME_TAKEN: &str = "NameTaken";
/// The API server refuses an object.
pub const REJECTED: &str = "Rejected";
/// An object cannot be written at present.
pub const BLOCKED: &str = "Blocked";
/// An instance does not take its settings.
pub const REFUSED: &str = "Refused";
/// The author asks that nothing be changed.
pub const PAUSED: &str = "Paused";
/// What the spec asks for is not done yet by this version.
pub const UNSUPPORTED: &str = "Unsupported";
/// The certificate that the author names is not shown.
pub const CERTIFICATE_REFUSED: &str = "CertificateRefused";
/// A user, a database or an extension is not there.
pub const CONTENT_INCOMPLETE: &str = "ContentIncomplete";
/// Volumes cannot be as the spec says.
pub const NOT_GROWN: &str = "VolumesNotGrown";
/// Volumes are on their way to what the spec says.
pub const RESIZING: &str = "Resizing";
/// Instances are brought to where the spec has them, one by one.
pub const ROLLING_OUT: &str = "RollingOut";
/// Instances have not taken yet what they were told.
pub const LOADING: &str = "Loading";
/// Instances go by all of the spec.
pub const APPLIED: &str = "Applied";
/// The primary takes writes.
pub const AVAILABLE: &str = "Available";
/// Nobody holds the Lease.
pub const NO_PRIMARY: &str = "NoPrimary";
/// The pod of the primary is gone.
pub const PRIMARY_LOST: &str = "PrimaryLost";
/// The primary's pod does not run.
pub const PRIMARY_NOT_RUNNING: &str = "PrimaryNotRunning";
/// The primary is not ready, and does not say why.
pub const PRIMARY_NOT_READY: &str = "PrimaryNotReady";
/// An instance becomes the primary.
pub const PROMOTING: &str = "Promoting";
/// The primary does not write.
pub const NO_WRITES: &str = "NoWrites";
/// The primary writes, and no commit of a client comes to an end.
pub const COMMITS_WAIT: &str = "CommitsWait";
/// What an instance says is not known.
pub const UNREACHABLE: &str = "InstancesUnreachable";
/// Instances are not asked.
pub const NOT_ASKED: &str = "NotAsked";
/// Every wanted replica streams.
pub const STREAMING: &str = "Streaming";
/// A wanted replica does not stream.
pub const NOT_STREAMING: &str = "ReplicasNotStreaming";
/// A single instance has no replicas.
pub const NO_REPLICAS: &str = "NoReplicas";
/// Something has to be there first.
pub const WAITING: &str = "Waiting";
/// Pods are missing.
pub const SCALING: &str = "Scaling";
/// A pod starts.
pub const STARTING: &str = "Starting";
/// Nothing is under way.
pub const COMPLETE: &str = "Complete";
/// It has not served in full yet.
pub const CREATING: &str = "Creating";
/// All that streamed before do, and new ones not yet.
pub const GROWING: &str = "Growing";
/// It serves in full.
pub const AS_EXPECTED: &str = "AsExpected";
/// The database is being deleted.
pub const DELETING: &str = "Deleting";
/// An instance is not ready, though all replicas stream.
pub const NOT_READY: &str = "InstancesNotReady";
/// All is well: the word of [`Conditions::ready_from`](crate::runtime::conditions::Conditions::ready_from).
pub const READY: &str = "Ready";
