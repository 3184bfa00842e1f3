//! What the library asks of a table, in its own terms: each is one write or one read of a [`Store`], and what its answer means.

use std::{future::Future, time::Duration};

use super::{
    Address, Applied, AppliedAll, AwaitedResult, ItemAddress, Joined, Note, PutResult, PutStart,
    Renewed, Settled, Settlement, Slot, Store, Write, Written, foreign_item, foreign_rules,
};
use crate::{
    clock::Timestamp,
    error::Error,
    redrivable::Redrivable,
    row::{Holding, Stored},
    rules::TableRules,
    start::{ResultItem, StartItem},
    transition::{Change, transition},
    values::{Holder, Key, RequestDigest, TaskToken},
    waiter::TokenItem,
};

/// An answer that comes.
type Answer<T> = Result<T, Error>;

/// See the module. Each returns what [`Store::write`] and [`Store::read`] do in case of an error.
pub trait Operations: Store {
    /// Writes one row.
    fn apply(
        &self,
        address: &Address,
        change: &Change,
        limit: Duration,
    ) -> impl Future<Output = Answer<Applied>> + Send {
        async move {
            let write = [Write::Row(address.clone(), change.clone())];
            let before = match self.write(&write, limit).await? {
                Written::Done(before) => before.row(),
                Written::Refused(parts) => return Ok(Applied::Refused(first(&parts).row())),
                Written::Conflict => return Err(busy(self.name())),
            };
            let Some(row) = transition(&before, change) else {
                return Err(overwritten(address, &before));
            };
            let deadline_before = match (&before, change) {
                (Stored::Row(before), change) if !matches!(change, Change::Grant(_)) => {
                    before.holding().map(Holding::expires_at)
                }
                _ => None,
            };
            Ok(Applied::Done {
                row,
                deadline_before,
            })
        }
    }

    /// Writes several rows, all or none: at most 100, no two changes of one row. To learn the new rows, call
    /// [`Operations::read_rows`].
    fn apply_all(
        &self,
        changes: &[(Address, Change)],
        limit: Duration,
    ) -> impl Future<Output = Answer<AppliedAll>> + Send {
        async move {
            let rows = changes.iter().cloned();
            let rows: Vec<_> = rows.map(|(at, change)| Write::Row(at, change)).collect();
            Ok(match self.write(&rows, limit).await? {
                Written::Done(_) => AppliedAll::Done,
                Written::Conflict => AppliedAll::Conflict,
                Written::Refused(parts) => {
                    let rows = parts.iter().map(|part| part.as_ref().map(Slot::row));
                    AppliedAll::Refused(rows.collect())
                }
            })
        }
    }

    /// Reads one row.
    fn read_row(
        &self,
        address: &Address,
        limit: Duration,
    ) -> impl Future<Output = Answer<Stored>> + Send {
        async move {
            let item = ItemAddress::Row(address.clone());
            Ok(read_one(self, item, limit).await?.row())
        }
    }

    /// Reads several rows, at most 100, as they were at one moment. None if somebody was writing one of them: ask again.
    fn read_rows(
        &self,
        addresses: &[Address],
        limit: Duration,
    ) -> impl Future<Output = Answer<Option<Vec<Stored>>>> + Send {
        async move {
            let items: Vec<_> = addresses.iter().cloned().map(ItemAddress::Row).collect();
            let slots = self.read(&items, limit).await?;
            Ok(slots.map(|slots| slots.iter().map(Slot::row).collect()))
        }
    }

    /// Changes a row: puts a request at the end of the queue, or grants it the row; and stores the waiter's item in the place of none, or of
    /// the token that was `read`, both or neither.
    fn put_token(
        &self,
        at: &Address,
        change: &Change,
        (waiter, read): (&TokenItem, Option<&TaskToken>),
        limit: Duration,
    ) -> impl Future<Output = Answer<Joined>> + Send {
        async move {
            let both = [
                Write::Row(at.clone(), change.clone()),
                Write::Wait(at.key.clone(), waiter.clone(), read.cloned()),
            ];
            let parts = match self.write(&both, limit).await? {
                Written::Done(_) => return Ok(Joined::Done),
                Written::Conflict => return Ok(Joined::Conflict),
                Written::Refused(parts) => parts,
            };
            let beside = parts.get(1).and_then(Option::as_ref);
            if let Some(by) = beside.and_then(|item| item.read(TokenItem::superseded_by)) {
                return Ok(Joined::Superseded(by));
            }
            if let Some(row) = parts.first().and_then(Option::as_ref) {
                return Ok(Joined::Refused(row.row()));
            }
            if beside.is_some_and(|item| item.item().is_none()) {
                return Ok(Joined::Found(None));
            }
            let found = beside.and_then(|item| item.read(TokenItem::read));
            Ok(match found {
                Some(found) if found.request.digest == waiter.request.digest => {
                    Joined::Found(Some(found))
                }
                _ => Joined::ForeignItem,
            })
        }
    }

