//! Sweep and reap: hygiene, which must do no harm.

use crate::{
    clients,
    design::Flaw,
    message::{Ended, Operation},
    names::{SWEEPER, Tick, Who},
    reading::Reading,
    rows::{MAX_WAITERS, Reply, RowView},
    world::{Action, End, Notification, Reaping, State, World},
};

/// The next possible steps of the process that sweeps and reaps.
pub fn actions(world: &World, state: &State, actions: &mut Vec<Action>) {
    let scope = &world.scope;
    let facts = world.rows.facts(state.row);
    let now = World::clock(state, &state.sweeper);
    if scope.sweep {
        if next(world, facts, now).is_some() {
            actions.push(Action::Sweeps);
        }
        let line = facts.line.iter().flatten();
        actions.extend(line.map(|(who, _)| Action::SendsAway(*who)));
    }
    if scope.branches && state.reaping.is_none() {
        for (who, client) in state.whos() {
            let holds = facts.held.is_some() && facts.holder == who;
            let left = holds || facts.kept.is_some_and(|kept| kept.who == who);
            // An event may come late, and of a redrive nobody tells.
            if left && (client.ended.is_some() || client.redriven) {
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
    clients::response_actions(world, state, SWEEPER, actions);
}

/// What a sweep would write, by what it reads.
pub fn next(world: &World, facts: RowView, now: Tick) -> Option<Operation> {
    let scope = &world.scope;
    let lapsed = |until: Tick| until + scope.margin <= now;
    if let Some(held) = facts.held {
        let expired = lapsed(held.until) && !world.design.is(Flaw::NobodySweeps);
        return expired.then_some(Operation::End(facts.version, held.lease, Ended::Expired));
    }
    if world.design.is(Flaw::NobodyTendsTheLine) {
        return None;
    }
    let Some(kept) = facts.kept else {
        return facts.line[0].map(|_| Operation::Reserve);
    };
    if kept.tries == 1 && kept.until <= now {
        Some(Operation::TryAgain(kept.lease, kept.tries))
    } else {
        lapsed(kept.until).then_some(Operation::Pass(kept.lease, kept.tries))
    }
}

pub fn sweeps(world: &World, state: &mut State) -> Option<()> {
    let facts = world.rows.facts(state.row);
    let what = next(world, facts, World::clock(state, &state.sweeper))?;
    world.send(state, SWEEPER, what).map(drop)
}

pub fn sends_away(world: &World, state: &mut State, who: Who) -> Option<()> {
    let facts = world.rows.facts(state.row);
    let in_place = |place: &usize| facts.line[*place].is_some_and(|(waits, _)| waits == who);
    let place = (0..MAX_WAITERS).find(in_place)?;
    let (_, attempt) = facts.line[place]?;
    let what = Operation::Leave(who, attempt, u8::try_from(place).ok()?);
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
            Operation::Release(held.lease, facts.token, false)
        }
        Some(held) => Operation::End(facts.version, held.lease, Ended::Released),
        None => {
            let kept = facts.kept.filter(|kept| kept.who == who)?;
            match kept.tries {
                _ if world.design.may_be_freed(end) => Operation::Pass(kept.lease, kept.tries),
                1 => Operation::StopRetries(kept.lease, kept.tries, kept.until),
                _ => return None,
            }
        }
    };
    world.send(state, SWEEPER, what).map(drop)
}

pub fn on_response(
    world: &World,
    state: &mut State,
    reply: Reply,
    notification: Notification,
) -> Option<()> {
    let call = state.sweeper.call.take()?;
    state.sweeper.replies.clear();
    match (call.what, world.rows.reading(call, reply)) {
        (Operation::Leave(who, attempt, _), Reading::Over(_)) => {
            clients::is_dismissed(state, (who, attempt));
        }
        (what, Reading::Over(Some(kept))) => {
            let first = !matches!(what, Operation::TryAgain(..));
            clients::notify(world, state, SWEEPER, kept, (first, notification));
        }
        _ => {}
    }
    Some(())
}

/// A row is purged once it has been free for days: for longer than clocks are apart, and than anybody's
/// belief lasts. Somebody who deletes it by hand is to wait as long.
fn may_be_purged(world: &World, state: &State, facts: RowView) -> bool {
    let quiet = state.now > state.oracle.at + 2 * world.scope.error;
    if world.design.is(Flaw::DeadlineIsTheTablesTtl) {
        return facts.held.is_some_and(|held| held.until <= state.now);
    }
    state.row > crate::rows::FOREIGN
        && facts.line[0].is_none()
        && facts.kept.is_none()
        && quiet
        && !anybody_believes(world, state)
}

fn anybody_believes(world: &World, state: &State) -> bool {
    let mut clients = state.clients.iter();
    clients.any(|client| client.believes_held(&world.scope, state.now).is_some())
}
