//! The simulation: its tables, functions and workflows, its time, and how it comes to rest.

use std::{sync::Arc, time::Duration};

use super::first_of;
use super::{
    oracle::SKEW,
    shared::{Broken, Delayed, End, START, Shared},
    store::FaultyStore,
    tasks::{Command, Task, TaskKind, What},
    workflow::{AcquireKind, State, WORK, Workflow},
};
use fastrand::Rng;
use leasehold::{
    Counter, Execution, Holder, KeepTime, Key, RequestDigest, RequestId, Settings, Ttl, WaitTime,
    row::{Item, Row, Stored},
    store::{Address, Memory, Operations as _, ScanSegment, Store as _},
};

pub struct Simulation {
    pub shared: Shared,
    pub memory: Memory,
    pub rng: Rng,
    pub settings: Settings,
    pub clocks_differ: bool,
    /// A machine that gets an error retries; the others may fail.
    pub patient: bool,
    /// How old an answer of Step Functions about an execution may be.
    pub stale: u64,
    /// No more faults.
    pub faults_off: bool,
    pub keys: Vec<Key>,
    pub workflows: Vec<Workflow>,
    pub tasks: Vec<Task>,
    /// Status events under way.
    pub ends: Vec<usize>,
    pub backup: Option<Vec<(String, String, Item)>>,
}

/// No function runs longer, and no message of it stays under way longer.
pub const LIFE: u64 = 10_000;

/// An answer of Step Functions about an execution is at most this old.
pub const STALE: u64 = 30_000;

/// What a new workflow is like.
pub struct Plan {
    pub wants: AcquireKind,
    /// Of a lease that does not last as long as its execution.
    pub ttl: u64,
    pub wait: u64,
    pub mute: bool,
    /// For how long a lease is to be kept for a redrive, which then need not prove it.
    pub keep: u64,
    /// It carries on without the lease if it cannot have it.
    pub carries_on: bool,
}

impl Simulation {
    pub fn new(seed: u64, keys: usize, broken: Option<Broken>) -> Self {
        let shared = Shared::default();
        shared.get().now = START;
        shared.get().broken = broken;
        let mut settings = Settings::default();
        settings.reap_grace = Duration::from_millis(WORK);
        let named = |n| Key::new(format!("key {n}")).expect("valid");
        Self {
            shared,
            memory: Memory::new(),
            rng: Rng::with_seed(seed),
            settings,
            clocks_differ: false,
            patient: true,
            stale: 0,
            faults_off: false,
            keys: (0..keys).map(named).collect(),
            workflows: Vec::new(),
            tasks: Vec::new(),
            ends: Vec::new(),
            backup: None,
        }
    }

    /// One more workflow, about to ask.
    pub fn enter(&mut self, plan: Plan) -> usize {
        let name = format!("w{}", self.workflows.len());
        let machine = "arn:aws:states:eu-west-1:123456789012:execution:machine";
        let holder = Holder::new(format!("{machine}:{name}")).expect("valid");
        let request_id = RequestId::new("ask").expect("valid");
        let request = RequestDigest::of(&holder, &request_id);
        let mut shared = self.shared.get();
        shared.set_execution(&holder, Execution::Running);
        shared.oracle.names.insert(request.clone(), name.clone());
        self.workflows.push(Workflow {
            name,
            wants: plan.wants,
            holder,
            request_id,
            request,
            ttl: Ttl::new(Duration::from_millis(plan.ttl)).expect("valid"),
            wait: WaitTime::new(Duration::from_millis(plan.wait)).expect("valid"),
            mute: plan.mute,
            keep: KeepTime::new(Duration::from_millis(plan.keep)).expect("valid"),
            carries_on: plan.carries_on,
            attempts: 0,
            token: None,
            state: State::Asking,
            leases: Vec::new(),
            busy: None,
            calls: 0,
            ended: None,
            ended_at: 0,
            redrives: 0,
            unheard: false,
            served: false,
            came_at: shared.now,
        });
        drop(shared);
        self.workflows.len() - 1
    }

    /// Time passes. Whatever has been under way for too long ends.
    pub fn jump(&mut self, millis: u64) {
        let now = {
            let mut shared = self.shared.get();
            shared.now += millis;
            shared.now
        };
        while let Some(place) = self.tasks.iter().position(|t| t.since + LIFE < now) {
            self.kill(place);
        }
        let fresh = |(at, _): &(u64, Delayed)| *at + LIFE >= now;
        self.shared.get().delayed.retain(fresh);
    }

    /// A message arrives after its sender has given up on it.
    pub fn arrive(&mut self, place: usize) {
        let delayed = {
            let mut shared = self.shared.get();
            shared.actor = "late".to_owned();
            shared.delayed.remove(place).1
        };
        match delayed {
            Delayed::Write(arrives) => arrives(&self.table()),
            Delayed::Call(token, result) => {
                let _ = self.shared.answer(&token, result);
            }
            Delayed::Signed(arrives) => arrives(&self.shared),
        }
        let results = std::mem::take(&mut self.shared.get().results);
        for (who, result) in results {
            self.task_ended(who, result);
        }
    }

    pub fn table(&self) -> FaultyStore {
        FaultyStore {
            memory: self.memory.clone(),
            shared: self.shared.clone(),
            ill: Arc::default(),
            index: None,
        }
    }

    pub fn row(&self, key: &Key) -> Stored {
        at_once(self.memory.read_row(&first_of(key), Duration::MAX)).expect("memory does not fail")
    }

    /// Every row of every key.
    pub fn rows(&self) -> Vec<(Address, Row)> {
        let of_key = |key: &Key| at_once(self.memory.read_key(key, Duration::MAX));
        let mut all = Vec::new();
        for key in &self.keys {
            for (permit, stored) in of_key(key).expect("memory does not fail") {
                let key = key.clone();
                if let Stored::Row(row) = stored {
                    all.push((Address { key, permit }, row));
                }
            }
        }
        all
    }

