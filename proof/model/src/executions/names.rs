//! The names and times of the worlds of executions.

use std::time::Duration;

use leasehold::{Holder, Key, RequestDigest, RequestId, TaskToken, Timestamp};

pub use crate::names::{Attempt, Tick, Who};

/// A program: it takes leases with a deadline, and does not wait in the queue.
pub const PROGRAM: Who = 4;

/// What Step Functions says is at most this old, and nothing else takes as long.
pub const TICK: Duration = Duration::from_secs(30);

const BEGINNING: u64 = 1_800_000_000_000;

/// The beginning of a tick.
pub fn instant(at: Tick) -> Timestamp {
    let beginning = Timestamp::from_millis(BEGINNING);
    if at < 0 {
        beginning.minus(TICK * u32::from(at.unsigned_abs()))
    } else {
        beginning.plus(TICK * u32::from(at.unsigned_abs()))
    }
}

pub fn key() -> Key {
    Key::new("a key").expect("a short name")
}

pub fn holder(who: Who) -> Holder {
    let name = match who {
        PROGRAM => "a program".to_owned(),
        _ => format!("arn:aws:states:eu-west-1:123456789012:execution:machine:e{who}"),
    };
    Holder::new(name).expect("a short name")
}

/// Whose name this is.
pub fn who(holder: &Holder) -> Who {
    let number = holder.as_str().rsplit(":e").next();
    number.and_then(|n| n.parse().ok()).unwrap_or(PROGRAM)
}

pub fn request_id(attempt: Attempt) -> RequestId {
    RequestId::new(format!("attempt {attempt}")).expect("a short name")
}

pub fn request(who: Who, attempt: Attempt) -> RequestDigest {
    RequestDigest::of(&holder(who), &request_id(attempt))
}

/// The request of no grant.
pub fn nobody() -> RequestDigest {
    request(PROGRAM + 1, 0)
}

/// The task token of an execution's n-th attempt.
pub fn token(who: Who, n: u8) -> TaskToken {
    TaskToken::new(format!("{who}.{n}")).expect("a short name")
}

/// Whose token it is, and of which attempt.
pub fn of_token(token: &TaskToken) -> Option<(Who, u8)> {
    let (who, n) = token.expose().split_once('.')?;
    Some((who.parse().ok()?, n.parse().ok()?))
}
