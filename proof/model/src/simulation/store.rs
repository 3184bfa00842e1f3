//! A table in memory whose every call is two steps: before it takes effect, and before its answer
//! arrives.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::first_of;
use super::shared::{Broken, Delayed, DeliveryFault, Shared, kind_of, no_answer, too_busy};
use crate::design::{Flaw, flawed};
use leasehold::{
    Counter, Ended, Error, Holder, Key, RequestDigest, Timestamp,
    row::{Holding, Row, State, Stored},
    store::{Address, Applied, AppliedAll, Joined, Memory, Page, Position, ScanSegment, Store},
    transition::{Change, EndIfUnchanged, HandOver, Join, ShortenDeadline},
    waiter::Waiter,
};

#[derive(Clone)]
pub struct FaultyStore {
    pub memory: Memory,
    pub shared: Shared,
    /// A call has failed.
    pub ill: Arc<AtomicBool>,
}

/// A call, by value: it may be made again, or later.
#[derive(Clone, Debug)]
pub enum Op {
    Apply(Address, Change),
    ApplyAll(Vec<(Address, Change)>),
    Read(Address),
    ReadAll(Vec<Address>),
    ReadKey(Key),
    Join(Key, Join, Waiter),
    Waiter(Key, RequestDigest),
    CallBackBy(Key, Waiter),
    Forget(Key, Waiter),
    Served(Key, RequestDigest, Timestamp),
    Held(ScanSegment, Option<Position>, u32),
    HeldBy(Holder, Option<Position>, u32),
}

#[derive(Debug)]
enum Answer {
    Applied(Applied),
    AppliedAll(AppliedAll),
    Stored(Stored),
    AllStored(Option<Vec<Stored>>),
    Rows(Vec<(u16, Stored)>),
    Joined(Joined),
    Waiter(Option<Waiter>),
    Found(Waiter),
    Forgotten,
    Page(Page),
}

const LIMIT: Duration = Duration::MAX;

impl Op {
    /// The changes of rows that it may make.
    fn changes(&self) -> Vec<(Address, Change)> {
        match self {
            Self::Apply(address, change) => vec![(address.clone(), change.clone())],
            Self::ApplyAll(all) => all.clone(),
            Self::Join(key, join, _) => vec![(first_of(key), Change::Join(join.clone()))],
            _ => Vec::new(),
        }
    }

    /// The key that it asks for, if for one.
    fn key(&self) -> Option<Key> {
        match self {
            Self::Apply(address, _) | Self::Read(address) => Some(address.key.clone()),
            Self::ReadKey(key)
            | Self::Join(key, ..)
            | Self::Waiter(key, _)
            | Self::CallBackBy(key, _)
            | Self::Forget(key, _)
            | Self::Served(key, ..) => Some(key.clone()),
            Self::ApplyAll(_) | Self::ReadAll(_) | Self::Held(..) | Self::HeldBy(..) => None,
        }
    }

    fn is_write(&self) -> bool {
        matches!(
            self,
            Self::Apply(..)
                | Self::ApplyAll(..)
                | Self::Join(..)
                | Self::CallBackBy(..)
                | Self::Forget(..)
                | Self::Served(..)
        )
    }

    fn name(&self) -> String {
        match self {
            Self::Apply(_, change) => kind_of(change),
            Self::ApplyAll(_) => "write all".into(),
            Self::Read(_) => "read".into(),
            Self::ReadAll(_) => "read all".into(),
            Self::ReadKey(_) => "read key".into(),
            Self::Join(..) => "join".into(),
            Self::Waiter(..) => "read waiter".into(),
            Self::CallBackBy(_, waiter) => format!("call back {}", waiter.task_token.expose()),
            Self::Forget(_, waiter) => format!("forget {}", waiter.task_token.expose()),
            Self::Served(..) => "retire".into(),
            Self::Held(..) => "walk".into(),
            Self::HeldBy(..) => "walk holder".into(),
        }
    }
}

impl FaultyStore {
    async fn call(&self, op: Op) -> Result<Answer, Error> {
        let answer = self.in_two_steps(op).await;
        if answer.is_err() {
            self.ill.store(true, Ordering::Relaxed);
        }
        answer
    }

