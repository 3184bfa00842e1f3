//! The walk: every abstract execution of a scope.
//!
//! A position is a state together with the facts known of each lease. If two executions meet at one state and differ only in
//! time, the walk continues with the longer time. Apart from loops, a state is visited after all states that lead to it. So each
//! combination of facts is walked about once. A loop that returns to a position with more time, and without an extend in between,
//! is unbounded.

mod elapsed_time;
mod extend_release;
mod parallel_map;
mod steps;

use crate::check::calls::{Call, Request, StillRunning};
use crate::check::finding::{About, Finding, Step};
use crate::check::handle_flow::HandleFlow;
use crate::check::lease::{Env, Key, Lease, Status, join, key};
use crate::check::outcomes::{Error, Exit, Exits, LeftBy};
use crate::check::rule::Rule;
use crate::read::machine::{Machine, ScopeId, State, StateId, Target};
use crate::read::node::Span;
use crate::read::timing::FOREVER;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The most positions that the walk visits. No definition written by people comes near.
const MOST: usize = 100_000;
/// The number of steps that a finding's path has at most. The last ones are kept.
const LONGEST_PATH: usize = 100;
/// How often a position may return with more time before its time counts as unbounded.
const GROWN: usize = 40;

pub(crate) struct Walker<'m, 'a> {
    pub machine: &'m Machine<'a>,
    pub calls: &'m [Call<'a>],
    pub lost_time: u64,
    pub findings: Vec<Finding>,
    /// The rule, the state, the place, and the lease if there is a finding for each.
    reported: HashSet<(Rule, StateId, Span, Option<StateId>)>,
    /// How many positions the walk has visited.
    pub visited: usize,
    /// Work, extends and releases, in the order of the walk.
    pub lease_uses: Vec<LeaseUse>,
    /// All tasks reached under a held lease, reads and fenced writes too, except calls of Leasehold's functions.
    pub protected: BTreeSet<StateId>,
    /// The acquires of execution leases under which a task without a guard was found.
    pub unguarded: BTreeSet<StateId>,
    /// What may still be running after each failure inside a Parallel or a Map, for a lease around it.
    pub left_by: LeftBy<StateId>,
    /// Leases that the current branch keeps extended for the other branches.
    pub keeping: Vec<StateId>,
    links: Vec<Link>,
    orders: Vec<HashMap<StateId, usize>>,
}

/// A step of the path to a position.
struct Link {
    state: StateId,
    /// How the path left the state before.
    by: Option<By>,
    before: Option<usize>,
    key: Key,
}

/// A task at one position, and its leases there. For work these are the held leases. For an extend or a release these are the
/// granted leases that it is about.
pub(crate) struct LeaseUse {
    pub link: usize,
    pub leases: BTreeSet<StateId>,
}

/// A position still to visit: the leases, the link before it, and how the path left that link's state.
type Waiting = (Env, Option<usize>, Option<By>);

/// A transition out of a state.
pub(crate) struct Edge {
    pub env: Env,
    pub to: To,
    pub by: Option<By>,
}

/// How a transition leaves a state, unless by its Next.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum By {
    /// The nth clause of its Catch.
    Catch(usize),
    /// The nth rule of a Choice.
    Rule(usize),
    Default,
    NoRule,
    /// The response that somebody else holds the key.
    Held,
    Uncaught(Error),
}

