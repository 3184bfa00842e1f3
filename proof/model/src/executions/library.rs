//! The library's own functions as steps: a call is what it has been answered so far. What it asks next is found by running
//! it once more, from the beginning, with those answers; and remembered.

use std::{
    fmt::Write as _,
    sync::{Arc, RwLock},
    task::{Context, Poll, Waker},
    time::Duration,
};

use dashmap::DashMap;
use futures_util::FutureExt as _;
use leasehold::{
    Acquire, Acquired, AtLeast, AuditReason, Error, ExtendOptions, ForceReleaseOptions, KeepTime,
    Lease, LeaseId, Leases, Lifetime, LimitedTo, Memory, Operator, Permits, Queue, Reason,
    RequestDigest, Settings, SweepBounds, Timestamp, Ttl, WaitTime,
    row::{Item as Stored, Row},
    store::{Address, Operations as _, ScanSegment, Store as _},
};

use super::{
    names::{self, Tick, Who},
    seam::{Answer, Ask, Seam},
};

pub type CallNo = u32;
pub type NodeNo = u32;
pub type TableNo = u32;
pub type AskNo = u32;
pub type AnswerNo = u32;
pub type LeaseNo = u16;

/// A call of one of the library's functions. No two of a world are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// With a task token: the execution, its request, and which of its tokens.
    Acquire(Who, u8, u8),
    Release(Who, LeaseNo, u8),
    /// An extend of an execution lease.
    Prove(Who, LeaseNo, u8),
    Sweep(u8),
    Reap(Who, u8),
    Evict(u8),
    /// An operator's: a limit of 0, or none.
    Limit(u8, bool),
    /// The program's, for a lease with a deadline.
    Ask(u8),
    Extend(LeaseNo, u8),
    /// By one that may not tell anybody.
    Return(LeaseNo),
}

/// What a call came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// With an error.
    Failed,
    /// The request was spent.
    Consumed,
    Lost,
    Has(LeaseNo, Tick),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Asks(AskNo),
    Ends(Outcome),
}

/// A call under way: what it has been answered, each with the time.
struct Node {
    call: CallNo,
    log: Vec<(Tick, AnswerNo)>,
    next: Next,
}

/// A table as it was at some time.
pub struct Table {
    items: Vec<(String, String, Stored)>,
    /// The first row.
    pub row: Option<Row>,
    /// What each row holds, of the mutex one; the first has the queue.
    pub views: Vec<View>,
}

impl Table {
    pub fn queue(&self) -> &[RequestDigest] {
        self.views.first().map_or(&[], |view| &view.queue)
    }

    pub fn view(&self, permit: usize) -> View {
        self.views.get(permit).cloned().unwrap_or_default()
    }
}

/// What the rest of the model asks about a table.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub holder: Option<Who>,
    pub lease: Option<LeaseNo>,
    pub request: Option<RequestDigest>,
    pub token: u64,
    pub queue: Vec<RequestDigest>,
    pub opens_at: Option<Timestamp>,
    pub limited: bool,
}

pub const EMPTY: TableNo = 0;

/// What a world is like, as far as the library's calls depend on it.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// How long each execution asks to keep its lease for a redrive.
    pub keep: [Tick; 4],
    /// How long it waits in the queue.
    pub wait: Tick,
    /// Only the newest waits.
    pub latest: bool,
    /// How many may have the key at once; none for the mutex.
    pub permits: Option<u16>,
    /// How long the key stays closed after a grant.
    pub at_least: Tick,
}

pub struct Library {
    terms: Terms,
    calls: Numbered<(Call, Tick)>,
    asks: Numbered<Ask>,
    leases: Numbered<LeaseId>,
    handles: DashMap<LeaseNo, Lease>,
    nodes: RwLock<Vec<Arc<Node>>>,
    begun: DashMap<CallNo, NodeNo>,
    children: DashMap<(NodeNo, Tick, AnswerNo), NodeNo>,
    answers: RwLock<Vec<Answer>>,
    answer_numbers: DashMap<String, AnswerNo>,
    tables: RwLock<Vec<Arc<Table>>>,
    table_numbers: DashMap<String, TableNo>,
    effects: DashMap<(TableNo, AskNo), (TableNo, AnswerNo)>,
}