    async fn in_two_steps(&self, op: Op) -> Result<Answer, Error> {
        let fault = self.shared.step(op.name()).await;
        self.note(&op, "before", fault);
        if self.stops() {
            return Err(no_answer());
        }
        match fault {
            None => {}
            Some(DeliveryFault::Late) if op.is_write() => {
                let mut shared = self.shared.get();
                if shared.clocks_differ && matches!(op, Op::CallBackBy(..)) {
                    return Err(no_answer());
                }
                let now = shared.now;
                shared.delayed.push((now, Delayed::Write(op)));
                return Err(no_answer());
            }
            Some(DeliveryFault::Twice) => {
                return match op {
                    Op::Join(..) => Ok(Answer::Joined(Joined::Conflict)),
                    Op::ApplyAll(_) => Ok(Answer::AppliedAll(AppliedAll::Conflict)),
                    Op::ReadAll(_) => Ok(Answer::AllStored(None)),
                    _ => Err(too_busy()),
                };
            }
            Some(DeliveryFault::Lost | DeliveryFault::Late) => return Err(no_answer()),
        }
        let answer = self.perform(&op).await?;
        let fault = self.shared.step(format!("hear of {}", op.name())).await;
        self.note(&op, "after", fault);
        match fault {
            None => Ok(answer),
            Some(DeliveryFault::Twice) => self.perform(&op).await,
            Some(DeliveryFault::Lost | DeliveryFault::Late) => Err(no_answer()),
        }
    }

    /// What a broken sweep does after its first failure.
    fn stops(&self) -> bool {
        let shared = self.shared.get();
        let sweeps = shared.broken == Some(Broken::SweepStops) && shared.actor == "sweep";
        sweeps && self.ill.load(Ordering::Relaxed)
    }

    fn note(&self, op: &Op, when: &str, fault: Option<DeliveryFault>) {
        if let Some(fault) = fault {
            let line = || format!("{}: {fault:?} {when} its effect", op.name());
            let mut shared = self.shared.get();
            shared.note(line);
            shared.met.push(op.key());
        }
    }

    /// A call under way takes effect, whether anybody still waits for its answer or not.
    pub async fn arrive(&self, op: &Op) {
        let _ = self.perform(op).await;
    }

    async fn perform(&self, op: &Op) -> Result<Answer, Error> {
        let instead = self.broken(op).await?;
        let op = instead.as_ref().unwrap_or(op);
        self.end_without_margin(op).await?;
        let changes = op.changes();
        let mut stood = Vec::with_capacity(changes.len());
        for (address, _) in &changes {
            stood.push(self.memory.read(address, LIMIT).await?);
        }
        let answer = self.answer(op).await?;
        if let (Op::Read(address), Answer::Stored(Stored::Row(row))) = (op, &answer)
            && let Some(held) = row.holding()
        {
            let read = (address.clone(), row.version);
            self.shared.get().read.insert(read, held.lease_id.clone());
        }
        self.shared
            .get()
            .note(|| format!("{} -> {}", op.name(), said(&answer)));
        for ((address, change), before) in changes.iter().zip(stood) {
            self.break_it(address, change, &before).await?;
            let after = self.memory.read(address, LIMIT).await?;
            if before == after {
                continue;
            }
            let mut shared = self.shared.get();
            let shared = &mut *shared;
            shared.saw(&kind_of(change));
            let (now, waiter) = match op {
                Op::Join(_, _, waiter) => (shared.now, Some(waiter)),
                _ => (shared.now, None),
            };
            let seen = shared
                .oracle
                .saw(address, change, waiter, &before, &after, now);
            let text = shared.oracle.row(&after);
            shared.note(|| format!("  {text}"));
            if let Err(problem) = seen {
                shared.wrong(problem);
            }
            if let Stored::Row(row) = after
                && row.holding().is_none()
                && row.reserved().is_none()
                && row.head().is_some()
            {
                shared.records.push(address.key.clone());
            }
        }
        Ok(answer)
    }

