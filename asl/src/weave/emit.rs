//! From the plan to the text: changes only the parts that differ.

use crate::read::node::{Member, Node};
use crate::weave::authored::{AuthoredMachine, Slot, StateId, is_written};
use crate::weave::edit::Editor;
use crate::weave::plan::{Clause, EdgeTarget, Plan, Written};
use crate::weave::refusal::Refusal;
use crate::weave::render::JsonValue;
use crate::weave::section::Section;
use std::collections::{BTreeMap, BTreeSet};

/// The text of the planned machine.
pub(crate) fn emit(
    machine: &AuthoredMachine<'_>,
    sections: &[Section<'_>],
    plan: &Plan,
) -> Result<String, Refusal> {
    let mut emitter = Emitter {
        machine,
        editor: Editor::new(machine.source, machine.scopes[0].node),
        gone: BTreeMap::new(),
    };
    for (&slot, lead) in &plan.edges {
        emitter.lead(slot, lead);
    }
    for (&state, limit) in &plan.limits {
        emitter.limit(state, limit.as_ref())?;
    }
    for (field, all) in [("Retry", &plan.retries), ("Catch", &plan.catches)] {
        for (&state, clauses) in all {
            emitter.clauses(state, field, clauses);
        }
    }
    emitter.remove();
    emitter.written(sections, &plan.written);
    let name = &machine.source.name;
    if let Some(place) = emitter.editor.shared() {
        return Err(machine.source.unreadable(place, ALIAS).into());
    }
    emitter
        .editor
        .finish()
        .ok_or_else(|| Refusal::internal(name, "two changes overlap"))
}

const ALIAS: &str = "an alias elsewhere refers to this value, and the two have to differ: write it out in both places";

struct Emitter<'m> {
    machine: &'m AuthoredMachine<'m>,
    editor: Editor<'m>,
    /// The fields of states to remove.
    gone: BTreeMap<StateId, BTreeSet<usize>>,
}

