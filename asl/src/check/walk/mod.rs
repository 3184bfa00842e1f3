//! The walk: every abstract execution of a scope.
//!
//! A position is a state with what is known of each lease. Where two executions meet at one state and differ in time alone, the
//! longer time goes on; states are taken in an order in which, loops aside, all that can lead to a state comes before it, so that
//! a definition is gone through about once for each combination of what its leases are. A loop that comes back to a position with
//! more time, and without an extend in between, has no bound.

mod elapsed_time;
mod extend_release;
mod parallel_map;
mod steps;

use crate::check::calls::{Call, Left, Request};
use crate::check::finding::{Finding, Step};
use crate::check::handle_flow::HandleFlow;
use crate::check::lease::{Env, Key, Lease, Status, join, key};
use crate::check::outcomes::{Error, Exit, Exits};
use crate::check::rule::Rule;
use crate::read::machine::{Kind, Machine, Next, ScopeId, StateId};
use crate::read::node::Span;
use crate::read::timing::FOREVER;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// More positions than this are not gone through: no definition that people write comes near.
const MOST: usize = 100_000;
/// So many steps of the way to a finding are told, the last ones.
const LONGEST_PATH: usize = 100;
/// So often a position may come back with more time before it counts as unbounded.
const GROWN: usize = 40;

pub(crate) struct Walker<'m, 'a> {
    pub machine: &'m Machine<'a>,
    pub calls: &'m [Call<'a>],
    pub lost_time: u64,
    pub findings: Vec<Finding>,
    reported: HashSet<(Rule, StateId, Span)>,
    /// How many positions were gone through.
    pub visited: usize,
    pub reached: BTreeSet<StateId>,
    /// Work, extends and releases, in the order in which they were come to.
    pub lease_uses: Vec<LeaseUse>,
    /// Everything else than our calls that was reached under a lease that was held: reads and guarded writes, too.
    pub protected: BTreeSet<StateId>,
    /// Leases that the branch under way keeps for the branches beside it.
    pub keeping: Vec<StateId>,
    links: Vec<Link>,
    orders: Vec<HashMap<StateId, usize>>,
}

/// A step of the way to a position.
struct Link {
    state: StateId,
    /// How the state before was left.
    by: Option<String>,
    before: Option<usize>,
    key: Key,
}

/// A task at one position, and the leases that it has there: work those that are held, an extend or a release those that it is
/// about and that were granted.
pub(crate) struct LeaseUse {
    pub link: usize,
    pub leases: BTreeSet<StateId>,
}

/// What is to be gone through from: what is known, after which link, and how that was left.
type Waiting = (Env, Option<usize>, Option<String>);