    async fn answer(&self, op: &Op) -> Result<Answer, Error> {
        let memory = &self.memory;
        Ok(match op {
            Op::Apply(address, change) => {
                Answer::Applied(memory.apply(address, change, LIMIT).await?)
            }
            Op::ApplyAll(all) => Answer::AppliedAll(memory.apply_all(all, LIMIT).await?),
            Op::Read(address) => Answer::Stored(memory.read(address, LIMIT).await?),
            Op::ReadAll(all) => Answer::AllStored(memory.read_all(all, LIMIT).await?),
            Op::ReadKey(key) => Answer::Rows(memory.read_key(key, LIMIT).await?),
            Op::Join(key, join, waiter) => {
                Answer::Joined(memory.join(key, join, waiter, LIMIT).await?)
            }
            Op::Waiter(key, request) => {
                let found = memory.waiter(key, request, LIMIT).await?;
                if self.shared.get().broken == Some(Broken::RetiredWhenNotified) {
                    memory
                        .mark_waiter_served(key, request, Timestamp::MAX, LIMIT)
                        .await?;
                }
                Answer::Waiter(found)
            }
            Op::CallBackBy(key, waiter) => {
                Answer::Found(memory.update_task_token(key, waiter, LIMIT).await?)
            }
            Op::Forget(key, waiter) => {
                memory.delete_waiter(key, waiter, LIMIT).await?;
                Answer::Forgotten
            }
            Op::Served(key, request, now) => {
                memory.mark_waiter_served(key, request, *now, LIMIT).await?;
                Answer::Forgotten
            }
            Op::Held(segment, from, most) => Answer::Page(
                memory
                    .scan_held(*segment, from.as_ref(), *most, LIMIT)
                    .await?,
            ),
            Op::HeldBy(holder, from, most) => {
                Answer::Page(memory.held_by(holder, from.as_ref(), *most, LIMIT).await?)
            }
        })
    }

    /// What a broken library would call instead.
    async fn broken(&self, op: &Op) -> Result<Option<Op>, Error> {
        let (Some(broken), Op::Apply(address, change)) = (self.shared.get().broken, op) else {
            return Ok(None);
        };
        let Stored::Row(row) = self.memory.read(address, LIMIT).await? else {
            return Ok(None);
        };
        let mut change = change.clone();
        match broken {
            Broken::NoFloor => {
                change = flawed::without_the_floor(Flaw::HandOversIgnoreTheFloor, change);
                change = flawed::without_the_floor(Flaw::AcceptsPreRestoreReservation, change);
            }
            Broken::ReapLate => {
                let (Change::ShortenDeadline(ShortenDeadline { version, .. })
                | Change::EndIfUnchanged(EndIfUnchanged {
                    version,
                    ended: Ended::Released,
                    ..
                })) = &mut change
                else {
                    return Ok(None);
                };
                let shared = self.shared.get();
                let read = shared.read.get(&(address.clone(), *version));
                if row.holding().is_some_and(|h| Some(&h.lease_id) == read) {
                    *version = row.version;
                }
            }
            _ => {}
        }
        Ok(Some(Op::Apply(address.clone(), change)))
    }

    /// What a broken extend does when it has expired by its own clock, and somebody waits.
    async fn end_without_margin(&self, op: &Op) -> Result<(), Error> {
        let (Some(Broken::NoMargin), Op::Apply(address, Change::Extend(extend))) =
            (self.shared.get().broken, op)
        else {
            return Ok(());
        };
        let Stored::Row(row) = self.memory.read(address, LIMIT).await? else {
            return Ok(());
        };
        let over =
            |held: &Holding| held.lease_id == extend.lease_id && held.expires_at <= extend.now;
        if row.holding().is_some_and(over) && row.head().is_some() {
            let end = Change::EndIfUnchanged(EndIfUnchanged {
                version: row.version,
                ended: Ended::Expired,
                next: HandOver::Later,
                purge_at: 0,
            });
            Box::pin(self.perform(&Op::Apply(address.clone(), end))).await?;
        }
        Ok(())
    }

    /// Does wrong what a broken library would.
    async fn break_it(
        &self,
        address: &Address,
        change: &Change,
        before: &Stored,
    ) -> Result<(), Error> {
        let Some(broken) = self.shared.get().broken else {
            return Ok(());
        };
        let (Stored::Row(before), Stored::Row(mut row)) =
            (before, self.memory.read(address, LIMIT).await?)
        else {
            return Ok(());
        };
        match (broken, change) {
            (Broken::TokenReused, Change::PassReservation(_)) if *before != row => {
                row.fencing_token = before.fencing_token;
            }
            (Broken::OrderIgnored, _) if *before != row => second_first(&mut row),
            (Broken::DropsNextWaiter, Change::ConfirmReservation(_)) if *before != row => {
                row.queue = row.waiting().iter().skip(1).cloned().collect();
            }
            (Broken::SkipsWithoutCheck, Change::PassReservation(pass)) if *before == row => {
                let mut pass = pass.clone();
                pass.tries = before.reserved().map_or(Counter::MIN, |kept| kept.tries);
                let _ = self
                    .memory
                    .apply(address, &Change::PassReservation(pass), LIMIT)
                    .await?;
                return Ok(());
            }
            (Broken::QueueIgnored, Change::Grant(_)) if *before == row => {
                let Some(granted) = flawed::past_the_line(before, change) else {
                    return Ok(());
                };
                row = granted;
            }
            _ => return Ok(()),
        }
        self.memory.put(address.clone(), &row.to_item());
        Ok(())
    }
}

