//! What must never happen to executions and their leases, and what must happen in time.

use std::time::Duration;

use leasehold::{
    Holder, RequestDigest, StartStatus,
    store::{Address, Settlement, Write},
    transition::{Change, Head, LeaveReason},
};
use stateright::Property;

use super::{
    actions::Action,
    library::{Call, Table, View},
    names::{self, Input, KeyNo, POOL, Who},
    pools,
    scope::{self, Held, Kind},
    seam::Ask,
    state::{PERMITS, Phase, Seen, State, place},
    stops,
    world::World,
};
use crate::lists::{invariants, properties};

// What must hold, by name.
invariants! {
    S1 "S1, S2 every grant has a larger token"
    S3 "S3 no guarded write with an older token commits"
    S4 "S4 a release ends its own grant"
    S5 "S5 an extend never shortens, and nobody who works is cut short"
    S6 "S6 an extend never brings back what is over"
    S8 "S8 nobody is granted the key while its holder is at work"
    S9 "S7, S9 no request is granted the key twice, and no grant two permits of its pool"
    S10 "S10 an item that is not ours is left alone"
    S12 "S12 an execution lease ends by its handle, by an operator, after its execution, or untold"
    S13 "S13 nobody is granted the key before it opens"
    S14 "S14 nobody is granted the key while its limit is 0"
    L2 "L2 a request that nobody was told of is not spent"
    L3 "L3 nobody in the queue is overtaken"
    L4 "L4, L5 whoever waits is told, or sent away, after so many sweeps"
    L6 "L6 one that waits is sent away only for a later one that waits, and stays away"
    Early "L5 nobody is sent away before its wait is over, and no start fails or is skipped without a cause"
    L1 "L1 what was given back early, or has crashed, is free in time"
    Twice "no start begins two executions"
    Both "no start both runs and has failed, was skipped or was sent away"
    Lost "no accepted start is lost"
    S15 "S15 who runs has its key and its permit of the pool, and never more do than either allows"
    L7 "L7 nobody waits in a pool that has room, and who has ended holds nothing, a few sweeps later"
    L8 "L8 a pool serves a key again only after every other key that waited there"
    Tells "F48 a task is told how its start has ended, and not before"
    Answers "F48 a task that waits for a start is answered a few sweeps after its end"
    Stops "F48 an execution is stopped for a later one that replaces it, without its key after a redrive, or without its caller, and for nothing else"
    Stopped "what runs without its key after a redrive, or without its caller, is seen to a few sweeps later"
    Listed "what has failed is listed, and nothing else is left in the index"
    Same "a name with its input is answered the same, and with another input is refused"
}

/// Looks at a state as it has just come about.
pub fn look(world: &World, state: &mut State) {
    holds(world, state);
    if world.looks_ahead {
        looks_ahead(world, state);
    }
}

/// Where no function runs: what would be broken, if nothing went wrong any more.
pub fn looks_ahead(world: &World, state: &mut State) {
    world.frees(state);
    let is_watched = world.has_starts() || world.scope.pool.is_some() || waits(world, state);
    if state.calls.is_empty() && is_watched {
        state.seen.broken |= ahead(world, state);
    }
}

/// Whether an execution's task waits.
fn waits(world: &World, state: &State) -> bool {
    let mut all = (0..).zip(&state.executions);
    all.any(|(who, it)| {
        it.phase == Phase::Waiting && (!world.is_program(who) || world.is_queued(who))
    })
}

