//! A definition as scopes of states, for the checker and the weaver. Nothing here depends on leases.

use crate::read::error_names::ALL;
use crate::read::language::Language;
use crate::read::node::{Member, Node, Span};
use crate::read::shape;
use crate::read::timing::Retrier;
use std::collections::{BTreeSet, HashMap};

/// A state, by its place in [`Machine::states`].
pub(crate) type StateId = usize;
/// A scope, by its place in [`Machine::scopes`].
pub(crate) type ScopeId = usize;

#[derive(Debug)]
pub(crate) struct Machine<'a> {
    /// Of the definition as a whole.
    pub language: Language,
    pub states: Vec<State<'a>>,
    /// The first is the machine itself.
    pub scopes: Vec<Scope<'a>>,
    /// Faults of its shape: the place, the state, and the message.
    pub problems: Vec<(Span, Option<StateId>, String)>,
}

/// A set of states with one start: the machine, a branch of a Parallel, or the processor of a Map.
#[derive(Debug)]
pub(crate) struct Scope<'a> {
    pub node: &'a Node,
    pub start: Option<StateId>,
    pub states: Vec<StateId>,
    names: HashMap<&'a str, StateId>,
    /// The Parallel or Map around it.
    pub within: Option<StateId>,
}

#[derive(Debug)]
pub(crate) struct State<'a> {
    pub name: &'a str,
    /// The span of its name.
    pub at: Span,
    pub node: &'a Node,
    pub scope: ScopeId,
    pub language: Language,
    pub kind: Kind<'a>,
    /// None if it is missing, or names a state that does not exist.
    pub next: Option<Target>,
    pub retry: Vec<Retrier>,
    pub catch: Vec<Catcher<'a>>,
    /// The first clause of the Catch with each name.
    pub clauses: HashMap<String, usize>,
}

#[derive(Debug)]
pub(crate) enum Kind<'a> {
    Task,
    Pass,
    Wait,
    Choice {
        rules: Vec<(&'a Node, Option<StateId>)>,
        default: Option<StateId>,
    },
    Succeed,
    Fail,
    Parallel(Vec<ScopeId>),
    Map(Option<ScopeId>),
}

/// Where an edge leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// The end of the scope.
    End,
    To(StateId),
}

/// The field that contains an edge.
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

/// A way out of a state. Failures that no clause catches have none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge<'m> {
    pub slot: Slot,
    /// The errors that lead here.
    pub on: &'m [String],
    pub to: Target,
}

impl Slot {
    /// The state that the edge leaves.
    pub(crate) fn from(self) -> Option<StateId> {
        match self {
            Self::Start(_) => None,
            Self::Next(id) | Self::Rule(id, _) | Self::Default(id) | Self::Catch(id, _) => Some(id),
        }
    }

    /// Whether only an error leads along it.
    pub(crate) fn is_catch(self) -> bool {
        matches!(self, Self::Catch(..))
    }
}

impl Target {
    /// The state, unless it is the end.
    pub(crate) fn state(self) -> Option<StateId> {
        match self {
            Self::End => None,
            Self::To(state) => Some(state),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Catcher<'a> {
    pub errors: Vec<String>,
    pub next: Option<StateId>,
    pub node: &'a Node,
}

impl State<'_> {
    pub(crate) fn is_task(&self) -> bool {
        matches!(self.kind, Kind::Task)
    }

    pub(crate) fn is_map(&self) -> bool {
        matches!(self.kind, Kind::Map(_))
    }

    /// A Map whose items may run concurrently.
    pub(crate) fn runs_items_at_once(&self) -> bool {
        self.is_map() && self.node.number_of("MaxConcurrency") != Some(1.0)
    }

    /// A Parallel or a Map.
    pub(crate) fn has_scopes(&self) -> bool {
        matches!(self.kind, Kind::Parallel(_) | Kind::Map(_))
    }

    /// A field of a Map's `ProcessorConfig`.
    pub(crate) fn processor_config(&self, key: &str) -> Option<&str> {
        let config = self.node.get("ItemProcessor")?.get("ProcessorConfig")?;
        config.text_of(key)
    }

    /// A Map that may succeed although some items fail.
    pub(crate) fn tolerates_failures(&self) -> bool {
        let fields = self.node.members().iter();
        let mut keys = fields.map(|member| member.key.as_str());
        self.is_map() && keys.any(|key| key.starts_with("ToleratedFailure"))
    }

    /// A Succeed or a Fail.
    pub(crate) fn is_end(&self) -> bool {
        matches!(self.kind, Kind::Succeed | Kind::Fail)
    }
}

impl<'a> Machine<'a> {
    pub(crate) fn read(node: &'a Node) -> Self {
        let language = Language::read(node, Language::JsonPath);
        let mut machine = Self {
            language,
            states: Vec::new(),
            scopes: Vec::new(),
            problems: Vec::new(),
        };
        machine.scope(node, "Machine", None, language);
        machine.look_at_names();
        machine
    }