impl By {
    /// The words of a path or a message for it, which leaves this state.
    fn words(&self, state: &State<'_>) -> String {
        match self {
            Self::Catch(nth) => {
                let first = state.catch[*nth].errors.first();
                format!("Catch {}", first.map_or("", String::as_str))
            }
            Self::Rule(nth) => format!("Choice {}", nth + 1),
            Self::Default => "Default".to_owned(),
            Self::NoRule => "no rule that matches and no Default".to_owned(),
            Self::Held => "held".to_owned(),
            Self::Uncaught(Error::Named(name)) => format!("uncaught {name}"),
            Self::Uncaught(_) if state.has_scopes() => "uncaught error inside".to_owned(),
            Self::Uncaught(_) => "an uncaught error".to_owned(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum To {
    State(StateId),
    /// Out of the scope: after success, or by an error.
    Out(Option<Error>),
    /// To no state, because the definition is malformed here.
    Nowhere,
}

impl Edge {
    pub(crate) fn new(env: Env, to: To, by: Option<By>) -> Self {
        Self { env, to, by }
    }
}

impl<'m, 'a> Walker<'m, 'a> {
    pub(crate) fn new(machine: &'m Machine<'a>, calls: &'m [Call<'a>], lost_time: u64) -> Self {
        let orders = (0..machine.scopes.len())
            .map(|scope| order(machine, scope))
            .collect();
        Self {
            machine,
            calls,
            lost_time,
            findings: Vec::new(),
            reported: HashSet::new(),
            visited: 0,
            lease_uses: Vec::new(),
            protected: BTreeSet::new(),
            unguarded: BTreeSet::new(),
            left_by: LeftBy::new(),
            keeping: Vec::new(),
            links: Vec::new(),
            orders,
        }
    }

    /// The request of an acquire.
    pub(crate) fn request(&self, acquire: StateId) -> Option<&'m Request<'a>> {
        match &self.calls[acquire] {
            Call::Acquire(request) => Some(request),
            _ => None,
        }
    }

    /// Walks through a scope from `entry`, and returns how it can end.
    pub(crate) fn scope(&mut self, scope: ScopeId, entry: Env, before: Option<usize>) -> Vec<Exit> {
        let Some(start) = self.machine.scopes[scope].start else {
            return Vec::new();
        };
        let mut open: BTreeMap<(usize, StateId, Key), Waiting> = BTreeMap::new();
        let mut done: HashMap<(StateId, Key), (Vec<u64>, usize)> = HashMap::new();
        let mut exits = Exits::default();
        let rank = |state: &StateId| self.orders[scope].get(state).copied().unwrap_or(usize::MAX);
        let first = (rank(&start), start, key(&entry));
        open.insert(first, (entry, before, None));
        while let Some(((_, state, position), (env, before, by))) = open.pop_first() {
            self.visited += 1;
            if self.is_given_up() {
                let link = self.link(state, by, before, position);
                self.report(
                    Rule::TooLarge,
                    state,
                    link,
                    "not checked: too many positions before this state".to_owned(),
                );
                return exits.all;
            }
            let ages = env.iter().map(|lease| lease.age).collect();
            let seen = done.entry((state, position.clone())).or_default();
            *seen = (ages, seen.1 + 1);
            let link = self.link(state, by, before, position);
            for edge in self.step(state, env, link) {
                match edge.to {
                    To::State(next) => {
                        let position = key(&edge.env);
                        let mut env = edge.env;
                        if let Some((ages, times)) = done.get(&(next, position.clone()))
                            && !self.grown(&mut env, ages, *times, next, &position, link)
                        {
                            continue;
                        }
                        let rank = self.orders[scope].get(&next).copied().unwrap_or(usize::MAX);
                        let place = open.entry((rank, next, position));
                        let waiting =
                            place.or_insert_with(|| (env.clone(), Some(link), edge.by.clone()));
                        if join(&mut waiting.0, &env) {
                            (waiting.1, waiting.2) = (Some(link), edge.by);
                        }
                    }
                    To::Out(error) => {
                        self.leave(scope, edge.env, link, error, edge.by.as_ref(), &mut exits);
                    }
                    To::Nowhere => {}
                }
            }
        }
        exits.all
    }

    /// Whether a position returns with more time than before. If a loop without an extend causes that, the time is unbounded.
    fn grown(
        &self,
        env: &mut Env,
        ages: &[u64],
        times: usize,
        state: StateId,
        position: &Key,
        from: usize,
    ) -> bool {
        let mut grown = false;
        for (lease, before) in env.iter_mut().zip(ages) {
            if lease.age <= *before {
                continue;
            }
            grown = true;
            let mut at = Some(from);
            let mut round = times > GROWN;
            while let Some(nth) = at.filter(|nth| *nth > lease.since && !round) {
                let link = &self.links[nth];
                round = link.state == state && link.key == *position;
                at = link.before;
            }
            if round {
                lease.lapse(state);
            }
        }
        grown
    }

    /// Leaves a scope, and reports leases that are held and not released.
    fn leave(
        &mut self,
        scope: ScopeId,
        env: Env,
        link: usize,
        error: Option<Error>,
        by: Option<&By>,
        exits: &mut Exits,
    ) {
        let state = self.links[link].state;
        let is_top = self.machine.scopes[scope].within.is_none();
        for lease in &env {
            // A branch or an item that succeeds may pass its lease on. After a failure nobody has the handle.
            let is_inner =
                !is_top && error.is_some() && self.machine.is_inside(lease.acquire, scope);
            let is_last = is_top || self.machine.failure_ends_execution(scope);
            let forgotten = lease.is_held()
                && lease.left() == StillRunning::No
                && (is_top || is_inner)
                && !(is_last && lease.of_execution);
            if forgotten {
                let left = &self.machine.states[state];
                let how = match by {
                    _ if left.is_end() => "the execution ends here".to_owned(),
                    Some(by) => format!("{} ends the execution here", by.words(left)),
                    None => "the execution ends after this".to_owned(),
                };
                let name = self.machine.states[lease.acquire].name;
                let message = format!("{how}, and the lease of {name} is not released");
                if self
                    .reported
                    .insert((Rule::NoRelease, state, left.at, Some(lease.acquire)))
                {
                    let path = self.path(link, by);
                    let about = About::lease(lease.acquire);
                    self.find(about, Rule::NoRelease, state, left.at, path, message);
                }
            }
        }
        exits.add(Exit { env, link, error });
    }

    fn link(&mut self, state: StateId, by: Option<By>, before: Option<usize>, key: Key) -> usize {
        self.links.push(Link {
            state,
            by,
            before,
            key,
        });
        self.links.len() - 1
    }

    /// Whether the walk has stopped because there are too many positions.
    pub(crate) fn is_given_up(&self) -> bool {
        self.visited > MOST
    }

    /// The state of a link.
    pub(crate) fn state_of(&self, link: usize) -> StateId {
        self.links[link].state
    }

    /// The links on the path to this one, backwards from itself.
    pub(crate) fn way(&self, link: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(link), |&nth| self.links[nth].before)
    }

    /// Whether the path to a link goes through a state, or through a Parallel or Map around it.
    pub(crate) fn passes(&self, link: usize, state: StateId) -> bool {
        self.way(link).any(|nth| {
            let passed = self.links[nth].state;
            let mut inner = self.machine.inner(passed).iter();
            passed == state || inner.any(|&scope| self.machine.is_inside(state, scope))
        })
    }

    /// The facts known of a lease at a link.
    pub(crate) fn known(&self, link: usize, acquire: StateId) -> Option<(Status, &HandleFlow)> {
        let mut known = self.links[link].key.iter();
        let lease = known.find(|lease| lease.0 == acquire)?;
        Some((lease.2, &lease.6))
    }

    /// Records the leases that a task has at this link.
    pub(crate) fn uses_leases<'l>(&mut self, link: usize, leases: impl Iterator<Item = &'l Lease>) {
        let leases = leases.map(|lease| lease.acquire).collect();
        self.lease_uses.push(LeaseUse { link, leases });
    }

    pub(crate) fn report(&mut self, rule: Rule, state: StateId, link: usize, message: String) {
        self.report_about(About::default(), rule, state, link, message);
    }

    pub(crate) fn report_about(
        &mut self,
        about: About,
        rule: Rule,
        state: StateId,
        link: usize,
        message: String,
    ) {
        let at = self.machine.states[state].at;
        self.report_at(about, rule, state, at, link, message);
    }

    pub(crate) fn report_at(
        &mut self,
        about: About,
        rule: Rule,
        state: StateId,
        at: Span,
        link: usize,
        message: String,
    ) {
        if self.reported.insert((rule, state, at, None)) {
            let path = self.path(link, None);
            self.find(about, rule, state, at, path, message);
        }
    }

    fn find(
        &mut self,
        about: About,
        rule: Rule,
        state: StateId,
        at: Span,
        path: Vec<Step>,
        message: String,
    ) {
        let lease = about.lease.map(|acquire| self.machine.states[acquire].name);
        self.findings.push(Finding {
            lease: lease.map(str::to_owned),
            missing: about.missing,
            path,
            ..Finding::of(self.machine, rule, state, at, message)
        });
    }

    /// The path to a link, from the start.
    fn path(&self, link: usize, last: Option<&By>) -> Vec<Step> {
        let mut by = last;
        let mut path = Vec::new();
        let mut way = self.way(link);
        for nth in way.by_ref().take(LONGEST_PATH) {
            let link = &self.links[nth];
            let state = &self.machine.states[link.state];
            path.push(Step {
                state: state.name.to_owned(),
                by: by.map(|by| by.words(state)),
                caught: matches!(by, Some(By::Catch(_))),
            });
            by = link.by.as_ref();
        }
        if let Some(nth) = way.next() {
            let left = &self.machine.states[self.links[nth].state];
            path.push(Step {
                state: "…".to_owned(),
                by: by.map(|by| by.words(left)),
                caught: matches!(by, Some(By::Catch(_))),
            });
        }
        path.reverse();
        path
    }

    /// The latest link. An age that restarts now is younger than all links so far.
    pub(crate) fn now(&self) -> usize {
        self.links.len() - 1
    }

    /// The edge along a state's Next.
    pub(crate) fn onward(&self, state: StateId, env: Env) -> Edge {
        let to = match self.machine.states[state].next {
            Some(Target::To(next)) => To::State(next),
            Some(Target::End) => To::Out(None),
            None => To::Nowhere,
        };
        Edge::new(env, to, None)
    }
}

/// Reverse postorder: apart from loops, every state comes before its successors.
fn order(machine: &Machine<'_>, scope: ScopeId) -> HashMap<StateId, usize> {
    let mut after = Vec::new();
    let mut seen = BTreeSet::new();
    // Without recursion, because a machine may be thousands of states long.
    let mut open: Vec<(StateId, Vec<StateId>)> = Vec::new();
    if let Some(start) = machine.scopes[scope].start {
        seen.insert(start);
        open.push((start, machine.successors(start)));
    }
    while let Some((state, rest)) = open.last_mut() {
        match rest.pop() {
            Some(next) if seen.insert(next) => open.push((next, machine.successors(next))),
            Some(_) => {}
            None => {
                after.push(*state);
                open.pop();
            }
        }
    }
    after
        .iter()
        .rev()
        .enumerate()
        .map(|(rank, &state)| (state, rank))
        .collect()
}

/// Whether an age is unbounded.
pub(crate) fn is_unbounded(age: u64) -> bool {
    age >= FOREVER
}
