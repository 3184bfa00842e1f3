//! The library's own functions as steps: a call is what it has been answered so far. What it asks next is found by running
//! it once more, from the beginning, with those answers; and remembered. In a walk it goes on from where it stands.

use std::sync::{Arc, Mutex, RwLock};

use dashmap::DashMap;
use leasehold::{
    ExecutionName, Lease, Memory, RequestDigest, StartItem, StartStatus, Timestamp,
    row::{Item as Stored, Row},
    store::{Address, AttributeValue, ItemAddress, Written},
};

use super::{
    calls::{self, Callers, Running},
    effects,
    names::{self, Input, KeyNo, POOL, Tick, Who},
    scope::Scope,
    seam::{Answer, Ask},
};

pub type CallNo = u32;
pub type NodeNo = u32;
pub type TableNo = u32;
pub type AskNo = u32;
pub type AnswerNo = u32;
pub type LeaseNo = u16;
/// A lease as its holder has it: with the permit of the pool, if it has one.
pub type Handle = (LeaseNo, Option<LeaseNo>);

/// A call of one of the library's functions. No two of a world are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// With a task token: the execution, its request, and which of its tokens.
    Acquire(Who, u8, u8),
    Release(Who, Handle, u8),
    /// An acquire that is re-entrant, and the release of its handle; as of a lease of its own, in one broken design.
    Nests(Who, u8, bool),
    /// An extend of an execution lease.
    Prove(Who, Handle, u8),
    Sweep(u8),
    Reap(Who, u8),
    Evict(u8, KeyNo),
    /// An operator's: a limit of 0, or none.
    Limit(u8, KeyNo, bool),
    Freeze(u8, KeyNo, bool),
    /// A program's, for a lease with a deadline: its request, which of its calls, and what it has observed, if it asks by that.
    Ask(Who, u8, u8, Option<u64>),
    Extend(Who, Handle, u8),
    /// By one that may not tell anybody.
    Return(Who, Handle, u8),
    /// A start: of which execution, for the how-manieth time, with which input.
    Start(Who, u8, Input),
    /// What operators do with a start.
    Repeat(Who, u8),
    Dismiss(Who, u8),
    Begin(Who, u8),
    /// What the event that an execution runs again begins.
    Redriven(Who, u8),
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
    Has(Handle, Tick),
    /// Somebody else has the key: the version and the token of that.
    Held(u64, u64),
    /// A start was accepted, and waits or has begun.
    Queued,
    Begun,
    /// It is settled, and nothing has begun.
    Settled,
    /// The same, and it is refused.
    NotStarted,
    /// Its name is another start's.
    AnotherInput,
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
    /// The call itself, if it still stands there.
    stands: Mutex<Option<Running>>,
}

/// A table as it was at some time.
pub struct Table {
    items: Vec<(String, String, Stored)>,
    /// The first row of each key.
    firsts: [Option<Row>; names::KEYS],
    /// What each row of each key holds, of the mutex one; the first has the queue.
    views: [Vec<View>; names::KEYS],
    /// Who is inside the pool, and who waits there: whose grant of a key, and its token.
    pub inside: Vec<(Who, u64)>,
    pub waiting: Vec<(Who, u64)>,
    /// The items of starts: what became of each, and its input.
    pub starts: Vec<(Who, StartStatus, Input)>,
}

impl Table {
    pub fn queue(&self, key: KeyNo) -> &[RequestDigest] {
        self.views(key).first().map_or(&[], |view| &view.queue)
    }

    /// Whether nobody is granted it, or enters it.
    pub fn is_limited(&self, key: KeyNo) -> bool {
        self.row(key).is_some_and(Row::is_limited_to_none)
    }

    /// The first row of the key, which has the queue.
    pub fn row(&self, key: KeyNo) -> Option<&Row> {
        self.firsts[usize::from(key)].as_ref()
    }

