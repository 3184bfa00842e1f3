//! The simulation of starts: its table, its clocks, the functions at work, and the executions that wait with a task token.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use fastrand::Rng;

use super::{
    super::{
        shared::{
            Broken, Delayed, DeliveryFault, End, SKEW, STALE, START, Shared, Skewed, TaskResult,
            at_once,
        },
        step_functions::FaultyStepFunctions,
        store::FaultyStore,
    },
    judge::{Judge, Waiting},
    plan::Plan,
    results::RESULTS,
    service::{FICKLE, SIGNATURE, Starts},
};
use leasehold::{
    Acquire, AuditReason, Error, Execution, ExecutionName, ExtendOptions, ForceReleaseOptions,
    Holder, KeepTime, Key, Lease, Leases, Lifetime, LimitedTo, Memory, Operator, PassLease,
    Permits, Pool, Queue, Queued, Reason, RequestDigest, RequestId, Settings, Start, StartRules,
    Started, StateMachineArn, SweepBounds, TaskToken, Wait, WaitTime,
    metrics::{Counts, Metric, counted},
    row::Stored,
    store::{Address, Operations as _},
};

const MACHINES: &str = "arn:aws:states:eu-west-1:123456789012:stateMachine:";
const EXECUTIONS: &str = "arn:aws:states:eu-west-1:123456789012:execution:";
/// The machine that stays.
const STABLE: &str = "stable";

pub struct World {
    pub shared: Shared,
    pub memory: Memory,
    /// The table a while ago, and when that was.
    index: (u64, Memory),
    pub rng: Rng,
    pub plan: Plan,
    pub settings: Settings,
    /// Those that are asked for, and that of the pool, if there is one.
    pub keys: Vec<Key>,
    pool: Option<Pool>,
    /// Whether the machine that comes and goes may be started.
    pub listed: bool,
    rules: [StartRules; 2],
    /// When the last sweep set out that has seen everything.
    swept_at: u64,
    pub tokens: Vec<TokenWaiter>,
    pub tasks: Vec<Task>,
}

/// An execution that waits with a task token, beside the starts.
pub struct TokenWaiter {
    name: String,
    holder: Holder,
    key: Key,
    pool: Option<Pool>,
    wait: WaitTime,
    attempts: u32,
    /// How often it was redriven.
    redrives: u32,
    token: Option<String>,
    pub state: TokenState,
    lease: Option<Lease>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenState {
    /// About to ask.
    Asking,
    Waits,
    Holds,
    /// It was redriven, and does not ask for its key.
    Alone,
    Over,
}

impl TokenWaiter {
    fn request_id(&self) -> RequestId {
        RequestId::new(format!("ask/{}", self.redrives)).expect("valid")
    }
}

/// A function at work.
pub struct Task {
    name: String,
    call: Call,
    set_out: u64,
    /// It is suspended until then.
    pub asleep_until: u64,
    /// It sleeps until then, because it wants to.
    pub stays_until: u64,
    future: Pin<Box<dyn Future<Output = Answer>>>,
}

#[derive(Clone, Debug)]
pub enum Call {
    /// Of this start; it may have had its place when it was asked for.
    Start {
        who: usize,
        had_place: bool,
        /// How often it had been stored.
        puts: u64,
        /// The token of the task that waits for the result.
        token: Option<TaskToken>,
    },
    Ask {
        who: usize,
        attempt: u32,
        had_place: bool,
    },
    Release(usize),
    /// That set out then.
    Sweep(u64),
    Reap(Holder),
    /// It was said to run again.
    Redriven(Holder),
    Force,
    Other,
}

pub enum Answer {
    Started(Result<Started, Error>),
    Queued(Result<Queued, Error>),
    Done(Result<(), Error>),
    /// A look at executions, and how many it counted as redriven beside others.
    Looked(Result<bool, Error>, u64),
}

/// What an operator does.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    Freeze,
    Unfreeze,
    Limit(Option<u16>),
    Force,
    Begin(usize),
    Dismiss(usize),
    HandOver,
}

