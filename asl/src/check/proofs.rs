//! Steps that a redrive, or a lease that is used up, sends back to prove the lease: each has to come back to itself.

use crate::check::calls::Call;
use crate::check::finding::Finding;
use crate::check::rule::Rule;
use crate::read::error_names::NO_VALUE;
use crate::read::machine::{Machine, StateId, closure};

/// Whether a task that a redrive starts again proves its lease first: it compares the number of redrives, and it, or a state around
/// it, has a clause that leads to an extend.
pub(crate) fn is_guarded(machine: &Machine<'_>, calls: &[Call<'_>], id: StateId) -> bool {
    let compares = machine.states[id].node.members().iter().any(|member| {
        let asks = |said: &str| said.contains("Execution.RedriveCount");
        member.key != "Comment" && member.value.any_text(asks)
    });
    let around = machine.enclosing(machine.states[id].scope).into_iter();
    let mut around = [id].into_iter().chain(around.map(|(state, _)| state));
    compares
        && around.any(|state| {
            let mut targets = machine.states[state]
                .catch
                .iter()
                .filter_map(|catcher| catcher.next);
            targets.any(|next| matches!(calls[next], Call::Extend(_)))
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
