//! Finds the sections of a specification in the definition: where each one is entered, and what prevents guarding it.

use crate::expr::Expr;
use crate::read::error_names::nearest;
use crate::read::language::Language;
use crate::read::node::Node;
use crate::read::timing::waits_without_heartbeat;
use crate::weave::authored::{
    AuthoredMachine, Limit, ScopeId, Slot, StateId, Target, Vars, is_written,
};
use crate::weave::refusal::Refusal;
use crate::weave::section::{Section, slug};
use crate::weave::spec::{self, Spec};
use std::collections::{BTreeMap, BTreeSet};

/// The most bytes of a key.
const LONGEST_KEY: usize = 1024;

/// Finds the sections of a specification.
pub(crate) fn find<'s>(
    machine: &AuthoredMachine<'_>,
    spec: &'s Spec,
) -> Result<Vec<Section<'s>>, Refusal> {
    let mut sections: Vec<Section<'s>> = Vec::new();
    for section in &spec.sections {
        let finder = Finder {
            machine,
            source: spec,
            section,
        };
        let found = finder.section()?;
        for other in &sections {
            if let Some(&both) = found.members.intersection(&other.members).next() {
                let name = machine.states[both].name;
                let message = format!("{name} is in the section {} already", other.name);
                return Err(finder.refuse(&section.node, message));
            }
            if found.name.eq_ignore_ascii_case(&other.name) || found.vars == other.vars {
                let message = format!(
                    "there is a section {} already: give this one another name",
                    other.name
                );
                return Err(finder.refuse(&section.node, message));
            }
            if let Some(around) = beside(machine, &found, other)
                && found.spec.key.text() == other.spec.key.text()
            {
                let message = format!(
                    "{} and {} request the same key concurrently in {}: put one section around {} instead",
                    other.name,
                    found.name,
                    machine.states[around].name,
                    machine.states[around].name
                );
                return Err(finder.refuse(&section.key, message));
            }
        }
        sections.push(found);
    }
    Ok(sections)
}

/// The Parallel that runs these two in different branches.
fn beside(machine: &AuthoredMachine<'_>, a: &Section<'_>, b: &Section<'_>) -> Option<StateId> {
    let of_b = machine.enclosing(b.scope);
    machine
        .enclosing(a.scope)
        .into_iter()
        .find_map(|(state, branch)| {
            let other = of_b.iter().find(|(around, _)| *around == state)?;
            (other.1 != branch).then_some(state)
        })
}

struct Finder<'f, 's> {
    machine: &'f AuthoredMachine<'f>,
    source: &'s Spec,
    section: &'s spec::Section,
}

