//! The time that passes under a lease, and its findings.

use crate::check::calls::Call;
use crate::check::finding::About;
use crate::check::lease::{Env, Lease};
use crate::check::rule::Rule;
use crate::check::walk::{Walker, is_unbounded};
use crate::expr::{CLOCK, Expr};
use crate::read::machine::{Kind, StateId};
use crate::read::timing::{self, FOREVER, Limit, sum, words};
use std::fmt::Write as _;

impl Walker<'_, '_> {
    /// Adds a state's longest time to the age of every held lease, except those that it is about. If `judged`, outlasting a
    /// lease is a finding.
    pub(crate) fn add_elapsed(
        &mut self,
        id: StateId,
        env: &mut Env,
        limit: Limit<'_>,
        except: &[StateId],
        judged: bool,
        link: usize,
    ) {
        let machine = self.machine;
        let state = &machine.states[id];
        let is_wait = matches!(state.kind, Kind::Wait);
        let is_work = matches!(self.calls[id], Call::Work(_));
        let all = env.clone();
        for lease in env {
            let counts =
                lease.is_held() && !lease.of_execution && !lease.kept && !lease.is_left_alone();
            if !counts || except.contains(&lease.acquire) {
                continue;
            }
            let fixed = match limit {
                Limit::Fixed(attempt) => Some(attempt),
                Limit::Computed(Some(expr)) if bounded_by(expr, lease, &all, is_wait) => {
                    // Whatever the age before: the task ends with the lease, or does not begin.
                    (lease.age, lease.unsure) = (lease.budget.unwrap_or(FOREVER), 0);
                    lease.cause = Some(id);
                    continue;
                }
                Limit::Computed(expr) => expr.and_then(Expr::most).map(timing::millis),
                Limit::Absent => None,
            };
            let Some(attempt) = fixed else {
                if judged && !lease.reported {
                    let (missing, message) = without_bound(limit, is_wait);
                    let about = About::lease(lease.acquire).lacking(missing);
                    self.report_about(about, Rule::Unbounded, id, link, message.to_owned());
                    lease.reported = true;
                }
                lease.lapse(id);
                continue;
            };
            let takes = timing::retried(attempt, &state.retry);
            if takes == 0 && !is_unbounded(lease.age) {
                continue;
            }
            // If nothing runs, a time that cannot be compared counts only for later states.
            let compared =
                judged && (is_work || (lease.budget.is_some() && !is_unbounded(lease.age)));
            if compared
                && !lease.reported
                && let Some((rule, message)) = self.too_long(lease, takes)
            {
                self.report_about(About::lease(lease.acquire), rule, id, link, message);
                lease.reported = true;
            }
            lease.age = sum(lease.age, takes);
        }
    }

    /// The longest time of one attempt, limited by the lease that it is about.
    pub(crate) fn attempt(limit: Limit<'_>, about: Option<(&Lease, &Env)>) -> u64 {
        match limit {
            Limit::Fixed(attempt) => attempt,
            Limit::Computed(Some(expr)) => match (expr.most(), about) {
                (Some(seconds), _) => timing::millis(seconds),
                (None, Some((lease, env))) if bounded_by(expr, lease, env, false) => {
                    lease.budget.unwrap_or(FOREVER)
                }
                _ => FOREVER,
            },
            Limit::Computed(None) | Limit::Absent => FOREVER,
        }
    }

    fn too_long(&self, lease: &Lease, takes: u64) -> Option<(Rule, String)> {
        let name = |state: StateId| self.machine.states[state].name;
        let acquire = name(lease.acquire);
        let Some(budget) = lease.budget else {
            let message = format!(
                "takes up to {} under the lease of {acquire}, whose ttl_seconds is not a number: the two cannot be compared",
                words(takes)
            );
            return Some((Rule::Unbounded, message));
        };
        if is_unbounded(lease.age) {
            let cause = lease.cause.unwrap_or(lease.acquire);
            let since = match self.machine.states[cause].kind {
                _ if cause == lease.acquire => {
                    format!("the age of the lease is unbounded when {acquire} returns")
                }
                // These take unbounded time by themselves. Any other cause is the head of a loop.
                Kind::Task | Kind::Wait if timing::is_open(self.machine.states[cause].node) => {
                    format!("by then {} may have taken any time", name(cause))
                }
                Kind::Map(_) => format!("by then {} may have taken any time", name(cause)),
                _ => format!(
                    "a loop through {} comes back here without an extend",
                    name(cause)
                ),
            };
            return Some((
                Rule::Unbounded,
                format!("takes up to {}, and {since}", words(takes)),
            ));
        }
        let end = sum(lease.age, takes);
        if end <= budget {
            return None;
        }
        let mut message = format!(
            "may end {} after the lease of {acquire} was last granted or extended, but that lease is safe for only {}",
            words(end),
            words(budget)
        );
        if end - lease.unsure <= budget {
            _ = write!(
                message,
                " ({} of this are attempts of {acquire}: the first may have been granted the lease although its response was lost; an extend before the work, or a limit from safe_until, avoids this)",
                words(lease.unsure)
            );
        }
        Some((Rule::Outlasts, message))
    }
}

/// Why a time is not known, and the field that is missing, if one is.
fn without_bound(limit: Limit<'_>, is_wait: bool) -> (Option<&'static str>, &'static str) {
    match (limit, is_wait) {
        (Limit::Absent, true) => (None, "has no limit of its wait"),
        (Limit::Absent, false) => (
            Some("TimeoutSeconds"),
            "has no TimeoutSeconds, and may outlast the lease it runs under",
        ),
        (_, true) => (
            None,
            "computes its wait from something other than the lease",
        ),
        (_, false) => (
            None,
            "computes its timeout from something other than the safe_until of the lease it runs under",
        ),
    }
}

/// Whether a computed limit ends with this lease: it is the time left until `safe_until`, or, for a wait, a part of the lease's
/// own length.
fn bounded_by(expr: &Expr, lease: &Lease, env: &Env, is_wait: bool) -> bool {
    let mut owners: Vec<&str> = expr.owners("safe_until").collect();
    if is_wait {
        owners.extend(expr.owners("ttl_seconds"));
    } else if !expr.calls_any(&CLOCK) {
        return false;
    }
    let handle = &lease.handle;
    let by_clock = expr.variables().any(|name| handle.clocks.contains(name));
    if by_clock || owners.iter().any(|&owner| handle.vars.contains(owner)) {
        return true;
    }
    // A name that belongs to no lease refers to the only held one.
    let nobodys = |owner: &&str| !env.iter().any(|other| other.handle.vars.contains(*owner));
    let only = env.iter().filter(|other| other.is_held()).count() == 1;
    only && owners.iter().any(nobodys)
}
