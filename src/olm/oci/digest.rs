//! Digests: what something is called by its content.

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256, Sha512};

use crate::olm::encoding::hex;

/// `sha256:` or `sha512:`, and hexadecimal digits in lowercase.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Digest {
    algorithm: Algorithm,
    digits: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Algorithm {
    Sha256,
    Sha512,
}

impl Algorithm {
    const ALL: [(Self, &'static str, usize); 2] =
        [(Self::Sha256, "sha256", 64), (Self::Sha512, "sha512", 128)];

    fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }
}

impl Digest {
    /// The SHA-256 of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new(Algorithm::Sha256);
        hasher.update(bytes);
        hasher.finish()
    }

    /// Where a layout has the content: its folder below `blobs`, and its file.
    pub(super) fn parts(&self) -> (&'static str, &str) {
        (self.algorithm.name(), &self.digits)
    }

    /// The same kind of digest of other content.
    pub(super) fn same_of(&self, bytes: &[u8]) -> Self {
        let mut hasher = self.hasher();
        hasher.update(bytes);
        hasher.finish()
    }

    /// What finds out the same kind of digest of other content, bit by bit.
    pub(super) fn hasher(&self) -> Hasher {
        Hasher::new(self.algorithm)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.name(), self.digits)
    }
}

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Algorithm::ALL.into_iter().find_map(|(algorithm, name, length)| {
            let digits = text.strip_prefix(name)?.strip_prefix(':')?;
            let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            (digits.len() == length && digits.bytes().all(is_hex)).then(|| Self {
                algorithm,
                digits: digits.to_owned(),
            })
        });
        known.ok_or_else(|| {
            format!("{text:?} is no digest; accepted are sha256: and 64 hexadecimal digits in lowercase, or sha512: and 128")
        })
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Finds out a digest, bit by bit.
#[derive(Debug)]
pub(super) struct Hasher(State);

#[derive(Debug)]
enum State {
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Hasher {
    fn new(algorithm: Algorithm) -> Self {
        Self(match algorithm {
            Algorithm::Sha256 => State::Sha256(Sha256::new()),
            Algorithm::Sha512 => State::Sha512(Sha512::new()),
        })
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Sha256(state) => state.update(bytes),
            State::Sha512(state) => state.update(bytes),
        }
    }

    pub(super) fn finish(self) -> Digest {
        let (algorithm, digits) = match self.0 {
            State::Sha256(state) => (Algorithm::Sha256, hex(&state.finalize())),
            State::Sha512(state) => (Algorithm::Sha512, hex(&state.finalize())),
        };
        Digest { algorithm, digits }
    }
}

/// Reads what has to have this size and digest, and fails at its end where it has another.
#[derive(Debug)]
pub(super) struct Verified<R> {
    inner: R,
    expected: Digest,
    hasher: Option<Hasher>,
    left: u64,
}

impl<R> Verified<R> {
    pub(super) fn new(inner: R, expected: &Digest, size: u64) -> Self {
        Self {
            inner,
            hasher: Some(expected.hasher()),
            expected: expected.clone(),
            left: size,
        }
    }
}

impl<R: Read> Read for Verified<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let read = self.inner.read(buffer)?;
        if read == 0 {
            let Some(hasher) = self.hasher.take() else {
                return Ok(0);
            };
            if self.left > 0 {
                return Err(wrong(format!("it ends {} bytes before its size", self.left)));
            }
            let found = hasher.finish();
            if found != self.expected {
                return Err(wrong(format!(
                    "its digest is {found}, not {}: it was damaged or changed",
                    self.expected
                )));
            }
            return Ok(0);
        }
        self.left = self
            .left
            .checked_sub(read as u64)
            .ok_or_else(|| wrong("it goes on after its size".to_owned()))?;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&buffer[..read]);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_digest_is_read_as_it_is_written() {
        assert_eq!(Digest::of(b"").to_string(), EMPTY);
        assert_eq!(EMPTY.parse(), Ok(Digest::of(b"")));
    }

    #[rstest]
    #[case("sha256:12")]
    #[case("md5:d41d8cd98f00b204e9800998ecf8427e")]
    #[case("sha256:E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855")]
    #[case("sha256:../../../../../../../../../../../../../../../../../../../../../../etc")]
    fn what_is_no_digest_is_told_with_what_would_be(#[case] text: &str) {
        let error = text.parse::<Digest>().unwrap_err();
        assert!(
            error.contains(text) && error.contains("64 hexadecimal digits"),
            "{error}"
        );
    }

    #[rstest]
    #[case("abc", 3, None)]
    #[case("abd", 3, Some("damaged or changed"))]
    #[case("ab", 3, Some("ends 1 bytes before its size"))]
    #[case("abcd", 3, Some("goes on after its size"))]
    fn what_is_read_is_what_was_meant(#[case] text: &str, #[case] size: u64, #[case] why: Option<&str>) {
        let mut read = Vec::new();
        let outcome = Verified::new(text.as_bytes(), &Digest::of(b"abc"), size).read_to_end(&mut read);
        match why {
            None => assert_eq!(outcome.unwrap(), 3),
            Some(why) => assert!(outcome.unwrap_err().to_string().contains(why)),
        }
    }
}