    /// Reads the item of a task token; none if there is none, or it is not ours.
    fn token_item(
        &self,
        key: &Key,
        request: &RequestDigest,
        limit: Duration,
    ) -> impl Future<Output = Answer<Option<TokenItem>>> + Send {
        async move {
            let item = ItemAddress::Waiter(key.clone(), request.clone());
            Ok(read_one(self, item, limit).await?.read(TokenItem::read))
        }
    }

    /// Who came later and waits instead of this request, if it was superseded.
    fn superseded_by(
        &self,
        key: &Key,
        request: &RequestDigest,
        limit: Duration,
    ) -> impl Future<Output = Answer<Option<Holder>>> + Send {
        async move {
            let item = ItemAddress::Waiter(key.clone(), request.clone());
            Ok(read_one(self, item, limit)
                .await?
                .read(TokenItem::superseded_by))
        }
    }

    /// Stores the token of `waiter` in the place of none, or of the one that was `read`.
    ///
    /// # Errors
    /// As [`Store::write`], [`Error::Superseded`], and [`Error::Corrupt`] if the item is not ours.
    fn update_task_token(
        &self,
        key: &Key,
        (waiter, read): (&TokenItem, Option<&TaskToken>),
        limit: Duration,
    ) -> impl Future<Output = Answer<Renewed>> + Send {
        async move {
            let write = Write::NewToken(key.clone(), waiter.clone(), read.cloned());
            let (found, is_done) = match self.write(std::slice::from_ref(&write), limit).await? {
                Written::Done(before) => (write.after(&before).unwrap_or_default(), true),
                Written::Refused(parts) => (first(&parts).clone(), false),
                Written::Conflict => return Err(busy(self.name())),
            };
            if let Some(by) = found.read(TokenItem::superseded_by) {
                let key = key.clone();
                return Err(Error::Superseded { key, by });
            }
            if found.item().is_none() {
                return Ok(Renewed::Found(None));
            }
            let same = |found: &TokenItem| found.request.digest == waiter.request.digest;
            let found = found.read(TokenItem::read).filter(same);
            let found = found.ok_or_else(|| foreign_item(key, &waiter.request.digest))?;
            Ok(if is_done {
                Renewed::Done(found)
            } else {
                Renewed::Found(Some(found))
            })
        }
    }

    /// Deletes a waiter's item, if its token is still the one that was read.
    fn delete_waiter(
        &self,
        key: &Key,
        waiter: &TokenItem,
        limit: Duration,
    ) -> impl Future<Output = Answer<()>> + Send {
        async move {
            let write = [Write::Forget(key.clone(), waiter.clone())];
            self.write(&write, limit).await.map(|_| ())
        }
    }

    /// Takes a waiter out of the queue, or its grant back, and notes in its item that `by` came later; if its token is
    /// still the one that was read. From then on no copy of its request joins.
    fn supersede_waiter(
        &self,
        at: &Address,
        change: &Change,
        waiter: &TokenItem,
        by: &Holder,
        limit: Duration,
    ) -> impl Future<Output = Answer<Settled>> + Send {
        async move {
            let both = [
                Write::Row(at.clone(), change.clone()),
                Write::Supersede(at.key.clone(), waiter.clone(), by.clone()),
            ];
            Ok(settled(self.write(&both, limit).await?, true))
        }
    }

