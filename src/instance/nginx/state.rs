//! What the supervisor knows and the probes tell.

/// What the agent knows of its nginx.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The generation that nginx serves; none before it has started.
    pub generation: Option<String>,
    /// The hash of its `nginx.conf`.
    pub config: Option<String>,
    /// The hash of the mounted `nginx.conf`, if that can be read.
    pub mounted: Option<String>,
    /// Why the mounted files are not what is served, if they are not.
    pub refused: Option<String>,
    /// Set once it was asked to stop.
    pub stopping: bool,
    /// Reloads that took effect.
    pub reloads: u64,
    /// Configurations and certificates that were refused here.
    pub refusals: u64,
}
