//! How a lag is told. Pure.

/// Who is less behind than this is not behind: as much is on its way while all is well. Bytes.
const NO_LAG: u64 = 1 << 20;

/// 0 while it is less than [`NO_LAG`], rounded up to a power of two from there. Exact numbers would differ each time that somebody asks, and be written each time.
pub fn coarse(behind: u64) -> u64 {
    if behind < NO_LAG {
        0
    } else {
        behind.checked_next_power_of_two().unwrap_or(behind)
    }
}
