//! A workflow that asks for leases, in the queue or without waiting, works, and releases; or
//! fails, and is perhaps redriven.

use std::time::Duration;

use super::address_of;
use super::{
    oracle::{Belief, SKEW, Worker},
    schedule::one_in,
    shared::{End, TaskResult},
    tasks::{Answer, Task, TaskKind, What},
    world::{Simulation, at_once},
};
use leasehold::{
    Acquired, AcquiredAll, Error, Execution, Holder, KeepTime, Key, Lease, RequestDigest,
    RequestId, Timestamp, Ttl, WaitTime,
    row::{Holding, Stored},
    store::Operations as _,
};

#[expect(clippy::struct_excessive_bools, reason = "a switch each")]
pub struct Workflow {
    pub name: String,
    pub wants: AcquireKind,
    pub holder: Holder,
    pub request_id: RequestId,
    pub request: RequestDigest,
    pub ttl: Ttl,
    pub wait: WaitTime,
    /// Its functions cannot notify anybody.
    pub mute: bool,
    pub keep: KeepTime,
    pub carries_on: bool,
    pub attempts: u32,
    pub token: Option<String>,
    pub state: State,
    pub leases: Vec<Lease>,
    /// The function that extends or releases for it now.
    pub busy: Option<u32>,
    pub calls: u32,
    pub ended: Option<End>,
    pub ended_at: u64,
    pub redrives: u32,
    /// One of its tasks ended without an answer of its function.
    pub unheard: bool,
    pub served: bool,
    pub came_at: u64,
}

/// What a workflow asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcquireKind {
    /// A key, for which it waits in the queue.
    Queued(Key),
    /// A key, now or not at all.
    AtOnce(Key),
    /// Several, now or not at all.
    All(Vec<Key>),
    /// One permit of so many.
    Permit(Key, u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// About to ask.
    Asking,
    /// Its task waits for the token, or its function is at work.
    Waiting,
    /// Its turn has come; or it was redriven, and may have lost what it had.
    Woken,
    Holding,
    Releasing,
    /// It carries on without a lease.
    Without,
}

/// How often a workflow asks until it gives up.
const ATTEMPTS: u32 = 5;

/// The longest that a function works on what is leased: what an execution that has ended left at
/// work has come to its end after the grace.
pub const WORK: u64 = 20_000;

impl Simulation {
    pub fn act(&mut self, who: usize, what: What) {
        let workflow = &mut self.workflows[who];
        workflow.calls += 1;
        match what {
            What::Ask => {
                workflow.attempts += 1;
                workflow.state = State::Waiting;
                let token = format!("{}.{}", workflow.name, workflow.attempts);
                workflow.token = Some(token.clone());
                let holder = workflow.holder.clone();
                self.shared.get().waits(&token, who, &holder);
            }
            What::Extend => workflow.busy = Some(workflow.calls),
            What::Release => {
                workflow.busy = Some(workflow.calls);
                workflow.state = State::Releasing;
            }
        }
        let workflow = &self.workflows[who];
        let name = workflow.name.as_str();
        let attempt = workflow.attempts;
        self.shared
            .get()
            .note(|| format!("{name} sets out to {what:?}, attempt {attempt}"));
        self.start(who, what);
        // Its clock is looked at as it sets out: later calls have later times.
        self.step(self.tasks.len() - 1, None);
    }

    /// Its execution ends, with any status. A function that works for it continues.
    pub fn end(&mut self, who: usize, end: End) {
        let at_work = |task: &Task| matches!(task.purpose, TaskKind::For(of, ..) if of == who);
        let left = self.works(who) || self.tasks.iter().any(at_work);
        let workflow = &mut self.workflows[who];
        workflow.ended = Some(end);
        workflow.busy = None;
        let all_answered = !left && !workflow.unheard;
        let mut shared = self.shared.get();
        workflow.ended_at = shared.now;
        if let Some(token) = workflow.token.take() {
            shared.is_done(&token);
        }
        let standing = Execution::Ended {
            stopped_at: Timestamp::from_millis(shared.now),
            redrivable: end != End::Succeeded,
            all_answered,
        };
        shared.set_execution(&workflow.holder, standing);
        shared.oracle.ended.insert(workflow.request.clone());
        shared.note(|| format!("{} is over: {end:?}", workflow.name));
        drop(shared);
        self.ends.push(who);
    }

