//! Names as Kubernetes takes them.

use super::Error;

/// The longest label, in characters: of DNS, and of Kubernetes.
pub(super) const LONGEST_LABEL: usize = 63;
/// The longest name of an object, in characters.
pub(super) const LONGEST_SUBDOMAIN: usize = 253;

/// Lower-case letters, digits and dashes, of which none begins or ends it.
fn is_part(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.iter().all(|&byte| inner(byte) || byte == b'-')
        && bytes.first().is_some_and(|&byte| inner(byte))
        && bytes.last().is_some_and(|&byte| inner(byte))
}

/// RFC 1123.
pub(super) fn is_dns_label(name: &str) -> bool {
    name.len() <= LONGEST_LABEL && is_part(name)
}

/// RFC 1035: a label that begins with a letter.
pub(super) fn is_dns_1035_label(name: &str) -> bool {
    is_dns_label(name) && name.starts_with(|first: char| first.is_ascii_lowercase())
}

/// Whether something is the name of a package, by the rule of `opm`; `field` is where it was found.
///
/// # Errors
/// [`Error::NotAPackage`]
pub(super) fn check_package(field: &str, name: &str) -> Result<(), Error> {
    if is_dns_label(name) {
        Ok(())
    } else {
        Err(Error::NotAPackage {
            field: field.to_owned(),
            name: name.to_owned(),
        })
    }
}

/// What RBAC takes: the API server reads it as one part of a path.
pub(super) fn is_path_segment(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '%'])
}

/// The name of a channel. An annotation holds several, between commas and perhaps spaces.
pub(super) fn is_channel(name: &str) -> bool {
    let parts = |it: char| it == ',' || it.is_whitespace() || it.is_control();
    !name.is_empty() && !name.contains(parts)
}

/// Labels with dots between. Kubernetes bounds the whole, not each.
pub(super) fn is_dns_subdomain(name: &str) -> bool {
    name.len() <= LONGEST_SUBDOMAIN && name.split('.').all(is_part)
}

/// A name as keys of labels have it: perhaps a domain and a slash, and letters, digits, dashes, underscores and dots, of which the last three neither begin nor
/// end it.
pub(super) fn is_qualified_name(name: &str) -> bool {
    match name.split_once('/') {
        Some((domain, name)) => is_dns_subdomain(domain) && is_label_value(name) && !name.is_empty(),
        None => is_label_value(name) && !name.is_empty(),
    }
}

/// The same without a domain; it may be empty.
pub(super) fn is_label_value(value: &str) -> bool {
    let bytes = value.as_bytes();
    let ends = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    value.len() <= LONGEST_LABEL
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
        && ends(bytes.first())
        && ends(bytes.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_lower_case_and_short() {
        for good in ["a", "roadstead", "a-b-9", "9a", &"a".repeat(63)] {
            assert!(is_dns_label(good), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a_b", &"a".repeat(64)] {
            assert!(!is_dns_label(bad), "{bad}");
        }
        assert!(!is_dns_1035_label("9a"));
    }

    #[test]
    fn a_name_of_rbac_is_one_part_of_a_path() {
        for good in ["system:auth-delegator", "a b", "A", "..a", "ä"] {
            assert!(is_path_segment(good), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a%2fb"] {
            assert!(!is_path_segment(bad), "{bad}");
        }
    }

    #[test]
    fn a_channel_is_one_word() {
        for good in ["stable", "stable-v0.1", "Ä/1"] {
            assert!(is_channel(good), "{good}");
        }
        for bad in ["", "a b", "a,b", "a\nRUN x", " a", "a\u{a0}b", "a\u{7}"] {
            assert!(!is_channel(bad), "{bad}");
        }
    }

    #[test]
    fn a_qualified_name_may_have_a_domain() {
        for good in ["a", "a.b/c_D", "A-b", "example.org/9"] {
            assert!(is_qualified_name(good), "{good}");
        }
        for bad in ["", "a/", "/a", "A.b/c", "a/b/c", "-a", "a b", &"a".repeat(64)] {
            assert!(!is_qualified_name(bad), "{bad}");
        }
        assert!(is_label_value("") && !is_label_value("a:b"));
    }

    #[test]
    fn a_subdomain_is_labels_with_dots() {
        for good in ["a", "a.b-c.d9", &format!("{}.a", "a".repeat(70))] {
            assert!(is_dns_subdomain(good), "{good}");
        }
        for bad in ["", ".", "a..b", "a.-b", "a.B", &"a".repeat(254)] {
            assert!(!is_dns_subdomain(bad), "{bad}");
        }
    }
}
