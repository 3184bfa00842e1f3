//! The check of a definition.

use crate::check::calls::{self, Call, Options};
use crate::check::finding::{About, Finding};
use crate::check::lease::Status;
use crate::check::outcomes::LeftBy;
use crate::check::rule::Rule;
use crate::check::walk::{LeaseUse, Walker};
use crate::check::{loops, proofs, requests, variables, waits};
use crate::expr::Path;
use crate::read::machine::{Kind, Machine, StateId, closure};
use crate::read::node::Node;
use std::collections::{BTreeSet, HashMap};

/// The result of a check.
#[derive(Debug)]
pub struct Checked {
    /// In the order of the source.
    pub findings: Vec<Finding>,
    /// How many states there are.
    pub states: usize,
    /// How many of them acquire a lease.
    pub acquires: usize,
    /// How many of them acquire, extend or release, or start an execution under a lease, themselves or by with-lease.
    pub calls: usize,
    /// How many positions the walk visited.
    pub visited: usize,
    /// What may still be running after each failure inside a Parallel or a Map, by the paths of that state and of an acquire.
    pub(crate) left_by: LeftBy<String>,
}

/// Checks a definition: the object with `StartAt` and `States`.
#[must_use]
pub fn check(definition: &Node, options: &Options) -> Checked {
    let machine = Machine::read(definition);
    let calls = calls::calls(&machine, options);
    let mut walker = Walker::new(&machine, &calls, options.margin_ms + options.guard_ms);
    walker.scope(0, Vec::new(), None);
    report_without_lease(&mut walker);
    let mut findings = std::mem::take(&mut walker.findings);
    for (at, state, message) in &machine.problems {
        findings.push(Finding {
            rule: Rule::Malformed,
            state: state
                .map(|state| machine.path_of(state))
                .unwrap_or_default(),
            lease: None,
            missing: None,
            message: message.clone(),
            path: Vec::new(),
            at: *at,
        });
    }
    let led_to = machine.led_to();
    for (id, call) in calls.iter().enumerate() {
        let mut say = |rule, message: &str| {
            let at = machine.states[id].at;
            findings.push(Finding::of(&machine, rule, id, at, message));
        };
        if call.is_ours() && !led_to.contains(&id) && machine.problems.is_empty() {
            say(Rule::Unreachable, NO_PATH);
        }
        if matches!(call, Call::Acquire(_)) && (options.express || in_express_map(&machine, id)) {
            say(
                Rule::Express,
                "acquires a lease in an Express workflow, which may run twice at once under one name and has no status events",
            );
        }
    }
    for id in lost_states(&machine, &led_to) {
        if !calls[id].is_ours() {
            let at = machine.states[id].at;
            findings.push(Finding::of(&machine, Rule::Malformed, id, at, NO_PATH));
        }
    }
    requests::check(&machine, &calls, &mut findings);
    requests::look_at_clauses(&machine, &calls, &mut findings);
    loops::check(&machine, &calls, &mut findings);
    proofs::check(&machine, &calls, &mut findings);
    waits::check(&machine, &calls, &mut findings);
    variables::check(definition, &machine, &mut findings);
    findings
        .sort_by(|a, b| (a.at.start, a.rule, &a.message).cmp(&(b.at.start, b.rule, &b.message)));
    findings.dedup();
    Checked {
        findings,
        states: machine.states.len(),
        acquires: calls
            .iter()
            .filter(|call| matches!(call, Call::Acquire(_)))
            .count(),
        calls: calls
            .iter()
            .zip(&machine.states)
            .filter(|(call, state)| call.is_ours() || calls::starts_with_lease(state.node))
            .count(),
        visited: walker.visited,
        left_by: walker
            .left_by
            .iter()
            .map(|(&(state, acquire), left)| {
                (
                    (machine.path_of(state), machine.path_of(acquire)),
                    left.clone(),
                )
            })
            .collect(),
    }
}

const NO_PATH: &str = "no path leads here";

