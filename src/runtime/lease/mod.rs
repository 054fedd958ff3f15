//! Leader election by a `Lease`, with client-go's semantics.
//!
//! - A candidate claims the lease for `lease_duration` and renews it every `retry_period`.
//! - Another one takes it only after it has seen no renewal for that long *on its own monotonic clock*; the times in the lease are for
//!   people.
//! - Every write is a replace guarded by `resourceVersion`: of two that want to take it, one gets a conflict.
//! - A leader that could not renew within `renew_deadline` stops writing at that moment (see [`super::client`]) and the process ends.
//! - A leader that stops gives the lease back, and a standby, which watches the lease, takes it at once. Unless work had to be cut off:
//!   then the lease expires, because a request that was sent may still take effect.

mod decide;
mod elector;
#[cfg(test)]
mod elector_tests;
mod leadership;
mod outlook;

use std::fmt;
use std::time::Duration;

pub use decide::{Decision, Known, Record, decide};
pub use elector::Elector;
pub use leadership::{Fenced, Leadership};
pub use outlook::Outlook;

/// How the leader is elected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseConfig {
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of the lease.
    pub name: String,
    /// Who this candidate is; must differ between any two processes, also between a process and its successor in the same pod.
    pub identity: String,
    /// For how long a leader that fell silent keeps the lease. Whole seconds, at least one.
    pub lease_duration: Duration,
    /// A leader that could not renew for this long stops.
    pub renew_deadline: Duration,
    /// How often the leader renews, and others look.
    pub retry_period: Duration,
}

/// The lease is no longer ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseLost {
    /// It could not be renewed in time.
    #[error("lost the lease {lease}: it could not be renewed within {} ms", .deadline.as_millis())]
    NotRenewed {
        /// Which lease.
        lease: String,
        /// The renew deadline.
        deadline: Duration,
    },
    /// Somebody else holds it.
    #[error("lost the lease {lease}: it is held by {by:?} now")]
    Taken {
        /// Which lease.
        lease: String,
        /// Who holds it.
        by: String,
    },
}

/// The times of a lease do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value:?}; it must be {accepted}")]
pub struct InvalidLease {
    field: &'static str,
    value: Duration,
    accepted: String,
}

impl InvalidLease {
    /// Which time it is, in words: `renew deadline`.
    pub fn field(&self) -> &'static str {
        self.field
    }
}

impl LeaseConfig {
    /// A lease with client-go's times: 15, 10 and 2 seconds.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    /// Checks that the times fit together.
    ///
    /// # Errors
    /// The first that does not, with what it may be.
    pub fn validate(&self) -> Result<(), InvalidLease> {
        let invalid = |field, value, accepted| {
            Err(InvalidLease {
                field,
                value,
                accepted,
            })
        };
        if self.lease_duration < Duration::from_secs(1) || self.lease_duration.subsec_nanos() != 0 {
            return invalid(
                "lease duration",
                self.lease_duration,
                "a whole number of seconds, at least 1s".to_owned(),
            );
        }
        if self.renew_deadline >= self.lease_duration {
            return invalid(
                "renew deadline",
                self.renew_deadline,
                format!("less than the lease duration, {:?}", self.lease_duration),
            );
        }
        if self.retry_period.is_zero() {
            return invalid("retry period", self.retry_period, "more than 0".to_owned());
        }
        // Two tries at least have to fit into the deadline.
        if self.retry_period * 2 > self.renew_deadline {
            return invalid(
                "retry period",
                self.retry_period,
                format!("at most half of the renew deadline, {:?}", self.renew_deadline),
            );
        }
        Ok(())
    }
}

impl fmt::Display for LeaseConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn config(lease: u64, renew: u64, retry: u64) -> LeaseConfig {
        LeaseConfig {
            lease_duration: Duration::from_millis(lease),
            renew_deadline: Duration::from_millis(renew),
            retry_period: Duration::from_millis(retry),
            ..LeaseConfig::new("ns", "name", "me")
        }
    }

    #[test]
    fn the_defaults_are_client_gos() {
        let config = LeaseConfig::new("ns", "name", "me");
        assert_eq!(config.validate(), Ok(()));
        assert_eq!(
            (
                config.lease_duration.as_secs(),
                config.renew_deadline.as_secs(),
                config.retry_period.as_secs()
            ),
            (15, 10, 2)
        );
    }

    #[rstest]
    #[case(
        500,
        400,
        100,
        "lease duration is 500ms; it must be a whole number of seconds, at least 1s"
    )]
    #[case(
        1_500,
        400,
        100,
        "lease duration is 1.5s; it must be a whole number of seconds, at least 1s"
    )]
    #[case(
        10_000,
        10_000,
        100,
        "renew deadline is 10s; it must be less than the lease duration, 10s"
    )]
    #[case(15_000, 10_000, 0, "retry period is 0ns; it must be more than 0")]
    #[case(
        15_000,
        10_000,
        6_000,
        "retry period is 6s; it must be at most half of the renew deadline, 10s"
    )]
    fn times_that_do_not_fit_together_are_named(
        #[case] lease: u64,
        #[case] renew: u64,
        #[case] retry: u64,
        #[case] message: &str,
    ) {
        assert_eq!(
            config(lease, renew, retry).validate().unwrap_err().to_string(),
            message
        );
    }
}
