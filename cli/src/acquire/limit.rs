//! How long a command may run: until `safe_until` of the last confirmed lease, less a margin.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use leasehold::{Lease, Timestamp};

use crate::instants::Instants;

/// When a command must have ended, and how long before that it is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    /// When the command is killed.
    pub(crate) kill: Instants,
    /// How long before that it receives SIGTERM.
    pub(crate) grace: Duration,
}

impl Limit {
    /// The limit of `lease`, which was requested after `before`. A command is asked to end `grace` before it is killed, but
    /// at most a quarter of the lease before.
    pub(crate) fn of(lease: &Lease, before: Instants, grace: Duration) -> Self {
        let length = length_of(lease);
        // Time for the signal to take effect on a busy machine.
        let margin = (length / 20).clamp(Duration::from_millis(20), Duration::from_millis(500));
        Self {
            kill: before.at(lease.safe_until()).minus(margin),
            grace: grace.min(length / 4),
        }
    }

    /// When the command is asked to end, and the lease given up.
    pub(crate) fn warning(self) -> Instants {
        self.kill.minus(self.grace)
    }

    /// The limit of a command that is asked to end now.
    pub(crate) fn ending_now(self, now: Instants) -> Self {
        Self {
            kill: self.kill.earlier(now.plus(self.grace)),
            grace: self.grace,
        }
    }
}

/// How long a lease may be used after it is granted or extended.
pub(crate) fn length_of(lease: &Lease) -> Duration {
    // The command line asks for leases with a deadline only.
    lease.deadline.map_or(Duration::ZERO, |deadline| {
        let guard = deadline.expires_at.since(deadline.safe_until);
        deadline.ttl.as_duration().saturating_sub(guard)
    })
}

/// The form in which one process sends it to another on the same machine.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kill, grace } = self;
        let (wall, boot) = (kill.wall.as_millis(), kill.boot.as_nanos());
        write!(f, "{wall} {boot} {}", grace.as_millis())
    }
}

impl FromStr for Limit {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers: Result<Vec<u64>, _> = text.split(' ').map(str::parse).collect();
        match numbers.as_deref() {
            Ok([wall, boot, grace]) => Ok(Self {
                kill: Instants {
                    wall: Timestamp::from_millis(*wall),
                    boot: Duration::from_nanos(*boot),
                },
                grace: Duration::from_millis(*grace),
            }),
            _ => Err("expected three numbers"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instants = Instants {
        wall: Timestamp::from_millis(1_800_000_000_000),
        boot: Duration::from_secs(1000),
    };

    fn lease() -> Lease {
        let lease = serde_json::json!({
            "key": "k", "holder": "h", "lease_id": "secret", "fencing_token": 7, "version": 8, "ttl_seconds": 60,
            "acquired_at": NOW.wall, "expires_at": NOW.wall.plus(Duration::from_secs(60)),
            "safe_until": NOW.wall.plus(Duration::from_secs(59)), "permit": 0, "metadata": {},
        });
        serde_json::from_value(lease).expect("a lease")
    }

    #[test]
    fn command_ends_before_lease_is_unsafe() {
        let limit = Limit::of(&lease(), NOW, Duration::from_secs(10));
        assert_eq!(limit.kill.left(NOW), Duration::from_millis(58_500));
        assert_eq!(limit.warning().left(NOW), Duration::from_millis(48_500));
        let patient = Limit::of(&lease(), NOW, Duration::from_secs(1000));
        assert_eq!(patient.grace, Duration::from_millis(14_750));
    }

    #[test]
    fn ending_now_extends_no_limit() {
        let limit = Limit::of(&lease(), NOW, Duration::from_secs(10));
        let ending_now = limit.ending_now(NOW);
        assert_eq!(ending_now.warning().left(NOW), Duration::ZERO);
        assert_eq!(ending_now.kill.left(NOW), Duration::from_secs(10));
        let late = limit.kill.minus(Duration::from_secs(1));
        assert_eq!(limit.ending_now(late).kill, limit.kill);
    }

    #[test]
    fn limit_survives_writing_and_reading() {
        let limit = Limit::of(&lease(), NOW, Duration::from_secs(10));
        assert_eq!(limit.to_string().parse(), Ok(limit));
        for text in ["", "1 2", "1 2 3 4", "1 2 x"] {
            assert!(text.parse::<Limit>().is_err(), "{text}");
        }
    }
}
