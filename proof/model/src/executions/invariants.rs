//! What must never happen to executions and their leases, and what must happen in time.

use std::time::Duration;

use leasehold::{RequestDigest, transition::Change};
use stateright::Property;

use super::{
    library::{Call, Table, View},
    names::{self, Who},
    scope,
    seam::Ask,
    world::{Action, Phase, Seen, State, World, passes},
};
use crate::lists::{invariants, properties};

// What must hold, by name.
invariants! {
    S1 "S1, S2 every grant has a larger token"
    S4 "S4 a release ends its own grant"
    S8 "S8 nobody is granted the key while its holder is at work"
    S9 "S7, S9 no request is granted the key twice"
    S12 "S12 an execution lease ends by its handle, by an operator, after its execution, or untold"
    S13 "S13 nobody is granted the key before it opens"
    S14 "S14 nobody is granted the key while its limit is 0"
    L2 "L2 a request that nobody was told of is not spent"
    L3 "L3 nobody in the queue is overtaken"
    L4 "L4, L5 whoever waits is told, or sent away, after so many sweeps"
    L6 "L6 one that waits is sent away only for a later one that waits, and stays away"
}

/// Looks at a state as it has just come about.
pub fn look(world: &World, state: &mut State) {
    let table = world.library.table(state.table);
    let holds: Vec<_> = table.views.iter().filter_map(|view| view.lease).collect();
    let trusted = state.executions.iter().flat_map(|executing| {
        let section = (executing.phase == Phase::Section).then_some(executing.lease);
        let work = executing.work.map(|(lease, _)| lease);
        section.flatten().into_iter().chain(work)
    });
    let program = state.program.filter(|(_, until)| state.now < *until);
    let trusted = trusted.chain(program.map(|(lease, _)| lease));
    let broken = trusted.filter(|lease| !state.evicted.contains(lease) && !holds.contains(lease));
    let broken = broken.count() > 0;
    if broken {
        let by = if holds.len() >= usize::from(world.scope.permits.unwrap_or(1)) {
            Invariant::S8
        } else {
            Invariant::S12
        };
        state.seen.must(false, by);
    }
    let waits = |state: &State| state.executions.iter().any(|e| e.phase == Phase::Waiting);
    if state.calls.is_empty() && waits(state) {
        let served = is_served(world, state);
        state.seen.must(served, Invariant::L4);
    }
}

/// A write that took effect.
pub fn wrote(state: &mut State, (ask, call): (&Ask, Call), before: &Table, after: &Table) {
    let (queue_before, queue) = (before.queue(), after.queue());
    if let (Ask::Supersede(item, ..), Call::Acquire(who, by, _)) = (ask, call) {
        let waits = queue_before.contains(&names::request(who, by));
        state.seen.must(waits, Invariant::L6);
        state.seen.superseded.extend(known(Some(&item.0.request)));
        state.seen.superseded.sort_unstable();
    }
    for request in queue
        .iter()
        .filter(|request| !queue_before.contains(*request))
    {
        let away = known(Some(request)).is_some_and(|who| state.seen.superseded.contains(&who));
        state.seen.must(!away, Invariant::L6);
    }
    let revived = matches!(ask, Ask::Apply(0, Change::Extend(extend))
        if before.row.as_ref().and_then(|row| row.holding()).is_some_and(|held| held.expires_at() <= extend.now));
    if before.view(0).lease == after.view(0).lease {
        state
            .seen
            .must(!revived || queue_before.is_empty(), Invariant::L3);
    }
    for permit in 0..state.seen.tokens.len() {
        let (was, is) = (before.view(permit), after.view(permit));
        if was.lease != is.lease {
            wrote_row(state, (ask, call), permit, (&was, &is), queue_before);
        }
    }
}

