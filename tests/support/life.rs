//! The main life cycle of a subject's kinds: what simulations go through with and without faults.

use crate::cases;
use crate::sim::world::snapshot::{self, Snapshot};
use crate::sim::world::{World, oracles};
use crate::subjects::Subject;

/// How it is when nothing goes wrong.
pub struct Undisturbed {
    pub snapshots: Vec<Snapshot>,
    /// How often the operator writes in it, its lease aside.
    pub writes: usize,
}

/// How a life went so far.
pub struct Course {
    expected: Option<&'static [Snapshot]>,
    taken: Vec<Snapshot>,
}

impl Course {
    /// The state after a step has to be the one without faults.
    pub fn compare(&mut self, world: &World, step: &str) {
        let snapshot = snapshot::take(world);
        if let Some(expected) = self.expected {
            snapshot::assert_same(&expected[self.taken.len()], &snapshot, step);
        }
        self.taken.push(snapshot);
    }

    /// The state has to be again as it was so many steps before.
    pub fn is_as_before(&self, steps: usize, what: &str) {
        let last = self.taken.len() - 1;
        snapshot::assert_same(&self.taken[last - steps], &self.taken[last], what);
    }
}

/// Lived once, and remembered.
pub fn without_faults(subject: &'static Subject) -> &'static Undisturbed {
    let lived = subject.undisturbed.get_or_init(|| {
        // On a thread of its own, since whoever asks may be in a simulation already.
        let lived = std::thread::spawn(move || {
            cases::on_a_paused_clock(async move {
                let mut world = World::new(subject);
                let snapshots = go_through(&mut world, None).await;
                Undisturbed {
                    snapshots,
                    writes: oracles::writes(&world),
                }
            })
        });
        lived.join().ok()
    });
    // Told once: with nothing to compare it with, no other life can be judged.
    lived.as_ref().unwrap_or_else(|| {
        panic!(
            "the life of {} fails without any fault: see the panic above",
            subject.name
        )
    })
}

/// Lives as without faults: after each step the cluster has to be as it was there.
pub async fn live(world: &mut World) {
    let expected = without_faults(world.subject);
    go_through(world, Some(&expected.snapshots)).await;
}

async fn go_through(world: &mut World, expected: Option<&'static [Snapshot]>) -> Vec<Snapshot> {
    let mut course = Course {
        expected,
        taken: Vec::new(),
    };
    (world.subject.life)(world, &mut course).await;
    oracles::deletes_name_a_uid(world);
    oracles::deletes_only_what_it_made(world);
    oracles::stays_within_its_role(world);
    course.taken
}
