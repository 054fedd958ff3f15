//! Who may have how many connections at once: all together so many, and nobody all of them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places of a server.
#[derive(Debug)]
pub(super) struct Places {
    all: Arc<Semaphore>,
    each: usize,
    taken: Arc<Mutex<BTreeMap<IpAddr, usize>>>,
}

/// One of the places, free again when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
    peer: IpAddr,
    taken: Arc<Mutex<BTreeMap<IpAddr, usize>>>,
}

impl Places {
    /// So many for `all`, of which nobody has more than `each`.
    pub(super) fn new(all: usize, each: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(all)),
            each,
            taken: Arc::default(),
        }
    }

    /// Waits until a place is free.
    pub(super) async fn free(&self) -> Option<OwnedSemaphorePermit> {
        // Fails when the semaphore is closed, which it never is.
        Arc::clone(&self.all).acquire_owned().await.ok()
    }

    /// The place for whoever has come to take it, or `None` when that address has its share.
    pub(super) fn take(&self, permit: OwnedSemaphorePermit, peer: IpAddr) -> Option<Place> {
        let mut taken = lock(&self.taken);
        let count = taken.entry(peer).or_default();
        if *count >= self.each {
            return None;
        }
        *count += 1;
        Some(Place {
            _permit: permit,
            peer,
            taken: Arc::clone(&self.taken),
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        if let Some(count) = taken.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.peer);
            }
        }
    }
}

/// Nothing that is done with it can panic halfway.
fn lock(taken: &Mutex<BTreeMap<IpAddr, usize>>) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const GREEDY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    #[tokio::test]
    async fn nobody_takes_the_places_of_others_and_what_ends_makes_room() {
        let places = Places::new(3, 2);
        let take = async |peer| {
            let permit = places.free().await.unwrap();
            places.take(permit, peer)
        };
        let first = take(GREEDY).await.unwrap();
        let _second = take(GREEDY).await.unwrap();
        assert!(take(GREEDY).await.is_none(), "it has its share");
        let other = take(OTHER).await.unwrap();
        assert_eq!(places.all.available_permits(), 0);
        drop(other);
        assert_eq!(lock(&places.taken).len(), 1, "who has none is forgotten");
        drop(first);
        assert!(take(GREEDY).await.is_some());
    }
}
