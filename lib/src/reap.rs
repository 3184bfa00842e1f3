//! Reap: frees what an execution held that has ended. Hygiene, as sweep is, and sooner.

use serde::Serialize;

use crate::{
    error::Error,
    leases::{Leases, TRIES, corrupt},
    line::{Sender, first_of},
    metrics::{self, Metric},
    outcomes::ReleaseOutcome,
    row::{Row, Stored},
    store::{Address, Applied, Store, What},
    transition::{Change, Cut},
    values::{Counter, Holder, Key, RequestDigest},
    workflows::Execution,
};

/// How an execution ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndOf {
    /// It came to a good end: nothing of it is at work.
    Success,
    /// It failed, and nothing of it is at work, unless it was redriven since.
    Failure,
    /// It was stopped, or its time was over, or that of a task. A Lambda function of its may still be at work.
    Force,
}

/// Names of errors after which a Lambda function may still be at work: Step Functions gave up waiting for it, or a state
/// machine of ours failed, which releases beforehand what it may, and keeps the rest on purpose.
const LEAVE_WORK: [&str; 6] = [
    "Lambda.",
    "Lease.",
    "Semaphore.",
    "States.HeartbeatTimeout",
    "States.Timeout",
    "WithLease.",
];

impl EndOf {
    /// The end of an execution that failed with this error.
    #[must_use]
    pub fn failure(error: &str) -> Self {
        if LEAVE_WORK.iter().any(|name| error.starts_with(name)) {
            Self::Force
        } else {
            Self::Failure
        }
    }
}

/// What a reaping did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Reaped {
    /// The execution runs: there is nothing to reap.
    #[default]
    Running,
    /// It does not.
    Reaped {
        /// Leases that were released.
        released: u64,
        /// Leases whose deadline was cut to the grace.
        cut: u64,
        /// Places in line that were given up.
        left: u64,
    },
}

/// Entries of the index that are read at a time.
const PAGE: u32 = 100;

impl<S: Store> Leases<S> {
    /// Frees what `holder` holds, which has ended, and gives up its places in line. After
    /// [`EndOf::Force`] a lease is not ended but cut to [`crate::Settings::reap_grace`], which no
    /// other write may do.
    ///
    /// An execution that did not succeed may have been redriven since: it is asked for
    /// ([`crate::Workflows::look_up`]), and left alone if it runs. The error that it ended with may
    /// also tell more than the caller was told.
    ///
    /// The index lags a little behind the rows, and an acquire that was under way commits after the
    /// end: repeat it a little later. It may be repeated for ever.
    ///
    /// # Errors
    /// Those of [`Store::apply`]; what was done before stays done.
    pub async fn reap(&self, holder: &Holder, mut end: EndOf) -> Result<Reaped, Error> {
        if end != EndOf::Success
            && let Some(workflows) = self.workflows()
        {
            match workflows.look_up(holder, self.limit()).await? {
                Execution::Running => return Ok(Reaped::Running),
                Execution::Ended { error: Some(error) } if end == EndOf::Failure => {
                    end = EndOf::failure(&error);
                }
                Execution::Ended { .. } | Execution::Unknown => {}
            }
        }
        let (mut released, mut cut, mut left) = (0, 0, 0);
        let mut from = None;
        loop {
            let page = self
                .store()
                .held_by(holder, from.as_ref(), PAGE, self.limit())
                .await?;
            for entry in page.entries {
                let done = match entry.what {
                    What::Lease(address) => self.reap_lease(&address, holder, end).await,
                    What::Waiter(key, request) => self.reap_wait(&key, &request, end).await,
                    What::Foreign => continue,
                };
                match done {
                    Ok(Done::Released) => released += 1,
                    Ok(Done::Cut) => cut += 1,
                    Ok(Done::Left) => left += 1,
                    Ok(Done::Nothing) => {}
                    Err(Error::Corrupt { key, reason }) => {
                        metrics::tell(Metric::Corrupt, 1);
                        tracing::warn!(%key, reason, "reap left an item alone");
                    }
                    Err(error) => return Err(error),
                }
            }
            from = page.next;
            if from.is_none() {
                return Ok(Reaped::Reaped {
                    released,
                    cut,
                    left,
                });
            }
        }
    }

    async fn reap_lease(
        &self,
        address: &Address,
        holder: &Holder,
        end: EndOf,
    ) -> Result<Done, Error> {
        for _ in 0..TRIES {
            let row = match self.store().read(address, self.limit()).await? {
                Stored::Row(row) if row.granted_to == *holder => row,
                Stored::Foreign(reason) => return Err(corrupt(address.key.clone(), reason)),
                Stored::Row(_) | Stored::Absent => return Ok(Done::Nothing),
            };
            let Some(held) = row.holding() else {
                return Ok(Done::Nothing);
            };
            if end != EndOf::Force {
                let lease = self.handle(address.clone(), row)?;
                return Ok(match self.end(&lease).await? {
                    ReleaseOutcome::Released => Done::Released,
                    ReleaseOutcome::AlreadyReleased | ReleaseOutcome::Lost => Done::Nothing,
                });
            }
            let expires_at = self.now().plus(self.settings().reap_grace);
            if held.expires_at <= expires_at {
                return Ok(Done::Nothing);
            }
            let change = Change::Cut(Cut {
                version: row.version,
                expires_at,
                sweep_after: expires_at.plus(self.settings().clock_margin),
            });
            let applied = self.store().apply(address, &change, self.limit()).await?;
            if let Applied::Done { .. } = applied {
                let (key, token) = (&address.key, row.fencing_token.get());
                tracing::info!(%key, %holder, fencing_token = token, %expires_at, "cut");
                return Ok(Done::Cut);
            }
        }
        Err(self.never_still())
    }

    /// One that waits, or whose turn has come and who will not come any more.
    async fn reap_wait(
        &self,
        key: &Key,
        request: &RequestDigest,
        end: EndOf,
    ) -> Result<Done, Error> {
        if self.leave(key, request).await? {
            return Ok(Done::Left);
        }
        let row = match self.store().read(&first_of(key), self.limit()).await? {
            Stored::Row(row) => row,
            Stored::Foreign(reason) => return Err(corrupt(key.clone(), reason)),
            Stored::Absent => return Ok(Done::Nothing),
        };
        let Some(reserved) = row.reserved().filter(|r| r.request == *request) else {
            return Ok(Done::Nothing);
        };
        match end {
            EndOf::Success | EndOf::Failure => {
                let passed: Option<Row> = self.pass_on(key, reserved).await?;
                if let Some(row) = passed {
                    self.wake(key, row, Sender::First).await;
                    return Ok(Done::Left);
                }
            }
            // It may act on the promise until its time is over, and is not told again.
            EndOf::Force if reserved.tries == Counter::MIN => {
                self.count_a_try(key, reserved, reserved.until).await?;
            }
            EndOf::Force => {}
        }
        Ok(Done::Nothing)
    }
}

enum Done {
    Released,
    Cut,
    Left,
    Nothing,
}