/// The first of the states that no path leads to: what they lead to follows from them. None if a fault of the shape may be the reason.
fn lost_states(machine: &Machine<'_>, led_to: &BTreeSet<StateId>) -> Vec<StateId> {
    if !machine.problems.is_empty() {
        return Vec::new();
    }
    let all = (0..machine.states.len()).filter(|id| !led_to.contains(id));
    let mut found: Vec<StateId> = Vec::new();
    let mut known = BTreeSet::new();
    // From what begins a loop of such states, all of it is known.
    for id in all {
        if known.insert(id) {
            let behind = closure(id, |state| {
                let mut next = machine.successors(state);
                next.extend(machine.starts_in(state));
                next
            });
            found.retain(|other| !behind.contains(other));
            found.push(id);
            known.extend(behind);
        }
    }
    found
}

/// Reports work, extends and releases that are reached without a lease that they have on another path.
fn report_without_lease(walker: &mut Walker<'_, '_>) {
    let lease_uses = std::mem::take(&mut walker.lease_uses);
    let mut elsewhere: HashMap<StateId, BTreeSet<&BTreeSet<StateId>>> = HashMap::new();
    for used in &lease_uses {
        let all = elsewhere.entry(walker.state_of(used.link)).or_default();
        all.insert(&used.leases);
    }
    // Later states on the same path have the same fault.
    let mut reported: HashMap<usize, StateId> = HashMap::new();
    for LeaseUse { link, leases } in &lease_uses {
        let state = walker.state_of(*link);
        // A release of several leases releases those that are held.
        if !matches!(walker.calls[state], Call::Work(_)) && !leases.is_empty() {
            continue;
        }
        // Only a subset counts, because another lease may replace one.
        let more = elsewhere[&state]
            .iter()
            .filter(|more| more.is_superset(leases));
        let missing: BTreeSet<StateId> = more
            .flat_map(|more| more.difference(leases))
            .copied()
            .collect();
        let lacks = |lease| Some((lease, lacks(walker, *link, lease)?));
        let Some((lease, (rule, message))) = missing.into_iter().find_map(lacks) else {
            continue;
        };
        let is_first = !walker
            .way(*link)
            .any(|nth| reported.get(&nth) == Some(&lease));
        reported.insert(*link, lease);
        if is_first {
            walker.report_about(About::lease(lease), rule, state, *link, message);
        }
    }
}

/// The fault of a task that lacks a lease on this path but has it on another.
fn lacks(walker: &Walker<'_, '_>, link: usize, acquire: StateId) -> Option<(Rule, String)> {
    let machine = walker.machine;
    let state = walker.state_of(link);
    let call = &walker.calls[state];
    let name = machine.states[acquire].name;
    let why = match walker.known(link, acquire) {
        Some((Status::Refused, _)) => format!("{name} was refused"),
        Some((Status::Failed, _)) => format!("{name} has failed"),
        None if !walker.passes(link, acquire) => format!("this path bypasses {name}"),
        Some((Status::Lost, _)) if matches!(call, Call::Work(_)) => {
            let message = format!("continues to work although the lease of {name} is lost");
            return Some((Rule::WorkAfterLost, message));
        }
        Some((Status::Released, handle)) if matches!(call, Call::Work(_)) => {
            let is_handle = |path: &Path| {
                path.variable()
                    .is_some_and(|name| handle.vars.contains(name))
            };
            let takes = calls::arguments(machine.states[state].node)?
                .reads(machine.states[state].language, is_handle);
            let message =
                format!("works with the handle of {name}, whose lease is already released");
            return takes.then_some((Rule::WorkAfterRelease, message));
        }
        _ => return None,
    };
    let does = match call {
        Call::Extend(_) => format!("extends the lease of {name}, which is not held"),
        Call::Release(_) => format!("releases the lease of {name}, which is not held"),
        _ => format!("works without the lease of {name}"),
    };
    Some((Rule::WithoutLease, format!("{does}: {why}")))
}

/// Items of a distributed Map may be Express workflows of their own.
fn in_express_map(machine: &Machine<'_>, id: StateId) -> bool {
    let around = machine.enclosing(machine.states[id].scope);
    around.into_iter().any(|(around, _)| {
        let state = &machine.states[around];
        matches!(state.kind, Kind::Map(_))
            && state.processor_config("ExecutionType") == Some("EXPRESS")
    })
}
