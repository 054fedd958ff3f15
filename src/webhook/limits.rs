//! How much the server takes on.

use std::time::Duration;

use crate::api::cost::MAX_OBJECT;

/// What bounds the server. The defaults fit a pod of 30 MiB, of which the operator itself uses a few.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Connections at once; others wait in the kernel. An API server keeps up to 25 of them open.
    pub connections: usize,
    /// Those of one address; more are refused. All API servers may have the same one, where they come through a proxy.
    pub connections_each: usize,
    /// A TLS handshake takes no longer.
    pub handshake: Duration,
    /// A connection sends the header of its next request within this time. An API server keeps an idle connection for 90 s: it has to be the one
    /// that ends it, or a request could meet its end.
    pub header: Duration,
    /// A body arrives within this time, counted from when there is memory for it.
    pub body: Duration,
    /// A request is answered within this time, waiting for memory included. An API server waits for at most 30 s.
    pub request: Duration,
    /// After this time a connection ends with its next answer, which says so. One that goes on all the same, or is too slow to take its answer, is
    /// cut off a while later.
    pub connection_age: Duration,
    /// The bodies of all requests that are being answered, in bytes. A larger one could never be taken, and is refused.
    pub memory: usize,
    /// What one object may take to convert or to check, in bytes, as estimated from its text.
    pub object: usize,
    /// Told to stop, the server goes on for this time, since the cluster takes a while to send requests elsewhere; each answer ends its connection.
    pub linger: Duration,
    /// What is being answered after that has this time to end.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 100,
            connections_each: 100,
            handshake: Duration::from_secs(5),
            header: Duration::from_secs(100),
            body: Duration::from_secs(5),
            request: Duration::from_secs(25),
            connection_age: Duration::from_secs(600),
            memory: 10 << 20,
            object: MAX_OBJECT,
            linger: Duration::from_secs(5),
            grace: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// When a connection is cut off: long after one that keeps to the rules has ended.
    pub(super) fn cut_off(&self) -> Duration {
        self.connection_age + self.header + self.request
    }
}
