//! Executions, their leases and their queue: every order of events in small worlds. What the library's functions do is not
//! written again here: they run, one request to the table or to Step Functions at a time.

mod actions;
mod effects;
mod flaws;
mod invariants;
mod library;
mod names;
mod pools;
mod render;
mod results;
mod scope;
mod seam;
mod service;
mod state;
mod world;

pub use flaws::{Broken, FLAWS};
pub use invariants::Invariant;
pub use scope::{ALL, POOLED, RESULTS, STARTED, Scope};

use crate::explore::{Explored, Words, explored};
use world::World;

/// Every state of `scope`; or, in a design with a flaw, until the invariant is broken.
pub fn explore(scope: Scope, broken: Option<&Broken>, most: Option<usize>) -> Explored {
    let world = World::new(scope, broken.map(|(flaw, ..)| *flaw));
    let until = broken.map(|(_, _, invariant, _)| invariant.words());
    let words = Words {
        step: render::step,
        counts: |world: &World| world.library.counts(),
    };
    explored(world, until, most, &words)
}
