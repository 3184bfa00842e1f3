//! The effect of each type of state on the held leases.

use crate::check::calls::{Call, Lifetime, Request, StillRunning};
use crate::check::finding::About;
use crate::check::handle_flow::HandleFlow;
use crate::check::lease::{Env, Lease, Status, find, held_mut, innermost, put};
use crate::check::outcomes::{Effect, Error, all_failures, clause};
use crate::check::proofs;
use crate::check::requests;
use crate::check::responses::{self, Response};
use crate::check::rule::Rule;
use crate::check::walk::{By, Edge, To, Walker};
use crate::expr::{Path, Term};
use crate::read::error_names::{HELD, OUTCOME_UNKNOWN, TIMEOUT, matches};
use crate::read::machine::{Kind, State, StateId};
use crate::read::node::Node;
use crate::read::timing::{self, Limit, retried};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

impl Walker<'_, '_> {
    pub(crate) fn step(&mut self, id: StateId, mut env: Env, link: usize) -> Vec<Edge> {
        let machine = self.machine;
        let state = &machine.states[id];
        match &state.kind {
            Kind::Task => self.task(id, env, link),
            Kind::Wait => {
                self.report_going_on(id, &env, link);
                let pause = timing::pause(state.node);
                self.add_elapsed(id, &mut env, pause, &[], true, link);
                flow(&mut env, |handle| handle.after(id, state));
                vec![self.onward(id, env)]
            }
            Kind::Pass => {
                flow(&mut env, |handle| handle.after(id, state));
                vec![self.onward(id, env)]
            }
            Kind::Choice { rules, default } => self.choice(id, &env, rules, *default),
            Kind::Succeed => vec![Edge::new(env, To::Out(None), None)],
            Kind::Fail => {
                let edges = errors_of(state).into_iter();
                edges
                    .map(|error| Edge::new(env.clone(), To::Out(Some(error)), None))
                    .collect()
            }
            Kind::Parallel(_) | Kind::Map(_) => self.parallel_or_map(id, env, link),
        }
    }

    fn task(&mut self, id: StateId, env: Env, link: usize) -> Vec<Edge> {
        let calls = self.calls;
        match &calls[id] {
            Call::Acquire(request) => self.acquire(id, request, env, link),
            Call::Extend(payload) => self.extend(id, *payload, env, link),
            Call::Release(payload) => self.release(id, *payload, env, link),
            call => self.work(id, call, env, link),
        }
    }

    fn acquire(
        &mut self,
        id: StateId,
        request: &Request<'_>,
        mut env: Env,
        link: usize,
    ) -> Vec<Edge> {
        let machine = self.machine;
        let state = &machine.states[id];
        let before = find(&env, id);
        // A ttl lease that is left to expire is free again some time. An execution lease is not.
        let waits_for_itself = |lease: &Lease| {
            lease.is_held() && (lease.left() == StillRunning::No || lease.of_execution)
        };
        if before.is_some_and(waits_for_itself) && !request.reentrant {
            let message = "acquires a lease again while the previous one is still held".to_owned();
            self.report(Rule::NoRelease, id, link, message);
        }
        self.meets_own_lease(id, request, &env, link);
        let limit = timing::limit(state.node);
        self.add_elapsed(id, &mut env, limit, &[id], true, link);

        let mut lease = self.granted(id, request, limit);
        let mut edges = self.failed(id, &env, |_, env| {
            let had = env
                .iter_mut()
                .find(|other| other.acquire == id && other.was_granted());
            match had {
                // The lease of the previous round is abandoned, unless the request is re-entrant.
                Some(had) if had.is_held() && !request.reentrant => had.end(Status::Lost),
                Some(_) => {}
                None => {
                    let mut lease = lease.clone();
                    lease.end(Status::Failed);
                    put(env, lease);
                }
            }
        });
        // Ended leases whose variables this state overwrites are forgotten.
        env.retain(|other| other.is_held() || other.handle.vars.is_disjoint(&lease.handle.vars));
        flow(&mut env, |handle| handle.after(id, state));
        let mut granted = env.clone();
        put(&mut granted, lease.clone());
        edges.push(self.onward(id, granted));
        if request.skips {
            lease.end(Status::Refused);
            put(&mut env, lease);
            let mut edge = self.onward(id, env);
            edge.by = Some(By::Held);
            edges.push(edge);
        }
        edges
    }

