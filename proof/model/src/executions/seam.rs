//! What the library's functions ask for, one request at a time: the table and Step Functions are answered from a log.

use std::{
    future::{Future, poll_fn},
    hash::{Hash, Hasher},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};

use leasehold::{
    Begun, Call, Cause, Clock, Delivery, Error, Execution, ExecutionName, GrantOf, Holder, Key,
    LeaseId, Receipt, Redrives, RequestDigest, StartItem, StateMachineArn, TableRules, TaskToken,
    Timestamp, WaiterOf, Workflows,
    redrivable::Redrivable,
    row::{Row, State, Stored},
    store::{
        Address, Applied, AppliedAll, Joined, Page, Position, PutStart, ScanSegment, Settled,
        Settlement, Store,
    },
    transition::{Change, Join, Leave},
    waiter::Waiter,
};

use super::names::{self, Tick};

/// A request to the table or to Step Functions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Of the row of this permit.
    Apply(u16, Change),
    ApplyAll(Vec<(u16, Change)>),
    Read(u16),
    ReadKey,
    Join(Join, Item),
    Waiter(RequestDigest),
    NewToken(Item),
    Delete(Item),
    Supersede(Item, Holder, Leave),
    Scan,
    HeldBy(Holder),
    /// A start's item; one that has failed is replaced, or it is not.
    PutStart(Box<Started>, bool),
    Start(RequestDigest),
    Settle(Box<Settling>),
    Noted(RequestDigest),
    Note(Box<Note>),
    ForgetNote(Box<Note>),
    Succeed(TaskToken, String),
    Fail(TaskToken),
    Describe(Holder),
    Received(Holder, LeaseId),
    /// `StartExecution`, which its sender calls in this tick at the latest.
    Begin(Holder, String, Tick),
    Input(Holder),
    Stop(Holder),
    Redrives(Holder),
}

/// A start's item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started(pub StartItem);

impl Hash for Started {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0.name.as_str(), self.0.asked_at, self.0.status.word()).hash(state);
    }
}

/// What becomes of a start, with a change of the row of a permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settling {
    pub item: StartItem,
    pub settlement: Settlement,
    pub with: Option<(u16, Change)>,
}

impl Hash for Settling {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.item.name.as_str(), &self.with).hash(state);
    }
}

/// Of an execution that may be redriven: the note, the version that was seen, when to look next and when to purge it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub noted: Redrivable,
    pub seen: Option<u64>,
    pub times: (Timestamp, u64),
}

impl Hash for Note {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.noted.execution, self.noted.version, self.seen).hash(state);
    }
}

/// A waiter's item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item(pub Waiter);

impl Hash for Item {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.request.hash(state);
        self.0.task_token.hash(state);
    }
}

impl Ask {
    /// Whether it changes anything, so that it matters whether it took effect.
    pub const fn acts(&self) -> bool {
        matches!(
            self,
            Self::Apply(..)
                | Self::ApplyAll(_)
                | Self::Join(..)
                | Self::NewToken(_)
                | Self::Delete(_)
                | Self::Supersede(..)
                | Self::PutStart(..)
                | Self::Settle(_)
                | Self::Note(_)
                | Self::ForgetNote(_)
        ) || self.calls()
    }

    /// The same of a call of Step Functions.
    pub const fn calls(&self) -> bool {
        matches!(
            self,
            Self::Succeed(..) | Self::Fail(_) | Self::Begin(..) | Self::Stop(_)
        )
    }
}

/// The answer to an [`Ask`].
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Applied(Applied),
    AppliedAll(AppliedAll),
    Stored(Stored),
    Rows(Vec<(u16, Stored)>),
    Joined(Joined),
    Settled(Settled),
    Waiter(Option<Waiter>),
    Page(Page),
    Done,
    PutStart(PutStart),
    Start(Option<StartItem>),
    Noted(Option<Redrivable>),
    Yes(bool),
    Delivery(Delivery),
    Execution(Execution),
    Receipt(Receipt),
    Begun(Begun),
    Input(Option<String>),
    Redrives(Option<Redrives>),
    Throttled,
    /// None came.
    None,
}

/// The log of one call of the library, and what it has asked for so far.
#[derive(Default)]
pub struct Log {
    answers: Vec<Answer>,
    pub allowed: usize,
    pub asked: Vec<Ask>,
    pub now: Option<Timestamp>,
    /// The lease ids that the library drew in this run, and what everybody else knows them by.
    ids: Vec<(LeaseId, LeaseId)>,
    /// What its ids begin with.
    name: String,
    /// When it last wrote a grant, or marked one.
    marked: Option<Timestamp>,
    /// Whether the service says how often an execution was redriven.
    watches: bool,
}

