//! What a run is like: drawn once, and shown in its trace.

use std::time::Duration;

use fastrand::Rng;
use leasehold::{AtLeast, IfHeld, KeepTime, WaitTime};

/// What can happen in a run.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "a switch each")]
pub struct Plan {
    pub keys: usize,
    /// Of a semaphore; none for the mutex.
    pub permits: Option<u16>,
    /// How many may have a permit of the pool that the keys share; none if there is no pool.
    pub pool: Option<u16>,
    pub starts: usize,
    pub tokens: usize,
    /// What starts do while somebody has the key.
    ways: Ways,
    paced: bool,
    keeps: bool,
    pub cap: u16,
    pub grace: u64,
    pub look: u64,
    pub retention: u64,
    /// In a thousand steps: deaths, faults, and suspensions.
    pub dies: u64,
    pub fault: u64,
    pub sleeps: u64,
    pub clocks_differ: bool,
    pub stale: bool,
    pub events_lost: bool,
    /// Of ten things that befall executions, redrives.
    pub redrives: u8,
    /// Redrives are counted only.
    pub counted: bool,
    /// Of ten interventions: of operators, and those that befall the machine that comes and goes.
    pub operators: u64,
    pub trouble: u64,
    /// Rows that nobody holds are deleted by hand.
    pub deletions: bool,
}

#[derive(Clone, Copy, Debug)]
enum Ways {
    Wait,
    /// Those that do not wait, too.
    AtOnce,
    Latest,
    Replace,
    All,
}

impl Plan {
    pub fn of(rng: &mut Rng) -> Self {
        let often = |rng: &mut Rng| [0, 5, 20, 60][rng.usize(..4)];
        let permits = [None, None, Some(2)][rng.usize(..3)];
        let ways = [
            Ways::Wait,
            Ways::AtOnce,
            Ways::Latest,
            Ways::Replace,
            Ways::All,
        ];
        let deletions = rng.u8(..12) == 0;
        let pool = [None, None, Some(1), Some(2)][rng.usize(..4)];
        let keys: [usize; 4] = if pool.is_some() {
            [2, 2, 2, 3]
        } else {
            [1, 1, 1, 2]
        };
        Self {
            keys: keys[rng.usize(..4)],
            permits,
            pool,
            starts: rng.usize(3..10),
            tokens: [0, 0, 2][rng.usize(..3)],
            ways: ways[rng.usize(..5)],
            paced: rng.u8(..4) == 0,
            keeps: rng.u8(..4) == 0,
            cap: [1, 2, 128, 128][rng.usize(..4)],
            grace: [20_000, 60_000, 900_000][rng.usize(..3)],
            look: [60_000, 300_000][rng.usize(..2)],
            retention: [1_200_000, 604_800_000][rng.usize(..2)],
            dies: often(rng),
            fault: often(rng),
            sleeps: [0, 20, 80, 150][rng.usize(..4)],
            clocks_differ: !deletions && rng.bool(),
            stale: rng.bool(),
            events_lost: rng.u8(..3) == 0,
            redrives: [2, 2, 5][rng.usize(..3)],
            counted: rng.u8(..4) == 0,
            operators: [0, 3, 8][rng.usize(..3)],
            trouble: [0, 0, 3][rng.usize(..3)],
            deletions,
        }
    }

    pub fn wait(rng: &mut Rng) -> WaitTime {
        let seconds = [0, 5, 120, 1200, 86_400, 86_400, 86_400][rng.usize(..7)];
        WaitTime::new(Duration::from_secs(seconds)).expect("valid")
    }

    pub fn if_held(&self, rng: &mut Rng) -> IfHeld {
        let wait = Self::wait(rng);
        let of = match self.ways {
            Ways::Wait => 0,
            Ways::AtOnce => [0, 1, 2][rng.usize(..3)],
            Ways::Latest => [0, 3, 3][rng.usize(..3)],
            Ways::Replace => [0, 4, 4][rng.usize(..3)],
            Ways::All => rng.u8(..5),
        };
        match of {
            1 => IfHeld::Fail,
            2 => IfHeld::Skip,
            3 => IfHeld::Latest(wait),
            4 if self.permits.is_none() => IfHeld::Replace(wait),
            _ => IfHeld::Wait(wait),
        }
    }

    pub fn at_least(&self, rng: &mut Rng) -> AtLeast {
        let seconds = if self.paced {
            [0, 20, 90][rng.usize(..3)]
        } else {
            0
        };
        AtLeast::new(Duration::from_secs(seconds)).expect("valid")
    }

    pub fn keep(&self, rng: &mut Rng) -> KeepTime {
        let seconds = if self.keeps {
            [0, 30, 120][rng.usize(..3)]
        } else {
            0
        };
        KeepTime::new(Duration::from_secs(seconds)).expect("valid")
    }
}
