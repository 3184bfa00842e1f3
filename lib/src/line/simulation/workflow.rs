//! A workflow that waits in line, confirms, works, and releases; or asks without waiting.

use super::{
    ground::{EndOf, Told},
    tasks::{Answer, What},
    witness::SKEW,
    world::World,
};
use crate::{
    error::Error,
    outcomes::{Acquired, Lease},
    values::{Holder, Key, RequestDigest, RequestId, Ttl, WaitTime},
};

#[expect(clippy::struct_excessive_bools, reason = "a model says what is so")]
pub(super) struct Workflow {
    pub(super) name: String,
    pub(super) key: Key,
    pub(super) holder: Holder,
    pub(super) request_id: RequestId,
    pub(super) request: RequestDigest,
    pub(super) ttl: Ttl,
    pub(super) wait: WaitTime,
    /// Waits in line; the others ask once and go away.
    pub(super) in_line: bool,
    /// Its functions can call nobody back.
    pub(super) mute: bool,
    /// How far its own clock is ahead.
    pub(super) ahead: i64,
    pub(super) attempts: u32,
    pub(super) token: Option<String>,
    pub(super) state: State,
    pub(super) lease: Option<Lease>,
    /// A function works for it.
    pub(super) busy: bool,
    /// By the true time.
    pub(super) believes_until: u64,
    pub(super) served: bool,
    pub(super) came_at: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// About to ask.
    Asking,
    /// Its task waits for the token, or its function is at work.
    Waiting,
    /// Its turn has come.
    Woken,
    Holding,
    Releasing,
    Over,
}

/// How often a workflow asks until it gives up.
const ATTEMPTS: u32 = 5;