fn holds(world: &World, state: &mut State) {
    let table = world.library.table(state.table);
    pools::holds(world, state);
    let holds: Vec<_> = table.of_keys().filter_map(|view| view.lease).collect();
    let executions = (0..).zip(&state.executions);
    let executions = executions.filter(|(who, _)| !world.is_program(*who));
    let trusted = executions.flat_map(|(_, executing)| {
        let section = (executing.phase == Phase::Section).then_some(executing.lease);
        let work = executing.work.map(|(lease, _)| Some(lease));
        section.into_iter().chain(work)
    });
    let trusted = trusted.chain(world.believed(state).into_iter().map(Some));
    let is_held = |lease| state.evicted.contains(&lease) || holds.contains(&lease);
    // One that was started when nothing was granted to it trusts all the same.
    let broken = trusted.filter(|lease| !lease.is_some_and(is_held)).count() > 0;
    if broken {
        let by = if holds.len() >= usize::from(world.scope.permits.unwrap_or(1)) {
            Invariant::S8
        } else {
            Invariant::S12
        };
        state.seen.must(false, by);
    }
    for view in table.of_keys() {
        let request = view.request.as_ref().and_then(names::whose);
        let away = request.filter(|request| state.seen.superseded.contains(request));
        let learns = away.zip(view.lease).is_some_and(|((who, _), lease)| {
            let executing = state.executions.get(usize::from(who));
            executing.is_some_and(|executing| executing.shown.contains(&lease))
        });
        state.seen.must(!learns, Invariant::L6);
    }
    for who in world.starts() {
        let executing = &state.executions[usize::from(who)];
        let item = table.start(who);
        if let Some((status, input)) = item {
            let ran = executing.ran(input);
            let begun = *status == StartStatus::Begun;
            let waits = *status == StartStatus::Waiting;
            let unasked = is_unasked(state, who, status);
            state
                .seen
                .must(begun || waits || !ran || unasked, Invariant::Both);
            state.seen.must(!begun || ran, Invariant::Lost);
        }
        let accepted =
            (0..2).filter(|input| state.seen.accepted[usize::from(who)] & (1 << input) != 0);
        let is_known = |input: &Input| {
            let kept = item.is_some_and(|(_, of)| of == *input);
            kept || executing.ran(*input) || state.seen.purged & (1 << who) != 0
        };
        let lost = accepted.filter(|input| !is_known(input)).count() > 0;
        state.seen.must(!lost, Invariant::Lost);
    }
}

/// Whether this counts as failed because somebody might not ask whether it has begun.
fn is_unasked(state: &State, who: Who, status: &StartStatus) -> bool {
    matches!(status, StartStatus::Failed(_)) && state.seen.unasked & (1 << who) != 0
}

/// A write that took effect.
pub fn wrote(
    world: &World,
    state: &mut State,
    (ask, call): (&Ask, Call),
    (before, after): (&Table, &Table),
) {
    if let Some((away, by)) = superseded(ask) {
        let named = match ask.row() {
            Some((_, Change::Leave(leave))) => match &leave.because {
                LeaveReason::Superseded(later) => Some(later),
                _ => None,
            },
            _ => None,
        };
        // Whoever sends it away, the later one itself or sweep for it: by the very request that waits, where the write names it.
        let queue = before.queue(world.key_of(names::who(by))).iter();
        let mut waiting = queue.filter(|request| named.is_none_or(|named| named == *request));
        let is_its = |(who, _)| names::holder(who) == *by;
        let waits = waiting.any(|request| names::whose(request).is_some_and(is_its));
        state.seen.must(waits, Invariant::L6);
        state.seen.superseded.extend(names::whose(&away));
        state.seen.superseded.sort_unstable();
    }
    if let [.., Write::Settle(item, settlement)] = ask.writes() {
        let has_cause = has_cause(world, state, names::who(&item.execution()), settlement);
        state.seen.must(has_cause, Invariant::Early);
    }
    world.wrote_for_program(state, ask, (before, after));
    let revived = matches!(ask.row(), Some((0, Change::Extend(extend)))
        if before.row(0).and_then(|row| row.holding()).is_some_and(|held| held.expires_at() <= extend.now));
    if before.view(0, 0).lease == after.view(0, 0).lease {
        let nobody_waits = before.queue(0).is_empty();
        state.seen.must(!revived || nobody_waits, Invariant::L3);
    }
    for key in world.keys() {
        wrote_key(world, state, (ask, call), key, (before, after));
    }
    if world.scope.pool.is_some() {
        pools::wrote(world, state, (before, after));
    }
}

/// Something that cannot be mended was refused, or taken by an operator; an operator has dismissed one; a name came with another input.
const REFUSED: u8 = 1;
pub const DISMISSED: u8 = 2;
const OTHER: u8 = 4;

/// What has happened so far for which a start may be given up.
fn causes(world: &World, state: &State) -> u8 {
    let (had, left) = (world.scope.budget, state.left);
    let is_refused = left.deny < had.deny || left.forbid < had.forbid || left.evict < had.evict;
    let all = [
        (is_refused, REFUSED),
        (left.dismiss < had.dismiss, DISMISSED),
        (left.other < had.other, OTHER),
    ];
    let happened = all.into_iter().filter(|(happened, _)| *happened);
    happened.fold(0, |causes, (_, cause)| causes | cause)
}

