//! Values for tests, from texts and numbers that are known to be valid.
#![allow(
    clippy::must_use_candidate,
    reason = "a test that drops a value shows nothing"
)]

use std::{sync::Arc, time::Duration};

use crate::{
    Acquire, AuditReason, ExtendOptions, Holder, KeepTime, Key, Keys, Lifetime, ManualClock,
    Metadata, Operator, Permits, Reason, RequestId, Timestamp, Ttl, row::Item, row::s,
};

/// A clock that shows a time in the year 2027.
pub fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)))
}

pub fn key(text: impl Into<String>) -> Key {
    Key::new(text).expect("a valid key")
}

pub fn keys(keys: Vec<Key>) -> Keys {
    Keys::new(keys).expect("valid keys")
}

pub fn holder(name: impl Into<String>) -> Holder {
    Holder::new(name).expect("a valid holder")
}

/// The holder of an execution with this name.
pub fn execution(name: impl std::fmt::Display) -> Holder {
    holder(format!(
        "arn:aws:states:eu-west-1:123456789012:execution:waits:{name}"
    ))
}

pub fn request_id(text: impl Into<String>) -> RequestId {
    RequestId::new(text).expect("a valid request id")
}

pub fn ttl(length: Duration) -> Ttl {
    Ttl::new(length).expect("a valid ttl")
}

pub fn permits(n: u16) -> Permits {
    Permits::new(n).expect("valid permits")
}

pub fn metadata(name: &str, value: &str) -> Metadata {
    let entries = [(name.to_owned(), value.to_owned())];
    Metadata::new(entries.into()).expect("valid metadata")
}

/// An acquire with a new request id.
pub fn request(key: Key, holder: &str, ttl: Duration) -> Acquire {
    Acquire::new(key, self::holder(holder), self::ttl(ttl))
}

/// An acquire of a lease that lasts while this execution runs, with a new request id.
pub fn of_execution(key: Key, name: impl std::fmt::Display) -> Acquire {
    let keep = KeepTime::default();
    Acquire::new(key, execution(name), Lifetime::Execution { keep })
}

/// An extend to another ttl.
pub fn extend_by(ttl: Duration) -> ExtendOptions {
    ExtendOptions {
        ttl: Some(self::ttl(ttl)),
        ..ExtendOptions::default()
    }
}

pub fn because() -> AuditReason {
    AuditReason {
        who: Operator::new("night shift").expect("a valid name"),
        why: Reason::new("partner is down").expect("a valid reason"),
    }
}

/// An item that no version of the library writes.
pub fn foreign_item() -> Item {
    Item::from([("colour".to_owned(), s("blue"))])
}
