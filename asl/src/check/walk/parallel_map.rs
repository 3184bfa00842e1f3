//! Parallel and Map: scopes that run concurrently.

use crate::check::calls::{Call, StillRunning};
use crate::check::lease::{Env, Lease, Status, held_mut, join, key, put};
use crate::check::outcomes::{Error, Exit, clauses};
use crate::check::rule::Rule;
use crate::check::walk::steps::flow;
use crate::check::walk::{Edge, To, Walker};
use crate::read::error_names::{is_lost, matches};
use crate::read::machine::{Kind, Next, ScopeId, StateId};
use crate::read::node::Node;
use crate::read::timing::{FOREVER, sum};
use std::rc::Rc;

/// How many combinations of the ends of branches are kept apart.
const MOST: usize = 64;
/// How many attempts of a whole Parallel or Map are walked one by one.
const ROUNDS: u64 = 10;

impl Walker<'_, '_> {
    pub(crate) fn parallel_or_map(&mut self, id: StateId, env: Env, link: usize) -> Vec<Edge> {
        let machine = self.machine;
        let state = &machine.states[id];
        let (attempts, waits) = state
            .retry
            .iter()
            .fold((0, 0), |(attempts, waits), retrier| {
                (sum(attempts, retrier.attempts), sum(waits, retrier.waits))
            });
        let mut edges: Vec<Edge> = Vec::new();
        let mut entries = vec![env];
        for round in 0..=attempts.min(ROUNDS) {
            let mut again: Vec<Env> = Vec::new();
            for entry in std::mem::take(&mut entries) {
                let (done, failed) = self.bodies(id, &entry, link);
                for mut env in done {
                    flow(&mut env, |handle| handle.after(id, state));
                    add(&mut edges, self.onward(id, env));
                }
                for (env, error) in failed {
                    let retried = state.retry.iter().any(|retrier| {
                        let name = if let Error::Named(name) = &error {
                            name
                        } else {
                            ""
                        };
                        retrier.attempts > 0
                            && (!matches!(error, Error::Named(_)) || matches(&retrier.errors, name))
                    });
                    // Another attempt changes only the time.
                    if retried && env.iter().any(Lease::is_held) {
                        let mut env = env.clone();
                        for lease in held_mut(&mut env) {
                            lease.age = sum(lease.age, if round == 0 { waits } else { 0 });
                            if attempts > ROUNDS {
                                lease.lapse(id);
                            }
                        }
                        merge_in(&mut again, env);
                    }
                    self.lead(id, &env, &error, &mut edges);
                }
            }
            entries = again;
            if entries.is_empty() || self.is_given_up() {
                break;
            }
        }
        edges
    }

    /// The edges of an error that left an inner scope.
    fn lead(&self, id: StateId, env: &Env, error: &Error, edges: &mut Vec<Edge>) {
        let machine = self.machine;
        let state = &machine.states[id];
        let (reached, uncaught) = clauses(state, error);
        for nth in reached {
            let mut env = env.clone();
            // If the error's name is unknown and this clause catches it, it has a name of this clause.
            let says_lost =
                *error == Error::Any && state.catch[nth].errors.iter().all(|name| is_lost(name));
            if says_lost {
                let innermost = held_mut(&mut env).max_by_key(|lease| lease.since);
                if let Some(lease) = innermost {
                    lease.end(Status::Lost);
                }
            }
            add(edges, self.caught(id, nth, env));
        }
        if uncaught {
            let name = if let Error::Named(name) = error {
                name
            } else {
                "error inside"
            };
            let to = To::Out(Some(error.clone()));
            let by = format!("uncaught {name}");
            add(edges, Edge::new(env.clone(), to, Some(by)));
        }
    }

