//! What callers do, as opposed to what is written: whole operations by the library's own calls.

use leasehold::{Execution, ReleaseOutcome, Timestamp};
use proptest::prelude::*;

use super::strange::{ATTRIBUTES, STRANGE};

/// How many keys are leased one by one, as a semaphore and as a set: two, one, and the first two together.
pub const MUTEXES: u8 = 2;
pub const HOLDERS: u8 = 3;
pub const REQUESTS: u8 = 5;

/// One call, or what happens beside. Times are whole seconds: what is left of a lease is also how long a
/// request for it may take.
#[derive(Clone, Debug)]
pub enum Operation {
    Acquire {
        who: u8,
        request: u8,
        key: u8,
        ttl: u8,
        observed: Option<Seen>,
        reentrant: bool,
    },
    Permit {
        who: u8,
        request: u8,
        permits: u16,
        ttl: u8,
    },
    Set {
        who: u8,
        request: u8,
        ttl: u8,
        reentrant: bool,
    },
    InLine {
        who: u8,
        request: u8,
        key: u8,
        wait: u8,
        /// Whether anybody still waits with its task token.
        gone: bool,
    },
    /// With a handle, counted back from the one that was given last.
    Extend {
        handle: u8,
        ttl: Option<u8>,
        require_unexpired: bool,
    },
    Release {
        handle: u8,
        strict: bool,
    },
    Sweep,
    HandOver {
        key: u8,
    },
    Reap {
        who: u8,
        how: u8,
    },
    Freeze {
        key: u8,
    },
    Unfreeze {
        key: u8,
    },
    ForceRelease {
        key: u8,
    },
    RaiseFloor {
        key: u8,
        above: i8,
    },
    Inspect {
        key: u8,
    },
    Pass {
        seconds: u8,
    },
    /// The clock is set back.
    JumpBack {
        seconds: u8,
    },
    Delete {
        key: u8,
    },
    Tamper {
        key: u8,
        attribute: u8,
        value: u8,
    },
}

impl Operation {
    /// The keys that it names.
    pub fn keys(&self) -> std::ops::Range<u8> {
        match *self {
            Self::Acquire { key, .. }
            | Self::InLine { key, .. }
            | Self::HandOver { key }
            | Self::Freeze { key }
            | Self::Unfreeze { key }
            | Self::ForceRelease { key }
            | Self::RaiseFloor { key, .. }
            | Self::Inspect { key }
            | Self::Delete { key }
            | Self::Tamper { key, .. } => key..key + 1,
            Self::Permit { .. } => MUTEXES..MUTEXES + 1,
            Self::Set { .. } => 0..MUTEXES,
            Self::Extend { .. }
            | Self::Release { .. }
            | Self::Sweep
            | Self::Reap { .. }
            | Self::Pass { .. }
            | Self::JumpBack { .. } => 0..0,
        }
    }
}

/// Which version an observer has seen.
#[derive(Clone, Copy, Debug)]
pub enum Seen {
    None,
    /// Of the handle that was given last.
    Last,
    /// The one that stands there.
    Standing,
}

/// How an execution stands, that is asked for at this time.
pub const fn stands(how: u8, now: Timestamp) -> Execution {
    match how {
        0 => Execution::Running,
        1 => Execution::Unknown,
        _ => Execution::Ended {
            stopped_at: now,
            redrivable: how.is_multiple_of(2),
            all_answered: how < 4,
        },
    }
}

/// What the reference knows: one key, its holders, sweep and freeze.
pub fn of_one_key() -> impl Strategy<Value = Vec<Operation>> {
    let key = 0..1_u8;
    let operation = prop_oneof![
        8 => acquire(key.clone()),
        6 => extend(),
        5 => release(),
        2 => Just(Operation::Sweep),
        1 => key.clone().prop_map(|key| Operation::Freeze { key }),
        1 => key.clone().prop_map(|key| Operation::Unfreeze { key }),
        1 => key.prop_map(|key| Operation::Delete { key }),
        6 => time(),
    ];
    prop::collection::vec(operation, 1..40)
}