/// Values, each with a number.
struct Numbered<T> {
    all: RwLock<Vec<Arc<T>>>,
    numbers: DashMap<T, u32>,
}

impl<T: Clone + Eq + std::hash::Hash> Numbered<T> {
    fn new() -> Self {
        Self {
            all: RwLock::new(Vec::new()),
            numbers: DashMap::new(),
        }
    }

    fn of(&self, value: &T) -> u32 {
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }
        *self
            .numbers
            .entry(value.clone())
            .or_insert_with(|| push(&self.all, Arc::new(value.clone())))
    }

    fn get(&self, number: u32) -> Arc<T> {
        self.all.read().expect("no thread has panicked")[number as usize].clone()
    }
}

fn push<T>(all: &RwLock<Vec<T>>, value: T) -> u32 {
    let mut all = all.write().expect("no thread has panicked");
    all.push(value);
    u32::try_from(all.len() - 1).expect("fewer than that")
}

impl Library {
    pub fn new(terms: Terms) -> Self {
        let library = Self {
            terms,
            calls: Numbered::new(),
            asks: Numbered::new(),
            leases: Numbered::new(),
            handles: DashMap::new(),
            nodes: RwLock::new(Vec::new()),
            begun: DashMap::new(),
            children: DashMap::new(),
            answers: RwLock::new(Vec::new()),
            answer_numbers: DashMap::new(),
            tables: RwLock::new(Vec::new()),
            table_numbers: DashMap::new(),
            effects: DashMap::new(),
        };
        library.table_no(Vec::new());
        library
    }

    /// How many tables there were, steps of the library's functions, and effects.
    pub fn counts(&self) -> (usize, u64, u64) {
        let nodes = self.nodes.read().map_or(0, |nodes| nodes.len());
        let tables = self.tables.read().map_or(0, |tables| tables.len());
        (tables, nodes as u64, self.effects.len() as u64)
    }

    pub fn begin(&self, call: Call, at: Tick) -> NodeNo {
        let call = self.calls.of(&(call, at));
        *self
            .begun
            .entry(call)
            .or_insert_with(|| self.node(call, Vec::new()))
    }

    /// The same call after one more answer.
    pub fn answered(&self, node: NodeNo, at: Tick, answer: AnswerNo) -> NodeNo {
        if let Some(child) = self.children.get(&(node, at, answer)) {
            return *child;
        }
        let parent = self.at(node);
        let log = [parent.log.clone(), vec![(at, answer)]].concat();
        *self
            .children
            .entry((node, at, answer))
            .or_insert_with(|| self.node(parent.call, log))
    }

    pub fn call(&self, node: NodeNo) -> Call {
        self.calls.get(self.at(node).call).0
    }

    pub fn next(&self, node: NodeNo) -> Next {
        self.at(node).next
    }

    pub fn ask(&self, ask: AskNo) -> Arc<Ask> {
        self.asks.get(ask)
    }

    pub fn ask_no(&self, ask: &Ask) -> AskNo {
        self.asks.of(ask)
    }

    pub fn table(&self, table: TableNo) -> Arc<Table> {
        self.tables.read().expect("no thread has panicked")[table as usize].clone()
    }

    pub fn lease_no(&self, id: &LeaseId) -> LeaseNo {
        LeaseNo::try_from(self.leases.of(id)).expect("fewer than that")
    }

    /// The handle that a task token was answered with.
    pub fn told(&self, output: &str) -> LeaseNo {
        let value: serde_json::Value = serde_json::from_str(output).expect("JSON");
        let lease = serde_json::from_value(value["lease"].clone()).expect("a handle");
        self.has(lease)
    }

    fn has(&self, lease: Lease) -> LeaseNo {
        let number = self.lease_no(&lease.lease_id);
        self.handles.entry(number).or_insert(lease);
        number
    }

    fn handle(&self, lease: LeaseNo) -> Lease {
        self.handles.get(&lease).expect("somebody was told").clone()
    }

