//! How long an object waits after it failed: `base`, doubled with every failure in a row, at most `max`.

use std::time::Duration;

/// Exponential back-off per object. The defaults are controller-runtime's: 5 ms doubling to 1000 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The wait after the first failure.
    pub base: Duration,
    /// No wait is longer than this.
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(5),
            max: Duration::from_secs(1000),
        }
    }
}

impl Backoff {
    /// The wait before the next try, after `failures` failures in a row that came before this one (0 for the first).
    pub fn delay(&self, failures: u32) -> Duration {
        let factor = 2_u32.checked_pow(failures).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case(0, 5)]
    #[case(1, 10)]
    #[case(2, 20)]
    #[case(10, 5_120)]
    #[case(17, 655_360)]
    #[case(18, 1_000_000)]
    #[case(1_000, 1_000_000)]
    fn the_default_doubles_from_5_ms_to_1000_s(#[case] failures: u32, #[case] milliseconds: u64) {
        assert_eq!(
            Backoff::default().delay(failures),
            Duration::from_millis(milliseconds)
        );
    }

    proptest! {
        #[test]
        fn a_wait_never_shrinks_nor_leaves_its_bounds(base in 1_u64..10_000, max in 1_u64..10_000_000, failures in 0_u32..100) {
            let backoff = Backoff { base: Duration::from_millis(base), max: Duration::from_millis(max) };
            prop_assert!(backoff.delay(failures) <= backoff.delay(failures + 1));
            prop_assert!(backoff.delay(failures) <= backoff.max);
            prop_assert!(backoff.delay(failures) >= backoff.base.min(backoff.max));
        }
    }
}