    /// Stores a start, if there is none under its name, or if the one that was `read` is there still; the task that waits for its
    /// result; and changes a row of its key, all or nothing.
    fn put_start(
        &self,
        item: &StartItem,
        read: Option<&StartItem>,
        result: Option<&AwaitedResult>,
        with: Option<(&Address, &Change)>,
        limit: Duration,
    ) -> impl Future<Output = Answer<PutStart>> + Send {
        async move {
            let row = with.map(|(address, change)| Write::Row(address.clone(), change.clone()));
            let place = usize::from(row.is_some());
            let put = match read {
                None => Write::Start(item.clone()),
                Some(read) => Write::Restart(item.clone(), Box::new(read.clone())),
            };
            let result = result.into_iter().flat_map(awaiting);
            let writes: Vec<_> = row.into_iter().chain([put]).chain(result).collect();
            let parts = match self.write(&writes, limit).await? {
                Written::Done(_) => return Ok(PutStart::Done),
                Written::Conflict => return Ok(PutStart::Conflict),
                Written::Refused(parts) => parts,
            };
            // That of one whose item is gone.
            if parts.iter().take(place + 1).all(Option::is_none) {
                return Ok(PutStart::Awaited(last_result(&parts)));
            }
            let Some(found) = parts.get(place).and_then(Option::as_ref) else {
                return Ok(PutStart::Refused(first(&parts).row()));
            };
            Ok(match found.read(StartItem::read) {
                Some(found) => PutStart::Found(found),
                None if found.item().is_none() => PutStart::Gone,
                None => PutStart::Foreign,
            })
        }
    }

    /// Reads a start's item; none if there is none, or it is not ours.
    fn start_item(
        &self,
        key: &Key,
        request: &RequestDigest,
        limit: Duration,
    ) -> impl Future<Output = Answer<Option<StartItem>>> + Send {
        async move {
            let item = ItemAddress::Start(key.clone(), request.clone());
            Ok(read_one(self, item, limit).await?.read(StartItem::read))
        }
    }

    /// Settles a start that waits, or dismisses one that has failed, and changes a row of its key, both or neither.
    fn settle_start(
        &self,
        item: &StartItem,
        settlement: &Settlement,
        with: Option<(&Address, &Change)>,
        limit: Duration,
    ) -> impl Future<Output = Answer<Settled>> + Send {
        async move {
            let row = with.map(|(address, change)| Write::Row(address.clone(), change.clone()));
            let settle = Write::Settle(item.clone(), settlement.clone());
            let writes: Vec<_> = row.into_iter().chain([settle]).collect();
            Ok(settled(self.write(&writes, limit).await?, with.is_some()))
        }
    }

    /// Reads the note of an execution that may be redriven; none if there is none, or it is not ours.
    fn redrivable(
        &self,
        key: &Key,
        request: &RequestDigest,
        limit: Duration,
    ) -> impl Future<Output = Answer<Option<Redrivable>>> + Send {
        async move {
            let item = ItemAddress::Redrivable(key.clone(), request.clone());
            Ok(read_one(self, item, limit).await?.read(Redrivable::read))
        }
    }

    /// Stores such a note, with when to look next and when to purge it, if its version is the one that was seen, or if there
    /// is none and none was seen. Returns whether it did.
    fn note_redrivable(
        &self,
        noted: &Redrivable,
        seen: Option<u64>,
        (look_at, purge_at): (Timestamp, u64),
        limit: Duration,
    ) -> impl Future<Output = Answer<bool>> + Send {
        async move {
            let note = Note {
                noted: noted.clone(),
                seen,
                look_at,
                purge_at,
            };
            Ok(match self.write(&[Write::Note(note)], limit).await? {
                Written::Done(_) => true,
                Written::Conflict => return Err(busy(self.name())),
                // The response to this very write was lost.
                Written::Refused(parts) => {
                    first(&parts).read(Redrivable::read).as_ref() == Some(noted)
                }
            })
        }
    }

    /// Deletes such a note, if its version is still the same.
    fn forget_redrivable(
        &self,
        noted: &Redrivable,
        limit: Duration,
    ) -> impl Future<Output = Answer<()>> + Send {
        async move {
            let write = [Write::ForgetNote(noted.clone())];
            self.write(&write, limit).await.map(|_| ())
        }
    }

    /// Reads the task that waits for the result of a start; none if none does, or the item is not ours.
    fn result_item(
        &self,
        key: &Key,
        request: &RequestDigest,
        limit: Duration,
    ) -> impl Future<Output = Answer<Option<ResultItem>>> + Send {
        async move {
            let item = ItemAddress::Result(key.clone(), request.clone());
            Ok(read_one(self, item, limit).await?.read(ResultItem::read))
        }
    }

