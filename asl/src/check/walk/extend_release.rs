//! Extend and release, and the leases that they are about.

use crate::check::calls::{self, StillRunning};
use crate::check::finding::About;
use crate::check::lease::{Env, Lease, Status, find};
use crate::check::outcomes::Effect;
use crate::check::rule::Rule;
use crate::check::walk::steps::flow;
use crate::check::walk::{Edge, Walker};
use crate::read::machine::StateId;
use crate::read::node::Node;
use crate::read::timing::{self, Limit, sum};
use std::rc::Rc;

impl Walker<'_, '_> {
    pub(crate) fn extend(
        &mut self,
        id: StateId,
        payload: Option<&Node>,
        mut env: Env,
        link: usize,
    ) -> Vec<Edge> {
        self.report_going_on(id, &env, link);
        let machine = self.machine;
        let state = &machine.states[id];
        let limit = timing::limit(state.node);
        let targets = self.targets(id, &env, payload, link);
        self.record_use(&targets, &env, link);
        let length = payload.and_then(|payload| payload.field("ttl_seconds"));
        self.report_length(id, &targets, &env, length, link);
        let one: Vec<u64> = targets
            .iter()
            .map(|&target| Self::attempt(limit, find(&env, target).map(|lease| (lease, &env))))
            .collect();
        let all_held = targets
            .iter()
            .all(|&target| find(&env, target).is_some_and(Lease::is_held));
        // A late extend is no fault, because it returns an error.
        self.add_elapsed(id, &mut env, limit, &targets, false, link);
        for lease in of(&mut env, &targets) {
            match limit {
                Limit::Fixed(attempt) => {
                    lease.age = sum(lease.age, timing::retried(attempt, &state.retry));
                }
                _ => lease.lapse(id),
            }
        }
        let mut edges = self.failed(id, &env, |effect, env| {
            for lease in of(env, &targets) {
                if effect == Effect::Lost && lease.is_held() {
                    lease.end(Status::Lost);
                }
            }
        });
        if targets.is_empty() || all_held {
            let since = self.now();
            for lease in &mut env {
                let Some(nth) = targets.iter().position(|&target| target == lease.acquire) else {
                    lease.handle = Rc::new(lease.handle.after(id, state));
                    continue;
                };
                lease.renew(one[nth], Some(id), since);
                if length.is_some() {
                    let ttl = calls::ttl(payload);
                    lease.budget = ttl.map(|ttl| ttl.saturating_sub(self.lost_time));
                }
                lease.handle = Rc::new(lease.handle.answered(id, state));
            }
            edges.push(self.onward(id, env));
        }
        edges
    }

    /// Reports an extend that gives an execution lease a length.
    fn report_length(
        &mut self,
        id: StateId,
        targets: &[StateId],
        env: &Env,
        length: Option<&Node>,
        link: usize,
    ) {
        let lasts = |lease: &Lease| lease.of_execution && targets.contains(&lease.acquire);
        if let Some(length) = length.filter(|_| env.iter().any(lasts)) {
            let message =
                "extends an execution lease by ttl_seconds, which it does not have: Lease.Invalid";
            let at = length.span;
            let message = message.to_owned();
            self.report_at(
                About::default(),
                Rule::InvalidRequest,
                id,
                at,
                link,
                message,
            );
        }
    }

    pub(crate) fn release(
        &mut self,
        id: StateId,
        payload: Option<&Node>,
        mut env: Env,
        link: usize,
    ) -> Vec<Edge> {
        let machine = self.machine;
        let state = &machine.states[id];
        let targets = self.targets(id, &env, payload, link);
        self.record_use(&targets, &env, link);
        let limit = timing::limit(state.node);
        self.add_elapsed(id, &mut env, limit, &targets, false, link);
        let before = self.way(link).nth(1).map(|nth| self.state_of(nth));
        for lease in of(&mut env, &targets) {
            if !lease.is_held() {
                continue;
            }
            if before == Some(lease.acquire) {
                let message =
                    "releases the lease right after its acquire, so that it protects nothing"
                        .to_owned();
                let about = About::lease(lease.acquire);
                self.report_about(about, Rule::WorkAfterRelease, id, link, message);
            }
            if lease.left() == StillRunning::Yes {
                let message =
                    "releases the lease while work that has not ended may still be running"
                        .to_owned();
                let about = About::lease(lease.acquire);
                self.report_about(about, Rule::ReleasedWhileRunning, id, link, message);
            }
            // A tried release counts as done: a failed one has been retried, and the lease expires.
            lease.end(Status::Released);
        }
        let mut edges = self.failed(id, &env, |_, _| ());
        flow(&mut env, |handle| handle.after(id, state));
        edges.push(self.onward(id, env));
        edges
    }

    fn record_use(&mut self, targets: &[StateId], env: &Env, link: usize) {
        let about = |lease: &&Lease| targets.contains(&lease.acquire) && lease.was_granted();
        self.uses_leases(link, env.iter().filter(about));
    }

    /// The leases that a payload refers to.
    fn targets(
        &mut self,
        id: StateId,
        env: &Env,
        payload: Option<&Node>,
        link: usize,
    ) -> Vec<StateId> {
        let language = self.machine.states[id].language;
        let named = env.iter().filter(|lease| {
            payload.is_some_and(|payload| lease.handle.referred(payload, language))
        });
        let mut targets: Vec<StateId> = named.map(|lease| lease.acquire).collect();
        let held: Vec<StateId> = env
            .iter()
            .filter(|lease| lease.is_held())
            .map(|lease| lease.acquire)
            .collect();
        if targets.is_empty() {
            match (held.as_slice(), env.as_slice()) {
                ([one], _) => targets.push(*one),
                ([], [one]) => targets.push(one.acquire),
                ([_, _, ..], _) => {
                    let message =
                        "several leases are held, and the payload does not show which one is meant"
                            .to_owned();
                    self.report(Rule::HandleOverwritten, id, link, message);
                    targets = held;
                }
                _ => {}
            }
        }
        for lease in env.iter().filter(|lease| lease.is_held()) {
            if targets.contains(&lease.acquire) {
                self.report_gone(id, lease, link);
            }
        }
        targets
    }

    /// Reports a state that has lost the handle of a lease, which this one needs.
    fn report_gone(&mut self, id: StateId, lease: &Lease, link: usize) {
        let Some((by, nth)) = lease.handle.gone else {
            return;
        };
        let machine = self.machine;
        let user = machine.states[id].name;
        let what = if by == lease.acquire && nth.is_none() {
            "does not keep"
        } else {
            "overwrites"
        };
        let catcher = nth.map(|nth| &machine.states[by].catch[nth]);
        let clause = catcher.map_or(String::new(), |catcher| {
            format!(" in its Catch of {}", catcher.errors.join(", "))
        });
        let message = format!("{what} the lease's handle{clause}, which {user} needs");
        let at = catcher.map_or(machine.states[by].at, |catcher| catcher.node.span);
        let about = About::lease(lease.acquire);
        self.report_at(about, Rule::HandleOverwritten, by, at, link, message);
    }
}

/// The leases of these acquires.
fn of<'e>(env: &'e mut Env, targets: &[StateId]) -> impl Iterator<Item = &'e mut Lease> {
    env.iter_mut()
        .filter(|lease| targets.contains(&lease.acquire))
}