impl World {
    pub fn new(seed: u64, broken: Option<Broken>, traced: bool) -> Self {
        let mut rng = Rng::with_seed(seed);
        let plan = Plan::of(&mut rng);
        let mut settings = Settings::default();
        settings.queue_cap = plan.cap;
        settings.reap_grace = Duration::from_millis(plan.grace);
        settings.look = Duration::from_millis(plan.look);
        settings.redrives_are_counted_only = plan.counted && broken != Some(Broken::RuleIgnored);
        settings.retention = Duration::from_millis(plan.retention);
        let permits = plan.permits.map_or(1, usize::from);
        let margin = u64::try_from(settings.clock_margin.as_millis()).expect("small");
        let mut judge = Judge::new(permits, plan.grace, margin);
        judge.counted = plan.counted;
        judge.clocks_differ = plan.clocks_differ;
        let name = Key::new("pool").expect("valid");
        let pool = plan.pool.map(|n| Pool::new(&name, permits_of(n)));
        judge.pool.clone_from(&pool);
        let shared = Shared::default();
        {
            let mut shared = shared.get();
            shared.now = START;
            shared.broken = broken;
            shared.trace = traced.then(String::new);
            shared.starts = Some(Starts::new(judge, rng.fork()));
            shared.note(|| format!("{plan:?}"));
        }
        let stable = format!("{MACHINES}{STABLE}");
        let both = format!("{stable},{MACHINES}{FICKLE}");
        let rules = [stable, both].map(|list| StartRules::of(&list).expect("valid"));
        let keys = (0..plan.keys).map(|n| Key::new(format!("key {n}")).expect("valid"));
        let keys = keys.chain(pool.as_ref().map(|pool| pool.key.clone()));
        Self {
            shared,
            memory: Memory::new(),
            index: (START, Memory::new()),
            rng,
            keys: keys.collect(),
            pool,
            plan,
            settings,
            listed: true,
            rules,
            swept_at: 0,
            tokens: Vec::new(),
            tasks: Vec::new(),
        }
    }

    pub fn now(&self) -> u64 {
        self.shared.get().now
    }

    /// Of a key, or of the pool.
    pub fn permits(&self, key: usize) -> Option<u16> {
        if key == self.plan.keys {
            return self.plan.pool;
        }
        self.plan.permits
    }

    /// Most need a permit of the pool, if there is one.
    fn draw_pool(&mut self) -> Option<Pool> {
        let pool = self.pool.clone()?;
        (self.rng.u8(..8) > 0).then_some(pool)
    }

    pub fn judge<T>(&self, of: impl FnOnce(&mut Judge) -> T) -> T {
        let mut shared = self.shared.get();
        let mut found = None;
        shared.judge(|judge| found = Some(of(judge)));
        found.expect("a judge")
    }

    pub fn service<T>(&self, of: impl FnOnce(&mut Starts) -> T) -> T {
        of(self.shared.get().starts.as_mut().expect("starts"))
    }

    pub fn wrong(&self) -> Vec<String> {
        self.judge(|judge| judge.wrong.clone())
    }

    fn table(&self) -> FaultyStore {
        FaultyStore {
            memory: self.memory.clone(),
            shared: self.shared.clone(),
            index: Some(self.index.1.clone()),
        }
    }

    /// Time passes. What has been under way for as long as it can be arrives.
    pub fn jump(&mut self, millis: u64) {
        let until = self.now() + millis;
        loop {
            let due = {
                let shared = self.shared.get();
                let due = shared.delayed.iter().map(latest).enumerate();
                due.min_by_key(|(_, at)| *at).filter(|(_, at)| *at <= until)
            };
            let Some((place, at)) = due else { break };
            let earlier = self.now();
            self.shared.get().now = self.rng.u64(earlier..=at.max(earlier));
            self.arrive(place);
        }
        self.shared.get().now = until.max(self.now());
        if self.now() < self.swept_at + 300_000 {
            self.purge();
        }
        // The index is some seconds late.
        if self.now() > self.index.0 + 4_000 {
            let older = Memory::new();
            for (pk, sk, item) in self.memory.all() {
                older.put_at(&pk, &sk, &item);
            }
            self.index = (self.now(), older);
        }
    }

