//! Working under a lease without a background task: one future runs the work and extends the lease.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::Poll,
};

use futures_util::future::{Either, select};
use tokio::time::Instant;

use crate::{
    clock::{Timestamp, stopwatch},
    error::Error,
    leases::Leases,
    outcomes::{Extended, Lease, ReleaseOutcome, Released},
    requests::ExtendOptions,
    store::Store,
    values::Ttl,
};
#[cfg(feature = "https-client")]
use crate::{
    settings::Environment,
    store::{Connection, DynamoDb},
};

/// A failed extend is tried again after a tenth of the ttl.
const TRIES_IN_A_TTL: u32 = 10;

#[cfg(feature = "https-client")]
impl Leases<DynamoDb> {
    /// The leases in the table that `LEASE_TABLE` names, with the durations of the other variables ([`Environment`]),
    /// the table's rules ([`Leases::with_table_rules`]) and the SDK's ambient configuration ([`Connection::from_env`]).
    ///
    /// # Errors
    /// [`Error::Misconfigured`] if `LEASE_TABLE` is missing, or if a variable has an invalid value.
    pub async fn from_env() -> Result<Self, Error> {
        let Environment {
            table,
            settings,
            owns_rules,
            executions,
            starts: _,
        } = Environment::read()?;
        let client = Connection::from_env().await;
        let leases = Self::new(DynamoDb::new(client, table), settings);
        let leases = leases.with_executions(executions);
        Ok(if owns_rules {
            leases
        } else {
            leases.with_table_rules()
        })
    }
}

impl<S: Store> Leases<S> {
    /// Runs `work` under `lease`, extends the lease when two thirds of it have passed, and releases it when the work
    /// is done. Returns the result of the work, including the work's own errors.
    ///
    /// Nothing runs in the background: this future polls the work itself. If the lease cannot be extended, the work
    /// is dropped before [`Lease::safe_until`]. The clock is read before each poll, so the work is never polled after
    /// `safe_until`, also if the machine was suspended in between or its clock was set, and a lease that has expired
    /// starts no work. **Dropping cannot unsend a request:** the last request of the work may still arrive, so [guard
    /// its writes](crate::fence). The work has to yield: while it blocks its thread, the lease cannot be extended.
    ///
    /// `work` gets the lease as it is at the start. Its fencing token stays the same until the end.
    ///
    /// When this future is dropped, the work is dropped with it, and the lease is not released: it expires by its
    /// ttl, or the owner of a copy releases it. The same happens if the work panics. A failed release does not fail
    /// the work: the lease expires by its ttl.
    ///
    /// # Errors
    /// Each replaces the work's result, and the work was dropped: [`Error::Lost`], [`Error::Expired`] and
    /// [`Error::Corrupt`] as soon as an extend finds that the lease is no longer the caller's; otherwise the error of
    /// the last extend, if none succeeded until `safe_until`. The lease is then left to expire, because a request of
    /// the work may still be on its way.
    pub async fn hold<T, Work: Future<Output = T>>(
        &self,
        lease: Lease,
        work: impl FnOnce(Lease) -> Work,
    ) -> Result<T, Error> {
        self.hold_with(self, lease, work).await
    }

    /// The same, extended and released by `keeper`.
    pub(crate) async fn hold_with<T, Work: Future<Output = T>>(
        &self,
        keeper: &impl Keeper,
        mut lease: Lease,
        work: impl FnOnce(Lease) -> Work,
    ) -> Result<T, Error> {
        let mut end = self.end_of(&lease);
        if self.is_past(end) {
            return Err(Error::Expired { key: lease.key });
        }
        let mut work = pin!(work(lease.clone()));
        let mut next = lease.extend_due();
        let mut failed = None;
        loop {
            if let Some(done) = self.until(end.or_at(next), work.as_mut()).await {
                end_of_work(keeper, &lease).await;
                return Ok(done);
            }
            if self.is_past(end) {
                let key = lease.key;
                return Err(failed.unwrap_or(Error::Expired { key }));
            }
            let extended = {
                let extend = pin!(keeper.extended(&lease));
                let either = select(work.as_mut(), extend);
                match self.until(end, either).await {
                    Some(Either::Left((done, _))) => {
                        end_of_work(keeper, &lease).await;
                        return Ok(done);
                    }
                    Some(Either::Right((extended, _))) => extended,
                    None => continue,
                }
            };
            match extended {
                Ok(extended) => {
                    lease = extended.into_lease();
                    (end, next, failed) = (self.end_of(&lease), lease.extend_due(), None);
                }
                Err(over) if is_over(&over) => return Err(over),
                Err(error) => {
                    let ttl = lease.ttl().map(Ttl::as_duration).unwrap_or_default();
                    next = self.now().plus(ttl / TRIES_IN_A_TTL);
                    failed = Some(error);
                }
            }
        }
    }

    fn end_of(&self, lease: &Lease) -> End {
        End {
            time: lease.safe_until(),
            timer: stopwatch() + lease.remaining(self.now()),
        }
    }

    fn is_past(&self, end: End) -> bool {
        self.now() >= end.time || stopwatch() >= end.timer
    }

    /// The result of the work, which is polled only before `end`.
    async fn until<T>(&self, end: End, mut work: impl Future<Output = T> + Unpin) -> Option<T> {
        let mut pause = pin!(self.sleep(end.time.since(self.now())));
        poll_fn(|context| {
            if self.is_past(end) {
                return Poll::Ready(None);
            }
            match Pin::new(&mut work).poll(context) {
                Poll::Ready(done) => Poll::Ready(Some(done)),
                Poll::Pending => pause.as_mut().poll(context).map(|()| None),
            }
        })
        .await
    }
}

/// What extends and releases the lease under which work is done.
pub(crate) trait Keeper {
    fn extended(&self, lease: &Lease) -> impl Future<Output = Result<Extended, Error>> + Send;
    fn released(&self, lease: &Lease) -> impl Future<Output = Result<Released, Error>> + Send;
}

impl<S: Store> Keeper for Leases<S> {
    async fn extended(&self, lease: &Lease) -> Result<Extended, Error> {
        self.extend(lease, ExtendOptions::default()).await
    }

    async fn released(&self, lease: &Lease) -> Result<Released, Error> {
        self.release(lease).await
    }
}

async fn end_of_work(keeper: &impl Keeper, lease: &Lease) {
    let key = &lease.key;
    match keeper.released(lease).await {
        Ok(released) if released.outcome == ReleaseOutcome::Lost => {
            tracing::warn!(%key, "the lease was lost before the work was done");
        }
        Ok(_) => {}
        Err(error) => {
            let problem = error.in_full();
            tracing::warn!(%key, problem, "the lease could not be released, and expires by its ttl");
        }
    }
}

/// An end by two clocks; the earlier one counts. Somebody may set the time of day, and the timer may stand still
/// while the machine is suspended.
#[derive(Clone, Copy)]
struct End {
    time: Timestamp,
    timer: Instant,
}

impl End {
    /// The same, or this time if it is earlier.
    fn or_at(self, time: Timestamp) -> Self {
        Self {
            time: self.time.min(time),
            ..self
        }
    }
}

fn is_over(error: &Error) -> bool {
    matches!(
        error,
        Error::Lost { .. } | Error::Expired { .. } | Error::Corrupt { .. }
    )
}

#[cfg(test)]
mod tests;
