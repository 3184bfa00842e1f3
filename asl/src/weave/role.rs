//! The states that are written for a section, and what they are called.

use crate::weave::machine::{Machine, StateId, is_written};
use crate::weave::plain::Target;
use crate::weave::section::{Section, slug};
use std::collections::{BTreeMap, BTreeSet};

/// A state that is written, by what it is for; in the order in which they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// Counts turns from nought, before waiting in line.
    Begin,
    Acquire,
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
