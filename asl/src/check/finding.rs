//! Findings of a check.

use crate::check::rule::Rule;
use crate::read::machine::{Machine, StateId};
use crate::read::node::Span;
use serde::Serialize;

/// A fault, its place, and a path that leads to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule that is broken.
    pub rule: Rule,
    /// The state at fault, with the Parallel or Map around it: `Each / Work`. Empty for the machine itself.
    pub state: String,
    /// The acquire of the lease that it is about, if it is about one.
    pub(crate) lease: Option<String>,
    /// The field that the state lacks, if that is the fault.
    pub(crate) missing: Option<&'static str>,
    /// What is wrong here, in one sentence.
    pub message: String,
    /// The last hundred steps of a path to the fault. Empty if no path is needed.
    pub path: Vec<Step>,
    /// Where to look.
    pub at: Span,
}

/// A state on a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Its name.
    pub state: String,
    /// How the path left the state, unless by its Next: `Catch States.ALL`, `Default`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Whether that was a clause of a Catch.
    #[serde(skip)]
    pub(crate) caught: bool,
}

/// What a fault is about, beside its state.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct About {
    /// The acquire of a lease.
    pub lease: Option<StateId>,
    /// The field that the state lacks.
    pub missing: Option<&'static str>,
}

impl About {
    pub(crate) fn lease(acquire: StateId) -> Self {
        Self {
            lease: Some(acquire),
            missing: None,
        }
    }

    pub(crate) fn lacking(self, missing: Option<&'static str>) -> Self {
        Self { missing, ..self }
    }
}

impl Finding {
    /// A fault of a state, without a path.
    pub(crate) fn of(
        machine: &Machine<'_>,
        rule: Rule,
        state: StateId,
        at: Span,
        message: impl Into<String>,
    ) -> Self {
        Self {
            rule,
            state: machine.path_of(state),
            lease: None,
            missing: None,
            message: message.into(),
            path: Vec::new(),
            at,
        }
    }

    /// `Acquire → Work → (Catch States.ALL) Failed`.
    #[must_use]
    pub fn trail(&self) -> String {
        let mut text = String::new();
        for (at, step) in self.path.iter().enumerate() {
            text.push_str(&step.state);
            let is_last = at + 1 == self.path.len();
            match &step.by {
                Some(by) if is_last => text.extend([" → (", by, ")"]),
                Some(by) => text.extend([" → (", by, ") "]),
                None if is_last => {}
                None => text.push_str(" → "),
            }
        }
        text
    }
}
