//! Small numbers for what the library knows by strings and long numbers, so that a state is small.

use std::time::Duration;

use leasehold::{
    Counter, Holder, LeaseId, ObservedVersion, RequestDigest, RequestId, Timestamp, Ttl,
};

/// A point in time, in ticks of one second since a beginning that is the same for all worlds.
pub type Tick = i8;
/// A process: a client by its number, or [`SWEEPER`].
pub type Who = u8;
/// One logical acquire of a client.
pub type Attempt = u8;
/// A proof of ownership.
pub type LeaseNo = u8;
/// A token or a version, counted from the beginning in milliseconds.
pub type Count = i32;

/// The process that sweeps and reaps.
pub const SWEEPER: Who = 7;
/// A caller that holds nothing and waits for nothing: it asks only whether it could have the key.
pub const STRANGER: Who = 6;
/// How many calls a process may make.
pub const CALLS: u8 = 16;

/// The floor that is deployed after a restore: above every token that was given out before.
pub const FLOOR: Count = 500_000;

/// Late enough that no clock in any world is before the epoch.
const BEGINNING: u64 = 1_800_000_000_000;
const TICK: u64 = 1000;

pub const fn length(ticks: Tick) -> Duration {
    Duration::from_millis(ticks.unsigned_abs() as u64 * TICK)
}

pub fn instant(at: Tick) -> Timestamp {
    let beginning = Timestamp::from_millis(BEGINNING);
    if at < 0 {
        beginning.minus(length(at))
    } else {
        beginning.plus(length(at))
    }
}

pub fn tick(at: Timestamp) -> Tick {
    let beginning = Timestamp::from_millis(BEGINNING);
    let ticks = |length: Duration| Tick::try_from(length.as_secs()).unwrap_or(Tick::MAX);
    if at < beginning {
        -ticks(beginning.since(at))
    } else {
        ticks(at.since(beginning))
    }
}

pub fn counter(n: Count) -> Counter {
    let n = BEGINNING.saturating_add_signed(n.into());
    Counter::new(n).unwrap_or(Counter::MIN)
}

pub fn count(counter: Counter) -> Count {
    let n = i128::from(counter.get()) - i128::from(BEGINNING);
    // A design that counts from one is far below.
    Count::try_from(n).unwrap_or(Count::MIN / 2 + Count::try_from(counter.get()).unwrap_or(0))
}

pub fn version(n: Count) -> ObservedVersion {
    counter(n).into()
}

/// The proof that a process's call may create.
pub const fn lease(by: Who, call: u8) -> LeaseNo {
    by * CALLS + call
}

pub fn lease_id(n: LeaseNo) -> LeaseId {
    LeaseId::try_from(n.to_string()).unwrap_or_else(|_| LeaseId::random())
}

pub fn lease_no(id: &LeaseId) -> LeaseNo {
    id.expose().parse().unwrap_or(LeaseNo::MAX)
}

pub fn holder(who: Who) -> Holder {
    Holder::new(format!("client {who}")).expect("a short name")
}

pub fn who(holder: &Holder) -> Who {
    let number = holder.as_str().strip_prefix("client ");
    number.and_then(|n| n.parse().ok()).unwrap_or(Who::MAX)
}

pub fn request(who: Who, attempt: Attempt) -> RequestDigest {
    let id = RequestId::new(format!("attempt {attempt}")).expect("a short name");
    RequestDigest::of(&holder(who), &id)
}

pub fn ttl(ticks: Tick) -> Ttl {
    Ttl::new(length(ticks)).expect("a few seconds")
}
