//! Steps that a redrive, or a lease that is used up, sends back to verify the lease: each has to come back to itself.

use crate::check::calls::Call;
use crate::check::finding::Finding;
use crate::check::outcomes::clause;
use crate::check::rule::Rule;
use crate::expr::{Expr, Path, Term};
use crate::read::error_names::NO_VALUE;
use crate::read::machine::{Machine, StateId, closure};
use crate::read::node::Member;

/// Whether a task that a redrive starts again verifies its lease first: an expression of it has a value only while the number of redrives
/// is that of the last proof, and without a value it leads to an extend that assigns the number anew.
pub(crate) fn is_guarded(machine: &Machine<'_>, calls: &[Call<'_>], id: StateId) -> bool {
    let around = machine.enclosing(machine.states[id].scope).into_iter();
    let mut around = [id].into_iter().chain(around.map(|(state, _)| state));
    let caught = around.find_map(|at| {
        let state = &machine.states[at];
        Some(state.catch[clause(state, NO_VALUE)?].next)
    });
    let Some(proof) = caught.flatten() else {
        return false;
    };
    let counts = |member: &&Member| {
        member.value.reads(machine.states[proof].language, |path| {
            path.is_context(REDRIVES)
        })
    };
    let assigned = machine.states[proof].node.members_of("Assign").iter();
    let proven: Vec<&str> = assigned.filter(counts).map(Member::name).collect();
    let mut evaluated = machine.states[id].node.members().iter();
    matches!(calls[proof], Call::Extend(_))
        && evaluated.any(|member| {
            matches!(
                member.key.as_str(),
                "TimeoutSeconds" | "HeartbeatSeconds" | "Arguments"
            ) && member.value.any_expr(machine.states[id].language, |expr| {
                has_value_while(expr, &proven)
            })
        })
}

const REDRIVES: &str = "Execution.RedriveCount";

/// Whether an expression has a value only while the number of redrives is one of these variables: `… = $proven ? 90`.
fn has_value_while(expr: &Expr, proven: &[&str]) -> bool {
    let Some(Term::Choice(condition, _, None)) = expr.whole() else {
        return false;
    };
    let is_proven = |path: &Path| {
        path.steps.is_empty() && path.variable().is_some_and(|name| proven.contains(&name))
    };
    let conditions = expr.conjuncts(*condition).into_iter();
    let mut compared = conditions.flat_map(|term| expr.compared(term));
    compared.any(|(sign, path, other)| {
        let is_same = matches!(other, Term::Path(path) if path.is_context(REDRIVES));
        sign == "=" && is_same && is_proven(path)
    })
}

pub(crate) fn check(machine: &Machine<'_>, calls: &[Call<'_>], findings: &mut Vec<Finding>) {
    let is_work = |id: StateId| matches!(calls[id], Call::Work(_) | Call::Fenced);
    // A Parallel or a Map works if a state in it does.
    let works = |id: StateId| {
        let mut inner = machine.inner(id).iter();
        is_work(id) || inner.any(|&scope| machine.inside(scope).into_iter().any(is_work))
    };
    for (id, state) in machine.states.iter().enumerate() {
        let catcher = state.clauses.get(NO_VALUE).map(|&nth| &state.catch[nth]);
        let Some((catcher, proof)) = catcher.and_then(|found| Some((found, found.next?))) else {
            continue;
        };
        if !works(id) || !matches!(calls[proof], Call::Extend(_)) {
            continue;
        }
        let until_work = |at| {
            if works(at) {
                Vec::new()
            } else {
                machine.onward(at)
            }
        };
        let next = closure(proof, until_work);
        let leads_here = |at: &StateId| closure(*at, |at| machine.onward(at)).contains(&id);
        let earlier = next.iter().find(|&&at| works(at) && leads_here(&at));
        if let Some(&earlier) = earlier.filter(|_| !next.contains(&id)) {
            let [proof, earlier] = [proof, earlier].map(|at| machine.states[at].name);
            let message = format!(
                "returns to {proof} if it does not start, and then {earlier} runs again before it"
            );
            let at = catcher.node.span;
            findings.push(Finding::of(machine, Rule::StepRepeated, id, at, message));
        }
    }
}
