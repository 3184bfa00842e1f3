//! Only the newest waits: who has just taken its place sends away who waits before it.

use super::{Queue, maintenance::place_in};
use crate::{
    error::Error,
    leases::TRIES,
    row::Row,
    start::StartStatus,
    store::{Operations, Settled, Settlement, Store},
    transition::{Leave, LeaveReason},
    values::{Holder, Key, RequestDigest},
    waiter::Waiter,
};

/// Who came last: for which key, with which request, and as which holder.
pub(crate) type Newest<'a> = (&'a Key, &'a RequestDigest, &'a Holder);

impl<S: Store> Queue<S> {
    /// How many may wait when this one joins. Whoever sends the others away finds a place also beside as many as may wait.
    pub(crate) fn room(&self, sends_others_away: bool) -> u16 {
        let cap = self.settings().queue_cap;
        if sends_others_away {
            cap.saturating_mul(2)
        } else {
            cap
        }
    }

    /// Sends away everybody who waits before `newest`. Whoever has been granted the key meanwhile keeps it. Returns the row
    /// with the queue as it is then. Repeated, it goes on where it ended.
    pub(crate) async fn supersede(&self, mut row: Row, newest: Newest<'_>) -> Result<Row, Error> {
        let (key, request, _) = newest;
        let mut tries = usize::from(self.room(true)) + TRIES;
        while place_in(&row, request).is_some_and(|place| place > 0)
            && let Some(first) = row.head().cloned()
        {
            if tries == 0 || self.is_nearly_over() {
                return Err(Error::Unavailable {
                    problem: format!("others still wait for {key} before this request"),
                    source: None,
                });
            }
            tries -= 1;
            let left = if first.is_start() {
                match self.supersede_start(&row, &first, newest).await {
                    // A team's function may not write starts: this one keeps its place.
                    Err(error @ Error::Denied { .. }) => {
                        error.count();
                        let problem = error.in_full();
                        tracing::error!(%key, problem, "a start could not be sent away, and waits on");
                        break;
                    }
                    left => left?,
                }
            } else {
                self.supersede_waiter(&row, &first, newest).await?
            };
            if left {
                row.queue.remove(0);
            } else {
                let found = self.read_queue_row(key).await?;
                row = found.ok_or_else(|| self.contention_error())?;
            }
        }
        Ok(row)
    }

    /// Whether it has left the queue.
    async fn supersede_start(
        &self,
        row: &Row,
        first: &RequestDigest,
        (key, later, by): Newest<'_>,
    ) -> Result<bool, Error> {
        let item = self.store().start_item(key, first, self.limit()).await?;
        let Some(item) = item.filter(|item| item.status == StartStatus::Waiting) else {
            // Settled by another call, or deleted by hand.
            self.pass_over(key, row, first).await?;
            return Ok(false);
        };
        let superseded = Settlement::Superseded {
            by: by.clone(),
            purge_at: self.purge_start_at(),
        };
        let later = Some(later);
        let row = row.clone();
        let left = self.settle_in_queue(row, &item, &superseded, later).await?;
        if left {
            tracing::info!(%key, execution = %item.execution(), %by, "superseded");
        }
        Ok(left)
    }

    /// Takes the place of a waiter away and notes why, in one write, and then tells it; if that fails, sweep does. If it has
    /// left, or has asked again, it is as it was. Whether it has left the queue.
    async fn supersede_waiter(
        &self,
        row: &Row,
        first: &RequestDigest,
        (key, later, by): Newest<'_>,
    ) -> Result<bool, Error> {
        let Some(waiter) = self.waiter_item(key, first).await? else {
            // Deleted by hand: nobody can tell this waiter.
            self.pass_over(key, row, first).await?;
            return Ok(false);
        };
        let leave = Leave {
            request: first.clone(),
            place: 0,
            because: LeaveReason::Superseded(later.clone()),
        };
        let (store, mut backoff) = (self.store(), self.conflict_backoff());
        loop {
            let settled = store.supersede_waiter(key, &waiter, by, &leave, self.limit());
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
        let superseded = Waiter {
            superseded_by: Some(by.clone()),
            ..waiter
        };
        self.fail_waiter(key, &superseded, error).await?;
        Ok(true)
    }
}