    /// The scopes directly inside a state.
    pub(crate) fn inner(&self, state: StateId) -> &[ScopeId] {
        match &self.states[state].kind {
            Kind::Parallel(branches) => branches,
            Kind::Map(Some(processor)) => std::slice::from_ref(processor),
            _ => &[],
        }
    }

    /// The Parallels and Maps around a scope, the innermost first, each with its inner scope.
    pub(crate) fn enclosing(&self, scope: ScopeId) -> Vec<(StateId, ScopeId)> {
        let mut found = Vec::new();
        let mut at = scope;
        while let Some(state) = self.scopes[at].within {
            found.push((state, at));
            at = self.states[state].scope;
        }
        found
    }

    /// Whether an error that leaves this scope ends the execution: nothing around it catches, retries or tolerates it. Items of a
    /// distributed Map are executions of their own.
    pub(crate) fn failure_ends_execution(&self, scope: ScopeId) -> bool {
        for (around, _) in self.enclosing(scope) {
            let state = &self.states[around];
            if state.processor_config("Mode") == Some("DISTRIBUTED") {
                return true;
            }
            let retries = state.retry.iter().any(|retrier| retrier.attempts > 0);
            if retries || !state.catch.is_empty() || state.tolerates_failures() {
                return false;
            }
        }
        true
    }

    /// A state's name with those around it: `Each / Work`.
    pub(crate) fn path_of(&self, state: StateId) -> String {
        let around = self.enclosing(self.states[state].scope);
        let outer = around.iter().rev().map(|(state, _)| *state);
        let names: Vec<&str> = outer
            .chain([state])
            .map(|state| self.states[state].name)
            .collect();
        names.join(" / ")
    }

    /// The state of this name in a scope.
    pub(crate) fn find(&self, scope: ScopeId, name: &str) -> Option<StateId> {
        self.scopes[scope].names.get(name).copied()
    }

    /// The state of this scope that is the given state or contains it.
    pub(crate) fn outermost(&self, state: StateId, scope: ScopeId) -> Option<StateId> {
        let of = self.states[state].scope;
        if of == scope {
            return Some(state);
        }
        let around = self.enclosing(of).into_iter().map(|(state, _)| state);
        around
            .into_iter()
            .find(|&state| self.states[state].scope == scope)
    }

    /// Whether a state is in a scope or in one within it.
    pub(crate) fn is_inside(&self, state: StateId, scope: ScopeId) -> bool {
        self.outermost(state, scope).is_some()
    }

    /// The edges out of a state, in the order of their fields. An edge to a state that does not exist is left out.
    pub(crate) fn edges_of(&self, id: StateId) -> Vec<Edge<'_>> {
        let state = &self.states[id];
        let to = |state: Option<StateId>| state.map(Target::To);
        let mut found: Vec<(Slot, &[String], Option<Target>)> = Vec::new();
        match &state.kind {
            Kind::Choice { rules, default } => {
                let rules = rules.iter().enumerate();
                found.extend(rules.map(|(nth, rule)| (Slot::Rule(id, nth), &[][..], to(rule.1))));
                found.push((Slot::Default(id), &[], to(*default)));
            }
            Kind::Succeed | Kind::Fail => {}
            _ => found.push((Slot::Next(id), &[], state.next)),
        }
        for (nth, catcher) in state.catch.iter().enumerate() {
            found.push((Slot::Catch(id, nth), &catcher.errors, to(catcher.next)));
        }
        let found = found.into_iter();
        found
            .filter_map(|(slot, on, to)| Some(Edge { slot, on, to: to? }))
            .collect()
    }

    /// All successors of a state, whatever its leases are.
    pub(crate) fn successors(&self, state: StateId) -> Vec<StateId> {
        let edges = self.edges_of(state).into_iter();
        edges.filter_map(|edge| edge.to.state()).collect()
    }

    /// The successors of a state unless it fails.
    pub(crate) fn onward(&self, state: StateId) -> Vec<StateId> {
        let edges = self.edges_of(state).into_iter();
        let edges = edges.filter(|edge| !edge.slot.is_catch());
        edges.filter_map(|edge| edge.to.state()).collect()
    }

