//! A definition as scopes of states with their places in the text.

use leasehold_check::{Member, Node, Source};

/// A state, by its place in [`Machine::states`].
pub(crate) type StateId = usize;
/// A scope, by its place in [`Machine::scopes`].
pub(crate) type ScopeId = usize;

/// How the Comment of a written state begins, before the section's name.
const MARK: &str = "Woven (";

pub(crate) struct Machine<'a> {
    pub source: &'a Source,
    pub root: &'a Node,
    pub states: Vec<State<'a>>,
    /// The first is the machine itself.
    pub scopes: Vec<Scope<'a>>,
    pub jsonata: bool,
}

/// The machine, a branch of a Parallel, or the processor of a Map.
pub(crate) struct Scope<'a> {
    pub node: &'a Node,
    pub states: Vec<StateId>,
    pub within: Option<StateId>,
}

pub(crate) struct State<'a> {
    pub name: &'a str,
    pub member: &'a Member,
    pub scope: ScopeId,
    /// As the checker tells of it: with the states around it.
    pub path: String,
    pub jsonata: bool,
    pub kind: Kind,
    /// The section that it was written for.
    pub written: Option<&'a str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Task,
    Choice,
    /// Parallel or Map.
    Around,
    /// Succeed or Fail.
    End,
    /// Pass or Wait.
    Plain,
}

impl<'a> Machine<'a> {
    pub(crate) fn read(source: &'a Source, root: &'a Node) -> Self {
        let jsonata = is_jsonata(root, false);
        let mut machine = Self {
            source,
            root,
            states: Vec::new(),
            scopes: Vec::new(),
            jsonata,
        };
        machine.scope(root, None, jsonata);
        machine
    }

    fn scope(&mut self, node: &'a Node, within: Option<StateId>, jsonata: bool) {
        let id = self.scopes.len();
        self.scopes.push(Scope {
            node,
            states: Vec::new(),
            within,
        });
        let around = within.map_or(String::new(), |state| {
            self.states[state].path.clone() + " / "
        });
        for member in node.get("States").map_or(&[][..], Node::members) {
            let state = &member.value;
            let kind = match state.get("Type").and_then(Node::text).unwrap_or_default() {
                "Task" => Kind::Task,
                "Choice" => Kind::Choice,
                "Parallel" | "Map" => Kind::Around,
                "Succeed" | "Fail" => Kind::End,
                _ => Kind::Plain,
            };
            let comment = state.get("Comment").and_then(Node::text);
            let marked = comment.and_then(|comment| comment.strip_prefix(MARK));
            self.scopes[id].states.push(self.states.len());
            self.states.push(State {
                name: &member.key,
                member,
                scope: id,
                path: format!("{around}{}", member.key),
                jsonata: is_jsonata(state, jsonata),
                kind,
                written: marked
                    .and_then(|rest| rest.split_once("): "))
                    .map(|(name, _)| name),
            });
        }
        for state in self.scopes[id].states.clone() {
            let node = &self.states[state].member.value;
            let branches = node.get("Branches").map_or(&[][..], Node::list).iter();
            let processor = node.get("ItemProcessor").or_else(|| node.get("Iterator"));
            for inner in branches.chain(processor) {
                self.scope(inner, Some(state), jsonata);
            }
        }
    }

    /// The state of this name in a scope.
    pub(crate) fn find(&self, scope: ScopeId, name: &str) -> Option<StateId> {
        let states = self.scopes[scope].states.iter().copied();
        states.rev().find(|&id| self.states[id].name == name)
    }

    pub(crate) fn node(&self, state: StateId) -> &'a Node {
        &self.states[state].member.value
    }

    /// The state in this scope that a state is, or is inside of.
    pub(crate) fn outermost(&self, state: StateId, scope: ScopeId) -> Option<StateId> {
        let mut at = state;
        while self.states[at].scope != scope {
            at = self.scopes[self.states[at].scope].within?;
        }
        Some(at)
    }

    /// Everything within a Parallel or Map, at whatever depth.
    pub(crate) fn inside(&self, around: StateId) -> Vec<StateId> {
        let scope = self.states[around].scope;
        let inner = (0..self.states.len()).filter(|&id| id != around);
        inner
            .filter(|&id| {
                self.states[id].scope != scope && self.outermost(id, scope) == Some(around)
            })
            .collect()
    }

    /// The Parallels and Maps around a scope, the innermost first, each with the scope inside of it.
    pub(crate) fn around(&self, scope: ScopeId) -> Vec<(StateId, ScopeId)> {
        let mut found = Vec::new();
        let mut at = scope;
        while let Some(state) = self.scopes[at].within {
            found.push((state, at));
            at = self.states[state].scope;
        }
        found
    }

    pub(crate) fn is_map(&self, state: StateId) -> bool {
        self.node(state).get("Type").and_then(Node::text) == Some("Map")
    }

    /// The clauses of a state's Catch.
    pub(crate) fn catch(&self, state: StateId) -> &'a [Node] {
        self.node(state).get("Catch").map_or(&[], Node::list)
    }
}

/// How the Comment of a state begins that is written for a section.
pub(crate) fn comment(section: &str, reason: &str) -> String {
    format!("{MARK}{section}): {reason}")
}

/// The names that a clause of a Catch lists.
pub(crate) fn errors(clause: &Node) -> Vec<&str> {
    let names = clause.get("ErrorEquals").map_or(&[][..], Node::list);
    names.iter().filter_map(Node::text).collect()
}

fn is_jsonata(node: &Node, around: bool) -> bool {
    match node.get("QueryLanguage").and_then(Node::text) {
        Some(language) => language == "JSONata",
        None => around,
    }
}
