//! A table in memory whose every call is two steps: before it takes effect, and before its answer
//! is heard.

use std::time::Duration;

use super::ground::{Broken, Ground, Mishap, Stray, kind_of, no_answer, too_busy};
use crate::{
    error::Error,
    line::first_of,
    row::{Row, State, Stored},
    store::{Address, Applied, AppliedAll, Joined, Memory, Page, Part, Position, Store},
    transition::{Change, Join},
    values::{Counter, Holder, Key, RequestDigest},
    waiter::Waiter,
};

#[derive(Clone)]
pub(super) struct Steps {
    pub(super) memory: Memory,
    pub(super) ground: Ground,
}

/// A call, by value: it may be made again, or later.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Apply(Address, Change),
    Read(Address),
    ReadKey(Key),
    Join(Key, Join, Waiter),
    Waiter(Key, RequestDigest),
    CallBackBy(Key, Waiter),
    Forget(Key, Waiter),
    Held(Part, Option<Position>, u32),
    HeldBy(Holder, Option<Position>, u32),
}

#[derive(Debug)]
enum Answer {
    Applied(Applied),
    Stored(Stored),
    Rows(Vec<(u16, Stored)>),
    Joined(Joined),
    Waiter(Option<Waiter>),
    Stands(Waiter),
    Forgotten,
    Page(Page),
}

const LIMIT: Duration = Duration::MAX;

impl Op {
    /// The row that it may write.
    fn row(&self) -> Option<Address> {
        match self {
            Self::Apply(address, _) => Some(address.clone()),
            Self::Join(key, ..) => Some(first_of(key)),
            _ => None,
        }
    }

    fn is_write(&self) -> bool {
        matches!(
            self,
            Self::Apply(..) | Self::Join(..) | Self::CallBackBy(..) | Self::Forget(..)
        )
    }

    fn name(&self) -> String {
        match self {
            Self::Apply(_, change) => kind_of(change),
            Self::Read(_) => "read".into(),
            Self::ReadKey(_) => "read key".into(),
            Self::Join(..) => "join".into(),
            Self::Waiter(..) => "read waiter".into(),
            Self::CallBackBy(_, waiter) => format!("call back {}", waiter.task_token.expose()),
            Self::Forget(_, waiter) => format!("forget {}", waiter.task_token.expose()),
            Self::Held(..) => "walk".into(),
            Self::HeldBy(..) => "walk holder".into(),
        }
    }
}

impl Steps {
    async fn call(&self, op: Op) -> Result<Answer, Error> {
        let mishap = self.ground.step(op.name()).await;
        self.note(&op, "before", mishap);
        match mishap {
            None => {}
            Some(Mishap::Late) if op.is_write() => {
                let mut ground = self.ground.get();
                if ground.clocks_differ && matches!(op, Op::CallBackBy(..)) {
                    return Err(no_answer());
                }
                let now = ground.now;
                ground.strays.push((now, Stray::Write(op)));
                return Err(no_answer());
            }
            Some(Mishap::Twice) if matches!(op, Op::Join(..)) => {
                return Ok(Answer::Joined(Joined::Conflict));
            }
            Some(Mishap::Twice) => return Err(too_busy()),
            Some(Mishap::Lost | Mishap::Late) => return Err(no_answer()),
        }
        let answer = self.perform(&op).await?;
        let mishap = self.ground.step(format!("hear of {}", op.name())).await;
        self.note(&op, "after", mishap);
        match mishap {
            None => Ok(answer),
            Some(Mishap::Twice) => self.perform(&op).await,
            Some(Mishap::Lost | Mishap::Late) => Err(no_answer()),
        }
    }

    fn note(&self, op: &Op, when: &str, mishap: Option<Mishap>) {
        if let Some(mishap) = mishap {
            let line = || format!("{}: {mishap:?} {when} its effect", op.name());
            self.ground.get().note(line);
        }
    }

    /// What has set out takes effect, whether anybody still hears of it or not.
    pub(super) async fn arrive(&self, op: &Op) {
        let _ = self.perform(op).await;
    }

    async fn perform(&self, op: &Op) -> Result<Answer, Error> {
        let before = self.row(op).await?;
        let answer = self.answer(op).await?;
        if let Some(address) = op.row() {
            self.break_it(op, &before, &address).await?;
        }
        let after = self.row(op).await?;
        let mut ground = self.ground.get();
        let ground = &mut *ground;
        ground.note(|| format!("{} -> {}", op.name(), said(&answer)));
        if before != after {
            ground.saw(&op.name());
            let now = ground.now();
            let seen = ground.witness.saw(op, before, &after, now);
            let text = ground.witness.row(&after);
            ground.note(|| format!("  {text}"));
            if let Err(problem) = seen {
                ground.wrong(problem);
            }
            if let (Stored::Row(row), Some(address)) = (after, op.row())
                && row.holding().is_none()
                && row.reserved().is_none()
                && row.head().is_some()
            {
                ground.records.push(address.key);
            }
        }
        Ok(answer)
    }

    async fn row(&self, op: &Op) -> Result<Stored, Error> {
        match op.row() {
            Some(address) => self.memory.read(&address, LIMIT).await,
            None => Ok(Stored::Absent),
        }
    }

