//! Waits that differ a little between processes, so that they do not all knock at the same moment; the same for the same seed.

use std::time::Duration;

/// A source of small random factors (splitmix64), for nothing that has to be secret.
#[derive(Clone, Debug)]
pub struct Jitter {
    state: u64,
}

impl Jitter {
    /// The same seed gives the same factors.
    pub fn seeded(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A seed made of a name (FNV-1a).
    pub fn named(name: &str) -> Self {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self::seeded(hash)
    }

    /// `wait`, made longer by up to `fraction` of itself.
    pub fn stretch(&mut self, wait: Duration, fraction: f64) -> Duration {
        wait.mul_f64(1.0 + self.next_unit() * fraction.max(0.0))
    }

    /// The next factor, at least 0 and less than 1.
    pub fn next_unit(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        // The 53 upper bits fill the mantissa: in [0, 1).
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_stretched_wait_stays_within_its_bounds_and_is_repeatable(seed in any::<u64>()) {
            let wait = Duration::from_secs(2);
            let stretched = Jitter::seeded(seed).stretch(wait, 1.2);
            prop_assert!(stretched >= wait && stretched <= wait.mul_f64(2.2));
            prop_assert_eq!(stretched, Jitter::seeded(seed).stretch(wait, 1.2));
        }
    }
}
