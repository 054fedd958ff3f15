//! How quantities compare, and what follows for the resources of a container: a request is at most its limit.

use kube::core::{Message, Rule};
use schemars::{Schema, SchemaGenerator, json_schema};

use super::problem::Found;
use super::resources::Resources;
use super::rules::{check_quantities, is_dns_name, is_quantity};

/// Digits of a number that count; a volume of which more mattered would hold more than there is.
const DIGITS: usize = 18;
/// Billionths of one.
const ONE: u128 = 1_000_000_000;

/// How many billionths of one a quantity is, rounded up as Kubernetes does it; too much to count is `u128::MAX`. None if it is no
/// quantity at all.
pub(super) fn nanos(text: &str) -> Option<u128> {
    if !is_quantity(text) {
        return None;
    }
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = whole.trim_start_matches('0');
    let (mut mantissa, mut counted) = (0_u128, 0);
    // The power of ten that the mantissa is still to be multiplied by: one less for each digit of the fraction that is taken into it, one more
    // for each digit of the whole that is not.
    let mut tens = 0_i64;
    for (digit, is_whole) in whole
        .bytes()
        .map(|b| (b, true))
        .chain(fraction.bytes().map(|b| (b, false)))
    {
        let counts = counted < DIGITS;
        if counts {
            mantissa = mantissa * 10 + u128::from(digit - b'0');
            counted += usize::from(mantissa > 0);
        }
        tens += match (is_whole, counts) {
            (true, false) => 1,
            (false, true) => -1,
            _ => 0,
        };
    }
    let (two, ten) = scale(suffix);
    tens = tens.saturating_add(ten).saturating_add(9);
    if mantissa == 0 {
        return Some(0);
    }
    let scaled = mantissa << two;
    let factor = u32::try_from(tens.unsigned_abs())
        .ok()
        .and_then(|tens| 10_u128.checked_pow(tens));
    Some(match factor {
        Some(factor) if tens >= 0 => scaled.saturating_mul(factor),
        Some(factor) => scaled.div_ceil(factor),
        None if tens >= 0 => u128::MAX,
        None => 1,
    })
}

/// The powers of two and of ten that a suffix stands for.
fn scale(suffix: &str) -> (u32, i64) {
    match suffix {
        "Ki" => (10, 0),
        "Mi" => (20, 0),
        "Gi" => (30, 0),
        "Ti" => (40, 0),
        "Pi" => (50, 0),
        "Ei" => (60, 0),
        "n" => (0, -9),
        "u" => (0, -6),
        "m" => (0, -3),
        "k" => (0, 3),
        "M" => (0, 6),
        "G" => (0, 9),
        "T" => (0, 12),
        "P" => (0, 15),
        "E" => (0, 18),
        "" => (0, 0),
        exponent => {
            let digits = exponent.trim_start_matches(['e', 'E', '+']);
            let most = if digits.starts_with('-') { -1000 } else { 1000 };
            (
                0,
                digits.parse().map_or(most, |tens: i64| tens.clamp(-1000, 1000)),
            )
        }
    }
}

/// How many bytes a quantity is; too much to count is `u64::MAX`. None if it is no quantity, or not a whole number of bytes, as `512m`, which
/// people write for 512Mi, is not.
pub fn bytes(text: &str) -> Option<u64> {
    let nanos = nanos(text)?;
    (nanos == u128::MAX || nanos % ONE == 0).then(|| u64::try_from(nanos / ONE).unwrap_or(u64::MAX))
}

/// What [`check_bytes`] accepts, in words.
pub(super) const BYTES: &str = "a whole number of bytes above 0, such as 512Mi or 10Gi";

/// Has to be a size in bytes.
pub(super) fn check_bytes(found: &mut Found, field: &str, text: &str) {
    found.expect(bytes(text).is_some_and(|bytes| bytes > 0), field, text, BYTES);
}

/// Names and quantities as a container takes them, and no request above its limit.
pub(super) fn check_resources(found: &mut Found, field: &str, resources: &Resources) {
    for (part, quantities) in [("requests", &resources.requests), ("limits", &resources.limits)] {
        let field = format!("{field}.{part}");
        check_quantities(found, &field, quantities);
        for (name, quantity) in quantities {
            let is_known = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage")
                || name.strip_prefix("hugepages-").is_some_and(is_quantity)
                || name
                    .split_once('/')
                    .is_some_and(|(domain, name)| is_dns_name(domain) && is_qualified_part(name));
            let expected = "of cpu, memory, ephemeral-storage, hugepages-SIZE or an extended resource such as example.com/gpu";
            found.expect(is_known, &field, name, expected);
            if matches!(name.as_str(), "memory" | "ephemeral-storage") && is_quantity(&quantity.0) {
                check_bytes(found, &format!("{field}.{name}"), &quantity.0);
            }
        }
    }
    for (name, request) in &resources.requests {
        let Some(limit) = resources.limits.get(name) else {
            continue;
        };
        let fits = match (nanos(&request.0), nanos(&limit.0)) {
            (Some(request), Some(limit)) => request <= limit,
            _ => true,
        };
        let expected = format!("at most the limit, which is {}", limit.0);
        found.expect(fits, &format!("{field}.requests.{name}"), &request.0, &expected);
    }
}