fn second_first(row: &mut Row) {
    let (
        State::Free {
            reserved: Some(reserved),
            ..
        },
        line,
    ) = (&mut row.state, &mut row.queue)
    else {
        return;
    };
    if let Some(first) = line.first_mut() {
        std::mem::swap(first, &mut reserved.request);
    }
}

fn said(answer: &Answer) -> &'static str {
    match answer {
        Answer::Applied(Applied::Done { .. })
        | Answer::AppliedAll(AppliedAll::Done)
        | Answer::Joined(Joined::Done) => "done",
        Answer::Applied(Applied::Refused(_)) | Answer::AppliedAll(_) | Answer::Joined(_) => {
            "refused"
        }
        Answer::Waiter(None) | Answer::Stored(Stored::Absent) => "nothing",
        _ => "ok",
    }
}

/// The answer that goes with the question.
macro_rules! ask {
    ($self:ident, $op:expr, $kind:path) => {
        match $self.call($op).await? {
            $kind(answer) => Ok(answer),
            other => unreachable!("{other:?}"),
        }
    };
}

impl Store for FaultyStore {
    fn name(&self) -> &'static str {
        "step by step"
    }

    async fn apply(&self, at: &Address, change: &Change, _: Duration) -> Result<Applied, Error> {
        ask!(self, Op::Apply(at.clone(), change.clone()), Answer::Applied)
    }

    async fn read(&self, at: &Address, _: Duration) -> Result<Stored, Error> {
        ask!(self, Op::Read(at.clone()), Answer::Stored)
    }

    async fn apply_all(&self, all: &[(Address, Change)], _: Duration) -> Result<AppliedAll, Error> {
        ask!(self, Op::ApplyAll(all.to_vec()), Answer::AppliedAll)
    }

    async fn read_all(&self, all: &[Address], _: Duration) -> Result<Option<Vec<Stored>>, Error> {
        ask!(self, Op::ReadAll(all.to_vec()), Answer::AllStored)
    }

    async fn read_key(&self, key: &Key, _: Duration) -> Result<Vec<(u16, Stored)>, Error> {
        ask!(self, Op::ReadKey(key.clone()), Answer::Rows)
    }

    async fn join(
        &self,
        key: &Key,
        join: &Join,
        waiter: &Waiter,
        _: Duration,
    ) -> Result<Joined, Error> {
        let op = Op::Join(key.clone(), join.clone(), waiter.clone());
        ask!(self, op, Answer::Joined)
    }

    async fn waiter(
        &self,
        key: &Key,
        request: &RequestDigest,
        _: Duration,
    ) -> Result<Option<Waiter>, Error> {
        ask!(
            self,
            Op::Waiter(key.clone(), request.clone()),
            Answer::Waiter
        )
    }

    async fn update_task_token(
        &self,
        key: &Key,
        waiter: &Waiter,
        _: Duration,
    ) -> Result<Waiter, Error> {
        ask!(
            self,
            Op::CallBackBy(key.clone(), waiter.clone()),
            Answer::Found
        )
    }

    async fn delete_waiter(&self, key: &Key, waiter: &Waiter, _: Duration) -> Result<(), Error> {
        self.call(Op::Forget(key.clone(), waiter.clone()))
            .await
            .map(drop)
    }

    async fn mark_waiter_served(
        &self,
        key: &Key,
        request: &RequestDigest,
        now: Timestamp,
        _: Duration,
    ) -> Result<(), Error> {
        self.call(Op::Served(key.clone(), request.clone(), now))
            .await
            .map(drop)
    }

    async fn scan_held(
        &self,
        segment: ScanSegment,
        from: Option<&Position>,
        most: u32,
        _: Duration,
    ) -> Result<Page, Error> {
        ask!(self, Op::Held(segment, from.cloned(), most), Answer::Page)
    }

    async fn held_by(
        &self,
        holder: &Holder,
        from: Option<&Position>,
        most: u32,
        _: Duration,
    ) -> Result<Page, Error> {
        ask!(
            self,
            Op::HeldBy(holder.clone(), from.cloned(), most),
            Answer::Page
        )
    }
}
