//! What is known of the run so far: every fact in the order it was heard, put in its place.

use super::facts::{Fact, Grant, Pass, Previous, What};
use super::plan::{Part, Role};

/// The whole run.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// When the run began, in milliseconds since the epoch.
    pub(super) began: u64,
    pub(super) executions: Vec<Execution>,
    /// One per fencing token, in the order in which their holders learnt of them.
    pub(super) holds: Vec<Hold>,
    /// What the steps showed to the resource.
    pub(super) passes: Vec<Pass>,
    /// Leases that sweep freed.
    pub(super) swept: u64,
    /// Errors of functions that nothing in the demo asks for. The machines' Retry is made for them, so they are
    /// told and not held against anybody.
    pub(super) failures: Vec<String>,
    /// Invocations that went by unseen: what is judged without them may be too good.
    pub(super) missed: u64,
}

/// An execution, and its way to a lease.
#[derive(Clone, Debug)]
pub(super) struct Execution {
    pub(super) name: String,
    pub(super) arn: String,
    pub(super) key: &'static str,
    pub(super) machine: &'static str,
    pub(super) part: Part,
    pub(super) expected_status: &'static str,
    pub(super) started: Option<u64>,
    /// When it first asked for the lease.
    pub(super) asked: Option<u64>,
    /// When it was told that somebody else holds it.
    pub(super) refusals: Vec<u64>,
    /// Name or ARN of whom it was told to wait for last.
    pub(super) waits_for: String,
    pub(super) stopped: Option<u64>,
    pub(super) ended: Option<u64>,
    pub(super) status: String,
    pub(super) error: Option<String>,
    /// Processes that were killed while they worked for it.
    pub(super) deaths: Vec<Death>,
    /// Writes that the resource refused: when, and by which error name.
    pub(super) refused_writes: Vec<(u64, String)>,
    /// Ends of its guarded steps, well or not.
    pub(super) steps: usize,
}

/// A process that was killed between request and answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Death {
    pub(super) from: u64,
    pub(super) at: u64,
    pub(super) verb: String,
    pub(super) request_id: String,
}

/// A lease as its holder knew it: from the answer that told of it to the request that gave it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) holder: String,
    pub(super) key: String,
    pub(super) fencing_token: u64,
    /// `new`, `replayed` or `takeover`, as told first.
    pub(super) kind: String,
    pub(super) request_id: String,
    /// The instant the function wrote into the lease.
    pub(super) acquired_at: u64,
    /// When the holder had the answer.
    pub(super) from: u64,
    /// Until when the holder may work, after all extends that were answered.
    pub(super) safe_until: u64,
    /// The deadline as granted.
    pub(super) expires_at: u64,
    /// When the release was asked for, and how it ended.
    pub(super) released: Option<(u64, String)>,
    pub(super) extends: Vec<u64>,
    pub(super) previous: Option<Previous>,
}

impl Hold {
    /// When the holder stopped to count on it: as it asked for the release, or at `safe_until`.
    pub(super) fn until(&self) -> u64 {
        self.released
            .as_ref()
            .map_or(self.safe_until, |(asked, _)| self.safe_until.min(*asked))
    }
}

impl Record {
    /// A run that begins now, with nobody in it.
    pub(super) const fn new(began: u64) -> Self {
        Self {
            began,
            executions: Vec::new(),
            holds: Vec::new(),
            passes: Vec::new(),
            swept: 0,
            failures: Vec::new(),
            missed: 0,
        }
    }

    /// Announces an execution before it starts, so that no fact about it comes too early.
    pub(super) fn announce(&mut self, role: &Role, arn: String) {
        self.executions.push(Execution {
            name: role.name.clone(),
            arn,
            key: role.key,
            machine: role.machine(),
            part: role.part,
            expected_status: role.expected_status(),
            started: None,
            asked: None,
            refusals: Vec::new(),
            waits_for: String::new(),
            stopped: None,
            ended: None,
            status: "NOT_STARTED".to_owned(),
            error: None,
            deaths: Vec::new(),
            refused_writes: Vec::new(),
            steps: 0,
        });
    }

    /// Seconds since the run began.
    #[allow(clippy::cast_precision_loss)] // Minutes in milliseconds.
    pub(super) fn seconds(&self, at: u64) -> f64 {
        at.saturating_sub(self.began) as f64 / 1000.0
    }

    pub(super) fn execution(&self, arn: &str) -> Option<&Execution> {
        self.executions
            .iter()
            .find(|execution| execution.arn == arn)
    }

    /// The execution's name, for people.
    pub(super) fn name<'a>(&'a self, arn: &'a str) -> &'a str {
        self.execution(arn)
            .map_or(arn, |execution| execution.name.as_str())
    }