    /// Reports an acquire of a key that this path has already: it would wait for itself, or re-enter what it did not ask for.
    fn meets_own_lease(&mut self, id: StateId, request: &Request<'_>, env: &Env, link: usize) {
        for lease in env.iter().filter(|lease| lease.acquire != id) {
            let Some(had) = self.request(lease.acquire) else {
                continue;
            };
            let same_key =
                || requests::have_one_key(self.machine, (lease.acquire, had), (id, request));
            if !lease.is_held() || lease.is_left_alone() || !same_key() {
                continue;
            }
            let name = self.machine.states[lease.acquire].name.to_owned();
            let differs = request.differs_from(had);
            let (rule, message) = match differs {
                Some(field) if request.reentrant => (
                    Rule::InvalidRequest,
                    format!(
                        "re-enters the lease of {name} with another {field} than that has: Lease.Invalid"
                    ),
                ),
                None if !request.reentrant && !request.is_semaphore() => (
                    Rule::NoRelease,
                    format!(
                        "acquires the key of {name} again while that lease is still held: Lease.Held, unless it is reentrant"
                    ),
                ),
                _ => continue,
            };
            self.report(rule, id, link, message);
        }
    }

    /// The lease that an acquire grants.
    fn granted(&self, id: StateId, request: &Request<'_>, limit: Limit<'_>) -> Lease {
        let state = &self.machine.states[id];
        // The first attempt may have been granted the lease, and the last one may only replay it.
        let one = Self::attempt(limit, None);
        let unknown = |names: &[String]| OUTCOME_UNKNOWN.iter().any(|name| matches(names, name));
        let asked_again = state.retry.iter().filter(|retrier| retrier.attempts > 0);
        let is_unsure = asked_again.clone().any(|retrier| unknown(&retrier.errors));
        let refusals = [HELD, "Lease.Frozen", "Lease.QueueFull"];
        let refusal = |name: &String| refusals.contains(&name.as_str());
        let after = asked_again.filter(|retrier| !retrier.errors.iter().all(refusal));
        let all = if is_unsure { retried(one, after) } else { one };
        let (ttl, age) = match request.lifetime {
            Lifetime::Ttl(ttl) => (ttl, all),
            Lifetime::Execution { .. } => (None, 0),
        };
        Lease {
            acquire: id,
            budget: ttl.map(|ttl| ttl.saturating_sub(self.lost_time)),
            status: Status::Held,
            left: StillRunning::No,
            begun: BTreeSet::new(),
            of_execution: request.of_execution(),
            kept: false,
            reported: false,
            handle: Rc::new(HandleFlow::default().answered(id, state)),
            age,
            unsure: all - one,
            cause: Some(id),
            since: self.now(),
        }
    }

    fn work(&mut self, id: StateId, call: &Call<'_>, mut env: Env, link: usize) -> Vec<Edge> {
        let machine = self.machine;
        let state = &machine.states[id];
        let is_work = matches!(call, Call::Work(_));
        if env.iter().any(Lease::is_held) {
            self.protected.insert(id);
        }
        if is_work {
            self.report_going_on(id, &env, link);
            let under = |lease: &&Lease| lease.is_held() && !lease.is_left_alone();
            self.uses_leases(link, env.iter().filter(under));
            self.after_redrive(id, &env, link);
            self.waits_for_years(id, &env, link);
        }
        let limit = timing::limit(state.node);
        self.add_elapsed(id, &mut env, limit, &[], is_work, link);
        let innermost = innermost(&env);
        let mut edges = self.failed(id, &env, |effect, env| {
            for lease in held_mut(env) {
                match effect {
                    Effect::Work(left) => lease.left = lease.left.max(left),
                    Effect::Lost if Some(lease.acquire) == innermost => lease.end(Status::Lost),
                    _ => {}
                }
            }
        });
        begins_or_asks(call, state.node, &mut env);
        flow(&mut env, |handle| handle.after(id, state));
        edges.push(self.onward(id, env));
        edges
    }

