//! A section of a definition: its members, and the decisions about it.

use crate::check::calls::{Call, StillRunning};
use crate::check::outcomes::{Effect, Error, failures};
use crate::read::error_names::{MAY_STILL_RUN, NO_VALUE, matches};
use crate::weave::authored::{
    AuthoredMachine, Limit, Machine, ScopeId, StateId, Target, Vars, errors, is_written,
};
use crate::weave::spec::{self, IfHeld, Lifetime};
use std::collections::{BTreeMap, BTreeSet};

/// A section of the specification in the definition.
#[derive(Debug, Clone)]
pub(crate) struct Section<'s> {
    pub spec: &'s spec::Section,
    pub name: String,
    pub vars: Vars,
    pub scope: ScopeId,
    pub members: BTreeSet<StateId>,
    /// The member that is entered from outside.
    pub entry: StateId,
    /// Members that need an extend before them, so that the lease lasts.
    pub extends: BTreeSet<StateId>,
    /// Whether there is an extend between the acquire and the entry.
    pub extends_first: bool,
    /// After which failures of each member something may still be running.
    pub open_after: BTreeMap<StateId, OpenAfter>,
    /// Whether steps that Lambda did not start are retried.
    pub asks_again: bool,
}

/// The errors of a member after which something may still be running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OpenAfter {
    Any,
    Only(Vec<&'static str>),
}

impl OpenAfter {
    /// Of a task. If the service stops its job, the job's own failure is its end.
    fn task(failures: &[(&str, Effect)]) -> Self {
        if failures[0].1 == Effect::Work(StillRunning::Yes) {
            return Self::Any;
        }
        Self::only(|name| {
            let mut failures = failures.iter();
            failures.any(|(other, effect)| *other == name && matches!(effect, Effect::Work(_)))
        })
    }

    /// Of a Parallel or a Map. Written clauses tell only the errors apart that the weaver knows.
    pub(crate) fn inside(errors: &BTreeMap<Error, StillRunning>) -> Self {
        let others = errors.iter().filter(|(error, _)| {
            !matches!(error, Error::Named(name) if MAY_STILL_RUN.contains(&name.as_str()))
        });
        let others = others.map(|(_, left)| *left).reduce(StillRunning::or);
        if others > Some(StillRunning::No) {
            return Self::Any;
        }
        Self::only(|name| {
            let left = errors.get(&Error::Named(name.to_owned()));
            left.is_some_and(|left| *left > StillRunning::No)
        })
    }

    fn only(is_open: impl Fn(&str) -> bool) -> Self {
        let names = MAY_STILL_RUN.into_iter();
        Self::Only(names.filter(|name| is_open(name)).collect())
    }

    /// The names of the errors, unless it is after any.
    pub(crate) fn errors(&self) -> &[&'static str] {
        match self {
            Self::Any => &[],
            Self::Only(names) => names,
        }
    }

    pub(crate) fn is_any(&self) -> bool {
        *self == Self::Any
    }
}

