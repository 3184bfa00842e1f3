//! Everything that can be asked of a key.

use std::{fmt::Debug, time::Duration};

use leasehold::{
    AcquireAll, Counter, Error, Evict, ExtendOptions, Holder, Key, Keys, Lease, LeaseSet, Leases,
    ObservedVersion, Permits, Queue, SweepBounds, TaskToken, Ttl, WaitTime, store::Store,
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    marks,
    world::{self, Placed},
};

/// Something that is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Acquire,
    AcquireAgain,
    AcquireReentrant,
    AcquireObserved,
    AcquirePermit,
    AcquireSet,
    AcquireInLine,
    Extend,
    ExtendInTime,
    ExtendSet,
    Release,
    ReleaseStrictly,
    Sweep,
    Inspect,
    List,
    HeldBy,
    ForceRelease,
    Freeze,
    Unfreeze,
    RaiseFloor,
    HandOver,
    Reap,
}

impl Act {
    pub const ALL: &[Self] = &[
        Self::Acquire,
        Self::AcquireAgain,
        Self::AcquireReentrant,
        Self::AcquireObserved,
        Self::AcquirePermit,
        Self::AcquireSet,
        Self::AcquireInLine,
        Self::Extend,
        Self::ExtendInTime,
        Self::ExtendSet,
        Self::Release,
        Self::ReleaseStrictly,
        Self::Sweep,
        Self::Inspect,
        Self::List,
        Self::HeldBy,
        Self::ForceRelease,
        Self::Freeze,
        Self::Unfreeze,
        Self::RaiseFloor,
        Self::HandOver,
        Self::Reap,
    ];

    /// Whether it cannot be answered without the key's first row: one that is no row is told as what it is.
    pub const fn needs_the_row(self) -> bool {
        !matches!(
            self,
            Self::AcquirePermit | Self::Sweep | Self::List | Self::HeldBy | Self::Reap
        )
    }
}

/// What came of it.
pub struct Heard {
    /// As Rust shows it.
    pub debug: String,
    /// As it is told to callers, but for the handle of a lease of their own.
    pub shown: String,
    pub error: Option<Error>,
}

/// Somebody with a handle, and without manners.
pub struct Actor<S> {
    leases: Leases<S>,
    key: Key,
    handle: Lease,
    holder: Holder,
}

impl<S: Store> Actor<S> {
    pub fn new(leases: Leases<S>, key: Key, handle: &Value, items: &[Placed]) -> Self {
        let mut handle: Lease = serde_json::from_value(handle.clone()).expect("a handle");
        handle.permit = 0;
        // Whoever holds it now, if that is readable: reap and lists go by the name.
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

    pub async fn does(&self, act: Act) -> Heard {
        let (leases, key, lease) = (&self.leases, &self.key, &self.handle);
        let ask = |who: &str| world::ask(key.as_str(), who, 60);
        let because = world::because();
        let options = ExtendOptions::default();
        let set = LeaseSet::new(vec![lease.clone()]).expect("one");
        match act {
            Act::Acquire => kept_quiet(leases.acquire(ask("anybody")).await),
            Act::AcquireAgain => kept_quiet(leases.acquire(ask("first")).await),
            Act::AcquireReentrant => {
                let mut again = ask("first");
                again.holder = self.holder.clone();
                kept_quiet(leases.acquire(again.reentrant()).await)
            }
            Act::AcquireObserved => {
                let mut observing = ask("anybody");
                observing.observed_version = Some(ObservedVersion::from(lease.version));
                kept_quiet(leases.acquire(observing).await)
            }
            Act::AcquirePermit => {
                let permits = Permits::new(3).expect("valid");
                kept_quiet(leases.acquire(ask("anybody").permits(permits)).await)
            }
            Act::AcquireSet => {
                let keys = vec![key.clone(), Key::new("another").expect("valid")];
                let (keys, one) = (Keys::new(keys).expect("valid"), ask("a set"));
                let all = AcquireAll::new(keys, one.holder, one.ttl);
                kept_quiet(leases.acquire_all(all).await)
            }
            Act::AcquireInLine => {
                let queue = Queue {
                    task_token: TaskToken::new(marks::secret("token")).expect("valid"),
                    wait: WaitTime::new(Duration::from_secs(60)).expect("valid"),
                };
                told(leases.acquire_in_line(ask("second"), queue).await)
            }
            Act::Extend => kept_quiet(leases.extend(lease, options).await),
            Act::ExtendInTime => {
                let options = ExtendOptions {
                    ttl: Ttl::new(Duration::from_secs(86_400)).ok(),
                    require_unexpired: true,
                };
                kept_quiet(leases.extend(lease, options).await)
            }
            Act::ExtendSet => kept_quiet(leases.extend_all(&set, options).await),
            Act::Release => told(leases.release(lease).await),
            Act::ReleaseStrictly => told(leases.release_strictly(lease).await),
            Act::Sweep => told(leases.sweep(SweepBounds::Schedule).await),
            Act::Inspect => told(leases.inspect(key).await),
            Act::List => told(leases.list(100, None).await),
            Act::HeldBy => told(leases.held_by(&self.holder, 100, None).await),
            Act::ForceRelease => told(leases.force_release(key, Evict::default(), &because).await),
            Act::Freeze => told(leases.freeze(key, &because).await),
            Act::Unfreeze => told(leases.unfreeze(key, &because).await),
            Act::RaiseFloor => {
                let floor = Counter::new(2_000_000_000_000);
                told(leases.raise_floor(key, floor, &because).await)
            }
            Act::HandOver => told(leases.hand_over(key).await),
            Act::Reap => told(leases.reap(&self.holder).await),
        }
    }
}

/// An answer that is shown to whoever asks.
fn told<T: Debug + Serialize>(answer: Result<T, Error>) -> Heard {
    let shown = answer.as_ref().ok().map(serde_json::to_string);
    let shown = shown.map(|text| text.expect("JSON"));
    let heard = kept_quiet(answer);
    Heard {
        shown: shown.unwrap_or(heard.shown),
        ..heard
    }
}

/// An answer that brings a lease to whom it belongs: only an error is for everybody.
fn kept_quiet<T: Debug>(answer: Result<T, Error>) -> Heard {
    let debug = format!("{answer:?}");
    let error = answer.err();
    let json = error.as_ref().map(serde_json::to_string);
    Heard {
        debug,
        shown: json.map_or_else(String::new, |text| text.expect("JSON")),
        error,
    }
}
