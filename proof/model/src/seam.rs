//! What the library's functions ask for, one request at a time: the table and Step Functions are answered from a log.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};

use leasehold::{
    Answer as Reply, Begun, Call, Cause, Clock, Delivery, Engine, Error, Execution, Holder, Key,
    LeaseId, Outcome, Question, Receipt, Redrives, StopFor, TaskToken, Timestamp,
    row::State,
    store::{
        AttributeValue, ItemAddress, Page, Position, ScanSegment, Slot, Store, Stored, Write,
        Written,
    },
    transition::Change,
};

use super::names::{self, Tick};

/// A request to the table or to Step Functions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    Write(Vec<Write>),
    Read(Vec<ItemAddress>),
    ReadKey(Key),
    Scan,
    HeldBy(Holder),
    Succeed(TaskToken, String),
    /// With the name of the error.
    Fail(TaskToken, String),
    /// Whether a task waits with it.
    Waits(TaskToken),
    Describe(Holder),
    Received(Holder, LeaseId),
    /// `StartExecution`, which its sender calls in this tick at the latest.
    Begin(Holder, String, Tick),
    Input(Holder),
    /// Its input too.
    Outcome(Holder),
    Stop(Holder, StopFor),
    Redrives(Holder),
}

impl Ask {
    /// Whether it changes anything, so that it matters whether it took effect.
    pub const fn acts(&self) -> bool {
        matches!(self, Self::Write(_)) || self.calls()
    }

    /// The same of a call of Step Functions.
    pub const fn calls(&self) -> bool {
        matches!(
            self,
            Self::Succeed(..) | Self::Fail(..) | Self::Begin(..) | Self::Stop(..)
        )
    }

    /// What it writes; nothing if it does not.
    pub fn writes(&self) -> &[Write] {
        match self {
            Self::Write(writes) => writes,
            _ => &[],
        }
    }

    /// The change of one row, and of nothing else.
    pub fn row(&self) -> Option<(u16, &Change)> {
        match self.writes() {
            [Write::Row(at, change)] => Some((at.permit, change)),
            _ => None,
        }
    }

