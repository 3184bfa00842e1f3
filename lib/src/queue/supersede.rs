//! Only the newest waits: it supersedes everybody who waits before it, and may stop the holder of the key.

use super::{Queue, maintenance::place_in};
use crate::{
    error::Error,
    leases::{Freed, TRIES},
    queue::engine::{Question, StopFor},
    request::{InsteadOf, Request},
    row::Row,
    start::StartItem,
    store::{Address, Operations, Settled, Settlement, Store},
    transition::{Change, Head, Leave, LeaveReason, ReplaceIfUnchanged},
    values::{Holder, Key, RequestDigest},
    waiter::{TokenItem, Waiter},
};

/// Who came last: for which key, and with which request.
pub(crate) type Newest<'a> = (&'a Key, &'a Request);

impl<S: Store> Queue<S> {
    /// How many may wait when this one joins. One that supersedes the others finds a place also beside as many as may wait.
    pub(crate) fn room(&self, sends_others_away: bool) -> u16 {
        let cap = self.settings().queue_cap;
        if sends_others_away {
            cap.saturating_mul(2)
        } else {
            cap
        }
    }

    /// One that has its place supersedes everybody who waits before it, and stops the holder that it replaces, if it is to. A waiter that has been granted the
    /// key meanwhile keeps it. Returns the row with the queue as it is then; none if it has the key, or a later one has superseded it:
    /// then nobody is to be stopped for it. Repeated, it goes on where it ended.
    pub(crate) async fn take_their_place(
        &self,
        row: Row,
        newest: Newest<'_>,
    ) -> Result<Option<Row>, Error> {
        let (key, request) = newest;
        let Some(whom) = request.instead_of else {
            return Ok(Some(row));
        };
        let row = self.supersede(row, newest).await?;
        if !row.waiting().contains(&request.digest) {
            return Ok(None);
        }
        if row.waits_in_pool() && request.permits.is_none() {
            // It has the key, and runs nothing yet: it waits as the others do.
            self.send_away_from_pool(&row, newest).await?;
            return Ok(None);
        }
        if whom == InsteadOf::Holder {
            self.stop_replaced(key, &row, &request.holder).await?;
        }
        Ok(Some(row))
    }

    async fn supersede(&self, mut row: Row, newest: Newest<'_>) -> Result<Row, Error> {
        let (key, request) = newest;
        let mut tries = usize::from(self.room(true)) + TRIES;
        while place_in(&row, &request.digest).is_some_and(|place| place > 0)
            && let Some(first) = row.head().cloned()
        {
            if tries == 0 || self.is_nearly_over() {
                return Err(Error::Unavailable {
                    problem: format!("others still wait for {key} before this request"),
                    source: None,
                });
            }
            tries -= 1;
            let left = match self.send_away(&row, &first, newest).await {
                // A team's function may not write starts: this one keeps its place.
                Err(error @ Error::Denied { .. }) if first.is_start() => {
                    error.count();
                    let problem = error.in_full();
                    tracing::error!(%key, problem, "a start could not be superseded, and waits on");
                    break;
                }
                left => left?,
            };
            if left {
                row.queue.remove(0);
                row.version = row.version.plus(1);
            } else {
                let found = self.read_queue_row(key).await?;
                row = found.ok_or_else(|| self.contention_error())?;
            }
        }
        Ok(row)
    }

    /// Whether it has left the queue.
    async fn send_away(
        &self,
        row: &Row,
        first: &RequestDigest,
        newest: Newest<'_>,
    ) -> Result<bool, Error> {
        let (key, Request { digest, holder, .. }) = newest;
        match self.waiter(key, first).await? {
            Some(Waiter::Start(item)) => {
                let superseded = Settlement::Superseded {
                    by: holder.clone(),
                    purge_at: self.purge_start_at(),
                };
                let (row, later) = (row.clone(), Some(digest));
                let left = self.settle_in_queue(row, &item, &superseded, later).await?;
                if left {
                    tracing::info!(%key, execution = %item.execution(), by = %holder, "superseded");
                    self.answer_if_over(key, first).await;
                }
                Ok(left)
            }
            Some(Waiter::Token(item)) => self.supersede_token(*item, newest).await,
            None => {
                // Settled by another call, or deleted by hand: nobody can tell it.
                self.pass_over(key, row, first).await?;
                Ok(false)
            }
        }
    }

