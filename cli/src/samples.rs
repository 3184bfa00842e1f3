//! Leases and keys for the tests of what people are shown.

use leasehold::{
    ExecutionName, FailedStart, Holder, Inspected, Key, KeyView, LeaseView, Metadata,
    StateMachineArn, Timestamp, WaiterView,
};
use serde_json::{Value, json};

pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_800_000_060_000);
pub(crate) const EXECUTION: &str = "arn:aws:states:eu-west-1:123456789012:execution:orders:7f3c";

/// This many seconds after the grant, which was a minute ago.
pub(crate) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000 + seconds * 1000)
}

/// What a lease of an execution has, and this besides.
pub(crate) fn execution(more: Value) -> Value {
    let lease = json!({"holder": EXECUTION, "lifetime": "execution", "keep_seconds": 0});
    merged(lease, more)
}

/// A lease whose holder, deadline and the like are these.
pub(crate) fn lease(key: &str, more: Value) -> LeaseView {
    let mut lease = json!({
        "key": key, "holder": "worker 7", "ttl_seconds": 600, "expires_at": at(600), "safe_until": at(599),
        "acquired_at": at(0), "metadata": {"order": "42"}, "fencing_token": 7, "version": 8, "permit": 0,
    });
    let fields = lease.as_object_mut().unwrap();
    if more.get("lifetime").is_some() {
        fields.retain(|name, _| !["ttl_seconds", "expires_at", "safe_until"].contains(&&**name));
    }
    serde_json::from_value(merged(lease, more)).unwrap()
}

pub(crate) fn free(permit: u16) -> LeaseView {
    LeaseView {
        held: None,
        permit,
        ..lease("orders/42", json!({}))
    }
}

/// One permit as the function inspect answers it, with this besides.
pub(crate) fn permit(lease: &LeaseView, more: Value) -> Value {
    let state = lease.state(NOW);
    let seen =
        json!({"state": state, "lease": lease, "frozen": false, "waiting": 0, "previous": null});
    merged(seen, more)
}

/// A key of which the function inspect answers this.
pub(crate) fn seen(lease: &LeaseView, more: Value) -> KeyView {
    let answer = merged(permit(lease, json!({"outcome": "found"})), more);
    let seen: Inspected = serde_json::from_value(answer).unwrap();
    KeyView::of(lease.key.clone(), seen, NOW)
}

/// A key whose lease has this.
pub(crate) fn view(key: &str, more: Value) -> KeyView {
    seen(&lease(key, more), json!({}))
}

fn merged(mut into: Value, more: Value) -> Value {
    let Value::Object(more) = more else {
        panic!("{more} has no fields");
    };
    into.as_object_mut().unwrap().extend(more);
    into
}

/// One that waits at this place since then.
pub(crate) fn waiting(place: usize, since: u64) -> WaiterView {
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

pub(crate) fn failed_start(key: &str) -> FailedStart {
    let machine = "arn:aws:states:eu-west-1:123456789012:stateMachine:orders";
    FailedStart {
        key: Key::new(key).unwrap(),
        execution_arn: Holder::new(EXECUTION).unwrap(),
        state_machine_arn: StateMachineArn::new(machine).unwrap(),
        name: ExecutionName::new("7f3c").unwrap(),
        asked_at: at(0),
        reason: "StateMachineDoesNotExist".to_owned(),
    }
}
