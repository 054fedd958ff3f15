//! Bytes as text that some place or other takes.

use std::fmt::Write as _;

/// Two lowercase digits for each byte.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string does not fail
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// ASCII letters, digits and the bytes `kept` as they are, and of every other byte `mark` and two uppercase digits: `a b` becomes `a%20b`.
pub(super) fn escaped(bytes: &[u8], kept: &[u8], mark: char) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || kept.contains(byte) {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "{mark}{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_two_digits() {
        assert_eq!(hex(&[0, 0x9a, 0xff]), "009aff");
    }

    #[test]
    fn what_is_not_kept_is_escaped() {
        assert_eq!(escaped("a b/ä".as_bytes(), b"/", '%'), "a%20b/%C3%A4");
        assert_eq!(escaped(b"a_b", b"-", '_'), "a_5Fb");
    }
}