    /// DynamoDB deletes the rows whose time is over. Sweeps, which come every minute in truth, keep those that are in use.
    fn purge(&mut self) {
        let now = self.now() / 1000;
        for key in 0..self.keys.len() {
            for permit in 0..self.permits(key).unwrap_or(1) {
                if let Stored::Row(row) = self.row(key, permit)
                    && row.purge_at.is_some_and(|at| at <= now)
                {
                    let in_pool = row.entries.as_ref().is_some_and(|it| !it.is_empty());
                    if row.head().is_some() || row.holding().is_some() || in_pool {
                        self.is_wrong(format!("{} is purged while it is in use", self.keys[key]));
                    }
                    self.delete(key, permit);
                }
            }
        }
    }

    /// A row is deleted: purged, or by hand.
    pub fn delete(&mut self, key: usize, permit: u16) {
        let key = self.keys[key].clone();
        let mut shared = self.shared.get();
        shared.actor = "table".to_owned();
        shared.saw("a row is deleted");
        shared.note(|| format!("the row {permit} of {key} is deleted"));
        shared.judge(|judge| judge.deleted(&key, permit));
        drop(shared);
        self.memory.delete(&Address { key, permit });
    }

    /// A message arrives after its sender has given up on it.
    pub fn arrive(&mut self, place: usize) {
        let delayed = {
            let mut shared = self.shared.get();
            shared.actor = "late".to_owned();
            shared.judge(|judge| judge.set_out = 0);
            shared.delayed.remove(place).1
        };
        match delayed {
            Delayed::Write(arrives) => arrives(&self.table()),
            Delayed::Call(token, result) => drop(self.shared.answer(&token, result)),
            Delayed::Signed(arrives) => arrives(&self.shared),
        }
        self.hear();
    }

    fn queue(&mut self) -> Queue<FaultyStore> {
        let skew = i64::try_from(SKEW).expect("small") - 100;
        let ahead = if self.plan.clocks_differ {
            [-skew, 0, skew][self.rng.usize(..3)]
        } else {
            0
        };
        let clock = Skewed(self.shared.clone(), ahead);
        let workflows = FaultyStepFunctions {
            shared: self.shared.clone(),
            stale: if self.plan.stale { STALE } else { 0 },
        };
        let queue = Leases::new(self.table(), self.settings)
            .with_clock(Arc::new(clock))
            .with_engine(Arc::new(workflows))
            .with_starts(self.rules[usize::from(self.listed)].clone());
        if self.rng.u8(..3) > 0 {
            return queue;
        }
        // As in a function of Lambda.
        let seconds = [30, 62][self.rng.usize(..2)];
        queue.for_call(queue.now().plus(Duration::from_secs(seconds)))
    }

    /// As in a Lambda function, some of which may start nothing.
    fn of_a_team(&mut self) -> Queue<FaultyStore> {
        let queue = self.queue();
        if self.rng.u8(..4) == 0 {
            return queue.with_starts(StartRules::default());
        }
        queue
    }

    fn spawn(&mut self, name: String, call: Call, future: impl Future<Output = Answer> + 'static) {
        let mut shared = self.shared.get();
        shared.actor.clone_from(&name);
        shared.note(|| format!("sets out: {call:?}"));
        drop(shared);
        self.tasks.push(Task {
            name,
            call,
            set_out: self.now(),
            asleep_until: 0,
            stays_until: 0,
            future: Box::pin(future),
        });
    }

    pub fn enter(&mut self, key: usize) -> usize {
        let who = self.judge(|judge| judge.starts.len());
        let fickle = self.plan.trouble > 0 && self.rng.u8(..3) == 0;
        let machine = if fickle { FICKLE } else { STABLE };
        let machine = StateMachineArn::new(format!("{MACHINES}{machine}")).expect("valid");
        let name = ExecutionName::new(format!("s{who}")).expect("valid");
        let mut start = Start::new(self.keys[key].clone(), machine, name);
        start.if_held = self.plan.if_held(&mut self.rng);
        start.permits = self.plan.permits.map(permits_of);
        start.pool = self.draw_pool();
        start.at_least = self.plan.at_least(&mut self.rng);
        start.keep = self.plan.keep(&mut self.rng);
        start.pass_lease = [PassLease::Nothing, PassLease::Handle][self.rng.usize(..2)];
        let request = RequestDigest::of_start(&start.execution());
        let asking = self.draw_asking(who);
        let mut shared = self.shared.get();
        let now = shared.now;
        shared.names.insert(request, format!("s{who}"));
        shared.note(|| format!("s{who} is {:?}, fickle: {fickle}", start.if_held));
        shared.judge(|judge| judge.enters(start, (fickle, asking), now));
        who
    }

