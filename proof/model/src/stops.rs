//! Executions that are stopped, and what is left in the index at the end.

use leasehold::{StartStatus, StopFor, store::ItemAddress};

use super::{
    invariants::{DISMISSED, Invariant},
    names::{self, Who},
    scope::{Held, Kind},
    seam::{Answer, Ask},
    state::{Phase, State},
    world::World,
};

/// Somebody sends a stop of this execution.
pub fn is_sent(world: &World, state: &mut State, who: Who, why: StopFor) {
    let executing = &state.executions[usize::from(who)];
    let is_true = match why {
        StopFor::Another => world.starts().any(|other| {
            let replaces = world.scope.kinds[usize::from(other)] == Kind::Start(Held::Replace);
            let has_asked = state.executions[usize::from(other)].tokens > 0;
            other != who && replaces && has_asked && world.key_of(other) == world.key_of(who)
        }),
        // One that lost its key to an operator, too, and what has its key again since it was looked at.
        StopFor::Redrive => {
            let is_forced = executing
                .lease
                .is_some_and(|it| state.evicted.contains(&it));
            let was_beside = executing
                .beside
                .is_some_and(|at| state.now <= at + world.scope.life);
            world.is_start(who) && (was_beside || is_forced)
        }
        StopFor::Caller => executing.task.has_no_caller(),
    };
    state.seen.must(is_true, Invariant::Stops);
}

/// Whether it runs by a redrive without its key, of which a look can know, or without its caller.
pub fn is_to_be_stopped(world: &World, state: &State, who: Who) -> bool {
    let executing = &state.executions[usize::from(who)];
    let is_forced = executing
        .lease
        .is_some_and(|it| state.evicted.contains(&it));
    // One that gave its key back, or may have, leaves no note.
    let is_noted = executing.calls == executing.redriven;
    let is_beside = world.scope.watches && executing.runs_without(world.is_start(who));
    let has_key = || world.library.table(state.table).held_by(who).is_some();
    let is_beside = is_beside && is_noted && !has_key();
    is_beside && !is_forced
        || executing.phase == Phase::Section && executing.task.must_stop && world.scope.stops
}

/// Whether the index has the starts that have failed, and besides at most notes of executions that may be redriven.
pub fn is_all_listed(world: &World, state: &State) -> bool {
    if !world.has_starts() && world.scope.pool.is_none() {
        return true;
    }
    let scan = world.library.ask_no(&Ask::Scan);
    let (_, answer) = world.library.effect(state.table, scan);
    let Answer::Page(page) = world.library.answered_with(answer) else {
        return false;
    };
    let table = world.library.table(state.table);
    let has_failed = |who: Who| {
        let status = table.start(who).map(|(status, _)| status);
        matches!(status, Some(StartStatus::Failed(_)))
    };
    let is_listed = |who: Who| {
        let mut entries = page.entries.iter();
        entries.any(|entry| matches!(&entry.address, Some(ItemAddress::Start(_, request)) if names::whose(request) == Some((who, names::START))))
    };
    // Unless an operator has dismissed it, or its task was told.
    let dismissed = state.seen.causes.is_some_and(|it| it & DISMISSED != 0);
    let all_are = world.starts().all(|who| !has_failed(who) || is_listed(who));
    if !all_are && !dismissed && !world.scope.results {
        return false;
    }
    page.entries.iter().all(|entry| match &entry.address {
        Some(ItemAddress::Start(_, request)) => {
            names::whose(request).is_some_and(|(who, _)| has_failed(who))
        }
        Some(ItemAddress::Redrivable(..)) => world.scope.watches,
        _ => false,
    })
}
