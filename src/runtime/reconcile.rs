//! What a controller is made of: a function from an object to what to do next.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;

use super::apply::Applier;
use super::clock::Clock;
use super::events::Events;
use super::key::{Object, ObjectKey};
use super::retry::ReconcileError;
use super::upgradeable::Upgradeable;

/// Brings the cluster to what an object asks for.
///
/// It is called for one object at a time, never twice at once for the same one, after every change that its controller's predicates let
/// pass, and from the beginning each time: it must not count on having been called for an earlier change.
pub trait Reconciler: Send + Sync + 'static {
    /// The kind that users write.
    type Kind: Object;
    /// What can go wrong.
    type Error: ReconcileError;

    /// Does what is left to do for `object`, which is as the cache has it: at times older than what was last written.
    ///
    /// A panic or a timeout is caught and counts as a failure of this object alone.
    fn reconcile(
        &self,
        object: Arc<Self::Kind>,
        context: &Context,
    ) -> impl Future<Output = Result<Next, Self::Error>> + Send;

    /// Called when the object of this key is no more: a place to forget what was kept in memory for it. A panic in it is caught.
    fn gone(&self, _key: &ObjectKey) {}
}

/// What a reconcile needs besides its object.
#[derive(Clone)]
pub struct Context {
    pub(super) client: Client,
    pub(super) applier: Applier,
    pub(super) events: Events,
    pub(super) clock: Clock,
    pub(super) upgradeable: Upgradeable,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Context")
    }
}

impl Context {
    /// The client whose writes are refused when this process does not lead. For reads, and for writes to the primary object;
    /// children are written by [`Self::apply`] alone.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Writes children and status.
    pub fn apply(&self) -> &Applier {
        &self.applier
    }

    /// Tells people what happened.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Holds updates of this operator back while something is under way that they must not cut off.
    pub fn upgradeable(&self) -> &Upgradeable {
        &self.upgradeable
    }

    /// The time of day at the API server: for conditions, and to be compared with the times in objects.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// When a reconcile that succeeded is to be repeated. It is repeated on every change in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Not before something changes.
    OnChange,
    /// After this time, if nothing changes before.
    After(Duration),
}
