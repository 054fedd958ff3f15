//! Compares quantities by what they mean: the API server stores `1000m` as `1`.

/// The suffixes of the API's quantities, as powers of two and of ten.
const BINARY: [(&str, u32); 6] = [
    ("Ki", 10),
    ("Mi", 20),
    ("Gi", 30),
    ("Ti", 40),
    ("Pi", 50),
    ("Ei", 60),
];
const DECIMAL: [(&str, i32); 9] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];

/// Whether both are quantities of the same size.
pub(super) fn same(left: &str, right: &str) -> bool {
    matches!((nano(left), nano(right)), (Some(left), Some(right)) if left == right)
}

/// The quantity in thousand-millionths; `None` when it is none or does not fit.
fn nano(text: &str) -> Option<i128> {
    if let Some((digits, shift)) = BINARY
        .iter()
        .find_map(|(suffix, shift)| Some((text.strip_suffix(suffix)?, shift)))
    {
        return decimal(digits, 9)?.checked_mul(1_i128 << shift);
    }
    if let Some((digits, power)) = DECIMAL
        .iter()
        .find_map(|(suffix, power)| Some((text.strip_suffix(suffix)?, power)))
    {
        return decimal(digits, 9 + power);
    }
    match text.split_once(['e', 'E']) {
        Some((digits, power)) => decimal(digits, 9_i32.checked_add(power.parse().ok()?)?),
        None => decimal(text, 9),
    }
}

/// The decimal number `text` times ten to the `power`, if that is whole.
fn decimal(text: &str, power: i32) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = fraction.trim_end_matches('0');
    let power = power.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let unscaled: i128 = format!("{whole}{fraction}").parse().ok()?;
    let scale = 10_i128.checked_pow(power.unsigned_abs())?;
    if power >= 0 {
        unscaled.checked_mul(scale)
    } else {
        (unscaled % scale == 0).then_some(unscaled / scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("1000m", "1", true)]
    #[case("1", "1.0", true)]
    #[case("1Gi", "1024Mi", true)]
    #[case("1G", "1000M", true)]
    #[case("0.5Gi", "512Mi", true)]
    #[case("1e3", "1k", true)]
    #[case("100u", "0.1m", true)]
    #[case("1Gi", "1G", false)]
    #[case("1", "2", false)]
    #[case("", "", false)]
    #[case("a", "a", false)]
    #[case("1e99999999999", "1", false)]
    fn quantities_are_compared_by_size(#[case] left: &str, #[case] right: &str, #[case] expected: bool) {
        assert_eq!(same(left, right), expected);
    }
}
