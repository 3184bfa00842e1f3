//! The authored machine: the definition without the written states, where every edge leads past them. If nothing was woven, it is the
//! definition itself. That is why weaving twice gives the same text.

use crate::read::error_names::{ALL, LOST, MAY_STILL_RUN, NO_VALUE, TOO_LARGE};
use crate::read::machine::Catcher;
pub(crate) use crate::read::machine::{
    Kind, Machine, ScopeId, Slot, State, StateId, Target, errors,
};
use crate::read::node::Node;
use crate::read::source::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

/// The machine as its author wrote it, and what the weaver added to it.
pub(crate) struct AuthoredMachine<'a> {
    pub source: &'a Source,
    read: Machine<'a>,
    /// Every edge of the author's states.
    pub edges: BTreeMap<Slot, Target>,
    /// The written clauses of Catch.
    pub written_catches: BTreeSet<Slot>,
    /// The written clauses of Retry.
    pub written_retries: BTreeSet<(StateId, usize)>,
    pub limits: BTreeMap<StateId, Limit>,
}

impl<'a> Deref for AuthoredMachine<'a> {
    type Target = Machine<'a>;

    fn deref(&self) -> &Self::Target {
        &self.read
    }
}

impl<'a> AuthoredMachine<'a> {
    pub(crate) fn read(source: &'a Source, root: &'a Node) -> Self {
        let machine = Machine::read(root);
        let sections: BTreeSet<&str> = machine.states.iter().filter_map(written_for).collect();
        let vars: Vec<Vars> = sections.into_iter().map(Vars::of).collect();
        let mut authored = Self {
            source,
            edges: BTreeMap::new(),
            written_catches: BTreeSet::new(),
            written_retries: BTreeSet::new(),
            limits: BTreeMap::new(),
            read: machine,
        };
        for id in 0..authored.scopes.len() {
            if let Some(start) = authored.scopes[id].start {
                authored.lead(Slot::Start(id), Target::To(start));
            }
        }
        for id in 0..authored.states.len() {
            if !is_written(&authored.states[id]) {
                authored.state(id, &vars);
            }
        }
        authored
    }

    fn state(&mut self, id: StateId, vars: &[Vars]) {
        let state = &self.read.states[id];
        let (node, is_task) = (state.node, state.is_task());
        let written: BTreeSet<Slot> = (0..state.catch.len())
            .filter(|&nth| self.is_written_clause(&state.catch, nth, vars))
            .map(|nth| Slot::Catch(id, nth))
            .collect();
        let edges = self.read.edges_of(id).into_iter();
        let own = edges.filter(|edge| !written.contains(&edge.slot));
        let own: Vec<(Slot, Target)> = own.map(|edge| (edge.slot, edge.to)).collect();
        for (slot, to) in own {
            self.lead(slot, to);
        }
        self.written_catches.extend(written);
        for (nth, clause) in node.list_of("Retry").iter().enumerate() {
            if section_of(clause).is_some() {
                self.written_retries.insert((id, nth));
            }
        }
        if is_task {
            self.limits.insert(id, limit(node, vars));
        }
    }

