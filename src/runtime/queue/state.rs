//! The queue's rules, without clock, lock or waiting: the time is an argument.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// What client-go's work queue promises, and at most one entry for each item:
///
/// - an item added several times before it is taken is taken once;
/// - an item is never handed out while it is being worked on; added meanwhile, it comes again once it is done;
/// - of two delays for one item the earlier counts.
///
/// Besides, an item can be added patiently: one that fails is not worked on any earlier for it.
#[derive(Debug)]
pub(super) struct State<T> {
    /// In the order in which they will be taken.
    ready: VecDeque<T>,
    /// What has to be worked on, with the time since when: everything in `ready`, and items added while in `processing`.
    dirty: BTreeMap<T, Instant>,
    /// What is being worked on, with the time since when.
    processing: BTreeMap<T, Instant>,
    /// When the delayed items are due, both ways round.
    due: BTreeMap<T, Instant>,
    by_due: BTreeSet<(Instant, T)>,
    /// Failures in a row.
    failures: BTreeMap<T, u32>,
    /// What was added patiently since it was last taken, after failures.
    patient: BTreeSet<T>,
}

impl<T> Default for State<T> {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            dirty: BTreeMap::new(),
            processing: BTreeMap::new(),
            due: BTreeMap::new(),
            by_due: BTreeSet::new(),
            failures: BTreeMap::new(),
            patient: BTreeSet::new(),
        }
    }
}

impl<T: Ord + Clone> State<T> {
    /// Marks `item` as having to be worked on. False if it was marked already.
    pub(super) fn add(&mut self, item: T, now: Instant) -> bool {
        if self.dirty.contains_key(&item) {
            return false;
        }
        if !self.processing.contains_key(&item) {
            self.ready.push_back(item.clone());
        }
        self.dirty.insert(item, now);
        true
    }

    /// Adds `item`; if it has failed, only once it does no more: until then it comes again after its back-off anyway.
    pub(super) fn add_patiently(&mut self, item: T, now: Instant) -> bool {
        if self.failures(&item) == 0 {
            return self.add(item, now);
        }
        self.patient.insert(item);
        false
    }

    /// Adds `item` at `due`, or earlier if it is already to be added earlier.
    pub(super) fn add_at(&mut self, item: T, due: Instant) {
        if let Some(&earlier) = self.due.get(&item) {
            if earlier <= due {
                return;
            }
            self.by_due.remove(&(earlier, item.clone()));
        }
        self.by_due.insert((due, item.clone()));
        self.due.insert(item, due);
    }

    /// Adds the delayed items whose time has come and returns how many were new.
    pub(super) fn promote(&mut self, now: Instant) -> u64 {
        let mut added = 0;
        while self.by_due.first().is_some_and(|(due, _)| *due <= now) {
            let Some((_, item)) = self.by_due.pop_first() else {
                break;
            };
            self.due.remove(&item);
            added += u64::from(self.add(item, now));
        }
        added
    }

