//! Who owns which slots, as one node sees it.

use std::collections::BTreeMap;

use super::super::slots::{SLOTS, Slot, Slots};
use super::Id;

/// Each slot once, as ranges: a world of tests that looks at 16384 slots one after another takes minutes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners(BTreeMap<Id, Slots>);

impl Owners {
    /// Whose this slot is; 0 where it is nobody's.
    pub fn owner(&self, slot: Slot) -> Id {
        let mut owners = self.0.iter();
        owners
            .find(|(_, slots)| slots.contains(slot))
            .map_or(0, |(id, _)| *id)
    }

    /// What this node has.
    pub fn slots(&self, id: Id) -> &Slots {
        const NONE: &Slots = &Slots::none();
        self.0.get(&id).unwrap_or(NONE)
    }

    /// All that have any.
    pub fn iter(&self) -> impl Iterator<Item = (Id, &Slots)> {
        self.0.iter().map(|(id, slots)| (*id, slots))
    }

    /// Whether each slot is somebody's.
    pub fn are_complete(&self) -> bool {
        self.0.values().map(Slots::len).sum::<u16>() == SLOTS
    }

    /// Whoever had them, has them no more; with 0, nobody does.
    pub fn give(&mut self, slots: &Slots, id: Id) {
        self.0.retain(|_, owned| {
            *owned = owned.difference(slots);
            !owned.is_empty()
        });
        if id != 0 && !slots.is_empty() {
            let owned = self.0.entry(id).or_default();
            *owned = owned.union(slots);
        }
    }

    /// The same, of one slot.
    pub fn give_one(&mut self, slot: Slot, id: Id) {
        if self.owner(slot) != id {
            self.give(&Slots::range(slot, slot), id);
        }
    }

    /// What one has, goes to another; to 0, to nobody.
    pub fn pass_on(&mut self, from: Id, to: Id) {
        let slots = self.0.remove(&from).unwrap_or_default();
        self.give(&slots, to);
    }
}