    pub fn answer(&self, answer: Answer) -> AnswerNo {
        let text = text_of(&answer);
        *self
            .answer_numbers
            .entry(text)
            .or_insert_with(|| push(&self.answers, answer))
    }

    pub fn answered_with(&self, answer: AnswerNo) -> Answer {
        self.answers.read().expect("no thread has panicked")[answer as usize].clone()
    }

    /// What the table comes to, and what it answers.
    pub fn effect(&self, table: TableNo, ask: AskNo) -> (TableNo, AnswerNo) {
        if let Some(done) = self.effects.get(&(table, ask)) {
            return *done;
        }
        let memory = Memory::new();
        for (pk, sk, item) in &self.table(table).items {
            memory.put_at(pk, sk, item);
        }
        let answer = performed(&memory, &self.ask(ask));
        let done = (self.table_no(memory.all()), self.answer(answer));
        self.effects.insert((table, ask), done);
        done
    }

    fn at(&self, node: NodeNo) -> Arc<Node> {
        self.nodes.read().expect("no thread has panicked")[node as usize].clone()
    }

    fn table_no(&self, items: Vec<(String, String, Stored)>) -> TableNo {
        let text = items
            .iter()
            .map(|(_, sk, item)| format!("{sk} {}\n", text_of_item(item)));
        let text: String = text.collect();
        *self.table_numbers.entry(text).or_insert_with(|| {
            let mut rows = Vec::new();
            for (_, sk, item) in &items {
                let permit = sk
                    .strip_prefix("LEASE#")
                    .and_then(|n| n.parse::<usize>().ok());
                if let Some((permit, row)) = permit.zip(Row::read(item).ok()) {
                    rows.resize(rows.len().max(permit + 1), None);
                    rows[permit] = Some(row);
                }
            }
            let views = rows
                .iter()
                .map(|row| row.as_ref().map(|row| self.view(row)));
            let views = views.map(Option::unwrap_or_default).collect();
            let row = rows.into_iter().next().flatten();
            push(&self.tables, Arc::new(Table { items, row, views }))
        })
    }

    fn view(&self, row: &Row) -> View {
        let held = row.holding();
        View {
            holder: held.map(|_| names::who(&row.granted_to)),
            lease: held.map(|held| self.lease_no(&held.lease_id)),
            request: held.map(|_| row.request.clone()),
            token: row.fencing_token.get(),
            queue: row.waiting().to_vec(),
            opens_at: row.opens_at,
            limited: row.is_limited_to_none(),
        }
    }

    /// Runs a call from its beginning.
    fn node(&self, call: CallNo, log: Vec<(Tick, AnswerNo)>) -> NodeNo {
        let (what, begun) = *self.calls.get(call);
        let answers = self.answers.read().expect("no thread has panicked");
        let given = log
            .iter()
            .map(|(_, answer)| answers[*answer as usize].clone());
        let seam = Seam::new(format!("s{call}"), given.collect());
        drop(answers);
        // Of two calls of one execution the later one has the later time.
        let after = match what {
            Call::Acquire(_, _, token) => Duration::from_millis(token.into()),
            _ => Duration::from_millis(900),
        };
        let mut future = Box::pin(self.run(what, seam.clone()));
        let mut ended = None;
        for allowed in 0..=log.len() {
            let at = allowed.checked_sub(1).map_or(begun, |last| log[last].0);
            {
                let mut log = seam.get();
                log.allowed = allowed;
                log.now = Some(names::instant(at).plus(after));
            }
            let (mut asked, mut still) = (usize::MAX, 0);
            while ended.is_none() && still < 3 {
                if let Poll::Ready(outcome) = future
                    .as_mut()
                    .poll(&mut Context::from_waker(Waker::noop()))
                {
                    ended = Some(outcome);
                }
                let now = seam.get().asked.len();
                still = if now == asked { still + 1 } else { 0 };
                asked = now;
            }
        }
        let next = if let Some(outcome) = ended {
            Next::Ends(outcome)
        } else {
            let ask = seam.get().asked[log.len()].clone();
            Next::Asks(self.asks.of(&ask))
        };
        push(&self.nodes, Arc::new(Node { call, log, next }))
    }