/// Whether there is a reason to give a start up.
fn has_cause(world: &World, state: &State, who: Who, settlement: &Settlement) -> bool {
    let Kind::Start(held) = world.scope.kinds[usize::from(who)] else {
        return false;
    };
    let causes = state.seen.causes.unwrap_or_else(|| causes(world, state));
    let was_dismissed = causes & DISMISSED != 0;
    match settlement {
        Settlement::Failed(reason) if reason.starts_with(WAITED) => {
            let wait = match held {
                Held::Skip | Held::Fail => 0,
                Held::Wait | Held::Latest | Held::Replace => world.scope.wait,
            };
            state.now >= state.executions[usize::from(who)].asked + wait
        }
        Settlement::Failed(_) => causes != 0 || world.scope.foreign.is_some(),
        Settlement::Skipped { .. } => {
            let task = &state.executions[usize::from(who)].task;
            let has_no_caller = world.scope.stops && task.has_no_caller();
            held == Held::Skip || was_dismissed || has_no_caller
        }
        _ => true,
    }
}

/// At most one leaves a queue at a time, and who joins is the last.
fn keeps_its_order(state: &mut State, before: &[RequestDigest], after: &[RequestDigest]) {
    let stays = before.iter().filter(|it| after.contains(it));
    let many = stays.clone().count();
    let holds = stays.eq(after.iter().take(many)) && many + 1 >= before.len();
    state.seen.must(holds, Invariant::L3);
}

fn wrote_key(
    world: &World,
    state: &mut State,
    by: (&Ask, Call),
    key: KeyNo,
    (before, after): (&Table, &Table),
) {
    let queue_before = before.queue(key);
    if key != POOL {
        keeps_its_order(state, queue_before, after.queue(key));
    }
    let queue = after.queue(key).iter();
    for request in queue.filter(|request| !queue_before.contains(*request)) {
        let away = names::whose(request).is_some_and(|who| state.seen.superseded.contains(&who));
        state.seen.must(!away, Invariant::L6);
    }
    // What is in the pool has the lease of its key.
    for permit in (0..PERMITS).filter(|_| key != POOL) {
        let (was, is) = (before.view(key, permit), after.view(key, permit));
        if was.lease != is.lease {
            wrote_row(world, state, by, (key, permit), (&was, &is), queue_before);
        }
    }
}

/// Another lease, or none, in the row of this permit.
fn wrote_row(
    world: &World,
    state: &mut State,
    (ask, call): (&Ask, Call),
    (key, permit): (KeyNo, usize),
    (was, is): (&View, &View),
    queue_before: &[RequestDigest],
) {
    let row = place(key, permit);
    if let (Some(lease), Some(holder)) = (was.lease, was.holder) {
        let executing = state.executions.get(usize::from(holder));
        // What is more, nobody may trust it then: that is looked at in every state.
        let is_over = executing.is_none_or(|it| it.ended.is_some()) || world.is_program(holder);
        let is_told =
            executing.is_some_and(|it| it.shown.contains(&lease) || it.lease == Some(lease));
        match call {
            // What is forced is remembered; what is taken back is as if it had not been granted.
            Call::Evict(..) if matches!(ask.row(), Some((_, Change::ReplaceIfUnchanged(swap))) if swap.head == Head::Any && was.request.as_ref().is_some_and(|it| swap.row.remembers(it))) =>
            {
                state.evicted.push(lease);
                state.evicted.sort_unstable();
                if let Some(executing) = state.executions.get_mut(usize::from(holder))
                    && executing.runs_without(world.is_start(holder))
                {
                    // It was redriven while the operator was at work: whether that counts is anybody's guess.
                    executing.lease = Some(lease);
                }
                state.seen.opens_at[row] = None;
            }
            Call::Release(_, own, _) if own.0 == lease => {}
            // Its section had a lease of its own, because what it was in had ended.
            Call::Nests(who, ..) if who == holder => {}
            Call::Return(_, own, _) if own.0 == lease || own.1 == Some(lease) => {}
            _ if matches!(ask.row(), Some((_, Change::Release(_)))) => {
                state.seen.must(false, Invariant::S4);
            }
            _ if is_taken_back(ask) => {
                state.seen.must(!is_told || is_over, Invariant::S12);
                // As if it had not been granted.
                state.seen.opens_at[row] = None;
                if let Some(who) = was.request.as_ref().and_then(names::whose) {
                    state.seen.granted.retain(|(granted, _)| *granted != who);
                }
            }
            _ => state.seen.must(is_over, Invariant::S12),
        }
    }
    if is.lease.is_some() {
        let token = state.seen.tokens[row];
        state.seen.must(is.token > token, Invariant::S1);
        state.seen.tokens[row] = token.max(is.token);
        let in_this_tick = names::instant(state.now).plus(Duration::from_secs(1));
        let is_open = state.seen.opens_at[row].is_none_or(|at| at <= in_this_tick);
        state.seen.must(is_open, Invariant::S13);
        state.seen.opens_at[row] = is.opens_at;
        state.seen.must(!was.limited, Invariant::S14);
        let first = queue_before.first();
        // A permit that was free when it was asked for is granted, also if somebody has begun to wait just since.
        let asked_now = match ask.writes() {
            // A grant from the queue changes the row of the queue as well.
            [Write::Row(..)] => true,
            writes => {
                let stored = writes.iter();
                stored
                    .skip(1)
                    .any(|it| matches!(it, Write::Start(_) | Write::Restart(..) | Write::Wait(..)))
            }
        };
        let asked_before = permit > 0 && asked_now;
        state.seen.must(
            first.is_none() || first == is.request.as_ref() || asked_before,
            Invariant::L3,
        );
        if let Some(request) = is.request.as_ref().and_then(names::whose) {
            let away = state.seen.superseded.contains(&request);
            // Of a permit that has a row of its own the note is read after the grant, which is taken back: nobody learns of it.
            state.seen.must(!away || asked_before, Invariant::L6);
            let granted = (request, key);
            let twice = state.seen.granted.contains(&granted);
            let copied = state.seen.copied.contains(&request);
            state.seen.must(!twice || copied, Invariant::S9);
            state.seen.granted.push(granted);
            state.seen.granted.sort_unstable();
        }
        if let Some(who) = is
            .holder
            .filter(|_| world.scope.pool.is_none())
            .filter(|who| usize::from(*who) < state.executions.len())
        {
            let executing = &mut state.executions[usize::from(who)];
            if executing.runs_without(world.is_start(who)) {
                executing.phase = Phase::Section;
                executing.lease = is.lease;
            }
        }
    }
}

