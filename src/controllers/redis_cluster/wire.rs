//! What goes over the wire to a node and back, whoever carries it.

use std::fmt::{self, Debug};
use std::net::IpAddr;
use std::time::Duration;

use futures::future::BoxFuture;

/// A command as its words, which may be any bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Words(pub Vec<Vec<u8>>);

impl Words {
    /// A command of text alone.
    pub fn of<const N: usize>(words: [&str; N]) -> Self {
        Self(words.iter().map(|word| word.as_bytes().to_vec()).collect())
    }

    /// The same with one word more.
    #[must_use]
    pub fn and(mut self, word: impl ToString) -> Self {
        self.0.push(word.to_string().into_bytes());
        self
    }

    /// The same with one word more, which need not be text.
    #[must_use]
    pub fn bytes(mut self, word: &[u8]) -> Self {
        self.0.push(word.to_vec());
        self
    }
}

/// What kind of command it is: the rest may be secret, or somebody's keys.
impl Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_subcommand = |word: &Vec<u8>| matches!(word.as_slice(), b"CLUSTER" | b"MEMORY");
        let shown = 1 + usize::from(self.0.first().is_some_and(has_subcommand));
        let shown = self
            .0
            .iter()
            .take(shown)
            .map(|word| String::from_utf8_lossy(word));
        f.write_str(&shown.collect::<Vec<_>>().join(" "))
    }
}

/// What a node answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// There is none of it.
    Nothing,
    /// A text, `OK` among others.
    Text(Vec<u8>),
    /// A number.
    Number(i64),
    /// Several.
    List(Vec<Reply>),
    /// An error, as Redis puts it: `ERR ..`, `BUSYKEY ..`.
    Refused(String),
}

impl Reply {
    /// A text, if it is one.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        }
    }

    /// A number that is none below zero, if it is one.
    pub fn count(&self) -> Option<u64> {
        match self {
            Self::Number(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }
}

/// Why there are no answers. Nobody knows then which of the commands were carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// No connection came about, or it ended.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// It took too long.
    #[error("no answer within {} s", .0.as_secs_f32())]
    TimedOut(Duration),
    /// There are more or fewer than there were commands.
    #[error("{answers} answers to {commands} commands")]
    Unmatched {
        /// How many were sent.
        commands: usize,
        /// How many came.
        answers: usize,
    },
}

/// Whoever carries commands to nodes: the real client, or a test that answers for them.
pub trait Wire: Debug + Send + Sync + 'static {
    /// Sends these to the node at an address, one after the other in one go, and gives as many answers, each its command's.
    ///
    /// It ends within `patience`, and may be dropped at any time.
    fn send<'a>(
        &'a self,
        to: IpAddr,
        commands: &'a [Words],
        patience: Duration,
    ) -> BoxFuture<'a, Result<Vec<Reply>, WireError>>;
}
