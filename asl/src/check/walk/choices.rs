//! Choice: which of its ways an execution can take.

use crate::check::lease::{Env, Status};
use crate::check::outcomes::Error;
use crate::check::walk::steps::flow;
use crate::check::walk::{Edge, To, Walker};
use crate::read::expression as text;
use crate::read::machine::StateId;
use crate::read::node::Node;

impl Walker<'_, '_> {
    pub(crate) fn choice(
        &self,
        id: StateId,
        env: &Env,
        rules: &[(&Node, Option<StateId>)],
        default: Option<StateId>,
    ) -> Vec<Edge> {
        let machine = self.machine;
        let state = &machine.states[id];
        let mut after = env.clone();
        flow(&mut after, |places| places.after(id, state));
        // What the last acquire that tells contention as a result has told: nothing, if it failed.
        let asked = env.iter().filter(|lease| {
            self.request(lease.acquire)
                .is_some_and(|request| request.on_held_result)
        });
        let outcome = asked
            .max_by_key(|lease| lease.since)
            .map(|lease| match lease.status {
                Status::Refused => "held",
                Status::Failed => "",
                _ => "acquired",
            });
        let mut edges = Vec::new();
        for (nth, (rule, next)) in rules.iter().enumerate() {
            let matches = outcome
                .zip(asks_outcome(rule))
                .map(|(outcome, (value, differs))| (outcome == value) != differs);
            if matches == Some(false) {
                continue;
            }
            let to = next.map_or(To::Nowhere, To::State);
            edges.push(Edge {
                env: after.clone(),
                to,
                by: Some(format!("Choice {}", nth + 1)),
            });
            if matches == Some(true) {
                return edges;
            }
        }
        edges.push(match default {
            Some(next) => Edge {
                env: after,
                to: To::State(next),
                by: Some("Default".to_owned()),
            },
            None => Edge {
                env: after,
                to: To::Failed(Error::Named("States.NoChoiceMatched".to_owned())),
                by: Some("no rule that matches and no Default".to_owned()),
            },
        });
        edges
    }
}

/// The outcome that a rule of a Choice asks for, and whether it is met by any other one.
fn asks_outcome(rule: &Node) -> Option<(&str, bool)> {
    if let Some(condition) = rule.text_of("Condition") {
        let inside = text::inside(condition)?.trim();
        let (path, rest) = inside.split_once('=')?;
        let (path, differs) = path
            .strip_suffix('!')
            .map_or((path, false), |path| (path, true));
        let path = path.trim();
        let simple = path.ends_with(".outcome") && !path.contains(' ');
        let value = rest.trim().trim_matches(['\'', '"']);
        return Some((value, differs)).filter(|_| simple && is_outcome(value));
    }
    let simple = rule.text_of("Variable")?.ends_with(".outcome");
    let value = rule.text_of("StringEquals")?;
    Some((value, false)).filter(|_| simple && is_outcome(value))
}

fn is_outcome(value: &str) -> bool {
    matches!(value, "acquired" | "held")
}