/// Whom this sends away because it came later.
fn superseded(ask: &Ask) -> Option<(RequestDigest, &Holder)> {
    match ask.writes() {
        [.., Write::Supersede(_, waiter, by)] => Some((waiter.request.digest.clone(), by)),
        [.., Write::Settle(item, Settlement::Superseded { by, .. })] => Some((item.digest(), by)),
        _ => None,
    }
}

/// Whether this takes a grant back, as if it had not been.
fn is_taken_back(ask: &Ask) -> bool {
    let is_key = |at: &Address| names::which(at.key.as_str()) != Some(POOL);
    matches!(
        ask.writes(),
        [Write::Row(at, Change::ReplaceIfUnchanged(_))] if is_key(at)
    ) || matches!(
        ask.writes(),
        [
            Write::Row(_, Change::ReplaceIfUnchanged(_)),
            Write::Settle(..) | Write::Supersede(..)
        ]
    )
}

/// How the reason of a start begins that has waited too long.
const WAITED: &str = "the key was not free within its waiting time";

/// How many sweeps whoever waits may need, if nothing goes wrong any more: those before it have to be found dead first.
const SWEEPS: u8 = 9;
/// The same until every start is settled.
const SWEEPS_FOR_STARTS: u8 = 24;
/// For so many of them an execution that gave its lease back early runs on. They come each half minute, and the later ones after
/// calls, their signatures and waits are over.
const RUNS_ON: u8 = 4;
const LATER: i16 = 14;
/// In so many more of them what runs without its key or its caller is seen to: the pause between two looks grows with its age.
const SEEN_TO: u8 = 4;

/// From here on nothing goes wrong, and a sweep runs each half minute: then nobody waits for long. What is broken then?
fn ahead(world: &World, state: &State) -> u32 {
    let causes = causes(world, state);
    let mut state = State {
        late: Vec::new(),
        left: scope::NOTHING,
        ..state.clone()
    };
    state.seen = Seen {
        accepted: state.seen.accepted,
        purged: state.seen.purged,
        unasked: state.seen.unasked,
        causes: Some(causes),
        ..Seen::default()
    };
    if let Some(known) = world.ahead.get(&state) {
        return *known;
    }
    let before = state.clone();
    comes_to_rest(world, &mut state);
    world.ahead.insert(before, state.seen.broken);
    state.seen.broken
}

