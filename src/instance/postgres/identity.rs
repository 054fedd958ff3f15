//! Who holds a Lease: one process in one pod, and none that comes after it in the same pod.

use std::fmt;
use std::str::FromStr;

use rustls::crypto::aws_lc_rs;

/// How many digits a nonce has.
const DIGITS: usize = 16;

/// A pod's UID and a number that no other process has; printed with a dash between, as it is in the Lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    uid: String,
    nonce: String,
}

/// The system has no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("the system gives no random numbers")]
pub struct NoRandom;

/// What is no identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no identity; accepted are a pod's UID, a dash and {DIGITS} digits in hex")]
pub struct NotIdentity(String);

impl Identity {
    /// That of this process, in the pod of this UID.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn new(uid: impl Into<String>) -> Result<Self, NoRandom> {
        let mut random = [0; DIGITS / 2];
        let source = aws_lc_rs::default_provider().secure_random;
        source.fill(&mut random).map_err(|_| NoRandom)?;
        Ok(Self {
            uid: uid.into(),
            nonce: format!("{:016x}", u64::from_be_bytes(random)),
        })
    }

    /// The UID of the pod.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// What tells this process from the others in its pod: 16 digits in hex. It goes into the container's termination message.
    pub fn nonce(&self) -> &str {
        &self.nonce
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.uid, self.nonce)
    }
}

impl FromStr for Identity {
    type Err = NotIdentity;

    fn from_str(text: &str) -> Result<Self, NotIdentity> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_nonce = |nonce: &str| nonce.len() == DIGITS && nonce.bytes().all(is_digit);
        // A UID has dashes itself.
        match text.rsplit_once('-') {
            Some((uid, nonce)) if !uid.is_empty() && is_nonce(nonce) => Ok(Self {
                uid: uid.to_owned(),
                nonce: nonce.to_owned(),
            }),
            _ => Err(NotIdentity(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const UID: &str = "0d5d5cf4-6a3c-4b61-9a5e-8b0f0a1c2d3e";

    #[test]
    fn an_identity_survives_the_way_through_a_lease_and_no_two_are_the_same() {
        let (one, other) = (Identity::new(UID).unwrap(), Identity::new(UID).unwrap());
        assert_eq!(one.to_string().parse(), Ok(one.clone()));
        assert_eq!((one.uid(), one.nonce().len()), (UID, 16));
        assert_ne!(one, other);
    }

    #[rstest]
    #[case::nothing("")]
    #[case::a_uid_alone(UID)]
    #[case::no_uid("-0123456789abcdef")]
    #[case::too_short("uid-0123456789abcde")]
    #[case::too_long("uid-0123456789abcdef0")]
    #[case::no_digit("uid-0123456789abcdeg")]
    #[case::upper_case("uid-0123456789ABCDEF")]
    #[case::somebody_elses("node-1_7b1f")]
    fn what_was_not_made_here_is_no_identity(#[case] text: &str) {
        assert_eq!(text.parse::<Identity>(), Err(NotIdentity(text.to_owned())));
    }
}
