//! Sweep and reap: hygiene, which must do no harm.

use crate::{
    clients,
    message::What,
    names::{KEEPER, Tick, Who},
    reading::Reading,
    rows::{Facts, LINE, Reply},
    world::{Action, Phase, State, Tell, World},
};

/// What whoever sweeps and reaps may do next.
pub fn actions(world: &World, state: &State, actions: &mut Vec<Action>) {
    let scope = &world.scope;
    let facts = world.rows.facts(state.row);
    let now = World::clock(state, &state.keeper);
    if scope.sweep {
        if next(world, facts, now).is_some() {
            actions.push(Action::Sweeps);
        }
        let line = facts.line.iter().flatten();
        actions.extend(line.map(|(who, _)| Action::SendsAway(*who)));
    }
    if scope.reap {
        for (who, client) in state.whos() {
            let over = matches!(client.phase, Phase::Gone | Phase::Lingering(..));
            if over && facts.held.is_some() && facts.holder == who {
                actions.push(Action::Reaps(who));
            }
        }
    }
    if scope.sweep && scope.jumps > state.jumps {
        let errors = [-scope.error, 0, scope.error].into_iter();
        let others = errors.filter(|error| *error != state.keeper.error);
        actions.extend(others.map(|error| Action::Jump(KEEPER, error)));
    }
    if scope.purge && may_be_purged(world, state, facts) {
        actions.push(Action::Purge);
    }
    clients::hearings(world, state, KEEPER, actions);
}

/// What a sweep would write, by what it reads.
pub fn next(world: &World, facts: Facts, now: Tick) -> Option<What> {
    let scope = &world.scope;
    let lapsed = |until: Tick| until + scope.margin <= now;
    if let Some(held) = facts.held {
        let expired = lapsed(held.until) && world.design.frees_what_expired();
        return expired.then_some(What::Expire(facts.version, held.lease));
    }
    if !world.design.tends_lines() {
        return None;
    }
    let Some(kept) = facts.kept else {
        return facts.line[0].map(|_| What::Reserve);
    };
    if kept.tries == 1 && kept.until <= now {
        Some(What::TryAgain(kept.lease, kept.tries))
    } else {
        lapsed(kept.until).then_some(What::Pass(kept.lease, kept.tries))
    }
}

pub fn sweeps(world: &World, state: &mut State) -> Option<()> {
    let facts = world.rows.facts(state.row);
    let what = next(world, facts, World::clock(state, &state.keeper))?;
    world.send(state, KEEPER, what).map(drop)
}

pub fn sends_away(world: &World, state: &mut State, who: Who) -> Option<()> {
    let facts = world.rows.facts(state.row);
    let stands = |place: &usize| facts.line[*place].is_some_and(|(waits, _)| waits == who);
    let place = (0..LINE).find(stands)?;
    let (_, attempt) = facts.line[place]?;
    let what = What::Leave(who, attempt, u8::try_from(place).ok()?);
    world.send(state, KEEPER, what).map(drop)
}

/// Sees to what an execution held that has ended: after a stop a Lambda of it may be at work.
pub fn reaps(world: &World, state: &mut State, who: Who) -> Option<()> {
    let facts = world.rows.facts(state.row);
    let held = facts.held?;
    let lingers = matches!(state.clients[usize::from(who)].phase, Phase::Lingering(..));
    let what = if lingers && !world.design.reaps_at_once() {
        let cut = World::clock(state, &state.keeper) + world.scope.grace;
        if held.until <= cut {
            return None;
        }
        What::Cut(facts.version)
    } else {
        What::Release(held.lease, facts.token, false)
    };
    world.send(state, KEEPER, what).map(drop)
}

pub fn hears(world: &World, state: &mut State, reply: Reply, tell: Tell) -> Option<()> {
    let call = state.keeper.call.take()?;
    state.keeper.replies.clear();
    match (call.what, world.rows.reading(call, reply)) {
        (What::Leave(who, attempt, _), Reading::Over(_)) => {
            clients::is_dismissed(state, (who, attempt));
        }
        (what, Reading::Over(Some(kept))) => {
            let first = !matches!(what, What::TryAgain(..));
            clients::tells(world, state, KEEPER, kept, (first, tell));
        }
        _ => {}
    }
    Some(())
}

/// A row is purged once it has been free for days: for longer than clocks are apart, and than anybody's
/// belief lasts. Somebody who deletes it by hand is to wait as long.
fn may_be_purged(world: &World, state: &State, facts: Facts) -> bool {
    let believes = |client: &crate::world::Client| client.believes(state.now).is_some();
    let quiet = state.now > state.seen.at + 2 * world.scope.error;
    if world.design.purges_at_the_deadline() {
        return facts.held.is_some_and(|held| held.until <= state.now);
    }
    state.row > crate::rows::FOREIGN
        && facts.line[0].is_none()
        && facts.kept.is_none()
        && quiet
        && !state.clients.iter().any(believes)
}