    async fn run(&self, call: Call, seam: Seam) -> Outcome {
        let mut settings = Settings::default();
        settings.clock_margin = Duration::ZERO;
        settings.reap_grace = names::TICK;
        settings.look = names::TICK;
        let leases = Leases::new(seam.clone(), settings).with_clock(Arc::new(seam.clone()));
        let telling = leases.clone().with_workflows(Arc::new(seam.clone()));
        match call {
            Call::Acquire(who, attempt, token) => {
                let keep = self.terms.keep[usize::from(who)];
                let keep = KeepTime::new(length(keep)).expect("short");
                let acquire = Acquire::new(
                    names::key(),
                    names::holder(who),
                    Lifetime::Execution { keep },
                );
                let queue = Queue {
                    task_token: names::token(who, token),
                    wait: WaitTime::new(length(self.terms.wait)).expect("short"),
                    latest: self.terms.latest,
                };
                let mut acquire = acquire.request_id(names::request_id(attempt));
                acquire.at_least = AtLeast::new(length(self.terms.at_least)).expect("short");
                acquire.permits = self.terms.permits.map(|n| Permits::new(n).expect("few"));
                match telling.acquire_queued(acquire, queue).await {
                    Ok(_) => Outcome::Done,
                    Err(Error::Consumed { .. }) => Outcome::Consumed,
                    Err(_) => Outcome::Failed,
                }
            }
            Call::Release(_, lease, _) => or_failed(&telling.release(&self.handle(lease)).await),
            Call::Prove(_, lease, _) => {
                let options = ExtendOptions::default();
                match telling.extend(&self.handle(lease), options).await {
                    Ok(_) => Outcome::Done,
                    Err(Error::Lost { .. }) => Outcome::Lost,
                    Err(_) => Outcome::Failed,
                }
            }
            Call::Sweep(_) => or_failed(&telling.sweep(SweepBounds::Schedule).await),
            Call::Reap(who, _) => or_failed(&telling.reap(&names::holder(who)).await),
            Call::Limit(_, none) => {
                let limit = none.then(|| LimitedTo::new(0).expect("valid"));
                or_failed(&telling.limit_to(&names::key(), limit, &because()).await)
            }
            Call::Evict(_) => {
                let which = ForceReleaseOptions {
                    permit: Some(0),
                    fencing_token: None,
                };
                or_failed(
                    &telling
                        .force_release(&names::key(), which, &because())
                        .await,
                )
            }
            Call::Ask(attempt) => {
                let ttl = Ttl::new(names::TICK).expect("valid");
                let holder = names::holder(names::PROGRAM);
                let acquire = Acquire::new(names::key(), holder, ttl);
                let acquire = acquire.request_id(names::request_id(attempt));
                match leases.acquire(acquire).await {
                    Ok(Acquired::Granted(granted)) => self.until(&seam, granted.lease),
                    Ok(Acquired::Held(_)) => Outcome::Done,
                    Err(_) => Outcome::Failed,
                }
            }
            Call::Extend(lease, _) => {
                let options = ExtendOptions::default();
                match leases.extend(&self.handle(lease), options).await {
                    Ok(extended) => self.until(&seam, extended.into_lease()),
                    Err(Error::Lost { .. }) => Outcome::Lost,
                    Err(_) => Outcome::Failed,
                }
            }
            Call::Return(lease) => or_failed(&leases.release(&self.handle(lease)).await),
        }
    }

    /// A lease with a deadline, and the tick in which nobody believes in it any more.
    fn until(&self, seam: &Seam, mut lease: Lease) -> Outcome {
        lease.lease_id = seam.get().known(&lease.lease_id);
        let until = tick(lease.safe_until());
        Outcome::Has(self.has(lease), until)
    }
}

fn because() -> AuditReason {
    AuditReason {
        who: Operator::new("operator").expect("valid"),
        why: Reason::new("because").expect("valid"),
    }
}

fn or_failed<T>(done: &Result<T, Error>) -> Outcome {
    match done {
        Ok(_) => Outcome::Done,
        Err(_) => Outcome::Failed,
    }
}

