//! A workflow that asks for leases, in line or without waiting, confirms, works, and releases; or
//! comes to grief, and is perhaps redriven.

use std::time::Duration;

use super::{
    ground::{Broken, End, Told},
    tasks::{Answer, Purpose, Task, What},
    witness::{SKEW, Trust, Worker},
    world::{World, at_once},
};
use crate::{
    clock::Timestamp,
    error::Error,
    leases::address_of,
    outcomes::{Acquired, Lease},
    row::Stored,
    sets::AcquiredAll,
    store::Store as _,
    values::{Holder, Key, RequestDigest, RequestId, Ttl, WaitTime},
    workflows::Execution,
};

pub(super) struct Workflow {
    pub(super) name: String,
    pub(super) wants: Wants,
    pub(super) holder: Holder,
    pub(super) request_id: RequestId,
    pub(super) request: RequestDigest,
    pub(super) ttl: Ttl,
    pub(super) wait: WaitTime,
    /// Its functions can call nobody back.
    pub(super) mute: bool,
    pub(super) attempts: u32,
    pub(super) token: Option<String>,
    pub(super) state: State,
    pub(super) leases: Vec<Lease>,
    /// The function that extends or releases for it now.
    pub(super) busy: Option<u32>,
    pub(super) calls: u32,
    pub(super) ended: Option<End>,
    pub(super) redrives: u32,
    /// A task of its ended without the word of its function.
    pub(super) unheard: bool,
    pub(super) served: bool,
    pub(super) came_at: u64,
}

/// What a workflow asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    /// A key, and to wait in line for it.
    InLine(Key),
    /// A key, now or not at all.
    AtOnce(Key),
    /// Several, now or not at all.
    All(Vec<Key>),
    /// One permit of so many.
    Permit(Key, u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// About to ask.
    Asking,
    /// Its task waits for the token, or its function is at work.
    Waiting,
    /// Its turn has come; or it was redriven, and may have lost what it had.
    Woken,
    Holding,
    Releasing,
}

/// How often a workflow asks until it gives up.
const ATTEMPTS: u32 = 5;

/// The longest that a function works on what is leased: what an execution that has ended left at
/// work has come to its end after the grace.
pub(super) const WORK: u64 = 20_000;

impl World {
    pub(super) fn act(&mut self, who: usize, what: What) {
        let workflow = &mut self.workflows[who];
        workflow.calls += 1;
        match what {
            What::Ask => {
                workflow.attempts += 1;
                workflow.state = State::Waiting;
                let token = format!("{}.{}", workflow.name, workflow.attempts);
                workflow.token = Some(token.clone());
                self.ground.get().tokens.insert(token, who);
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
        self.ground
            .get()
            .note(|| format!("{name} sets out to {what:?}, attempt {attempt}"));
        self.start(who, what);
        // Its clock is looked at as it sets out: later calls have later times.
        self.step(self.tasks.len() - 1, None);
    }

    /// It ends, one way or another. A function that works for it goes on.
    pub(super) fn end(&mut self, who: usize, end: End) {
        let at_work = |task: &Task| matches!(task.purpose, Purpose::For(of, ..) if of == who);
        let left = self.works(who) || self.tasks.iter().any(at_work);
        let workflow = &mut self.workflows[who];
        workflow.ended = Some(end);
        workflow.busy = None;
        let all_answered = !left && !workflow.unheard;
        let mut ground = self.ground.get();
        if let Some(token) = workflow.token.take() {
            ground.tokens.remove(&token);
        }
        let standing = Execution::Ended {
            stopped_at: Timestamp::from_millis(ground.now),
            redrivable: end != End::Succeeded,
            all_answered,
        };
        ground.stands(&workflow.holder, standing);
        ground.witness.ended.insert(workflow.request.clone());
        ground.note(|| format!("{} is over: {end:?}", workflow.name));
        drop(ground);
        self.ends.push(who);
    }

    /// It goes on where it ended, and proves first that it has what it had.
    pub(super) fn redrive(&mut self, who: usize) {
        let workflow = &mut self.workflows[who];
        workflow.ended = None;
        workflow.redrives += 1;
        workflow.state = match workflow.state {
            State::Waiting => State::Asking,
            State::Holding => State::Woken,
            state => state,
        };
        let mut ground = self.ground.get();
        ground.stands(&workflow.holder, Execution::Running);
        let now = ground.now;
        ground.witness.redriven(&workflow.request, now);
        ground.saw("redriven");
        ground.note(|| format!("{} is redriven", workflow.name));
    }

    /// What its functions say. Nobody hears those whose task was tried again, or ended.
    pub(super) fn hears(&mut self, who: usize, to: What, call: u32, answer: Answer) {
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
                self.ground.get().saw("a set");
                self.granted(who, granted.leases);
            }
            Answer::Acquired(Ok(Acquired::Held(_)))
            | Answer::AcquiredAll(Ok(AcquiredAll::Held(_))) => self.end(who, End::Failed),
            Answer::Acquired(Err(error)) | Answer::AcquiredAll(Err(error)) => {
                self.asked(who, Err(error));
            }
            Answer::Extended(Ok(extended)) => self.holds(who, extended.leases),
            Answer::Extended(Err(Error::OfSeveral { worst, .. })) => match *worst {
                Error::Lost { key } => {
                    self.ground.get().saw("Lease.Lost");
                    self.lost(who, &key);
                    self.end(who, End::Failed);
                }
                Error::Frozen { .. } => self.end(who, End::Failed),
                worst => self.passing(&worst),
            },
            Answer::Released(Ok(released)) => {
                for (n, outcome) in released.outcomes.into_iter().enumerate() {
                    if outcome == crate::ReleaseOutcome::Lost {
                        let key = self.workflows[who].leases[n].key.clone();
                        self.lost(who, &key);
                    }
                }
                self.end(who, End::Succeeded);
            }
            Answer::Released(Err(Error::OfSeveral { worst, .. })) => self.passing(&worst),
            Answer::Extended(Err(error)) | Answer::Released(Err(error)) => self.passing(&error),
            Answer::Died if to == What::Ask => self.asked(who, Err(super::ground::no_answer())),
            Answer::Died | Answer::Done(_) => {}
        }
    }