impl Emitter<'_> {
    fn lead(&mut self, slot: Slot, lead: &EdgeTarget) {
        let (within, key) = match slot {
            Slot::Start(scope) => (self.machine.scopes[scope].node, "StartAt"),
            Slot::Next(id) => (self.machine.node(id), "Next"),
            Slot::Default(id) => (self.machine.node(id), "Default"),
            Slot::Rule(id, nth) => {
                let rules = self.machine.node(id).list_of("Choices");
                (&rules[nth], "Next")
            }
            Slot::Catch(id, nth) => (&self.machine.catch(id)[nth], "Next"),
        };
        let member = within.member(key);
        match (member, lead) {
            (Some(member), EdgeTarget::To(name)) if member.value.text() == Some(name) => {}
            (Some(member), EdgeTarget::To(name)) => {
                self.editor.rename(&member.value, name);
            }
            (None, EdgeTarget::To(name)) => {
                if let Some(end) = within.member("End") {
                    self.editor
                        .replace(within, end, "Next", &JsonValue::text(name));
                }
            }
            (Some(next), EdgeTarget::End) => {
                self.editor
                    .replace(within, next, "End", &JsonValue::Bool(true));
            }
            (None, EdgeTarget::End) => {}
        }
    }

    fn alias(&self, member: &Member) -> Refusal {
        Refusal::at(self.editor.source(), &member.value, ALIAS)
    }

    fn limit(&mut self, id: StateId, limit: Option<&JsonValue>) -> Result<(), Refusal> {
        let node = self.machine.node(id);
        let members = node.members();
        let at = members
            .iter()
            .rposition(|member| member.key == "TimeoutSeconds");
        match (at, limit) {
            (Some(at), Some(limit)) if limit.is(&members[at].value) => {}
            (Some(at), Some(limit)) => {
                if Editor::is_alias(&members[at]) {
                    return Err(self.alias(&members[at]));
                }
                self.editor
                    .replace(node, &members[at], "TimeoutSeconds", limit);
            }
            (Some(at), None) => _ = self.gone.entry(id).or_default().insert(at),
            (None, Some(limit)) => {
                let resource = members.iter().position(|member| member.key == "Resource");
                let fields = [("TimeoutSeconds".to_owned(), limit)];
                self.editor
                    .insert_after(node, resource.unwrap_or(0), &fields);
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// Corrects the Retry or the Catch of a state.
    fn clauses(&mut self, id: StateId, field: &str, clauses: &[Clause]) {
        let node = self.machine.node(id);
        let members = node.members();
        let at = members.iter().rposition(|member| member.key == field);
        let current = node.list_of(field);
        let Some(at) = at.filter(|_| !current.is_empty()) else {
            let new: Vec<JsonValue> = clauses.iter().filter_map(written).cloned().collect();
            let list = JsonValue::List(new);
            match at {
                _ if clauses.is_empty() => {}
                Some(at) => self.editor.replace(node, &members[at], field, &list),
                None => self.editor.insert_before(node, onward(node), field, &list),
            }
            return;
        };
        if clauses.is_empty() {
            self.gone.entry(id).or_default().insert(at);
            return;
        }
        let list = &members[at].value;
        for (old, new, to) in gaps(clauses, current.len()) {
            let pairs = old.iter().zip(&new);
            for (&nth, piece) in pairs.filter(|(nth, piece)| !piece.is(&current[**nth])) {
                self.editor.replace_element(list, nth, piece);
            }
            let both = old.len().min(new.len());
            if new.len() > both {
                self.editor.insert_element(list, to, &new[both..]);
            } else if let (Some(&first), Some(&last)) = (old.get(both), old.last()) {
                self.editor.remove(list, &(first..last + 1));
            }
        }
    }

    /// Removes fields, neighbours together, because each alone would take the comma between them.
    fn remove(&mut self) {
        for (&id, gone) in &self.gone {
            let node = self.machine.node(id);
            let is_first = |at: &&usize| **at == 0 || !gone.contains(&(**at - 1));
            for &first in gone.iter().filter(is_first) {
                let end = (first..=node.members().len())
                    .find(|at| !gone.contains(at))
                    .unwrap_or(first + 1);
                self.editor.remove(node, &(first..end));
            }
        }
    }

    /// Inserts the written states after the last state of their section, and removes those that are no longer needed.
    fn written(&mut self, sections: &[Section<'_>], written: &[Written]) {
        let wanted: BTreeSet<&str> = written.iter().map(|state| state.name.as_str()).collect();
        for scope in &self.machine.scopes {
            let Some(states) = scope.node.get("States") else {
                continue;
            };
            let mut run: Option<usize> = None;
            for (at, &id) in scope
                .states
                .iter()
                .enumerate()
                .chain([(scope.states.len(), &usize::MAX)])
            {
                let state = self.machine.states.get(id);
                let gone =
                    state.is_some_and(|state| is_written(state) && !wanted.contains(state.name));
                match (gone, run) {
                    (true, None) => run = Some(at),
                    (false, Some(first)) => {
                        self.editor.remove(states, &(first..at));
                        run = None;
                    }
                    _ => {}
                }
            }
        }
        let mut after: BTreeMap<(usize, usize), Vec<(String, &JsonValue)>> = BTreeMap::new();
        for (nth, section) in sections.iter().enumerate() {
            let scope = &self.machine.scopes[section.scope];
            let Some(states) = scope.node.get("States") else {
                continue;
            };
            let place = |id: &StateId| scope.states.iter().position(|other| other == id);
            let mut anchor = section.members.iter().filter_map(place).max().unwrap_or(0);
            for state in written.iter().filter(|state| state.section == nth) {
                let there = self.machine.find(section.scope, &state.name);
                match there.and_then(|id| place(&id)) {
                    Some(at) => {
                        anchor = at;
                        let member = &states.members()[at];
                        if !state.state.is(&member.value) {
                            self.editor
                                .replace(states, member, &state.name, &state.state);
                        }
                    }
                    None => after
                        .entry((section.scope, anchor))
                        .or_default()
                        .push((state.name.clone(), &state.state)),
                }
            }
        }
        for ((scope, anchor), fields) in after {
            if let Some(states) = self.machine.scopes[scope].node.get("States") {
                self.editor.insert_after(states, anchor, &fields);
            }
        }
    }
}

/// The written clauses between the author's: those that are there, those that are wanted, and the index of the author's clause behind
/// them. They are corrected one by one.
fn gaps(clauses: &[Clause], count: usize) -> Vec<(Vec<usize>, Vec<&JsonValue>, usize)> {
    let kept: BTreeSet<usize> = clauses.iter().filter_map(own).collect();
    let mut from = 0;
    let mut found = Vec::new();
    let mut wanted = clauses.iter().peekable();
    loop {
        let mut new = Vec::new();
        while let Some(piece) = wanted.peek().and_then(|clause| written(clause)) {
            new.push(piece);
            wanted.next();
        }
        let next = wanted.next().and_then(own);
        let to = next.unwrap_or(count);
        let old: Vec<usize> = (from..to).filter(|nth| !kept.contains(nth)).collect();
        found.push((old, new, to));
        match next {
            Some(nth) => from = nth + 1,
            None => return found,
        }
    }
}

/// The index of the field before which a Retry or a Catch is inserted: the Catch, or the state's successor.
fn onward(state: &Node) -> usize {
    let members = state.members();
    let of = |key: &str| members.iter().position(|member| member.key == key);
    let next = || {
        let next = |member: &Member| matches!(member.key.as_str(), "Next" | "End");
        members.iter().position(next)
    };
    of("Catch").or_else(next).unwrap_or(members.len() - 1)
}

fn own(clause: &Clause) -> Option<usize> {
    match clause {
        Clause::Own(nth) => Some(*nth),
        Clause::Written(_) => None,
    }
}

fn written(clause: &Clause) -> Option<&JsonValue> {
    match clause {
        Clause::Written(piece) => Some(piece),
        Clause::Own(_) => None,
    }
}