    /// When the next delayed item is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.by_due.first().map(|(due, _)| *due)
    }

    /// Hands out the next item, with the time it waited since it was added.
    pub(super) fn take(&mut self, now: Instant) -> Option<(T, Duration)> {
        let item = self.ready.pop_front()?;
        self.patient.remove(&item);
        let waited = self
            .dirty
            .remove(&item)
            .map_or(Duration::ZERO, |since| now.duration_since(since));
        self.processing.insert(item.clone(), now);
        Some((item, waited))
    }

    /// Takes `item` back from the one who worked on it, and returns how long that took.
    pub(super) fn done(&mut self, item: &T, now: Instant) -> Duration {
        let worked = self
            .processing
            .remove(item)
            .map_or(Duration::ZERO, |since| now.duration_since(since));
        if self.dirty.contains_key(item) {
            self.ready.push_back(item.clone());
        }
        worked
    }

    /// Counts a failure of `item` and returns how many in a row came before it.
    pub(super) fn fail(&mut self, item: &T) -> u32 {
        let failures = self.failures.entry(item.clone()).or_default();
        let before = *failures;
        *failures = failures.saturating_add(1);
        before
    }

    /// How often in a row `item` has failed.
    pub(super) fn failures(&self, item: &T) -> u32 {
        self.failures.get(item).copied().unwrap_or(0)
    }

    /// Forgets the failures of `item`, which is being worked on, and the delay that they led to. It comes again, and the answer is true, if it was added
    /// patiently meanwhile: whoever works on it may not know of that.
    pub(super) fn forget(&mut self, item: &T, now: Instant) -> bool {
        self.failures.remove(item);
        if let Some(due) = self.due.remove(item) {
            self.by_due.remove(&(due, item.clone()));
        }
        self.patient.remove(item) && self.add(item.clone(), now)
    }

    /// How many items wait to be taken.
    pub(super) fn depth(&self) -> usize {
        self.ready.len()
    }

    /// For how long each item that is being worked on has been.
    pub(super) fn unfinished(&self, now: Instant) -> impl Iterator<Item = Duration> {
        self.processing
            .values()
            .map(move |since| now.duration_since(*since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(start: Instant, milliseconds: u64) -> Instant {
        start + Duration::from_millis(milliseconds)
    }

    #[test]
    fn an_item_added_twice_is_taken_once() {
        let (mut queue, now) = (State::default(), Instant::now());
        assert!(queue.add("a", now));
        assert!(!queue.add("a", now));
        assert_eq!(queue.take(now).map(|(item, _)| item), Some("a"));
        assert_eq!(queue.take(now), None);
    }

    #[test]
    fn an_item_added_while_it_is_worked_on_comes_again_once_it_is_done() {
        let (mut queue, now) = (State::default(), Instant::now());
        queue.add("a", now);
        queue.take(now);
        assert!(queue.add("a", now));
        assert_eq!(queue.take(now), None, "two workers would have the same item");
        queue.done(&"a", now);
        assert_eq!(queue.take(now).map(|(item, _)| item), Some("a"));
    }

    #[test]
    fn of_two_delays_the_earlier_counts_whichever_came_first() {
        let (mut queue, now) = (State::default(), Instant::now());
        queue.add_at("a", at(now, 20));
        queue.add_at("a", at(now, 10));
        queue.add_at("a", at(now, 30));
        assert_eq!(queue.next_due(), Some(at(now, 10)));
        assert_eq!(queue.promote(at(now, 9)), 0);
        assert_eq!(queue.promote(at(now, 10)), 1);
        assert_eq!(queue.next_due(), None);
    }

    #[test]
    fn an_event_cuts_through_a_delay() {
        let (mut queue, now) = (State::default(), Instant::now());
        queue.add_at("a", at(now, 1_000_000));
        queue.add("a", now);
        assert!(queue.take(now).is_some());
    }

    #[test]
    fn success_forgets_failures_and_their_delay() {
        let (mut queue, now) = (State::default(), Instant::now());
        assert_eq!((queue.fail(&"a"), queue.fail(&"a")), (0, 1));
        queue.add_at("a", at(now, 20));
        queue.forget(&"a", now);
        assert_eq!(queue.next_due(), None);
        assert_eq!(queue.fail(&"a"), 0);
    }

    #[test]
    fn what_is_added_patiently_waits_for_the_back_off_and_no_longer() {
        let (mut queue, now) = (State::default(), Instant::now());
        queue.fail(&"a");
        queue.add_at("a", at(now, 20));
        assert!(!queue.add_patiently("a", now));
        assert_eq!(queue.take(now), None);
        queue.promote(at(now, 20));
        assert!(queue.take(at(now, 20)).is_some());
        // It succeeds, and what has come since it was taken may be news.
        queue.add_patiently("a", at(now, 21));
        queue.forget(&"a", at(now, 22));
        queue.done(&"a", at(now, 22));
        assert!(queue.take(at(now, 22)).is_some());
        queue.forget(&"a", at(now, 23));
        queue.done(&"a", at(now, 23));
        assert_eq!(queue.take(at(now, 23)), None);
    }

    #[test]
    fn waiting_and_working_are_timed() {
        let (mut queue, now) = (State::default(), Instant::now());
        queue.add("a", now);
        assert_eq!(queue.take(at(now, 7)), Some(("a", Duration::from_millis(7))));
        assert_eq!(
            queue.unfinished(at(now, 10)).collect::<Vec<_>>(),
            [Duration::from_millis(3)]
        );
        assert_eq!(queue.done(&"a", at(now, 12)), Duration::from_millis(5));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Add(u8),
        AddPatiently(u8),
        Delay(u8, u64),
        Take,
        Succeed(u8),
        Fail(u8, u64),
        Wait(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0_u8..4).prop_map(Step::Add),
            ((0_u8..4), 0_u64..50).prop_map(|(item, delay)| Step::Delay(item, delay)),
            Just(Step::Take),
            (0_u8..4).prop_map(Step::AddPatiently),
            (0_u8..4).prop_map(Step::Succeed),
            ((0_u8..4), 0_u64..50).prop_map(|(item, delay)| Step::Fail(item, delay)),
            (0_u64..30).prop_map(Step::Wait),
        ]
    }

    proptest! {
        /// Whatever happens, nobody gets an item that another has, nothing is lost and nothing is kept twice.
        #[test]
        fn no_item_is_lost_doubled_or_worked_on_twice(steps in prop::collection::vec(step(), 0..200)) {
            let start = Instant::now();
            let (mut queue, mut now) = (State::default(), start);
            let mut held = BTreeSet::new();
            let mut wanted = BTreeSet::new();
            for step in steps {
                match step {
                    Step::Add(item) => {
                        queue.add(item, now);
                        wanted.insert(item);
                    }
                    Step::AddPatiently(item) => {
                        queue.add_patiently(item, now);
                        wanted.insert(item);
                    }
                    Step::Delay(item, delay) => {
                        queue.add_at(item, at(now, delay));
                        wanted.insert(item);
                    }
                    Step::Take => if let Some((item, _)) = queue.take(now) {
                        prop_assert!(held.insert(item), "{item} was handed out twice");
                        wanted.remove(&item);
                        if queue.due.contains_key(&item) {
                            wanted.insert(item);
                        }
                    },
                    Step::Succeed(item) => if held.remove(&item) {
                        // A delay that was set beside it is forgotten with those of failures.
                        if queue.due.contains_key(&item) && !queue.dirty.contains_key(&item) && !queue.patient.contains(&item) {
                            wanted.remove(&item);
                        }
                        queue.forget(&item, now);
                        queue.done(&item, now);
                    },
                    Step::Fail(item, delay) => if held.remove(&item) {
                        queue.fail(&item);
                        queue.add_at(item, at(now, delay));
                        wanted.insert(item);
                        queue.done(&item, now);
                    },
                    Step::Wait(time) => {
                        now = at(now, time);
                        queue.promote(now);
                    }
                }
                prop_assert!(queue.ready.len() + queue.processing.len() <= 4);
                prop_assert_eq!(queue.due.len(), queue.by_due.len());
            }
            for item in std::mem::take(&mut held) {
                queue.add_at(item, now);
                queue.done(&item, now);
            }
            queue.promote(at(now, 1_000));
            while let Some((item, _)) = queue.take(now) {
                wanted.remove(&item);
                queue.done(&item, now);
            }
            prop_assert!(wanted.is_empty(), "lost: {wanted:?}");
        }
    }
}
