//! The pool that the keys of a world share: who may run, and in which order its keys are served.

use leasehold::{StartStatus, row::Row};

use super::{
    invariants::Invariant,
    library::{LeaseNo, Table},
    names::{self, POOL, Who},
    state::{Phase, State},
    world::World,
};

/// Besides those to whom the pool owes their turns: it has served this key.
const SERVED: u8 = 1 << 7;

/// Who runs has its key and its permit, unless an operator has taken one away; and of those never more than either allows.
pub fn holds(world: &World, state: &mut State) {
    let Some(most) = world.scope.pool else { return };
    let table = world.library.table(state.table);
    let permits: Vec<_> = table.views(POOL).iter().map(|view| view.lease).collect();
    let (mut of_pool, mut of_key) = (0, [0; names::KEYS]);
    let mut has_both = true;
    for (executing, key) in state.executions.iter().zip(world.scope.keys) {
        let works = executing.phase == Phase::Section || executing.work.is_some();
        let is_forced =
            |lease: Option<LeaseNo>| lease.is_some_and(|it| state.evicted.contains(&it));
        if !works || is_forced(executing.lease) || is_forced(executing.permit) {
            continue;
        }
        has_both &= executing.permit.is_some() && permits.contains(&executing.permit);
        of_pool += 1;
        of_key[usize::from(key)] += 1;
    }
    let each = world.scope.permits.unwrap_or(1);
    let is_room = of_pool <= most && of_key.iter().all(|of_key| *of_key <= each);
    state.seen.must(has_both && is_room, Invariant::S15);
    forgets(world, state, &table);
}

/// Whoever does not wait any more, with the grant that it had, is owed nothing; nor is one whose key an operator has closed.
fn forgets(world: &World, state: &mut State, table: &Table) {
    let is_entry = |who: Who| {
        let key = table.views(world.key_of(who)).iter().zip(0_u64..);
        let is_closed = table.view(world.key_of(who), 0).limited;
        let mut grants = key.filter(|(view, _)| view.holder == Some(who) && view.waits_in_pool);
        !is_closed
            && grants
                .any(|(view, permit)| table.waiting.contains(&(who, view.token | permit << 60)))
    };
    let waiting = (0..).take(state.executions.len());
    let waiting = waiting.filter(|who| waits(world, state, table, *who) && is_entry(*who));
    let waiting = waiting.fold(0, |all, who: Who| all | 1 << who);
    for owed in state.seen.owed.as_flattened_mut() {
        *owed &= waiting | SERVED;
    }
}

fn waits(world: &World, state: &State, table: &Table, who: Who) -> bool {
    let executing = &state.executions[usize::from(who)];
    if !world.is_start(who) {
        return executing.phase == Phase::Waiting;
    }
    let status = table.start(who).map(|(status, _)| status);
    status == Some(&StartStatus::Waiting) && executing.began.is_none()
}

/// A write changed the pool, or the row of a key whose grant is in it.
pub fn wrote(world: &World, state: &mut State, (before, after): (&Table, &Table)) {
    forgets(world, state, after);
    let all = || after.inside.iter().chain(&after.waiting);
    for entry in all() {
        let as_often = all().filter(|other| *other == entry).count();
        state.seen.must(as_often == 1, Invariant::S9);
    }
    for entry in after
        .inside
        .iter()
        .filter(|it| !before.inside.contains(*it))
    {
        let is_limited = before.row(POOL).is_some_and(Row::is_limited_to_none);
        // One that has entered before is put back, perhaps by somebody who knows it from then.
        let mut key = before.views(world.key_of(entry.0)).iter();
        let enters = key.any(|view| view.waits_in_pool && view.holder == Some(entry.0));
        state.seen.must(!is_limited || !enters, Invariant::S14);
        serves(world, state, entry.0, &after.waiting);
    }
    // Who joins while nobody of another key waits comes before the next of that key.
    let joined = after
        .waiting
        .iter()
        .filter(|it| !before.waiting.contains(*it));
    for (who, _) in joined {
        for key in (0..POOL).filter(|key| *key != world.key_of(*who)) {
            let mut all = after.waiting.iter();
            let is_before = !all.any(|(other, _)| world.key_of(*other) == key);
            let owed = &mut state.seen.owed[usize::from(key)][0];
            if is_before && *owed & SERVED != 0 {
                *owed |= 1 << who;
            }
        }
    }
    for (place, is) in after.views(POOL).iter().enumerate() {
        let was = before.view(POOL, place).lease;
        if let Some(who) = is.holder.filter(|_| was != is.lease) {
            let executing = &mut state.executions[usize::from(who)];
            if executing.runs_without(world.is_start(who)) {
                executing.phase = Phase::Section;
                (executing.lease, executing.permit) = (is.lease, is.lease);
            }
        }
    }
}

/// The pool serves the key of this execution: nobody waits who waited when it did so before, as often as the key has permits.
fn serves(world: &World, state: &mut State, who: Who, queue: &[(Who, u64)]) {
    let key = world.key_of(who);
    for owed in state.seen.owed.as_flattened_mut() {
        *owed &= !(1 << who);
    }
    let permits = world.scope.permits.map_or(1, usize::from);
    let owed = &mut state.seen.owed[usize::from(key)][..permits];
    let others = queue.iter().map(|(other, _)| *other);
    let others = others.filter(|other| world.key_of(*other) != key);
    let is_fair = owed[permits - 1] & !SERVED == 0;
    owed.rotate_right(1);
    owed[0] = others.fold(SERVED, |all, other| all | 1 << other);
    state.seen.must(is_fair, Invariant::L8);
}

/// Somebody has a key and waits for a permit, and the pool has room.
pub fn waits_in_vain(world: &World, state: &State) -> bool {
    let table = world.library.table(state.table);
    let held = table.views(POOL).iter().filter(|view| view.lease.is_some());
    let has_room = held.count() < world.scope.pool.map_or(0, usize::from);
    // A second permit of one request is nobody's wait: its holder was told of the first.
    let misses = |who: Who| {
        let executing = &state.executions[usize::from(who)];
        waits(world, state, &table, who) || executing.runs_without(world.is_start(who))
    };
    let mut views = table.of_keys().filter(|view| view.waits_in_pool);
    has_room && views.any(|view| view.holder.is_some_and(misses))
}