    /// Takes the place of a task token away and notes why, in one write, and then notifies it; if that fails, sweep does. If it has
    /// left, or has asked again, it is as it was. Whether it has left the queue.
    async fn supersede_token(&self, waiter: TokenItem, newest: Newest<'_>) -> Result<bool, Error> {
        let leave = Change::Leave(Leave {
            request: waiter.request.digest.clone(),
            place: 0,
            because: LeaveReason::Superseded(newest.1.digest.clone()),
        });
        let first = Address::first(newest.0);
        self.supersede_with(waiter, (&first, &leave), newest).await
    }

    async fn supersede_with(
        &self,
        waiter: TokenItem,
        (at, change): (&Address, &Change),
        newest: Newest<'_>,
    ) -> Result<bool, Error> {
        let (key, by) = (newest.0, &newest.1.holder);
        let (store, mut backoff) = (self.store(), self.conflict_backoff());
        loop {
            let settled = store.supersede_waiter(at, change, &waiter, by, self.limit());
            match settled.await? {
                Settled::Done => break,
                Settled::NotWaiting | Settled::Refused(_) => return Ok(false),
                Settled::Conflict if backoff.wait().await => {}
                Settled::Conflict => return Err(self.contention_error()),
            }
        }
        let error = Error::Superseded {
            key: key.clone(),
            by: by.clone(),
        };
        let superseded = TokenItem {
            superseded_by: Some(by.clone()),
            ..waiter
        };
        self.fail_waiter(key, &superseded, error).await?;
        Ok(true)
    }

    /// One that has the key of the newest and waits in its pool: its grant is taken back, with its place.
    async fn send_away_from_pool(&self, row: &Row, newest: Newest<'_>) -> Result<(), Error> {
        let (key, by) = (newest.0, &newest.1.holder);
        let at = Address::first(key);
        match self.waiter(key, &row.request).await? {
            Some(Waiter::Start(item)) => {
                let superseded = Settlement::Superseded {
                    by: by.clone(),
                    purge_at: self.purge_start_at(),
                };
                let settled = self.settle_with_grant(&at, row, &item, &superseded);
                if let Some(freed) = Box::pin(settled).await? {
                    self.answer_if_over(key, &item.digest()).await;
                    Box::pin(self.serve(freed)).await;
                    return Ok(());
                }
            }
            Some(Waiter::Token(item)) => {
                let back = Change::ReplaceIfUnchanged(Box::new(ReplaceIfUnchanged {
                    seen: Some(row.version),
                    row: self.taken_back(row),
                    head: Head::Any,
                }));
                if self.supersede_with(*item, (&at, &back), newest).await? {
                    let freed = Freed::of_execution(&at, self.taken_back(row), row);
                    Box::pin(self.serve(Some(freed))).await;
                    return Ok(());
                }
            }
            None => {}
        }
        Err(Error::Unavailable {
            problem: format!("{} begins at this moment; {by} waits", row.granted_to),
            source: None,
        })
    }

    /// The start that has the key, if it is one. By its item, which no caller of acquire and no team can write: they may name
    /// any execution as the holder.
    pub(super) async fn started_holder(
        &self,
        key: &Key,
        row: &Row,
    ) -> Result<Option<StartItem>, Error> {
        if !row.request.is_start() || row.holding().is_none() {
            return Ok(None);
        }
        let item = self.store().start_item(key, &row.request, self.limit());
        let item = item.await?;
        Ok(item.filter(|item| item.execution() == row.granted_to))
    }

    /// Stops the execution that has the key, if it was started under the key.
    async fn stop_replaced(&self, key: &Key, row: &Row, by: &Holder) -> Result<(), Error> {
        let Some(holds) = self.started_holder(key, row).await? else {
            return Ok(());
        };
        let execution = holds.execution();
        let cause = format!("replaced by {by}");
        let stop = Question::Stop(execution.clone(), cause, StopFor::Another);
        let stopped = self.engine(stop);
        match stopped.await {
            Ok(true) => {
                tracing::info!(%key, %execution, %by, "replaced");
                Ok(())
            }
            Ok(false) => Err(Error::Unavailable {
                problem: format!(
                    "{execution} has the key and has not begun, so that it was not stopped; {by} waits"
                ),
                source: None,
            }),
            // It has its place, and nobody can stop what it waits for by asking again.
            Err(error @ (Error::Denied { .. } | Error::Misconfigured { .. })) => {
                error.count();
                let problem = error.in_full();
                tracing::error!(%key, %execution, problem, "was not stopped");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}
