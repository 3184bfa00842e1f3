//! Variables that a state reads and no state assigns: the execution fails there.

use crate::check::finding::Finding;
use crate::check::rule::Rule;
use crate::expr::Root;
use crate::read::error_names::nearest;
use crate::read::machine::Machine;
use crate::read::node::{Member, Node, Value};
use std::collections::BTreeSet;

/// Only what is a path and nothing else is looked at: an expression may have variables of its own.
pub(crate) fn check(definition: &Node, machine: &Machine<'_>, findings: &mut Vec<Finding>) {
    // That has said it already.
    if findings
        .iter()
        .any(|finding| finding.rule == Rule::HandleOverwritten)
    {
        return;
    }
    let mut assigned = BTreeSet::new();
    assigned_in(definition, &mut assigned);
    let led_to = machine.led_to();
    let states = machine.states.iter().enumerate();
    for (id, state) in states.filter(|(id, _)| led_to.contains(id)) {
        let mut missing = Vec::new();
        for member in state.node.members() {
            // What is inside has states of its own.
            if ["Branches", "ItemProcessor", "Iterator"].contains(&member.key.as_str()) {
                continue;
            }
            member.value.texts(&mut |text| {
                let path = text.expr_in(state.language).and_then(|expr| expr.path());
                let name = path.and_then(|path| match &path.root {
                    Root::Variable(name) => Some(name),
                    _ => None,
                });
                if let Some(name) = name.filter(|name| !assigned.contains(name.as_str())) {
                    missing.push((text.span, name.clone()));
                }
            });
        }
        for (at, name) in missing {
            let near = nearest(assigned.iter().copied(), &name, 2);
            let near = near.map_or_else(String::new, |near| format!("; ${near}?"));
            let message = format!("reads ${name}, which no state assigns{near}");
            findings.push(Finding::of(machine, Rule::Malformed, id, at, message));
        }
    }
}

fn assigned_in<'a>(node: &'a Node, found: &mut BTreeSet<&'a str>) {
    match &node.value {
        Value::Object(members) => {
            for member in members {
                if member.key == "Assign" {
                    found.extend(member.value.members().iter().map(Member::name));
                }
                assigned_in(&member.value, found);
            }
        }
        Value::List(items) => items.iter().for_each(|item| assigned_in(item, found)),
        _ => {}
    }
}