/// Everything.
pub fn of_all() -> impl Strategy<Value = Vec<Operation>> {
    let key = || 0..MUTEXES;
    let attributes = u8::try_from(ATTRIBUTES.len()).unwrap();
    let operation = prop_oneof![
        8 => acquire(key()),
        4 => (0..HOLDERS, 0..REQUESTS, 1..4_u16, 2..9_u8)
            .prop_map(|(who, request, permits, ttl)| Operation::Permit { who, request, permits, ttl }),
        2 => (0..HOLDERS, 0..REQUESTS, 2..9_u8, prop::bool::weighted(0.3))
            .prop_map(|(who, request, ttl, reentrant)| Operation::Set { who, request, ttl, reentrant }),
        6 => (0..HOLDERS, 0..REQUESTS, key(), 0..40_u8, prop::bool::weighted(0.1)).prop_map(
            |(who, request, key, wait, gone)| Operation::InLine { who, request, key, wait, gone }
        ),
        8 => extend(),
        8 => release(),
        4 => Just(Operation::Sweep),
        1 => key().prop_map(|key| Operation::HandOver { key }),
        2 => (0..HOLDERS, 0..6_u8).prop_map(|(who, how)| Operation::Reap { who, how }),
        1 => key().prop_map(|key| Operation::Freeze { key }),
        2 => key().prop_map(|key| Operation::Unfreeze { key }),
        1 => key().prop_map(|key| Operation::ForceRelease { key }),
        1 => (key(), -2..3_i8).prop_map(|(key, above)| Operation::RaiseFloor { key, above }),
        1 => key().prop_map(|key| Operation::Inspect { key }),
        1 => key().prop_map(|key| Operation::Delete { key }),
        2 => (key(), 0..attributes, 0..STRANGE)
            .prop_map(|(key, attribute, value)| Operation::Tamper { key, attribute, value }),
        6 => time(),
    ];
    prop::collection::vec(operation, 1..30)
}

fn acquire(key: std::ops::Range<u8>) -> impl Strategy<Value = Operation> {
    let seen = prop_oneof![Just(Seen::None), Just(Seen::Last), Just(Seen::Standing)];
    let whose = (0..HOLDERS, 0..REQUESTS);
    let how = (prop::option::weighted(0.2, seen), prop::bool::weighted(0.1));
    (whose, key, 2..9_u8, how).prop_map(|((who, request), key, ttl, (observed, reentrant))| {
        Operation::Acquire {
            who,
            request,
            key,
            ttl,
            observed,
            reentrant,
        }
    })
}

fn handle() -> impl Strategy<Value = u8> {
    prop_oneof![5 => Just(0_u8), 2 => Just(1), 1 => 2..6_u8]
}

fn extend() -> impl Strategy<Value = Operation> {
    let ttl = prop::option::weighted(0.5, 2..20_u8);
    (handle(), ttl, prop::bool::weighted(0.2)).prop_map(|(handle, ttl, require_unexpired)| {
        Operation::Extend {
            handle,
            ttl,
            require_unexpired,
        }
    })
}

fn release() -> impl Strategy<Value = Operation> {
    (handle(), prop::bool::weighted(0.2))
        .prop_map(|(handle, strict)| Operation::Release { handle, strict })
}

fn time() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => (0..9_u8).prop_map(|seconds| Operation::Pass { seconds }),
        1 => (9..60_u8).prop_map(|seconds| Operation::Pass { seconds }),
        1 => (1..30_u8).prop_map(|seconds| Operation::JumpBack { seconds }),
    ]
}

/// How a release ended, in a word.
pub const fn word(outcome: ReleaseOutcome) -> &'static str {
    match outcome {
        ReleaseOutcome::Released => "released",
        ReleaseOutcome::AlreadyReleased => "already released",
        ReleaseOutcome::Lost => "lost",
    }
}
