//! What names, images and quantities look like: rules of Kubernetes that the specs of all kinds share.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::problem::Found;

/// The longest name of an object that becomes a label value or the name of a Service, in bytes.
pub const MAX_NAME: usize = 63;
/// The longest host name, and the longest name of a Secret, in bytes.
pub const MAX_HOST: usize = 253;
/// The longest image reference, in bytes.
pub const MAX_IMAGE: usize = 500;

/// What [`is_label`] accepts, in words.
pub(super) const LABEL: &str =
    "a DNS label: at most 63 of a-z, 0-9 and '-', beginning with a letter and not ending in '-'";

/// Each has to be a quantity.
pub(super) fn check_quantities(found: &mut Found, field: &str, quantities: &BTreeMap<String, Quantity>) {
    for (name, Quantity(text)) in quantities {
        let field = format!("{field}.{name}");
        found.expect(
            is_quantity(text),
            &field,
            text,
            "a quantity such as 100m, 1, 64Mi or 1.5Gi",
        );
    }
}

/// RFC 1035: what a Service may be called.
pub(super) fn is_label(text: &str) -> bool {
    text.len() <= MAX_NAME && text.starts_with(|c: char| c.is_ascii_lowercase()) && is_dns_segment(text)
}

pub(super) fn is_dns_segment(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 63
        && !text.starts_with('-')
        && !text.ends_with('-')
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// RFC 1123: labels of lower-case letters, digits and dashes, joined by dots.
pub(super) fn is_dns_name(text: &str) -> bool {
    text.len() <= MAX_HOST && text.split('.').all(is_dns_segment)
}

/// What the API server takes for an image reference, and a little less.
pub(super) fn is_image(text: &str) -> bool {
    text.len() <= MAX_IMAGE
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._:/@-".contains(&b))
}

/// The grammar of a quantity that is not negative: a decimal number, then a suffix or an exponent of ten.
pub(super) fn is_quantity(text: &str) -> bool {
    const SUFFIXES: [&str; 16] = [
        "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
    ];
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let has_digit = number.bytes().any(|b| b.is_ascii_digit());
    let exponent = suffix.strip_prefix(['e', 'E']).unwrap_or_default();
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let is_exponent = !exponent.is_empty() && exponent.bytes().all(|b| b.is_ascii_digit());
    has_digit && number.matches('.').count() <= 1 && (SUFFIXES.contains(&suffix) || is_exponent)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::plain("1", true)]
    #[case::milli("100m", true)]
    #[case::fraction("1.5Gi", true)]
    #[case::exa("1E", true)]
    #[case::exbi("1Ei", true)]
    #[case::exponent("12e6", true)]
    #[case::signed_exponent("1E-3", true)]
    #[case::no_fraction("1.", true)]
    #[case::no_whole(".5", true)]
    #[case::negative("-1", false)]
    #[case::bytes("64MB", false)]
    #[case::no_number("Mi", false)]
    #[case::two_dots("1.2.3", false)]
    #[case::dot(".", false)]
    #[case::no_exponent("1e", false)]
    #[case::nothing("", false)]
    fn quantities_are_those_of_the_api(#[case] text: &str, #[case] accepted: bool) {
        assert_eq!(is_quantity(text), accepted);
    }
}
