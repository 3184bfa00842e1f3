//! What differs from item to item of a Map: its input, random texts, and variables assigned from them in the item.

use crate::expr::{Language, Path, RANDOM, Root};
use crate::read::machine::{Machine, ScopeId, State, StateId};
use crate::read::node::{Member, Node};

/// The context of an item. AWS documents it for `ItemSelector`, not for the states of an item.
pub(crate) const CONTEXT: &str = "Map.Item";

/// Variables that are assigned from variables are followed this far.
const DEPTH: usize = 4;

/// The innermost surrounding Map of which concurrent items may have both values of this state alike.
pub(crate) fn alike(
    machine: &Machine<'_>,
    id: StateId,
    asked: &Node,
    holder: Option<&Node>,
) -> Option<StateId> {
    let around = machine.enclosing(machine.states[id].scope).into_iter();
    let mut at_once = around.filter(|(map, _)| machine.states[*map].runs_items_at_once());
    let found = at_once.find(|&(map, scope)| {
        let items = Items {
            machine,
            map,
            scope,
        };
        let both = [Some(asked), holder];
        let mut values = both.into_iter().flatten();
        !values.any(|value| items.differ(value, id, DEPTH))
    });
    found.map(|(map, _)| map)
}

/// The items of a Map.
struct Items<'m, 'a> {
    machine: &'m Machine<'a>,
    map: StateId,
    /// What each of them runs.
    scope: ScopeId,
}

impl Items<'_, '_> {
    /// Whether a value of a state in the items differs from item to item.
    fn differ(&self, value: &Node, state: StateId, depth: usize) -> bool {
        let language = self.machine.states[state].language;
        let differs = |path: &Path| match &path.root {
            Root::Variable(name) => self.assigned(name, depth),
            Root::Input | Root::Data => self.of_input(path.steps.first(), state, depth),
            _ => path.is_context("Task.Token"),
        };
        value.any_expr(language, |expr| {
            expr.calls_any(&RANDOM) || expr.paths().any(differs)
        })
    }

    /// Whether a variable is assigned in the items, from something that differs.
    fn assigned(&self, name: &str, depth: usize) -> bool {
        let assigns = |node: &Node, state: StateId| {
            let mut assigned = node.members_of("Assign").iter();
            assigned.any(|member: &Member| {
                member.name() == name
                    && (member
                        .value
                        .reads(Language::Jsonata, |path| path.root == Root::Result)
                        || self.differ(&member.value, state, depth - 1))
            })
        };
        depth > 0
            && self.machine.inside(self.scope).into_iter().any(|state| {
                let node = self.machine.states[state].node;
                let clauses = ["Catch", "Choices"].map(|list| node.list_of(list));
                let mut nodes = clauses.into_iter().flatten().chain([node]);
                nodes.any(|node| assigns(node, state))
            })
    }

    /// Whether this field of a state's input, or the whole input without one, differs.
    fn of_input(&self, field: Option<&String>, state: StateId, depth: usize) -> bool {
        let around = self.machine.enclosing(self.machine.states[state].scope);
        let map = around.into_iter().map(|(around, _)| around);
        let Some(map) = map
            .into_iter()
            .find(|&around| self.machine.states[around].is_map())
        else {
            return false;
        };
        let State { node, language, .. } = self.machine.states[map];
        let Some(selector) = node.get("ItemSelector").or_else(|| node.get("Parameters")) else {
            return true;
        };
        // A field that it does not have comes from another state of the item.
        let selected = match (selector.members(), field) {
            ([], _) | (_, None) => Some(selector),
            (_, Some(field)) => selector.field(field),
        };
        let Some(selected) = selected else {
            return true;
        };
        let is_index = |path: &Path| path.has_step("Index");
        selected.reads(language, |path| path.is_context(CONTEXT) && !is_index(path))
            || if map == self.map {
                selected.reads(language, |path| path.is_context(CONTEXT) && is_index(path))
            } else {
                depth > 0 && self.differ(selected, map, depth - 1)
            }
    }
}
