//! Tasks that are over before the wait for a key that they ask for.

use crate::check::calls::{self, Call, Request};
use crate::check::finding::Finding;
use crate::check::rule::Rule;
use crate::read::error_names::{HEARTBEAT, TIMEOUT, matches};
use crate::read::machine::{Machine, State};
use crate::read::node::{Node, Span};
use crate::read::timing::{millis, retried, words};

pub(crate) fn check(machine: &Machine<'_>, calls: &[Call<'_>], findings: &mut Vec<Finding>) {
    for (id, call) in calls.iter().enumerate() {
        let state = &machine.states[id];
        let found = match call {
            Call::Acquire(request) => in_queue(state, request),
            _ => in_with_lease(state.node),
        };
        if let Some((at, message)) = found {
            findings.push(Finding::of(machine, Rule::WaitCutShort, id, at, message));
        }
    }
}

/// An acquire that waits in the queue. A retry keeps its place and its deadline, and nobody sends heartbeats.
fn in_queue(state: &State<'_>, request: &Request<'_>) -> Option<(Span, String)> {
    let wait = seconds(request.payload?, "wait_seconds").filter(|_| request.queued)?;
    let limits = ["TimeoutSeconds", "HeartbeatSeconds"];
    let limits = limits.map(|field| Some((field, seconds(state.node, field)?)));
    let (field, limit) = limits.into_iter().flatten().min_by_key(|(_, ms)| *ms)?;
    let ends: &[&str] = match field {
        "HeartbeatSeconds" => &[HEARTBEAT, TIMEOUT],
        _ => &[TIMEOUT],
    };
    let mut retry = state.retry.iter();
    let again = retry.find(|retrier| ends.iter().any(|error| matches(&retrier.errors, error)));
    let total = retried(limit, again);
    (total <= wait).then(|| cut_short(state.node, field, total, wait))
}

/// A task that waits for the end of an execution of with-lease, which waits for the key.
fn in_with_lease(task: &Node) -> Option<(Span, String)> {
    let resource = task.text_of("Resource")?;
    if !resource.contains(":startExecution.sync") || !calls::starts_with_lease(task) {
        return None;
    }
    let input = calls::arguments(task)?.field("Input")?;
    let waits = input.field("if_held").is_none_or(|how| {
        let how = how.text().unwrap_or_default();
        matches!(how, "wait" | "latest" | "replace")
    });
    let wait = seconds(input, "wait_seconds").filter(|_| waits)?;
    let limit = seconds(task, "TimeoutSeconds")?;
    (limit <= wait).then(|| cut_short(task, "TimeoutSeconds", limit, wait))
}

/// The field in ms, if it is a literal number.
fn seconds(node: &Node, field: &str) -> Option<u64> {
    node.field(field)?.literal_number().map(millis)
}

fn cut_short(task: &Node, field: &str, limit: u64, wait: u64) -> (Span, String) {
    let at = task.get(field).map_or(task.span, |node| node.span);
    let message = format!(
        "asks for a wait of {} and ends after {} by its {field}, so it gives up before the wait ends",
        words(wait),
        words(limit)
    );
    (at, message)
}
