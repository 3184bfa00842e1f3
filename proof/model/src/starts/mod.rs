//! Starts that wait for a key: every order of events in small worlds. The product does not have them yet. What changes a row
//! is the library's transition; what the library has no words for yet, items of starts and what is decided about them, is in
//! `design.rs`, in pure functions that it may take over.

mod calls;
mod design;
mod flaws;
mod invariants;
mod render;
mod rows;
mod scope;
mod service;
mod world;

pub use flaws::{Broken, FLAWS};
pub use invariants::Invariant;
pub use scope::{ALL, Scope};

use crate::explore::{Explored, Words, explored};
use world::World;

/// Every state of `scope`; or, in a design with a flaw, until the invariant is broken.
pub fn explore(scope: Scope, broken: Option<&Broken>, most: Option<usize>) -> Explored {
    let world = World::new(scope, broken.map(|(flaw, ..)| *flaw));
    let until = broken.map(|(_, _, invariant, _)| invariant.words());
    let words = Words {
        step: render::step,
        counts: |world: &World| (world.rows.count(), world.settled.len() as u64, 0),
    };
    explored(world, until, most, &words)
}
