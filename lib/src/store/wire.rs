//! A table behind a network: requests take time, some are lost, and another writer may be faster.
#![expect(clippy::disallowed_methods, reason = "tokio's virtual time")]

use std::{
    collections::VecDeque,
    future::{Future, pending},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use super::{
    Address, ItemAddress, Memory, Operations as _, Page, Position, ScanSegment, Slot, Store, Write,
    Written,
};
use crate::{
    error::{Cause, Error},
    outcomes::Ended,
    row::{self, Row, Stored},
    test_support::make,
    transition::Change,
    values::{Holder, Key},
};

pub(crate) const ROUND_TRIP: Duration = Duration::from_millis(10);

/// Another writer ends the grant in this row, and serves nobody.
pub(crate) fn end(table: &Memory, at: &Address, ended: Ended) {
    let (pk, sk) = ItemAddress::Row(at.clone()).keys();
    let mut items = table.all().into_iter();
    let found = items.find(|item| item.0 == pk && item.1 == sk);
    let row = Row::read(&found.expect("a row").2).expect("ours");
    let state = row::State::Free {
        ended,
        last_token: row.fencing_token,
    };
    let version = row.version.plus(1);
    let row = Row {
        version,
        state,
        ..row
    };
    table.put(at.clone(), &row.to_item());
}

/// The fate of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Answered,
    /// Written, but without a response until the timeout.
    AnswerLost,
    /// Written, but without a response; the SDK sends it again at once, and the response is to the second write.
    SentAgain,
    /// Not written, and without a response until the timeout.
    RequestLost,
    /// Not written, and the response says so.
    Throttled,
}

/// When a process dies: the request counts down to it, which is carried out before or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Death {
    pub(crate) request: u32,
    pub(crate) is_sent: bool,
}

/// The requests of a process, up to its death.
#[derive(Clone, Default)]
pub(crate) struct Life {
    death: Arc<Mutex<Option<Death>>>,
    is_over: Arc<Notify>,
}

impl Life {
    fn death(&self) -> MutexGuard<'_, Option<Death>> {
        self.death.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries a request out, unless the process dies before, and returns, unless it dies after.
    pub(crate) async fn request<T>(&self, request: impl Future<Output = T>) -> T {
        let now = {
            let mut death = self.death();
            if let Some(death) = &mut *death {
                death.request -= 1;
            }
            death.take_if(|death| death.request == 0)
        };
        match now {
            None => return request.await,
            Some(Death { is_sent: false, .. }) => {}
            Some(_) => {
                let _: T = request.await;
            }
        }
        self.is_over.notify_one();
        pending().await
    }

    /// The result of a call, or none if the process has died.
    pub(crate) async fn lives<T>(&self, death: Death, call: impl Future<Output = T>) -> Option<T> {
        *self.death() = Some(death);
        let result = tokio::select! {
            result = call => Some(result),
            () = self.is_over.notified() => None,
        };
        *self.death() = None;
        result
    }
}

/// The request before which another writer acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    Apply,
    ApplyAll,
    ReadAll,
    ReadKey,
    Join,
    Read,
    ReadToken,
    ReadStart,
    ReadResult,
    Start,
    Settle,
}

type Meddling = Box<dyn FnOnce(&Memory) + Send>;

#[derive(Clone, Default)]
pub(crate) struct Wire {
    pub(crate) table: Memory,
    life: Life,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    script: VecDeque<Fate>,
    always: Option<Fate>,
    requests: u32,
    grants: u32,
    /// What happens before the n-th such request; the number counts down.
    meddling: Option<(Before, u32, Meddling)>,
    /// How many transactions meet another writer.
    conflicts: u32,
    /// Whether the next refusal of several rows omits the last row.
    leaves_one_out: bool,
}

impl Wire {
    /// The requests of a process that may die, to a table that others have too.
    pub(crate) fn to(table: Memory, life: Life) -> Self {
        Self {
            table,
            ..Self::of(life)
        }
    }

    /// The same, to a table of its own.
    pub(crate) fn of(life: Life) -> Self {
        Self {
            life,
            ..Self::default()
        }
    }

    /// A table to which another writer does something just before the `nth` such request.
    pub(crate) fn meddled(
        before: Before,
        nth: u32,
        meddling: impl FnOnce(&Memory) + Send + 'static,
    ) -> Self {
        let wire = Self::default();
        wire.state().meddling = Some((before, nth, Box::new(meddling)));
        wire
    }

    /// Whether that has happened.
    pub(crate) fn is_done(&self) -> bool {
        self.state().meddling.is_none()
    }

    /// A table whose next transactions meet another writer.
    pub(crate) fn conflicting(times: u32) -> Self {
        let wire = Self::default();
        wire.conflict(times);
        wire
    }

    /// The next transactions meet another writer.
    pub(crate) fn conflict(&self, times: u32) {
        self.state().conflicts = times;
    }

    /// A table whose next refusal of several rows omits the last of them.
    pub(crate) fn leave_one_out(&self) {
        self.state().leaves_one_out = true;
    }

    fn conflicts(&self) -> bool {
        let mut state = self.state();
        let conflicts = state.conflicts > 0;
        state.conflicts = state.conflicts.saturating_sub(1);
        conflicts
    }