    /// The same change of the first row, to be changed on its way.
    pub fn first_row_mut(&mut self) -> Option<&mut Change> {
        match self {
            Self::Write(writes) => match &mut writes[..] {
                [Write::Row(at, change)] if at.permit == 0 => Some(change),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The answer to an [`Ask`].
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Written(Written),
    Slots(Vec<Slot>),
    Rows(Vec<(u16, Stored)>),
    Page(Page),
    Yes(bool),
    Delivery(Delivery),
    Execution(Execution),
    Receipt(Receipt),
    Begun(Begun),
    Input(Option<String>),
    Outcome(Outcome),
    Redrives(Option<Redrives>),
    Throttled,
    Denied,
    /// None came.
    None,
}

/// The log of one call of the library, and what it has asked for so far.
#[derive(Default)]
pub struct Log {
    pub answers: Vec<Answer>,
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
    pub fn new(name: String, watches: bool) -> Self {
        let log = Log {
            name,
            watches,
            ..Log::default()
        };
        Self(Arc::new(Mutex::new(log)))
    }

    pub fn get(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, ask: Ask) -> Answer {
        let number = {
            let mut log = self.get();
            let ask = log.known_to_all(ask);
            log.asked.push(ask);
            log.asked.len() - 1
        };
        poll_fn(|context| {
            let log = self.get();
            if let Some(answer) = log.answers.get(number) {
                return Poll::Ready(log.own(answer.clone()));
            }
            // Of several that go on side by side another one may be answered next.
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await
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
            Ask::Write(writes) => {
                for write in writes {
                    if let Write::Row(_, change) = write {
                        self.known_in(change);
                    }
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
                    self.marked = held
                        .notification
                        .map(|notification| notification.at)
                        .or(self.marked);
                }
                // What was never granted is anybody's guess.
                let request = &swap.row.request;
                if names::whose(request).is_none() {
                    swap.row.request = names::nobody();
                }
            }
            Change::Release(release) => release.lease_id = self.known(&release.lease_id),
            Change::Prove(prove) => prove.lease_id = self.known(&prove.lease_id),
            _ => {}
        }
    }

    /// An answer, with the lease ids as this run drew them.
    fn own(&self, mut answer: Answer) -> Answer {
        match &mut answer {
            Answer::Written(Written::Done(slot)) => self.own_slot(slot),
            Answer::Written(Written::Refused(parts)) => {
                for slot in parts.iter_mut().flatten() {
                    self.own_slot(slot);
                }
            }
            Answer::Slots(slots) => {
                for slot in slots {
                    self.own_slot(slot);
                }
            }
            Answer::Rows(rows) => {
                for (_, stored) in rows {
                    if let Stored::Row(row) = stored
                        && let State::Held(held) = &mut row.state
                        && let Some(own) = self.own_id(held.lease_id.expose())
                    {
                        held.lease_id = own.clone();
                    }
                }
            }
            _ => {}
        }
        answer
    }

    fn own_id(&self, known: &str) -> Option<&LeaseId> {
        let mut ids = self.ids.iter();
        let own = ids.find(|(_, other)| other.expose() == known);
        own.map(|(own, _)| own)
    }

    fn own_slot(&self, slot: &mut Slot) {
        let known = slot
            .item()
            .and_then(|item| item.get("lease_id")?.as_s().ok());
        if let Some(own) = known.and_then(|known| self.own_id(known)) {
            let own = AttributeValue::S(own.expose().to_owned());
            with(slot, "lease_id", own);
        }
    }
}

/// Another value of an attribute.
pub fn with(slot: &mut Slot, name: &str, value: AttributeValue) {
    if let Some(mut item) = std::mem::take(slot).into_item() {
        item.insert(name.to_owned(), value);
        *slot = Slot::of(Some(item));
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

    async fn write(&self, writes: &[Write], _: Duration) -> Result<Written, Error> {
        // The table's rules do not change here.
        if let [Write::Rules(_)] = writes {
            return Ok(Written::Done(Slot::EMPTY));
        }
        match self.answer(Ask::Write(writes.to_vec())).await {
            Answer::Written(written) => Ok(written),
            _ => Err(no_answer()),
        }
    }

    async fn read(&self, items: &[ItemAddress], _: Duration) -> Result<Option<Vec<Slot>>, Error> {
        if let [ItemAddress::Rules] = items {
            return Ok(Some(vec![Slot::EMPTY]));
        }
        match self.answer(Ask::Read(items.to_vec())).await {
            Answer::Slots(slots) => Ok(Some(slots)),
            _ => Err(no_answer()),
        }
    }

    async fn read_key(&self, key: &Key, _: Duration) -> Result<Vec<(u16, Stored)>, Error> {
        match self.answer(Ask::ReadKey(key.clone())).await {
            Answer::Rows(rows) => Ok(rows),
            _ => Err(no_answer()),
        }
    }

    async fn scan(
        &self,
        segment: ScanSegment,
        _: Option<&Position>,
        _: u32,
        _: Duration,
    ) -> Result<Page, Error> {
        if segment.segment > 0 {
            return Ok(Page::default());
        }
        match self.answer(Ask::Scan).await {
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
        match self.answer(Ask::HeldBy(holder.clone())).await {
            Answer::Page(page) => Ok(page),
            _ => Err(no_answer()),
        }
    }
}

impl Engine for Seam {
    fn ask(&self, question: Question, _: Duration) -> Call<'_, Reply> {
        Box::pin(async move {
            let ask = match question {
                Question::Succeed(_, token, output) => Ask::Succeed(token, output),
                Question::Fail(_, token, failure) => Ask::Fail(token, failure.error),
                Question::Waits(_, token) => Ask::Waits(token),
                Question::Describe(execution) => Ask::Describe(execution),
                Question::Received(holder, lease, _) => Ask::Received(holder, lease),
                Question::Start(machine, name, input) => {
                    let marked = self.get().marked.unwrap_or_else(|| names::instant(0));
                    let until = names::tick(marked) + names::CALLS_WITHIN;
                    Ask::Begin(machine.execution(&name), input, until)
                }
                Question::Input(execution) => Ask::Input(execution),
                Question::Outcome(execution) => Ask::Outcome(execution),
                Question::Stop(execution, _, why) => Ask::Stop(execution, why),
                Question::Redrives(execution) if self.get().watches => Ask::Redrives(execution),
                other => return other.unknown(),
            };
            Ok(match self.answer(ask).await {
                Answer::Yes(yes) => yes.into(),
                Answer::Delivery(delivery) => delivery.into(),
                Answer::Execution(said) => said.into(),
                Answer::Receipt(receipt) => receipt.into(),
                Answer::Begun(begun) => begun.into(),
                Answer::Input(input) => input.into(),
                Answer::Outcome(said) => said.into(),
                Answer::Redrives(redrives) => redrives.into(),
                Answer::Denied => {
                    return Err(Error::Denied {
                        action: "states",
                        resource: String::new(),
                        source: Cause::said("not allowed"),
                    });
                }
                Answer::Throttled => {
                    return Err(Error::Throttled {
                        action: "states:StartExecution",
                        resource: String::new(),
                        source: Cause::said("too many"),
                    });
                }
                _ => return Err(no_answer()),
            })
        })
    }
}