    /// Stores such a task, in the place of none, or of the token that was read.
    fn put_result(
        &self,
        result: &AwaitedResult,
        limit: Duration,
    ) -> impl Future<Output = Answer<PutResult>> + Send {
        async move {
            Ok(match self.write(&awaiting(result), limit).await? {
                Written::Done(_) => PutResult::Done,
                Written::Conflict => return Err(busy(self.name())),
                Written::Refused(parts) => PutResult::Found(last_result(&parts)),
            })
        }
    }

    /// Writes down when to look at such a task next, if its token is still the same.
    fn look_at_result(
        &self,
        result: &AwaitedResult,
        limit: Duration,
    ) -> impl Future<Output = Answer<()>> + Send {
        async move {
            let write = [Write::LookAtResult(result.clone())];
            self.write(&write, limit).await.map(|_| ())
        }
    }

    /// Deletes such a task, if its token is still the same.
    fn forget_result(
        &self,
        item: &ResultItem,
        limit: Duration,
    ) -> impl Future<Output = Answer<()>> + Send {
        async move {
            let listed = item.stop_with.clone();
            let listed = listed.map(|caller| Write::ForgetCalled(item.clone(), caller));
            let forget = [Write::ForgetResult(item.clone())];
            let writes: Vec<_> = listed.into_iter().chain(forget).collect();
            self.write(&writes, limit).await.map(|_| ())
        }
    }

    /// Reads the rules that all users of the table share; none if nobody has published any.
    ///
    /// # Errors
    /// As [`Store::read`], and [`Error::Misconfigured`] if the item is not ours.
    fn rules(&self, limit: Duration) -> impl Future<Output = Answer<Option<TableRules>>> + Send {
        async move {
            let slot = read_one(self, ItemAddress::Rules, limit).await?;
            let rules = slot
                .item()
                .map(|item| TableRules::read(item).ok_or_else(|| foreign_rules(self.name())));
            rules.transpose()
        }
    }

    /// Publishes the rules, unless that would lower the token floor. Returns whether it did.
    fn publish_rules(
        &self,
        rules: &TableRules,
        limit: Duration,
    ) -> impl Future<Output = Answer<bool>> + Send {
        async move {
            let written = self.write(&[Write::Rules(*rules)], limit).await?;
            Ok(matches!(written, Written::Done(_)))
        }
    }
}

impl<S: Store> Operations for S {}

async fn read_one<S: Store + ?Sized>(
    store: &S,
    item: ItemAddress,
    limit: Duration,
) -> Answer<Slot> {
    let slots = store.read(&[item], limit).await?;
    let slot = slots.and_then(|slots| slots.into_iter().next());
    slot.ok_or_else(|| busy(store.name()))
}

/// What the only write found, or the first.
fn first(parts: &[Option<Slot>]) -> &Slot {
    parts
        .first()
        .and_then(Option::as_ref)
        .unwrap_or(&Slot::EMPTY)
}

/// The task that the last write found.
fn last_result(parts: &[Option<Slot>]) -> Option<ResultItem> {
    let found = parts.last().and_then(Option::as_ref);
    found.and_then(|item| item.read(ResultItem::read))
}

/// What stores a task that waits for a result, which is the last write.
fn awaiting(result: &AwaitedResult) -> Vec<Write> {
    let listed = result.item.stop_with.clone();
    let listed = listed.map(|caller| Write::Called(result.item.clone(), caller));
    let result = [Write::Result(result.clone())];
    listed.into_iter().chain(result).collect()
}

/// What became of a change of a row and of the item beside it, or of the item alone.
fn settled(written: Written, has_row: bool) -> Settled {
    match written {
        Written::Done(_) => Settled::Done,
        Written::Conflict => Settled::Conflict,
        Written::Refused(parts) => match parts.first() {
            Some(Some(row)) if has_row => Settled::Refused(row.row()),
            _ => Settled::NotWaiting,
        },
    }
}

/// A store waits for others itself, where only one item is written or read.
fn busy(table: &str) -> Error {
    Error::Unavailable {
        problem: format!("the item of the table {table} is being written by somebody else"),
        source: None,
    }
}

/// The condition allowed a write that the rules do not allow, because an attribute was wrong in a way that conditions
/// cannot see, such as a number with a fraction.
fn overwritten(address: &Address, before: &Stored) -> Error {
    let reason = match before {
        Stored::Foreign(reason) => reason,
        _ => "the table and the library disagree about it",
    };
    Error::Corrupt {
        key: address.key.clone(),
        reason: format!("{reason}; the condition could not see it, and the item was changed"),
    }
}