    /// Whether a clause of a Catch was written by the weaver: it keeps a failure that the weaver distinguishes, in a variable of a section,
    /// and leads to a written state, or where a later clause of the author leads.
    fn is_written_clause(&self, catch: &[Catcher<'_>], nth: usize, vars: &[Vars]) -> bool {
        let clause = &catch[nth];
        let mut assigned = clause.node.members_of("Assign").iter();
        let keeps = assigned.any(|member| vars.iter().any(|vars| vars.has(&member.key)));
        let mut names = clause.errors.iter();
        let Some(next) = clause
            .next
            .filter(|_| keeps && names.all(|name| is_told_apart(name)))
        else {
            return false;
        };
        let leads = |to: Option<StateId>| to.and_then(|to| self.past_written(Target::To(to)));
        let mut later = catch[nth + 1..].iter();
        is_written(&self.states[next]) || later.any(|other| leads(other.next) == leads(Some(next)))
    }

    fn lead(&mut self, slot: Slot, to: Target) {
        if let Some(target) = self.past_written(to) {
            self.edges.insert(slot, target);
        }
    }

    /// The author's first state on the path, or the end. None if the path ends in a written failure.
    fn past_written(&self, from: Target) -> Option<Target> {
        let mut target = from;
        // The success paths of written states have no loops, but somebody may have changed them.
        for _ in 0..=self.states.len() {
            let Some(state) = target.state().map(|to| &self.states[to]) else {
                return Some(Target::End);
            };
            if !is_written(state) {
                return Some(target);
            }
            target = match state.kind {
                Kind::Fail | Kind::Choice { .. } => return None,
                _ => state.next?,
            };
        }
        None
    }

    pub(crate) fn edges(&self) -> impl Iterator<Item = (Slot, Target)> + '_ {
        self.edges.iter().map(|(slot, target)| (*slot, *target))
    }

    pub(crate) fn node(&self, state: StateId) -> &'a Node {
        self.states[state].node
    }

    /// The state, and all states inside it at any depth, in the order of the text.
    pub(crate) fn with_inside(&self, state: StateId) -> Vec<StateId> {
        let scopes = self.inner(state).iter();
        let mut found: Vec<StateId> = scopes.flat_map(|&scope| self.inside(scope)).collect();
        found.sort_unstable();
        found.push(state);
        found
    }

    /// The clauses of a state's Catch.
    pub(crate) fn catch(&self, state: StateId) -> &'a [Node] {
        self.node(state).list_of("Catch")
    }

    /// The author's clauses of a state's Catch, by their indices.
    pub(crate) fn own_catches(&self, state: StateId) -> Vec<usize> {
        let all = 0..self.states[state].catch.len();
        all.filter(|nth| !self.written_catches.contains(&Slot::Catch(state, *nth)))
            .collect()
    }
}

/// Whether written clauses name this error.
fn is_told_apart(error: &str) -> bool {
    let others = [ALL, NO_VALUE, TOO_LARGE];
    LOST.contains(&error) || MAY_STILL_RUN.contains(&error) || others.contains(&error)
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

/// How the Comment of a written state begins, before the section's name.
const MARK: &str = "Woven (";

/// The Comment of a state or a clause of Retry that is written for a section.
pub(crate) fn comment(section: &str, reason: &str) -> String {
    format!("{MARK}{section}): {reason}")
}

/// The section that a state was written for. None for the author's states.
pub(crate) fn written_for<'a>(state: &State<'a>) -> Option<&'a str> {
    section_of(state.node)
}

/// The section that its Comment names.
pub(crate) fn section_of(node: &Node) -> Option<&str> {
    let comment = node.text_of("Comment")?;
    let (section, _) = comment.strip_prefix(MARK)?.split_once("): ")?;
    Some(section)
}

pub(crate) fn is_written(state: &State<'_>) -> bool {
    written_for(state).is_some()
}

/// A section's variables: the section's name in lower case, and a suffix for the purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Vars {
    stem: String,
}

/// The author's timeout of a task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Limit {
    Absent,
    Seconds(f64),
    /// An expression or a path.
    Computed,
}

/// The purposes of variables.
const KINDS: [&str; 5] = ["entry", "lease", "proven", "doubts", "failure"];

/// The limit of a task that has none, in seconds.
const LONGEST: f64 = 99_999_999.0;
/// The text before and after the author's limit in seconds.
const AT_MOST: (&str, &str) = ("$min([", ", $left])");

