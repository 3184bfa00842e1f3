//! Parallel and Map: scopes that run concurrently.

use crate::check::calls::{Call, StillRunning};
use crate::check::finding::About;
use crate::check::lease::{Env, Key, Lease, Status, find, held_mut, join, key, put};
use crate::check::outcomes::{Error, Exit, When, clause, clauses, own_failures};
use crate::check::rule::Rule;
use crate::check::walk::steps::flow;
use crate::check::walk::{By, Edge, To, Walker};
use crate::read::error_names::{TOO_LARGE, TOO_MANY_FAILED, is_lost, matches};
use crate::read::machine::{ScopeId, State, StateId};
use crate::read::node::Node;
use crate::read::timing::{FOREVER, sum};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;

/// The most combinations of the ends of branches.
const MOST: usize = 500;
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
        let mut edges = Edges::default();
        let mut entries = vec![env];
        for round in 0..=attempts.min(ROUNDS) {
            let mut again = Merged::default();
            for entry in std::mem::take(&mut entries) {
                let (done, failed) = self.bodies(id, &entry, link);
                for mut env in done {
                    flow(&mut env, |handle| handle.after(id, state));
                    edges.add(self.onward(id, env));
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
                        again.add(env);
                    }
                    self.lead(id, &env, &error, &mut edges);
                }
            }
            entries = again.all;
            if entries.is_empty() || self.is_given_up() {
                break;
            }
        }
        edges.all
    }

    /// The edges of an error that left an inner scope.
    fn lead(&self, id: StateId, env: &Env, error: &Error, edges: &mut Edges) {
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
            edges.add(self.caught(id, nth, env));
        }
        if uncaught {
            let to = To::Out(Some(error.clone()));
            let by = By::Uncaught(error.clone());
            edges.add(Edge::new(env.clone(), to, Some(by)));
        }
    }

    /// How the inner scopes can end together: after success, and after each failure.
    fn bodies(&mut self, id: StateId, entry: &Env, link: usize) -> (Vec<Env>, Vec<(Env, Error)>) {
        let machine = self.machine;
        let state = &machine.states[id];
        let scopes = machine.inner(id);
        let keepers = self.keepers(id, entry);
        let ends = self.ends(id, entry, &keepers, link);
        self.siblings(id, scopes, &ends, state.is_map());
        self.released_beside(scopes, &ends, entry, state.runs_items_at_once());
        let outer = |env: &Env| self.outwards(id, entry, env, !keepers.is_empty());
        let (mut done, is_whole) = combined(&ends, entry, &outer);
        if state.is_map() {
            // The list of items may be empty.
            done.add(entry.clone());
        }
        let done = done.all;
        let mut failed = self.failed_inside(id, entry, &ends, &outer);
        for lease in entry.iter().filter(|lease| lease.is_held()) {
            let errors = self.left_by.entry((id, lease.acquire)).or_default();
            for (env, error) in &failed {
                if let Some(after) = find(env, lease.acquire).filter(|after| after.is_held()) {
                    let left = errors.entry(error.clone()).or_insert(after.left());
                    *left = left.or(after.left());
                }
            }
        }
        let own = own_ends(state, entry, &done, &failed);
        failed.extend(own);
        if !is_whole {
            let message = "not checked: its branches can end in too many combinations";
            self.report(Rule::TooLarge, id, link, message.to_owned());
        }
        (done, failed)
    }

    /// The held leases that a branch keeps for the others, with its scope.
    fn keepers(&self, id: StateId, entry: &Env) -> Vec<(StateId, ScopeId)> {
        let scopes = self.machine.inner(id);
        let is_kept = scopes.len() > 1 && !self.machine.states[id].is_map();
        let keeper = scopes.iter().find(|&&scope| is_kept && self.keeps(scope));
        let held = entry.iter().filter(|lease| lease.is_held());
        held.filter_map(|lease| Some((lease.acquire, *keeper?)))
            .collect()
    }

    /// The ends of each inner scope.
    fn ends(
        &mut self,
        id: StateId,
        entry: &Env,
        keepers: &[(StateId, ScopeId)],
        link: usize,
    ) -> Vec<Vec<Exit>> {
        let machine = self.machine;
        let state = &machine.states[id];
        let mut start = entry.clone();
        flow(&mut start, |handle| handle.entered(state));
        if state.is_map() && !at_once(state.node) {
            // An item may begin after others have taken any time.
            for lease in held_mut(&mut start).filter(|lease| !lease.kept) {
                lease.lapse(id);
            }
        }
        let mut ends = Vec::new();
        for &scope in machine.inner(id) {
            let mut env = start.clone();
            let mut keeping = Vec::new();
            for lease in &mut env {
                let mut keepers = keepers.iter();
                match keepers.find(|(acquire, _)| *acquire == lease.acquire) {
                    Some((acquire, keeper)) if *keeper == scope => keeping.push(*acquire),
                    Some(_) => lease.kept = true,
                    None => {}
                }
            }
            let before = std::mem::replace(&mut self.keeping, keeping);
            ends.push(self.scope(scope, env, Some(link)));
            self.keeping = before;
        }
        ends
    }

    /// The leases after each failure of an inner scope, which aborts the others.
    fn failed_inside(
        &self,
        id: StateId,
        entry: &Env,
        ends: &[Vec<Exit>],
        outer: &dyn Fn(&Env) -> Env,
    ) -> Vec<(Env, Error)> {
        let items = self.machine.states[id].runs_items_at_once();
        let scopes = self.machine.inner(id).iter();
        let lefts: Vec<StillRunning> = scopes.map(|&scope| self.left(scope)).collect();
        let mut failed: Vec<(Env, Error)> = Vec::new();
        for (at, exits) in ends.iter().enumerate() {
            // Tasks of the aborted branches may still be running.
            let beside = lefts.iter().enumerate();
            let beside = beside.filter(|(other, _)| *other != at || items);
            let left = beside.map(|(_, left)| *left).max();
            let left = left.unwrap_or(StillRunning::No);
            for exit in exits {
                let Some(error) = &exit.error else { continue };
                let mut env = outer(&exit.env);
                env.retain(|lease| find(entry, lease.acquire).is_some() || !lease.is_held());
                for lease in held_mut(&mut env) {
                    lease.left = lease.left.max(left);
                }
                if let Some(env) = ended_beside(&env, at, ends) {
                    failed.push((env, error.clone()));
                }
                failed.push((env, error.clone()));
            }
        }
        failed
    }

    /// Reports a branch or an item that releases a lease under which another one may still work.
    fn released_beside(
        &mut self,
        scopes: &[ScopeId],
        ends: &[Vec<Exit>],
        entry: &Env,
        items: bool,
    ) {
        let works: Vec<bool> = scopes
            .iter()
            .map(|&scope| self.left(scope) > StillRunning::No)
            .collect();
        for (at, exits) in ends.iter().enumerate() {
            let mut beside = works.iter().enumerate();
            if !beside.any(|(other, works)| *works && (items || other != at)) {
                continue;
            }
            for exit in exits {
                let released = exit.env.iter().any(|lease| {
                    lease.status == Status::Released
                        && find(entry, lease.acquire).is_some_and(Lease::is_held)
                });
                let release = self.way(exit.link).find(|&link| {
                    let state = self.state_of(link);
                    matches!(self.calls[state], Call::Release(_))
                        && self.machine.is_inside(state, scopes[at])
                });
                if let Some(link) = release.filter(|_| released) {
                    let message =
                        "releases the lease while others beside it may still work under it";
                    let state = self.state_of(link);
                    self.report(Rule::ReleasedWhileRunning, state, link, message.to_owned());
                }
            }
        }
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
        extends && !machine.can_end(scope)
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
                let about = About::lease(acquire);
                self.report_about(about, Rule::AbortedSiblings, from, exit.link, message);
            }
        }
    }
}

