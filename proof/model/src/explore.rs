//! Goes through every state of a world.

use std::{collections::BTreeSet, num::NonZeroUsize};

use stateright::{Checker, HasDiscoveries, Model};

use crate::{flaws::Broken, render, scope::Scope, world::World};

/// The result.
pub struct Explored {
    pub states: usize,
    /// Whether some states were left out.
    pub cut_off: bool,
    pub depth: usize,
    /// How many tables there were, steps of the library's functions, and effects.
    pub counts: (usize, u64, u64),
    /// Which invariant was broken, and the shortest trace found.
    pub broken: Vec<(&'static str, Vec<String>)>,
}

/// Every state of `scope`; or, in a design with a flaw, until the invariant is broken.
pub fn explore(scope: Scope, broken: Option<&Broken>, most: Option<usize>) -> Explored {
    let world = World::new(scope, broken.map(|(flaw, ..)| *flaw), false);
    let stop = match broken {
        Some((_, _, invariant, _)) => HasDiscoveries::AllOf(BTreeSet::from([invariant.words()])),
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
        let after = steps.iter().skip(1).map(|(state, _)| state);
        let taken = steps.iter().filter_map(|(_, action)| action.as_ref());
        let rendered = taken
            .zip(after)
            .map(|(action, state)| render::step(world, action, state));
        (name, rendered.collect())
    });
    Explored {
        states: checker.unique_state_count(),
        cut_off: most.is_some_and(|most| checker.state_count() >= most),
        depth: checker.max_depth(),
        counts: world.library.counts(),
        broken: broken.collect(),
    }
}
