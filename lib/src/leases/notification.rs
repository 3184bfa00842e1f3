//! What a row says of the calls that notified its holder of its grant, or may have.

use std::time::Duration;

use crate::{
    clock::Timestamp,
    error::Error,
    leases::{LATEST_ANSWER, Leases, is_but_for_the_queue},
    row::{Holding, Notification, Row, State, Stored},
    store::{Address, Applied, Store},
    transition::Head,
};

/// A caller of `StartExecution`, or one that notifies another token than that of the item, does so within this time of its mark.
pub(crate) const CALLS_WITHIN: Duration = Duration::from_mins(1);

/// How long a signed request is good.
const SIGNATURE: Duration = Duration::from_mins(5);

impl<S: Store> Leases<S> {
    /// Counts another call, before it is made: of a token, or of `StartExecution`. From then on no earlier caller can either take
    /// the grant back or fail the start, because the version has changed. A refusal that was noted says nothing of this token. None if
    /// the row has changed.
    pub(crate) async fn mark(
        &self,
        at: &Address,
        row: &Row,
        ticket: Option<u64>,
    ) -> Result<Option<Row>, Error> {
        let now = self.now();
        let notification = |told: Notification| Notification {
            tries: told.tries.plus(1),
            at: now,
            ticket,
            refused_at: None,
        };
        self.change_notification(at, row, notification, None).await
    }

    /// The same for the token of another request of the same holder, which no item has. If the first token was found dead, that stays
    /// known: a look decides, when it can show whether this one was notified, as late as it may be.
    pub(crate) async fn mark_for_another(
        &self,
        at: &Address,
        row: &Row,
    ) -> Result<Option<Row>, Error> {
        let now = self.now();
        let notification = |told: Notification| Notification {
            tries: told.tries.plus(1),
            at: now,
            refused_at: told.refused_at.map(|_| now.plus(CALLS_WITHIN)),
            ..told
        };
        self.change_notification(at, row, notification, None).await
    }

    /// Notes that the token with which `row`'s holder was notified last is dead, although somebody may have notified it before; of a start,
    /// that nobody calls any more. A look at its history, half a minute later, shows whether it knows.
    pub(crate) async fn note_refusal(&self, at: &Address, row: &Row) -> Result<Option<Row>, Error> {
        let now = self.now();
        let notification = |told: Notification| Notification {
            refused_at: Some(now),
            ..told
        };
        let look = self.shows_after(now);
        self.change_notification(at, row, notification, Some(look))
            .await
    }

    async fn change_notification(
        &self,
        at: &Address,
        row: &Row,
        change: impl FnOnce(Notification) -> Notification,
        sweep_after: Option<Timestamp>,
    ) -> Result<Option<Row>, Error> {
        let State::Held(held) = &row.state else {
            return Ok(None);
        };
        let Some(notification) = held.notification else {
            return Ok(None);
        };
        let next = Row {
            version: row.version.plus(1),
            state: State::Held(Holding {
                notification: Some(change(notification)),
                sweep_after: sweep_after.or(held.sweep_after),
                ..held.clone()
            }),
            ..row.clone()
        };
        Ok(
            match self.replace(at, row, next.clone(), Head::Any).await? {
                Applied::Done { row, .. } => Some(row),
                // By this very write, whose response was lost, or by another that did the same.
                Applied::Refused(Stored::Row(found)) if is_but_for_the_queue(&found, &next) => {
                    Some(found)
                }
                Applied::Refused(_) => None,
            },
        )
    }

    /// From when on no call of `StartExecution` after this mark can begin the execution without the service showing it.
    pub(crate) fn shows_all_calls(&self, last_mark: Timestamp) -> Timestamp {
        last_mark
            .plus(CALLS_WITHIN)
            .plus(SIGNATURE)
            .plus(self.settings().clock_margin)
            .plus(LATEST_ANSWER)
    }

    /// When a start ends whose execution may not be asked about, if no call for it can arrive after this instant: as that of an
    /// execution that the service does not know, after the grace.
    pub(crate) fn ends_unasked(&self, over_at: Timestamp) -> Timestamp {
        let asked_again = self.now().plus(LATEST_ANSWER);
        over_at.max(asked_again).plus(self.settings().reap_grace)
    }
}
