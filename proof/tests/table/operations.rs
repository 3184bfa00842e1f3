//! What callers do, as opposed to what is written: whole operations by the library's own calls.

use std::{collections::BTreeSet, fmt, fmt::Write as _, sync::Arc, time::Duration};

use leasehold::{
    Acquire, AcquireAll, Acquired, AcquiredAll, AuditReason, Clock as _, Counter, Error, Execution,
    ExtendOptions, ForceReleaseOptions, Key, Keys, Lease, Leases, ManualClock, ObservedVersion,
    Operator, Permits, Queue, Reason, RequestId, Settings, SweepBounds, TaskToken, Timestamp,
    WaitTime,
    conformance::{Bench, FakeStepFunctions},
    row::{Row, Stored},
    store::Store as _,
};
use proptest::prelude::*;

use super::{
    changes::{digest, holder, seconds, ttl},
    items::{self, ATTRIBUTES, STRANGE},
    transition::{LIMIT, address},
};

/// How many keys are leased one by one, as a semaphore and as a set: two, one, and the first two together.
pub const MUTEXES: u8 = 2;
const HOLDERS: u8 = 3;
const REQUESTS: u8 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Acquire,
    Permit,
    Set,
    InLine,
    Extend,
    Release,
    Sweep,
    HandOver,
    Reap,
    Freeze,
    Unfreeze,
    ForceRelease,
    RaiseFloor,
    Inspect,
    /// Time passes.
    Pass,
    /// The clock is set back.
    JumpBack,
    Delete,
    Tamper,
}

/// Which version an observer has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    None,
    /// Of the handle that was given last.
    Last,
    /// The one that is stored.
    Standing,
}

/// One call, or what happens beside, and its arguments, each of which means something to some of the calls. Times are
/// whole seconds: what is left of a lease is also how long a request for it may take.
#[derive(Clone, Copy)]
pub struct Operation {
    pub call: Call,
    pub key: u8,
    pub who: u8,
    pub request: u8,
    /// How long it lasts, or passes; of an extend 0 for as long as before.
    pub seconds: u8,
    pub observed: Option<Seen>,
    /// Re-entrant, unexpired, strict, or nobody waits with the task token.
    pub strict: bool,
    /// Counted back from the one that was given last.
    pub handle: u8,
    pub permits: u16,
    /// How long somebody waits.
    pub wait: u8,
    /// What the execution does that is reaped.
    pub how: u8,
    /// Where the floor is raised to, from the token.
    pub above: i8,
    pub attribute: u8,
    pub value: u8,
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            call,
            key,
            who,
            request,
            seconds,
            ..
        } = self;
        write!(f, "{call:?} of {key} by {who}/{request} for {seconds}")?;
        write!(
            f,
            " {:?} strict {} handle {}",
            self.observed, self.strict, self.handle
        )?;
        write!(
            f,
            " permits {} wait {} how {}",
            self.permits, self.wait, self.how
        )?;
        write!(
            f,
            " above {} tamper {}/{}",
            self.above, self.attribute, self.value
        )
    }
}

impl Operation {
    /// The keys that it names.
    fn keys(&self) -> std::ops::Range<u8> {
        match self.call {
            Call::Permit => MUTEXES..MUTEXES + 1,
            Call::Set => 0..MUTEXES,
            Call::Extend
            | Call::Release
            | Call::Sweep
            | Call::Reap
            | Call::Pass
            | Call::JumpBack => 0..0,
            _ => self.key..self.key + 1,
        }
    }
}

/// Everything.
pub fn of_all() -> impl Strategy<Value = Vec<Operation>> {
    let calls = [
        (8, Call::Acquire),
        (4, Call::Permit),
        (2, Call::Set),
        (6, Call::InLine),
        (8, Call::Extend),
        (8, Call::Release),
        (4, Call::Sweep),
        (1, Call::HandOver),
        (2, Call::Reap),
        (1, Call::Freeze),
        (2, Call::Unfreeze),
        (1, Call::ForceRelease),
        (1, Call::RaiseFloor),
        (1, Call::Inspect),
        (1, Call::Delete),
        (2, Call::Tamper),
        (5, Call::Pass),
        (1, Call::JumpBack),
    ];
    prop::collection::vec(one_of(&calls), 1..30)
}