fn comes_to_rest(world: &World, state: &mut State) {
    state.index = state.table;
    for key in world.scope.operated {
        if world.library.table(state.table).is_limited(*key) {
            world.begin(state, Call::Limit(100, *key, false));
            world.finish(state);
        }
        // Two operators at once may have left one permit of several as the other wanted it.
        let table = world.library.table(state.table);
        let frozen = table.row(*key).is_some_and(|row| row.frozen.is_some());
        if frozen || table.views(*key).iter().any(|view| view.limited) {
            world.begin(state, Call::Freeze(100, *key, false));
            world.finish(state);
        }
    }
    let sweeps = if world.has_starts() || world.scope.pool.is_some() {
        SWEEPS_FOR_STARTS
    } else {
        SWEEPS
    };
    let mut in_vain = 0;
    for sweep in 0..=sweeps {
        for who in 0..Who::try_from(state.executions.len()).unwrap_or(0) {
            ends(world, state, (who, sweep));
        }
        let waits = |state: &State| state.executions.iter().any(|e| e.task.waits);
        let has_task = waits(state);
        let rests = rests(world, state);
        let is_listed = !rests || stops::is_all_listed(world, state);
        if rests && !has_task && is_listed {
            return;
        }
        if sweep == sweeps {
            let promise = match world.scope.pool {
                Some(_) => Invariant::L7,
                None => Invariant::L4,
            };
            state.seen.must(rests, promise);
            state.seen.must(!has_task, Invariant::Answers);
            state.seen.must(is_listed, Invariant::Listed);
            return;
        }
        let ticks = if sweep < RUNS_ON || !world.has_starts() {
            1
        } else {
            LATER
        };
        world.passes(state, ticks);
        state.index = state.table;
        world.begin(state, Call::Sweep(100 + sweep));
        world.finish(state);
        holds(world, state);
        // As soon as whoever made the room says so, or one sweep later.
        let waits = pools::waits_in_vain(world, state);
        in_vain = if waits { in_vain + 1 } else { 0 };
        state.seen.must(in_vain <= 1, Invariant::L7);
    }
}

/// Each execution does what it is to do, and ends.
fn ends(world: &World, state: &mut State, (who, sweep): (Who, u8)) {
    let is_start = world.is_start(who);
    if world.is_program(who) && !world.is_queued(who) {
        return;
    }
    let phase = state.executions[usize::from(who)].phase;
    let action = match phase {
        // What is to be stopped runs on until it is.
        Phase::Section | Phase::Without
            if stops::is_to_be_stopped(world, state, who) && sweep < RUNS_ON + SEEN_TO =>
        {
            return;
        }
        Phase::Section if is_start => {
            let is_late = stops::is_to_be_stopped(world, state, who);
            state.seen.must(!is_late, Invariant::Stopped);
            Action::Succeeds(who)
        }
        Phase::Section => Action::Releases(who),
        Phase::Proving => Action::Proves(who),
        Phase::Failed | Phase::Releasing => Action::GivesUp(who),
        Phase::Without | Phase::Released if is_start && sweep >= RUNS_ON => {
            let holds = world.library.table(state.table).held_by(who).is_some();
            let given_back = phase == Phase::Released;
            state.seen.must(!(holds && given_back), Invariant::L1);
            let is_late = stops::is_to_be_stopped(world, state, who);
            state.seen.must(!is_late, Invariant::Stopped);
            Action::Succeeds(who)
        }
        _ => return,
    };
    let done = world.acts(state, action);
    state.seen.must(done.is_some(), Invariant::L4);
    world.finish(state);
}

/// Whether nobody waits, and every start that was asked for is settled.
fn rests(world: &World, state: &mut State) -> bool {
    if waits(world, state) {
        return false;
    }
    if !world.has_starts() && world.scope.pool.is_none() {
        return true;
    }
    let table = world.library.table(state.table);
    let mut views = table.of_keys().chain(table.views(POOL));
    let is_free = views.all(|view| view.lease.is_none());
    // A place in the pool whose grant has ended is nobody's.
    let nobody_waits = table.of_keys().all(|view| view.queue.is_empty());
    let mut starts = world.starts();
    let settled = starts.all(|who| {
        let waits = table
            .start(who)
            .is_some_and(|(status, _)| *status == StartStatus::Waiting);
        !waits && !state.executions[usize::from(who)].runs()
    });
    if !is_free || !nobody_waits || !settled {
        return false;
    }
    for who in world.starts() {
        if let Some((status, input)) = table.start(who) {
            let ran = state.executions[usize::from(who)].ran(input);
            let unasked = is_unasked(state, who, status);
            let is_true = !ran || *status == StartStatus::Begun || unasked;
            state.seen.must(is_true, Invariant::Both);
        }
    }
    true
}

pub fn properties() -> Vec<Property<World>> {
    properties!(World, seen: S1 S3 S4 S5 S6 S8 S9 S10 S12 S13 S14 L2 L3 L4 L6 Early L1 Twice Both Lost S15 L7 L8 Tells Answers Stops Stopped Listed Same)
}
