//! Sweep's maintenance of starts.

use super::{Started, waited_too_long};
use crate::{
    error::Error,
    leases::CALLS_WITHIN,
    queue::{
        Queue,
        begin::{Begins, log_failed, not_started_reason},
        maintenance::{Waits, place_in},
    },
    retry::{AT_ONCE, some_at_a_time},
    row::Row,
    start::{Known, StartItem, StartStatus},
    store::{Address, Operations, Settled, Settlement, Store},
    values::{Key, RequestDigest},
};

impl<S: Store> Queue<S> {
    /// Sees to the starts of `key` whose items wait, as far as there is time. Returns how many have begun.
    pub(crate) async fn maintain_starts(&self, key: &Key, waiting: &[Waits]) -> Result<u64, Error> {
        if waiting.is_empty() {
            return Ok(0);
        }
        let (mut begun, mut row) = (0, self.read_queue_row(key).await?);
        let (placed, stranded): (Vec<_>, Vec<_>) = waiting.iter().partition(|(request, _)| {
            let place = row.as_ref().and_then(|row| place_in(row, request));
            place.is_some()
        });
        for (request, gives_up) in placed {
            if self.is_nearly_over() {
                return Ok(begun);
            }
            let gives_up = gives_up.unwrap_or_else(|| self.now());
            let waits = row.as_ref().and_then(|row| place_in(row, request));
            if waits.is_some() && gives_up > self.now() {
                continue;
            }
            begun += u64::from(self.maintain_start(key, request).await?);
            row = self.read_queue_row(key).await?;
        }
        for request in self.oldest_first(key, stranded).await? {
            if self.is_nearly_over() {
                return Ok(begun);
            }
            begun += u64::from(self.maintain_start(key, &request).await?);
        }
        Ok(begun)
    }

    /// Those of these starts that wait, in the order in which they were asked for: if a row was deleted by hand, and the queue
    /// with it, they get their places again in that order.
    async fn oldest_first(
        &self,
        key: &Key,
        starts: Vec<&Waits>,
    ) -> Result<Vec<RequestDigest>, Error> {
        let reads = starts.into_iter();
        let reads = reads.map(|(request, _)| self.store().start_item(key, request, self.limit()));
        let items = some_at_a_time(AT_ONCE, reads.collect()).await;
        let items = items.into_iter().collect::<Result<Vec<_>, _>>()?;
        let mut waiting: Vec<_> = items
            .into_iter()
            .flatten()
            .filter(|item| item.status == StartStatus::Waiting)
            .collect();
        waiting.sort_by_key(|item| item.asked_at);
        Ok(waiting.iter().map(StartItem::digest).collect())
    }

    /// Sees to a start whose item waits: it leaves the queue when its wait is over, begins if it has its turn, or gets a place
    /// if it has none. Returns whether it has begun.
    async fn maintain_start(&self, key: &Key, request: &RequestDigest) -> Result<bool, Error> {
        let item = self.store().start_item(key, request, self.limit()).await?;
        let Some(item) = item.filter(|item| item.status == StartStatus::Waiting) else {
            // The index is late.
            return Ok(false);
        };
        // Read after the item: it may have got its place since.
        let rows = self.read_rows_for(key, item.request.permits).await?;
        if let Some(first) = rows.first()
            && place_in(first, request).is_some()
        {
            let first = first.clone();
            return self.end_wait(first, &item).await.map(|()| false);
        }
        if let Some((permit, row)) = rows.held_for(request) {
            if !row.is_unbegun_start() {
                // It has begun long ago: it has extended its lease, or was seen. Its name may be in use by that one.
                self.settle_seen(&item).await?;
                return Ok(false);
            }
            let key = key.clone();
            let at = Address { key, permit };
            return match self.begin_again(&at, row, &item).await? {
                Begins::Begun => Ok(true),
                Begins::Failed { free, .. } => Ok(self.serve(free).await),
                Begins::Later => Ok(false),
            };
        }
        if rows.remember(request) {
            self.settle_remembered(&item).await?;
            return Ok(false);
        }
        self.has_no_place(&item).await
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
        match Box::pin(self.place_again(item, known)).await {
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
            Known::Ours => self.note_begun(item).await.map(drop),
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
    pub(super) async fn settle_seen(&self, item: &StartItem) -> Result<(), Error> {
        match self.known(item).await? {
            // What has the key is settled when that has ended.
            Known::Another => Ok(()),
            Known::Ours | Known::No | Known::Unasked => self.note_begun(item).await.map(drop),
        }
    }

    pub(super) async fn fail_alone(&self, item: &StartItem, reason: String) -> Result<(), Error> {
        let failed = Settlement::Failed(reason.clone());
        if self.settle(item, &failed, None).await? == Settled::Done {
            log_failed(item, &reason);
        }
        Ok(())
    }

    /// Ends the wait of a start in the queue, if it is over; else it takes the place of others, if it is to: whoever asked for it may
    /// have died before.
    async fn end_wait(&self, row: Row, item: &StartItem) -> Result<(), Error> {
        if item.deadline > self.now() {
            if let Err(error) = self.take_their_place(row, item).await {
                error.count();
                let (key, execution, problem) = (&item.key, item.execution(), error.in_full());
                tracing::warn!(%key, %execution, problem, "others wait or run that it is to take the place of");
            }
            return Ok(());
        }
        let known = self.known(item).await?;
        let settlement = match known {
            Known::Ours => Settlement::Begun {
                purge_at: self.purge_start_at(),
            },
            known => Settlement::Failed(not_started_reason(known, waited_too_long(item))),
        };
        let settled = self.settle_in_queue(row, item, &settlement, None).await?;
        if let Settlement::Failed(reason) = &settlement
            && settled
        {
            log_failed(item, reason);
        }
        Ok(())
    }
}