    /// One more call for this start.
    pub fn ask(&mut self, who: usize) {
        let result_to = self.asks_for_result(who);
        let (mut start, had_place, puts) = self.judge(|judge| {
            let record = &judge.starts[who];
            let has_place = judge.has_place(&record.start.key, &record.request);
            (record.start.clone(), has_place, record.puts)
        });
        let token = result_to.as_ref().map(|to| to.task_token.clone());
        start.result_to = result_to;
        let queue = self.queue();
        let call = Call::Start {
            who,
            had_place,
            puts,
            token,
        };
        self.spawn(format!("start s{who}"), call, async move {
            Answer::Started(queue.start(start).await)
        });
    }

    /// An operator repeats a start that has failed.
    pub fn repeat(&mut self, who: usize) {
        let (start, puts) = self.judge(|judge| {
            let record = &mut judge.starts[who];
            // That it has failed was the result, and nobody waits for another.
            record.asking.must_stop = None;
            (record.start.clone(), record.puts)
        });
        let queue = self.queue();
        let call = Call::Start {
            who,
            had_place: false,
            puts,
            token: None,
        };
        self.spawn(format!("repeat s{who}"), call, async move {
            let execution = start.execution();
            Answer::Started(queue.repeat_start(&start.key, &execution).await)
        });
    }

    pub fn sweep(&mut self) {
        let queue = self.queue();
        let call = Call::Sweep(self.now());
        self.spawn("sweep".to_owned(), call, async move {
            let (swept, counts) = counted(queue.sweep(SweepBounds::Schedule)).await;
            let is_whole = swept.as_ref().is_ok_and(|swept| swept.cursor.is_none());
            Answer::Looked(swept.map(|_| is_whole), unguarded(&counts))
        });
    }

    /// An execution is said to run again.
    pub fn runs_again(&mut self, execution: Holder) {
        let queue = self.queue();
        let name = execution.as_str().rsplit(':').next().unwrap_or_default();
        let call = Call::Redriven(execution.clone());
        self.spawn(format!("{name} runs again"), call, async move {
            let (looked, counts) = counted(queue.redriven(&execution)).await;
            Answer::Looked(looked.map(|_| true), unguarded(&counts))
        });
    }

    pub fn reap(&mut self, execution: Holder) {
        let queue = self.of_a_team();
        let name = execution.as_str().rsplit(':').next().unwrap_or_default();
        let call = Call::Reap(execution.clone());
        self.spawn(format!("reap {name}"), call, async move {
            Answer::Done(queue.reap(&execution).await.map(drop))
        });
    }