    pub fn view(&self, key: KeyNo, permit: usize) -> View {
        self.views(key).get(permit).cloned().unwrap_or_default()
    }

    pub fn views(&self, key: KeyNo) -> &[View] {
        &self.views[usize::from(key)]
    }

    /// Those of all keys, without the pool.
    pub fn of_keys(&self) -> impl Iterator<Item = &View> {
        self.views[..usize::from(POOL)].iter().flatten()
    }

    pub fn start(&self, who: Who) -> Option<(&StartStatus, Input)> {
        let mut starts = self.starts.iter();
        let found = starts.find(|(of, ..)| *of == who);
        found.map(|(_, status, input)| (status, *input))
    }

    /// What this execution has.
    pub fn held_by(&self, who: Who) -> Option<Handle> {
        let mut views = self.of_keys().filter(|view| view.holder == Some(who));
        views.find_map(|view| Some((view.lease?, view.permit)))
    }
}

/// What the rest of the model asks about a table.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub holder: Option<Who>,
    pub lease: Option<LeaseNo>,
    /// The same, if it is in the pool besides.
    pub permit: Option<LeaseNo>,
    pub waits_in_pool: bool,
    pub request: Option<RequestDigest>,
    pub token: u64,
    pub queue: Vec<RequestDigest>,
    pub opens_at: Option<Timestamp>,
    pub limited: bool,
}

impl Call {
    /// The program that has made it, and which of its calls it is.
    pub const fn of_program(self) -> Option<(Who, u8)> {
        match self {
            Self::Ask(who, _, n, _) | Self::Extend(who, _, n) | Self::Return(who, _, n) => {
                Some((who, n))
            }
            _ => None,
        }
    }
}

pub const EMPTY: TableNo = 0;

pub struct Library {
    /// With the time, and whether the table has a floor for tokens.
    calls: Numbered<(Call, Tick, bool)>,
    asks: Numbered<Ask>,
    /// Who calls it, with what handles.
    pub callers: Arc<Callers>,
    /// Whether calls stay where they are, because hardly any of them is answered in two ways.
    is_walked: bool,
    inputs: Numbered<String>,
    nodes: RwLock<Vec<Arc<Node>>>,
    begun: DashMap<CallNo, NodeNo>,
    children: DashMap<(NodeNo, Tick, AnswerNo), NodeNo>,
    answers: RwLock<Vec<Answer>>,
    answer_numbers: DashMap<String, AnswerNo>,
    tables: RwLock<Vec<Arc<Table>>>,
    table_numbers: DashMap<String, TableNo>,
    effects: DashMap<(TableNo, AskNo), (TableNo, AnswerNo)>,
    /// The table of the last effect, in a walk: the next one goes on with it, as a rule.
    at_hand: Mutex<Option<(TableNo, Memory)>>,
}

/// Values, each with a number.
pub struct Numbered<T> {
    all: RwLock<Vec<Arc<T>>>,
    numbers: DashMap<T, u32>,
}

impl<T: Clone + Eq + std::hash::Hash> Numbered<T> {
    pub fn new() -> Self {
        Self {
            all: RwLock::new(Vec::new()),
            numbers: DashMap::new(),
        }
    }

    pub fn of(&self, value: &T) -> u32 {
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }
        *self
            .numbers
            .entry(value.clone())
            .or_insert_with(|| push(&self.all, Arc::new(value.clone())))
    }

    pub fn get(&self, number: u32) -> Arc<T> {
        self.all.read().expect("no thread has panicked")[number as usize].clone()
    }
}

fn push<T>(all: &RwLock<Vec<T>>, value: T) -> u32 {
    let mut all = all.write().expect("no thread has panicked");
    all.push(value);
    u32::try_from(all.len() - 1).expect("fewer than that")
}