impl Vars {
    pub(crate) fn of(section: &str) -> Self {
        let mut stem = String::new();
        for (at, c) in section.char_indices() {
            if c.is_ascii_uppercase() && at > 0 && !stem.ends_with('_') {
                let before = section[..at].chars().next_back();
                if before.is_some_and(|before| !before.is_ascii_uppercase()) {
                    stem.push('_');
                }
            }
            stem.push(c.to_ascii_lowercase());
        }
        Self { stem }
    }

    pub(crate) fn name(&self, kind: &str) -> String {
        format!("{}_{kind}", self.stem)
    }

    pub(crate) fn entry(&self) -> String {
        self.name("entry")
    }

    pub(crate) fn lease(&self) -> String {
        self.name("lease")
    }

    pub(crate) fn proven(&self) -> String {
        self.name("proven")
    }

    pub(crate) fn doubts(&self) -> String {
        self.name("doubts")
    }

    pub(crate) fn failure(&self) -> String {
        self.name("failure")
    }

    /// Whether this field of an Assign is one of these variables.
    pub(crate) fn has(&self, key: &str) -> bool {
        let key = key.strip_suffix(".$").unwrap_or(key);
        KINDS.iter().any(|kind| key == self.name(kind))
    }

    /// A timeout that ends with the lease, and no later than the author's own limit.
    pub(crate) fn limit(&self, own: Option<f64>) -> String {
        let (lease, proven) = (self.lease(), self.proven());
        let left = own.map_or("$left".to_owned(), |own| {
            format!("{}{own}{}", AT_MOST.0, AT_MOST.1)
        });
        format!(
            "{{% ($left := $floor(($toMillis(${lease}.safe_until) - $millis()) / 1000); $left >= 1 and $states.context.Execution.RedriveCount = ${proven} ? {left}) %}}"
        )
    }

    /// A timeout that has a value only while the lease has been verified since the last redrive.
    pub(crate) fn guard(&self, own: Option<f64>) -> String {
        let (proven, own) = (self.proven(), own.unwrap_or(LONGEST));
        format!("{{% $states.context.Execution.RedriveCount = ${proven} ? {own} %}}")
    }

    /// Whether a timeout was written by the weaver, and the author's limit before.
    pub(crate) fn own_limit(&self, text: &str) -> Option<Limit> {
        if text == self.guard(None) {
            return Some(Limit::Absent);
        }
        if let Some((_, own)) = text.split_once(" ? ")
            && let Ok(own) = own.trim_end_matches(" %}").parse()
            && text == self.guard(Some(own))
        {
            return Some(Limit::Seconds(own));
        }
        if text == self.limit(None) {
            return Some(Limit::Absent);
        }
        let own = text.split(AT_MOST.0).nth(1)?.split(AT_MOST.1).next()?;
        let own = own.parse().ok()?;
        (text == self.limit(Some(own))).then_some(Limit::Seconds(own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn a_section_names_its_variables() {
        assert_eq!(Vars::of("Order").lease(), "order_lease");
        assert_eq!(Vars::of("BookHTTPSeat2").proven(), "book_httpseat2_proven");
        assert!(Vars::of("Order").has("order_failure.$"));
        assert!(!Vars::of("Order").has("order_total"));
    }

    #[test]
    fn own_limit_is_told_from_others() {
        let vars = Vars::of("Order");
        assert_eq!(vars.own_limit(&vars.limit(None)), Some(Limit::Absent));
        let own = vars.own_limit(&vars.limit(Some(30.0)));
        assert_eq!(own, Some(Limit::Seconds(30.0)));
        assert_eq!(vars.own_limit("{% $min([30, $left]) %}"), None);
        assert_eq!(vars.own_limit(&vars.guard(None)), Some(Limit::Absent));
        let own = vars.own_limit(&vars.guard(Some(30.5)));
        assert_eq!(own, Some(Limit::Seconds(30.5)));
        assert_eq!(vars.own_limit(&Vars::of("Other").guard(None)), None);
        assert_eq!(vars.own_limit(&Vars::of("Other").limit(None)), None);
    }
}
