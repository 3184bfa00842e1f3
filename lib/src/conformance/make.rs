//! Values for tests, from texts and numbers that are known to be valid.

use std::{sync::Arc, time::Duration};

use crate::{
    Acquire, AuditReason, ExtendOptions, Holder, KeepTime, Key, Keys, Lifetime, ManualClock,
    Metadata, Operator, Permits, Reason, RequestId, Timestamp, Ttl, row::Item, row::s,
};

/// A clock that shows a time in the year 2027.
pub(crate) fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)))
}

pub(crate) fn key(text: impl Into<String>) -> Key {
    Key::new(text).expect("a valid key")
}

pub(crate) fn keys(keys: Vec<Key>) -> Keys {
    Keys::new(keys).expect("valid keys")
}

pub(crate) fn holder(name: impl Into<String>) -> Holder {
    Holder::new(name).expect("a valid holder")
}

/// The holder of an execution with this name.
pub(crate) fn execution(name: impl std::fmt::Display) -> Holder {
    holder(format!(
        "arn:aws:states:eu-west-1:123456789012:execution:waits:{name}"
    ))
}

pub(crate) fn request_id(text: impl Into<String>) -> RequestId {
    RequestId::new(text).expect("a valid request id")
}

pub(crate) fn ttl(length: Duration) -> Ttl {
    Ttl::new(length).expect("a valid ttl")
}

pub(crate) fn permits(n: u16) -> Permits {
    Permits::new(n).expect("valid permits")
}

pub(crate) fn metadata(name: &str, value: &str) -> Metadata {
    let entries = [(name.to_owned(), value.to_owned())];
    Metadata::new(entries.into()).expect("valid metadata")
}

/// An acquire with a new request id.
pub(crate) fn request(key: Key, holder: &str, ttl: Duration) -> Acquire {
    Acquire::new(key, self::holder(holder), self::ttl(ttl))
}

/// An acquire of a lease that lasts while this execution runs, with a new request id.
pub(crate) fn of_execution(key: Key, name: impl std::fmt::Display) -> Acquire {
    let keep = KeepTime::default();
    Acquire::new(key, execution(name), Lifetime::Execution { keep })
}

/// An extend to another ttl.
pub(crate) fn extend_by(ttl: Duration) -> ExtendOptions {
    ExtendOptions {
        ttl: Some(self::ttl(ttl)),
        ..ExtendOptions::default()
    }
}

pub(crate) fn because() -> AuditReason {
    AuditReason {
        who: Operator::new("night shift").expect("a valid name"),
        why: Reason::new("partner is down").expect("a valid reason"),
    }
}

/// An item that no version of the library writes.
pub(crate) fn foreign_item() -> Item {
    Item::from([("colour".to_owned(), s("blue"))])
}