#[derive(Clone, Default)]
pub struct Seam(Arc<Mutex<Log>>);

impl Seam {
    pub fn new(name: String, watches: bool, answers: Vec<Answer>) -> Self {
        let log = Log {
            answers,
            name,
            watches,
            ..Log::default()
        };
        Self(Arc::new(Mutex::new(log)))
    }

    pub fn get(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, ask: Ask) -> Answer {
        let number = {
            let mut log = self.get();
            let ask = log.known_to_all(ask);
            log.asked.push(ask);
            log.asked.len() - 1
        };
        poll_fn(|context| {
            let log = self.get();
            if number < log.allowed {
                return Poll::Ready(log.own(log.answers[number].clone()));
            }
            // Of several that go on side by side another one may be answered next.
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }

    async fn call(&self, ask: Ask) -> Result<Delivery, Error> {
        match self.ask(ask).await {
            Answer::Delivery(delivery) => Ok(delivery),
            _ => Err(no_answer()),
        }
    }
}

impl Log {
    /// The lease id that everybody else knows this one by.
    pub fn known(&mut self, id: &LeaseId) -> LeaseId {
        if id.expose().starts_with('s') {
            return id.clone();
        }
        if let Some((_, known)) = self.ids.iter().find(|(own, _)| own == id) {
            return known.clone();
        }
        let known = format!("{}k{}", self.name, self.ids.len());
        let known = LeaseId::try_from(known).expect("short");
        self.ids.push((id.clone(), known.clone()));
        known
    }

    fn known_to_all(&mut self, mut ask: Ask) -> Ask {
        match &mut ask {
            Ask::Apply(_, change) => self.known_in(change),
            Ask::ApplyAll(changes) => {
                for (_, change) in changes {
                    self.known_in(change);
                }
            }
            Ask::Settle(settling) => {
                if let Some((_, change)) = &mut settling.with {
                    self.known_in(change);
                }
            }
            Ask::Received(_, lease) => *lease = self.known(lease),
            Ask::Succeed(_, output) | Ask::Begin(_, output, _) => {
                for (own, known) in &self.ids {
                    *output = output.replace(own.expose(), known.expose());
                }
            }
            _ => {}
        }
        ask
    }

    fn known_in(&mut self, change: &mut Change) {
        match change {
            Change::Grant(grant) => {
                grant.lease_id = self.known(&grant.lease_id);
                self.marked = Some(grant.now);
            }
            Change::ReplaceIfUnchanged(swap) => {
                if let State::Held(held) = &mut swap.row.state {
                    held.lease_id = self.known(&held.lease_id);
                    self.marked = held.telling.map(|telling| telling.at).or(self.marked);
                }
                // What was never granted is anybody's guess.
                if names::whose(&swap.row.request).is_none() {
                    swap.row.request = names::nobody();
                }
            }
            Change::Release(release) => release.lease_id = self.known(&release.lease_id),
            _ => {}
        }
    }

    /// An answer, with the lease ids as this run drew them.
    fn own(&self, mut answer: Answer) -> Answer {
        match &mut answer {
            Answer::Applied(Applied::Done { row, .. } | Applied::Refused(Stored::Row(row)))
            | Answer::Stored(Stored::Row(row))
            | Answer::Settled(Settled::Refused(Stored::Row(row)))
            | Answer::Joined(Joined::Refused(Stored::Row(row))) => self.own_row(row),
            Answer::AppliedAll(AppliedAll::Refused(rows)) => {
                for stored in rows.iter_mut().flatten() {
                    self.own_stored(stored);
                }
            }
            Answer::Rows(rows) => {
                for (_, stored) in rows {
                    self.own_stored(stored);
                }
            }
            _ => {}
        }
        answer
    }

    fn own_stored(&self, stored: &mut Stored) {
        if let Stored::Row(row) = stored {
            self.own_row(row);
        }
    }

    fn own_row(&self, row: &mut Row) {
        if let State::Held(held) = &mut row.state
            && let Some((own, _)) = self.ids.iter().find(|(_, known)| *known == held.lease_id)
        {
            held.lease_id = own.clone();
        }
    }
}

pub fn no_answer() -> Error {
    Error::Unavailable {
        problem: "no answer".to_owned(),
        source: None,
    }
}

impl Clock for Seam {
    fn now(&self) -> Timestamp {
        self.get().now.unwrap_or_else(|| names::instant(0))
    }

    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }
}

impl Store for Seam {
    fn name(&self) -> &'static str {
        "from a log"
    }

    async fn apply(&self, at: &Address, change: &Change, _: Duration) -> Result<Applied, Error> {
        match self.ask(Ask::Apply(at.permit, change.clone())).await {
            Answer::Applied(applied) => Ok(applied),
            _ => Err(no_answer()),
        }
    }