    pub fn operate(&mut self, key: usize, act: Act) {
        let (queue, permits) = (self.queue(), self.permits(key));
        let key = self.keys[key].clone();
        let permit = self.rng.u16(..permits.unwrap_or(1));
        let mut call = Call::Other;
        let execution = match act {
            Act::Begin(who) | Act::Dismiss(who) => self.judge(|judge| {
                judge.starts[who].dismissing |= matches!(act, Act::Dismiss(_));
                Some(judge.starts[who].start.execution())
            }),
            Act::Force => {
                call = Call::Force;
                self.judge(|judge| {
                    for record in &mut judge.starts {
                        record.cancelling |= record.needs(&key);
                    }
                });
                None
            }
            _ => None,
        };
        self.spawn(format!("{act:?} {key}"), call, async move {
            let because = AuditReason {
                who: Operator::new("operator").expect("valid"),
                why: Reason::new("because").expect("valid"),
            };
            let execution = execution.as_ref();
            Answer::Done(match (act, execution) {
                (Act::Freeze, _) => queue.freeze(&key, &because).await.map(drop),
                (Act::Unfreeze, _) => queue.unfreeze(&key, &because).await.map(drop),
                (Act::Limit(limit), _) => {
                    let limit = limit.map(|n| LimitedTo::new(n).expect("valid"));
                    queue.limit_to(&key, limit, &because).await.map(drop)
                }
                (Act::Force, _) => {
                    let which = ForceReleaseOptions {
                        permit: Some(permit),
                        fencing_token: None,
                    };
                    queue.force_release(&key, which, &because).await.map(drop)
                }
                (Act::HandOver, _) => queue.hand_over(&key).await.map(drop),
                (Act::Begin(_), Some(execution)) => {
                    queue.begin_start(&key, execution).await.map(drop)
                }
                (Act::Dismiss(_), Some(execution)) => {
                    queue.dismiss_start(&key, execution).await.map(drop)
                }
                _ => Ok(()),
            })
        });
    }

    /// An operator redrives an execution by the command line, which takes its key back first.
    pub fn redrive_with_key(&mut self, execution: Holder) {
        let name = execution.as_str().rsplit(':').next().unwrap_or_default();
        let name = format!("redrive {name}");
        let request = RequestId::new(format!("command {}", self.rng.u64(..))).expect("valid");
        let (queue, shared) = (self.queue(), self.shared.clone());
        self.spawn(name, Call::Other, async move {
            let redriven = redrive_with_key(&queue, &shared, &execution, request);
            Answer::Done(redriven.await)
        });
    }

    /// An execution that was started gives its key back early, if it was given the handle.
    pub fn give_back(&mut self, who: usize) {
        let execution = self.judge(|judge| judge.starts[who].start.execution());
        let input = self.shared.get().input_of(&execution).unwrap_or_default();
        let input: serde_json::Value = serde_json::from_str(&input).expect("JSON");
        let lease = serde_json::from_value::<Lease>(input["leasehold"]["lease"].clone());
        let Ok(lease) = lease else { return };
        self.shared.get().saw("given back early");
        self.judge(|judge| judge.gives_back(who));
        let queue = self.of_a_team();
        self.spawn(format!("s{who} gives back"), Call::Other, async move {
            Answer::Done(queue.release(&lease).await.map(drop))
        });
    }

    /// A program takes the key for a moment. Returns whether it could.
    pub fn may_be_taken(&mut self, key: usize) -> Result<bool, Error> {
        let leases = Leases::new(self.memory.clone(), self.settings)
            .with_clock(Arc::new(Skewed(self.shared.clone(), 0)));
        let holder = Holder::new("a program").expect("valid");
        let ttl = leasehold::Ttl::new(Duration::from_secs(5)).expect("valid");
        let mut acquire = Acquire::new(self.keys[key].clone(), holder, ttl);
        acquire.permits = self.permits(key).map(permits_of);
        let acquired = at_once(leases.acquire(acquire))?;
        Ok(acquired.granted().is_ok())
    }

    /// One more execution that waits with a task token.
    pub fn enter_token(&mut self, key: usize) {
        let name = format!("w{}", self.tokens.len());
        let holder = Holder::new(format!("{EXECUTIONS}waits:{name}")).expect("valid");
        let key = self.keys[key].clone();
        let (wait, pool) = (Plan::wait(&mut self.rng), self.draw_pool());
        let mut shared = self.shared.get();
        shared.set_execution(&holder, Execution::Running);
        let waiting = Waiting {
            name: name.clone(),
            key: key.clone(),
            has: None,
            is_pooled: pool.is_some(),
        };
        shared.judge(|judge| judge.waiting.push(waiting));
        drop(shared);
        self.tokens.push(TokenWaiter {
            name,
            holder,
            key,
            pool,
            wait,
            attempts: 0,
            redrives: 0,
            token: None,
            state: TokenState::Asking,
            lease: None,
        });
    }

