//! A conditional write of one item: where it goes, under which condition, and what it leaves there.
//!
//! The memory store runs [`Write::after`]. The DynamoDB store expresses the same rule as text.

use aws_sdk_dynamodb::types::AttributeValue;

use super::{Address, Settlement};
use crate::{
    clock::Timestamp,
    redrivable::Redrivable,
    row::attributes as at,
    row::{Item, Stored, b, instant, n, s, whole},
    rules::TableRules,
    start::{FAILED, ResultItem, StartItem},
    transition::{Change, transition},
    values::{Holder, Key, RequestDigest, TaskToken},
    waiter::TokenItem,
};

/// Where an item of the table is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ItemAddress {
    /// A lease row.
    Row(Address),
    /// The item of a waiter with a task token.
    Waiter(Key, RequestDigest),
    /// The item of a start.
    Start(Key, RequestDigest),
    /// The item of an execution whose lease has ended and that may be redriven.
    Redrivable(Key, RequestDigest),
    /// The item of a task that waits for the result of a start.
    Result(Key, RequestDigest),
    /// What the index has of it under the execution with whose end the started one is stopped.
    Called(Key, RequestDigest),
    /// The rules of the table.
    Rules,
}

impl ItemAddress {
    /// That of the item at these two keys; none if this library writes none there.
    #[must_use]
    pub fn of(pk: &str, sk: &str) -> Option<Self> {
        if let Some(key) = at::key_of_start(pk) {
            let start = at::start_of(sk).map(|request| Self::Start(key.clone(), request));
            let start = start.or_else(|| Some(Self::Redrivable(key.clone(), at::ended_of(sk)?)));
            let start = start.or_else(|| Some(Self::Called(key.clone(), at::called_of(sk)?)));
            return start.or_else(|| Some(Self::Result(key, at::result_of(sk)?)));
        }
        let key = Key::of_row(pk)?;
        match at::permit_of(sk) {
            Some(permit) => Some(Self::Row(Address { key, permit })),
            None => Some(Self::Waiter(key, at::request_of(sk)?)),
        }
    }

    /// The partition key and the sort key.
    #[must_use]
    pub fn keys(&self) -> (String, String) {
        match self {
            Self::Row(row) => (row.key.as_str().to_owned(), at::lease_sk(row.permit)),
            Self::Waiter(key, request) => (key.as_str().to_owned(), at::wait_sk(request)),
            Self::Start(key, request) => StartItem::address(key, request),
            Self::Redrivable(key, request) => Redrivable::address(key, request),
            Self::Result(key, request) => ResultItem::address(key, request),
            Self::Called(key, request) => (at::start_pk(key), at::called_sk(request)),
            Self::Rules => (TableRules::PK.to_owned(), TableRules::SK.to_owned()),
        }
    }

    /// The key that it belongs to; none for the rules.
    #[must_use]
    pub const fn key(&self) -> Option<&Key> {
        match self {
            Self::Row(row) => Some(&row.key),
            Self::Waiter(key, _)
            | Self::Start(key, _)
            | Self::Redrivable(key, _)
            | Self::Result(key, _)
            | Self::Called(key, _) => Some(key),
            Self::Rules => None,
        }
    }
}

/// What is stored at an address: an item, or nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slot(Option<Item>);

impl Slot {
    /// One without an item.
    pub const EMPTY: Self = Self(None);

    /// The item that a table returned. Some return an empty one where there is none.
    #[must_use]
    pub fn of(item: Option<Item>) -> Self {
        Self(item.filter(|item| !item.is_empty()))
    }

    /// The item.
    #[must_use]
    pub const fn item(&self) -> Option<&Item> {
        self.0.as_ref()
    }

    /// The same, to keep.
    #[must_use]
    pub fn into_item(self) -> Option<Item> {
        self.0
    }

    pub(crate) fn row(&self) -> Stored {
        Stored::read(self.item())
    }

    pub(crate) fn read<T>(&self, read: impl Fn(&Item) -> Option<T>) -> Option<T> {
        self.item().and_then(read)
    }
}

