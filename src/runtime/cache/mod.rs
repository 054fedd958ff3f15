//! A local copy of the objects of one kind, kept up to date by a watch.
//!
//! kube's own reflector does not tell its subscribers of deletions, so the copy is kept here; the watch underneath (list in pages,
//! watch from there, list again when the server has forgotten where we were) is kube's.

mod follow;
mod guarded;
mod store;

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::watch;

pub use store::Change;

use super::key::{Object, ObjectKey};
pub(super) use follow::{Source, WatchedCache};
use store::Store;

/// The caches of a manager, of any kind, for whoever writes.
#[derive(Clone, Default)]
pub(super) struct Caches {
    caches: Arc<RwLock<Vec<Kept>>>,
}

/// What a cache was made for, and the cache.
type Kept = (Watch, Box<dyn Any + Send + Sync>);

impl Caches {
    pub(super) fn add<K: Object>(&self, watch: Watch, cache: Cache<K>) {
        self.caches
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .push((watch, Box::new(cache)));
    }

    /// The cache that was made for this, if there is one already.
    pub(super) fn get<K: Object>(&self, watch: &Watch, trim: Option<Trim<K>>) -> Option<Cache<K>> {
        let caches = self.caches.read().unwrap_or_else(PoisonError::into_inner);
        let mut same = caches.iter().filter(|(kept, _)| kept == watch);
        same.find_map(|(_, cache)| {
            let cache = cache.downcast_ref::<Cache<K>>()?;
            cache.is_trimmed_by(trim).then(|| cache.clone())
        })
    }

    /// Has every cache of the kind take over what the API server answered to a write.
    pub(super) fn note<K: Object>(&self, object: &K) {
        let caches = self.caches.read().unwrap_or_else(PoisonError::into_inner);
        let of_kind = caches
            .iter()
            .filter_map(|(_, cache)| cache.downcast_ref::<Cache<K>>());
        let of_kind: Vec<Cache<K>> = of_kind.cloned().collect();
        drop(caches);
        for cache in of_kind {
            cache.note(object.clone());
        }
    }
}

/// Takes from an object what nobody reads, before it is kept.
pub(super) type Trim<K> = fn(&mut K);

type Handler<K> = Arc<dyn Fn(&Change<K>) + Send + Sync>;

/// What a cache watches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    labels: Option<String>,
    fields: Option<String>,
}

impl Watch {
    /// Every object of the kind, in the namespaces that the manager watches.
    pub fn all() -> Self {
        Self::default()
    }

    /// Those with labels that match `selector`, in the API's own syntax.
    pub fn labelled(selector: impl Into<String>) -> Self {
        Self {
            labels: Some(selector.into()),
            fields: None,
        }
    }

    /// Of these, only those with fields that match `selector`, in the API's own syntax.
    #[must_use]
    pub fn fields(self, selector: impl Into<String>) -> Self {
        Self {
            fields: Some(selector.into()),
            ..self
        }
    }
}

/// A local copy of the objects of kind `K`. Clones share it.
///
/// It lags behind the API server, and may show an object as it was before one's own last write: whoever writes by it says so with a
/// `uid` or a `resourceVersion`. Reads never wait.
pub struct Cache<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    store: RwLock<Store<K>>,
    handlers: RwLock<Vec<Handler<K>>>,
    progress: watch::Sender<Progress>,
    failure: Mutex<Option<Failure>>,
    trim: Option<Trim<K>>,
}

/// Why a list or watch failed.
struct Failure {
    error: String,
    /// Whether the API server refused it, rather than could not do it.
    is_refusal: bool,
}

/// How far the watches of a cache are.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// How many there are; none before they are started.
    watches: usize,
    /// How often they were asked to list everything anew.
    round: u64,
    /// How many have not listed everything in this round.
    unsynced: usize,
    /// Whether all of them have listed everything once.
    filled: bool,
}

impl Progress {
    fn is_listed(&self) -> bool {
        self.watches > 0 && self.unsynced == 0
    }

    /// One more watch has listed everything in this round.
    fn advance(&mut self) {
        self.unsynced = self.unsynced.saturating_sub(1);
        self.filled |= self.is_listed();
    }
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K: Object> fmt::Debug for Cache<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("kind", &K::kind(&()))
            .field("len", &self.len())
            .finish()
    }
}

impl<K: Object> FromIterator<K> for Cache<K> {
    /// A cache of these objects that nobody keeps up to date: for tests of what only reads.
    fn from_iter<I: IntoIterator<Item = K>>(objects: I) -> Self {
        let cache = Self::empty();
        for object in objects {
            cache.apply(object);
        }
        cache
    }
}