fn one_of(calls: &[(usize, Call)]) -> impl Strategy<Value = Operation> + use<> {
    let each = |&(weight, call): &(usize, Call)| std::iter::repeat_n(call, weight);
    let call = prop::sample::select(calls.iter().flat_map(each).collect::<Vec<_>>());
    let seen = prop_oneof![Just(Seen::None), Just(Seen::Last), Just(Seen::Standing)];
    let seen = prop::option::weighted(0.2, seen);
    let handle = prop_oneof![5 => Just(0_u8), 2 => Just(1), 1 => 2..6_u8];
    let whose = (0..MUTEXES, 0..HOLDERS, 0..REQUESTS, handle);
    let long = prop_oneof![6 => 0..9_u8, 1 => 9..60_u8];
    let when = (2..9_u8, 0..20_u8, long, 0..40_u8);
    let attributes = u8::try_from(ATTRIBUTES.len()).unwrap();
    let others = (1..4_u16, 0..6_u8, -2..3_i8, 0..attributes, 0..STRANGE);
    (call, whose, when, seen, 0..10_u8, others).prop_map(
        |(call, (key, who, request, handle), when, observed, odds, others)| Operation {
            call,
            key,
            who,
            request,
            seconds: match call {
                Call::Extend if when.1 < 10 => 0,
                Call::Extend => 2 * (when.1 - 9),
                Call::Pass => when.2,
                Call::JumpBack => 1 + when.3 / 2,
                _ => when.0,
            },
            observed,
            strict: odds < 2,
            handle,
            permits: others.0,
            wait: when.3,
            how: others.1,
            above: others.2,
            attribute: others.3,
            value: others.4,
        },
    )
}

/// One store, and the callers that use it through the library.
pub struct World<B: Bench> {
    pub bench: B,
    pub clock: Arc<ManualClock>,
    leases: Leases<B::Store>,
    calls: Arc<FakeStepFunctions>,
    /// Every handle that anybody was ever given, in order.
    handles: Vec<Lease>,
    /// Every waiter that was ever in the queue, and for what.
    waiters: BTreeSet<(u8, u8, u8)>,
    touched: BTreeSet<u8>,
}

impl<B: Bench> World<B> {
    pub fn new(bench: B) -> Self {
        let clock = Arc::new(ManualClock::at(seconds(0)));
        let calls = Arc::new(FakeStepFunctions::default());
        let leases = Leases::new(bench.store(), Settings::default())
            .with_clock(clock.clone())
            .with_workflows(calls.clone());
        Self {
            bench,
            clock,
            leases,
            calls,
            handles: Vec::new(),
            waiters: BTreeSet::new(),
            touched: BTreeSet::new(),
        }
    }

    /// Does it, and says all there is to say of the answer and of everything that is in the table then. Proofs,
    /// which differ from world to world, are named by the handle that has them.
    pub async fn take(&mut self, operation: &Operation) -> String {
        self.touched.extend(operation.keys());
        let answer = self.make(operation).await;
        let mut said = answer.unwrap_or_else(|error| format!("{} {error}", error.name()));
        let mut notified = self.calls.take_answers();
        notified.sort_by(|a, b| a.token.cmp(&b.token));
        for one in notified {
            if one.result.is_ok() {
                let lease: Lease = serde_json::from_value(one.output()["lease"].clone()).unwrap();
                write!(said, "\n{} is granted {lease:?}", one.token).unwrap();
                self.handles.push(lease);
            } else {
                write!(said, "\n{} is refused {:?}", one.token, one.result).unwrap();
            }
        }
        self.describe(&mut said).await;
        said
    }