    /// It asks, with a new token.
    pub fn ask_with_token(&mut self, who: usize) {
        let waiter = &mut self.tokens[who];
        waiter.attempts += 1;
        waiter.state = TokenState::Waits;
        let attempt = waiter.attempts;
        let token = format!("{}.{attempt}", waiter.name);
        let before = waiter.token.replace(token.clone());
        let (holder, key, wait) = (waiter.holder.clone(), waiter.key.clone(), waiter.wait);
        let (request_id, reentrant) = (waiter.request_id(), waiter.redrives > 0);
        let request = RequestDigest::of(&holder, &request_id);
        let had_place = {
            let mut shared = self.shared.get();
            let name = waiter.name.clone();
            shared.names.insert(request.clone(), name);
            if let Some(before) = before {
                shared.is_done(&before);
            }
            shared.waits(&token, who, &holder);
            let mut had_place = false;
            shared.judge(|judge| had_place = judge.has_place(&key, &request));
            had_place
        };
        let call = Call::Ask {
            who,
            attempt,
            had_place,
        };
        let (permits, pool) = (self.plan.permits.map(permits_of), waiter.pool.clone());
        let wait = Wait {
            task_token: TaskToken::new(token).expect("valid"),
            wait,
            latest: false,
        };
        let queue = self.queue();
        let name = format!("{} asks", self.tokens[who].name);
        self.spawn(name, call, async move {
            let lifetime = Lifetime::Execution {
                keep: KeepTime::default(),
            };
            let mut acquire = Acquire::new(key, holder, lifetime).request_id(request_id);
            acquire.permits = permits;
            acquire.pool = pool;
            acquire.reentrant = reentrant;
            Answer::Queued(queue.acquire_queued(acquire, wait).await)
        });
    }

    /// It has done its work: it gives its lease back, or simply ends.
    pub fn token_goes_on(&mut self, who: usize) {
        let waiter = &mut self.tokens[who];
        match waiter.state {
            TokenState::Asking => self.ask_with_token(who),
            TokenState::Holds if self.rng.bool() => {
                let lease = waiter.lease.clone().expect("a lease");
                let name = format!("{} gives back", waiter.name);
                self.judge(|judge| judge.waiting[who].has = None);
                let queue = self.of_a_team();
                self.spawn(name, Call::Release(who), async move {
                    Answer::Done(queue.release(&lease).await.map(drop))
                });
            }
            TokenState::Holds if self.rng.bool() => self.end_token_as(who, End::Failed),
            TokenState::Holds | TokenState::Alone => self.end_token(who),
            TokenState::Waits | TokenState::Over => {}
        }
    }

    /// It is redriven, if it has failed.
    pub fn redrive_token(&mut self, who: usize) {
        let holder = self.tokens[who].holder.clone();
        if self.shared.get().redrive(&holder) {
            self.shared.get().saw("redriven, and acquires for itself");
            let waiter = &mut self.tokens[who];
            waiter.redrives += 1;
            waiter.lease = None;
            waiter.state = [TokenState::Asking, TokenState::Alone][self.rng.usize(..2)];
        }
    }

    fn end_token(&mut self, who: usize) {
        self.end_token_as(who, End::Succeeded);
    }

    fn end_token_as(&mut self, who: usize, end: End) {
        let waiter = &mut self.tokens[who];
        waiter.state = TokenState::Over;
        let mut shared = self.shared.get();
        if let Some(token) = waiter.token.take() {
            shared.is_done(&token);
        }
        shared.judge(|judge| judge.waiting[who].has = None);
        let holder = waiter.holder.clone();
        shared.end(&holder, end, true);
    }

    /// What the tokens were answered with.
    fn hear(&mut self) {
        let results = std::mem::take(&mut self.shared.get().results);
        for (who, result) in results {
            match who.checked_sub(RESULTS) {
                Some(start) => self.task_is_told(start, &result),
                None => self.token_is_told(who, result),
            }
        }
    }

    fn token_is_told(&mut self, who: usize, result: TaskResult) {
        let waiter = &mut self.tokens[who];
        waiter.token = None;
        match result {
            Ok(output) => {
                let value: serde_json::Value = serde_json::from_str(&output).expect("JSON");
                let lease = serde_json::from_value(value["lease"].clone());
                waiter.lease = Some(lease.expect("a lease"));
                waiter.state = TokenState::Holds;
            }
            Err(_) => self.end_token(who),
        }
    }