    /// Whether a scope can end without failing.
    pub(crate) fn can_end(&self, scope: ScopeId) -> bool {
        let mut states = self.scopes[scope].states.iter();
        states.any(|&state| match self.states[state].kind {
            Kind::Fail | Kind::Choice { .. } => false,
            _ => self.states[state].next == Some(Target::End),
        })
    }

    /// The first states of the scopes in a state.
    pub(crate) fn starts_in(&self, state: StateId) -> Vec<StateId> {
        let scopes = self.inner(state).iter();
        scopes
            .filter_map(|&scope| self.scopes[scope].start)
            .collect()
    }

    /// All states that some path leads to, whatever the states on it do. No error comes to a clause behind one for all errors.
    pub(crate) fn led_to(&self) -> BTreeSet<StateId> {
        let mut found = BTreeSet::new();
        let mut open: Vec<StateId> = self.scopes[0].start.into_iter().collect();
        while let Some(state) = open.pop() {
            if found.insert(state) {
                let mut all_caught = false;
                for edge in self.edges_of(state) {
                    if !all_caught {
                        open.extend(edge.to.state());
                    }
                    all_caught |= edge.on.iter().any(|name| name == ALL);
                }
                open.extend(self.starts_in(state));
            }
        }
        found
    }

    /// All states in a scope and in the scopes within it.
    pub(crate) fn inside(&self, scope: ScopeId) -> Vec<StateId> {
        let mut found = Vec::new();
        let mut open = vec![scope];
        while let Some(scope) = open.pop() {
            for &state in &self.scopes[scope].states {
                found.push(state);
                open.extend(self.inner(state));
            }
        }
        found
    }

    /// Names are unique in the whole machine.
    fn look_at_names(&mut self) {
        let mut seen = HashMap::new();
        for id in 0..self.states.len() {
            let State { name, at, .. } = self.states[id];
            if let Some(first) = seen.insert(name, id) {
                let first = self.path_of(first);
                let message = format!("there is a state \"{first}\" of the same name");
                self.problem(at, Some(id), message);
            }
        }
    }

    fn scope(
        &mut self,
        node: &'a Node,
        what: &'static str,
        within: Option<StateId>,
        language: Language,
    ) -> ScopeId {
        let id = self.scopes.len();
        for (at, message) in shape::faults(node, what, language) {
            self.problem(at, within, message);
        }
        self.scopes.push(Scope {
            node,
            start: None,
            states: Vec::new(),
            names: HashMap::new(),
            within,
        });
        let empty: &'a [Member] = &[];
        let members = node.get("States").map_or(empty, Node::members);
        if members.is_empty() {
            self.problem(node.span, within, "no States");
        }
        // All names come first, because a state may lead to a later one.
        let first = self.states.len();
        for member in members {
            let state = &member.value;
            self.scopes[id].states.push(self.states.len());
            self.scopes[id].names.insert(&member.key, self.states.len());
            self.states.push(State {
                name: &member.key,
                at: member.at,
                node: state,
                scope: id,
                language: Language::read(state, language),
                kind: Kind::Pass,
                next: None,
                retry: Vec::new(),
                catch: Vec::new(),
                clauses: HashMap::new(),
            });
        }
        let start = node.get("StartAt");
        self.scopes[id].start = self.target(id, start, within, node.span, "StartAt");
        for state in first..first + members.len() {
            self.fill(state);
        }
        id
    }

    fn fill(&mut self, id: StateId) {
        let State {
            node, scope, at, ..
        } = self.states[id];
        self.look_at_fields(id);
        let kind = self.kind(id);
        let is_last = matches!(kind, Kind::Choice { .. } | Kind::Succeed | Kind::Fail);
        let next = if is_last || node.get("End").is_some_and(Node::is_true) {
            Some(Target::End)
        } else {
            let field = "Next or \"End\": true";
            let to = self.target(scope, node.get("Next"), Some(id), at, field);
            to.map(Target::To)
        };
        let retry = node.list_of("Retry").iter();
        let retry = retry
            .map(|node| Retrier::read(node, owned(errors(node))))
            .collect();
        let catch = node.get("Catch").map_or(&[][..], Node::list).iter();
        let catch: Vec<Catcher<'a>> = catch
            .map(|node| Catcher {
                errors: owned(errors(node)),
                next: self.target(scope, node.get("Next"), Some(id), node.span, "Next"),
                node,
            })
            .collect();
        let mut clauses = HashMap::new();
        for (nth, catcher) in catch.iter().enumerate() {
            for name in &catcher.errors {
                clauses.entry(name.clone()).or_insert(nth);
            }
        }
        let state = &mut self.states[id];
        state.clauses = clauses;
        (state.kind, state.next, state.retry, state.catch) = (kind, next, retry, catch);
    }

