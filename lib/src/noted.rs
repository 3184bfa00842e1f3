//! Notes of executions whose leases end although they may be redriven.

use std::time::Duration;

use crate::{
    clock::Timestamp,
    error::Error,
    leases::Leases,
    redrivable::Redrivable,
    row::{Row, Term},
    store::{Address, Operations, Store},
    values::RequestDigest,
    workflows::{Execution, Stands},
};

/// The service lets an execution be redriven for two weeks, and each look makes the item last again.
const KEPT_FOR: Duration = Duration::from_hours(15 * 24);

/// How often a write is tried that others are faster at.
const TRIES: usize = 3;

impl<S: Store> Leases<S> {
    /// Before the lease in `row` ends, whose execution has ended: notes that it may be redriven. False if it runs again already, or
    /// the service does not say, so that the lease is not to end.
    pub(crate) async fn note_redrivable(
        &self,
        address: &Address,
        row: &Row,
        said: Execution,
    ) -> Result<bool, Error> {
        let (
            Execution::Ended {
                redrivable: true, ..
            },
            Some(workflows),
        ) = (said, self.workflows())
        else {
            return Ok(true);
        };
        let execution = &row.granted_to;
        let redrives = workflows.redrives(execution, self.limit()).await?;
        match redrives {
            Some(redrives) if redrives.stands == Stands::Final => return Ok(true),
            Some(redrives) if redrives.stands == Stands::Redrivable => {
                self.note(address, row, Some(redrives.count)).await?;
            }
            // It runs again, or this answer is older than the one that it has ended.
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The same for a lease that an operator ends, whatever its execution does: only a later redrive counts.
    pub(crate) async fn note_forced(&self, address: &Address, row: &Row) -> Result<(), Error> {
        let is_execution = matches!(
            row.holding().map(|held| held.term),
            Some(Term::Execution { .. })
        );
        if !is_execution || row.granted_to.is_durable_execution() {
            return Ok(());
        }
        match self.note(address, row, None).await {
            // Whoever may write the rows of the key only may end its leases all the same.
            Err(Error::Denied { .. }) => Ok(()),
            noted => noted,
        }
    }

    async fn note(&self, address: &Address, row: &Row, redrives: Option<u32>) -> Result<(), Error> {
        let (key, execution) = (&address.key, &row.granted_to);
        let request = RequestDigest::of_start(execution);
        let (now, is_start) = (self.now(), row.request.is_start());
        let permits = if is_start {
            let item = self.store().start_item(key, &request, self.limit()).await?;
            item.and_then(|item| item.request.permits)
        } else {
            None
        };
        let mut noted = Redrivable {
            key: key.clone(),
            execution: execution.clone(),
            started: is_start,
            permits,
            keep: row
                .holding()
                .map(|held| held.term.keep())
                .unwrap_or_default(),
            redrives,
            ended_at: now,
            version: 1,
        };
        let mut seen = None;
        for _ in 0..TRIES {
            if self
                .watch(&noted, seen, now.plus(self.settings().look))
                .await?
            {
                return Ok(());
            }
            // It was noted before: it ended before, was redriven, and ends again. What the first end knew stays; after an operator's
            // end only later redrives count.
            if let Some(before) = self.store().redrivable(key, &request, self.limit()).await? {
                seen = Some(before.version);
                noted.started |= before.started;
                noted.permits = before.permits.or(noted.permits);
                noted.redrives =
                    redrives.map(|count| before.redrives.map_or(count, |known| known.max(count)));
                noted.version = before.version + 1;
            }
        }
        Err(self.contention_error())
    }

    /// Stores a note with when to look next, if its version is the one that was seen. False if it is not.
    pub(crate) async fn watch(
        &self,
        noted: &Redrivable,
        seen: Option<u64>,
        next: Timestamp,
    ) -> Result<bool, Error> {
        let until = self
            .now()
            .plus(KEPT_FOR)
            .as_seconds_rounded_up()
            .min(Row::NEVER);
        self.store()
            .note_redrivable(noted, seen, (next, until), self.limit())
            .await
    }
}
