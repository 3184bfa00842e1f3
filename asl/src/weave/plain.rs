//! What a definition is without what was written into it: every edge led past the states that are ours. Of a definition that
//! nothing was woven into it is the definition itself, which is why weaving twice comes to the same.

use crate::read::node::Node;
use crate::weave::machine::{Kind, Machine, ScopeId, StateId, is_written, written_for};
use crate::weave::vars::{Limit, Vars};
use std::collections::{BTreeMap, BTreeSet};

/// Where an edge leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// The end of the scope.
    End,
    To(StateId),
}

/// What an edge is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Slot {
    /// `StartAt`.
    Start(ScopeId),
    /// `Next` or `End`.
    Next(StateId),
    /// `Next` in the nth of `Choices`.
    Rule(StateId, usize),
    /// `Default`.
    Default(StateId),
    /// `Next` in the nth of `Catch`.
    Catch(StateId, usize),
}

impl Slot {
    /// The state that is left by it.
    pub(crate) fn from(self) -> Option<StateId> {
        match self {
            Self::Start(_) => None,
            Self::Next(id) | Self::Rule(id, _) | Self::Default(id) | Self::Catch(id, _) => Some(id),
        }
    }
}

pub(crate) struct Plain {
    /// Every edge of a state that is not ours.
    pub ways: BTreeMap<Slot, Target>,
    /// The clauses of Catch that are ours.
    pub ours: BTreeSet<(StateId, usize)>,
    pub limits: BTreeMap<StateId, Limit>,
}

impl Plain {
    pub(crate) fn of(machine: &Machine<'_>) -> Self {
        let mut plain = Self {
            ways: BTreeMap::new(),
            ours: BTreeSet::new(),
            limits: BTreeMap::new(),
        };
        let sections: BTreeSet<&str> = machine.states.iter().filter_map(written_for).collect();
        let vars: Vec<Vars> = sections.into_iter().map(Vars::of).collect();
        for (id, scope) in machine.scopes.iter().enumerate() {
            let start = scope.node.get("StartAt");
            plain.lead(machine, Slot::Start(id), id, start);
        }
        for (id, state) in machine.states.iter().enumerate() {
            if !is_written(state) {
                plain.state(machine, id, &vars);
            }
        }
        plain
    }

    fn state(&mut self, machine: &Machine<'_>, id: StateId, vars: &[Vars]) {
        let state = &machine.states[id];
        let node = machine.node(id);
        match state.kind {
            Kind::Choice { .. } => {
                for (nth, rule) in node.list_of("Choices").iter().enumerate() {
                    self.lead(machine, Slot::Rule(id, nth), state.scope, rule.get("Next"));
                }
                self.lead(machine, Slot::Default(id), state.scope, node.get("Default"));
            }
            Kind::Succeed | Kind::Fail => {}
            _ if node.get("End").is_some_and(Node::is_true) => {
                self.ways.insert(Slot::Next(id), Target::End);
            }
            _ => self.lead(machine, Slot::Next(id), state.scope, node.get("Next")),
        }
        for (nth, clause) in machine.catch(id).iter().enumerate() {
            let assigned = clause.members_of("Assign");
            if assigned
                .iter()
                .any(|member| vars.iter().any(|vars| vars.has(&member.key)))
            {
                self.ours.insert((id, nth));
            } else {
                self.lead(
                    machine,
                    Slot::Catch(id, nth),
                    state.scope,
                    clause.get("Next"),
                );
            }
        }
        if state.is_task() {
            self.limits.insert(id, limit(node, vars));
        }
    }

    fn lead(&mut self, machine: &Machine<'_>, slot: Slot, scope: ScopeId, to: Option<&Node>) {
        let named = to
            .and_then(Node::text)
            .and_then(|name| machine.find(scope, name));
        if let Some(target) = named.and_then(|id| past_ours(machine, id)) {
            self.ways.insert(slot, target);
        }
    }

    /// The states of a scope that can be reached.
    pub(crate) fn reached(&self, scope: ScopeId) -> BTreeSet<StateId> {
        let mut reached = BTreeSet::new();
        let mut open = vec![Slot::Start(scope)];
        while let Some(slot) = open.pop() {
            if let Some(&Target::To(to)) = self.ways.get(&slot)
                && reached.insert(to)
            {
                let from_there = self.ways.keys().filter(|slot| slot.from() == Some(to));
                open.extend(from_there.copied());
            }
        }
        reached
    }

    pub(crate) fn edges(&self) -> impl Iterator<Item = (Slot, Target)> + '_ {
        self.ways.iter().map(|(slot, target)| (*slot, *target))
    }
}

/// The first state on the way that is not ours, or the end; nothing if the way ends in a failure of ours.
fn past_ours(machine: &Machine<'_>, from: StateId) -> Option<Target> {
    let mut at = from;
    // Ours do not lead in circles on their ways of success; somebody's changes may.
    for _ in 0..=machine.states.len() {
        let state = &machine.states[at];
        if !is_written(state) {
            return Some(Target::To(at));
        }
        let node = machine.node(at);
        if state.is_end() {
            return (node.text_of("Type") == Some("Succeed")).then_some(Target::End);
        }
        if node.get("End").is_some_and(Node::is_true) {
            return Some(Target::End);
        }
        at = machine.find(state.scope, node.text_of("Next")?)?;
    }
    None
}

fn limit(task: &Node, vars: &[Vars]) -> Limit {
    let Some(field) = task.get("TimeoutSeconds") else {
        let has_path = task.get("TimeoutSecondsPath").is_some();
        return if has_path {
            Limit::Computed
        } else {
            Limit::Absent
        };
    };
    if let Some(seconds) = field.number() {
        return Limit::Seconds(seconds);
    }
    let text = field.text().unwrap_or_default();
    let own = vars.iter().find_map(|vars| vars.own_limit(text));
    own.unwrap_or(Limit::Computed)
}
