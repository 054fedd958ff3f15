//! Texts that operator and agents make of bytes and of longer texts, alike on both sides.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// What names a file: its SHA-256, as `sha256sum` prints it.
pub fn sha256_hex(file: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(file))
}

/// Two lower-case digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// At most `bytes` long, cut between two characters.
pub fn shorten(text: &str, bytes: usize) -> String {
    text[..text.floor_char_boundary(bytes)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!((shorten("aé", 2), shorten("aé", 9)), ("a".into(), "aé".into()));
    }

    #[test]
    fn a_file_is_named_as_sha256sum_does_it() {
        assert_eq!(
            sha256_hex("events {}\n"),
            "b2496c33033eadfe85d1dcdfea8cb6af5fb63033d3fd08898a5fd76199aa5443"
        );
    }
}
