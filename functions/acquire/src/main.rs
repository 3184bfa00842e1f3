//! Grants a lease, or one of a semaphore's permits, or several leases at once. Refuses with
//! `Lease.Held` while somebody else holds it (unless asked to tell so as a result), with
//! `Lease.Consumed` a late duplicate, with `Lease.Frozen` a frozen key.

use leasehold::{
    Acquire, AcquireAll, Acquired, AcquiredAll, Error, Holder, Key, Keys, Leases, Metadata,
    ObservedVersion, Permits, RequestId, Ttl,
    lambda::{Fatal, NotYet},
    store::Store,
};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "the contract's names")]
struct Request {
    key: Option<Key>,
    keys: Option<Keys>,
    holder: Holder,
    request_id: Option<RequestId>,
    ttl_seconds: Ttl,
    permits: Option<Permits>,
    #[serde(default)]
    metadata: Metadata,
    observed_version: Option<ObservedVersion>,
    #[serde(default)]
    reentrant: bool,
    #[serde(default)]
    on_held: OnHeld,
    #[serde(rename = "task_token")]
    _task_token: Option<NotYet>,
    #[serde(rename = "wait_seconds")]
    _wait_seconds: Option<NotYet>,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum OnHeld {
    #[default]
    Error,
    Result,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    One(Acquired),
    All(AcquiredAll),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Fatal> {
    leasehold::lambda::serve(handle).await
}

async fn handle<S: Store>(leases: Leases<S>, mut request: Request) -> Result<Answer, Error> {
    let strict = request.on_held == OnHeld::Error;
    match (request.key.take(), request.keys.take()) {
        (Some(key), None) => {
            let acquired = leases.acquire(one(request, key)).await?;
            Ok(Answer::One(if strict {
                Acquired::Granted(acquired.granted()?)
            } else {
                acquired
            }))
        }
        (None, Some(keys)) => {
            let acquired = leases.acquire_all(all(request, keys)?).await?;
            Ok(Answer::All(if strict {
                AcquiredAll::Granted(acquired.granted()?)
            } else {
                acquired
            }))
        }
        (Some(_), Some(_)) => Err(Error::invalid("keys", "give key or keys, not both")),
        (None, None) => Err(Error::invalid("key", "is required, or keys instead")),
    }
}

fn one(request: Request, key: Key) -> Acquire {
    let mut acquire = Acquire::new(key, request.holder, request.ttl_seconds);
    acquire.request_id = request.request_id;
    acquire.metadata = request.metadata;
    acquire.permits = request.permits;
    acquire.observed_version = request.observed_version;
    acquire.reentrant = request.reentrant;
    acquire
}

fn all(request: Request, keys: Keys) -> Result<AcquireAll, Error> {
    let not_with_keys = |field| Error::invalid(field, "goes with key only, not with keys");
    if request.observed_version.is_some() {
        return Err(not_with_keys("observed_version"));
    }
    if request
        .permits
        .is_some_and(|permits| permits > Permits::ONE)
    {
        return Err(not_with_keys("permits"));
    }
    let mut acquire = AcquireAll::new(keys, request.holder, request.ttl_seconds);
    acquire.request_id = request.request_id;
    acquire.metadata = request.metadata;
    acquire.reentrant = request.reentrant;
    Ok(acquire)
}