    /// A function takes one step, and a fault may occur there. Whether it goes on.
    pub fn step(&mut self, place: usize, fault: Option<DeliveryFault>) -> bool {
        let task = &mut self.tasks[place];
        {
            let mut shared = self.shared.get();
            shared.actor.clone_from(&task.name);
            shared.judge(|judge| judge.set_out = task.set_out);
            shared.turn = true;
            shared.fault = fault;
        }
        let context = &mut Context::from_waker(Waker::noop());
        let polled = task.future.as_mut().poll(context);
        {
            let mut shared = self.shared.get();
            shared.turn = false;
            shared.fault = None;
            task.stays_until = shared.sleeps_until.take().unwrap_or_default();
            shared.met.clear();
        }
        // Whoever was told goes on first: the function's own answer comes later.
        self.hear();
        match polled {
            Poll::Pending => true,
            Poll::Ready(answer) => {
                let task = self.tasks.remove(place);
                self.done(task.call, answer);
                false
            }
        }
    }

    /// A function dies where it is.
    pub fn kill(&mut self, place: usize) {
        let task = self.tasks.remove(place);
        let mut shared = self.shared.get();
        shared.actor.clone_from(&task.name);
        shared.note(|| "dies".to_owned());
        drop(shared);
        match task.call {
            Call::Ask { who, attempt, .. } => self.asks_again(who, attempt),
            Call::Release(who) => self.end_token(who),
            Call::Start {
                who,
                token: Some(token),
                ..
            } => self.task_call_is_over(who, &token, false),
            _ => {}
        }
    }

    fn asks_again(&mut self, who: usize, attempt: u32) {
        let waiter = &mut self.tokens[who];
        if waiter.state == TokenState::Waits && waiter.attempts == attempt {
            waiter.state = TokenState::Asking;
        }
    }

    fn done(&mut self, call: Call, answer: Answer) {
        let now = self.now();
        let faults_are_over = self.judge(|judge| judge.calm);
        {
            let mut shared = self.shared.get();
            let said = match &answer {
                Answer::Started(Ok(started)) => word(started).to_owned(),
                Answer::Queued(Ok(queued)) => format!("{queued:?}"),
                Answer::Done(Ok(())) => "done".to_owned(),
                Answer::Looked(Ok(_), unguarded) => format!("done, unguarded: {unguarded}"),
                Answer::Started(Err(error))
                | Answer::Queued(Err(error))
                | Answer::Looked(Err(error), _)
                | Answer::Done(Err(error)) => error.to_string(),
            };
            shared.note(|| format!("answers: {said}"));
            if let Answer::Started(answer) = &answer {
                shared.saw(answer.as_ref().map_or_else(Error::name, word));
            }
        }
        if let Answer::Looked(_, unguarded) = answer {
            self.judge(|judge| judge.have_counted(unguarded));
        }
        match (call, answer) {
            (call @ Call::Start { .. }, Answer::Started(answer)) => {
                self.start_is_answered(call, &answer, now);
            }
            (
                Call::Ask {
                    who,
                    attempt,
                    had_place,
                },
                Answer::Queued(Err(error)),
            ) => match error {
                Error::Unavailable { .. } | Error::Throttled { .. } => {
                    self.asks_again(who, attempt);
                }
                _ if self.tokens[who].attempts == attempt
                    && self.tokens[who].state == TokenState::Waits =>
                {
                    let ask = self.tokens[who].request_id();
                    let request = &RequestDigest::of(&self.tokens[who].holder, &ask);
                    let key = &self.tokens[who].key;
                    let mut has_place = false;
                    self.judge(|judge| has_place = judge.has_place(key, request));
                    if had_place
                        && has_place
                        && matches!(error, Error::Frozen { .. } | Error::QueueFull { .. })
                    {
                        let name = self.tokens[who].name.clone();
                        self.is_wrong(format!(
                            "{name} has its place, and is refused: {}",
                            error.name()
                        ));
                    }
                    self.end_token(who);
                }
                _ => {}
            },
            (Call::Release(who), _) => self.end_token(who),
            (Call::Reap(execution), Answer::Done(Err(_))) => {
                // What failed is sent again.
                self.service(|starts| starts.events.push(execution));
            }
            (Call::Redriven(execution), Answer::Looked(Err(_), _)) => {
                self.service(|starts| starts.redriven.push(execution));
            }
            (
                call @ (Call::Sweep(_) | Call::Force),
                Answer::Done(Err(error @ (Error::Denied { .. } | Error::Misconfigured { .. })))
                | Answer::Looked(
                    Err(error @ (Error::Denied { .. } | Error::Misconfigured { .. })),
                    _,
                ),
            ) => {
                let whole = if matches!(call, Call::Sweep(_)) {
                    "the whole sweep"
                } else {
                    "a forced release"
                };
                self.is_wrong(format!("{whole} is denied: {}", error.name()));
            }
            (Call::Sweep(at), Answer::Looked(Ok(true), _)) => self.swept_at = self.swept_at.max(at),
            (Call::Sweep(_), Answer::Looked(Err(error), _)) if faults_are_over => {
                self.is_wrong(format!("a sweep fails: {error}"));
            }
            _ => {}
        }
    }