    fn at(&self, request: Before) {
        let mut state = self.state();
        match state.meddling.take() {
            Some((before, 1, meddling)) if before == request => meddling(&self.table),
            Some((before, nth, meddling)) if before == request => {
                state.meddling = Some((before, nth - 1, meddling));
            }
            other => state.meddling = other,
        }
    }

    /// The fates of the next writes.
    pub(crate) fn script(&self, fates: impl IntoIterator<Item = Fate>) {
        self.state().script.extend(fates);
    }

    /// The fate of every write after the script.
    pub(crate) fn always(&self, fate: Fate) {
        self.state().always = Some(fate);
    }

    /// The number of writes that were requested.
    pub(crate) fn requests(&self) -> u32 {
        self.state().requests
    }

    /// The number of grants that were written, with or without a response.
    pub(crate) fn grants(&self) -> u32 {
        self.state().grants
    }

    pub(crate) async fn row(&self) -> Row {
        let address = Address::first(&make::key("k"));
        match self.table.read_row(&address, Duration::MAX).await {
            Ok(Stored::Row(row)) => row,
            other => panic!("{other:?}"),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }

    fn next(&self) -> Fate {
        let mut state = self.state();
        state.requests += 1;
        let scripted = state.script.pop_front();
        scripted.or(state.always).unwrap_or(Fate::Answered)
    }

    async fn write_row(&self, row: &[Write], limit: Duration) -> Result<Written, Error> {
        self.at(Before::Apply);
        let fate = self.next();
        if fate == Fate::RequestLost {
            return Err(Self::silence(limit).await);
        }
        if fate == Fate::Throttled {
            return Err(Error::Throttled {
                action: "dynamodb:UpdateItem",
                resource: "table memory".to_owned(),
                source: Cause::said("ThrottlingException"),
            });
        }
        let mut written = self.life.request(self.table.write(row, limit)).await?;
        if fate == Fate::SentAgain {
            self.at(Before::Apply);
            written = self.table.write(row, limit).await?;
        }
        let granted = matches!(
            (&written, row),
            (Written::Done(_), [Write::Row(_, Change::Grant(_))])
        );
        self.state().grants += u32::from(granted);
        if fate == Fate::AnswerLost || limit < ROUND_TRIP {
            return Err(Self::silence(limit).await);
        }
        tokio::time::sleep(ROUND_TRIP).await;
        Ok(written)
    }

    async fn silence(limit: Duration) -> Error {
        tokio::time::sleep(limit).await;
        Error::Unavailable {
            problem: "no answer".to_owned(),
            source: None,
        }
    }
}

impl Store for Wire {
    fn name(&self) -> &str {
        self.table.name()
    }

    async fn write(&self, writes: &[Write], limit: Duration) -> Result<Written, Error> {
        if let [Write::Row(..)] = writes {
            return self.write_row(writes, limit).await;
        }
        let kind = if writes.iter().all(|write| matches!(write, Write::Row(..))) {
            Some(Before::ApplyAll)
        } else if writes.iter().any(|write| matches!(write, Write::Wait(..))) {
            Some(Before::Join)
        } else {
            None
        };
        if kind.is_some() && self.conflicts() {
            return Ok(Written::Conflict);
        }
        if let Some(kind) = kind {
            self.at(kind);
        } else if writes
            .iter()
            .any(|write| matches!(write, Write::Settle(..)))
        {
            self.at(Before::Settle);
        } else if writes
            .iter()
            .any(|write| matches!(write, Write::Start(_) | Write::Restart(..)))
        {
            self.at(Before::Start);
        }
        let write = self.table.write(writes, limit);
        let mut written = self.life.request(write).await?;
        if let Written::Refused(parts) = &mut written
            && kind == Some(Before::ApplyAll)
            && std::mem::take(&mut self.state().leaves_one_out)
        {
            parts.pop();
            parts.push(None);
        }
        Ok(written)
    }

    async fn read(
        &self,
        items: &[ItemAddress],
        limit: Duration,
    ) -> Result<Option<Vec<Slot>>, Error> {
        match items {
            [ItemAddress::Row(_)] => self.at(Before::Read),
            [ItemAddress::Waiter(..)] => self.at(Before::ReadToken),
            [ItemAddress::Start(..)] => self.at(Before::ReadStart),
            [ItemAddress::Result(..)] => self.at(Before::ReadResult),
            [_] => {}
            _ if self.conflicts() => return Ok(None),
            _ => self.at(Before::ReadAll),
        }
        self.life.request(self.table.read(items, limit)).await
    }

    async fn read_key(&self, key: &Key, limit: Duration) -> Result<Vec<(u16, Stored)>, Error> {
        self.at(Before::ReadKey);
        let read = self.life.request(self.table.read_key(key, limit)).await;
        // Others may write before its answer arrives.
        tokio::task::yield_now().await;
        read
    }

    async fn scan(
        &self,
        segment: ScanSegment,
        from: Option<&Position>,
        most: u32,
        limit: Duration,
    ) -> Result<Page, Error> {
        let scan = self.table.scan(segment, from, most, limit);
        self.life.request(scan).await
    }

    async fn held_by(
        &self,
        holder: &Holder,
        from: Option<&Position>,
        most: u32,
        limit: Duration,
    ) -> Result<Page, Error> {
        let read = self.table.held_by(holder, from, most, limit);
        self.life.request(read).await
    }
}
