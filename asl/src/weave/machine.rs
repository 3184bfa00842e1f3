//! A definition with its text, and which of its states were written by weaving.

use crate::read::machine as read;
use crate::read::node::Node;
use crate::read::source::Source;
use std::ops::Deref;

pub(crate) use crate::read::machine::{Kind, ScopeId, State, StateId, errors};

/// How the Comment of a written state begins, before the section's name.
const MARK: &str = "Woven (";

pub(crate) struct Machine<'a> {
    pub source: &'a Source,
    pub root: &'a Node,
    read: read::Machine<'a>,
}

impl<'a> Deref for Machine<'a> {
    type Target = read::Machine<'a>;

    fn deref(&self) -> &Self::Target {
        &self.read
    }
}

impl<'a> Machine<'a> {
    pub(crate) fn read(source: &'a Source, root: &'a Node) -> Self {
        let read = read::Machine::read(root);
        Self { source, root, read }
    }

    pub(crate) fn node(&self, state: StateId) -> &'a Node {
        self.states[state].node
    }

    /// Everything within a Parallel or Map, at whatever depth.
    pub(crate) fn all_inside(&self, around: StateId) -> Vec<StateId> {
        let scopes = self.inner(around).iter();
        let mut found: Vec<StateId> = scopes.flat_map(|&scope| self.inside(scope)).collect();
        found.sort_unstable();
        found
    }

    pub(crate) fn is_map(&self, state: StateId) -> bool {
        matches!(self.states[state].kind, Kind::Map(_))
    }

    /// The clauses of a state's Catch.
    pub(crate) fn catch(&self, state: StateId) -> &'a [Node] {
        self.node(state).list_of("Catch")
    }
}

/// How the Comment of a state begins that is written for a section.
pub(crate) fn comment(section: &str, reason: &str) -> String {
    format!("{MARK}{section}): {reason}")
}

/// The section that a state was written for, if it was.
pub(crate) fn written_for<'a>(state: &State<'a>) -> Option<&'a str> {
    let comment = state.node.text_of("Comment")?;
    let (section, _) = comment.strip_prefix(MARK)?.split_once("): ")?;
    Some(section)
}

pub(crate) fn is_written(state: &State<'_>) -> bool {
    written_for(state).is_some()
}