/// Where a state leads.
pub(crate) struct Edge {
    pub env: Env,
    pub to: To,
    pub by: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum To {
    State(StateId),
    Done,
    Failed(Error),
    /// Nowhere: the definition is malformed here.
    Nowhere,
}

impl Edge {
    pub(crate) fn new(env: Env, to: To, by: Option<String>) -> Self {
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
            reached: BTreeSet::new(),
            lease_uses: Vec::new(),
            protected: BTreeSet::new(),
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

    /// Goes through a scope, from `entry`, and tells how it can end.
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
                    "not gone through: too many positions before this".to_owned(),
                );
                return exits.all;
            }
            self.reached.insert(state);
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
                    To::Done => {
                        self.leave(scope, edge.env, link, None, edge.by.as_deref(), &mut exits);
                    }
                    To::Failed(error) => {
                        self.leave(
                            scope,
                            edge.env,
                            link,
                            Some(error),
                            edge.by.as_deref(),
                            &mut exits,
                        );
                    }
                    To::Nowhere => {}
                }
            }
        }
        exits.all
    }

    /// Whether a position comes back later than before. If that is by a loop without an extend, it has no bound.
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

    /// Out of a scope: what is still held must not be forgotten.
    fn leave(
        &mut self,
        scope: ScopeId,
        env: Env,
        link: usize,
        error: Option<Error>,
        by: Option<&str>,
        exits: &mut Exits,
    ) {
        let state = self.links[link].state;
        let is_top = self.machine.scopes[scope].within.is_none();
        for lease in &env {
            // Success of a branch or an item may hand its lease on; after its failure nobody has the handle.
            let is_inner =
                !is_top && error.is_some() && self.machine.is_inside(lease.acquire, scope);
            let forgotten = lease.is_held() && lease.left == Left::Over && (is_top || is_inner);
            if forgotten {
                let kind = &self.machine.states[state].kind;
                let how = match (by, kind) {
                    (_, Kind::Succeed | Kind::Fail) => "the execution ends here".to_owned(),
                    (Some(by), _) => format!("{by} ends the execution here"),
                    (None, _) => "the execution ends after this".to_owned(),
                };
                let name = self.machine.states[lease.acquire].name;
                let message = format!("{how}, and the lease of {name} is not released");
                let at = self.machine.states[state].at;
                let way = Some((link, by));
                self.report_at(Rule::NoRelease, state, at, way, message);
            }
        }
        exits.add(Exit { env, link, error });
    }

    fn link(
        &mut self,
        state: StateId,
        by: Option<String>,
        before: Option<usize>,
        key: Key,
    ) -> usize {
        self.links.push(Link {
            state,
            by,
            before,
            key,
        });
        self.links.len() - 1
    }

    /// Whether there is too much to go through.
    pub(crate) fn is_given_up(&self) -> bool {
        self.visited > MOST
    }

    /// The state that a link stands for.
    pub(crate) fn state_of(&self, link: usize) -> StateId {
        self.links[link].state
    }

    /// The links on the way to one, itself first.
    pub(crate) fn way(&self, link: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(link), |&nth| self.links[nth].before)
    }

    /// Whether the way to a link goes through a state, or through what that is inside of.
    pub(crate) fn passes(&self, link: usize, state: StateId) -> bool {
        self.way(link).any(|nth| {
            let passed = self.links[nth].state;
            let mut inner = self.machine.inner(passed).iter();
            passed == state || inner.any(|&scope| self.machine.is_inside(state, scope))
        })
    }

    /// What is known of a lease at a link.
    pub(crate) fn known(&self, link: usize, acquire: StateId) -> Option<(Status, &HandleFlow)> {
        let mut known = self.links[link].key.iter();
        let lease = known.find(|lease| lease.0 == acquire)?;
        Some((lease.2, &lease.5))
    }

    /// A task was come to, and has these leases.
    pub(crate) fn uses_leases<'l>(&mut self, link: usize, leases: impl Iterator<Item = &'l Lease>) {
        let leases = leases.map(|lease| lease.acquire).collect();
        self.lease_uses.push(LeaseUse { link, leases });
    }

    pub(crate) fn report(&mut self, rule: Rule, state: StateId, link: usize, message: String) {
        let at = self.machine.states[state].at;
        self.report_at(rule, state, at, Some((link, None)), message);
    }

    pub(crate) fn report_at(
        &mut self,
        rule: Rule,
        state: StateId,
        at: Span,
        way: Option<(usize, Option<&str>)>,
        message: String,
    ) {
        if !self.reported.insert((rule, state, at)) {
            return;
        }
        let path = way.map_or_else(Vec::new, |(link, by)| self.path(link, by));
        self.findings.push(Finding {
            rule,
            state: self.machine.path_of(state),
            message,
            path,
            at,
        });
    }

    /// The way to a link, from the start.
    fn path(&self, link: usize, last: Option<&str>) -> Vec<Step> {
        let mut by = last.map(str::to_owned);
        let mut path = Vec::new();
        let mut way = self.way(link);
        for nth in way.by_ref().take(LONGEST_PATH) {
            let link = &self.links[nth];
            path.push(Step {
                state: self.machine.states[link.state].name.to_owned(),
                by: by.take(),
            });
            by.clone_from(&link.by);
        }
        if way.next().is_some() {
            let state = "…".to_owned();
            path.push(Step { state, by });
        }
        path.reverse();
        path
    }

    /// How many links there are: ages that begin anew now are younger than all of these.
    pub(crate) fn now(&self) -> usize {
        self.links.len() - 1
    }

    /// The edge along a state's Next.
    pub(crate) fn onward(&self, state: StateId, env: Env) -> Edge {
        let to = match self.machine.states[state].next {
            Next::To(next) => To::State(next),
            Next::End => To::Done,
            Next::Nowhere => To::Nowhere,
        };
        Edge::new(env, to, None)
    }
}

/// Reverse postorder: loops aside, everything before what it leads to.
fn order(machine: &Machine<'_>, scope: ScopeId) -> HashMap<StateId, usize> {
    let mut after = Vec::new();
    let mut seen = BTreeSet::new();
    // By hand, since a machine may be thousands of states long.
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

/// Whether an age has no bound.
pub(crate) fn is_unbounded(age: u64) -> bool {
    age >= FOREVER
}
