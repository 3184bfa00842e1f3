//! Loops that may fill an execution's history, and waits without an end.
//!
//! A round through an error counts only for `Lease.Held`, because any other needs a new failure each time. A loop counts as
//! bounded if it increments and compares some name (`tries + 1`, `States.MathAdd`), or if another branch of its Parallel ends, by
//! failing, within a known time.

use crate::check::calls::{Call, Request};
use crate::check::finding::Finding;
use crate::check::outcomes::clause;
use crate::check::requests;
use crate::check::rule::Rule;
use crate::expr::{Expr, Path, Term};
use crate::read::error_names::{HELD, matches};
use crate::read::machine::{Kind, Machine, State, StateId, Target, closure};
use crate::read::node::{Member, Node};
use crate::read::timing::{self, Limit, sum};
use std::collections::{BTreeMap, BTreeSet};

/// The most events of an execution's history.
const EVENTS: u64 = 25_000;
/// Scheduled, started, failed.
const EVENTS_OF_A_RETRY: u64 = 3;

pub(crate) fn check(machine: &Machine<'_>, calls: &[Call<'_>], findings: &mut Vec<Finding>) {
    let mut reported: BTreeSet<StateId> = BTreeSet::new();
    for (id, call) in calls.iter().enumerate() {
        let mut found: Vec<(Rule, StateId, String)> = Vec::new();
        if let Call::Acquire(request) = call {
            let waits = waits(&machine.states[id], request).into_iter();
            found.extend(waits.map(|(rule, message)| (rule, id, message)));
        }
        if call.is_ours() && !reported.contains(&id) {
            let round = round(machine, calls, id);
            found.extend(endless(machine, calls, id, &round));
            reported.extend(round);
        }
        for (rule, state, message) in found {
            let at = machine.states[state].at;
            findings.push(Finding::of(machine, rule, state, at, message));
        }
    }
}

/// The faults of an acquire that waits, or is retried, for too long.
fn waits(state: &State<'_>, request: &Request<'_>) -> Vec<(Rule, String)> {
    let mut found = Vec::new();
    if request.queued && timing::limit(state.node) == Limit::Absent {
        let message =
            "waits in the queue without a TimeoutSeconds: if no sweep runs, it waits for ever";
        found.push((Rule::HeldUnbounded, message.to_owned()));
    }
    let mut retry = state.retry.iter();
    let held = retry.find(|retrier| matches(&retrier.errors, HELD));
    let attempts = held.map_or(0, |retrier| retrier.attempts);
    if attempts.saturating_mul(EVENTS_OF_A_RETRY) > EVENTS {
        let message = format!(
            "retries a held key up to {attempts} times, {EVENTS_OF_A_RETRY} events each: more than the {EVENTS} events of an execution"
        );
        found.push((Rule::TooManyEvents, message));
    }
    found
}

/// The fault of a loop that this state is in: it may fill the history.
fn endless(
    machine: &Machine<'_>,
    calls: &[Call<'_>],
    id: StateId,
    round: &BTreeSet<StateId>,
) -> Option<(Rule, StateId, String)> {
    round.first()?;
    let events: u64 = round.iter().map(|&state| events(machine, state)).sum();
    let mut states = round.iter().copied();
    let acquire = states.find(|&state| waits_for_held(machine, calls, state, round));
    let message = match (rounds(machine, round), acquire) {
        (Some(Rounds::Known(most)), _) if sum(most.saturating_mul(events), 0) > EVENTS => format!(
            "loops up to {most} times, {events} events each: more than the {EVENTS} events of an execution"
        ),
        (Some(_), _) => return None,
        (None, Some(acquire)) => {
            let message = "retries a held key in a loop that nothing counts".to_owned();
            return Some((Rule::HeldUnbounded, acquire, message));
        }
        (None, None) => match ended_by_sibling(machine, id, round, events) {
            None => format!(
                "loops, {events} events each round, and nothing counts the rounds: an execution may have {EVENTS} events"
            ),
            Some(all) if all > EVENTS => format!(
                "loops for as long as the other branch takes: up to {all} events, more than the {EVENTS} of an execution"
            ),
            Some(_) => return None,
        },
    };
    Some((Rule::TooManyEvents, id, message))
}

/// Where an acquire leads if somebody else holds the key.
fn if_held(machine: &Machine<'_>, calls: &[Call<'_>], id: StateId) -> Option<StateId> {
    let state = &machine.states[id];
    let is_acquire = matches!(calls[id], Call::Acquire(_));
    let nth = clause(state, HELD).filter(|_| is_acquire)?;
    state.catch[nth].next
}

/// The edges of a loop.
fn leads(machine: &Machine<'_>, calls: &[Call<'_>], id: StateId) -> Vec<StateId> {
    let mut found = machine.onward(id);
    found.extend(if_held(machine, calls, id));
    found
}

/// All states on a loop with this one: those that it leads to and that lead back to it.
fn round(machine: &Machine<'_>, calls: &[Call<'_>], id: StateId) -> BTreeSet<StateId> {
    let mut before: BTreeMap<StateId, Vec<StateId>> = BTreeMap::new();
    closure(id, |state| {
        let next = leads(machine, calls, state);
        for &next in &next {
            before.entry(next).or_default().push(state);
        }
        next
    });
    // A state that leads back here through these states belongs to them.
    closure(id, |state| before.get(&state).cloned().unwrap_or_default())
}