    fn asked(&mut self, who: usize, answer: Result<(), Error>) {
        let Err(error) = answer else { return };
        self.ground.get().saw(error.name());
        let tries_again = self.calm || self.patient || !self.dice.one_in(3);
        let workflow = &mut self.workflows[who];
        match error {
            Error::Unavailable { .. } | Error::Throttled { .. }
                if tries_again && (workflow.attempts < ATTEMPTS || self.calm) =>
            {
                // Its task fails, and with it its token; the next one has another.
                workflow.state = State::Asking;
                if let Some(token) = workflow.token.take() {
                    self.ground.get().tokens.remove(&token);
                }
            }
            Error::QueueFull { .. } | Error::Frozen { .. } | Error::Consumed { .. } => {
                self.end(who, End::Failed);
            }
            error => {
                self.passing(&error);
                self.end(who, End::Failed);
            }
        }
    }

    /// Trouble that is gone when one tries again: there is none in calm times.
    pub(super) fn passing(&mut self, error: &Error) {
        if !matches!(error, Error::Unavailable { .. } | Error::Throttled { .. }) || self.calm {
            let problem = error.in_full();
            self.ground.get().wrong(problem);
        }
    }

    /// What its token is answered with.
    pub(super) fn told(&mut self, who: usize, told: Told) {
        let workflow = &mut self.workflows[who];
        if workflow.state != State::Waiting || workflow.ended.is_some() {
            return;
        }
        workflow.token = None;
        let mut ground = self.ground.get();
        match told {
            Ok(output) => {
                let value: serde_json::Value = serde_json::from_str(&output).expect("JSON");
                let lease = serde_json::from_value::<Lease>(value["lease"].clone());
                let lease = lease.expect("a handle");
                let wanted = Wants::InLine(lease.key.clone());
                if lease.holder != workflow.holder || wanted != workflow.wants {
                    ground.wrong("told of a lease of somebody else's");
                }
                workflow.state = State::Woken;
                workflow.leases = vec![lease];
            }
            Err(name) => {
                let in_time = ground.now < workflow.gives_up_at().saturating_sub(2 * SKEW);
                let displaced = ground.witness.was_displaced(&workflow.request);
                match name.as_str() {
                    "Lease.QueueTimeout" if !in_time => {}
                    "Lease.Unavailable" if displaced => {}
                    _ => ground.wrong(format!("{} is told {name}", workflow.name)),
                }
                drop(ground);
                self.end(who, End::Failed);
            }
        }
    }

    /// What a redriven machine is granted it may have had before: then no write tells reap that it runs
    /// again, until it extends.
    fn granted(&mut self, who: usize, leases: Vec<Lease>) {
        let skips = self.ground.get().broken == Some(Broken::ProofSkipped);
        let workflow = &mut self.workflows[who];
        if workflow.redrives > 0 && !skips {
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
    pub(super) fn work(&mut self, who: usize) {
        let ahead = self.ahead();
        let workflow = &self.workflows[who];
        let mut ground = self.ground.get();
        let now = ground.now;
        let trusts = workflow.leases.iter().map(|lease| Trust {
            lease: lease.clone(),
            until: (lease.safe_until.as_millis().saturating_add_signed(-ahead)).min(now + WORK),
        });
        let trusts: Vec<_> = trusts.collect();
        if trusts.iter().any(|trust| trust.until <= now) {
            return;
        }
        ground.note(|| format!("{} works, {ahead} ms ahead", workflow.name));
        let name = match workflow.redrives {
            0 => workflow.name.clone(),
            _ => format!("{} redriven", workflow.name),
        };
        let worker = Worker { who, name, trusts };
        if let Err(problem) = ground.witness.starts(worker, now) {
            ground.wrong(problem);
        }
    }

    /// Whether a function works on what it has leased.
    pub(super) fn works(&self, who: usize) -> bool {
        let ground = self.ground.get();
        ground.witness.is_at_work(who, ground.now)
    }

    /// A lease is over for its holder: then it has to be.
    fn lost(&mut self, who: usize, key: &Key) {
        let of_key = |lease: &&Lease| lease.key == *key;
        let Some(lease) = self.workflows[who].leases.iter().find(of_key) else {
            return;
        };
        // Clocks that differ may have told it another time.
        let stored = at_once(self.memory.read(&address_of(lease), Duration::MAX));
        let expires_at = match &stored.expect("memory does not fail") {
            Stored::Row(row) => row.holding().map(|held| held.expires_at),
            _ => None,
        };
        let mut ground = self.ground.get();
        let by = expires_at.unwrap_or(lease.expires_at);
        if !ground.witness.is_over(lease, by, ground.now) {
            ground.wrong("a lease was lost that is not over");
        }
    }
}

impl Workflow {
    pub(super) fn is_over(&self) -> bool {
        self.ended.is_some()
    }

    pub(super) fn holds_at_leisure(&self) -> bool {
        self.state == State::Holding && self.busy.is_none() && !self.is_over()
    }

    /// When the first of its calls may have said that it gives up.
    fn gives_up_at(&self) -> u64 {
        let wait = u64::try_from(self.wait.as_duration().as_millis()).unwrap_or(u64::MAX);
        self.came_at.saturating_add(wait)
    }
}