    /// Reports a wait for a task token that nothing ends, under a lease that lasts as long as the execution.
    fn waits_for_years(&mut self, id: StateId, env: &Env, link: usize) {
        let machine = self.machine;
        let held = env
            .iter()
            .find(|lease| lease.of_execution && lease.is_held() && !lease.is_left_alone());
        let task = machine.states[id].node;
        let is_open =
            || timing::waits_without_heartbeat(task) && timing::limit(task) == Limit::Absent;
        if let Some(lease) = held.filter(|_| is_open()) {
            let message = format!(
                "waits for a task token without a limit, so the key of {} may be held for a year, the longest that an execution lasts",
                machine.states[lease.acquire].name
            );
            self.report_about(
                About::lease(lease.acquire),
                Rule::Unbounded,
                id,
                link,
                message,
            );
        }
    }

    /// Reports the first task of each execution lease that a redrive would start although the lease may be over.
    fn after_redrive(&mut self, id: StateId, env: &Env, link: usize) {
        if proofs::is_guarded(self.machine, self.calls, id) {
            return;
        }
        // A lease whose step failed and may still be running is not the lease of later states.
        let under = |lease: &&Lease| {
            lease.of_execution && lease.is_held() && lease.left() == StillRunning::No
        };
        for lease in env.iter().filter(under) {
            let keeps = self
                .request(lease.acquire)
                .is_some_and(|request| request.lifetime == Lifetime::Execution { keeps: true });
            if !keeps && self.unguarded.insert(lease.acquire) {
                let name = self.machine.states[lease.acquire].name;
                let message = format!(
                    "starts again after a redrive, which skips {name}, whether or not its lease still lasts"
                );
                let about = About::lease(lease.acquire);
                self.report_about(about, Rule::UnguardedRedrive, id, link, message);
            }
        }
    }

    /// The edges of a task's failures.
    pub(crate) fn failed(
        &self,
        id: StateId,
        env: &Env,
        reported: impl Fn(Effect, &mut Env),
    ) -> Vec<Edge> {
        let machine = self.machine;
        let state = &machine.states[id];
        let mut met: BTreeMap<(Option<usize>, Effect, &str), &str> = BTreeMap::new();
        let is_inner = machine.scopes[state.scope].within.is_some();
        for (error, effect) in all_failures(state, &self.calls[id]) {
            let nth = clause(state, error);
            // If the service stops the job, ending without a release is accepted only if the failure is caught.
            let is_caught = nth.is_some() || (error == TIMEOUT && self.is_caught_around(id));
            let effect = match effect {
                Effect::Work(StillRunning::Maybe) if !is_caught => Effect::Same,
                effect => effect,
            };
            // A state around this one may have a clause of its own for each error.
            let name = if is_inner && nth.is_none() { error } else { "" };
            met.entry((nth, effect, name)).or_insert(error);
        }
        met.into_iter()
            .map(|((nth, effect, _), error)| {
                let mut env = env.clone();
                reported(effect, &mut env);
                if let Some(nth) = nth {
                    return self.caught(id, nth, env);
                }
                let error = match error {
                    "" => Error::Own,
                    name => Error::Named(name.to_owned()),
                };
                let to = To::Out(Some(error.clone()));
                Edge::new(env, to, Some(By::Uncaught(error)))
            })
            .collect()
    }

    /// Whether a Parallel or a Map around a state catches a timeout.
    fn is_caught_around(&self, id: StateId) -> bool {
        let machine = self.machine;
        let around = machine.enclosing(machine.states[id].scope).into_iter();
        let mut around = around.map(|(around, _)| &machine.states[around]);
        around.any(|state| clause(state, TIMEOUT).is_some())
    }

    /// The edge along a clause of a Catch.
    pub(crate) fn caught(&self, id: StateId, nth: usize, mut env: Env) -> Edge {
        let machine = self.machine;
        let state = &machine.states[id];
        let catcher = &state.catch[nth];
        flow(&mut env, |handle| handle.caught(id, state, nth, catcher));
        let to = catcher.next.map_or(To::Nowhere, To::State);
        Edge::new(env, to, Some(By::Catch(nth)))
    }