/// Another lease, or none, in the row of this permit.
fn wrote_row(
    state: &mut State,
    (ask, call): (&Ask, Call),
    permit: usize,
    (was, is): (&View, &View),
    queue_before: &[RequestDigest],
) {
    if let (Some(lease), Some(holder)) = (was.lease, was.holder) {
        let executing = state.executions.get(usize::from(holder));
        // What is more, nobody may trust it then: that is looked at in every state.
        let is_over = executing.is_none_or(|it| it.ended.is_some());
        let is_told = executing.is_some_and(|it| it.shown.contains(&lease));
        match (ask, call) {
            (_, Call::Evict(_)) if matches!(ask, Ask::Apply(_, Change::ReplaceIfUnchanged(swap)) if swap.head.is_none()) =>
            {
                state.evicted.push(lease);
                state.evicted.sort_unstable();
                state.seen.opens_at[permit] = None;
            }
            (_, Call::Release(_, own, _) | Call::Return(own)) if own == lease => {}
            (Ask::Apply(_, Change::Release(_)), _) => state.seen.must(false, Invariant::S4),
            (Ask::Apply(_, Change::ReplaceIfUnchanged(_)), _) => {
                state.seen.must(!is_told || is_over, Invariant::S12);
                // As if it had not been granted.
                state.seen.opens_at[permit] = None;
                if let Some(who) = known(was.request.as_ref()) {
                    state.seen.granted.retain(|granted| *granted != who);
                }
            }
            _ => state.seen.must(is_over, Invariant::S12),
        }
    }
    if is.lease.is_some() {
        let token = state.seen.tokens[permit];
        state.seen.must(is.token > token, Invariant::S1);
        state.seen.tokens[permit] = token.max(is.token);
        let in_this_tick = names::instant(state.now).plus(Duration::from_secs(1));
        let is_open = state.seen.opens_at[permit].is_none_or(|at| at <= in_this_tick);
        state.seen.must(is_open, Invariant::S13);
        state.seen.opens_at[permit] = is.opens_at;
        state.seen.must(!was.limited, Invariant::S14);
        let first = queue_before.first();
        // A permit that was free when it was asked for is granted, also if somebody has begun to wait just since.
        let asked_before = permit > 0 && matches!(ask, Ask::Apply(_, Change::Grant(_)));
        state.seen.must(
            first.is_none() || first == is.request.as_ref() || asked_before,
            Invariant::L3,
        );
        if let Some(request) = known(is.request.as_ref()) {
            let away = state.seen.superseded.contains(&request);
            state.seen.must(!away, Invariant::L6);
            let twice = state.seen.granted.contains(&request);
            let copied = state.seen.copied.contains(&request);
            state.seen.must(!twice || copied, Invariant::S9);
            state.seen.granted.push(request);
            state.seen.granted.sort_unstable();
        }
    }
}

/// Whose request this is, and which.
fn known(request: Option<&RequestDigest>) -> Option<(Who, u8)> {
    let all = (0..=names::PROGRAM).flat_map(|who| (0..8).map(move |n| (who, n)));
    let mut all = all.filter(|(who, n)| Some(&names::request(*who, *n)) == request);
    all.next()
}

/// How many sweeps whoever waits may need, if nothing goes wrong any more: those before it have to be found dead first.
const SWEEPS: u8 = 9;

/// From here on nothing goes wrong, and a sweep runs each half minute: then nobody waits for long.
fn is_served(world: &World, state: &State) -> bool {
    let mut state = State {
        late: Vec::new(),
        left: scope::NOTHING,
        ..state.clone()
    };
    state.seen = Seen::default();
    if let Some(known) = world.served.get(&state) {
        return *known;
    }
    let before = state.clone();
    let served = is_served_from(world, state);
    world.served.insert(before, served);
    served
}

fn is_served_from(world: &World, mut state: State) -> bool {
    if world.library.table(state.table).view(0).limited {
        world.begin(&mut state, Call::Limit(100, false));
        world.finish(&mut state);
    }
    for sweep in 0..=SWEEPS {
        for who in 0..Who::try_from(state.executions.len()).unwrap_or(0) {
            let action = match state.executions[usize::from(who)].phase {
                Phase::Section => Action::Releases(who),
                Phase::Proving => Action::Proves(who),
                Phase::Failed | Phase::Releasing => Action::GivesUp(who),
                _ => continue,
            };
            if world.acts(&mut state, action).is_none() {
                return false;
            }
            world.finish(&mut state);
        }
        if state.executions.iter().all(|e| e.phase != Phase::Waiting) {
            return true;
        }
        passes(&mut state);
        world.begin(&mut state, Call::Sweep(100 + sweep));
        world.finish(&mut state);
    }
    false
}

pub fn properties() -> Vec<Property<World>> {
    properties!(World, seen: S1 S4 S8 S9 S12 S13 S14 L2 L3 L4 L6)
}