impl World {
    pub(super) fn act(&mut self, who: usize, what: What) {
        let workflow = &mut self.workflows[who];
        match what {
            What::Ask => {
                workflow.attempts += 1;
                workflow.state = State::Waiting;
                let token = format!("{}.{}", workflow.name, workflow.attempts);
                workflow.token = Some(token.clone());
                self.ground.get().tokens.insert(token, who);
            }
            What::Extend => workflow.busy = true,
            What::Release => {
                workflow.busy = true;
                workflow.state = State::Releasing;
                workflow.believes_until = 0;
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

    /// It ends, one way or another.
    pub(super) fn end(&mut self, who: usize, end: EndOf) {
        let grace = u64::try_from(self.settings.reap_grace.as_millis()).unwrap_or(0);
        let workflow = &mut self.workflows[who];
        workflow.state = State::Over;
        let mut ground = self.ground.get();
        workflow.believes_until = match end {
            EndOf::Force => workflow.believes_until.min(ground.now + grace),
            EndOf::Success | EndOf::Failure => 0,
        };
        if let Some(token) = workflow.token.take() {
            ground.tokens.remove(&token);
        }
        let name = workflow.holder.as_str();
        ground.running.remove(name);
        let over = (ground.now, end != EndOf::Force);
        ground.over.insert(name.to_owned(), over);
        ground.witness.ended.insert(workflow.request.clone());
        ground.note(|| format!("{} is over: {end:?}", workflow.name));
        drop(ground);
        self.ends.push((who, end));
    }

    /// What its functions say.
    pub(super) fn hears(&mut self, who: usize, to: What, attempt: u32, answer: Answer) {
        self.workflows[who].busy &= to == What::Ask;
        let state = self.workflows[who].state;
        match answer {
            _ if state == State::Over => {}
            Answer::Queued(queued) => {
                if state == State::Waiting && self.workflows[who].attempts == attempt {
                    self.asked(who, queued.map(drop));
                }
            }
            Answer::Acquired(Ok(Acquired::Granted(granted))) => self.holds(who, granted.lease),
            Answer::Acquired(Err(error)) => self.asked(who, Err(error)),
            Answer::Extended(Ok(extended)) => self.holds(who, extended.into_lease()),
            Answer::Extended(Err(Error::Lost { .. })) => {
                self.ground.get().saw("Lease.Lost");
                self.lost(who);
                self.end(who, EndOf::Failure);
            }
            Answer::Acquired(Ok(Acquired::Held(_)))
            | Answer::Extended(Err(Error::Frozen { .. })) => self.end(who, EndOf::Failure),
            Answer::Released(Ok(released)) => {
                if released.outcome == crate::ReleaseOutcome::Lost {
                    self.lost(who);
                }
                self.end(who, EndOf::Success);
            }
            Answer::Died if state == State::Waiting && to == What::Ask => {
                if self.workflows[who].attempts == attempt {
                    self.asked(who, Err(super::ground::no_answer()));
                }
            }
            Answer::Extended(Err(error)) | Answer::Released(Err(error)) => self.passing(&error),
            Answer::Died | Answer::Done(_) => {}
        }
    }

    fn asked(&mut self, who: usize, answer: Result<(), Error>) {
        let Err(error) = answer else { return };
        self.ground.get().saw(error.name());
        let workflow = &mut self.workflows[who];
        match error {
            Error::Unavailable { .. } | Error::Throttled { .. }
                if workflow.attempts < ATTEMPTS || self.calm =>
            {
                // Its task fails, and with it its token; the next one has another.
                workflow.state = State::Asking;
                if let Some(token) = workflow.token.take() {
                    self.ground.get().tokens.remove(&token);
                }
            }
            Error::QueueFull { .. } | Error::Frozen { .. } | Error::Consumed { .. } => {
                self.end(who, EndOf::Failure);
            }
            error => {
                self.passing(&error);
                self.end(who, EndOf::Failure);
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
        if workflow.state != State::Waiting {
            return;
        }
        workflow.token = None;
        let mut ground = self.ground.get();
        match told {
            Ok(output) => {
                let value: serde_json::Value = serde_json::from_str(&output).expect("JSON");
                let lease = serde_json::from_value::<Lease>(value["lease"].clone());
                let lease = lease.expect("a handle");
                if lease.holder != workflow.holder || lease.key != workflow.key {
                    ground.wrong("told of a lease of somebody else's");
                }
                workflow.state = State::Woken;
                workflow.lease = Some(lease);
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
                self.end(who, EndOf::Failure);
            }
        }
    }

    fn holds(&mut self, who: usize, lease: Lease) {
        let now = self.ground.get().now;
        let until = lease.safe_until.as_millis();
        let workflow = &mut self.workflows[who];
        if workflow.state != State::Releasing {
            workflow.state = State::Holding;
            workflow.believes_until = until.saturating_add_signed(-workflow.ahead);
            workflow.served = true;
        }
        workflow.lease = Some(lease);
        let until = workflow.believes_until;
        let (own, all) = (&self.workflows[who], &self.workflows);
        let mut ground = self.ground.get();
        let evicted = |workflow: &Workflow| {
            let lease = workflow.lease.as_ref();
            lease.is_some_and(|lease| ground.witness.was_evicted(lease.lease_id.expose()))
        };
        let rival = all.iter().enumerate().find(|(other, rival)| {
            let believes = rival.believes_until > now && rival.key == own.key;
            believes && *other != who && !evicted(rival)
        });
        if let Some((_, rival)) = rival.filter(|_| until > now && !evicted(own)) {
            let problem = format!("{} believes that it holds it, too", rival.name);
            ground.wrong(problem);
        }
    }

    /// A lease is over for its holder: then it has to be.
    fn lost(&mut self, who: usize) {
        let mut ground = self.ground.get();
        let lease = self.workflows[who].lease.as_ref();
        if !lease.is_some_and(|lease| ground.witness.is_over(lease.lease_id.expose())) {
            ground.wrong("a lease was lost that is not over");
        }
    }
}

impl Workflow {
    /// When the first of its calls may have said that it gives up.
    fn gives_up_at(&self) -> u64 {
        let wait = u64::try_from(self.wait.as_duration().as_millis()).unwrap_or(u64::MAX);
        self.came_at.saturating_add(wait)
    }
}