    async fn answer(&self, op: &Op) -> Result<Answer, Error> {
        let memory = &self.memory;
        Ok(match op {
            Op::Apply(address, change) => {
                Answer::Applied(memory.apply(address, change, LIMIT).await?)
            }
            Op::Read(address) => Answer::Stored(memory.read(address, LIMIT).await?),
            Op::ReadKey(key) => Answer::Rows(memory.read_key(key, LIMIT).await?),
            Op::Join(key, join, waiter) => {
                Answer::Joined(memory.join(key, join, waiter, LIMIT).await?)
            }
            Op::Waiter(key, request) => Answer::Waiter(memory.waiter(key, request, LIMIT).await?),
            Op::CallBackBy(key, waiter) => {
                Answer::Stands(memory.call_back_by(key, waiter, LIMIT).await?)
            }
            Op::Forget(key, waiter) => {
                memory.forget(key, waiter, LIMIT).await?;
                Answer::Forgotten
            }
            Op::Held(part, from, most) => {
                Answer::Page(memory.held(*part, from.as_ref(), *most, LIMIT).await?)
            }
            Op::HeldBy(holder, from, most) => {
                Answer::Page(memory.held_by(holder, from.as_ref(), *most, LIMIT).await?)
            }
        })
    }

    /// Does wrong what a broken library would.
    async fn break_it(&self, op: &Op, before: &Stored, address: &Address) -> Result<(), Error> {
        let Some(broken) = self.ground.get().broken else {
            return Ok(());
        };
        let (Stored::Row(before), Stored::Row(mut row)) =
            (before, self.memory.read(address, LIMIT).await?)
        else {
            return Ok(());
        };
        let Op::Apply(_, change) = op else {
            return Ok(());
        };
        match (broken, change) {
            (Broken::TokenKept, Change::Pass(_)) if *before != row => {
                row.fencing_token = before.fencing_token;
            }
            (Broken::OrderIgnored, _) if *before != row => second_first(&mut row),
            (Broken::Forgetful, Change::Take(_)) if *before != row => {
                row.line = Some(row.waiting().iter().skip(1).cloned().collect());
            }
            (Broken::Hasty, Change::Pass(pass)) if *before == row => {
                let mut pass = pass.clone();
                pass.tries = before.reserved().map_or(Counter::MIN, |kept| kept.tries);
                let _ = self
                    .memory
                    .apply(address, &Change::Pass(pass), LIMIT)
                    .await?;
                return Ok(());
            }
            (Broken::Barging, Change::Grant(grant)) if *before == row => {
                let alone = Row {
                    line: Some(Vec::new()),
                    ..before.clone()
                };
                self.memory.put(address.clone(), &alone.to_item());
                let change = Change::Grant(grant.clone());
                let _ = self.memory.apply(address, &change, LIMIT).await?;
                if let Stored::Row(granted) = self.memory.read(address, LIMIT).await? {
                    row = granted;
                }
                row.line.clone_from(&before.line);
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
        Some(line),
    ) = (&mut row.state, &mut row.line)
    else {
        return;
    };
    if let Some(first) = line.first_mut() {
        std::mem::swap(first, &mut reserved.request);
    }
}

fn said(answer: &Answer) -> &'static str {
    match answer {
        Answer::Applied(Applied::Done { .. }) | Answer::Joined(Joined::Done) => "done",
        Answer::Applied(Applied::Refused(_)) | Answer::Joined(_) => "refused",
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

impl Store for Steps {
    fn name(&self) -> &'static str {
        "step by step"
    }

    async fn apply(&self, at: &Address, change: &Change, _: Duration) -> Result<Applied, Error> {
        ask!(self, Op::Apply(at.clone(), change.clone()), Answer::Applied)
    }

    async fn read(&self, at: &Address, _: Duration) -> Result<Stored, Error> {
        ask!(self, Op::Read(at.clone()), Answer::Stored)
    }

    // A line is one key's: sets are asked for by nobody here, and are not told apart into steps.
    async fn apply_all(
        &self,
        all: &[(Address, Change)],
        limit: Duration,
    ) -> Result<AppliedAll, Error> {
        self.memory.apply_all(all, limit).await
    }

    async fn read_all(
        &self,
        all: &[Address],
        limit: Duration,
    ) -> Result<Option<Vec<Stored>>, Error> {
        self.memory.read_all(all, limit).await
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

    async fn call_back_by(&self, key: &Key, waiter: &Waiter, _: Duration) -> Result<Waiter, Error> {
        ask!(
            self,
            Op::CallBackBy(key.clone(), waiter.clone()),
            Answer::Stands
        )
    }

    async fn forget(&self, key: &Key, waiter: &Waiter, _: Duration) -> Result<(), Error> {
        self.call(Op::Forget(key.clone(), waiter.clone()))
            .await
            .map(drop)
    }

    async fn held(
        &self,
        part: Part,
        from: Option<&Position>,
        most: u32,
        _: Duration,
    ) -> Result<Page, Error> {
        ask!(self, Op::Held(part, from.cloned(), most), Answer::Page)
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
