//! Grants a lease, one permit of a semaphore, or several leases at once. With a task token or the id of a callback the request
//! waits in the queue. While somebody else holds the key it fails with `Lease.Held`, or returns who holds it if asked to. It
//! fails with `Lease.Consumed` for a late duplicate, with `Lease.Frozen` for a frozen key, and with `Lease.QueueFull`
//! if the queue has reached its cap.

use leasehold::{
    Acquire, AcquireAll, Acquired, AcquiredAll, AtLeast, CallbackId, Error, Holder, KeepTime, Key,
    Keys, Lifetime, LifetimeKind, Metadata, ObservedVersion, Permits, Pool, Queue, Queued,
    RequestId, TaskToken, Ttl, Wait, WaitTime, store::Store,
};
use leasehold_lambda::{Fatal, Function, Names};
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
    /// out, "ttl", and with `task_token` or `callback_id` "execution", which is the only one then.
    lifetime: Option<LifetimeKind>,
    /// Length of a lease with a deadline, in seconds. It has to be longer than the guard (`LEASE_GUARD_MS`).
    ttl_seconds: Option<Ttl>,
    /// How long a lease with lifetime "execution" stays after a failure, stop or timeout, in seconds; 0 if left out.
    keep_seconds: Option<KeepTime>,
    /// How many may hold the key at once; if left out, one at a time with others that leave it out.
    permits: Option<Permits>,
    /// A permit of this pool besides the key, which many keys share: the request takes its key first, waits in the pool, and is notified
    /// once it has both. Only with `task_token` or `callback_id`.
    pool: Option<Pool>,
    /// Cooldown: for how long after the grant the key is not granted again, even if it is released before, in seconds; 0 if left out.
    #[serde(default)]
    at_least_seconds: AtLeast,
    /// What others may see of the lease.
    #[serde(default)]
    metadata: Metadata,
    /// Take the key over if its version is still this one, and compare no clock; 0 for "not seen yet".
    observed_version: Option<ObservedVersion>,
    /// Return the unexpired lease that the same holder has by another request, instead of Lease.Held.
    #[serde(default)]
    reentrant: bool,
    /// What to do while somebody else holds the key.
    if_held: Option<IfHeld>,
    /// Wait in the queue: the task token of Step Functions that the lease is sent to.
    task_token: Option<TaskToken>,
    /// Wait in the queue: the id of the callback of a durable execution that the lease is sent to.
    callback_id: Option<CallbackId>,
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
            pool,
            at_least_seconds: _,
            metadata: _,
            observed_version: _,
            reentrant,
            if_held: _,
            task_token: _,
            callback_id: _,
            wait_seconds: _,
        } = self;
        Names::default()
            .key(key)
            .keys(keys)
            .pool(pool)
            .holder(holder)
            .request_id(request_id)
            .reentrant(*reentrant)
    }
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum IfHeld {
    /// Fail with Lease.Held: the default without `task_token` and `callback_id`.
    Fail,
    /// Return the outcome "held", which says who holds it.
    Skip,
    /// Wait in the queue: the default with `task_token` or `callback_id`, and only with one of them.
    Wait,
    /// Wait in the queue, and only the newest does: everybody who waits already fails with Lease.Superseded. Only with
    /// `task_token` or `callback_id`.
    Latest,
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

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Fatal> {
    Function::new(env!("CARGO_PKG_NAME"))
        .that_notifies()
        .serve(handle)
        .await
}

pub(crate) async fn handle<S: Store>(queue: Queue<S>, request: Request) -> Result<Answer, Error> {
    let skips = request.if_held == Some(IfHeld::Skip);
    Ok(match Call::try_from(request)? {
        Call::One(request) => {
            let acquired = queue.acquire(request).await?;
            Answer::One(if skips {
                acquired
            } else {
                Acquired::Granted(acquired.granted()?)
            })
        }
        Call::All(request) => {
            let acquired = queue.acquire_all(request).await?;
            Answer::All(if skips {
                acquired
            } else {
                AcquiredAll::Granted(acquired.granted()?)
            })
        }
        // On the heap, because it is much larger than the others.
        Call::Queued(request, wait) => {
            Answer::Queued(Box::pin(queue.acquire_queued(request, wait)).await?)
        }
    })
}

/// What a request asks for, if its fields go together.
enum Call {
    One(Acquire),
    All(AcquireAll),
    Queued(Acquire, Wait),
}

impl TryFrom<Request> for Call {
    type Error = Error;

    fn try_from(mut request: Request) -> Result<Self, Error> {
        let queue = request.queue()?;
        let lifetime = request.lifetime(queue.is_some());
        match (request.key.take(), request.keys.take(), queue) {
            (Some(_), Some(_), _) => invalid("keys", "give key or keys, not both"),
            (None, None, _) => invalid("key", "is required, or keys instead"),
            (None, Some(keys), _) => Ok(Self::All(request.acquire(keys, lifetime?))),
            (Some(key), None, None) => Ok(Self::One(request.acquire(key, lifetime?))),
            (Some(key), None, Some(queue)) => {
                Ok(Self::Queued(request.acquire(key, lifetime?), queue))
            }
        }
    }
}

impl Request {
    /// The place to wait, if the request has a task token or the id of a callback.
    fn queue(&mut self) -> Result<Option<Wait>, Error> {
        let Some((by, task_token)) = self.told_by()? else {
            if let Some(IfHeld::Wait | IfHeld::Latest) = self.if_held {
                let problem = "\"wait\" and \"latest\" need a task_token or a callback_id";
                return invalid("if_held", problem);
            }
            if self.wait_seconds.is_some() {
                let problem = "goes with task_token or callback_id only, which is missing";
                return invalid("wait_seconds", problem);
            }
            return Ok(None);
        };
        for (field, given) in [
            ("keys", self.keys.is_some()),
            ("ttl_seconds", self.ttl_seconds.is_some()),
            ("lifetime", self.lifetime == Some(LifetimeKind::Ttl)),
        ] {
            if given {
                return invalid(field, &format!("does not go with {by}"));
            }
        }
        let latest = match self.if_held {
            None | Some(IfHeld::Wait) => false,
            Some(IfHeld::Latest) => true,
            Some(IfHeld::Fail | IfHeld::Skip) => {
                let problem = format!("can only be \"wait\" or \"latest\" with {by}");
                return invalid("if_held", &problem);
            }
        };
        let Some(wait) = self.wait_seconds else {
            return invalid("wait_seconds", &format!("is required with {by}"));
        };
        Ok(Some(Wait {
            task_token,
            wait,
            latest,
        }))
    }

    /// What the lease is sent to, and the field that has it. The holder says by which service.
    fn told_by(&mut self) -> Result<Option<(&'static str, TaskToken)>, Error> {
        let is_durable = self.holder.is_durable_execution();
        match (self.task_token.take(), self.callback_id.take()) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => {
                invalid("callback_id", "give task_token or callback_id, not both")
            }
            (Some(_), None) if is_durable => invalid(
                "task_token",
                "is of Step Functions, and the holder is a durable execution: give a callback_id",
            ),
            (Some(token), None) => Ok(Some(("task_token", token))),
            (None, Some(_)) if !is_durable => invalid(
                "holder",
                "must be the ARN of a durable execution with callback_id",
            ),
            (None, Some(id)) => Ok(Some(("callback_id", id.into()))),
        }
    }

    fn lifetime(&self, queued: bool) -> Result<Lifetime, Error> {
        // Only executions wait in the queue.
        let kind = self.lifetime.unwrap_or(if queued {
            LifetimeKind::Execution
        } else {
            LifetimeKind::Ttl
        });
        match (kind, self.ttl_seconds, self.keep_seconds) {
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
        }
    }

    fn acquire<K>(self, key: K, lifetime: Lifetime) -> Acquire<K> {
        let mut acquire = Acquire::new(key, self.holder, lifetime);
        acquire.request_id = self.request_id.unwrap_or(acquire.request_id);
        acquire.metadata = self.metadata;
        acquire.permits = self.permits;
        acquire.pool = self.pool;
        acquire.at_least = self.at_least_seconds;
        acquire.observed_version = self.observed_version;
        acquire.reentrant = self.reentrant;
        acquire
    }
}

fn invalid<T>(field: &str, problem: &str) -> Result<T, Error> {
    Err(Error::invalid(field, problem))
}