    /// It continues where it ended, and first proves that it has its leases.
    pub fn redrive(&mut self, who: usize) {
        let workflow = &mut self.workflows[who];
        let ended = workflow.ended_at;
        workflow.ended = None;
        workflow.redrives += 1;
        // One that had not proven yet what it was redriven to proves it now.
        let had = workflow.state == State::Holding;
        workflow.state = match workflow.state {
            State::Waiting => State::Asking,
            State::Holding => State::Woken,
            state => state,
        };
        let mut shared = self.shared.get();
        shared.set_execution(&workflow.holder, Execution::Running);
        let now = shared.now;
        // Its leases are kept for it.
        if had && workflow.may_go_on(ended, now) {
            workflow.state = State::Holding;
            shared.saw("redriven to what was kept");
        }
        shared.oracle.redriven(&workflow.request, now);
        shared.saw("redriven");
        shared.note(|| format!("{} is redriven", workflow.name));
    }

    /// The answers of its functions. If its task was retried or has ended, nobody receives them.
    pub fn on_response(&mut self, who: usize, to: What, call: u32, answer: Answer) {
        let workflow = &mut self.workflows[who];
        let waits = match to {
            What::Ask => workflow.state == State::Waiting && workflow.calls == call,
            What::Extend | What::Release => workflow.busy == Some(call),
        };
        if !waits || workflow.ended.is_some() {
            return;
        }
        workflow.busy = None;
        workflow.unheard |= matches!(answer, Answer::Died);
        match answer {
            Answer::Queued(queued) => self.asked(who, queued.map(drop)),
            Answer::Acquired(Ok(Acquired::Granted(granted))) => {
                self.granted(who, vec![granted.lease]);
            }
            Answer::AcquiredAll(Ok(AcquiredAll::Granted(granted))) => {
                self.shared.get().saw("a set");
                self.granted(who, granted.leases);
            }
            Answer::Acquired(Ok(Acquired::Held(_)))
            | Answer::AcquiredAll(Ok(AcquiredAll::Held(_))) => self.end(who, End::Failed),
            Answer::Acquired(Err(error)) | Answer::AcquiredAll(Err(error)) => {
                self.asked(who, Err(error));
            }
            Answer::Extended(Ok(extended)) => self.holds(who, extended.leases),
            Answer::Extended(Err(Error::Multiple { worst, .. })) => match *worst {
                Error::Lost { key, .. } => {
                    self.shared.get().saw("Lease.Lost");
                    self.lost(who, &key);
                    self.end(who, End::Failed);
                }
                Error::Frozen { .. } => self.end(who, End::Failed),
                worst => self.passing(&worst),
            },
            Answer::Released(Ok(released)) => {
                for (n, outcome) in released.outcomes.into_iter().enumerate() {
                    if outcome == leasehold::ReleaseOutcome::Lost {
                        let key = self.workflows[who].leases[n].key.clone();
                        self.lost(who, &key);
                    }
                }
                self.end(who, End::Succeeded);
            }
            Answer::Released(Err(Error::Multiple { worst, .. })) => self.passing(&worst),
            Answer::Extended(Err(error)) | Answer::Released(Err(error)) => self.passing(&error),
            Answer::Died if to == What::Ask => self.asked(who, Err(super::shared::no_answer())),
            Answer::Died | Answer::Done(_) => {}
        }
    }

    fn asked(&mut self, who: usize, answer: Result<(), Error>) {
        let Err(error) = answer else { return };
        self.shared.get().saw(error.name());
        let tries_again = self.faults_off || self.patient || !one_in(&mut self.rng, 3);
        let workflow = &mut self.workflows[who];
        match error {
            Error::Unavailable { .. } | Error::Throttled { .. }
                if tries_again && (workflow.attempts < ATTEMPTS || self.faults_off) =>
            {
                // Its task fails, and with it its token; the next one has another.
                workflow.state = State::Asking;
                if let Some(token) = workflow.token.take() {
                    self.shared.get().is_done(&token);
                }
            }
            Error::QueueFull { .. } | Error::Frozen { .. } | Error::Consumed { .. } => {
                self.end(who, End::Failed);
            }
            error if workflow.carries_on && !self.faults_off => {
                self.passing(&error);
                self.carries_on(who);
            }
            error => {
                self.passing(&error);
                self.end(who, End::Failed);
            }
        }
    }

    /// Its task has failed, and it goes on without the lease.
    pub fn carries_on(&mut self, who: usize) {
        let workflow = &mut self.workflows[who];
        workflow.state = State::Without;
        let mut shared = self.shared.get();
        if let Some(token) = workflow.token.take() {
            shared.is_done(&token);
        }
        shared.saw("carries on");
        shared.note(|| format!("{} carries on without", workflow.name));
    }

    /// A fault that a retry removes: there is none in calm times.
    pub fn passing(&mut self, error: &Error) {
        if !matches!(error, Error::Unavailable { .. } | Error::Throttled { .. }) || self.faults_off
        {
            let problem = error.to_string();
            self.shared.get().wrong(problem);
        }
    }