/// The part after the slash of a label's key or an extended resource's name.
pub(super) fn is_qualified_part(text: &str) -> bool {
    let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && is_end(text.chars().next())
        && is_end(text.chars().last())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// As a quantity's own schema, without its page of text. That it may be null is added to a field with a default unless it says otherwise, and
/// an object in which it is null could not be read.
pub(super) fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-int-or-string": true, "nullable": false})
}

/// For the schema of a field that holds [`Resources`]: the request for `name` is at most its limit. What is no quantity passes here.
pub(super) fn request_within_limit(name: &str) -> Rule {
    let (request, limit) = (
        format!("string(self.requests['{name}'])"),
        format!("string(self.limits['{name}'])"),
    );
    Rule::new(format!(
        "!has(self.requests) || !has(self.limits) || !('{name}' in self.requests) || !('{name}' in self.limits) || \
         !isQuantity({request}) || !isQuantity({limit}) || quantity({request}).compareTo(quantity({limit})) <= 0"
    ))
    .message(Message::Expression(format!(
        "'requests.{name} is %s; it must be at most the limit, which is %s'.format([{request}, {limit}])"
    )))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case("1", "1000m")]
    #[case("1.5Gi", "1536Mi")]
    #[case("0.5", "500m")]
    #[case("1k", "1e3")]
    #[case("12e6", "12M")]
    #[case("1E", "1000P")]
    #[case("000.001", "1m")]
    #[case("+2", "2")]
    #[case("1E-3", "1m")]
    #[case("0e99999999999", "0")]
    #[case("0.0000000001", "1n")]
    fn the_same_amount_written_otherwise_is_equal(#[case] one: &str, #[case] other: &str) {
        assert_eq!(nanos(one), nanos(other));
        assert!(nanos(one).is_some());
    }

    #[rstest]
    #[case("1G", "1Gi")]
    #[case("999m", "1")]
    #[case("1023Mi", "1Gi")]
    #[case("9Ei", "1e99")]
    #[case("0", "1e-99999999999")]
    #[case("9999999999999999998", "10000000000000000000")]
    fn less_is_less(#[case] less: &str, #[case] more: &str) {
        assert!(nanos(less).unwrap() < nanos(more).unwrap());
    }

    #[rstest]
    #[case("512Mi", Some(512 << 20))]
    #[case("1e3", Some(1000))]
    #[case("512m", None)]
    #[case("1e99", Some(u64::MAX))]
    #[case("64MB", None)]
    fn bytes_are_whole(#[case] text: &str, #[case] expected: Option<u64>) {
        assert_eq!(bytes(text), expected);
    }

    #[rstest]
    #[case::fits(json!({"requests": {"cpu": "500m"}, "limits": {"cpu": 1, "example.com/gpu": 1}}), &[])]
    #[case::above(json!({"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}}), &["r.requests.memory"])]
    #[case::milli_bytes(json!({"limits": {"memory": "512m"}}), &["r.limits.memory"])]
    #[case::no_quantity(json!({"limits": {"memory": "1GB"}}), &["r.limits.memory"])]
    #[case::unknown(json!({"requests": {"mem": "1Gi"}}), &["r.requests"])]
    fn resources_are_such_as_a_pod_takes(#[case] resources: serde_json::Value, #[case] fields: &[&str]) {
        let mut found = Found::default();
        check_resources(&mut found, "r", &serde_json::from_value(resources).unwrap());
        let problems = found.done().err();
        let named: Vec<_> = problems
            .iter()
            .flat_map(|p| p.list())
            .map(|p| p.field.as_str())
            .collect();
        assert_eq!(named, fields);
    }

    proptest! {
        #[test]
        fn every_quantity_has_an_amount(text in "[+]?[0-9]{0,40}[.]?[0-9]{0,40}([eE][+-]?[0-9]{0,25}|[numkMGTPE]i?)?") {
            prop_assert_eq!(nanos(&text).is_some(), is_quantity(&text));
        }
    }
}
