//! Step Functions, as far as it starts and stops executions: what it knows, and what it refuses.

use fastrand::Rng;

use super::{
    super::shared::{End, Environment},
    judge::Judge,
};
use leasehold::{Begun, Cause, Error, Execution, Holder, Redrives, Stands, Timestamp};
use std::collections::BTreeMap;

/// How long a signed request is good.
pub const SIGNATURE: u64 = 300_000;

/// How long after its end an execution can be redriven: two weeks.
pub const REDRIVABLE: u64 = 1_209_600_000;

/// The machine that comes and goes.
pub const FICKLE: &str = "fickle";

/// What a simulation of starts has beside the others.
pub struct Starts {
    pub judge: Judge,
    pub chance: Rng,
    /// The input of each execution that has begun.
    inputs: BTreeMap<String, String>,
    /// The machine is deleted, or nobody may start it.
    pub gone: bool,
    /// What nobody may do with it.
    pub denied: Vec<&'static str>,
    /// Whose ends are to be reported.
    pub events: Vec<Holder>,
    /// When each execution was redriven.
    redrives: BTreeMap<String, Vec<u64>>,
    /// Whose redrives are to be reported.
    pub redriven: Vec<Holder>,
}

impl Starts {
    pub fn new(judge: Judge, chance: Rng) -> Self {
        Self {
            judge,
            chance,
            inputs: BTreeMap::new(),
            gone: false,
            denied: Vec::new(),
            events: Vec::new(),
            redrives: BTreeMap::new(),
            redriven: Vec::new(),
        }
    }
}

fn is_fickle(execution: &str) -> bool {
    execution.contains(FICKLE)
}

impl Environment {
    /// Whether a call about this execution is allowed.
    pub fn may(&mut self, action: &'static str, execution: &str) -> Result<(), Error> {
        let Some(starts) = &self.starts else {
            return Ok(());
        };
        if !(is_fickle(execution) && starts.denied.contains(&action)) {
            return Ok(());
        }
        self.note(|| format!("  {action}: denied"));
        self.saw("denied");
        Err(Error::Denied {
            action,
            resource: execution.to_owned(),
            source: Cause::of(&std::io::Error::other("AccessDeniedException")),
        })
    }

    pub fn input_of(&self, execution: &Holder) -> Option<String> {
        let inputs = &self.starts.as_ref()?.inputs;
        inputs.get(execution.as_str()).cloned()
    }

    /// A call of `StartExecution` takes effect, once for each name.
    pub fn begin(&mut self, execution: &Holder, input: &str) -> Result<Begun, Error> {
        self.may("StartExecution", execution.as_str())?;
        let Some(starts) = &mut self.starts else {
            return Ok(Begun::NameInUse);
        };
        if is_fickle(execution.as_str()) && starts.gone {
            self.note(|| "  StartExecution: refused".to_owned());
            self.saw("refused");
            return Ok(Begun::Refused("StateMachineDoesNotExist".to_owned()));
        }
        if let Some(known) = starts.inputs.get(execution.as_str()) {
            let same = known == input;
            let runs = self.status(execution.as_str(), 0) == Some(Execution::Running);
            return Ok(if same && runs {
                Begun::Began
            } else {
                Begun::NameInUse
            });
        }
        starts
            .inputs
            .insert(execution.as_str().to_owned(), input.to_owned());
        self.set_execution(execution, Execution::Running);
        self.note(|| format!("  {execution} begins"));
        self.saw("begins");
        self.judge(|judge| judge.begins(execution));
        Ok(Begun::Began)
    }

    /// An execution is redriven, if that is possible; its leases know nothing of it.
    pub fn redrive(&mut self, execution: &Holder) -> bool {
        let now = self.now;
        let Some(redrives) = self.redrives_of(execution, 0) else {
            return false;
        };
        if redrives.stands != Stands::Redrivable {
            return false;
        }
        self.set_execution(execution, Execution::Running);
        self.saw("redriven");
        self.note(|| format!("  {execution} is redriven"));
        if let Some(starts) = &mut self.starts {
            let of_it = starts.redrives.entry(execution.as_str().to_owned());
            of_it.or_default().push(now);
            starts.redriven.push(execution.clone());
        }
        self.judge(|judge| judge.redriven(execution, now));
        true
    }

    /// How an execution stood as to redrives so many milliseconds ago.
    pub fn redrives_of(&self, execution: &Holder, ago: u64) -> Option<Redrives> {
        let stands = match self.status(execution.as_str(), ago)? {
            Execution::Running => Stands::Runs,
            Execution::Ended {
                stopped_at,
                redrivable: true,
                ..
            } if self.now < stopped_at.as_millis() + ago + REDRIVABLE => Stands::Redrivable,
            _ => Stands::Final,
        };
        let all = self.starts.as_ref()?.redrives.get(execution.as_str());
        let known = all.into_iter().flatten();
        let known: Vec<_> = known.filter(|at| **at + ago <= self.now).collect();
        Some(Redrives {
            stands,
            count: u32::try_from(known.len()).expect("few"),
            at: known.last().map(|at| Timestamp::from_millis(**at)),
        })
    }

    /// An execution ends, if it runs. Its history proves that nothing of it is at work, or does not.
    pub fn end(&mut self, execution: &Holder, end: End, proven: bool) {
        if self.status(execution.as_str(), 0) != Some(Execution::Running) {
            return;
        }
        let now = self.now;
        let success = end == End::Succeeded;
        let standing = Execution::Ended {
            stopped_at: Timestamp::from_millis(now),
            redrivable: !success,
            all_answered: proven,
        };
        self.set_execution(execution, standing);
        let proof = if proven { "" } else { ", without a proof" };
        self.note(|| format!("  {execution} ends: {end:?}{proof}"));
        self.judge(|judge| judge.ends(execution, proven, success, now));
        if let Some(starts) = &mut self.starts {
            starts.events.push(execution.clone());
        }
    }
}
