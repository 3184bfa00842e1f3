//! Grants a lease, or one of a semaphore's permits, or several leases at once; with a task token it
//! waits in line. Refuses with `Lease.Held` while somebody else holds it (unless asked to tell so as
//! a result), with `Lease.Consumed` a late duplicate, with `Lease.Frozen` a frozen key, with
//! `Lease.QueueFull` one more than the line takes.

use leasehold::{
    Acquire, AcquireAll, Acquired, AcquiredAll, Error, Holder, Key, Keys, Leases, Metadata,
    ObservedVersion, Permits, Queue, Queued, RequestId, TaskToken, Ttl, WaitTime, lambda::Fatal,
    store::Store,
};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "the contract's names")]
pub(crate) struct Request {
    key: Option<Key>,
    keys: Option<Keys>,
    holder: Holder,
    #[serde(default = "RequestId::random")]
    request_id: RequestId,
    ttl_seconds: Ttl,
    permits: Option<Permits>,
    #[serde(default)]
    metadata: Metadata,
    observed_version: Option<ObservedVersion>,
    #[serde(default)]
    reentrant: bool,
    on_held: Option<OnHeld>,
    task_token: Option<TaskToken>,
    wait_seconds: Option<WaitTime>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum OnHeld {
    Error,
    Result,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Answer {
    One(Acquired),
    All(AcquiredAll),
    InLine(Queued),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Fatal> {
    leasehold::lambda::serve_with_workflows(env!("CARGO_PKG_NAME"), handle).await
}

pub(crate) async fn handle<S: Store>(
    leases: Leases<S>,
    mut request: Request,
) -> Result<Answer, Error> {
    let strict = request.on_held != Some(OnHeld::Result);
    let queue = queue(&mut request)?;
    match (request.key.take(), request.keys.take()) {
        (Some(key), None) if let Some(queue) = queue => {
            let queued = leases.acquire_in_line(one(request, key), queue).await?;
            Ok(Answer::InLine(queued))
        }
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

fn queue(request: &mut Request) -> Result<Option<Queue>, Error> {
    let wait = request.wait_seconds;
    let Some(task_token) = request.task_token.take() else {
        return match wait {
            Some(_) => Err(Error::invalid("wait_seconds", "goes with task_token only")),
            None => Ok(None),
        };
    };
    for (field, given) in [
        ("keys", request.keys.is_some()),
        ("on_held", request.on_held.is_some()),
    ] {
        if given {
            return Err(Error::invalid(field, "does not go with task_token"));
        }
    }
    match wait {
        Some(wait) => Ok(Some(Queue { task_token, wait })),
        None => Err(Error::invalid(
            "wait_seconds",
            "is required with task_token",
        )),
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