    async fn read(&self, at: &Address, _: Duration) -> Result<Stored, Error> {
        match self.ask(Ask::Read(at.permit)).await {
            Answer::Stored(stored) => Ok(stored),
            _ => Err(no_answer()),
        }
    }

    async fn apply_all(&self, all: &[(Address, Change)], _: Duration) -> Result<AppliedAll, Error> {
        let all = all.iter().map(|(at, change)| (at.permit, change.clone()));
        match self.ask(Ask::ApplyAll(all.collect())).await {
            Answer::AppliedAll(applied) => Ok(applied),
            _ => Err(no_answer()),
        }
    }

    async fn read_all(&self, _: &[Address], _: Duration) -> Result<Option<Vec<Stored>>, Error> {
        Err(no_answer())
    }

    async fn read_key(&self, _: &Key, _: Duration) -> Result<Vec<(u16, Stored)>, Error> {
        match self.ask(Ask::ReadKey).await {
            Answer::Rows(rows) => Ok(rows),
            _ => Err(no_answer()),
        }
    }

    async fn join(
        &self,
        _: &Key,
        join: &Join,
        waiter: &Waiter,
        _: Duration,
    ) -> Result<Joined, Error> {
        match self
            .ask(Ask::Join(join.clone(), Item(waiter.clone())))
            .await
        {
            Answer::Joined(joined) => Ok(joined),
            _ => Err(no_answer()),
        }
    }

    async fn waiter(
        &self,
        _: &Key,
        request: &RequestDigest,
        _: Duration,
    ) -> Result<Option<Waiter>, Error> {
        match self.ask(Ask::Waiter(request.clone())).await {
            Answer::Waiter(waiter) => Ok(waiter),
            _ => Err(no_answer()),
        }
    }

    async fn update_task_token(
        &self,
        _: &Key,
        waiter: &Waiter,
        _: Duration,
    ) -> Result<Waiter, Error> {
        match self.ask(Ask::NewToken(Item(waiter.clone()))).await {
            Answer::Waiter(Some(waiter)) => Ok(waiter),
            _ => Err(no_answer()),
        }
    }

    async fn delete_waiter(&self, _: &Key, waiter: &Waiter, _: Duration) -> Result<(), Error> {
        match self.ask(Ask::Delete(Item(waiter.clone()))).await {
            Answer::Done => Ok(()),
            _ => Err(no_answer()),
        }
    }

    async fn supersede_waiter(
        &self,
        _: &Key,
        waiter: &Waiter,
        by: &Holder,
        leave: &Leave,
        _: Duration,
    ) -> Result<Settled, Error> {
        let ask = Ask::Supersede(Item(waiter.clone()), by.clone(), leave.clone());
        match self.ask(ask).await {
            Answer::Settled(settled) => Ok(settled),
            _ => Err(no_answer()),
        }
    }

    async fn put_start(
        &self,
        item: &StartItem,
        repeat: bool,
        _: Duration,
    ) -> Result<PutStart, Error> {
        let item = Box::new(Started(item.clone()));
        match self.ask(Ask::PutStart(item, repeat)).await {
            Answer::PutStart(put) => Ok(put),
            _ => Err(no_answer()),
        }
    }

    async fn start_item(
        &self,
        _: &Key,
        request: &RequestDigest,
        _: Duration,
    ) -> Result<Option<StartItem>, Error> {
        match self.ask(Ask::Start(request.clone())).await {
            Answer::Start(item) => Ok(item),
            _ => Err(no_answer()),
        }
    }

    async fn settle_start(
        &self,
        item: &StartItem,
        settlement: &Settlement,
        with: Option<(&Address, &Change)>,
        _: Duration,
    ) -> Result<Settled, Error> {
        let settling = Box::new(Settling {
            item: item.clone(),
            settlement: settlement.clone(),
            with: with.map(|(at, change)| (at.permit, change.clone())),
        });
        match self.ask(Ask::Settle(settling)).await {
            Answer::Settled(settled) => Ok(settled),
            _ => Err(no_answer()),
        }
    }

    async fn redrivable(
        &self,
        _: &Key,
        request: &RequestDigest,
        _: Duration,
    ) -> Result<Option<Redrivable>, Error> {
        match self.ask(Ask::Noted(request.clone())).await {
            Answer::Noted(noted) => Ok(noted),
            _ => Err(no_answer()),
        }
    }

    async fn note_redrivable(
        &self,
        noted: &Redrivable,
        seen: Option<u64>,
        times: (Timestamp, u64),
        _: Duration,
    ) -> Result<bool, Error> {
        let noted = noted.clone();
        let note = Box::new(Note { noted, seen, times });
        match self.ask(Ask::Note(note)).await {
            Answer::Yes(yes) => Ok(yes),
            _ => Err(no_answer()),
        }
    }