impl<'s> Finder<'_, 's> {
    fn section(&self) -> Result<Section<'s>, Refusal> {
        let scope = self.scope()?;
        let mut members = BTreeSet::new();
        for name in &self.section.states {
            let text = name.text().unwrap_or_default();
            let Some(id) = self.user_state(scope, text) else {
                continue;
            };
            if self.machine.states[id].is_end() {
                let message = format!(
                    "{text} ends the execution: leave it out, because the lease is released before it"
                );
                return Err(self.refuse(name, message));
            }
            if !members.insert(id) {
                return Err(self.refuse(name, format!("{text} is named twice")));
            }
        }
        let entry = self.entry(&members)?;
        let name = self.name(entry)?;
        self.language()?;
        self.shared(scope)?;
        let mut section = Section {
            spec: self.section,
            vars: Vars::of(&name),
            name,
            scope,
            members,
            entry,
            extends: BTreeSet::new(),
            extends_first: false,
            open_after: BTreeMap::new(),
            asks_again: false,
        };
        self.limits(&section)?;
        self.variables(&section)?;
        // A task that may use the whole lease gets an extend before it.
        let machine = self.machine;
        let deserves = |member: &StateId| {
            let mut tasks = machine.with_inside(*member).into_iter();
            tasks.any(|task| section.bounds(machine, task))
        };
        section.extends = section.members.iter().copied().filter(deserves).collect();
        Ok(section)
    }

    fn user_state(&self, scope: ScopeId, name: &str) -> Option<StateId> {
        let id = self.machine.find(scope, name)?;
        (!is_written(&self.machine.states[id])).then_some(id)
    }

    /// The scope that contains all the states.
    fn scope(&self) -> Result<ScopeId, Refusal> {
        let scopes = 0..self.machine.scopes.len();
        let has = |scope: ScopeId, name: &Node| {
            name.text()
                .is_some_and(|name| self.user_state(scope, name).is_some())
        };
        for name in &self.section.states {
            if !scopes.clone().any(|scope| has(scope, name)) {
                let text = name.text().unwrap_or_default();
                let users = self
                    .machine
                    .states
                    .iter()
                    .filter(|state| !is_written(state));
                let near = nearest(users.map(|state| state.name), text, 3)
                    .map(|near| format!("; {near}?"))
                    .unwrap_or_default();
                return Err(self.refuse(
                    name,
                    format!(
                        "there is no state \"{text}\" in {}{near}",
                        self.machine.source.name
                    ),
                ));
            }
        }
        let all: Vec<ScopeId> = scopes
            .filter(|&scope| self.section.states.iter().all(|name| has(scope, name)))
            .collect();
        match all.as_slice() {
            [scope] => Ok(*scope),
            [] => Err(self.refuse(
                &self.section.node,
                "its states are not in one scope: a section must be at the top level, or inside one branch or Map",
            )),
            _ => Err(self.refuse(
                &self.section.node,
                "more than one scope has states of these names: give the states of the definition different names",
            )),
        }
    }

    fn entry(&self, members: &BTreeSet<StateId>) -> Result<StateId, Refusal> {
        let mut entered: BTreeMap<StateId, String> = BTreeMap::new();
        for (slot, target) in self.machine.edges() {
            let Target::To(to) = target else { continue };
            if !members.contains(&to) || slot.from().is_some_and(|from| members.contains(&from)) {
                continue;
            }
            let from = match slot {
                Slot::Start(_) => "StartAt".to_owned(),
                slot => slot.from().map_or(String::new(), |from| {
                    self.machine.states[from].name.to_owned()
                }),
            };
            entered.entry(to).or_insert(from);
        }
        let mut found = entered.iter();
        match (found.next(), found.next()) {
            (Some((&entry, _)), None) => Ok(entry),
            (Some((&one, from_one)), Some((&two, from_two))) => {
                let name = |id: StateId| self.machine.states[id].name;
                Err(self.refuse(
                    &self.section.node,
                    format!(
                        "it is entered at {} (from {from_one}) and at {} (from {from_two}): all paths into a section must lead to one state",
                        name(one), name(two)
                    ),
                ))
            }
            _ => Err(self.refuse(&self.section.node, "no path leads into it")),
        }
    }

    fn name(&self, entry: StateId) -> Result<String, Refusal> {
        if let Some(name) = &self.section.name {
            return Ok(name.clone());
        }
        let slug = slug(self.machine.states[entry].name);
        if slug.is_ascii()
            && slug.starts_with(|c: char| c.is_ascii_alphabetic())
            && slug.len() <= 30
        {
            return Ok(slug);
        }
        let message = format!(
            "give it a name of up to 30 letters and digits: \"{}\" does not yield one",
            self.machine.states[entry].name
        );
        Err(self.refuse(&self.section.node, message))
    }

    /// A computed value must be in the definition's language.
    fn language(&self) -> Result<(), Refusal> {
        let values = self
            .section
            .metadata
            .iter()
            .flat_map(Node::members)
            .map(|member| &member.value);
        for node in values.chain([&self.section.key]) {
            let language = node.expr().map(|expr| expr.language);
            let message = match (language, self.machine.language) {
                (Some(Language::JsonPath), Language::Jsonata) => {
                    "the definition is in JSONata: write \"{% $states.input.… %}\""
                }
                (Some(Language::Jsonata), Language::JsonPath) => {
                    "the definition is in JSONPath: write a path, \"$.…\", or an intrinsic, \"States.Format('…/{}', $.…)\""
                }
                _ => continue,
            };
            return Err(self.refuse(node, message));
        }
        let key = &self.section.key;
        let bytes = key.text().map_or(0, str::len);
        let language = key.expr().map(|expr| expr.language);
        if bytes > LONGEST_KEY && language.is_none() {
            let message = format!("expected a key of at most {LONGEST_KEY} bytes, found {bytes}");
            return Err(self.refuse(key, message));
        }
        if language != Some(Language::JsonPath)
            && let Some(cure) = self.machine.language.literal_hole(key)
        {
            let message =
                format!("this key is literal text, the same for all executions: write {cure}");
            return Err(self.refuse(key, message));
        }
        Ok(())
    }

    /// Refuses concurrent items with one key, because they would block each other and fail.
    fn shared(&self, scope: ScopeId) -> Result<(), Refusal> {
        let is_constant = !self
            .section
            .key
            .any_expr(self.machine.language, Expr::varies);
        for (around, _) in self.machine.enclosing(scope) {
            let at_once = self.machine.states[around].runs_items_at_once();
            if is_constant && at_once && self.section.permits.is_none() {
                let name = self.machine.states[around].name;
                let key = self.section.key.text().unwrap_or_default();
                if key.contains("Map.Item") {
                    let message = format!(
                        "a state inside {name} cannot read Map.Item, which is there only in ItemSelector: put it into the items there (\"index.$\": \"$$.Map.Item.Index\"), and take the key from the input"
                    );
                    return Err(self.refuse(&self.section.key, message));
                }
                let message = format!(
                    "all items of {name} would request the same key: give each item its own key, put the section around {name}, or give {name} a MaxConcurrency of 1"
                );
                return Err(self.refuse(&self.section.key, message));
            }
        }
        Ok(())
    }

    /// Refuses a wait under an execution lease that nothing ends. With `bound: lease`, every task must be able to take its timeout
    /// from the lease.
    fn limits(&self, section: &Section<'_>) -> Result<(), Refusal> {
        for &member in section.members.iter().filter(|_| section.of_execution()) {
            for task in self.machine.with_inside(member) {
                if waits_without_heartbeat(self.machine.node(task))
                    && self.machine.limits.get(&task) == Some(&Limit::Absent)
                {
                    let message = format!(
                        "give {} a TimeoutSeconds or a HeartbeatSeconds: it waits for a task token without a limit, so the key may be held for a year, the longest that an execution lasts",
                        self.machine.path_of(task)
                    );
                    return Err(self.refuse(&self.section.node, message));
                }
            }
        }
        if !self.section.bound {
            return Ok(());
        }
        for &member in &section.members {
            for task in self.machine.with_inside(member) {
                let state = &self.machine.states[task];
                let is_open = self.machine.limits.get(&task) == Some(&Limit::Absent);
                if !state.language.is_jsonata() && is_open {
                    let message = format!(
                        "{} is in JSONPath, which cannot compute a timeout: give it a TimeoutSeconds, or \"QueryLanguage\": \"JSONata\"",
                        self.machine.path_of(task)
                    );
                    return Err(self.refuse(&self.section.node, message));
                }
            }
            for inner in self.machine.with_inside(member) {
                if self.machine.states[inner].processor_config("Mode") == Some("DISTRIBUTED") {
                    let message = format!(
                        "the items of {} are executions of their own, which cannot read the lease's variables: leave it out of the section",
                        self.machine.path_of(inner)
                    );
                    return Err(self.refuse(&self.section.node, message));
                }
            }
        }
        Ok(())
    }

    /// Refuses a definition that assigns variables of these names.
    fn variables(&self, section: &Section<'_>) -> Result<(), Refusal> {
        for (id, state) in self.machine.states.iter().enumerate() {
            if is_written(state) {
                continue;
            }
            let node = self.machine.node(id);
            let own = self.machine.own_catches(id).into_iter();
            let clauses = own.map(|nth| &self.machine.catch(id)[nth]);
            let rules = node.list_of("Choices").iter();
            for assigning in clauses.chain(rules).chain([node]) {
                let assigned = assigning.members_of("Assign");
                if let Some(taken) = assigned.iter().find(|member| section.vars.has(&member.key)) {
                    let message = format!(
                        "{} assigns the variable {}, which the section needs: give the section another name",
                        self.machine.path_of(id),
                        taken.key
                    );
                    return Err(self.refuse(&self.section.node, message));
                }
            }
        }
        Ok(())
    }

    fn refuse(&self, node: &Node, message: impl Into<String>) -> Refusal {
        Refusal::at(&self.source.source, node, message)
    }
}
