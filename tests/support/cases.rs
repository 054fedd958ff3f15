//! Many cases of one simulation, each of which can be replayed by itself.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::str::FromStr;

/// With this set to `full`, all cases are tried instead of the fixed few that fit into `make check`.
const EXTENT: &str = "SIMULATION";
/// With this set to a case, that one alone is tried.
const REPLAY: &str = "REPLAY";

/// Whether all cases are wanted.
pub fn all_wanted() -> bool {
    std::env::var(EXTENT).is_ok_and(|extent| extent == "full")
}

/// Runs each case on a paused clock of its own. The first that fails is told together with the command that replays it.
pub fn each<C>(test: &str, cases: impl IntoIterator<Item = C>, run: impl AsyncFn(C))
where
    C: Display + FromStr<Err: std::fmt::Debug> + Clone,
{
    let replayed = std::env::var(REPLAY).ok();
    let cases: Vec<C> = match &replayed {
        Some(case) => vec![case.parse().expect("a case as it was printed")],
        None => cases.into_iter().collect(),
    };
    for case in cases {
        let attempt = catch_unwind(AssertUnwindSafe(|| on_a_paused_clock(run(case.clone()))));
        if let Err(panic) = attempt {
            eprintln!("replay it: {REPLAY}={case} cargo test --test simulation {test} -- --exact");
            resume_unwind(panic);
        }
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