/// The leases after the successes of all scopes together, and whether these are all combinations.
fn combined(ends: &[Vec<Exit>], entry: &Env, outer: &dyn Fn(&Env) -> Env) -> (Merged, bool) {
    let mut done = Merged::default();
    let mut is_whole = true;
    if ends.is_empty() {
        done.add(entry.clone());
    }
    for (nth, exits) in ends.iter().enumerate() {
        let mut successes = Merged::default();
        for env in passed_on(exits, entry) {
            successes.add(outer(&env));
        }
        if nth == 0 {
            done = successes;
            continue;
        }
        let mut next = Merged::default();
        for env in &done.all {
            for other in &successes.all {
                is_whole &= next.all.len() <= MOST;
                if is_whole {
                    next.add(together(env, other, entry));
                }
            }
        }
        done = next;
    }
    (done, is_whole)
}

/// The leases after each success of a scope. Nobody outside has the handle of a lease that has ended, or is left to expire, unless another
/// success passes it on.
fn passed_on(exits: &[Exit], entry: &Env) -> Vec<Env> {
    let successes: Vec<&Env> = exits
        .iter()
        .filter(|exit| exit.error.is_none())
        .map(|exit| &exit.env)
        .collect();
    let is_passed = |acquire: StateId| {
        let mut leases = successes.iter().filter_map(|env| find(env, acquire));
        leases.any(|lease| lease.is_held() && lease.left() == StillRunning::No)
    };
    let matters = |lease: &Lease| {
        find(entry, lease.acquire).is_some()
            || is_passed(lease.acquire)
            || (lease.is_held() && lease.of_execution)
    };
    let envs = successes.iter();
    envs.map(|env| env.iter().filter(|lease| matters(lease)).cloned().collect())
        .collect()
}

