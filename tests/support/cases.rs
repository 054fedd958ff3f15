//! Many cases of one simulation, each of which can be replayed by itself.

pub mod shrink;

use std::any::Any;
use std::fmt::{Debug, Display};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use shrink::Steps;

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

/// So many seeds: the same ones in `make check` and `make test`, so that a change is judged by what it changes, and ones that no run has had before
/// in `make soak`, which looks for what nobody has met.
pub fn seeds(few: u64, many: u64) -> impl Iterator<Item = u64> + Clone {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a time after 1970");
    // A million of them for every millisecond.
    let new = u64::try_from(now.as_millis()).expect("a time before the year 500000000") << 20;
    let first = extent([1, 1, new]);
    first..first + extent([few, many, many])
}

/// Runs each case on a paused clock of its own, as many at once as there are processors. One that fails is told together with the command
/// that replays it.
pub fn each<C>(test: &str, cases: impl IntoIterator<Item = C>, run: impl AsyncFn(C) + Sync)
where
    C: Display + FromStr<Err: Debug> + Clone + Send,
{
    let play = |case: &C| catch_unwind(AssertUnwindSafe(|| on_a_paused_clock(run(case.clone()))));
    until_one_fails(test, cases, play, |case, failure| (case, failure));
}

/// The same of cases that can do with less: the shortest is told that is found to fail, and nothing of what fails meanwhile.
pub fn each_shortened<C>(test: &str, cases: impl IntoIterator<Item = C>, run: impl AsyncFn(C) + Sync)
where
    C: Steps + Display + FromStr<Err: Debug> + Clone + Send,
{
    let aloud = |case: &C| catch_unwind(AssertUnwindSafe(|| on_a_paused_clock(run(case.clone()))));
    let hushed = |case: &C| shrink::hushed(|| aloud(case));
    let play = |case: &C| {
        if case.is_listed() {
            aloud(case)
        } else {
            hushed(case)
        }
    };
    until_one_fails(test, cases, play, |mut case, mut failure| {
        if !case.is_listed() {
            let steps = case.steps();
            eprintln!("{case} fails. Fewer than its {} steps are tried.", steps.len());
            let fails = |fewer: &[C::Step]| hushed(&case.only(fewer)).is_err();
            case = case.only(&shrink::shortened(steps, fails));
            let again = aloud(&case).err();
            failure = again.expect("what failed fails again: simulations are deterministic");
        }
        // Of what is listed not everything has to happen.
        let steps = case.steps();
        eprintln!(
            "What is enough ({} steps; with none, it fails by itself):",
            steps.len()
        );
        for step in &steps {
            eprintln!("  {}", C::line(step));
        }
        (case.only(&steps), failure)
    });
}

type Failure = Box<dyn Any + Send>;

/// Has the first failure looked into, and ends with what comes of that.
fn until_one_fails<C>(
    test: &str,
    cases: impl IntoIterator<Item = C>,
    play: impl Fn(&C) -> Result<(), Failure> + Sync,
    look_into: impl Fn(C, Failure) -> (C, Failure) + Sync,
) where
    C: Display + FromStr<Err: Debug> + Send,
{
    let cases: Vec<C> = match std::env::var(REPLAY) {
        Ok(case) => vec![case.parse().expect("a case as it was printed")],
        Err(_) => cases.into_iter().collect(),
    };
    assert!(!cases.is_empty(), "a simulation without a case shows nothing");
    let left = Mutex::new(cases.into_iter());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let (has_failed, failed) = (AtomicBool::new(false), Mutex::new(None));
    let work = || {
        while let Some(case) = next().filter(|_| !has_failed.load(Ordering::Relaxed)) {
            let Err(failure) = play(&case) else {
                continue;
            };
            if has_failed.swap(true, Ordering::Relaxed) {
                eprintln!("{REPLAY}='{case}' fails as well.");
                continue;
            }
            let (case, failure) = look_into(case, failure);
            eprintln!("replay it: {REPLAY}='{case}' cargo test --test simulation {test} -- --exact");
            *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
        }
    };
    thread::scope(|scope| {
        let workers = thread::available_parallelism().map_or(1, usize::from);
        (0..workers).for_each(|_| {
            scope.spawn(work);
        });
    });
    if let Some(failure) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        resume_unwind(failure);
    }
}

/// Runs `simulation` in virtual time.
pub fn on_a_paused_clock<T>(simulation: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.expect("a runtime").block_on(simulation)
}
