//! Grants a lease, one permit of a semaphore, or several leases at once. With a task token the request waits in the
//! queue. While somebody else holds the key it fails with `Lease.Held`, or returns that as a result if asked to. It
//! fails with `Lease.Consumed` for a late duplicate, with `Lease.Frozen` for a frozen key, and with `Lease.QueueFull`
//! if the queue has reached its cap.

use leasehold::{
    Acquire, AcquireAll, Acquired, AcquiredAll, Error, Holder, KeepTime, Key, Keys, Leases,
    Lifetime, LifetimeKind, Metadata, ObservedVersion, Permits, Queue, Queued, RequestId,
    TaskToken, Ttl, WaitTime, store::Store,
};
use leasehold_lambda::{Fatal, Function, Names, Response, Summary};
use serde::{Deserialize, Serialize};

/// Asks for the lease of one key, for one permit of a key, or for the leases of several keys.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = leasehold_lambda::schema::rules::acquire))]
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

impl leasehold_lambda::Request for Request {
    fn names(&self) -> Names<'_> {
        let Self {
            key,
            keys,
            holder,
            request_id,
            lifetime: _,
            ttl_seconds: _,
            keep_seconds: _,
            permits: _,
            metadata: _,
            observed_version: _,
            reentrant,
            on_held: _,
            task_token: _,
            wait_seconds: _,
        } = self;
        Names::default()
            .key(key)
            .keys(keys)
            .holder(holder)
            .request_id(request_id)
            .reentrant(*reentrant)
    }
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
    Queued(Queued),
}

impl Response for Answer {
    fn summary(&self) -> Summary {
        match self {
            Self::One(answer) => answer.summary(),
            Self::All(answer) => answer.summary(),
            Self::Queued(answer) => answer.summary(),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Fatal> {
    Function::new(env!("CARGO_PKG_NAME"))
        .that_notifies()
        .serve(handle)
        .await
}

pub(crate) async fn handle<S: Store>(leases: Leases<S>, request: Request) -> Result<Answer, Error> {
    let strict = request.on_held != Some(OnHeld::Result);
    Ok(match Call::try_from(request)? {
        Call::One(request) => {
            let acquired = leases.acquire(request).await?;
            Answer::One(if strict {
                Acquired::Granted(acquired.granted()?)
            } else {
                acquired
            })
        }
        Call::All(request) => {
            let acquired = leases.acquire_all(request).await?;
            Answer::All(if strict {
                AcquiredAll::Granted(acquired.granted()?)
            } else {
                acquired
            })
        }
        // On the heap, because it is much larger than the others.
        Call::Queued(request, queue) => {
            Answer::Queued(Box::pin(leases.acquire_queued(request, queue)).await?)
        }
    })
}

/// What a request asks for, if its fields go together.
enum Call {
    One(Acquire),
    All(AcquireAll),
    Queued(Acquire, Queue),
}

impl TryFrom<Request> for Call {
    type Error = Error;

    fn try_from(request: Request) -> Result<Self, Error> {
        let queue = match (request.task_token, request.wait_seconds) {
            (None, None) => None,
            (None, Some(_)) => {
                return invalid(
                    "wait_seconds",
                    "goes with task_token only, which is missing",
                );
            }
            (Some(task_token), wait) => {
                for (field, given) in [
                    ("keys", request.keys.is_some()),
                    ("on_held", request.on_held.is_some()),
                    ("ttl_seconds", request.ttl_seconds.is_some()),
                    ("lifetime", request.lifetime == Some(LifetimeKind::Ttl)),
                ] {
                    if given {
                        return invalid(field, "does not go with task_token");
                    }
                }
                let Some(wait) = wait else {
                    return invalid("wait_seconds", "is required with task_token");
                };
                Some(Queue { task_token, wait })
            }
        };
        // Only executions wait in the queue.
        let kind = request.lifetime.unwrap_or(match queue {
            Some(_) => LifetimeKind::Execution,
            None => LifetimeKind::Ttl,
        });
        let lifetime = || match (kind, request.ttl_seconds, request.keep_seconds) {
            (LifetimeKind::Ttl, Some(ttl), None) => Ok(Lifetime::Ttl(ttl)),
            (LifetimeKind::Ttl, None, _) => invalid(
                "ttl_seconds",
                "is required, or lifetime \"execution\" instead",
            ),
            (LifetimeKind::Ttl, _, Some(_)) => {
                invalid("keep_seconds", "goes with lifetime \"execution\" only")
            }
            (LifetimeKind::Execution, Some(_), _) => invalid(
                "ttl_seconds",
                "does not go with lifetime \"execution\", which has no deadline",
            ),
            (LifetimeKind::Execution, None, keep) => Ok(Lifetime::Execution {
                keep: keep.unwrap_or_default(),
            }),
        };
        match (request.key, request.keys) {
            (Some(_), Some(_)) => invalid("keys", "give key or keys, not both"),
            (None, None) => invalid("key", "is required, or keys instead"),
            (Some(key), None) => {
                let mut acquire = Acquire::new(key, request.holder, lifetime()?);
                acquire.request_id = request.request_id.unwrap_or(acquire.request_id);
                acquire.metadata = request.metadata;
                acquire.permits = request.permits;
                acquire.observed_version = request.observed_version;
                acquire.reentrant = request.reentrant;
                Ok(match queue {
                    Some(queue) => Self::Queued(acquire, queue),
                    None => Self::One(acquire),
                })
            }
            (None, Some(keys)) => {
                for (field, given) in [
                    ("observed_version", request.observed_version.is_some()),
                    ("permits", request.permits.is_some()),
                ] {
                    if given {
                        return invalid(field, "goes with key only, not with keys");
                    }
                }
                let mut acquire = AcquireAll::new(keys, request.holder, lifetime()?);
                acquire.request_id = request.request_id.unwrap_or(acquire.request_id);
                acquire.metadata = request.metadata;
                acquire.reentrant = request.reentrant;
                Ok(Self::All(acquire))
            }
        }
    }
}

fn invalid<T>(field: &str, problem: &str) -> Result<T, Error> {
    Err(Error::invalid(field, problem))
}