    /// How the inner scopes can end together: after success, and after each failure.
    fn bodies(&mut self, id: StateId, entry: &Env, link: usize) -> (Vec<Env>, Vec<(Env, Error)>) {
        let machine = self.machine;
        let state = &machine.states[id];
        let scopes = machine.inner(id).to_vec();
        let is_map = matches!(state.kind, Kind::Map(_));
        let mut start = entry.clone();
        flow(&mut start, |handle| handle.entered(state));
        if is_map && !at_once(state.node) {
            // An item may begin after others have taken any time.
            for lease in start
                .iter_mut()
                .filter(|lease| lease.is_held() && !lease.kept)
            {
                lease.lapse(id);
            }
        }
        let keepers: Vec<(StateId, ScopeId)> = entry
            .iter()
            .filter(|lease| lease.is_held() && !is_map && scopes.len() > 1)
            .filter_map(|lease| {
                Some((
                    lease.acquire,
                    *scopes.iter().find(|&&scope| self.keeps(scope))?,
                ))
            })
            .collect();
        let mut ends: Vec<Vec<Exit>> = Vec::new();
        for &scope in &scopes {
            let mut env = start.clone();
            let mut keeping = Vec::new();
            for lease in &mut env {
                match keepers
                    .iter()
                    .find(|(acquire, _)| *acquire == lease.acquire)
                {
                    Some((acquire, keeper)) if *keeper == scope => keeping.push(*acquire),
                    Some(_) => lease.kept = true,
                    None => {}
                }
            }
            let before = std::mem::replace(&mut self.keeping, keeping);
            ends.push(self.scope(scope, env, Some(link)));
            self.keeping = before;
        }
        self.siblings(id, &scopes, &ends, is_map);
        let outer = |env: &Env| self.outwards(id, entry, env, !keepers.is_empty());

        let mut done: Vec<Env> = if ends.is_empty() {
            vec![entry.clone()]
        } else {
            Vec::new()
        };
        for (nth, exits) in ends.iter().enumerate() {
            let successes: Vec<Env> = exits
                .iter()
                .filter(|exit| exit.error.is_none())
                .map(|exit| outer(&exit.env))
                .collect();
            if nth == 0 {
                done = successes;
                continue;
            }
            let mut next = Vec::new();
            for env in &done {
                for other in &successes {
                    merge_in(&mut next, together(env, other, entry));
                }
            }
            next.truncate(MOST);
            done = next;
        }
        if is_map {
            // The list of items may be empty.
            merge_in(&mut done, entry.clone());
        }
        let mut failed = Vec::new();
        let lefts: Vec<StillRunning> = scopes.iter().map(|&scope| self.left(scope)).collect();
        for (at, exits) in ends.iter().enumerate() {
            // Tasks of the aborted branches may still be running.
            let alone = is_map && concurrency(state.node) == Some(1.0);
            let beside = lefts
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != at || (is_map && !alone));
            let left = beside
                .map(|(_, left)| *left)
                .max()
                .unwrap_or(StillRunning::No);
            for exit in exits {
                let Some(error) = &exit.error else { continue };
                let mut env = outer(&exit.env);
                env.retain(|lease| {
                    entry.iter().any(|outer| outer.acquire == lease.acquire) || !lease.is_held()
                });
                for lease in held_mut(&mut env) {
                    lease.left = lease.left.max(left);
                }
                failed.push((env, error.clone()));
            }
        }
        (done, failed)
    }

    /// The leases after the scope: handles where they were before it, and no branch keeps them any more.
    fn outwards(&self, id: StateId, entry: &Env, env: &Env, had_keeper: bool) -> Env {
        let mut env = env.clone();
        for lease in &mut env {
            if let Some(before) = entry.iter().find(|before| before.acquire == lease.acquire) {
                lease.handle = before.handle.clone();
                if lease.is_held() && had_keeper && !before.kept {
                    (lease.age, lease.unsure) = (lease.budget.unwrap_or(FOREVER), 0);
                    lease.cause = Some(id);
                }
                lease.kept = before.kept && lease.is_held();
            } else {
                lease.handle = Rc::new(lease.handle.entered(&self.machine.states[id]));
            }
        }
        env
    }

    /// Whether a branch extends for as long as it runs, and ends only by failing, which aborts the other branches.
    fn keeps(&self, scope: ScopeId) -> bool {
        let machine = self.machine;
        let states = &machine.scopes[scope].states;
        let extends = states
            .iter()
            .any(|&state| matches!(self.calls[state], Call::Extend(_)));
        let ends = states
            .iter()
            .any(|&state| match machine.states[state].kind {
                Kind::Succeed => true,
                Kind::Fail | Kind::Choice { .. } => false,
                _ => machine.states[state].next == Next::End,
            });
        extends && !ends
    }

    /// The worst that may still be running when a scope is aborted.
    fn left(&self, scope: ScopeId) -> StillRunning {
        let states = self.machine.inside(scope);
        let left = states.iter().map(|&state| match self.calls[state] {
            Call::Work(left) => left,
            _ => StillRunning::No,
        });
        left.max().unwrap_or(StillRunning::No)
    }

    /// Reports failures of one scope that abort others while those may hold leases of their own.
    fn siblings(&mut self, id: StateId, scopes: &[ScopeId], ends: &[Vec<Exit>], is_map: bool) {
        let machine = self.machine;
        let state = &machine.states[id];
        if is_map && (concurrency(state.node) == Some(1.0) || state.tolerates_failures()) {
            return;
        }
        let acquire = |&scope: &ScopeId| {
            let mut inside = machine.inside(scope).into_iter();
            // An execution lease ends with the execution.
            let outlives = |lasts: bool| !(lasts && machine.failure_ends_execution(scope));
            inside.find(|&state| matches!(&self.calls[state], Call::Acquire(request) if outlives(request.of_execution())))
        };
        let acquires: Vec<Option<StateId>> = scopes.iter().map(acquire).collect();
        for (at, exits) in ends.iter().enumerate() {
            let mut beside = acquires
                .iter()
                .enumerate()
                .filter(|(other, _)| is_map || *other != at);
            let Some(acquire) = beside.find_map(|(_, acquire)| *acquire) else {
                continue;
            };
            let what = if is_map { "items" } else { "branches" };
            for exit in exits.iter().filter(|exit| exit.error.is_some()) {
                let from = self.state_of(exit.link);
                let message = format!(
                    "fails, so {} aborts the other {what}, which may hold the lease of {} and then do not release it",
                    state.name, machine.states[acquire].name
                );
                self.report(Rule::AbortedSiblings, from, exit.link, message);
            }
        }
    }
}