impl Section<'_> {
    /// Takes from what the members call after which failures something may still be running. Of a Parallel and a Map the check of the
    /// woven machine says it, because sections inside change their errors.
    pub(crate) fn open(&mut self, machine: &Machine<'_>, calls: &[Call<'_>]) {
        for &member in &self.members {
            let state = &machine.states[member];
            let open = if state.has_scopes() {
                OpenAfter::Any
            } else {
                OpenAfter::task(&failures(state, &calls[member]))
            };
            self.open_after.insert(member, open);
        }
    }

    /// Whether it is in an item of a Map, at any depth.
    pub(crate) fn is_of_item(&self, machine: &Machine<'_>) -> bool {
        let around = machine.enclosing(self.scope).into_iter();
        around
            .into_iter()
            .any(|(state, _)| machine.states[state].is_map())
    }

    /// What the lifetime of the lease decides.
    pub(crate) fn policy(&self) -> &'static Policy {
        if self.of_execution() {
            &LASTS
        } else {
            &EXPIRES
        }
    }

    /// The length of the lease in seconds. None if it lasts as long as the execution.
    pub(crate) fn ttl(&self) -> Option<f64> {
        match self.spec.lifetime {
            Lifetime::Ttl(ttl) => Some(ttl),
            Lifetime::Execution(_) => None,
        }
    }

    /// Whether the lease lasts as long as the execution.
    pub(crate) fn of_execution(&self) -> bool {
        self.ttl().is_none()
    }

    /// Whether a task in the section takes its timeout from the lease.
    pub(crate) fn bounds(&self, machine: &AuthoredMachine<'_>, task: StateId) -> bool {
        self.spec.bound && computes_limit(machine, task)
    }

    /// Whether a task in the section has a timeout only while its lease has been verified since the last redrive.
    pub(crate) fn guards(&self, machine: &AuthoredMachine<'_>, task: StateId) -> bool {
        let around = machine.enclosing(machine.states[task].scope).into_iter();
        let mut around = around.map(|(around, _)| &machine.states[around]);
        // Their items are executions of their own, without these variables.
        let elsewhere = around.any(|state| state.processor_config("Mode") == Some("DISTRIBUTED"));
        let Some(member) = machine.outermost(task, self.scope) else {
            return false;
        };
        // The author's clause for these errors takes those of a guard, too, and so does one inside for all errors.
        let takes = |state: StateId, by: &dyn Fn(&[&str]) -> bool| {
            let mut own = machine.own_catches(state).into_iter();
            own.any(|nth| by(&errors(&machine.catch(state)[nth])))
        };
        let inside = machine.enclosing(machine.states[task].scope).into_iter();
        let inside = [task].into_iter().chain(inside.map(|(state, _)| state));
        let mut inside = inside.take_while(|&state| state != member);
        // A clause of JSONPath cannot be copied to the proof, which is in JSONata.
        let is_copied = machine.states[member].language.is_jsonata();
        self.of_execution()
            && computes_limit(machine, task)
            && !elsewhere
            && !inside.any(|state| takes(state, &|names| matches(names, NO_VALUE)))
            && !takes(member, &|names| {
                names.contains(&NO_VALUE) || (!is_copied && matches(names, NO_VALUE))
            })
    }

    /// Whether an edge to this target needs no release, because the execution ends there.
    pub(crate) fn ends_at(&self, machine: &Machine<'_>, target: Target) -> bool {
        let is_end = match target {
            Target::End => true,
            Target::To(to) => machine.states[to].is_end(),
        };
        self.of_execution() && machine.scopes[self.scope].within.is_none() && is_end
    }

    /// Whether a failure that nobody catches ends the execution, and with it the lease.
    pub(crate) fn ends_by_failing(&self, machine: &Machine<'_>) -> bool {
        self.of_execution() && machine.failure_ends_execution(self.scope)
    }
}

/// Whether a task can have a timeout that the weaver computes.
fn computes_limit(machine: &AuthoredMachine<'_>, task: StateId) -> bool {
    let limit = machine.limits.get(&task);
    machine.states[task].language.is_jsonata()
        && limit.is_some_and(|limit| *limit != Limit::Computed)
}

/// A name as one word: `Ship it` becomes `ShipIt`.
pub(crate) fn slug(name: &str) -> String {
    let words = name.split(|c: char| !c.is_alphanumeric());
    words
        .flat_map(|word| {
            let mut letters = word.chars();
            let first = letters.next();
            first
                .into_iter()
                .flat_map(char::to_uppercase)
                .chain(letters)
        })
        .collect()
}

/// The `wait_seconds` in the queue. None if the section does not wait there.
pub(crate) fn wait_in_queue(if_held: IfHeld) -> Option<f64> {
    match if_held {
        IfHeld::Queue(wait) | IfHeld::Latest(wait) => Some(wait),
        IfHeld::Retry | IfHeld::Fail | IfHeld::Skip => None,
    }
}