fn waits_for_held(
    machine: &Machine<'_>,
    calls: &[Call<'_>],
    id: StateId,
    round: &BTreeSet<StateId>,
) -> bool {
    let Call::Acquire(request) = &calls[id] else {
        return false;
    };
    let next = if_held(machine, calls, id);
    request.skips || next.is_some_and(|next| round.contains(&next))
}

fn events(machine: &Machine<'_>, id: StateId) -> u64 {
    match machine.states[id].kind {
        Kind::Task => 5,
        _ => 2,
    }
}

/// How many rounds a loop has. Of two bounds the larger counts, and a number precedes an expression.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rounds {
    Counted,
    Known(u64),
}

/// How many rounds a loop has at most, if something counts them.
fn rounds(machine: &Machine<'_>, round: &BTreeSet<StateId>) -> Option<Rounds> {
    let mut counters: Vec<String> = Vec::new();
    for &id in round {
        fields(machine.states[id].node, &mut |member| {
            let key = member.name();
            if member.value.expr().is_some_and(|expr| raises(expr, key)) {
                counters.push(key.to_owned());
            }
        });
    }
    let mut found = None;
    for &id in round {
        for counter in &counters {
            found = found.max(compared(machine.states[id].node, counter));
        }
    }
    found
}

/// Whether an expression adds something to this name.
fn raises(expr: &Expr, name: &str) -> bool {
    let adds = |term: &Term| match term {
        Term::Binary(sign, ..) => *sign == "+",
        Term::Call(function, _) => matches!(function.as_str(), "States.MathAdd" | "$sum"),
        _ => false,
    };
    let has_name = expr.holding(|path| path.name() == Some(name));
    let mut terms = expr.terms.iter().zip(has_name);
    terms.any(|(term, has_name)| has_name && adds(term))
}

/// The value that a state compares a name with.
fn compared(node: &Node, name: &str) -> Option<Rounds> {
    let is_of_name = |path: &Path| path.name() == Some(name);
    let mut found = None;
    fields(node, &mut |member| {
        let Some(expr) = member.value.expr() else {
            return;
        };
        if member.key == "Variable" && expr.path().is_some_and(is_of_name) {
            found = found.max(Some(Rounds::Counted));
        }
        let compared = expr.terms.iter().flat_map(|term| expr.compared(term));
        for (_, _, other) in compared.filter(|(sign, path, _)| *sign != "!=" && is_of_name(path)) {
            found = found.max(Some(match other {
                Term::Number(most) => Rounds::Known(timing::millis(*most) / 1000),
                _ => Rounds::Counted,
            }));
        }
    });
    // A JSONPath rule has its number in a field of its own.
    let rules = node.list_of("Choices");
    for rule in rules.iter().chain(rules.iter().flat_map(|rule| {
        ["And", "Or"]
            .into_iter()
            .filter_map(|key| rule.get(key))
            .flat_map(Node::list)
    })) {
        let variable = rule
            .get("Variable")
            .and_then(Node::expr)
            .and_then(Expr::path);
        if variable.is_some_and(is_of_name) {
            let mut numeric = rule
                .members()
                .iter()
                .filter(|member| member.key.starts_with("Numeric"));
            if let Some(most) = numeric.find_map(|member| member.value.number()) {
                found = found.max(Some(Rounds::Known(timing::millis(most) / 1000)));
            }
        }
    }
    found
}

/// All fields of a state, without those of its inner scopes.
fn fields<'a>(node: &'a Node, look: &mut impl FnMut(&'a Member)) {
    for member in node.members() {
        if matches!(
            member.key.as_str(),
            "Branches" | "ItemProcessor" | "Iterator" | "Comment"
        ) {
            continue;
        }
        look(member);
        fields(&member.value, look);
    }
    for element in node.list() {
        fields(element, look);
    }
}

/// How many events the loop causes until another branch ends by failing. `None` if none does. Zero if it cannot be computed.
fn ended_by_sibling(
    machine: &Machine<'_>,
    id: StateId,
    round: &BTreeSet<StateId>,
    events: u64,
) -> Option<u64> {
    let scope = machine.states[id].scope;
    let parallel = machine.scopes[scope].within?;
    let branches = machine
        .inner(parallel)
        .iter()
        .filter(|&&branch| branch != scope);
    let mut shortest = None;
    for &branch in branches {
        let states = &machine.scopes[branch].states;
        let mut all = Some(0);
        let ends = states.iter().all(|&state| {
            let it = &machine.states[state];
            let limit = match it.kind {
                Kind::Task => timing::limit(it.node),
                Kind::Wait => timing::pause(it.node),
                Kind::Fail => return true,
                Kind::Succeed | Kind::Parallel(_) | Kind::Map(_) => return false,
                _ => Limit::Fixed(0),
            };
            all = match (&limit, all) {
                (Limit::Fixed(attempt), Some(all)) => {
                    Some(sum(all, timing::retried(*attempt, &it.retry)))
                }
                _ => None,
            };
            let loops = requests::reachable(machine, state).contains(&state);
            let is_choice = matches!(it.kind, Kind::Choice { .. });
            let goes_on = is_choice || it.next != Some(Target::End);
            limit != Limit::Absent && goes_on && !loops
        });
        if ends {
            shortest = Some(all);
        }
    }
    let waits = round
        .iter()
        .map(|&state| match timing::pause(machine.states[state].node) {
            Limit::Fixed(pause) => pause,
            _ => 0,
        });
    let pause: u64 = waits.sum();
    match shortest? {
        Some(all) if pause > 0 => Some((all / pause).saturating_mul(events)),
        _ => Some(0),
    }
}
