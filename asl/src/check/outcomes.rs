//! The failures of a task, and where each one leads. The checker follows each, and the weaver writes a clause for each that leaves
//! something running.
//!
//! `States.Runtime` is left out, because no definition can catch it. `States.DataLimitExceeded` is left out if no clause names it: it
//! ends the execution then, or `States.ALL` catches it, which leads to where an unexpected error leads.

use crate::check::calls::{Call, StillRunning, outlives_errors};
use crate::check::lease::{Env, Key, join, key};
use crate::read::error_names::{
    ALL, MAY_STILL_RUN, NO_VALUE, READER_FAILED, RUNTIME, TASK_FAILED, TIMEOUT, TOO_LARGE,
    TOO_MANY_FAILED, WRITER_FAILED, is_lost,
};
use crate::read::machine::State;
use std::collections::{BTreeMap, HashMap, HashSet};

/// An error that leaves a scope.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Error {
    Named(String),
    /// An error of the function's own, with an unknown name.
    Own,
    /// Any name, because it is computed.
    Any,
}

/// The effect of a failure on the leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    /// It leaves them as they were.
    Same,
    /// The work may still be running.
    Work(StillRunning),
    /// The lease is lost.
    Lost,
}

/// What may still be running after each failure inside a state, for the lease of an acquire.
pub(crate) type LeftBy<Id> = BTreeMap<(Id, Id), BTreeMap<Error, StillRunning>>;

/// The failures of a task, each with its effect. The first is any error of its own.
pub(crate) fn failures(state: &State<'_>, call: &Call<'_>) -> Vec<(&'static str, Effect)> {
    let mut found: Vec<(&str, Effect)> = vec![("", Effect::Same), (TIMEOUT, Effect::Same)];
    match call {
        Call::Extend(_) => found.push(("Lease.Lost", Effect::Lost)),
        Call::Work(StillRunning::Yes) => {
            found[1].1 = Effect::Work(StillRunning::Yes);
            let is_lambda = state.node.text_of("Resource");
            if outlives_errors(state.node) {
                found[0].1 = Effect::Work(StillRunning::Yes);
            } else if is_lambda.is_none_or(|resource| !resource.contains(":activity:")) {
                found.extend(
                    MAY_STILL_RUN[1..]
                        .iter()
                        .map(|&name| (name, Effect::Work(StillRunning::Yes))),
                );
            }
        }
        Call::Work(left) => {
            found[1].1 = Effect::Work(*left);
            let resource = state.node.text_of("Resource");
            if resource.is_some_and(|resource| resource.contains(".sync")) {
                found[0].1 = Effect::Work(*left);
            }
        }
        _ => {}
    }
    if state.language.is_jsonata() {
        // If the service stops the job, no failure shows that all of it has ended: a job from before a redrive may still run.
        let effect = match found[0].1 {
            Effect::Work(StillRunning::Maybe) => found[0].1,
            _ => Effect::Same,
        };
        found.push((NO_VALUE, effect));
    }
    found
}

/// The same, and the errors that only the task's Catch names.
pub(crate) fn all_failures<'a>(state: &'a State<'_>, call: &Call<'_>) -> Vec<(&'a str, Effect)> {
    let mut found: Vec<(&str, Effect)> = failures(state, call);
    let mut known: HashSet<&str> = found.iter().map(|(name, _)| *name).collect();
    known.extend([ALL, TASK_FAILED, RUNTIME]);
    for name in state.catch.iter().flat_map(|catcher| &catcher.errors) {
        if !known.insert(name) {
            continue;
        }
        let effect = match call {
            Call::Work(_) | Call::Extend(_) if is_lost(name) => Effect::Lost,
            // The result was too large, or the service refused. This has the effect of the task's own errors.
            Call::Work(_) => found[0].1,
            _ => Effect::Same,
        };
        found.push((name, effect));
    }
    found
}

/// When a Parallel or a Map fails by itself, whatever its branches or items do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Its input has no value, or cannot be read.
    Before,
    /// Its results are too large, have no value, or cannot be written.
    After,
}

/// The errors that a Parallel or a Map raises itself. A Map can always fail before its first item.
pub(crate) fn own_failures(state: &State<'_>) -> Vec<(&'static str, When)> {
    let mut found = vec![(TOO_LARGE, When::After)];
    let has = |field: &str| state.node.get(field).is_some();
    let computes = |fields: &[&str]| {
        let mut fields = fields.iter().filter_map(|field| state.node.get(field));
        fields.any(|field| field.any_expr(state.language, |_| true))
    };
    let no_value = state.language.no_value();
    if state.is_map() || computes(&["Arguments", "Parameters"]) {
        found.push((no_value, When::Before));
    }
    if state.language.is_jsonata() && computes(&["Output", "Assign"]) {
        found.push((no_value, When::After));
    }
    if has("ItemReader") {
        found.push((READER_FAILED, When::Before));
    }
    if has("ResultWriter") {
        found.push((WRITER_FAILED, When::After));
    }
    if state.tolerates_failures() {
        found.push((TOO_MANY_FAILED, When::Before));
    }
    found
}

/// The clause that catches an error. The empty name stands for an unexpected error.
pub(crate) fn clause(state: &State<'_>, error: &str) -> Option<usize> {
    let named = |name: &str| state.clauses.get(name);
    let own = named(error).filter(|_| !error.is_empty());
    let failed = named(TASK_FAILED).filter(|_| error != TIMEOUT);
    [own, named(ALL), failed]
        .into_iter()
        .flatten()
        .min()
        .copied()
}

/// The clauses that may catch an error, and whether it may stay uncaught.
pub(crate) fn clauses(state: &State<'_>, error: &Error) -> (Vec<usize>, bool) {
    match error {
        Error::Named(name) => match clause(state, name) {
            Some(nth) => (vec![nth], false),
            None => (Vec::new(), true),
        },
        Error::Own | Error::Any => {
            let is_any = *error == Error::Any;
            let catches_all = |name: &str| name == ALL || (name == TASK_FAILED && !is_any);
            let fits = |name: &str| {
                let reserved = ["States.", "Lambda.", "Lease."];
                is_any || catches_all(name) || !reserved.iter().any(|start| name.starts_with(start))
            };
            let mut reached = Vec::new();
            for (nth, catcher) in state.catch.iter().enumerate() {
                if catcher.errors.iter().any(|name| fits(name)) {
                    reached.push(nth);
                }
                if catcher.errors.iter().any(|name| catches_all(name)) {
                    return (reached, false);
                }
            }
            (reached, true)
        }
    }
}

/// An exit of a scope.
#[derive(Clone)]
pub(crate) struct Exit {
    pub env: Env,
    pub link: usize,
    /// `None` after success.
    pub error: Option<Error>,
}

/// The exits of a scope, merged if their error and leases are equal.
#[derive(Default)]
pub(crate) struct Exits {
    pub all: Vec<Exit>,
    index: HashMap<(Option<Error>, Key), usize>,
}

impl Exits {
    pub(crate) fn add(&mut self, exit: Exit) {
        let key = (exit.error.clone(), key(&exit.env));
        if let Some(&nth) = self.index.get(&key) {
            join(&mut self.all[nth].env, &exit.env);
        } else {
            self.index.insert(key, self.all.len());
            self.all.push(exit);
        }
    }
}
