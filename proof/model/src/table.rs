//! What arrives, and what that does.

use crate::{
    design::Flaw,
    message::{Message, Operation},
    names::{Count, SWEEPER},
    oracle::Invariant,
    rows::{ABSENT, Reply, RowView},
    world::{Phase, State, World},
};

/// A message arrives.
pub fn takes(world: &World, state: &mut State, message: Message) {
    if let Operation::ResourceWrite(token) = message.what {
        writes(world, state, token);
        return;
    }
    let row = state.row;
    let done = world.rows.apply(row, message);
    if done.applied {
        let before = (row, world.rows.facts(row));
        let after = world.rows.facts(done.after);
        state.oracle.saw(&world.scope, &message, before, after);
        if let Operation::Cut(_) = message.what {
            nobody_else_is_cut(state, before.1);
        }
        state.row = done.after;
        state.took_effect(message);
        if world.scope.purge {
            state.oracle.at = state.now;
        }
    }
    let reply = Reply {
        row: done.after,
        applied: done.applied,
    };
    // A copy that finds what its own call has written has to know it for its own.
    let asks = matches!(
        message.what,
        Operation::Grant(..) | Operation::Extend(..) | Operation::Release(..)
    );
    if asks && message.from != SWEEPER && !done.applied && state.oracle.wrote_last(&message) {
        let settled = world.rows.reading(message, reply).settles();
        state.oracle.must(settled, Invariant::L2);
    }
    let process = state.process(message.from);
    if process.call == Some(message)
        && let Err(place) = process.replies.binary_search(&reply)
    {
        process.replies.insert(place, reply);
    }
}

/// The one write that may shorten a lease is for those whose execution has ended, who have to prove theirs before they
/// go on, or who no longer work.
fn nobody_else_is_cut(state: &mut State, before: RowView) {
    let holder = state.clients.get(usize::from(before.holder));
    let works = holder.is_some_and(|client| matches!(client.phase, Phase::Holding(_)));
    state.oracle.must(!works, Invariant::S5);
}

/// The resource takes a write that carries a token, if that is not older than the last.
fn writes(world: &World, state: &mut State, token: Count) {
    if token >= state.fence || world.design.is(Flaw::TheResourceIgnoresTheToken) {
        state.oracle.must(token >= state.fence, Invariant::S3);
        state.fence = token;
    }
}

/// The row is deleted. Nothing that was sent before is on its way any more: a row is purged days after its
/// last grant was over, and calls last for seconds.
pub fn purged(state: &mut State) {
    state.row = ABSENT;
    cleared(state);
    state.oracle.gone();
}

fn cleared(state: &mut State) {
    state
        .in_flight
        .retain(|(message, _)| matches!(message.what, Operation::ResourceWrite(_)));
    let clients = state.clients.iter_mut().map(|client| &mut client.process);
    for process in clients.chain([&mut state.sweeper]) {
        process.call = None;
        process.replies.clear();
    }
    state.reaping = None;
}

/// The table is as it was. Nothing that was sent to the other one is on its way any more, and nobody believes
/// in a lease of it: an operator who restores a table stops all work first.
pub fn restored(state: &mut State) -> Option<()> {
    let (row, seen) = *state.backup.take()?;
    cleared(state);
    state.row = row;
    state.oracle.is_set_back(&seen);
    Some(())
}
