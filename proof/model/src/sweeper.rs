//! Sweep and reap: hygiene, which must do no harm.

use crate::{
    clients,
    design::Flaw,
    message::{Ended, Operation},
    names::{SWEEPER, Tick, Who},
    rows::RowView,
    world::{Action, End, Reaping, State, World},
};

/// The next possible steps of the process that sweeps and reaps.
pub fn actions(world: &World, state: &State, actions: &mut Vec<Action>) {
    let scope = &world.scope;
    let facts = world.rows.facts(state.row);
    let now = World::clock(state, &state.sweeper);
    if scope.sweep && next(world, facts, now).is_some() {
        actions.push(Action::Sweeps);
    }
    if scope.branches && state.reaping.is_none() {
        for (who, client) in state.whos() {
            let holds = facts.held.is_some() && facts.holder == who;
            // An event may come late, and of a redrive nobody tells.
            if holds && (client.ended.is_some() || client.redriven) {
                actions.push(Action::Reaps(who));
            }
        }
    }
    if let Some(reaping) = state.reaping {
        let asked = reaping.end.is_some();
        let now = ends(state, reaping.of).filter(|_| !asked);
        actions.extend(reaping.end.into_iter().chain(now).map(Action::ReapWrites));
    }
    if state.backup.is_some() && !anybody_believes(world, state) {
        actions.push(Action::Restored);
    }
    if scope.sweep && scope.jumps > state.jumps {
        let errors = [-scope.error, 0, scope.error].into_iter();
        let others = errors.filter(|error| *error != state.sweeper.error);
        actions.extend(others.map(|error| Action::Jump(SWEEPER, error)));
    }
    if scope.purge && may_be_purged(world, state, facts) {
        actions.push(Action::Purge);
    }
    clients::response_actions(state, SWEEPER, actions);
}

/// What a sweep would write, by what it reads.
pub fn next(world: &World, facts: RowView, now: Tick) -> Option<Operation> {
    let held = facts.held?;
    let expired = held.until + world.scope.margin <= now && !world.design.is(Flaw::NobodySweeps);
    expired.then_some(Operation::End(facts.version, held.lease, Ended::Expired))
}

pub fn sweeps(world: &World, state: &mut State) -> Option<()> {
    let facts = world.rows.facts(state.row);
    let what = next(world, facts, World::clock(state, &state.sweeper))?;
    world.send(state, SWEEPER, what).map(drop)
}

/// Sets out to see to what an execution left: reads what it holds, before anybody is asked what it does.
pub fn reaps(world: &World, state: &mut State, of: Who) {
    let end = ends(state, of).next();
    state.reaping = Some(Reaping {
        of,
        row: state.row,
        end: end.filter(|_| world.design.is(Flaw::ReapLooksUpBeforeItReads)),
    });
}

/// How Step Functions may say that an execution ended. What it says of one that was redriven may be old.
fn ends(state: &State, who: Who) -> impl Iterator<Item = End> {
    let client = &state.clients[usize::from(who)];
    let before = client.before.map(|(end, _)| end);
    client.ended.into_iter().chain(before)
}

/// Writes, by what it has read and the answers since.
pub fn reap_writes(world: &World, state: &mut State, end: End) -> Option<()> {
    let Reaping { of: who, row, .. } = state.reaping.take()?;
    let row = if world.design.is(Flaw::ReapLooksUpBeforeItReads) {
        state.row
    } else {
        row
    };
    let facts = world.rows.facts(row);
    let now = World::clock(state, &state.sweeper);
    let what = match facts.held.filter(|_| facts.holder == who) {
        Some(held) if world.design.spares(&world.scope, held, end, now) => return None,
        Some(held) if !world.design.may_be_freed(end) => {
            let cut = held.until > now + world.scope.grace;
            cut.then_some(Operation::Cut(facts.version))?
        }
        Some(held) if world.design.is(Flaw::ReapLooksUpBeforeItReads) => {
            Operation::Release(held.lease, facts.token)
        }
        Some(held) => Operation::End(facts.version, held.lease, Ended::Released),
        None => return None,
    };
    world.send(state, SWEEPER, what).map(drop)
}

/// A row is purged once it has been free for days: for longer than clocks are apart, and than anybody's
/// belief lasts. Somebody who deletes it by hand is to wait as long.
fn may_be_purged(world: &World, state: &State, facts: RowView) -> bool {
    let quiet = state.now > state.oracle.at + 2 * world.scope.error;
    if world.design.is(Flaw::DeadlineIsTheTablesTtl) {
        return facts.held.is_some_and(|held| held.until <= state.now);
    }
    state.row > crate::rows::FOREIGN
        && facts.held.is_none()
        && quiet
        && !anybody_believes(world, state)
}

fn anybody_believes(world: &World, state: &State) -> bool {
    let mut clients = state.clients.iter();
    clients.any(|client| client.believes_held(&world.scope, state.now).is_some())
}