    pub(super) fn with_part(&self, part: Part) -> Option<&Execution> {
        self.executions
            .iter()
            .find(|execution| execution.part == part)
    }

    /// The holds of an execution; a section has one.
    pub(super) fn holds_of<'a>(&'a self, arn: &'a str) -> impl Iterator<Item = &'a Hold> {
        self.holds.iter().filter(move |hold| hold.holder == arn)
    }

    /// Who holds a key at an instant, as far as is known.
    pub(super) fn holder_of(&self, key: &str, now: u64) -> Option<&Hold> {
        let on_key = self.holds.iter().rev().filter(|hold| hold.key == key);
        on_key
            .take(1)
            .find(|hold| hold.released.is_none() && hold.safe_until > now)
    }

    /// Takes up a fact.
    pub(super) fn add(&mut self, fact: &Fact) {
        match &fact.what {
            What::Granted(grant) => self.grant(fact, grant),
            What::Extended { safe_until, .. } => {
                if let Some(hold) = self.last_hold(&fact.holder) {
                    hold.extends.push(fact.at);
                    hold.safe_until = hold.safe_until.max(*safe_until);
                }
            }
            What::Released { outcome } => {
                if let Some(hold) = self.last_hold(&fact.holder) {
                    // A repeated release tells nothing new.
                    let first = || (fact.from, outcome.clone());
                    hold.released.get_or_insert_with(first);
                }
            }
            What::Swept { freed } => self.swept += freed,
            What::Stepped { pass, refused } => {
                self.passes.extend(pass.clone());
                if let Some(error) = refused.as_ref().filter(|error| !is_refusal(error)) {
                    self.fail("step", fact, error);
                }
            }
            What::Failed { verb, error } => self.fail(verb, fact, error),
            _ => {}
        }
        let of_fact = |execution: &&mut Execution| execution.arn == fact.holder;
        if let Some(execution) = self.executions.iter_mut().find(of_fact) {
            execution.add(fact);
        }
    }

    fn fail(&mut self, verb: &str, fact: &Fact, error: &str) {
        let name = self.name(&fact.holder);
        self.failures.push(format!("{verb} for {name}: {error}"));
    }

    fn grant(&mut self, fact: &Fact, grant: &Grant) {
        let known = self
            .holds
            .iter()
            .any(|hold| hold.key == grant.key && hold.fencing_token == grant.fencing_token);
        // A replay of what its holder knows already is no second grant. The same token in other hands is one,
        // and a violation that must be seen.
        if known && self.holds_of(&fact.holder).next().is_some() {
            return;
        }
        self.holds.push(Hold {
            holder: fact.holder.clone(),
            key: grant.key.clone(),
            fencing_token: grant.fencing_token,
            kind: grant.kind.clone(),
            request_id: grant.request_id.clone(),
            acquired_at: grant.acquired_at,
            from: fact.at,
            safe_until: grant.safe_until,
            expires_at: grant.expires_at,
            released: None,
            extends: Vec::new(),
            previous: grant.previous.clone(),
        });
    }

    fn last_hold(&mut self, holder: &str) -> Option<&mut Hold> {
        self.holds
            .iter_mut()
            .rev()
            .find(|hold| hold.holder == holder)
    }
}

/// Whether the resource itself has spoken.
fn is_refusal(error: &str) -> bool {
    ["Step.StaleToken", "Step.Overlap"].contains(&error)
}

impl Execution {
    fn add(&mut self, fact: &Fact) {
        let is_acquire = |verb: &str| verb == "acquire";
        match &fact.what {
            What::Started => {
                self.started = Some(fact.at);
                "RUNNING".clone_into(&mut self.status);
            }
            What::Stopped => self.stopped = Some(fact.at),
            What::Ended { status, error } => {
                self.ended = Some(fact.at);
                self.status.clone_from(status);
                self.error.clone_from(error);
            }
            What::Granted(_) => self.ask(fact.from),
            What::Held { by, .. } => {
                self.ask(fact.from);
                self.refusals.push(fact.at);
                self.waits_for.clone_from(by);
            }
            What::Killed { verb, request_id } => {
                if is_acquire(verb) {
                    self.ask(fact.from);
                }
                self.deaths.push(Death {
                    from: fact.from,
                    at: fact.at,
                    verb: verb.clone(),
                    request_id: request_id.clone(),
                });
            }
            What::Stepped {
                pass: Some(_),
                refused,
            } => {
                self.steps += 1;
                let refused = refused.iter().filter(|error| is_refusal(error));
                let late = refused.map(|error| (fact.at, error.clone()));
                self.refused_writes.extend(late);
            }
            _ => {}
        }
    }

    fn ask(&mut self, at: u64) {
        self.asked.get_or_insert(at);
    }
}
