//! A section of a definition: what is in it, and what was found out about it.

use crate::weave::plain::{Limit, Machine, Plain, ScopeId, StateId, Target, Vars, is_written};
use crate::weave::spec::{self, Mode};
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
    /// Whether its steps are asked again that Lambda has not begun.
    pub asks_again: bool,
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
        Mode::Retry | Mode::Fail | Mode::Skip => None,
    }
}

/// A state that is written, by what it is for; in the order in which they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// Counts turns from nought, before waiting in line.
    Begin,
    Acquire,
    /// Where an acquire leads that is refused and is not to wait.
    Skipped,
    /// The first extend after waiting in line.
    Confirm,
    /// Whether to line up again.
    TurnMissed,
    /// Before this state.
    Extend(StateId),
    /// After the work, and on to where it led.
    Release(Target),
    /// Where a release of the last state leads that could not be done.
    Done,
    /// After a failure that its author catches, and on to where that led.
    GiveBack(StateId),
    /// The same, where something may still be at work: nothing is given back, and it is waited out.
    Leave(StateId),
    /// After a failure that nobody catches.
    AfterFailure,
    Failed,
    /// After a failure that nobody catches, where something may still be at work whatever the error.
    RunOut,
    MayRun,
    Lost,
}

/// The names of all that is written for the sections of a machine.
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
            // State names have up to 80 characters; ours say more than the state's.
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
            Role::Confirm => "Confirm".to_owned(),
            Role::TurnMissed => "TurnMissed".to_owned(),
            Role::Extend(before) => format!("ExtendFor{}", slug(before)),
            Role::Release(Target::End) => "Release".to_owned(),
            Role::Release(Target::To(to)) => format!("ReleaseThen{}", slug(to)),
            Role::Done => "Done".to_owned(),
            Role::GiveBack(to) => format!("GiveBackThen{}", slug(to)),
            Role::Leave(to) => format!("LeaveThen{}", slug(to)),
            Role::AfterFailure => "ReleaseAfterFailure".to_owned(),
            Role::Failed => "Failed".to_owned(),
            Role::RunOut => "RunOut".to_owned(),
            Role::MayRun => "StepMayRun".to_owned(),
            Role::Lost => "LeaseLost".to_owned(),
        };
        format!("{}{what}", section.name)
    }
}
