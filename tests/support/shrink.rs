//! A case that fails is made shorter as long as it still fails.

use std::cell::Cell;
use std::panic;
use std::sync::Once;
use std::thread;

/// How often less is tried.
pub const ATTEMPTS: usize = 60;

/// A case that can do with less.
pub trait Steps: Sized {
    type Step: Clone;

    /// What happened in it when it was last played, in that order.
    fn steps(&self) -> Vec<Self::Step>;

    /// Whether it says which steps it is made of. Whoever plays such a one wants that one, and nothing shorter.
    fn is_listed(&self) -> bool;

    /// The same case with these steps alone.
    fn only(&self, steps: &[Self::Step]) -> Self;

    /// A step in a line, for people.
    fn line(step: &Self::Step) -> String;
}

/// As little of `list` as can be found to fail in so many attempts: without all of it, its halves, their halves, and so on; then without
/// each single one, until all that are left are needed.
pub fn shortened<T: Clone>(mut list: Vec<T>, mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut left = ATTEMPTS;
    let mut size = list.len();
    while size > 0 && !list.is_empty() {
        let before = list.len();
        // From the end, for what comes last often follows from the failure.
        let mut end = before;
        while end > 0 {
            let Some(fewer) = left.checked_sub(1) else {
                return list;
            };
            left = fewer;
            let start = end.saturating_sub(size);
            let rest = [&list[..start], &list[end..]].concat();
            if fails(&rest) {
                list = rest;
            }
            end = start;
        }
        size = match size {
            1 if list.len() < before => 1,
            _ => size / 2,
        };
    }
    list
}

thread_local! {
    static HUSHED: Cell<bool> = const { Cell::new(false) };
}

/// Does something; what this thread panics about meanwhile is not printed.
pub fn hushed<T>(step: impl FnOnce() -> thread::Result<T>) -> thread::Result<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |told| {
            if !HUSHED.get() {
                print(told);
            }
        }));
    });
    HUSHED.set(true);
    let done = step();
    HUSHED.set(false);
    done
}
