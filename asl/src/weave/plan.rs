//! The plan of the woven machine: where every edge leads, what every Catch lists, and which states are written.

use crate::read::error_names::{THROTTLED, matches};
use crate::read::node::Node;
use crate::weave::authored::{AuthoredMachine, Limit, Slot, StateId, Target, errors, is_written};
use crate::weave::refusal::Refusal;
use crate::weave::render::JsonValue;
use crate::weave::retries::not_begun;
use crate::weave::section::{Names, Role, Section};
use crate::weave::spec::Spec;
use std::collections::{BTreeMap, BTreeSet};

/// Where an edge is to lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EdgeTarget {
    End,
    To(String),
}

/// A clause of a Catch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Clause {
    /// The author's clause, by its index. Its target is an edge.
    Own(usize),
    Written(JsonValue),
}

/// The Catch of a member.
pub(crate) struct Catching {
    pub clauses: Vec<Clause>,
    /// For each of the author's clauses, whether the step may still be running after the errors that it catches.
    pub open: Vec<bool>,
}

/// A written state.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Written {
    /// The index of its section.
    pub section: usize,
    pub name: String,
    pub state: JsonValue,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Plan {
    pub edges: BTreeMap<Slot, EdgeTarget>,
    pub catches: BTreeMap<StateId, Vec<Clause>>,
    /// The time limits of tasks. `None` for no limit.
    pub limits: BTreeMap<StateId, Option<JsonValue>>,
    pub retries: BTreeMap<StateId, Vec<Clause>>,
    /// Sorted by section and role.
    pub written: Vec<Written>,
}

pub(crate) struct Planner<'p, 's> {
    pub machine: &'p AuthoredMachine<'p>,
    pub spec: &'s Spec,
    pub sections: &'p [Section<'s>],
    names: Names,
    needed: BTreeSet<(usize, Role)>,
}

/// How an edge leaves a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Success,
    /// By a Catch, and nothing is running any more.
    Over,
    /// By a Catch, and something may still be running.
    Open,
}

/// Plans the woven machine.
pub(crate) fn plan<'p, 's>(
    machine: &'p AuthoredMachine<'p>,
    spec: &'s Spec,
    sections: &'p [Section<'s>],
) -> Result<Plan, Refusal> {
    let mut planner = Planner {
        machine,
        spec,
        sections,
        names: Names::of(machine),
        needed: BTreeSet::new(),
    };
    let mut woven = Plan {
        edges: BTreeMap::new(),
        catches: BTreeMap::new(),
        limits: BTreeMap::new(),
        retries: BTreeMap::new(),
        written: Vec::new(),
    };
    for (slot, target) in machine.edges() {
        if !matches!(slot, Slot::Catch(..)) {
            woven
                .edges
                .insert(slot, planner.lead(slot.from(), target, How::Success));
        }
    }
    for (id, state) in machine.states.iter().enumerate() {
        if !is_written(state) && (state.is_task() || state.has_scopes()) {
            let clauses = planner.catch(id, &mut woven.edges);
            woven.catches.insert(id, clauses);
        }
    }
    for (&task, limit) in &machine.limits {
        woven.limits.insert(task, planner.limit(task, *limit));
        woven.retries.insert(task, planner.retry(task));
    }
    woven.written = planner.written()?;
    Ok(woven)
}

impl Planner<'_, '_> {
    fn section_of(&self, state: StateId) -> Option<usize> {
        self.sections
            .iter()
            .position(|section| section.members.contains(&state))
    }

    /// The name of a written state, which is marked as needed.
    pub(crate) fn need(&mut self, section: usize, role: Role) -> String {
        self.needed.insert((section, role));
        self.names.name(&self.sections[section], role)
    }

    /// The name of the state that makes the lease last before this one.
    pub(crate) fn renew(&mut self, section: usize, before: StateId) -> String {
        let role = (self.sections[section].policy().renew)(before);
        self.need(section, role)
    }

    /// The target of an edge to this state from outside its section.
    pub(crate) fn enter(&mut self, state: StateId) -> String {
        match self.section_of(state) {
            Some(section) if self.sections[section].is_of_item(self.machine) => {
                self.need(section, Role::Begin)
            }
            Some(section) => self.need(section, Role::Acquire),
            None => self.machine.states[state].name.to_owned(),
        }
    }

    /// The target of an edge to this state from inside its section.
    pub(crate) fn go_on(&mut self, section: usize, state: StateId) -> String {
        if self.sections[section].extends.contains(&state) {
            self.renew(section, state)
        } else {
            self.machine.states[state].name.to_owned()
        }
    }