/// A conditional write of one item. One that has happened and is sent again changes nothing more, or is refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    /// Changes a lease row as [`transition`] says, or requires something of it.
    Row(Address, Change),
    /// Stores a waiter that joins the queue, if its item has this token, or there is none. The item of an earlier wait is replaced.
    Wait(Key, TokenItem, Option<TaskToken>),
    /// Stores the token of a waiter that asks again, if its item has this token, or there is none. Everything else of an existing
    /// item stays, because the place in the queue belongs to the first call.
    NewToken(Key, TokenItem, Option<TaskToken>),
    /// Deletes a waiter, if its token is still the one that was read. Of one that was superseded a note stays, which no
    /// index has.
    Forget(Key, TokenItem),
    /// Notes in a waiter's item that this one came later, if its token is still the one that was read. From then on no copy of its
    /// request stores a token.
    Supersede(Key, TokenItem, Holder),
    /// Stores a start, if there is none under its name.
    Start(StartItem),
    /// Stores a start that waits in the place of the same as it was read, which has failed, or waits without a place.
    Restart(StartItem, Box<StartItem>),
    /// Settles a start that waits, or dismisses one that has failed: the one that was read, and not one that was stored anew
    /// since. That its execution has begun is written whatever became of it before.
    Settle(StartItem, Settlement),
    /// Notes an execution that may be redriven, if the note's version is the one that was seen, or if none was seen and there
    /// is none.
    Note(Note),
    /// Deletes such a note, if its version is still the same.
    ForgetNote(Redrivable),
    /// Stores a task that waits for the result of a start, in the place of none, or of the token that was read.
    Result(AwaitedResult),
    /// Writes down when to look at it next, if its token is still the one that was read.
    LookAtResult(AwaitedResult),
    /// Deletes it, if its token is still the one that was read.
    ForgetResult(ResultItem),
    /// Lists such a task under its caller, together with [`Write::Result`].
    Called(ResultItem, Holder),
    /// Takes it off that list, unless another caller has asked since.
    ForgetCalled(ResultItem, Holder),
    /// Publishes the table's rules, unless that would lower the token floor.
    Rules(TableRules),
}

/// See [`Write::Note`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// The execution.
    pub noted: Redrivable,
    /// The version that was seen; none if there was no note.
    pub seen: Option<u64>,
    /// When sweep looks at it next.
    pub look_at: Timestamp,
    /// When DynamoDB may delete it, in epoch seconds.
    pub purge_at: u64,
}

/// See [`Write::Result`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AwaitedResult {
    /// The task.
    pub item: ResultItem,
    /// When sweep looks at it next.
    pub look_at: Timestamp,
    /// When DynamoDB may delete it, in epoch seconds.
    pub purge_at: u64,
    /// The token in whose place it is stored, as that was read; none if there was none.
    pub instead_of: Option<TaskToken>,
}

impl Write {
    /// Where.
    #[must_use]
    pub fn address(&self) -> ItemAddress {
        match self {
            Self::Row(address, _) => ItemAddress::Row(address.clone()),
            Self::Wait(key, waiter, _)
            | Self::NewToken(key, waiter, _)
            | Self::Forget(key, waiter)
            | Self::Supersede(key, waiter, _) => {
                ItemAddress::Waiter(key.clone(), waiter.request.digest.clone())
            }
            Self::Start(item) | Self::Restart(item, _) | Self::Settle(item, _) => {
                ItemAddress::Start(item.key.clone(), item.digest())
            }
            Self::Note(Note { noted, .. }) | Self::ForgetNote(noted) => {
                ItemAddress::Redrivable(noted.key.clone(), noted.request())
            }
            Self::Result(AwaitedResult { item, .. })
            | Self::LookAtResult(AwaitedResult { item, .. })
            | Self::ForgetResult(item) => ItemAddress::Result(item.key.clone(), item.request()),
            Self::Called(item, _) | Self::ForgetCalled(item, _) => {
                ItemAddress::Called(item.key.clone(), item.request())
            }
            Self::Rules(_) => ItemAddress::Rules,
        }
    }

    /// What is stored afterwards; none if the condition refuses the write.
    #[must_use]
    pub fn after(&self, before: &Slot) -> Option<Slot> {
        let plan = match self.plan() {
            Plan::Row(change) => {
                let row = transition(&before.row(), change)?;
                return Some(Slot(Some(row.to_item())));
            }
            Plan::Item(plan) => plan,
        };
        plan.holds_for(before).then(|| match plan.effect {
            Effect::Delete => Slot::EMPTY,
            Effect::Update(update) => {
                let (pk, sk) = self.address().keys();
                let address = [(at::PK, s(&pk)), (at::SK, s(&sk))];
                let mut item = before.item().cloned().unwrap_or_default();
                for (name, value) in address.into_iter().chain(update.set) {
                    item.insert(name.to_owned(), value);
                }
                for name in update.remove {
                    item.remove(name);
                }
                Slot(Some(item))
            }
        })
    }

    /// Whether it writes nothing, and only requires something.
    pub(super) const fn is_check(&self) -> bool {
        matches!(self, Self::Row(_, Change::CheckHeld(_)))
    }

    /// Whether no item is left.
    pub(super) fn deletes(&self) -> bool {
        matches!(
            self.plan(),
            Plan::Item(ItemPlan {
                effect: Effect::Delete,
                ..
            })
        )
    }

