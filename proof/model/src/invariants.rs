//! States that must never occur; and each invariant as a property for the checker.

use stateright::Property;

use crate::{
    lists::properties,
    message::{Message, Operation},
    names::STRANGER,
    oracle::Invariant,
    rows::FOREIGN,
    scope::Clocks,
    sweeper,
    world::{State, World},
};

/// Looks at a state as it has just come about.
pub fn look(world: &World, state: &mut State) {
    if world.is_exclusive() {
        let believers = state
            .clients
            .iter()
            .filter_map(|client| client.believes_held(&world.scope, state.now));
        let alone = believers.count() <= 1;
        state.oracle.must(alone, Invariant::S8);
    }
    if world.scope.strangers {
        state.oracle.must(state.row == FOREIGN, Invariant::S10);
    }
    if world.scope.clocks != Clocks::Unasked {
        ends(world, state);
    }
}

/// A crashed holder's key becomes free in time.
fn ends(world: &World, state: &mut State) {
    let scope = &world.scope;
    let facts = world.rows.facts(state.row);
    let Some(held) = facts.held else { return };
    // No deadline lies further ahead than a ttl, by the clock that is furthest ahead.
    let in_time = held.until <= state.now + scope.error + scope.ttl;
    state.oracle.must(in_time, Invariant::L1);
    // Even the clock that is furthest behind shows it as expired.
    let now = state.now - scope.error;
    if held.until + scope.margin > now {
        return;
    }
    let by = |from, what| {
        let message = Message {
            from,
            call: 1,
            sent: now,
            what,
            floor: world.floor(state, facts.token),
        };
        world.rows.apply(state.row, message).applied
    };
    let taken = by(STRANGER, Operation::Grant(0, None));
    let swept = match sweeper::next(world, facts, now) {
        Some(what) => by(STRANGER, what),
        None => false,
    };
    state
        .oracle
        .must(taken && (swept || !scope.sweep), Invariant::L1);
}

pub fn properties() -> Vec<Property<World>> {
    properties!(World, oracle: S1 S2 S3 S4 S5 S6 S7 S8 S9 S10 L1 L2)
}