    /// What its token is answered with.
    pub fn task_ended(&mut self, who: usize, result: TaskResult) {
        let workflow = &mut self.workflows[who];
        if workflow.state != State::Waiting || workflow.ended.is_some() {
            return;
        }
        workflow.token = None;
        let mut shared = self.shared.get();
        match result {
            Ok(output) => {
                let value: serde_json::Value = serde_json::from_str(&output).expect("JSON");
                let lease = serde_json::from_value::<Lease>(value["lease"].clone());
                let lease = lease.expect("a handle");
                let wanted = AcquireKind::Queued(lease.key.clone());
                if lease.holder != workflow.holder || wanted != workflow.wants {
                    shared.wrong("it got a lease of somebody else's");
                }
                drop(shared);
                self.granted(who, vec![lease]);
            }
            Err(name) => {
                let in_time = shared.now < workflow.gives_up_at().saturating_sub(2 * SKEW);
                let displaced = shared.oracle.was_displaced(&workflow.request);
                match name.as_str() {
                    "Lease.QueueTimeout" if !in_time => {}
                    "Lease.Unavailable" if displaced => {}
                    // An operator took its lease away before it was told.
                    "Lease.Lost" if shared.oracle.was_spent(&workflow.request) => {}
                    _ => shared.wrong(format!("{} is answered {name}", workflow.name)),
                }
                drop(shared);
                self.end(who, End::Failed);
            }
        }
    }

    /// What a redriven machine is granted it may have had before: then no write tells reap that it runs
    /// again, until it extends.
    fn granted(&mut self, who: usize, leases: Vec<Lease>) {
        let workflow = &mut self.workflows[who];
        if workflow.redrives > 0 {
            workflow.state = State::Woken;
            workflow.leases = leases;
        } else {
            self.holds(who, leases);
        }
    }

    fn holds(&mut self, who: usize, leases: Vec<Lease>) {
        let workflow = &mut self.workflows[who];
        workflow.state = State::Holding;
        workflow.token = None;
        workflow.served = true;
        workflow.leases = leases;
        self.work(who);
    }

    /// One more function starts to work for it, if the leases last by that one's clock: a later step,
    /// or a branch beside the others.
    pub fn work(&mut self, who: usize) {
        let ahead = self.ahead();
        let workflow = &self.workflows[who];
        let mut shared = self.shared.get();
        let now = shared.now;
        let beliefs = workflow.leases.iter().map(|lease| Belief {
            lease: lease.clone(),
            until: (lease.safe_until().as_millis().saturating_add_signed(-ahead)).min(now + WORK),
        });
        let beliefs: Vec<_> = beliefs.collect();
        if beliefs.iter().any(|belief| belief.until <= now) {
            return;
        }
        shared.note(|| format!("{} works, {ahead} ms ahead", workflow.name));
        let name = match workflow.redrives {
            0 => workflow.name.clone(),
            _ => format!("{} redriven", workflow.name),
        };
        let worker = Worker { who, name, beliefs };
        if let Err(problem) = shared.oracle.starts(worker, now) {
            shared.wrong(problem);
        }
    }

    /// Whether a function works on what it has leased.
    pub fn works(&self, who: usize) -> bool {
        let shared = self.shared.get();
        shared.oracle.is_at_work(who, shared.now)
    }

    /// A lease is over for its holder: then it has to be.
    fn lost(&mut self, who: usize, key: &Key) {
        let of_key = |lease: &&Lease| lease.key == *key;
        let Some(lease) = self.workflows[who].leases.iter().find(of_key) else {
            return;
        };
        // Clocks that differ may have shown it another time.
        let stored = at_once(self.memory.read_row(&address_of(lease), Duration::MAX));
        let expires_at = match &stored.expect("memory does not fail") {
            Stored::Row(row) => row.holding().map(Holding::expires_at),
            _ => None,
        };
        let mut shared = self.shared.get();
        let by = expires_at.unwrap_or_else(|| lease.expires_at());
        if !shared.oracle.is_over(lease, by, shared.now) {
            shared.wrong("a lease was lost that is not over");
        }
    }
}

impl Workflow {
    pub fn is_over(&self) -> bool {
        self.ended.is_some()
    }

    /// Whether it may go on after a redrive without a proof: it asked to keep its lease for longer than that.
    fn may_go_on(&self, ended: u64, now: u64) -> bool {
        let keep = self.keep.as_millis();
        keep > 0 && matches!(self.wants, AcquireKind::Queued(_)) && now <= ended + keep
    }

    pub fn holds_at_leisure(&self) -> bool {
        self.state == State::Holding && self.busy.is_none() && !self.is_over()
    }

    /// When the first of its calls may have said that it gives up.
    fn gives_up_at(&self) -> u64 {
        let wait = u64::try_from(self.wait.as_duration().as_millis()).unwrap_or(u64::MAX);
        self.came_at.saturating_add(wait)
    }
}