    /// From now on every function that starts has a floor for the tokens: now, as after a restore.
    pub fn deploy_a_floor(&mut self) {
        let mut shared = self.shared.get();
        let floor = shared.now + SKEW;
        shared.saw("a floor");
        shared.note(|| format!("deployed with the floor {}", floor % 1_000_000));
        // Functions at work keep their earlier settings.
        let in_force = shared.now + LIFE + 1;
        shared.oracle.floor(in_force, floor);
        self.settings.token_floor = Counter::new(floor).expect("small");
    }

    /// The table is set back to the backup, when all have stopped and all clocks are past what was
    /// written; and a floor is deployed.
    pub fn restore(&mut self) {
        let Some(backup) = self.backup.take() else {
            self.backup = Some(self.memory.all());
            return;
        };
        for who in 0..self.workflows.len() {
            if !self.workflows[who].is_over() {
                self.end(who, End::Stopped);
            }
        }
        self.shared.get().delayed.clear();
        self.jump(LIFE + WORK);
        self.jump(1);
        self.memory = Memory::new();
        for (pk, sk, item) in backup {
            self.memory.put_at(&pk, &sk, &item);
        }
        let mut rows = Vec::new();
        for (address, row) in self.rows() {
            let waiter =
                |request| at_once(self.memory.token_item(&address.key, request, Duration::MAX));
            let waiters = row
                .waiting()
                .iter()
                .filter_map(|r| waiter(r).expect("no failure"));
            rows.push((address.clone(), row.clone(), waiters.collect()));
        }
        let mut shared = self.shared.get();
        shared.actor = "operator".to_owned();
        shared.saw("restored");
        shared.note(|| "the table is restored".to_owned());
        shared.oracle.restored(rows);
        drop(shared);
        self.deploy_a_floor();
    }

    pub fn wrong(&self) -> Option<String> {
        self.shared.get().oracle.wrong.clone()
    }

    /// Everybody at work comes to an end, one after the other.
    pub fn finish(&mut self) {
        while !self.tasks.is_empty() && self.wrong().is_none() {
            self.step(0, None);
            let sleeps_until = self.shared.get().sleeps_until.take();
            if let Some(until) = sleeps_until {
                let now = self.shared.get().now;
                self.jump(until - now);
            }
        }
    }

    /// All faults end: everybody finishes, and sweep runs.
    pub fn settle(&mut self) {
        self.finish();
        self.faults_off = true;
        while !self.shared.get().delayed.is_empty() {
            self.arrive(0);
        }
        for key in self.keys.clone() {
            self.operate(key, Command::Unfreeze);
        }
        for _ in 0..ROUNDS {
            self.finish();
            if self.wrong().is_some() || (self.is_over() && self.unrest().is_none()) {
                return;
            }
            for who in 0..self.workflows.len() {
                self.go_on(who);
            }
            self.finish();
            self.jump(3 * LIFE);
            self.sweep();
        }
        let waits = self.workflows.iter().find(|w| !w.is_over());
        let problem = match (waits, self.unrest()) {
            (Some(w), _) => format!("{} never came to an end: {:?}", w.name, w.state),
            (None, unrest) => unrest.unwrap_or_default(),
        };
        self.shared.get().wrong(problem);
    }

    /// The steps of a workflow without faults.
    pub fn go_on(&mut self, who: usize) {
        let workflow = &self.workflows[who];
        let what = match workflow.state {
            _ if workflow.busy.is_some() || workflow.is_over() => return,
            State::Asking => What::Ask,
            State::Woken => What::Extend,
            // It releases leases that nobody works under any more.
            State::Holding | State::Releasing if self.works(who) => {
                return self.shared.get().oracle.stop(who);
            }
            State::Holding | State::Releasing => What::Release,
            State::Without => return self.end(who, End::Succeeded),
            State::Waiting => return,
        };
        self.act(who, what);
    }

    pub fn is_over(&self) -> bool {
        self.workflows.iter().all(Workflow::is_over)
    }

    /// Whatever the index has, by key.
    pub fn index(&self) -> Vec<Key> {
        let segment = ScanSegment {
            segment: 0,
            total: 1,
        };
        let page = at_once(self.memory.scan(segment, None, 100, Duration::MAX));
        let entries = page.expect("memory does not fail").entries.into_iter();
        let keys = entries.map(|entry| {
            let address = entry.address.expect("nobody else writes here");
            address.key().expect("no rules").clone()
        });
        keys.collect()
    }

    /// What is left behind, if anything.
    fn unrest(&self) -> Option<String> {
        for (Address { key, .. }, row) in self.rows() {
            if row.holding().is_some() || row.head().is_some() {
                return Some(format!("{key} is not free for anybody"));
            }
        }
        let left = self.index().len();
        (left > 0).then(|| format!("{left} items are left of those who waited"))
    }

    pub fn is_at_work(&self, purpose: &TaskKind) -> bool {
        self.tasks.iter().any(|task| task.purpose == *purpose)
    }

    pub fn sweeps(&self) -> bool {
        let sweeps = |task: &Task| matches!(task.purpose, TaskKind::Sweep(..));
        self.tasks.iter().any(sweeps)
    }
}

/// Of half a minute each, if it takes so many: the longest wait, the longest lease after it, the longest pause between two looks, and some.
const ROUNDS: u64 = 150;

/// What a future comes to that waits for nothing.
pub fn at_once<T>(future: impl Future<Output = T>) -> T {
    use futures_util::FutureExt as _;
    future.now_or_never().expect("nothing to wait for")
}