impl<K: Object> Cache<K> {
    pub(super) fn empty() -> Self {
        Self::trimmed(None)
    }

    /// One that keeps of each object only what `trim` leaves.
    pub(super) fn trimmed(trim: Option<Trim<K>>) -> Self {
        let shared = Shared {
            store: RwLock::default(),
            handlers: RwLock::default(),
            progress: watch::Sender::default(),
            failure: Mutex::default(),
            trim,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    fn is_trimmed_by(&self, trim: Option<Trim<K>>) -> bool {
        match (self.shared.trim, trim) {
            (None, None) => true,
            // Where one function has two addresses there are two caches, which is no harm.
            (Some(one), Some(other)) => std::ptr::fn_addr_eq(one, other),
            _ => false,
        }
    }

    /// The object with this key.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.read().get(key)
    }

    /// Every object, in the order of their keys.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.read().list()
    }

    /// The key of every object, in order.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.read().keys()
    }

    /// The objects of one namespace, in the order of their names.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        self.read().in_namespace(namespace)
    }

    /// The objects whose controller is the object with this uid, in the order of their keys. Those that only name it as an owner, as a
    /// user may have written, are somebody else's.
    pub fn owned_by(&self, uid: &str) -> Vec<Arc<K>> {
        self.read().owned_by(uid)
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `handler` after every change from now on. It must not wait: the watch waits for it.
    pub fn on_change(&self, handler: impl Fn(&Change<K>) + Send + Sync + 'static) {
        let mut handlers = self
            .shared
            .handlers
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        handlers.push(Arc::new(handler));
    }

    /// Has every watch of this cache list everything anew, and waits until that is done: a watch may tell things late, a list does not.
    pub(super) async fn list_anew(&self) {
        self.shared.progress.send_modify(|progress| {
            progress.round += 1;
            progress.unsynced = progress.watches;
        });
        self.listed().await;
    }

    /// Waits until everything has been listed in the present round.
    async fn listed(&self) {
        let mut progress = self.shared.progress.subscribe();
        // Fails only when the sender is gone, and with it the cache that somebody waits for.
        let _ = progress.wait_for(Progress::is_listed).await;
    }

    fn apply(&self, mut object: K) {
        self.trim(&mut object);
        let change = self.write().apply(object);
        self.tell(change);
    }

    fn apply_newer(&self, mut object: K) {
        self.trim(&mut object);
        let change = self.write().apply_newer(object);
        self.tell(change);
    }

    /// Takes over what the API server answered to a write, if it is about an object that is known here: the next reconcile then does not see
    /// the object as it was before. The watch tells the same again, which changes nothing.
    pub(super) fn note(&self, mut object: K) {
        guarded::strip_object(&mut object);
        self.trim(&mut object);
        let change = self.write().note(object);
        self.tell(change);
    }

    fn trim(&self, object: &mut K) {
        if let Some(trim) = self.shared.trim {
            trim(object);
        }
    }

    fn remove(&self, key: &ObjectKey) {
        let change = self.write().remove(key);
        self.tell(change);
    }

    /// Calls the handlers, outside of the lock so that they can read the cache.
    fn tell(&self, changes: impl IntoIterator<Item = Change<K>>) {
        let handlers = self
            .shared
            .handlers
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for change in changes {
            for handler in &handlers {
                handler(&change);
            }
        }
    }

    /// The last failure, if nothing succeeded since.
    fn failure(&self) -> MutexGuard<'_, Option<Failure>> {
        self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, Store<K>> {
        self.shared.store.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Store<K>> {
        self.shared.store.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;

    #[test]
    fn a_trimmed_cache_never_keeps_what_nobody_reads() {
        let cache = Cache::<ConfigMap>::trimmed(Some(|object| object.data = None));
        let object = |version: &str| {
            let mut object = ConfigMap::default();
            object.metadata.name = Some("a".into());
            object.metadata.resource_version = Some(version.into());
            object.data = Some([("large".to_owned(), "text".to_owned())].into());
            object
        };
        let puts: [fn(&Cache<ConfigMap>, ConfigMap); 3] = [Cache::apply, Cache::apply_newer, Cache::note];
        for (put, version) in puts.into_iter().zip(["1", "2", "3"]) {
            put(&cache, object(version));
            let [kept] = cache.list().try_into().unwrap();
            assert_eq!(kept.metadata.resource_version.as_deref(), Some(version));
            assert_eq!(kept.data, None);
        }
    }
}
