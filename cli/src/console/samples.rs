//! Keys for the tests of pages.

use leasehold::{Holder, Inspected, Key, KeyView, Metadata, Timestamp, WaiterView};
use serde_json::{Value, json};

use super::page::Site;

pub(super) const NOW: Timestamp = Timestamp::from_millis(1_800_000_060_000);
pub(super) const EXECUTION: &str = "arn:aws:states:eu-west-1:123456789012:execution:orders:7f3c";

/// This many seconds after the grant, which was a minute ago.
pub(super) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000 + seconds * 1000)
}

/// What a lease of an execution has, and this besides.
pub(super) fn execution(more: &Value) -> Value {
    let mut lease = json!({"holder": EXECUTION, "lifetime": "execution", "keep_seconds": 0});
    merge(&mut lease, more);
    lease
}

/// A key whose lease has this.
pub(super) fn view(key: &str, lease: &Value) -> KeyView {
    let mut held = json!({
        "key": key, "holder": "worker 7", "ttl_seconds": 600, "expires_at": at(600), "safe_until": at(599),
        "acquired_at": at(0), "metadata": {"order": "42"}, "fencing_token": 7, "version": 8, "permit": 0,
    });
    if lease.get("lifetime").is_some() {
        for name in ["ttl_seconds", "expires_at", "safe_until"] {
            held.as_object_mut().unwrap().remove(name);
        }
    }
    merge(&mut held, lease);
    let ends = &held["expires_at"];
    let is_past = ends
        .as_str()
        .is_some_and(|ends| ends <= NOW.to_string().as_str());
    let state = if is_past { "expired" } else { "held" };
    let answer = json!({"outcome": "found", "state": state, "lease": held, "frozen": false, "waiting": 0, "previous": null});
    let seen: Inspected = serde_json::from_value(answer).unwrap();
    KeyView::of(Key::new(key).unwrap(), seen, NOW)
}

fn merge(into: &mut Value, more: &Value) {
    let more = more.as_object().unwrap().clone();
    into.as_object_mut().unwrap().extend(more);
}

/// One that waits at this place since then.
pub(super) fn waiting(place: usize, since: u64) -> WaiterView {
    WaiterView {
        place,
        holder: Holder::new(format!("worker {place}")).unwrap(),
        start: false,
        permits: None,
        since: at(since),
        until: at(3660),
        metadata: Metadata::default(),
    }
}

pub(super) fn site(allow_changes: bool) -> Site {
    Site {
        table: "leases".to_owned(),
        allow_changes,
        is_aws: true,
        who: "alice".to_owned(),
        options: "--table leases".to_owned(),
    }
}