/// The role of a written state. The states are written in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// Before the acquire in an item of a Map: a text for the request that no other item has.
    Begin,
    Acquire,
    /// After an acquire that is refused and does not wait.
    Skipped,
    /// The extend before this state.
    Extend(StateId),
    /// The extend before this state after a redrive, which verifies that an execution lease still lasts.
    Prove(StateId),
    /// The release after the work. It leads to the work's target, unless the lease is lost.
    Release(Target),
    /// The release of an execution lease after the work. It leads to the work's target.
    GiveBack(Target),
    /// After a release of the last state that failed.
    Done,
    /// The release after a failure that the author catches. It leads to the target of that clause.
    ReleaseAfterCaughtError(StateId),
    /// The same if something may still be running. It does not release the lease, and by default waits until the lease ends.
    KeepLease(StateId),
    /// The release after a failure that the author does not catch.
    AfterFailure,
    Failed,
    /// After a failure that the author does not catch, if something may still be running after any error.
    WaitForExpiry,
    FailStillRunning,
    Lost,
}

/// What the lifetime of a lease decides: which state is written for which purpose.
pub(crate) struct Policy {
    /// Before a member, so that it starts under a lease that lasts.
    pub renew: fn(StateId) -> Role,
    /// After the work.
    pub release: fn(Target) -> Role,
    /// Between a failure that the author catches and this target, if something may still be running.
    pub keep: Option<fn(StateId) -> Role>,
    /// After any other failure of a member, if something may still be running after all of them.
    pub left_running: Role,
    /// The reason of `FailStillRunning`.
    pub why_kept: &'static str,
}

/// The policy of a ttl lease.
const EXPIRES: Policy = Policy {
    renew: Role::Extend,
    release: Role::Release,
    keep: Some(Role::KeepLease),
    left_running: Role::WaitForExpiry,
    why_kept: "The step may still be running, so the lease is left to expire: a release would let another holder in at the same time.",
};

/// The policy of an execution lease.
const LASTS: Policy = Policy {
    renew: Role::Prove,
    release: Role::GiveBack,
    keep: None,
    left_running: Role::FailStillRunning,
    why_kept: "The step may still be running, so the lease lasts until the execution has ended: a release would let another holder in at the same time.",
};

/// The names of the states written for the sections of a machine.
pub(crate) struct Names {
    slugs: BTreeMap<StateId, String>,
}

impl Names {
    pub(crate) fn of(machine: &Machine<'_>) -> Self {
        let mut slugs = BTreeMap::new();
        let mut taken = BTreeSet::new();
        for (id, state) in machine.states.iter().enumerate() {
            if is_written(state) {
                continue;
            }
            // State names have up to 80 characters, and the written ones append to the state's own.
            let short: String = slug(state.name).chars().take(30).collect();
            let mut name = short.clone();
            let mut nth = 1;
            while !taken.insert(name.clone()) {
                nth += 1;
                name = format!("{short}{nth}");
            }
            slugs.insert(id, name);
        }
        Self { slugs }
    }

    pub(crate) fn name(&self, section: &Section<'_>, role: Role) -> String {
        let slug = |id: &StateId| self.slugs.get(id).map_or("", String::as_str);
        let what = match &role {
            Role::Begin => "Begin".to_owned(),
            Role::Acquire => "Acquire".to_owned(),
            Role::Skipped => "Skipped".to_owned(),
            Role::Extend(before) | Role::Prove(before) => format!("ExtendFor{}", slug(before)),
            Role::Release(Target::End) | Role::GiveBack(Target::End) => "Release".to_owned(),
            Role::Release(Target::To(to)) | Role::GiveBack(Target::To(to)) => {
                format!("ReleaseThen{}", slug(to))
            }
            Role::Done => "Done".to_owned(),
            Role::ReleaseAfterCaughtError(to) => format!("GiveBackThen{}", slug(to)),
            Role::KeepLease(to) => format!("LeaveThen{}", slug(to)),
            Role::AfterFailure => "ReleaseAfterFailure".to_owned(),
            Role::Failed => "Failed".to_owned(),
            Role::WaitForExpiry => "RunOut".to_owned(),
            Role::FailStillRunning => "StepMayRun".to_owned(),
            Role::Lost => "LeaseLost".to_owned(),
        };
        format!("{}{what}", section.name)
    }
}
