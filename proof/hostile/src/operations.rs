//! Everything that can be asked of a key.

use std::{fmt::Debug, time::Duration};

use leasehold::{
    AcquireAll, Counter, Error, ExtendOptions, ForceReleaseOptions, Holder, Key, Keys, Lease,
    LeaseSet, ObservedVersion, Permits, Queue, SweepBounds, TaskToken, Ttl, Wait, WaitTime,
    store::Store,
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    fixture::{self, StoredItem},
    secrets,
};

/// Each operation, and whether it needs the key's first row: then one that is no row is refused as such.
pub const OPERATIONS: [(&str, bool); 23] = [
    ("acquire", true),
    ("acquire again", true),
    ("acquire reentrant", true),
    ("acquire observed", true),
    ("acquire permit", false),
    ("acquire set", true),
    ("acquire execution", true),
    ("acquire in the queue", true),
    ("extend", true),
    ("extend in time", true),
    ("extend set", true),
    ("release", true),
    ("release strictly", true),
    ("sweep", false),
    ("inspect", true),
    ("list", false),
    ("held by", false),
    ("force release", true),
    ("freeze", true),
    ("unfreeze", true),
    ("raise floor", true),
    ("hand over", true),
    ("reap", false),
];

/// What an operation returned.
pub struct Outcome {
    /// As Rust shows it.
    pub debug: String,
    /// As callers see it, but for the handle of a lease of their own.
    pub shown: String,
    pub error: Option<Error>,
}

/// Somebody with an old handle.
pub struct Caller<S> {
    leases: Queue<S>,
    key: Key,
    handle: Lease,
    holder: Holder,
}

impl<S: Store> Caller<S> {
    pub fn new(leases: Queue<S>, key: Key, handle: &Value, items: &[StoredItem]) -> Self {
        let mut handle: Lease = serde_json::from_value(handle.clone()).expect("a handle");
        handle.permit = 0;
        // The current holder, if that is readable: reap and lists go by the name.
        let names = items.iter().filter_map(|(.., item)| item.get("holder"));
        let mut names = names.filter_map(|name| Holder::new(name.as_s().ok()?).ok());
        let holder = names.next().unwrap_or_else(|| handle.holder.clone());
        Self {
            leases,
            key,
            handle,
            holder,
        }
    }

    pub async fn call(&self, operation: &str) -> Outcome {
        let (leases, key, lease) = (&self.leases, &self.key, &self.handle);
        let ask = |who: &str| fixture::ask(key.as_str(), who, 60);
        let because = fixture::because();
        let options = ExtendOptions::default();
        let set = LeaseSet::new(vec![lease.clone()]).expect("one");
        match operation {
            "acquire" => private(leases.acquire(ask("anybody")).await),
            "acquire again" => private(leases.acquire(ask("first")).await),
            "acquire reentrant" => {
                let mut again = ask("first");
                again.holder = self.holder.clone();
                private(leases.acquire(again.reentrant()).await)
            }
            "acquire observed" => {
                let mut observing = ask("anybody");
                observing.observed_version = Some(ObservedVersion::from(lease.version));
                private(leases.acquire(observing).await)
            }
            "acquire permit" => {
                let permits = Permits::new(3).expect("valid");
                private(leases.acquire(ask("anybody").permits(permits)).await)
            }
            "acquire set" => {
                let keys = vec![key.clone(), Key::new("another").expect("valid")];
                let (keys, one) = (Keys::new(keys).expect("valid"), ask("a set"));
                let all = AcquireAll::new(keys, one.holder, one.lifetime);
                private(leases.acquire_all(all).await)
            }
            "acquire execution" => {
                let lasting = fixture::ask_as_execution(key.as_str(), "anybody");
                private(leases.acquire(lasting).await)
            }
            "acquire in the queue" => {
                let queue = Wait {
                    task_token: TaskToken::new(secrets::secret("token")).expect("valid"),
                    wait: WaitTime::new(Duration::from_secs(60)).expect("valid"),
                    latest: false,
                };
                let waits = fixture::ask_as_execution(key.as_str(), "second");
                public(leases.acquire_queued(waits, queue).await)
            }
            "extend" => private(leases.extend(lease, options).await),
            "extend in time" => {
                let options = ExtendOptions {
                    // Without a deadline there is none to choose, and nothing else is looked at.
                    ttl: lease
                        .deadline
                        .and_then(|_| Ttl::new(Duration::from_secs(86_400)).ok()),
                    require_unexpired: true,
                };
                private(leases.extend(lease, options).await)
            }
            "extend set" => private(leases.extend_all(&set, options).await),
            "release" => public(leases.release(lease).await),
            "release strictly" => public(leases.release_strictly(lease).await),
            "sweep" => public(leases.sweep(SweepBounds::Schedule).await),
            "inspect" => public(leases.inspect(key).await),
            "list" => public(leases.list(100, None).await),
            "held by" => public(leases.held_by(&self.holder, 100, None).await),
            "force release" => public(
                leases
                    .force_release(key, ForceReleaseOptions::default(), &because)
                    .await,
            ),
            "freeze" => public(leases.freeze(key, &because).await),
            "unfreeze" => public(leases.unfreeze(key, &because).await),
            "raise floor" => {
                let floor = Counter::new(2_000_000_000_000);
                public(leases.raise_floor(key, floor, &because).await)
            }
            "hand over" => public(leases.hand_over(key).await),
            _ => public(leases.reap(&self.holder).await),
        }
    }
}

/// An answer that any caller may see.
fn public<T: Debug + Serialize>(answer: Result<T, Error>) -> Outcome {
    let shown = answer.as_ref().ok().map(serde_json::to_string);
    let shown = shown.map(|text| text.expect("JSON"));
    let outcome = private(answer);
    Outcome {
        shown: shown.unwrap_or(outcome.shown),
        ..outcome
    }
}

/// An answer that brings a lease to whom it belongs: only an error is for everybody.
fn private<T: Debug>(answer: Result<T, Error>) -> Outcome {
    let debug = format!("{answer:?}");
    let error = answer.err();
    let json = error.as_ref().map(serde_json::to_string);
    Outcome {
        debug,
        shown: json.map_or_else(String::new, |text| text.expect("JSON")),
        error,
    }
}