fn length(ticks: Tick) -> Duration {
    names::TICK * u32::from(ticks.unsigned_abs())
}

/// The first tick that begins later.
fn tick(at: Timestamp) -> Tick {
    let since = at.since(names::instant(0)).as_secs() / names::TICK.as_secs();
    Tick::try_from(since + 1).expect("soon")
}

fn performed(memory: &Memory, ask: &Ask) -> Answer {
    let limit = Duration::MAX;
    let key = names::key();
    let at = |permit: &u16| Address {
        key: key.clone(),
        permit: *permit,
    };
    let segment = ScanSegment {
        segment: 0,
        total: 1,
    };
    match ask {
        Ask::Apply(permit, change) => {
            at_once(memory.apply(&at(permit), change, limit)).map(Answer::Applied)
        }
        Ask::ApplyAll(changes) => {
            let changes = changes
                .iter()
                .map(|(permit, change)| (at(permit), change.clone()));
            let changes: Vec<_> = changes.collect();
            at_once(memory.apply_all(&changes, limit)).map(Answer::AppliedAll)
        }
        Ask::Read(permit) => at_once(memory.read_row(&at(permit), limit)).map(Answer::Stored),
        Ask::ReadKey => at_once(memory.read_key(&key, limit)).map(Answer::Rows),
        Ask::Join(join, item) => {
            at_once(memory.join(&key, join, &item.0, limit)).map(Answer::Joined)
        }
        Ask::Waiter(request) => at_once(memory.waiter(&key, request, limit)).map(Answer::Waiter),
        Ask::NewToken(item) => at_once(memory.update_task_token(&key, &item.0, limit))
            .map(|waiter| Answer::Waiter(Some(waiter))),
        Ask::Delete(item) => {
            at_once(memory.delete_waiter(&key, &item.0, limit)).map(|()| Answer::Done)
        }
        Ask::Supersede(item, by, leave) => {
            at_once(memory.supersede_waiter(&key, &item.0, by, leave, limit)).map(Answer::Settled)
        }
        Ask::Scan => at_once(memory.scan(segment, None, 100, limit)).map(Answer::Page),
        Ask::HeldBy(holder) => at_once(memory.held_by(holder, None, 100, limit)).map(Answer::Page),
        Ask::Succeed(..) | Ask::Fail(_) | Ask::Describe(_) | Ask::Received(..) => {
            unreachable!("not the table's")
        }
    }
    .unwrap_or(Answer::None)
}

fn at_once<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("nothing to wait for")
}

fn text_of_item(item: &Stored) -> String {
    let mut all: Vec<_> = item.iter().collect();
    all.sort_by_key(|(name, _)| name.as_str());
    all.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = write!(text, "{name}={value:?};");
        text
    })
}

/// An answer in full, secrets included.
fn text_of(answer: &Answer) -> String {
    use leasehold::{
        row::Stored,
        store::{Applied, AppliedAll, Joined},
    };
    let row = |row: &Row| text_of_item(&row.to_item());
    let stored = |stored: &Stored| match stored {
        Stored::Row(it) => row(it),
        other => format!("{other:?}"),
    };
    match answer {
        Answer::Applied(Applied::Done {
            row: it,
            deadline_before,
        }) => format!("done {deadline_before:?} {}", row(it)),
        Answer::Applied(Applied::Refused(it)) => format!("refused {}", stored(it)),
        Answer::Joined(Joined::Refused(it)) => format!("not joined {}", stored(it)),
        Answer::Stored(it) => format!("stored {}", stored(it)),
        Answer::AppliedAll(AppliedAll::Refused(rows)) => {
            let rows = rows
                .iter()
                .map(|it| it.as_ref().map_or("none".to_owned(), stored));
            format!("all refused {}", rows.collect::<Vec<_>>().join(", "))
        }
        Answer::Rows(rows) => {
            let rows = rows
                .iter()
                .map(|(permit, it)| format!("row {permit} {}", stored(it)));
            rows.collect::<Vec<_>>().concat()
        }
        Answer::Waiter(Some(waiter)) => {
            format!("waiter {waiter:?} {}", waiter.task_token.expose())
        }
        other => format!("{other:?}"),
    }
}
