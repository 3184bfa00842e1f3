//! Walks at random through worlds that are too large to be gone through; a walk that breaks a promise is made as short as possible.

use std::{
    num::NonZeroUsize,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use fastrand::Rng;
use stateright::Model as _;

use crate::{
    actions::{Action, Fate},
    flaws::Flaw,
    invariants::{self, Invariant},
    library::Call,
    render,
    scope::Scope,
    state::State,
    world::World,
};

/// A step by what it is, and not by the number of a node, so that it can be taken after other steps as well.
#[derive(Clone, Copy)]
enum Move {
    Call(Call, Fate),
    Other(Action),
}

/// What broke a promise.
pub struct Found {
    pub seed: u64,
    pub promise: Invariant,
    /// How long the walk was, before and after it was made shorter.
    pub long: usize,
    pub short: usize,
    pub steps: Vec<String>,
}

impl Found {
    pub fn told(&self) -> Vec<String> {
        let Self {
            seed, long, short, ..
        } = self;
        let promise = self.promise.words();
        let what = format!("VIOLATED: {promise}: seed {seed}, {short} of {long} steps");
        let steps = self.steps.iter().map(|step| format!("    {step}"));
        [what].into_iter().chain(steps).collect()
    }
}

/// Does something with each world, with all processors.
pub fn side_by_side(worlds: &[Scope], each: impl Fn(Scope) + Sync) {
    let next = AtomicUsize::new(0);
    let all = || {
        while let Some(world) = worlds.get(next.fetch_add(1, Relaxed)) {
            each(*world);
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        for _ in 0..threads {
            scope.spawn(all);
        }
    });
}

/// Walks through a world, each from a seed; up to the first that breaks `until`, or any promise if none is named. With how many steps
/// were taken.
pub fn walk(
    scope: Scope,
    flaw: Option<Flaw>,
    seeds: std::ops::Range<u64>,
    until: Option<Invariant>,
) -> (usize, Option<Found>) {
    let mut taken = 0;
    for seed in seeds {
        // A walk goes by what its own library has numbered, so that its seed takes it again.
        let mut world = World::new(scope, flaw, true);
        let mut moves = Vec::new();
        let broken = one(&world, seed, &mut moves);
        taken += moves.len();
        if let Some(promise) = broken.filter(|it| until.is_none_or(|until| until == *it)) {
            let long = moves.len();
            let first = beginning(&world, seed);
            let moves = shortened(&world, first, moves, promise);
            world.told = Some(Mutex::default());
            let steps = told(&world, first, &moves);
            let found = Found {
                seed,
                promise,
                long,
                short: moves.len(),
                steps,
            };
            return (taken, Some(found));
        }
    }
    (taken, None)
}

/// With which clocks the walk of this seed begins.
fn beginning(world: &World, seed: u64) -> usize {
    let all = world.init_states().len() as u64;
    usize::try_from(seed % all).expect("few")
}

/// How many steps a walk has at most.
const LONG: usize = 400;

fn broken(state: &State) -> Option<Invariant> {
    let mut all = Invariant::ALL.iter();
    all.find(|promise| state.seen.has(**promise)).copied()
}

/// What would be broken, if nothing went wrong from here on.
fn broken_ahead(world: &World, state: &State) -> Option<Invariant> {
    let mut ahead = state.clone();
    world.finish(&mut ahead);
    invariants::looks_ahead(world, &mut ahead);
    broken(&ahead)
}

fn one(world: &World, seed: u64, moves: &mut Vec<Move>) -> Option<Invariant> {
    let mut rng = Rng::with_seed(seed);
    let mut state = world.init_states().swap_remove(beginning(world, seed));
    let mut actions = Vec::new();
    for _ in 0..LONG {
        actions.clear();
        world.may_happen(&state, &mut actions);
        let next = loop {
            if actions.is_empty() {
                return broken_ahead(world, &state);
            }
            let action = actions.swap_remove(drawn(&actions, &mut rng));
            let is = as_move(world, &action);
            if let Some(next) = world.next_state(&state, action) {
                moves.push(is);
                break next;
            }
        };
        if let Some(promise) = broken(&next) {
            return Some(promise);
        }
        state = next;
        if rng.u8(..) == 0
            && let Some(promise) = broken_ahead(world, &state)
        {
            return Some(promise);
        }
    }
    broken_ahead(world, &state)
}

/// Which of them comes next. What ends or closes something comes more rarely than what goes on, or a walk is over before anybody has met
/// anybody; and so does a tick, since few functions live for more than one.
fn drawn(actions: &[Action], rng: &mut Rng) -> usize {
    loop {
        let at = rng.usize(..actions.len());
        let one_in = match actions[at] {
            Action::Tick
            | Action::Freezes(_, true)
            | Action::Limits(_, true)
            | Action::Evicts(_)
            | Action::Restores
            | Action::Wipes => 8,
            Action::GivesUp(_)
            | Action::CarriesOn(_)
            | Action::Succeeds(_)
            | Action::Fails(..)
            | Action::TimesOut(_)
            | Action::Step(_, Fate::Dies) => 4,
            _ => 1,
        };
        if rng.u8(..one_in) == 0 {
            return at;
        }
    }
}

fn as_move(world: &World, action: &Action) -> Move {
    match action {
        Action::Step(node, fate) => Move::Call(world.library.call(*node), *fate),
        other => Move::Other(*other),
    }
}

/// The action that this is in a state, if it may happen there.
fn in_state(world: &World, state: &State, it: Move) -> Option<Action> {
    let action = match it {
        Move::Other(action) => action,
        Move::Call(call, fate) => {
            let mut nodes = state.calls.iter();
            let node = nodes.find(|node| world.library.call(**node) == call)?;
            Action::Step(*node, fate)
        }
    };
    let mut may = Vec::new();
    world.may_happen(state, &mut may);
    may.contains(&action).then_some(action)
}

/// The states that these moves lead to, each with the action, up to the first that breaks a promise; a move that cannot be is left out.
fn played(world: &World, first: usize, moves: &[Move]) -> Vec<(Move, Action, State)> {
    let mut state = world.init_states().swap_remove(first);
    let mut all = Vec::new();
    for it in moves {
        let Some(action) = in_state(world, &state, *it) else {
            continue;
        };
        if let Some(next) = world.next_state(&state, action) {
            let is_last = broken(&next).is_some();
            all.push((*it, action, next.clone()));
            state = next;
            if is_last {
                break;
            }
        }
    }
    all
}

fn shortened(world: &World, first: usize, mut moves: Vec<Move>, promise: Invariant) -> Vec<Move> {
    let mut length = moves.len() / 2;
    while length > 0 {
        let mut at = 0;
        while at < moves.len() {
            let end = (at + length).min(moves.len());
            let rest = [&moves[..at], &moves[end..]].concat();
            let played = played(world, first, &rest);
            let last = played.last().map(|(.., state)| state);
            let breaks = |state| broken(state).or_else(|| broken_ahead(world, state));
            if last.and_then(breaks) == Some(promise) {
                moves = played.into_iter().map(|(it, ..)| it).collect();
            } else {
                at += length;
            }
        }
        length /= 2;
    }
    moves
}

fn told(world: &World, first: usize, moves: &[Move]) -> Vec<String> {
    let played = played(world, first, moves);
    let steps = played.iter();
    let steps = steps.map(|(_, action, state)| render::step(world, action, state));
    let mut steps: Vec<_> = steps.collect();
    let last = played.last().map(|(.., state)| state);
    if let Some(state) = last.filter(|state| broken(state).is_none()) {
        steps.push("from here on nothing goes wrong, and sweeps run:".to_owned());
        world.ahead.clear();
        world.freed.clear();
        let _ = broken_ahead(world, state);
        let ahead = world
            .told
            .as_ref()
            .map(|told| told.lock().expect("no panic").clone());
        steps.extend(ahead.into_iter().flatten());
    }
    steps
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Mutex};

    use super::{Found, beginning, one, played, side_by_side, walk};
    use crate::{flaws::Flaw, invariants::Invariant, render, scope, world::World};

    /// How many walks are taken through each world.
    const WALKS: u64 = 200;

    #[test]
    fn walks_keep_every_promise() {
        let broken = Mutex::new(Vec::new());
        let worlds: Vec<_> = scope::walked().collect();
        side_by_side(&worlds, |world| {
            if let (_, Some(found)) = walk(world, None, 0..WALKS, None) {
                let told = found.told().join("\n");
                broken
                    .lock()
                    .expect("no panic")
                    .push(format!("{}: {told}", world.name));
            }
        });
        let broken = broken.into_inner().expect("no panic");
        assert!(broken.is_empty(), "{}", broken.join("\n"));
    }

    /// Walks on which little happens find little.
    #[test]
    fn walks_meet_all_that_may_happen() {
        let seen = Mutex::new(BTreeMap::<&str, u64>::new());
        let worlds: Vec<_> = scope::walked().collect();
        side_by_side(&worlds, |scope| {
            for seed in 0..WALKS / 4 {
                let world = World::new(scope, None, true);
                let mut moves = Vec::new();
                one(&world, seed, &mut moves);
                for (_, action, state) in played(&world, beginning(&world, seed), &moves) {
                    let step = render::step(&world, &action, &state);
                    let happens = ALL.iter().filter(|what| step.contains(**what));
                    let mut seen = seen.lock().expect("no panic");
                    happens.for_each(|what| *seen.entry(what).or_default() += 1);
                }
            }
        });
        let seen = seen.into_inner().expect("no panic");
        println!("{seen:?}");
        let never: Vec<_> = ALL
            .iter()
            .filter(|what| !seen.contains_key(**what))
            .collect();
        assert!(never.is_empty(), "never: {never:?}");
    }

    /// In the words in which a step is described.
    const ALL: &[&str] = &[
        ", which is late",
        ", answer lost",
        ", and sends it again",
        ", and dies before that",
        ", by an answer of before",
        ", which is refused",
        "what was late arrives",
        "asks again, with another token",
        "asks anew",
        "task times out",
        "carries on without",
        "gives up",
        "has a section of the same key",
        "its Lambda function goes on",
        "Lambda function is done",
        "succeeds without a release",
        "is redriven",
        "reap begins",
        "begins to force a release",
        "begins to set the limit to 0",
        "begins to remove the limit",
        "begins to freeze",
        "begins to unfreeze",
        "an operator repeats",
        "an operator dismisses",
        "an operator lets",
        "item is purged",
        "a write reaches the resource",
        "will look at the task later",
        "caller is stopped",
        " extends",
        "writes to the resource",
        "'s clock jumps",
        "the sweep's clock jumps",
        "the table is restored",
        "the index catches up",
        "event comes again",
        "with another input",
        "runs again arrives",
        ": Grant",
        ": Release",
        ": Prove",
        ": Extend",
        ": Look",
        ": EndIfUnchanged",
        ": ShortenDeadline",
        ": joins",
        ": Leave",
        ": grants to the head",
        ": grants a permit to the head",
        ": takes back",
        ": marks a notification",
        ": notes a refusal",
        ": stores token",
        ": deletes the item",
        ": supersedes",
        ", which joins",
        ", which has the key",
        ": settles",
        ": stores the task",
        ": deletes the task",
        ": writes a note",
        ": deletes the note",
        ": stops",
    ];

    /// It is as short as can be, breaks the same promise, and the seed takes it again.
    #[test]
    fn a_walk_that_fails_is_made_short() {
        let finds = |seeds| {
            let flaw = Some(Flaw::ReleasesHaveNoCondition);
            let (_, found) = walk(scope::W_TOKENS, flaw, seeds, Some(Invariant::S4));
            found
        };
        let Found {
            seed,
            long,
            short,
            steps,
            ..
        } = finds(0..5_000).expect("a walk that fails");
        assert!(short < long, "{short} steps of {long}");
        assert!(steps.iter().any(|step| step.contains("release: Release")));
        let again = finds(seed..seed + 1).expect("the same walk");
        assert_eq!((again.long, again.steps), (long, steps));
    }
}
