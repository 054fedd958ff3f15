use std::time::Duration;

use super::failure::{Again, Failure};
use super::{Limits, Watch};

/// Does something until it goes well, cannot go well, or was tried often enough.
pub(super) async fn retrying<T>(
    limits: Limits,
    watch: &dyn Watch,
    mut work: impl AsyncFnMut() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut attempt = 1;
    loop {
        let failure = match work().await {
            Ok(done) => return Ok(done),
            Err(failure) => failure,
        };
        let Some(pause) = pause(limits, failure.again, attempt) else {
            return Err(match attempt {
                1 => failure,
                _ => failure.with_remedy(&format!("it was tried {attempt} times")),
            });
        };
        watch.notes(&format!(
            "{failure}; it is tried again in {:.1} s",
            pause.as_secs_f64()
        ));
        tokio::time::sleep(pause).await;
        attempt += 1;
    }
}

/// How long to wait before the next attempt; none if there is to be none. A registry that asks for more patience than there is is not asked again
/// before its time.
fn pause(limits: Limits, again: Again, attempt: u32) -> Option<Duration> {
    if attempt >= limits.attempts {
        return None;
    }
    let doubled = limits.pause.saturating_mul(1 << (attempt - 1).min(16));
    match again {
        Again::Never => None,
        Again::Soon => Some(doubled.min(limits.longest_pause)),
        Again::After(asked) => (asked <= limits.longest_pause).then_some(asked.max(limits.pause)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(Again::Never, 1, None)]
    #[case(Again::Soon, 1, Some(500))]
    #[case(Again::Soon, 3, Some(2000))]
    #[case(Again::Soon, 5, None)]
    #[case(Again::After(Duration::from_secs(7)), 1, Some(7000))]
    #[case(Again::After(Duration::ZERO), 1, Some(500))]
    #[case(Again::After(Duration::from_secs(3600)), 1, None)]
    fn pauses_grow_and_end(#[case] again: Again, #[case] attempt: u32, #[case] expected: Option<u64>) {
        let found = pause(Limits::default(), again, attempt);
        assert_eq!(found, expected.map(Duration::from_millis));
    }
}
