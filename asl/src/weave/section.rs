//! A section of a definition: what is in it, and what was found out about it.

use crate::weave::machine::{Machine, ScopeId, StateId};
use crate::weave::plain::Plain;
use crate::weave::spec::{self, Mode};
use crate::weave::vars::{Limit, Vars};
use std::collections::{BTreeMap, BTreeSet};

/// A section of the specification in the definition.
#[derive(Debug, Clone)]
pub(crate) struct Section<'s> {
    pub spec: &'s spec::Section,
    pub name: String,
    pub vars: Vars,
    pub scope: ScopeId,
    pub members: BTreeSet<StateId>,
    /// The one that is entered from outside.
    pub entry: StateId,
    /// Members with an extend before them, for time's sake.
    pub extends: BTreeSet<StateId>,
    /// Whether there is one between the acquire and the entry.
    pub extends_first: bool,
    /// What is taken for over when a member has failed; the most careful guess if it is not there.
    pub failing: BTreeMap<StateId, Failing>,
}

/// What a failure of a member says of what it had begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Failing {
    /// Whatever the error, something may still be at work.
    Open,
    /// After a timeout, or an error of Lambda itself, something may still be at work; else it is over.
    ByError,
    /// After a timeout something may still be at work; else it is over.
    ByTimeout,
    /// It is over.
    Over,
}

impl Section<'_> {
    pub(crate) fn failing(&self, machine: &Machine<'_>, member: StateId) -> Failing {
        let careful = if machine.states[member].has_scopes() {
            Failing::Open
        } else {
            Failing::ByError
        };
        self.failing.get(&member).copied().unwrap_or(careful)
    }

    /// Whether a task in it takes its time limit from the lease.
    pub(crate) fn bounds(&self, machine: &Machine<'_>, plain: &Plain, task: StateId) -> bool {
        self.spec.bound
            && machine.states[task].jsonata
            && plain
                .limits
                .get(&task)
                .is_some_and(|limit| *limit != Limit::Computed)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Jsonata,
    JsonPath,
}

/// The language that a text is computed in; nothing if it means itself.
pub(crate) fn language(text: &str) -> Option<Language> {
    if text.starts_with("{%") && text.ends_with("%}") {
        Some(Language::Jsonata)
    } else if text.starts_with('$') || text.starts_with("States.") {
        Some(Language::JsonPath)
    } else {
        None
    }
}

/// A name in one word: `Ship it` is `ShipIt`.
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

/// How long somebody waits in line.
pub(crate) fn line(mode: Mode) -> Option<f64> {
    match mode {
        Mode::Queue(wait) => Some(wait),
        Mode::Retry => None,
    }
}
