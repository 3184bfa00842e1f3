//! Grants a lease, one permit of a semaphore, or several leases at once. With a task token the request waits in the
//! queue. While somebody else holds the key it fails with `Lease.Held`, or returns that as a result if asked to. It
//! fails with `Lease.Consumed` for a late duplicate, with `Lease.Frozen` for a frozen key, and with `Lease.QueueFull`
//! if the queue has reached its cap.

use leasehold::{
    Acquire, AcquireAll, Acquired, AcquiredAll, Error, Holder, KeepTime, Key, Keys, Leases,
    Lifetime, LifetimeKind, Metadata, ObservedVersion, Permits, Queue, Queued, RequestId,
    TaskToken, Ttl, WaitTime, lambda::Fatal, store::Store,
};
use serde::{Deserialize, Serialize};

/// Asks for the lease of one key, for one permit of a key, or for the leases of several keys.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = leasehold::schema::rules::acquire))]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "the contract's names")]
pub(crate) struct Request {
    /// What to lease: this or `keys`.
    key: Option<Key>,
    /// What to lease together: all of these keys or none.
    keys: Option<Keys>,
    /// Who acquires; in a workflow the bare ARN of the execution.
    holder: Holder,
    /// Idempotency key: the same holder and `request_id` get the same lease. Random if left out.
    request_id: Option<RequestId>,
    /// How long the lease lasts: "ttl", until a deadline; or "execution", while the holder, an execution, runs. If left
    /// out, "ttl", and with `task_token` "execution", which is the only one then.
    lifetime: Option<LifetimeKind>,
    /// Length of a lease with a deadline, in seconds. It has to be longer than the guard (`LEASE_GUARD_MS`).
    ttl_seconds: Option<Ttl>,
    /// How long a lease with lifetime "execution" stays after a failure, stop or time-out, in seconds; 0 if left out.
    keep_seconds: Option<KeepTime>,
    /// How many may hold the key at once; 1 if left out.
    permits: Option<Permits>,
    /// What others may see of the lease.
    #[serde(default)]
    metadata: Metadata,
    /// Take the key over if its version is still this one, and compare no clock; 0 for "not seen yet".
    observed_version: Option<ObservedVersion>,
    /// Return the unexpired lease that the same holder has by another request, instead of Lease.Held.
    #[serde(default)]
    reentrant: bool,
    /// How to report that the key is held; "error" if left out.
    on_held: Option<OnHeld>,
    /// Wait in the queue: the task token of Step Functions that the lease is sent to.
    task_token: Option<TaskToken>,
    /// How long to wait in the queue, in seconds.
    wait_seconds: Option<WaitTime>,
}

#[derive(Deserialize, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum OnHeld {
    /// As the error Lease.Held.
    Error,
    /// As a response with the outcome "held".
    Result,
}

/// The response of acquire.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
            // On the heap, because it is much larger than the others.
            let queued = Box::pin(leases.acquire_queued(one(request, key)?, queue));
            Ok(Answer::InLine(queued.await?))
        }
        (Some(key), None) => {
            let acquired = leases.acquire(one(request, key)?).await?;
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
        ("ttl_seconds", request.ttl_seconds.is_some()),
        ("lifetime", request.lifetime == Some(LifetimeKind::Ttl)),
    ] {
        if given {
            return Err(Error::invalid(field, "does not go with task_token"));
        }
    }
    // Only executions wait in the queue.
    request.lifetime = Some(LifetimeKind::Execution);
    match wait {
        Some(wait) => Ok(Some(Queue { task_token, wait })),
        None => Err(Error::invalid(
            "wait_seconds",
            "is required with task_token",
        )),
    }
}

fn lifetime(request: &Request) -> Result<Lifetime, Error> {
    let (ttl, keep) = (request.ttl_seconds, request.keep_seconds);
    match (request.lifetime.unwrap_or(LifetimeKind::Ttl), ttl, keep) {
        (LifetimeKind::Ttl, Some(ttl), None) => Ok(Lifetime::Ttl(ttl)),
        (LifetimeKind::Ttl, None, _) => Err(Error::invalid(
            "ttl_seconds",
            "is required, or lifetime \"execution\" instead",
        )),
        (LifetimeKind::Ttl, _, Some(_)) => Err(Error::invalid(
            "keep_seconds",
            "goes with lifetime \"execution\" only",
        )),
        (LifetimeKind::Execution, Some(_), _) => Err(Error::invalid(
            "ttl_seconds",
            "does not go with lifetime \"execution\", which has no deadline",
        )),
        (LifetimeKind::Execution, None, keep) => Ok(Lifetime::Execution {
            keep: keep.unwrap_or_default(),
        }),
    }
}

fn one(request: Request, key: Key) -> Result<Acquire, Error> {
    let lifetime = lifetime(&request)?;
    let mut acquire = Acquire::new(key, request.holder, lifetime);
    acquire.request_id = request.request_id.unwrap_or_else(RequestId::random);
    acquire.metadata = request.metadata;
    acquire.permits = request.permits;
    acquire.observed_version = request.observed_version;
    acquire.reentrant = request.reentrant;
    Ok(acquire)
}

fn all(request: Request, keys: Keys) -> Result<AcquireAll, Error> {
    let not_with_keys = |field| Error::invalid(field, "goes with key only, not with keys");
    if request.observed_version.is_some() {
        return Err(not_with_keys("observed_version"));
    }
    if request.permits.is_some() {
        return Err(not_with_keys("permits"));
    }
    let lifetime = lifetime(&request)?;
    let mut acquire = AcquireAll::new(keys, request.holder, lifetime);
    acquire.request_id = request.request_id.unwrap_or_else(RequestId::random);
    acquire.metadata = request.metadata;
    acquire.reentrant = request.reentrant;
    Ok(acquire)
}