/// The leases after a failure of one branch if another one has already released some of them. None if none does.
fn ended_beside(env: &Env, at: usize, ends: &[Vec<Exit>]) -> Option<Env> {
    let beside = ends.iter().enumerate().filter(|(other, _)| *other != at);
    let exits: Vec<&Exit> = beside.flat_map(|(_, exits)| exits).collect();
    let mut ended = env.clone();
    let mut any = false;
    for lease in held_mut(&mut ended) {
        let mut others = exits
            .iter()
            .filter_map(|exit| find(&exit.env, lease.acquire));
        if others.any(|other| other.status == Status::Released) {
            lease.end(Status::Lost);
            any = true;
        }
    }
    any.then_some(ended)
}

/// The failures of a Parallel or a Map itself. If a clause catches them and failures from inside alike, nobody can tell them apart, so
/// that leaving the lease to expire is right, too.
fn own_ends(
    state: &State<'_>,
    entry: &Env,
    done: &[Env],
    failed: &[(Env, Error)],
) -> Vec<(Env, Error)> {
    let outer = |env: &Env| -> Env {
        let is_outer = |lease: &&Lease| find(entry, lease.acquire).is_some();
        env.iter().filter(is_outer).cloned().collect()
    };
    let mut after = Merged::default();
    for env in done {
        after.add(outer(env));
    }
    let before = std::slice::from_ref(entry);
    let mut found = Vec::new();
    for (error, when) in own_failures(state) {
        let caught = clause(state, error);
        let from_inside = |other: &Error| {
            let any = matches!(error, TOO_LARGE | TOO_MANY_FAILED);
            caught.is_some_and(|nth| any || clauses(state, other).0.contains(&nth))
        };
        let inside = failed.iter().filter(|(_, other)| from_inside(other));
        let mut leases = inside.flat_map(|(env, _)| env);
        let may_run = leases.any(|lease| lease.is_held() && lease.left() > StillRunning::No);
        let envs = match when {
            When::Before => before,
            When::After => &after.all,
        };
        for env in envs {
            let mut env = env.clone();
            for lease in held_mut(&mut env).filter(|_| may_run) {
                lease.left = lease.left.max(StillRunning::Maybe);
            }
            found.push((env, Error::Named(error.to_owned())));
        }
    }
    found
}

/// Edges that differ, each with the oldest leases.
#[derive(Default)]
struct Edges {
    all: Vec<Edge>,
    index: HashMap<(To, Option<By>, Key), usize>,
}

impl Edges {
    fn add(&mut self, edge: Edge) {
        let key = (edge.to.clone(), edge.by.clone(), key(&edge.env));
        match self.index.entry(key) {
            Entry::Occupied(nth) => _ = join(&mut self.all[*nth.get()].env, &edge.env),
            Entry::Vacant(place) => {
                place.insert(self.all.len());
                self.all.push(edge);
            }
        }
    }
}

/// Leases that differ, each in its oldest form.
#[derive(Default)]
struct Merged {
    all: Vec<Env>,
    index: HashMap<Key, usize>,
}

impl Merged {
    fn add(&mut self, env: Env) {
        match self.index.entry(key(&env)) {
            Entry::Occupied(nth) => _ = join(&mut self.all[*nth.get()], &env),
            Entry::Vacant(place) => {
                place.insert(self.all.len());
                self.all.push(env);
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
                    let begun = &other.begun | &lease.begun;
                    other.join(lease);
                    (other.left, other.begun) = (left, begun);
                } else {
                    *other = lease.clone();
                }
            }
        }
    }
    both
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
