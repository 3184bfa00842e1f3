//! What Retry and Catch name.

use crate::check::calls::Call;
use crate::check::finding::Finding;
use crate::check::rule::Rule;
use crate::read::error_names::{KNOWN, is_lost, matches};
use crate::read::machine::{Machine, StateId};
use crate::read::node::Span;

pub(crate) fn look(machine: &Machine<'_>, calls: &[Call<'_>], findings: &mut Vec<Finding>) {
    for (id, call) in calls.iter().enumerate() {
        let mut say = |rule, at: Span, message: String| {
            findings.push(Finding {
                rule,
                state: machine.path_of(id),
                message,
                path: Vec::new(),
                at,
            });
        };
        if let Some((at, name)) = lost_retried(machine, id, call) {
            say(
                Rule::LostRetried,
                at,
                format!("tries again after Lease.Lost ({name}), which does not change any more"),
            );
        }
        for (at, name) in unknown(machine, id) {
            let near = nearest(name)
                .map(|near| format!("; {near}?"))
                .unwrap_or_default();
            say(
                Rule::UnknownError,
                at,
                format!("nobody raises {name}{near}"),
            );
        }
    }
}

fn lost_retried<'m>(
    machine: &'m Machine<'_>,
    id: StateId,
    call: &Call<'_>,
) -> Option<(Span, &'m str)> {
    let retry = &machine.states[id].retry;
    for retrier in retry.iter().filter(|retrier| retrier.attempts > 0) {
        if let Some(name) = retrier.errors.iter().find(|name| is_lost(name)) {
            return Some((retrier.at, name));
        }
    }
    let may_lose = match call {
        Call::Extend(_) => true,
        Call::Release(payload) => {
            let strict = payload.and_then(|payload| payload.field("strict"));
            strict.is_some_and(|strict| strict.is_true() || strict.text().is_some())
        }
        _ => false,
    };
    let first = retry
        .iter()
        .find(|retrier| matches(&retrier.errors, "Lease.Lost"))?;
    let name = first
        .errors
        .iter()
        .find(|name| matches(std::slice::from_ref(*name), "Lease.Lost"))?;
    (may_lose && first.attempts > 0).then_some((first.at, name.as_str()))
}

fn unknown<'a>(machine: &Machine<'a>, id: StateId) -> Vec<(Span, &'a str)> {
    let node = machine.states[id].node;
    let clauses = ["Retry", "Catch"]
        .into_iter()
        .flat_map(|key| node.list_of(key));
    let names = clauses.flat_map(|clause| clause.list_of("ErrorEquals"));
    let written = names.filter_map(|name| Some((name.span, name.text()?)));
    let raised = |name: &str| {
        let ends = machine
            .states
            .iter()
            .filter_map(|state| state.node.text_of("Error"));
        KNOWN.contains(&name)
            || ends
                .into_iter()
                .any(|error| error == name || error.contains(&format!("'{name}'")))
    };
    written
        .filter(|(_, name)| name.starts_with("Lease.") && !raised(name))
        .collect()
}

/// The known name that was meant, if it is off by little.
fn nearest(name: &str) -> Option<&'static str> {
    let same_start = |known: &&str| {
        known
            .chars()
            .zip(name.chars())
            .take_while(|(a, b)| a.eq_ignore_ascii_case(b))
            .count()
    };
    KNOWN
        .into_iter()
        .max_by_key(same_start)
        .filter(|known| same_start(known) >= "Lease.".len() + 2)
}