    /// Reads what is particular to the type of a state, and the scopes in it.
    fn kind(&mut self, id: StateId) -> Kind<'a> {
        let State {
            node,
            scope,
            at,
            language,
            ..
        } = self.states[id];
        match node.text_of("Type").unwrap_or_default() {
            "Task" => Kind::Task,
            "Pass" => Kind::Pass,
            "Wait" => Kind::Wait,
            "Succeed" => Kind::Succeed,
            "Fail" => Kind::Fail,
            "Choice" => {
                let rules = self.list(id, "Choices").iter();
                let rules = rules.map(|rule| {
                    let next = self.target(scope, rule.get("Next"), Some(id), rule.span, "Next");
                    (rule, next)
                });
                let rules = rules.collect();
                let default = node.get("Default");
                let default =
                    default.and_then(|_| self.target(scope, default, Some(id), at, "Default"));
                Kind::Choice { rules, default }
            }
            "Parallel" => {
                let branches = self.list(id, "Branches").iter();
                let scopes =
                    branches.map(|branch| self.scope(branch, "Branch", Some(id), language));
                Kind::Parallel(scopes.collect())
            }
            "Map" => {
                let processor = node.get("ItemProcessor").or_else(|| node.get("Iterator"));
                if processor.is_none() {
                    self.problem(at, Some(id), "expected ItemProcessor");
                }
                let processor = processor
                    .map(|processor| self.scope(processor, "Processor", Some(id), language));
                Kind::Map(processor)
            }
            other => {
                let at = node.get("Type").map_or(at, |node| node.span);
                let message = format!(
                    "expected a Type of Task, Pass, Wait, Choice, Succeed, Fail, Parallel or Map, found \"{other}\""
                );
                self.problem(at, Some(id), message);
                Kind::Pass
            }
        }
    }

    /// What the service refuses of the fields of a state.
    fn look_at_fields(&mut self, id: StateId) {
        let State {
            node,
            at,
            language,
            name,
            ..
        } = self.states[id];
        if let Some(what) = TYPES
            .into_iter()
            .find(|name| node.text_of("Type") == Some(*name))
        {
            for (at, message) in shape::faults(node, what, language) {
                self.problem(at, Some(id), message);
            }
        }
        if let Some(message) = shape::fault_of_name(name) {
            self.problem(at, Some(id), message);
        }
        if let Some(language) = node.get("QueryLanguage")
            && self.language.is_jsonata()
            && language.text() == Some("JSONPath")
        {
            let message = "the machine is in JSONata, in which no state can be in JSONPath";
            self.problem(language.span, Some(id), message);
        }
    }

    /// Reads the parts of a state.
    fn list(&mut self, id: StateId, field: &str) -> &'a [Node] {
        let State { node, at, .. } = self.states[id];
        let list = node.get(field).map_or(&[][..], Node::list);
        if list.is_empty() {
            self.problem(at, Some(id), format!("expected {field}"));
        }
        list
    }

    fn target(
        &mut self,
        scope: ScopeId,
        name: Option<&Node>,
        from: Option<StateId>,
        at: Span,
        field: &str,
    ) -> Option<StateId> {
        let Some(text) = name.and_then(Node::text) else {
            self.problem(at, from, format!("expected {field}"));
            return None;
        };
        let found = self.find(scope, text);
        if found.is_none() {
            let at = name.map_or(at, |name| name.span);
            self.problem(at, from, format!("there is no state \"{text}\" here"));
        }
        found
    }

    fn problem(&mut self, at: Span, state: Option<StateId>, message: impl Into<String>) {
        self.problems.push((at, state, message.into()));
    }
}

/// The types of states.
const TYPES: [&str; 8] = [
    "Task", "Pass", "Wait", "Choice", "Succeed", "Fail", "Parallel", "Map",
];

/// All states that one leads to along these edges. It contains itself only if it is in a loop.
pub(crate) fn closure(
    from: StateId,
    mut next: impl FnMut(StateId) -> Vec<StateId>,
) -> BTreeSet<StateId> {
    let mut seen = BTreeSet::new();
    let mut open = next(from);
    while let Some(state) = open.pop() {
        if seen.insert(state) {
            open.extend(next(state));
        }
    }
    seen
}

/// The names that a clause of Retry or Catch lists.
pub(crate) fn errors(clause: &Node) -> Vec<&str> {
    let names = clause.list_of("ErrorEquals");
    names.iter().filter_map(Node::text).collect()
}

fn owned(names: Vec<&str>) -> Vec<String> {
    names.into_iter().map(str::to_owned).collect()
}