    async fn describe(&self, said: &mut String) {
        let store = self.leases.store();
        for &key in &self.touched {
            for (permit, stored) in store.read_key(&self::key(key), LIMIT).await.unwrap() {
                match stored {
                    Stored::Row(row) => {
                        let whose = self.whose(&row);
                        let row = without_random_requests(row);
                        write!(said, "\n{key}/{permit} {row:?} of {whose:?}").unwrap();
                    }
                    other => write!(said, "\n{key}/{permit} {other:?}").unwrap(),
                }
            }
        }
        for &(key, who, request) in &self.waiters {
            let (pk, digest) = (self::key(key), digest(who, request));
            if let Some(waiter) = store.waiter(&pk, &digest, LIMIT).await.unwrap() {
                let token = waiter.task_token.expose();
                write!(said, "\n{key} waits {waiter:?} {token}").unwrap();
            }
        }
    }

    /// The latest handle that proves what the row carries.
    fn whose(&self, row: &Row) -> Option<usize> {
        let proof = row.holding().map(|held| &held.lease_id);
        let proof = proof.or(row.reserved().map(|reserved| &reserved.lease_id))?;
        let mut handles = self.handles.iter();
        handles.rposition(|lease| lease.lease_id == *proof)
    }

    pub async fn stored(&self, key: u8) -> Stored {
        let address = address(self::key(key).as_str());
        self.leases.store().read(&address, LIMIT).await.unwrap()
    }

    async fn observed(&self, operation: &Operation) -> Option<ObservedVersion> {
        Some(match operation.observed? {
            Seen::None => ObservedVersion::NONE,
            Seen::Last => self
                .handles
                .last()
                .map_or(ObservedVersion::NONE, |lease| lease.version.into()),
            Seen::Standing => match self.stored(operation.key).await {
                Stored::Row(row) => row.version.into(),
                _ => ObservedVersion::NONE,
            },
        })
    }

    async fn make(&mut self, operation: &Operation) -> Result<String, Error> {
        let &Operation {
            call,
            key,
            who,
            request,
            seconds,
            strict,
            ..
        } = operation;
        let (leases, name) = (&self.leases, self::key(key));
        let asked = |key: u8| {
            Acquire::new(self::key(key), holder(who), ttl(seconds)).request_id(id(request))
        };
        let handle = self.handles.iter().rev().nth(operation.handle.into());
        Ok(match call {
            Call::Acquire => {
                let mut acquire = asked(key);
                acquire.observed_version = self.observed(operation).await;
                acquire.reentrant = strict;
                let acquired = leases.acquire(acquire).await?;
                self.granted(acquired)
            }
            Call::Permit => {
                let permits = Permits::new(operation.permits).unwrap();
                let acquired = leases.acquire(asked(MUTEXES).permits(permits)).await?;
                self.granted(acquired)
            }
            Call::Set => {
                let keys = Keys::new((0..MUTEXES).map(self::key).collect()).unwrap();
                let mut acquire =
                    AcquireAll::new(keys, holder(who), ttl(seconds)).request_id(id(request));
                acquire.reentrant = strict;
                let set = leases.acquire_all(acquire).await?;
                let said = format!("Set({set:?})");
                if let AcquiredAll::Granted(granted) = set {
                    self.handles.extend(granted.leases);
                }
                said
            }
            Call::InLine => {
                let asked = asked(key);
                return self.join(operation, asked).await;
            }
            Call::Extend => {
                let Some(lease) = handle else {
                    return Ok(String::new());
                };
                let options = ExtendOptions {
                    ttl: (seconds > 0).then(|| ttl(seconds)),
                    require_unexpired: strict,
                };
                let extended = leases.extend(lease, options).await?;
                let said = format!("Extended({extended:?})");
                self.handles.push(extended.into_lease());
                said
            }
            Call::Release => match handle {
                None => String::new(),
                Some(lease) if strict => {
                    format!("Released({:?})", leases.release_strictly(lease).await?)
                }
                Some(lease) => format!("Released({:?})", leases.release(lease).await?),
            },
            Call::Sweep => format!("Swept({:?})", leases.sweep(SweepBounds::Schedule).await?),
            Call::HandOver => format!("{:?}", leases.hand_over(&name).await?),
            Call::Reap => {
                let who = holder(who);
                let execution = execution(operation.how, self.clock.now());
                self.calls.set_execution(who.as_str(), execution);
                format!("Reaped({:?})", leases.reap(&who).await?)
            }
            Call::Inspect => format!("{:?}", leases.inspect(&name).await?),
            Call::Freeze => format!("{:?}", leases.freeze(&name, &because()).await?),
            Call::Unfreeze => {
                format!("{:?}", leases.unfreeze(&name, &because()).await?)
            }
            Call::ForceRelease => {
                let forced = leases
                    .force_release(&name, ForceReleaseOptions::default(), &because())
                    .await?;
                format!("{forced:?}")
            }
            Call::RaiseFloor => {
                let token = match self.stored(key).await {
                    Stored::Row(row) => row.fencing_token.get(),
                    _ => self.clock.now().as_millis(),
                };
                let floor = token.saturating_add_signed(operation.above.into()).max(1);
                let floor = Some(Counter::new(floor).unwrap());
                let raised = leases.raise_floor(&name, floor, &because()).await?;
                format!("{raised:?}")
            }
            Call::Pass | Call::JumpBack | Call::Delete | Call::Tamper => {
                self.beside(operation).await;
                String::new()
            }
        })
    }