    async fn forget_redrivable(&self, noted: &Redrivable, _: Duration) -> Result<(), Error> {
        let note = Box::new(Note {
            noted: noted.clone(),
            seen: None,
            times: (names::instant(0), 0),
        });
        match self.ask(Ask::ForgetNote(note)).await {
            Answer::Done => Ok(()),
            _ => Err(no_answer()),
        }
    }

    async fn scan_held(
        &self,
        segment: ScanSegment,
        _: Option<&Position>,
        _: u32,
        _: Duration,
    ) -> Result<Page, Error> {
        if segment.segment > 0 {
            return Ok(Page::default());
        }
        match self.ask(Ask::Scan).await {
            Answer::Page(page) => Ok(page),
            _ => Err(no_answer()),
        }
    }

    async fn held_by(
        &self,
        holder: &Holder,
        _: Option<&Position>,
        _: u32,
        _: Duration,
    ) -> Result<Page, Error> {
        match self.ask(Ask::HeldBy(holder.clone())).await {
            Answer::Page(page) => Ok(page),
            _ => Err(no_answer()),
        }
    }

    async fn rules(&self, _: Duration) -> Result<Option<TableRules>, Error> {
        Ok(None)
    }

    async fn publish_rules(&self, _: &TableRules, _: Duration) -> Result<bool, Error> {
        Ok(true)
    }
}

impl Workflows for Seam {
    fn succeed<'a>(
        &'a self,
        (_, token): WaiterOf<'a>,
        output: String,
        _: Duration,
    ) -> Call<'a, Delivery> {
        Box::pin(self.call(Ask::Succeed(token.clone(), output)))
    }

    fn fail<'a>(
        &'a self,
        (_, token): WaiterOf<'a>,
        _: &'a str,
        _: String,
        _: Duration,
    ) -> Call<'a, Delivery> {
        Box::pin(self.call(Ask::Fail(token.clone())))
    }

    fn describe_execution<'a>(&'a self, execution: &'a Holder, _: Duration) -> Call<'a, Execution> {
        Box::pin(async {
            match self.ask(Ask::Describe(execution.clone())).await {
                Answer::Execution(said) => Ok(said),
                _ => Err(no_answer()),
            }
        })
    }

    fn received<'a>(&'a self, (holder, lease, _): GrantOf<'a>, _: Duration) -> Call<'a, Receipt> {
        Box::pin(async {
            match self.ask(Ask::Received(holder.clone(), lease.clone())).await {
                Answer::Receipt(receipt) => Ok(receipt),
                _ => Err(no_answer()),
            }
        })
    }

    fn start_execution<'a>(
        &'a self,
        (machine, name): (&'a StateMachineArn, &'a ExecutionName),
        input: String,
        _: Duration,
    ) -> Call<'a, Begun> {
        let marked = self.get().marked.unwrap_or_else(|| names::instant(0));
        let until = names::tick(marked) + names::CALLS_WITHIN;
        let begin = Ask::Begin(machine.execution(name), input, until);
        Box::pin(async {
            match self.ask(begin).await {
                Answer::Begun(begun) => Ok(begun),
                Answer::Throttled => Err(Error::Throttled {
                    action: "states:StartExecution",
                    resource: String::new(),
                    source: Cause::said("too many"),
                }),
                _ => Err(no_answer()),
            }
        })
    }

    fn execution_input<'a>(
        &'a self,
        execution: &'a Holder,
        _: Duration,
    ) -> Call<'a, Option<String>> {
        Box::pin(async {
            match self.ask(Ask::Input(execution.clone())).await {
                Answer::Input(input) => Ok(input),
                _ => Err(no_answer()),
            }
        })
    }

    fn stop_execution<'a>(
        &'a self,
        execution: &'a Holder,
        _: String,
        _: Duration,
    ) -> Call<'a, bool> {
        Box::pin(async {
            match self.ask(Ask::Stop(execution.clone())).await {
                Answer::Yes(known) => Ok(known),
                _ => Err(no_answer()),
            }
        })
    }

    fn stop_redriven<'a>(
        &'a self,
        execution: &'a Holder,
        cause: String,
        limit: Duration,
    ) -> Call<'a, bool> {
        self.stop_execution(execution, cause, limit)
    }

    fn redrives<'a>(&'a self, execution: &'a Holder, _: Duration) -> Call<'a, Option<Redrives>> {
        Box::pin(async {
            if !self.get().watches {
                return Ok(None);
            }
            match self.ask(Ask::Redrives(execution.clone())).await {
                Answer::Redrives(redrives) => Ok(redrives),
                _ => Err(no_answer()),
            }
        })
    }
}
