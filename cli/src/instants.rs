//! Instants by two clocks. A lease ends by the time of day, but somebody may set that clock. The time since boot, sleep
//! included, cannot be set. A deadline has come as soon as either clock says so.

use std::time::Duration;

use leasehold::{Clock as _, SystemClock, Timestamp};
use rustix::time::{ClockId, clock_gettime};

/// An instant by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instants {
    /// The time of day.
    pub(crate) wall: Timestamp,
    /// The time since boot, sleep included. It is the same in every process.
    pub(crate) boot: Duration,
}

impl Instants {
    pub(crate) fn now() -> Self {
        #[cfg(target_os = "linux")]
        const CLOCK: ClockId = ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        const CLOCK: ClockId = ClockId::Monotonic;
        let since = clock_gettime(CLOCK);
        Self {
            wall: SystemClock.now(),
            boot: Duration::new(
                u64::try_from(since.tv_sec).unwrap_or_default(),
                u32::try_from(since.tv_nsec).unwrap_or_default(),
            ),
        }
    }

    /// The instant at which the time of day is `wall`, if nobody sets the clock after `self`.
    pub(crate) fn at(self, wall: Timestamp) -> Self {
        let ahead = wall.since(self.wall);
        let behind = self.wall.since(wall);
        Self {
            wall,
            boot: (self.boot + ahead).saturating_sub(behind),
        }
    }

    pub(crate) fn minus(self, length: Duration) -> Self {
        Self {
            wall: self.wall.minus(length),
            boot: self.boot.saturating_sub(length),
        }
    }

    pub(crate) fn plus(self, length: Duration) -> Self {
        Self {
            wall: self.wall.plus(length),
            boot: self.boot + length,
        }
    }

    /// The earlier of two instants, for each clock on its own.
    pub(crate) fn earlier(self, other: Self) -> Self {
        Self {
            wall: self.wall.min(other.wall),
            boot: self.boot.min(other.boot),
        }
    }

    /// The time left until `self`, by the clock that reaches it first.
    pub(crate) fn left(self, now: Self) -> Duration {
        let by_wall = self.wall.since(now.wall);
        by_wall.min(self.boot.saturating_sub(now.boot))
    }

    /// Returns at this instant. It sleeps in short steps, because meanwhile the machine may sleep or its clock be set.
    pub(crate) async fn wait_until(self) {
        const STEP: Duration = Duration::from_millis(200);
        loop {
            let left = self.left(Self::now());
            if left.is_zero() {
                return;
            }
            // At least a millisecond, because an instant has no finer unit.
            SystemClock
                .sleep(left.clamp(Duration::from_millis(1), STEP))
                .await;
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

    #[test]
    fn either_clock_brings_a_deadline_about() {
        let deadline = NOW.at(Timestamp::from_millis(1_800_000_060_000));
        assert_eq!(deadline.boot, Duration::from_secs(1060));
        assert_eq!(deadline.left(NOW), Duration::from_secs(60));
        let set_back = Instants {
            wall: NOW.wall.minus(Duration::from_secs(30)),
            boot: NOW.boot + Duration::from_secs(60),
        };
        assert_eq!(deadline.left(set_back), Duration::ZERO);
        let set_forward = Instants {
            wall: deadline.wall,
            ..NOW
        };
        assert_eq!(deadline.left(set_forward), Duration::ZERO);
    }

    #[test]
    fn past_instant_is_past_by_both() {
        let past = NOW.at(NOW.wall.minus(Duration::from_secs(10)));
        assert_eq!(past.boot, Duration::from_secs(990));
    }
}