    pub(super) fn plan(&self) -> Plan<'_> {
        Plan::Item(match self {
            Self::Row(_, change) => return Plan::Row(change),
            Self::Wait(_, waiter, None) | Self::NewToken(_, waiter, None) => {
                if_all(vec![Test::Absent], set_all(waiter.attributes()))
            }
            Self::Wait(_, waiter, Some(read)) => {
                let same = |(name, _): &(_, _)| [at::HOLDER, at::REQUEST].contains(name);
                let mut set = waiter.attributes();
                set.retain(|one| !same(one));
                if_all(if_read(waiter, read), set_all(set))
            }
            Self::NewToken(_, waiter, Some(read)) => {
                let token = (at::TASK_TOKEN, s(waiter.task_token.expose()));
                if_all(if_read(waiter, read), set_all(vec![token]))
            }
            Self::Forget(_, waiter) if waiter.superseded_by.is_some() => {
                let remove = vec![at::HOLDER, at::SWEEP_AFTER, at::TASK_TOKEN];
                if_token_is(waiter, set_and_remove(Vec::new(), remove))
            }
            Self::Forget(_, waiter) => if_token_is(waiter, Effect::Delete),
            Self::Supersede(_, waiter, by) => {
                let set = vec![(at::SUPERSEDED_BY, s(by.as_str()))];
                if_token_is(waiter, set_all(set))
            }
            Self::Start(item) => if_all(vec![Test::Absent], set_all(item.attributes())),
            Self::Restart(item, read) => {
                let effect = set_and_remove(item.attributes(), vec![at::REASON, at::PURGE_AT]);
                if_all(as_read(read, read.status.word()), effect)
            }
            Self::Settle(item, settlement) => settling(item, settlement),
            Self::Note(note) => {
                let as_seen = match note.seen {
                    Some(version) => Test::Is(at::VERSION, n(version)),
                    None => Test::Absent,
                };
                let set = note.noted.attributes((note.look_at, note.purge_at));
                // What an earlier end knew is not left beside what this one does not know.
                let optional = [at::REDRIVES, at::POOL, at::POOL_PERMITS].into_iter();
                let is_set = |name: &&str| set.iter().any(|(set, _)| set == name);
                let remove = optional.filter(|name| !is_set(name)).collect();
                if_all(vec![as_seen], set_and_remove(set, remove))
            }
            Self::ForgetNote(noted) => {
                let same = Test::Is(at::VERSION, n(noted.version));
                if_all(vec![same], Effect::Delete)
            }
            Self::Result(AwaitedResult {
                item,
                look_at,
                purge_at,
                instead_of,
            }) => {
                let (mut set, remove) = item.asked();
                set.extend(ResultItem::looks((*look_at, *purge_at)));
                let as_read = token_as_read(instead_of.as_ref());
                if_all(vec![as_read], set_and_remove(set, remove))
            }
            Self::LookAtResult(AwaitedResult {
                item,
                look_at,
                purge_at,
                instead_of: _,
            }) => {
                let mut set = Vec::from(ResultItem::looks((*look_at, *purge_at)));
                let remove = match item.missing_since {
                    Some(since) => {
                        set.push((at::MISSING_SINCE, instant(since)));
                        Vec::new()
                    }
                    None => vec![at::MISSING_SINCE],
                };
                if_all(vec![same_task(item)], set_and_remove(set, remove))
            }
            Self::ForgetResult(item) => if_all(vec![same_task(item)], Effect::Delete),
            // The task beside it says whether.
            Self::Called(item, caller) => ItemPlan {
                any_of: vec![vec![Test::Absent], vec![Test::Has(at::HOLDER)]],
                effect: set_all(item.called(caller)),
            },
            Self::ForgetCalled(_, caller) => ItemPlan {
                any_of: vec![
                    vec![Test::Absent],
                    vec![Test::Is(at::HOLDER, s(caller.as_str()))],
                ],
                effect: Effect::Delete,
            },
            Self::Rules(rules) => {
                let floor = TableRules::TOKEN_FLOOR;
                let not_above = Test::AtMost(floor, rules.token_floor.get());
                ItemPlan {
                    any_of: vec![vec![Test::Lacks(floor)], vec![not_above]],
                    effect: set_all(rules.attributes().into()),
                }
            }
        })
    }
}

/// A write, ready to be carried out or to be expressed as text.
pub(super) enum Plan<'a> {
    /// Of a row.
    Row(&'a Change),
    /// Of any other item.
    Item(ItemPlan),
}

/// When an item that is no row is written, and what is written.
pub(super) struct ItemPlan {
    /// All tests of one of these.
    pub(super) any_of: Vec<Vec<Test>>,
    pub(super) effect: Effect,
}

