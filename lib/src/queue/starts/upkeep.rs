//! Sweep's maintenance of starts.

use super::Started;
use crate::{
    error::Error,
    leases::{CALLS_WITHIN, Rows, Standing},
    queue::{Queue, begin::not_started_reason},
    row::Row,
    start::{Known, StartItem},
    store::{Settled, Settlement, Store},
};

impl<S: Store> Queue<S> {
    /// Sees to a start that waits, of which these rows were read after its item: if they do not know of it, it gets a place, and if they
    /// remember it, it is settled. Returns whether it has begun.
    pub(crate) async fn see_to_stray(&self, rows: &Rows, item: &StartItem) -> Result<bool, Error> {
        match rows.standing(&item.digest()) {
            // It has got its place since.
            Standing::InQueue(_) | Standing::Has(..) => Ok(false),
            Standing::Had => {
                self.settle_remembered(item).await?;
                self.answer_if_over(&item.key, &item.digest()).await;
                Ok(false)
            }
            Standing::Unknown => {
                let begun = self.has_no_place(item).await?;
                self.answer_if_over(&item.key, &item.digest()).await;
                Ok(begun)
            }
        }
    }

    /// One whose row was deleted, and its place with it. Returns whether it has begun.
    async fn has_no_place(&self, item: &StartItem) -> Result<bool, Error> {
        if self.now().since(item.asked_at) < CALLS_WITHIN {
            // The service may not show yet that it has begun.
            return Ok(false);
        }
        let known = self.known(item).await?;
        let called_by = item.deadline.plus(CALLS_WITHIN);
        let may_be_over = self.now() >= self.shows_all_calls(called_by);
        let waits_on = known == Known::No && item.deadline > self.now();
        if !may_be_over && !waits_on && matches!(known, Known::No | Known::Unasked) {
            return Ok(false);
        }
        match Box::pin(self.accept_again(item, known)).await {
            Ok(placed) => Ok(known == Known::No && matches!(placed, Started::Started { .. })),
            Err(
                Error::Held(_)
                | Error::NotStarted { .. }
                | Error::Frozen { .. }
                | Error::QueueFull { .. },
            ) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A start had the key, and its item does not say whether it began. That the service does not know it says nothing: it may
    /// not show it yet, or have forgotten it.
    pub(super) async fn settle_remembered(&self, item: &StartItem) -> Result<(), Error> {
        match self.known(item).await? {
            Known::Ours => self.note_begun(item, None).await.map(drop),
            Known::No | Known::Unasked => {
                // It may have been granted the key just before it gave up, or later, if nobody saw that.
                let rows = self.read_rows_for(&item.key, item.request.permits).await?;
                let had_it_until = rows.remembered_until(&item.digest(), self.settings().retention);
                let called_by = item.deadline.plus(CALLS_WITHIN).max(had_it_until);
                if self.now() < self.shows_all_calls(called_by) {
                    return Ok(());
                }
                let reason = "it had the key, which is taken from it, and Step Functions does not show that it ran: \
                              if it did not, dismiss it, and start anew under another name";
                // What the row remembers is not granted again.
                self.fail_alone(item, reason.to_owned()).await
            }
            Known::Another => {
                let reason = not_started_reason(Known::Another, String::new());
                self.fail_alone(item, reason).await
            }
        }
    }

    /// The same of one that has the key, and has shown by it that it began.
    pub(crate) async fn settle_seen(&self, item: &StartItem) -> Result<(), Error> {
        match self.known(item).await? {
            // What has the key is settled when that has ended.
            Known::Another => Ok(()),
            Known::Ours | Known::No | Known::Unasked => self.note_begun(item, None).await.map(drop),
        }
    }

    pub(super) async fn fail_alone(&self, item: &StartItem, reason: String) -> Result<(), Error> {
        let failed = Settlement::Failed(reason.clone());
        if self.settle(item, &failed, None).await? == Settled::Done {
            self.has_failed(item, &reason, None).await;
        }
        Ok(())
    }

    /// Ends the wait of a start in the queue, which has ended.
    pub(crate) async fn end_wait(&self, row: Row, item: &StartItem) -> Result<(), Error> {
        let known = self.known(item).await?;
        let settlement = match known {
            Known::Ours => Settlement::Begun {
                purge_at: self.purge_start_at(),
            },
            known => {
                let late = item.waited_too_long(row.holder());
                Settlement::Failed(not_started_reason(known, late))
            }
        };
        let settled = self.settle_in_queue(row, item, &settlement, None).await?;
        if let Settlement::Failed(reason) = &settlement
            && settled
        {
            self.has_failed(item, reason, None).await;
        }
        Ok(())
    }
}
