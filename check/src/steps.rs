//! What each type of state does to the leases that are held.

use crate::calls::{Call, Left, Request};
use crate::expression as text;
use crate::lease::{Env, Lease, Status, find, put};
use crate::machine::{Kind, StateId};
use crate::node::Node;
use crate::outcomes::{Effect, Error, clause, failures, matches};
use crate::places::Places;
use crate::rule::Rule;
use crate::timing::{self, FOREVER, Limit, retried, sum};
use crate::walk::{Edge, To, Walker};
use std::rc::Rc;

impl Walker<'_, '_> {
    pub(crate) fn step(&mut self, id: StateId, mut env: Env, link: usize) -> Vec<Edge> {
        let machine = self.machine;
        let state = &machine.states[id];
        match &state.kind {
            Kind::Task => self.task(id, env, link),
            Kind::Wait => {
                self.goes_on(id, &env, link);
                let pause = timing::pause(state.node);
                self.spend(id, &mut env, &pause, &[], true, link);
                flow(&mut env, |places| places.after(id, state));
                vec![self.onward(id, env)]
            }
            Kind::Pass => {
                flow(&mut env, |places| places.after(id, state));
                vec![self.onward(id, env)]
            }
            Kind::Choice { rules, default } => self.choice(id, &env, rules, *default),
            Kind::Succeed => vec![Edge {
                env,
                to: To::Done,
                by: None,
            }],
            Kind::Fail => {
                let error = match state.node.get("Error").and_then(Node::text) {
                    Some(name) if text::inside(name).is_none() => Error::Named(name.to_owned()),
                    _ => Error::Any,
                };
                vec![Edge {
                    env,
                    to: To::Failed(error),
                    by: None,
                }]
            }
            Kind::Parallel(_) | Kind::Map(_) => self.around(id, env, link),
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
        if before.is_some_and(|lease| lease.is_held() && lease.left == Left::Over)
            && !request.reentrant
        {
            let message =
                "asks for a lease while it still has the one from the last time".to_owned();
            self.report(Rule::NoRelease, id, link, message);
        }
        let limit = timing::limit(state.node);
        self.spend(id, &mut env, &limit, &[id], true, link);
        let mut edges = self.failed(id, &env, |_, env| {
            env.retain(|lease| lease.acquire != id || !lease.is_held())
        });

        // The answer may be to the first attempt, and the last may only repeat it.
        let one = self.attempt(&limit, None);
        let unknown = |names: &[String]| {
            [
                "Lease.Unavailable",
                "States.Timeout",
                "Lambda.ServiceException",
            ]
            .iter()
            .any(|name| matches(names, name))
        };
        let asked_again = state.retry.iter().filter(|retrier| retrier.attempts > 0);
        let is_unsure = asked_again.clone().any(|retrier| unknown(&retrier.errors));
        let refusal = |name: &String| {
            matches!(
                name.as_str(),
                "Lease.Held" | "Lease.Frozen" | "Lease.QueueFull"
            )
        };
        let after = asked_again.filter(|retrier| !retrier.errors.iter().all(refusal));
        let all = if is_unsure { retried(one, after) } else { one };
        let mut lease = Lease {
            acquire: id,
            budget: request.ttl.map(|ttl| ttl.saturating_sub(self.lost_time)),
            status: Status::Held,
            left: Left::Over,
            unconfirmed: request.queued,
            kept: false,
            told: false,
            places: Rc::new(Places::default()),
            age: if request.queued { FOREVER } else { all },
            unsure: all - one,
            cause: Some(id),
            since: self.now(),
        };
        flow(&mut env, |places| places.after(id, state));
        lease.places = Rc::new(Places::default().answered(id, state));
        // What was over before, under the same name, is forgotten.
        env.retain(|other| other.is_held() || other.places.vars.is_disjoint(&lease.places.vars));
        let mut granted = env.clone();
        put(&mut granted, lease.clone());
        edges.push(self.onward(id, granted));
        if request.on_held_result {
            lease.end(Status::Refused);
            put(&mut env, lease);
            let mut edge = self.onward(id, env);
            edge.by = Some("held".to_owned());
            edges.push(edge);
        }
        edges
    }

    fn extend(
        &mut self,
        id: StateId,
        payload: Option<&Node>,
        mut env: Env,
        link: usize,
    ) -> Vec<Edge> {
        self.goes_on(id, &env, link);
        let machine = self.machine;
        let state = &machine.states[id];
        let limit = timing::limit(state.node);
        let targets = self.targets(id, &env, payload, link);
        let one: Vec<u64> = targets
            .iter()
            .map(|&target| self.attempt(&limit, find(&env, target).map(|lease| (lease, &env))))
            .collect();
        let can_stand = targets
            .iter()
            .all(|&target| find(&env, target).is_some_and(Lease::is_held));
        // Late is not wrong here: an extend that comes too late finds that out.
        self.spend(id, &mut env, &limit, &targets, false, link);
        for lease in env
            .iter_mut()
            .filter(|lease| targets.contains(&lease.acquire))
        {
            match &limit {
                Limit::Fixed(attempt) => {
                    lease.age = sum(lease.age, timing::with_retries(*attempt, &state.retry))
                }
                _ => lease.lapse(id),
            }
        }
        let mut edges = self.failed(id, &env, |effect, env| {
            for lease in env
                .iter_mut()
                .filter(|lease| targets.contains(&lease.acquire))
            {
                if effect == Effect::Lost && lease.is_held() {
                    lease.end(Status::Lost);
                }
            }
        });
        if targets.is_empty() || can_stand {
            let since = self.now();
            for lease in &mut env {
                let Some(nth) = targets.iter().position(|&target| target == lease.acquire) else {
                    lease.places = Rc::new(lease.places.after(id, state));
                    continue;
                };
                lease.renew(one[nth], Some(id), since);
                if payload.is_some_and(|payload| payload.field("ttl_seconds").is_some()) {
                    let ttl = crate::calls::ttl(payload);
                    lease.budget = ttl.map(|ttl| ttl.saturating_sub(self.lost_time));
                }
                lease.places = Rc::new(lease.places.answered(id, state));
            }
            edges.push(self.onward(id, env));
        }
        edges
    }

    fn release(
        &mut self,
        id: StateId,
        payload: Option<&Node>,
        mut env: Env,
        link: usize,
    ) -> Vec<Edge> {
        let machine = self.machine;
        let state = &machine.states[id];
        let targets = self.targets(id, &env, payload, link);
        let limit = timing::limit(state.node);
        self.spend(id, &mut env, &limit, &targets, false, link);
        for lease in env
            .iter_mut()
            .filter(|lease| targets.contains(&lease.acquire))
        {
            if !lease.is_held() {
                continue;
            }
            if lease.left == Left::AtWork {
                let message = "gives the lease back while a function that has not answered may still be at work".to_owned();
                self.report(Rule::ReleasedWhileRunning, id, link, message);
            }
            // Tried is as good as done: a release that fails has been repeated, and the lease runs out.
            lease.end(Status::Released);
        }
        let mut edges = self.failed(id, &env, |_, _| ());
        flow(&mut env, |places| places.after(id, state));
        edges.push(self.onward(id, env));
        edges
    }

    fn work(&mut self, id: StateId, call: &Call<'_>, mut env: Env, link: usize) -> Vec<Edge> {
        let machine = self.machine;
        let state = &machine.states[id];
        let is_work = matches!(call, Call::Work(_));
        if is_work {
            self.goes_on(id, &env, link);
            for lease in &env {
                if !lease.is_held() {
                    // Another lease may have come in its place.
                    if !env
                        .iter()
                        .any(|other| other.is_held() && other.since > lease.since)
                    {
                        self.late.push((id, lease.clone(), link));
                    }
                    continue;
                }
                self.guarded.insert((id, lease.acquire));
                if lease.unconfirmed {
                    let name = machine.states[lease.acquire].name;
                    let message = format!(
                        "works under the lease of {name}, which after a wait in line is only reserved"
                    );
                    self.report(Rule::Unconfirmed, id, link, message);
                }
            }
            for lease in &mut env {
                // Told of once, by the name of what is missing.
                lease.told |= lease.unconfirmed;
            }
        }
        let limit = timing::limit(state.node);
        self.spend(id, &mut env, &limit, &[], is_work, link);
        let innermost = env
            .iter()
            .filter(|lease| lease.is_held())
            .max_by_key(|lease| lease.since);
        let innermost = innermost.map(|lease| lease.acquire);
        let mut edges = self.failed(id, &env, |effect, env| {
            for lease in env.iter_mut().filter(|lease| lease.is_held()) {
                match effect {
                    Effect::Work(left) => lease.left = lease.left.max(left),
                    Effect::Lost if Some(lease.acquire) == innermost => lease.end(Status::Lost),
                    _ => {}
                }
            }
        });
        flow(&mut env, |places| places.after(id, state));
        edges.push(self.onward(id, env));
        edges
    }

    /// The edges of a task's failures.
    fn failed(&self, id: StateId, env: &Env, told: impl Fn(Effect, &mut Env)) -> Vec<Edge> {
        let machine = self.machine;
        let state = &machine.states[id];
        let mut met: Vec<(Option<usize>, Effect, &str)> = Vec::new();
        for (error, effect) in failures(state, &self.calls[id]) {
            let nth = clause(state, error);
            // Who catches nothing has not thought of what the service stops.
            let effect = match (nth, effect) {
                (None, Effect::Work(Left::Perhaps)) => Effect::Same,
                (_, effect) => effect,
            };
            if !met
                .iter()
                .any(|(other, as_other, _)| (*other, *as_other) == (nth, effect))
            {
                met.push((nth, effect, error));
            }
        }
        met.sort_by_key(|(nth, effect, _)| (*nth, *effect));
        met.into_iter()
            .map(|(nth, effect, error)| {
                let mut env = env.clone();
                told(effect, &mut env);
                match nth {
                    Some(nth) => self.caught(id, nth, env),
                    None => Edge {
                        env,
                        to: To::Failed(if error.is_empty() {
                            Error::Own
                        } else {
                            Error::Named(error.to_owned())
                        }),
                        by: Some(if error.is_empty() {
                            "an error that nobody catches".to_owned()
                        } else {
                            format!("{error}, not caught")
                        }),
                    },
                }
            })
            .collect()
    }

    /// The edge of a clause of a Catch.
    pub(crate) fn caught(&self, id: StateId, nth: usize, mut env: Env) -> Edge {
        let machine = self.machine;
        let state = &machine.states[id];
        let catcher = &state.catch[nth];
        flow(&mut env, |places| places.caught(id, state, nth, catcher));
        Edge {
            env,
            to: catcher.next.map_or(To::Nowhere, To::State),
            by: Some(format!(
                "Catch {}",
                catcher.errors.first().map_or("", String::as_str)
            )),
        }
    }

    /// Which leases a payload speaks of.
    fn targets(
        &mut self,
        id: StateId,
        env: &Env,
        payload: Option<&Node>,
        link: usize,
    ) -> Vec<StateId> {
        let named = env
            .iter()
            .filter(|lease| payload.is_some_and(|payload| lease.places.referred(payload)));
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
                        "several leases are held, and which of them this is about cannot be told"
                            .to_owned();
                    self.report(Rule::HandleOverwritten, id, link, message);
                    targets = held;
                }
                _ => {}
            }
        }
        for lease in env
            .iter()
            .filter(|lease| targets.contains(&lease.acquire) && lease.is_held())
        {
            if let Some((by, nth)) = lease.places.gone {
                let machine = self.machine;
                let user = machine.states[id].name;
                let what = if by == lease.acquire && nth.is_none() {
                    "does not keep"
                } else {
                    "overwrites"
                };
                let clause = nth.map(|nth| {
                    format!(
                        " in its Catch of {}",
                        machine.states[by].catch[nth].errors.join(", ")
                    )
                });
                let message = format!(
                    "{what} the lease's handle{}, which {user} needs",
                    clause.unwrap_or_default()
                );
                let at = nth.map_or(machine.states[by].at, |nth| {
                    machine.states[by].catch[nth].node.span
                });
                self.report_at(Rule::HandleOverwritten, by, at, Some((link, None)), message);
            }
        }
        targets
    }

    /// A branch that keeps a lease for others has to end with it, or they go on without.
    fn goes_on(&mut self, id: StateId, env: &Env, link: usize) {
        let lost = env
            .iter()
            .find(|lease| lease.status == Status::Lost && self.keeping.contains(&lease.acquire));
        if lost.is_some() {
            let message = "goes on although the lease is lost, and so does the work beside it, which only a failure here stops";
            self.report(Rule::WorkAfterLost, id, link, message.to_owned());
        }
    }

    fn choice(
        &self,
        id: StateId,
        env: &Env,
        rules: &[(&Node, Option<StateId>)],
        default: Option<StateId>,
    ) -> Vec<Edge> {
        let machine = self.machine;
        let state = &machine.states[id];
        let mut after = env.clone();
        flow(&mut after, |places| places.after(id, state));
        // Whether the last acquire that tells contention as a result was granted.
        let asked = env.iter().filter(|lease| {
            self.request(lease.acquire)
                .is_some_and(|request| request.on_held_result)
        });
        let granted = asked
            .max_by_key(|lease| lease.since)
            .map(|lease| lease.status != Status::Refused);
        let mut edges = Vec::new();
        for (nth, (rule, next)) in rules.iter().enumerate() {
            let told = tells_granted(rule);
            if let (Some(granted), Some(told)) = (granted, told) {
                if granted != told {
                    continue;
                }
            }
            let to = next.map_or(To::Nowhere, To::State);
            edges.push(Edge {
                env: after.clone(),
                to,
                by: Some(format!("Choice {}", nth + 1)),
            });
            if granted.is_some() && told.is_some() {
                return edges;
            }
        }
        edges.push(match default {
            Some(next) => Edge {
                env: after,
                to: To::State(next),
                by: Some("Default".to_owned()),
            },
            None => Edge {
                env: after,
                to: To::Failed(Error::Named("States.NoChoiceMatched".to_owned())),
                by: Some("no Choice matches, and there is no Default".to_owned()),
            },
        });
        edges
    }
}

/// Lets every handle go where the state puts it.
pub(crate) fn flow(env: &mut Env, to: impl Fn(&Places) -> Places) {
    for lease in env {
        lease.places = Rc::new(to(&lease.places));
    }
}

/// Whether a rule of a Choice asks for a grant (`Some(true)`), for a refusal, or for something else.
fn tells_granted(rule: &Node) -> Option<bool> {
    if let Some(condition) = rule.get("Condition").and_then(Node::text) {
        let inside = text::inside(condition)?.trim();
        let (path, rest) = inside.split_once('=')?;
        let (path, differs) = path
            .strip_suffix('!')
            .map_or((path, false), |path| (path, true));
        let path = path.trim();
        let simple = path.ends_with(".outcome") && !path.contains(' ');
        let value = rest.trim().trim_matches(['\'', '"']);
        return match value {
            "acquired" if simple => Some(!differs),
            "held" if simple => Some(differs),
            _ => None,
        };
    }
    let is_outcome = rule
        .get("Variable")
        .and_then(Node::text)?
        .ends_with(".outcome");
    match rule.get("StringEquals").and_then(Node::text)? {
        "acquired" if is_outcome => Some(true),
        "held" if is_outcome => Some(false),
        _ => None,
    }
}
