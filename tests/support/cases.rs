//! Many cases of one simulation, each of which can be replayed by itself.

use std::fmt::{Debug, Display};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

/// With this set to `full` or `every`, more cases are tried than the few that fit into `make check`.
const EXTENT: &str = "SIMULATION";
/// With this set to a case, that one alone is tried.
const REPLAY: &str = "REPLAY";

/// The first of three numbers for `make check`, the second for `make test`, the third for `make soak`.
pub fn extent<T>([few, full, every]: [T; 3]) -> T {
    match std::env::var(EXTENT).as_deref() {
        Err(_) => few,
        Ok("full") => full,
        Ok("every") => every,
        Ok(other) => panic!("{EXTENT} is '{other}': it must be full or every"),
    }
}

/// So many seeds: the same few in `make check`, so that a change is judged by what it changes, otherwise ones that no run has had before.
pub fn seeds(few: u64, many: u64) -> impl Iterator<Item = u64> + Clone {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a time after 1970");
    // A million of them for every millisecond.
    let new = u64::try_from(now.as_millis()).expect("a time before the year 500000000") << 20;
    let first = extent([1, new, new]);
    first..first + extent([few, many, many])
}

/// Runs each case on a paused clock of its own, as many at once as there are processors. One that fails is told together with the command
/// that replays it.
pub fn each<C>(test: &str, cases: impl IntoIterator<Item = C>, run: impl AsyncFn(C) + Sync)
where
    C: Display + FromStr<Err: Debug> + Clone + Send,
{
    let cases: Vec<C> = match std::env::var(REPLAY) {
        Ok(case) => vec![case.parse().expect("a case as it was printed")],
        Err(_) => cases.into_iter().collect(),
    };
    assert!(!cases.is_empty(), "a simulation without a case shows nothing");
    let left = Mutex::new(cases.into_iter());
    let failed = Mutex::new(None);
    let work = || {
        while let Some(case) = next(&left, &failed) {
            let attempt = catch_unwind(AssertUnwindSafe(|| on_a_paused_clock(run(case.clone()))));
            if let Err(panic) = attempt {
                eprintln!("replay it: {REPLAY}='{case}' cargo test --test simulation {test} -- --exact");
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
            }
        }
    };
    thread::scope(|scope| {
        let workers = thread::available_parallelism().map_or(1, usize::from);
        (0..workers).for_each(|_| {
            scope.spawn(work);
        });
    });
    if let Some(panic) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        resume_unwind(panic);
    }
}

/// The next case, unless one has failed.
fn next<C, P>(left: &Mutex<impl Iterator<Item = C>>, failed: &Mutex<Option<P>>) -> Option<C> {
    let has_failed = failed.lock().unwrap_or_else(PoisonError::into_inner).is_some();
    if has_failed {
        return None;
    }
    left.lock().unwrap_or_else(PoisonError::into_inner).next()
}

/// Runs `simulation` in virtual time.
pub fn on_a_paused_clock<T>(simulation: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.expect("a runtime").block_on(simulation)
}
