//! Steps that a redrive, or a lease that is used up, sends back to prove the lease: each has to come back to itself.

use crate::check::calls::Call;
use crate::check::finding::Finding;
use crate::check::outcomes::clause;
use crate::check::rule::Rule;
use crate::read::error_names::NO_VALUE;
use crate::read::expression as text;
use crate::read::machine::{Machine, StateId, closure};
use crate::read::node::Member;

/// Whether a task that a redrive starts again proves its lease first: an expression of it has a value only while the number of redrives
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
    let counts = |member: &&Member| member.value.any_text(|said| said.contains(REDRIVES));
    let assigned = machine.states[proof].node.members_of("Assign").iter();
    let proven: Vec<&str> = assigned.filter(counts).map(Member::name).collect();
    let mut evaluated = machine.states[id].node.members().iter();
    matches!(calls[proof], Call::Extend(_))
        && evaluated.any(|member| {
            matches!(
                member.key.as_str(),
                "TimeoutSeconds" | "HeartbeatSeconds" | "Arguments"
            ) && member.value.any_text(|said| has_value_while(said, &proven))
        })
}

const REDRIVES: &str = "Execution.RedriveCount";

/// Whether an expression has a value only while the number of redrives is one of these variables: `… = $proven ? 90`.
fn has_value_while(said: &str, proven: &[&str]) -> bool {
    let Some(expression) = text::inside(said) else {
        return false;
    };
    let bare = text::bare(expression);
    let Some((condition, then)) = bare.split_once('?') else {
        return false;
    };
    let tight: String = condition.chars().filter(|c| !c.is_whitespace()).collect();
    let compares = tight.match_indices(REDRIVES).any(|(at, _)| {
        let after = tight[at + REDRIVES.len()..].strip_prefix("=$");
        let name = after.and_then(|after| after.split(|c| !text::is_name(c)).next());
        name.is_some_and(|name| proven.contains(&name))
    });
    compares && !then.contains(':') && !text::has_word(condition, "or")
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
