//! A definition, checked.

use crate::calls::{self, Call};
use crate::expression as text;
use crate::finding::Finding;
use crate::lease::Status;
use crate::machine::{Kind, Machine, StateId};
use crate::node::Node;
use crate::options::Options;
use crate::rule::Rule;
use crate::walk::Walker;
use crate::{loops, requests, retries};

/// What came of a check.
#[derive(Debug)]
pub struct Checked {
    /// In the order of the source.
    pub findings: Vec<Finding>,
    /// How many states there are.
    pub states: usize,
    /// How many of them acquire a lease.
    pub acquires: usize,
    /// How many positions were gone through.
    pub visited: usize,
}

/// Checks a definition: the object with `StartAt` and `States`.
#[must_use]
pub fn check(definition: &Node, options: &Options) -> Checked {
    let machine = Machine::read(definition);
    let calls = calls::calls(&machine, options);
    let mut walker = Walker::new(&machine, &calls, options.margin_ms + options.guard_ms);
    walker.scope(0, Vec::new(), None);
    late(&mut walker);
    let mut findings = std::mem::take(&mut walker.findings);
    for (at, state, message) in &machine.problems {
        findings.push(Finding {
            rule: Rule::Malformed,
            state: state
                .map(|state| machine.path_of(state))
                .unwrap_or_default(),
            message: message.clone(),
            path: Vec::new(),
            at: *at,
        });
    }
    for (id, call) in calls.iter().enumerate() {
        let mut say = |rule, message: &str| {
            let at = machine.states[id].at;
            findings.push(Finding {
                rule,
                state: machine.path_of(id),
                message: message.to_owned(),
                path: Vec::new(),
                at,
            });
        };
        let is_ours = matches!(call, Call::Acquire(_) | Call::Extend(_) | Call::Release(_));
        let is_complete = machine.problems.is_empty() && !walker.is_given_up();
        if is_ours && !walker.reached.contains(&id) && is_complete {
            say(Rule::Unreachable, "no path leads here");
        }
        if matches!(call, Call::Acquire(_)) && (options.express || in_express_map(&machine, id)) {
            say(
                Rule::Express,
                "takes a lease in an Express workflow, which may run twice at once under one name and has no status events",
            );
        }
    }
    requests::look(&machine, &calls, &mut findings);
    retries::look(&machine, &calls, &mut findings);
    loops::look(&machine, &calls, &mut findings);
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
        visited: walker.visited,
    }
}

/// Work that was reached under a lease that was over, and elsewhere under the same lease in force.
fn late(walker: &mut Walker<'_, '_>) {
    for (state, lease, link) in std::mem::take(&mut walker.late) {
        if !walker.guarded.contains(&(state, lease.acquire)) {
            continue;
        }
        let name = walker.machine.states[lease.acquire].name;
        let (rule, message) = match lease.status {
            Status::Lost => (
                Rule::WorkAfterLost,
                format!("works on although the lease of {name} is lost"),
            ),
            Status::Refused => (
                Rule::WorkAfterLost,
                format!("works although the lease of {name} was refused"),
            ),
            _ => {
                let arguments = calls::arguments(walker.machine.states[state].node);
                let takes = arguments.is_some_and(|node| {
                    node.any_text(|said| {
                        let bare = text::bare(said);
                        text::variables(&bare)
                            .iter()
                            .any(|&name| lease.places.vars.contains(name))
                    })
                });
                if !takes {
                    continue;
                }
                (
                    Rule::WorkAfterRelease,
                    format!("works with the handle of {name}, which was given back before"),
                )
            }
        };
        walker.report(rule, state, link, message);
    }
}

/// Items of a distributed Map may be Express workflows of their own.
fn in_express_map(machine: &Machine<'_>, id: StateId) -> bool {
    let mut at = machine.scopes[machine.states[id].scope].within;
    while let Some(around) = at {
        let state = &machine.states[around];
        let config = state
            .node
            .get("ItemProcessor")
            .and_then(|processor| processor.get("ProcessorConfig"));
        let kind = config
            .and_then(|config| config.get("ExecutionType"))
            .and_then(Node::text);
        if matches!(state.kind, Kind::Map(_)) && kind == Some("EXPRESS") {
            return true;
        }
        at = machine.scopes[state.scope].within;
    }
    false
}