    /// Reports a branch that keeps a lease for others and continues after that lease is lost, because the others then go on
    /// without it.
    pub(crate) fn report_going_on(&mut self, id: StateId, env: &Env, link: usize) {
        let lost = env
            .iter()
            .find(|lease| lease.status == Status::Lost && self.keeping.contains(&lease.acquire));
        if lost.is_some() {
            let message = "continues although the lease is lost, and so does the work in the other branches, which only a failure here stops";
            self.report(Rule::WorkAfterLost, id, link, message.to_owned());
        }
    }
}

/// Moves every handle to where the state puts it.
pub(crate) fn flow(env: &mut Env, to: impl Fn(&HandleFlow) -> HandleFlow) {
    for lease in env {
        lease.handle = Rc::new(to(&lease.handle));
    }
}

impl Walker<'_, '_> {
    pub(crate) fn choice(
        &self,
        id: StateId,
        env: &Env,
        rules: &[(&Node, Option<StateId>)],
        default: Option<StateId>,
    ) -> Vec<Edge> {
        let machine = self.machine;
        let state = &machine.states[id];
        let mut after = env.clone();
        flow(&mut after, |handle| handle.after(id, state));
        // The outcome of the last acquire whose answer the rule reads. Empty if that acquire failed.
        let outcome = |path: &Path| {
            let asked = env.iter().filter(|lease| {
                let request = self.request(lease.acquire);
                request.is_some_and(|request| request.skips) && lease.handle.tells_outcome(path)
            });
            let last = asked.max_by_key(|lease| lease.since)?;
            Some(match last.status {
                Status::Refused => "held",
                Status::Failed => "",
                _ => "acquired",
            })
        };
        let mut edges = Vec::new();
        for (nth, (rule, next)) in rules.iter().enumerate() {
            let matches = asks_outcome(rule)
                .and_then(|(path, value, differs)| Some((outcome(path)? == value) != differs));
            if matches == Some(false) {
                continue;
            }
            let to = next.map_or(To::Nowhere, To::State);
            edges.push(Edge::new(after.clone(), to, Some(By::Rule(nth))));
            if matches == Some(true) {
                return edges;
            }
        }
        let (to, by) = if let Some(next) = default {
            (To::State(next), By::Default)
        } else {
            let error = Error::Named("States.NoChoiceMatched".to_owned());
            (To::Out(Some(error)), By::NoRule)
        };
        edges.push(Edge::new(after, to, Some(by)));
        edges
    }
}

/// The errors of a Fail.
fn errors_of(state: &State<'_>) -> Vec<Error> {
    let error = state.node.get("Error");
    let computed = error
        .and_then(Node::expr)
        .filter(|expr| expr.language.is_jsonata());
    let names = match computed {
        Some(expr) => expr.texts(),
        None => error.and_then(Node::text).map(|name| vec![name]),
    };
    names.map_or(vec![Error::Any], |names| {
        let names = names.into_iter();
        names.map(|name| Error::Named(name.to_owned())).collect()
    })
}

/// The path that a rule of a Choice compares with an outcome, the outcome, and whether the rule matches any other one instead.
fn asks_outcome(rule: &Node) -> Option<(&Path, &str, bool)> {
    let found = if let Some(condition) = rule.get("Condition") {
        let expr = condition.expr()?;
        let compared = expr.compared(expr.whole()?).into_iter();
        let mut asked = compared.filter_map(|(sign, path, value)| match (sign, value) {
            ("=" | "!=", Term::Text(value)) => Some((path, value.as_str(), sign == "!=")),
            _ => None,
        });
        asked.next()?
    } else {
        let value = rule.text_of("StringEquals")?;
        (rule.get("Variable")?.expr()?.path()?, value, false)
    };
    matches!(found.1, "acquired" | "held").then_some(found)
}

/// Work may only begin, and a read of its service reports its end.
fn begins_or_asks(call: &Call<'_>, task: &Node, env: &mut Env) {
    let response = match call {
        Call::Work(_) => Response::of(task),
        Call::Read => Response::Done,
        _ => return,
    };
    for lease in held_mut(env) {
        match &response {
            Response::Invoked => lease.left = StillRunning::Yes,
            Response::Accepted(service) => drop(lease.begun.insert(service.clone())),
            Response::Done => {
                if let Some(service) = responses::asked(task) {
                    lease.begun.remove(service);
                }
            }
        }
    }
}
