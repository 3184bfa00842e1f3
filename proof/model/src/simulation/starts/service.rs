//! Step Functions, as far as it starts and stops executions: what it knows, and what it refuses.

use fastrand::Rng;

use super::{
    super::shared::{End, Environment},
    judge::Judge,
};
use leasehold::{Begun, Cause, Error, Execution, Holder, Timestamp};
use std::collections::BTreeMap;

/// How long a signed request is good.
pub const SIGNATURE: u64 = 300_000;

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
