//! Goes through every state of a world.

use std::{collections::BTreeSet, hash::Hash, num::NonZeroUsize};

use stateright::{Checker, HasDiscoveries, Model};

use crate::{design::Design, oracle::Invariant, scope::Scope, world::World};

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
    let words = Words {
        step: crate::render::step,
        counts: |world: &World| world.rows.counts(),
    };
    explored(
        World::new(scope, design),
        until.map(Invariant::words),
        most,
        &words,
    )
}

/// What there is to say of a world.
pub struct Words<M: Model> {
    pub step: fn(&M, &M::Action, &M::State) -> String,
    pub counts: fn(&M) -> (usize, u64, u64),
}

/// Every state of a world; or until a property is broken.
pub fn explored<M>(
    world: M,
    until: Option<&'static str>,
    most: Option<usize>,
    words: &Words<M>,
) -> Explored
where
    M: Model + Send + Sync + 'static,
    M::State: Hash + Send + Sync + Clone + PartialEq + 'static,
    M::Action: Clone + PartialEq,
{
    let stop = match until {
        Some(name) => HasDiscoveries::AllOf(BTreeSet::from([name])),
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
            .map(|(action, state)| (words.step)(world, action, state));
        (name, rendered.collect())
    });
    Explored {
        states: checker.unique_state_count(),
        cut_off: most.is_some_and(|most| checker.state_count() >= most),
        depth: checker.max_depth(),
        rows: (words.counts)(world),
        broken: broken.collect(),
    }
}
