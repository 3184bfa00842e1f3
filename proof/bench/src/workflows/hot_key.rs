//! One hot key, on paper: how far the write capacity of its partition goes. Nothing here is measured but the units.

use serde::Serialize;

/// Write units that a partition takes each second.
pub const WRITES_PER_SECOND: f64 = 1000.0;
/// Read units that a partition gives each second.
pub const READS_PER_SECOND: f64 = 3000.0;

/// How somebody asks for a key that is held.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pace {
    /// Who.
    pub who: &'static str,
    /// Write units of one refused attempt.
    pub write_units: f64,
    /// Read units of one refused attempt.
    pub read_units: f64,
    /// Seconds between two attempts, at the mean and once they are as rare as they get.
    pub seconds: f64,
}

impl Pace {
    /// How many who ask like this leave a holder nothing to extend with.
    #[must_use]
    pub fn starve(&self) -> f64 {
        let (writes, reads) = (
            WRITES_PER_SECOND / self.write_units,
            READS_PER_SECOND / self.read_units,
        );
        // Reads and writes are limited apart; to nobody who reads only is a holder's write lost.
        let asks = if self.write_units > 0.0 {
            writes.min(reads)
        } else {
            reads
        };
        (asks * self.seconds).floor()
    }

    /// How many sections the key bears each second while so many ask like this, at `units` for each section.
    #[must_use]
    pub fn sections(&self, waiters: f64, units: f64) -> f64 {
        let left = WRITES_PER_SECOND - waiters * self.write_units / self.seconds;
        (left / units).max(0.0)
    }
}

/// How many sections a key bears each second at `units` for each, if nobody asks in vain.
#[must_use]
pub fn in_line(units: f64) -> f64 {
    WRITES_PER_SECOND / units
}

/// The ways to ask, as published. `refused` is what a refused write takes.
#[must_use]
pub fn paces() -> Vec<Pace> {
    let asking = |who, write_units, read_units, seconds| Pace {
        who,
        write_units,
        read_units,
        seconds,
    };
    vec![
        // Retry of the shipped machines: at last every 10 s at most, at a random instant before.
        asking("leasehold, polling", 1.0, 0.0, 5.0),
        // Leases::acquire_within: at last every 5 s at most.
        asking("leasehold, polling in Rust", 1.0, 0.0, 2.5),
        // Seven writes and a read that need not be consistent, in 66 s.
        asking("aws-semaphore", 1.0, 0.5 / 7.0, 66.0 / 7.0),
        asking("aws-semaphore, no retry", 1.0, 0.5, 3.0),
        asking("polling loop", 1.0, 0.0, 3.0),
        asking("dynamodb-lease", 1.0, 0.0, 1.0),
        // It reads, consistently, and writes only when it finds nobody.
        asking("python-dynamodb-lock", 0.0, 1.0, 5.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_more_often_starves_a_holder_with_fewer() {
        let pace = |seconds| Pace {
            who: "",
            write_units: 1.0,
            read_units: 0.5,
            seconds,
        };
        assert!((pace(1.0).starve() - 1000.0).abs() < 1e-9);
        assert!((pace(3.0).starve() - 3000.0).abs() < 1e-9);
        // A thousand at one a second leave nothing; half of them leave half of the sections.
        assert!(pace(1.0).sections(1000.0, 2.0).abs() < 1e-9);
        assert!((pace(1.0).sections(500.0, 2.0) - 250.0).abs() < 1e-9);
        assert!(pace(1.0).sections(2000.0, 2.0).abs() < 1e-9);
        assert!((in_line(8.0) - 125.0).abs() < 1e-9);
    }

    #[test]
    fn reads_have_a_limit_of_their_own() {
        let reads = Pace {
            who: "",
            write_units: 0.0,
            read_units: 1.0,
            seconds: 5.0,
        };
        assert!((reads.starve() - 15_000.0).abs() < 1e-9);
        assert!((reads.sections(15_000.0, 2.0) - 500.0).abs() < 1e-9);
    }
}
