//! The simulated cluster as a place where people act.

use std::time::Duration;

use tokio::time::sleep;

use super::{World, oracles};
use crate::mutator::Ground;
use crate::people::People;
use crate::sim::store::Objects;
use crate::subjects::Subject;

impl Ground for World {
    fn subject(&self) -> &'static Subject {
        self.subject
    }

    fn people(&self) -> &People {
        &self.people
    }

    async fn look(&self) -> Objects {
        self.sim.with(|store| store.objects().clone())
    }

    async fn wait(&mut self, seconds: u32) {
        sleep(Duration::from_secs(seconds.into())).await;
    }

    async fn until(&mut self, what: &str, holds: impl Fn(&Objects) -> bool) {
        World::until(self, what, |world| world.sim.with(|store| holds(store.objects()))).await;
    }

    async fn restart_operator(&mut self) {
        self.crash();
    }

    async fn nothing_is_left_to_write(&mut self) {
        oracles::a_further_reconcile_writes_nothing(self).await;
    }

    fn set_clock(&mut self, seconds: i64) {
        World::set_clock(self, seconds);
    }

    fn mend(&mut self) {
        self.cluster.mend();
    }
}