    pub(crate) fn lead(&mut self, from: Option<StateId>, target: Target, how: How) -> EdgeTarget {
        let inside = from.and_then(|from| self.section_of(from));
        let Some(section) = inside else {
            return match target {
                Target::End => EdgeTarget::End,
                Target::To(to) => EdgeTarget::To(self.enter(to)),
            };
        };
        if let Target::To(to) = target
            && self.section_of(to) == inside
        {
            return EdgeTarget::To(self.go_on(section, to));
        }
        let sections = self.sections;
        let leaving = &sections[section];
        let role = match (target, how) {
            _ if leaving.ends_at(self.machine, target) => None,
            (Target::To(to), How::Over) => Some(Role::ReleaseAfterCaughtError(to)),
            (Target::To(to), How::Open) => leaving.policy().keep.map(|role| role(to)),
            _ => Some((leaving.policy().release)(target)),
        };
        match (role, target) {
            (Some(role), _) => EdgeTarget::To(self.need(section, role)),
            (None, Target::End) => EdgeTarget::End,
            // The lease lasts until the execution ends.
            (None, Target::To(to)) => EdgeTarget::To(self.enter(to)),
        }
    }

    /// The clauses of a Catch. Adds the targets of the author's clauses to `edges`.
    fn catch(&mut self, id: StateId, edges: &mut BTreeMap<Slot, EdgeTarget>) -> Vec<Clause> {
        let own = self.machine.own_catches(id);
        let catching = match self.section_of(id) {
            Some(section) => self.catching(section, id, &own),
            None => Catching {
                clauses: own.iter().copied().map(Clause::Own).collect(),
                open: vec![false; own.len()],
            },
        };
        for (&nth, open) in own.iter().zip(&catching.open) {
            if let Some(&target) = self.machine.edges.get(&Slot::Catch(id, nth)) {
                let how = if *open { How::Open } else { How::Over };
                let lead = self.lead(Some(id), target, how);
                edges.insert(Slot::Catch(id, nth), lead);
            }
        }
        catching.clauses
    }

    /// The section that a task runs in, at any depth.
    fn around(&self, task: StateId) -> Option<&Section<'_>> {
        self.sections.iter().find(|section| {
            let member = self.machine.outermost(task, section.scope);
            member.is_some_and(|member| section.members.contains(&member))
        })
    }

    fn limit(&self, task: StateId, own: Limit) -> Option<JsonValue> {
        let outer = self.around(task);
        let seconds = match own {
            Limit::Absent => None,
            Limit::Seconds(seconds) => Some(seconds),
            // The author's expression stays: the plan has the value that is already in the text.
            Limit::Computed => {
                return self
                    .machine
                    .node(task)
                    .get("TimeoutSeconds")
                    .map(|limit| JsonValue::copied(self.machine.source, limit));
            }
        };
        match outer {
            Some(section) if section.bounds(self.machine, task) => {
                Some(section.vars.limit(seconds).into())
            }
            Some(section) if section.guards(self.machine, task) => {
                Some(section.vars.guard(seconds).into())
            }
            _ => seconds.map(JsonValue::from),
        }
    }

    /// The clauses of a task's Retry. One that was written before keeps its place.
    fn retry(&self, task: StateId) -> Vec<Clause> {
        let list = self.machine.node(task).list_of("Retry");
        let own = |nth: &usize| !self.machine.written_retries.contains(&(task, *nth));
        let authored: Vec<&Node> = (0..list.len()).filter(own).map(|nth| &list[nth]).collect();
        let mut added = self.added_retry(task, &authored).map(Clause::Written);
        let mut clauses = Vec::new();
        for nth in 0..list.len() {
            if own(&nth) {
                clauses.push(Clause::Own(nth));
            } else {
                clauses.extend(added.take());
            }
        }
        clauses.extend(added);
        clauses
    }

    /// The added clause for a step that Lambda did not start, unless the author's own Retry covers that error.
    fn added_retry(&self, task: StateId, authored: &[&Node]) -> Option<JsonValue> {
        let section = self.around(task).filter(|section| section.asks_again)?;
        let resource = self.machine.node(task).text_of("Resource")?;
        let covers = |clause: &&Node| matches(&errors(clause), THROTTLED);
        (resource.contains(":lambda:") && !authored.iter().any(covers))
            .then(|| not_begun(&section.name))
    }

    /// All states that are needed, including those that other written states need.
    fn written(&mut self) -> Result<Vec<Written>, Refusal> {
        let mut states: BTreeMap<(usize, Role), JsonValue> = BTreeMap::new();
        loop {
            let missing: Vec<_> = self
                .needed
                .iter()
                .copied()
                .filter(|key| !states.contains_key(key))
                .collect();
            if missing.is_empty() {
                break;
            }
            for (section, role) in missing {
                let state = self.content(section, role);
                states.insert((section, role), state);
            }
        }
        let mut written = Vec::new();
        for ((section, role), state) in states {
            let name = self.names.name(&self.sections[section], role);
            let taken = self
                .machine
                .states
                .iter()
                .position(|state| !is_written(state) && state.name == name);
            if let Some(taken) = taken {
                let message = format!(
                    "there is a state \"{}\" already, and the section needs the name: give the section another name",
                    self.machine.path_of(taken)
                );
                let node = &self.sections[section].spec.node;
                return Err(Refusal::at(&self.spec.source, node, message));
            }
            written.push(Written {
                section,
                name,
                state,
            });
        }
        Ok(written)
    }
}
