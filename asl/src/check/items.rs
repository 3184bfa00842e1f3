//! What differs from item to item of a Map: its input, random texts, and variables assigned from them in the item.

use crate::read::expression as text;
use crate::read::language::Language;
use crate::read::machine::{Machine, ScopeId, StateId};
use crate::read::node::{Member, Node};

/// The context of an item. AWS documents it for `ItemSelector`, not for the states of an item.
pub(crate) const CONTEXT: &str = "Map.Item";

/// Expressions that are never the same twice.
const UNIQUE: [&str; 5] = [
    "$uuid(",
    "$random(",
    "States.UUID(",
    "States.MathRandom(",
    "Task.Token",
];

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
        value.any_text(|said| {
            let bare = text::bare(said);
            let language = self.machine.states[state].language;
            let mut variables = text::variables(&bare).into_iter();
            UNIQUE.iter().any(|word| bare.contains(word))
                || variables.any(|name| self.assigned(name, depth))
                || inputs(&bare, language)
                    .iter()
                    .any(|field| self.of_input(field, state, depth))
        })
    }

    /// Whether a variable is assigned in the items, from something that differs.
    fn assigned(&self, name: &str, depth: usize) -> bool {
        let assigns = |node: &Node, state: StateId| {
            let mut assigned = node.members_of("Assign").iter();
            assigned.any(|member: &Member| {
                member.name() == name
                    && (is_of_result(&member.value) || self.differ(&member.value, state, depth - 1))
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

    /// Whether this field of a state's input, or the whole input if it is empty, differs.
    fn of_input(&self, field: &str, state: StateId, depth: usize) -> bool {
        let around = self.machine.enclosing(self.machine.states[state].scope);
        let map = around.into_iter().map(|(around, _)| around);
        let Some(map) = map
            .into_iter()
            .find(|&around| self.machine.states[around].is_map())
        else {
            return false;
        };
        let node = self.machine.states[map].node;
        let Some(selector) = node.get("ItemSelector").or_else(|| node.get("Parameters")) else {
            return true;
        };
        // A field that it does not have comes from another state of the item.
        let selected = match (selector.members(), field) {
            ([], _) | (_, "") => Some(selector),
            _ => selector.field(field),
        };
        let Some(selected) = selected else {
            return true;
        };
        let index = format!("{CONTEXT}.Index");
        selected.any_text(|said| said.replace(&index, "").contains(CONTEXT))
            || if map == self.map {
                selected.any_text(|said| said.contains(&index))
            } else {
                depth > 0 && self.differ(selected, map, depth - 1)
            }
    }
}

fn is_of_result(value: &Node) -> bool {
    value.any_text(|said| text::bare(said).contains("$states.result"))
}

/// The fields of a state's input that a text reads. The empty one stands for the whole input.
fn inputs(bare: &str, language: Language) -> Vec<&str> {
    let first = |rest: &str| -> usize { rest.find(|c| !text::is_name(c)).unwrap_or(rest.len()) };
    let root = language.input();
    let places = bare.match_indices(root).filter_map(|(at, _)| {
        let rest = &bare[at + root.len()..];
        let is_context = bare[..at].ends_with('$') || rest.starts_with('$');
        let is_variable = rest.starts_with(text::is_name);
        if is_context || is_variable {
            return None;
        }
        let rest = rest.strip_prefix('.').unwrap_or_default();
        Some(&rest[..first(rest)])
    });
    places.collect()
}

#[cfg(test)]
mod tests {
    use super::{Language, inputs};

    #[test]
    fn input_fields_are_found() {
        assert_eq!(
            inputs("$states.input.index & $x.index", Language::Jsonata),
            ["index"]
        );
        assert_eq!(inputs("$string($states.input)", Language::Jsonata), [""]);
        let json_path = "States.Format('{}', $$.State.Name, $.index, $var, $)";
        assert_eq!(inputs(json_path, Language::JsonPath), ["index", ""]);
    }
}
