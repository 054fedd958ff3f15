//! Updates of the operator wait while a database changes hands. Instances need no operator for that; but whoever looks at an update that went wrong
//! wants to see one thing happen at a time.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::decide::Intent;
use super::status::{AVAILABLE, Seen, is_degraded};
use super::step::Course;
use crate::api::database::v1::DatabaseStatus;
use crate::runtime::key::ObjectKey;
use crate::runtime::upgradeable::{Hold, Upgradeable};

/// What is under way, in a word, and how long it may take: what takes longer waits for a person, and perhaps for an update.
type UnderWay = (&'static str, Duration);
const FAILOVER: UnderWay = ("Failover", Duration::from_secs(10 * 60));
const ROLLOUT: UnderWay = ("Rollout", Duration::from_secs(60 * 60));

/// What holds updates back, one thing for each database.
#[derive(Debug, Default)]
pub struct Holds(Mutex<HashMap<ObjectKey, (&'static str, Hold)>>);

impl Holds {
    /// Holds updates back as long as something is under way with this database, and no longer than its limit.
    pub fn keep(&self, key: ObjectKey, under_way: Option<UnderWay>, upgradeable: &Upgradeable) {
        let mut holds = self.lock();
        let Some((reason, limit)) = under_way else {
            holds.remove(&key);
            return;
        };
        if holds.get(&key).is_some_and(|(held, _)| *held == reason) {
            return;
        }
        let hold = upgradeable.hold(reason, &format!("Database {key}"), limit);
        holds.insert(key, (reason, hold));
    }

    /// The database is gone.
    pub fn gone(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, (&'static str, Hold)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is under way, if updates are to wait for it.
pub fn under_way(seen: &Seen<'_>, status: &DatabaseStatus) -> Option<UnderWay> {
    if is_degraded(status, AVAILABLE) {
        return Some(FAILOVER);
    }
    match seen.intent {
        Intent::CarryOut(_, decided) if decided.course != Course::Done => Some(ROLLOUT),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::controllers::database::scene::Scene;

    fn of(scene: &Scene) -> Option<UnderWay> {
        scene.seen(under_way)
    }

    #[test]
    fn updates_wait_for_a_failover_and_for_a_rollout_and_for_nothing_else() {
        assert_eq!(of(&Scene::well().known()), None);
        let lost = Scene::well().known().change(|scene| scene.lease.holder = None);
        assert_eq!(of(&lost), Some(FAILOVER));
        let new = Scene::well().change(|scene| scene.lease.holder = None);
        assert_eq!(of(&new), None, "it has not served yet");
        let changed = Scene::of(json!({"resources": {"limits": {"memory": "4Gi"}}})).known();
        assert_eq!(of(&changed), Some(ROLLOUT));
        let paused = Scene::of(json!({"paused": true})).known();
        assert_eq!(of(&paused), None);
    }

    #[test]
    fn a_database_holds_updates_back_once_and_lets_go() {
        let (holds, upgradeable) = (Holds::default(), Upgradeable::new(None));
        let key = || ObjectKey::namespaced("shop", "orders");
        holds.keep(key(), Some(ROLLOUT), &upgradeable);
        holds.keep(key(), Some(FAILOVER), &upgradeable);
        assert_eq!(
            holds
                .lock()
                .values()
                .map(|(reason, _)| *reason)
                .collect::<Vec<_>>(),
            [FAILOVER.0]
        );
        holds.keep(key(), None, &upgradeable);
        assert!(holds.lock().is_empty());
    }
}