pub(super) enum Effect {
    Update(Update),
    Delete,
}

/// What of an item changes; everything else stays.
pub(super) struct Update {
    pub(super) set: Vec<(&'static str, AttributeValue)>,
    pub(super) remove: Vec<&'static str>,
}

/// A question about the item that is stored.
pub(super) enum Test {
    /// There is none.
    Absent,
    /// It has this attribute.
    Has(&'static str),
    /// It does not.
    Lacks(&'static str),
    /// The attribute has this value.
    Is(&'static str, AttributeValue),
    /// The attribute is a number, and not larger.
    AtMost(&'static str, u64),
}

impl ItemPlan {
    fn holds_for(&self, slot: &Slot) -> bool {
        let mut any = self.any_of.iter();
        any.any(|all| all.iter().all(|test| test.holds_for(slot)))
    }
}

impl Test {
    fn holds_for(&self, slot: &Slot) -> bool {
        let attribute = |name: &str| slot.item().and_then(|item| item.get(name));
        match self {
            Self::Absent => slot.item().is_none(),
            Self::Has(name) => attribute(name).is_some(),
            Self::Lacks(name) => attribute(name).is_none(),
            Self::Is(name, value) => attribute(name) == Some(value),
            Self::AtMost(name, most) => {
                let number = slot.item().and_then(|item| whole(item, name));
                number.is_some_and(|number| number <= *most)
            }
        }
    }
}

const fn set_all(set: Vec<(&'static str, AttributeValue)>) -> Effect {
    set_and_remove(set, Vec::new())
}

const fn set_and_remove(
    set: Vec<(&'static str, AttributeValue)>,
    remove: Vec<&'static str>,
) -> Effect {
    Effect::Update(Update { set, remove })
}

fn if_all(tests: Vec<Test>, effect: Effect) -> ItemPlan {
    ItemPlan {
        any_of: vec![tests],
        effect,
    }
}

/// It has the token that was read, of the same request, which was not superseded.
fn if_read(waiter: &TokenItem, read: &TaskToken) -> Vec<Test> {
    vec![
        Test::Is(at::REQUEST, b(waiter.request.digest.as_bytes())),
        Test::Is(at::TASK_TOKEN, s(read.expose())),
        Test::Lacks(at::SUPERSEDED_BY),
    ]
}

fn token_as_read(read: Option<&TaskToken>) -> Test {
    match read {
        None => Test::Absent,
        Some(token) => Test::Is(at::TASK_TOKEN, s(token.expose())),
    }
}

/// The waiter has not asked again since it was read.
fn if_token_is(waiter: &TokenItem, effect: Effect) -> ItemPlan {
    let token = s(waiter.task_token.expose());
    if_all(vec![Test::Is(at::TASK_TOKEN, token)], effect)
}

/// The task that waits for a result has not asked again since it was read.
fn same_task(item: &ResultItem) -> Test {
    Test::Is(at::TASK_TOKEN, s(item.task_token.expose()))
}

/// A start as it was read, and not one that was given a place since.
fn as_read(item: &StartItem, status: &str) -> Vec<Test> {
    vec![
        Test::Is(at::STATUS, s(status)),
        Test::Is(at::ASKED_AT, instant(item.asked_at)),
    ]
}

fn settling(item: &StartItem, settlement: &Settlement) -> ItemPlan {
    let tests = match settlement.before() {
        Some(word) => as_read(item, word),
        None => vec![Test::Has(at::STATUS)],
    };
    let (set, remove) = match settlement {
        // Listed under a holder of their own; sweep leaves alone what has no `sweep_after`.
        Settlement::Failed(reason) => (
            vec![(at::REASON, s(reason)), (at::HOLDER, s(FAILED))],
            vec![],
        ),
        Settlement::Dismissed { purge_at } => {
            (vec![(at::PURGE_AT, n(*purge_at))], vec![at::HOLDER])
        }
        Settlement::Begun { purge_at } | Settlement::Skipped { purge_at } => (
            vec![(at::PURGE_AT, n(*purge_at))],
            vec![at::HOLDER, at::REASON, at::SUPERSEDED_BY],
        ),
        Settlement::Superseded { by, purge_at } => (
            vec![
                (at::SUPERSEDED_BY, s(by.as_str())),
                (at::PURGE_AT, n(*purge_at)),
            ],
            vec![at::HOLDER],
        ),
    };
    let status = (at::STATUS, s(settlement.word()));
    let set = [status].into_iter().chain(set).collect();
    let remove = [at::SWEEP_AFTER].into_iter().chain(remove).collect();
    if_all(tests, set_and_remove(set, remove))
}