impl Library {
    pub fn new(scope: Scope, is_walked: bool) -> Self {
        let library = Self {
            calls: Numbered::new(),
            asks: Numbered::new(),
            callers: Arc::new(Callers::new(scope)),
            is_walked,
            inputs: Numbered::new(),
            nodes: RwLock::new(Vec::new()),
            begun: DashMap::new(),
            children: DashMap::new(),
            answers: RwLock::new(Vec::new()),
            answer_numbers: DashMap::new(),
            tables: RwLock::new(Vec::new()),
            table_numbers: DashMap::new(),
            effects: DashMap::new(),
            at_hand: Mutex::default(),
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

    pub fn begin(&self, call: Call, at: Tick, has_floor: bool) -> NodeNo {
        let call = self.calls.of(&(call, at, has_floor));
        *self
            .begun
            .entry(call)
            .or_insert_with(|| self.node(call, Vec::new(), None))
    }

    /// The same call after one more answer.
    pub fn answered(&self, node: NodeNo, at: Tick, answer: AnswerNo) -> NodeNo {
        if let Some(child) = self.children.get(&(node, at, answer)) {
            return *child;
        }
        let parent = self.at(node);
        let log = [parent.log.clone(), vec![(at, answer)]].concat();
        let stands = parent.stands.lock().expect("no thread has panicked").take();
        *self
            .children
            .entry((node, at, answer))
            .or_insert_with(|| self.node(parent.call, log, stands))
    }

    pub fn call(&self, node: NodeNo) -> Call {
        self.calls.get(self.at(node).call).0
    }

    /// When this call began, by its own clock.
    pub fn begun(&self, node: NodeNo) -> Tick {
        self.calls.get(self.at(node).call).1
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

    /// The handle that a task token was answered with.
    pub fn told(&self, output: &str) -> (Handle, Tick) {
        let value: serde_json::Value = serde_json::from_str(output).expect("JSON");
        let lease: Lease = serde_json::from_value(value["lease"].clone()).expect("a handle");
        let until = lease
            .ttl()
            .map_or(Tick::MAX, |_| calls::tick(lease.safe_until()));
        (self.callers.has(lease), until)
    }

    /// The handle in the input of an execution that was started, if it is passed.
    pub fn passed(&self, input: &str) -> Option<Handle> {
        let value: serde_json::Value = serde_json::from_str(input).expect("JSON");
        let lease = value.get("leasehold")?["lease"].clone();
        Some(
            self.callers
                .has(serde_json::from_value(lease).expect("a handle")),
        )
    }

    /// The input of an execution, with what was passed in it.
    pub fn input_no(&self, input: &str) -> u32 {
        self.inputs.of(&input.to_owned())
    }

    pub fn input(&self, number: u32) -> String {
        self.inputs.get(number).to_string()
    }

    pub fn answer(&self, answer: Answer) -> AnswerNo {
        let text = effects::text_of(&answer);
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
        let at_hand = self.at_hand.lock().expect("no thread has panicked").take();
        let memory = match at_hand {
            Some((at_hand, memory)) if at_hand == table => memory,
            _ => self.in_memory(table),
        };
        let answer = effects::performed(&memory, &self.ask(ask));
        let is_changed = matches!(answer, Answer::Written(Written::Done(_)));
        let after = if is_changed {
            self.table_no(memory.all())
        } else {
            table
        };
        if self.is_walked {
            *self.at_hand.lock().expect("no thread has panicked") = Some((after, memory));
        }
        let done = (after, self.answer(answer));
        self.effects.insert((table, ask), done);
        done
    }

    fn in_memory(&self, table: TableNo) -> Memory {
        let memory = Memory::new();
        for (pk, sk, item) in &self.table(table).items {
            memory.put_at(pk, sk, item);
        }
        memory
    }

    /// The same without what is not ours.
    pub fn without_strangers(&self, table: TableNo) -> TableNo {
        let mut items = self.table(table).items.clone();
        items.retain(|(_, _, item)| !item.contains_key("owner"));
        self.table_no(items)
    }

    /// All rows are gone.
    pub fn without_rows(&self, table: TableNo) -> TableNo {
        let mut items = self.table(table).items.clone();
        items.retain(|(_, sk, _)| !sk.starts_with("LEASE#"));
        self.table_no(items)
    }

    /// A table with an item that is not ours in the place of the row.
    pub fn strange(&self) -> TableNo {
        let row = Address {
            key: names::key(0),
            permit: 0,
        };
        let (pk, sk) = ItemAddress::Row(row).keys();
        let stranger = AttributeValue::S("somebody else's".to_owned());
        let item = Stored::from([("owner".to_owned(), stranger)]);
        self.table_no(vec![(pk, sk, item)])
    }

    /// Who is last in the queue of this row is first.
    pub fn with_last_first(&self, table: TableNo, at: &Address) -> TableNo {
        let (pk, sk) = ItemAddress::Row(at.clone()).keys();
        let mut items = self.table(table).items.clone();
        for (_, _, item) in items.iter_mut().filter(|it| (&it.0, &it.1) == (&pk, &sk)) {
            if let Ok(mut row) = Row::read(item) {
                row.queue.rotate_right(1);
                *item = row.to_item();
            }
        }
        self.table_no(items)
    }

    /// The items of waiters among these are gone.
    pub fn without_items(&self, table: TableNo, read: &[ItemAddress]) -> TableNo {
        let waiters = read
            .iter()
            .filter(|it| matches!(it, ItemAddress::Waiter(..)));
        let gone: Vec<_> = waiters.map(|it| it.clone().keys()).collect();
        let mut items = self.table(table).items.clone();
        items.retain(|(pk, sk, _)| !gone.contains(&(pk.clone(), sk.clone())));
        self.table_no(items)
    }

    /// The item of a start is gone.
    pub fn deleted(&self, table: TableNo, name: &ExecutionName) -> TableNo {
        self.table_no(self.without(table, name))
    }

    /// The item of the task that waits for a start is gone.
    pub fn without_task(&self, table: TableNo, who: Who) -> TableNo {
        let (key, request) = (self.callers.key_of(who), names::request(who, names::START));
        let (pk, sk) = ItemAddress::Result(key, request).keys();
        let mut items = self.table(table).items.clone();
        items.retain(|item| (&item.0, &item.1) != (&pk, &sk));
        self.table_no(items)
    }

    fn without(&self, table: TableNo, name: &ExecutionName) -> Vec<(String, String, Stored)> {
        let gone = |item: &Stored| StartItem::read(item).is_some_and(|item| item.name == *name);
        let mut items = self.table(table).items.clone();
        items.retain(|(_, _, item)| !gone(item));
        items
    }

    /// Days later: the item of a start is gone, and the rows have forgotten it.
    pub fn purged(&self, table: TableNo, who: Who) -> TableNo {
        let mut items = self.without(table, &names::name(who));
        for (_, _, item) in &mut items {
            if let Ok(row) = Row::read(item) {
                let request = match row.holding() {
                    Some(_) => row.request.clone(),
                    None => names::nobody(),
                };
                let past_requests = [None, None, None];
                *item = Row {
                    request,
                    past_requests,
                    ..row
                }
                .to_item();
            }
        }
        self.table_no(items)
    }

    fn at(&self, node: NodeNo) -> Arc<Node> {
        self.nodes.read().expect("no thread has panicked")[node as usize].clone()
    }

    fn table_no(&self, items: Vec<(String, String, Stored)>) -> TableNo {
        let text = items
            .iter()
            .map(|(pk, sk, item)| format!("{pk} {sk} {}\n", effects::text_of_item(item)));
        let text: String = text.collect();
        *self.table_numbers.entry(text).or_insert_with(|| {
            let (mut firsts, mut views) = (
                [const { None }; names::KEYS],
                [const { Vec::new() }; names::KEYS],
            );
            for (pk, sk, item) in &items {
                let permit = sk
                    .strip_prefix("LEASE#")
                    .and_then(|n| n.parse::<usize>().ok());
                if let (Some(key), Some(permit), Ok(row)) =
                    (names::which(pk), permit, Row::read(item))
                {
                    let views: &mut Vec<View> = &mut views[usize::from(key)];
                    views.resize(views.len().max(permit + 1), View::default());
                    views[permit] = self.view(&row, u16::try_from(permit).unwrap_or(u16::MAX));
                    if permit == 0 {
                        firsts[usize::from(key)] = Some(row);
                    }
                }
            }
            let starts = items.iter().filter_map(|(_, _, item)| {
                let item = StartItem::read(item)?;
                let input = names::of_input(item.input.as_str());
                Some((names::who(&item.execution()), item.status, input))
            });
            let starts = starts.collect();
            let pool = firsts[usize::from(POOL)].as_ref();
            let entries = pool.and_then(|row| row.entries.as_deref().cloned());
            let entries = entries.unwrap_or_default();
            // Each place shows the grant of a key that is in it.
            views[usize::from(POOL)] = Vec::new();
            for (place, entry) in &entries.inside {
                let of_key = names::which(entry.key.as_str()).map(usize::from);
                let view = of_key.and_then(|key| views[key].get(usize::from(entry.permit)));
                let lasts = |view: &&View| view.token == entry.fencing_token.get();
                let view = view.filter(lasts).filter(|view| view.permit.is_some());
                let shown = view.cloned().unwrap_or_default();
                let places: &mut Vec<View> = &mut views[usize::from(POOL)];
                let place = usize::from(*place);
                places.resize(places.len().max(place + 1), View::default());
                places[place] = shown;
            }
            let table = Table {
                items,
                firsts,
                views,
                inside: entries.inside.values().filter_map(names::entry).collect(),
                waiting: entries.waiting.iter().filter_map(names::entry).collect(),
                starts,
            };
            push(&self.tables, Arc::new(table))
        })
    }

    fn view(&self, row: &Row, permit: u16) -> View {
        let held = row.holding();
        let pool = held.and_then(|held| held.pool.as_ref());
        let lease = held.map(|held| {
            self.callers
                .lease_no(&held.lease_id, row.fencing_token, permit)
        });
        View {
            holder: held.map(|_| names::who(&row.granted_to)),
            lease,
            permit: lease.filter(|_| pool.is_some_and(|pool| pool.entered)),
            waits_in_pool: pool.is_some_and(|pool| !pool.entered),
            request: held.map(|_| row.request.clone()),
            token: row.fencing_token.get(),
            queue: row.waiting().to_vec(),
            opens_at: row.opens_at,
            limited: row.is_limited_to_none() || row.frozen.is_some(),
        }
    }

    /// A call after this many answers: it goes on, if it stands there still; or it runs once more, from its beginning.
    fn node(&self, call: CallNo, log: Vec<(Tick, AnswerNo)>, stands: Option<Running>) -> NodeNo {
        let answered = |running: &mut Running, (at, answer): (Tick, AnswerNo)| {
            running.answered(at, self.answered_with(answer))
        };
        let (running, next) = if let (Some(mut running), Some(last)) = (stands, log.last()) {
            let next = answered(&mut running, *last);
            (running, next)
        } else {
            let (mut running, mut next) =
                Running::begin(&self.callers, call, *self.calls.get(call));
            for given in &log {
                next = answered(&mut running, *given);
            }
            (running, next)
        };
        let stands = Mutex::new(Some(running).filter(|_| self.is_walked && next.is_ok()));
        let next = match next {
            Ok(ask) => Next::Asks(self.asks.of(&ask)),
            Err(outcome) => Next::Ends(outcome),
        };
        push(
            &self.nodes,
            Arc::new(Node {
                call,
                log,
                next,
                stands,
            }),
        )
    }
}