    fn start_is_answered(&mut self, call: Call, answer: &Result<Started, Error>, now: u64) {
        let Call::Start {
            who,
            had_place,
            puts,
            token,
        } = call
        else {
            return;
        };
        if let Some(token) = token {
            self.task_call_is_over(who, &token, answer.is_ok());
        }
        self.judge(|judge| {
            let record = &judge.starts[who];
            let has_place = judge.has_place(&record.start.key, &record.request);
            // It was stored again by other calls, once more than by this one.
            let is_stale = had_place && record.status.is_none() || record.puts > puts + 1;
            judge.answered(who, answer, (had_place && has_place, is_stale), now);
        });
    }

    pub fn is_wrong(&self, what: String) {
        self.judge(|judge| judge.wrong.push(what));
    }

    pub fn row(&self, key: usize, permit: u16) -> Stored {
        let address = Address {
            key: self.keys[key].clone(),
            permit,
        };
        at_once(self.memory.read_row(&address, Duration::MAX)).expect("memory does not fail")
    }
}

fn permits_of(n: u16) -> Permits {
    Permits::new(n).expect("valid")
}

async fn redrive_with_key(
    queue: &Queue<FaultyStore>,
    shared: &Shared,
    execution: &Holder,
    request: RequestId,
) -> Result<(), Error> {
    let keys = queue.keys_of(execution).await?;
    let mut asked_at = None;
    for terms in &keys {
        let again = queue.acquire_again(execution, terms, request.clone());
        let Ok(granted) = again.await? else {
            return Ok(());
        };
        asked_at.get_or_insert(shared.get().now);
        drop(
            queue
                .extend(&granted.lease, ExtendOptions::default())
                .await?,
        );
    }
    let mut shared = shared.get();
    // Nobody redrives what was proven long ago.
    let in_time = asked_at.is_some_and(|at| shared.now < at + 10_000);
    if in_time && shared.redrive(execution) {
        shared.judge(|judge| judge.is_guarded(execution));
    }
    Ok(())
}

/// How many executions it counted as redriven beside others.
fn unguarded(counts: &Counts) -> u64 {
    let of = |(metric, _): &(Metric, u64)| *metric == Metric::UnguardedRedrives;
    counts.values().find(of).map_or(0, |(_, count)| count)
}

/// When a message that is under way arrives at the latest.
fn latest((since, delayed): &(u64, Delayed)) -> u64 {
    match delayed {
        Delayed::Signed(_) => since + SIGNATURE,
        Delayed::Write(_) | Delayed::Call(..) => since + 5_000,
    }
}

fn word(started: &Started) -> &'static str {
    match started {
        Started::Started { .. } => "started",
        Started::Queued { .. } => "queued",
        Started::Skipped { .. } => "skipped",
        Started::Superseded { .. } => "superseded",
    }
}
