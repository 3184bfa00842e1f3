//! Choice: which of its ways an execution can take.

use crate::expression as text;
use crate::lease::{Env, Status};
use crate::machine::StateId;
use crate::node::Node;
use crate::outcomes::Error;
use crate::steps::flow;
use crate::walk::{Edge, To, Walker};

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
        // Whether the last acquire that tells contention as a result was granted.
        let asked = env.iter().filter(|lease| {
            self.request(lease.acquire)
                .is_some_and(|request| request.on_held_result)
        });
        let granted = asked
            .max_by_key(|lease| lease.since)
            .map(|lease| lease.status != Status::Refused);
        let mut edges = Vec::new();
        for (nth, (rule, next)) in rules.iter().enumerate() {
            let told = tells_granted(rule);
            if let (Some(granted), Some(told)) = (granted, told)
                && granted != told
            {
                continue;
            }
            let to = next.map_or(To::Nowhere, To::State);
            edges.push(Edge {
                env: after.clone(),
                to,
                by: Some(format!("Choice {}", nth + 1)),
            });
            if granted.is_some() && told.is_some() {
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

/// Whether a rule of a Choice asks for a grant (`Some(true)`), for a refusal, or for something else.
fn tells_granted(rule: &Node) -> Option<bool> {
    if let Some(condition) = rule.get("Condition").and_then(Node::text) {
        let inside = text::inside(condition)?.trim();
        let (path, rest) = inside.split_once('=')?;
        let (path, differs) = path
            .strip_suffix('!')
            .map_or((path, false), |path| (path, true));
        let path = path.trim();
        let simple = path.ends_with(".outcome") && !path.contains(' ');
        let value = rest.trim().trim_matches(['\'', '"']);
        return match value {
            "acquired" if simple => Some(!differs),
            "held" if simple => Some(differs),
            _ => None,
        };
    }
    let is_outcome = rule
        .get("Variable")
        .and_then(Node::text)?
        .ends_with(".outcome");
    match rule.get("StringEquals").and_then(Node::text)? {
        "acquired" if is_outcome => Some(true),
        "held" if is_outcome => Some(false),
        _ => None,
    }
}
