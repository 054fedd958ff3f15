//! What the operator and the agent in its pods agree on.

/// The exit code of a check that nginx refused the configuration of, as opposed to a check that could not be made.
pub const REFUSED: u8 = 3;
/// The longest reason that a container may leave behind, in bytes: what the kubelet keeps of a termination message.
pub const MAX_REASON: usize = 4096;