    async fn join(&mut self, operation: &Operation, asked: Acquire) -> Result<String, Error> {
        let &Operation {
            key, who, request, ..
        } = operation;
        self.waiters.insert((key, who, request));
        let token = format!("token of {who}/{request}/{key}");
        self.calls.renew_token(&token);
        if operation.strict {
            self.calls.expire_token(&token);
        }
        let queue = Queue {
            task_token: TaskToken::new(token).unwrap(),
            wait: WaitTime::new(Duration::from_secs(operation.wait.into())).unwrap(),
        };
        let queued = self.leases.acquire_queued(asked, queue).await?;
        Ok(format!("Queued({queued:?})"))
    }

    fn granted(&mut self, acquired: Acquired) -> String {
        let said = format!("Acquired({acquired:?})");
        if let Acquired::Granted(granted) = acquired {
            self.handles.push(granted.lease);
        }
        said
    }

    /// What is no call of the library's.
    async fn beside(&self, operation: &Operation) {
        let seconds = Duration::from_secs(operation.seconds.into());
        let address = address(key(operation.key).as_str());
        match operation.call {
            Call::Pass => self.clock.advance(seconds),
            Call::JumpBack => self.clock.set(self.clock.now().minus(seconds)),
            Call::Delete => self.bench.delete(&address).await,
            _ => {
                let Stored::Row(row) = self.stored(operation.key).await else {
                    return;
                };
                let tampered = items::tamper(row.to_item(), operation.attribute, operation.value);
                if let Some(item) = tampered {
                    self.bench.put(&address, item).await;
                }
            }
        }
    }
}

/// What an execution does that is asked for at this time.
const fn execution(how: u8, now: Timestamp) -> Execution {
    match how {
        0 => Execution::Running,
        1 => Execution::Unknown,
        _ => Execution::Ended {
            stopped_at: now,
            redrivable: how.is_multiple_of(2),
            all_answered: how < 4,
        },
    }
}

fn key(n: u8) -> Key {
    Key::new(format!("key {n}")).unwrap()
}

fn id(request: u8) -> RequestId {
    RequestId::new(format!("r{request}")).unwrap()
}

fn because() -> AuditReason {
    AuditReason {
        who: Operator::new("o").unwrap(),
        why: Reason::new("why").unwrap(),
    }
}

/// The same row, with one name for all requests that nobody made: what operators grant has a random one.
fn without_random_requests(mut row: Row) -> Row {
    let known: Vec<_> = (0..HOLDERS)
        .flat_map(|who| (0..REQUESTS).map(move |request| digest(who, request)))
        .collect();
    let requests = row.past_requests.iter_mut().flatten();
    for request in requests.chain([&mut row.request]) {
        if !known.contains(request) {
            *request = digest(HOLDERS, REQUESTS);
        }
    }
    row
}
