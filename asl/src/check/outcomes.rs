//! How a task can fail, and where each failure leads.
//!
//! `States.Runtime` is left out: nobody can catch it, so no definition is better than another. So is `States.DataLimitExceeded` where no
//! clause names it: `States.ALL` does not catch it.

use crate::check::calls::{Call, Left};
use crate::check::lease::{Env, Key, join, key};
use crate::read::error_names::{ALL, MAY_RUN, NO_VALUE, RUNTIME, TASK_FAILED, TIMEOUT, is_lost};
use crate::read::machine::State;
use std::collections::{HashMap, HashSet};

/// An error that leaves a scope.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Error {
    Named(String),
    /// A function's own, which nobody here knows.
    Own,
    /// Any name: it is computed.
    Any,
}

/// What a failure says of the leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    /// Nothing.
    Same,
    /// The work may go on.
    Work(Left),
    /// The lease it is about is somebody else's.
    Lost,
}

/// The failures of a task, each with what it says.
pub(crate) fn failures<'a>(state: &'a State<'_>, call: &Call<'_>) -> Vec<(&'a str, Effect)> {
    let mut found: Vec<(&str, Effect)> = vec![("", Effect::Same), (TIMEOUT, Effect::Same)];
    match call {
        Call::Extend(_) => found.push(("Lease.Lost", Effect::Lost)),
        Call::Work(Left::AtWork) => {
            found[1].1 = Effect::Work(Left::AtWork);
            let is_lambda = state.node.text_of("Resource");
            if is_lambda.is_none_or(|resource| !resource.contains(":activity:")) {
                found.extend(
                    MAY_RUN[1..]
                        .iter()
                        .map(|&name| (name, Effect::Work(Left::AtWork))),
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
    if state.jsonata {
        // Of a job that the service stops, no failure says whether all of it is over: this one may be about the time before a redrive.
        let effect = match found[0].1 {
            Effect::Work(Left::Perhaps) => found[0].1,
            _ => Effect::Same,
        };
        found.push((NO_VALUE, effect));
    }
    let mut known: HashSet<&str> = found.iter().map(|(name, _)| *name).collect();
    known.extend([ALL, TASK_FAILED, RUNTIME]);
    for name in state.catch.iter().flat_map(|catcher| &catcher.errors) {
        if !known.insert(name) {
            continue;
        }
        let effect = match call {
            Call::Work(_) | Call::Extend(_) if is_lost(name) => Effect::Lost,
            // What came back was too large, or the service refused: as after a failure of the task's own.
            Call::Work(_) => found[0].1,
            _ => Effect::Same,
        };
        found.push((name, effect));
    }
    found
}

/// The clause that an error meets. The empty name is one that nobody thought of.
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

/// The clauses that an error may meet, and whether it may meet none.
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

/// A way out of a scope.
#[derive(Clone)]
pub(crate) struct Exit {
    pub env: Env,
    pub link: usize,
    /// `None`: it succeeded.
    pub error: Option<Error>,
}

/// The ways out of a scope, each found by its error and by what is known of the leases.
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
