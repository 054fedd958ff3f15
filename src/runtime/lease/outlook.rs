//! Whether this process could ever lead.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Whether the lease can be read and, when it is free, written. Clones share it.
///
/// A standby is ready, because it could take over; one that is not allowed to look at the lease never could.
#[derive(Clone, Debug, Default)]
pub struct Outlook {
    trouble: Arc<Mutex<Option<Trouble>>>,
}

#[derive(Clone, Debug)]
struct Trouble {
    since: Instant,
    error: String,
}

impl Outlook {
    /// Takes note of how the last attempt at the lease went.
    pub(super) fn note(&self, error: Option<&kube::Error>) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        *trouble = error.map(|error| Trouble {
            since: trouble.as_ref().map_or_else(Instant::now, |known| known.since),
            error: error.to_string(),
        });
    }

    /// Whether an attempt succeeded within `patience`.
    ///
    /// # Errors
    /// For how long none did, and the last error.
    pub fn check(&self, patience: Duration) -> Result<(), String> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match trouble.as_ref() {
            Some(Trouble { since, error }) if since.elapsed() >= patience => Err(format!(
                "Lease: no success for {} s: {error}",
                since.elapsed().as_secs()
            )),
            _ => Ok(()),
        }
    }
}
