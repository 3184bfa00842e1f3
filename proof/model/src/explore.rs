//! Goes through every state of a world.

use std::{collections::BTreeSet, num::NonZeroUsize};

use stateright::{Checker, HasDiscoveries, Model};

use crate::{
    design::Design,
    oracle::Invariant,
    scope::Scope,
    world::{Action, State, World},
};

/// The result.
pub struct Explored {
    pub states: usize,
    /// Whether some states were left out.
    pub cut_off: bool,
    pub depth: usize,
    /// How many rows there were, and how often a message changed one or was refused by one.
    pub rows: (usize, u64, u64),
    /// Which invariant was broken, and the shortest trace found.
    pub broken: Vec<(&'static str, Vec<String>)>,
}

/// Every state of `scope` in `design`; or, of a broken design, until `until` is broken.
pub fn explore(
    scope: Scope,
    design: Design,
    until: Option<Invariant>,
    most: Option<usize>,
) -> Explored {
    let world = World::new(scope, design);
    let stop = match until {
        Some(invariant) => HasDiscoveries::AllOf(BTreeSet::from([name_of(invariant)])),
        None => HasDiscoveries::AnyFailures,
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let mut checker = world.checker().threads(threads).finish_when(stop);
    if let Some(most) = most {
        checker = checker.target_state_count(most);
    }
    let checker = checker.spawn_bfs().join();
    let world = checker.model();
    let broken = checker.discoveries().into_iter().map(|(name, path)| {
        let steps = path.into_vec();
        (name, rendered(world, &steps))
    });
    Explored {
        states: checker.unique_state_count(),
        cut_off: most.is_some_and(|most| checker.state_count() >= most),
        depth: checker.max_depth(),
        rows: world.rows.counts(),
        broken: broken.collect(),
    }
}

pub fn name_of(invariant: Invariant) -> &'static str {
    let all = Invariant::ALL.into_iter();
    all.filter(|(is, _)| *is == invariant)
        .map(|(_, name)| name)
        .next()
        .unwrap_or("")
}

/// A way through a world, a line each step.
fn rendered(world: &World, steps: &[(State, Option<Action>)]) -> Vec<String> {
    let after = steps.iter().skip(1).map(|(state, _)| state);
    let taken = steps.iter().filter_map(|(_, action)| action.as_ref());
    taken
        .zip(after)
        .map(|(action, state)| crate::render::step(world, action, state))
        .collect()
}