/// The leases after two branches, if both succeed.
fn together(a: &Env, b: &Env, entry: &Env) -> Env {
    let mut both = a.clone();
    for lease in b {
        match both.iter_mut().find(|other| other.acquire == lease.acquire) {
            None => put(&mut both, lease.clone()),
            Some(other) => {
                let is_outer = entry.iter().any(|before| before.acquire == lease.acquire);
                if !other.is_held() || (!is_outer && other.age >= lease.age) {
                    continue;
                }
                if lease.is_held() {
                    let left = other.left.max(lease.left);
                    other.join(lease);
                    other.left = left;
                } else {
                    *other = lease.clone();
                }
            }
        }
    }
    both
}

fn merge_in(all: &mut Vec<Env>, env: Env) {
    match all.iter_mut().find(|other| key(other) == key(&env)) {
        Some(other) => {
            join(other, &env);
        }
        None => all.push(env),
    }
}

fn add(edges: &mut Vec<Edge>, edge: Edge) {
    let same = |other: &&mut Edge| {
        other.to == edge.to && other.by == edge.by && key(&other.env) == key(&edge.env)
    };
    match edges.iter_mut().find(same) {
        Some(other) => {
            join(&mut other.env, &edge.env);
        }
        None => edges.push(edge),
    }
}

fn concurrency(map: &Node) -> Option<f64> {
    map.number_of("MaxConcurrency")
}

/// Whether all items of a Map begin at once: the list is written out, and no limit delays an item. The service runs 40 inline.
fn at_once(map: &Node) -> bool {
    let count = map.list_of("Items").len();
    let room = concurrency(map).filter(|most| *most > 0.0).unwrap_or(40.0);
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    count > 0 && map.get("MaxConcurrencyPath").is_none() && f64::from(count) <= room
}
