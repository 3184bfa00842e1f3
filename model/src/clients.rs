//! What clients do: workflows that acquire, extend, release and write, or wait in line, and die.

use crate::{
    message::What,
    names::{Attempt, Count, LeaseNo, Tick, Who},
    reading::{Handle, Reading},
    rows::{Kept, Reply},
    scope::Clocks,
    world::{Action, Client, Phase, State, Tell, World},
};

impl Client {
    /// What it has in its hands, if it goes on as one that holds.
    pub fn believes(&self, now: Tick) -> Option<Handle> {
        let handle = match self.phase {
            Phase::Holding(handle) => handle,
            Phase::Lingering(handle, until) if now < until => handle,
            _ => return None,
        };
        (now + self.process.error < handle.until).then_some(handle)
    }
}

/// What clients may do next.
pub fn actions(world: &World, state: &State, actions: &mut Vec<Action>) {
    let scope = &world.scope;
    for (who, client) in state.whos() {
        match client.phase {
            Phase::Idle => {
                if client.attempt < scope.attempts {
                    actions.push(Action::Asks(who));
                }
                hearings(world, state, who, actions);
                continue;
            }
            Phase::Asking => actions.push(Action::AsksAgain(who)),
            Phase::Holding(_) => {
                actions.extend([Action::Extends(who), Action::Releases(who)]);
                if scope.writes {
                    actions.push(Action::Writes(who));
                }
                if scope.reap {
                    actions.push(Action::IsStopped(who));
                }
            }
            Phase::Releasing(_) => actions.push(Action::Releases(who)),
            Phase::Lingering(..) => {
                if scope.writes {
                    actions.push(Action::Writes(who));
                }
                continue;
            }
            Phase::Gone => continue,
        }
        actions.push(Action::Crashes(who));
        if scope.jumps > state.jumps {
            let errors = [-scope.error, 0, scope.error].into_iter();
            let others = errors.filter(|error| *error != client.process.error);
            actions.extend(others.map(|error| Action::Jump(who, error)));
        }
        hearings(world, state, who, actions);
    }
}

/// The answers that a process may hear, and what may become of what it then has to tell.
pub fn hearings(world: &World, state: &State, who: Who, actions: &mut Vec<Action>) {
    let process = match who {
        crate::names::KEEPER => &state.keeper,
        _ => &state.clients[usize::from(who)].process,
    };
    let Some(call) = process.call else { return };
    for reply in &process.replies {
        let tells = match world.rows.reading(call, *reply) {
            Reading::Over(Some(_)) => &[Tell::Now, Tell::Sometime, Tell::Not][..],
            _ => &[Tell::Not],
        };
        actions.extend(tells.iter().map(|tell| Action::Hears(who, *reply, *tell)));
    }
}

/// A client does something of its own accord.
pub fn acts(world: &World, state: &mut State, action: Action) -> Option<()> {
    let (Action::Asks(who)
    | Action::AsksAgain(who)
    | Action::Extends(who)
    | Action::Releases(who)
    | Action::Writes(who)
    | Action::Crashes(who)
    | Action::IsStopped(who)) = action
    else {
        return None;
    };
    let n = usize::from(who);
    match (action, state.clients[n].phase) {
        (Action::Asks(_), _) => {
            state.clients[n].attempt += 1;
            state.clients[n].phase = Phase::Asking;
            asks(world, state, who)
        }
        (Action::AsksAgain(_), _) => asks(world, state, who),
        (Action::Extends(_), Phase::Holding(handle)) => {
            let what = if handle.confirmed {
                What::Extend(handle.lease, handle.token)
            } else {
                What::Take(handle.lease, handle.token)
            };
            world.send(state, who, what).map(drop)
        }
        (Action::Releases(_), Phase::Holding(handle) | Phase::Releasing(handle)) => {
            state.clients[n].phase = Phase::Releasing(handle);
            let what = What::Release(handle.lease, handle.token, !handle.confirmed);
            world.send(state, who, what).map(drop)
        }
        (Action::Writes(_), phase) => {
            let (Phase::Holding(handle) | Phase::Lingering(handle, _)) = phase else {
                return None;
            };
            // One that believes; its write may arrive when it has long stopped to.
            state.clients[n].believes(state.now)?;
            state.fly(crate::message::Message {
                from: who,
                call: 0,
                sent: 0,
                what: What::Write(handle.token),
            });
            Some(())
        }
        (Action::Crashes(_), _) => {
            state.clients[n].ends(Phase::Gone);
            Some(())
        }
        (Action::IsStopped(_), Phase::Holding(handle)) => {
            let until = state.now + world.scope.grace;
            state.clients[n].ends(Phase::Lingering(handle, until));
            Some(())
        }
        _ => None,
    }
}

fn asks(world: &World, state: &mut State, who: Who) -> Option<()> {
    let client = &state.clients[usize::from(who)];
    let attempt = client.attempt;
    let what = if world.scope.queue {
        What::Join(attempt)
    } else {
        match (world.scope.clocks, client.observed) {
            (Clocks::Unasked, Some((version, since))) => {
                // Its Wait state is over.
                if state.now <= since + world.scope.ttl {
                    return None;
                }
                What::Grant(attempt, Some(version))
            }
            // A version that no row has: a first ask that trusts no clock.
            (Clocks::Unasked, None) => What::Grant(attempt, Some(Count::MIN / 4)),
            _ => What::Grant(attempt, None),
        }
    };
    world.send(state, who, what).map(drop)
}

/// A client hears an answer to its call.
pub fn hears(world: &World, state: &mut State, who: Who, reply: Reply, tell: Tell) -> Option<()> {
    let n = usize::from(who);
    let call = state.clients[n].process.call.take()?;
    state.clients[n].process.replies.clear();
    let reading = world.rows.reading(call, reply);
    let clock = World::clock(state, &state.clients[n].process);
    let client = &mut state.clients[n];
    match (reading, client.phase) {
        (Reading::Has(handle), Phase::Asking | Phase::Holding(_)) => {
            let until = world
                .design
                .believed_until(handle.until, clock, &world.scope);
            client.phase = Phase::Holding(Handle { until, ..handle });
            client.observed = None;
        }
        (Reading::Held(version), Phase::Asking) if world.scope.clocks == Clocks::Unasked => {
            let seen = world
                .design
                .observes(version, world.rows.facts(reply.row).token);
            client.observed = Some((seen, state.now));
        }
        (Reading::Consumed | Reading::Lost, _) => client.ends(Phase::Idle),
        (Reading::Grantable, Phase::Asking) => {
            let attempt = client.attempt;
            world.send(state, who, What::Grant(attempt, None))?;
        }
        // Counted before it is told, with the token that this call brings.
        (Reading::ItsTurn(lease, tries), Phase::Asking) => {
            world.send(state, who, What::TryAgain(lease, tries))?;
        }
        (Reading::Promised(promised), Phase::Holding(handle) | Phase::Releasing(handle)) => {
            let (lease, token) = (handle.lease, handle.token);
            let what = match (call.what, promised) {
                (What::Release(..), promise) => What::Release(lease, token, promise),
                (_, true) => What::Take(lease, token),
                (_, false) => What::Extend(lease, token),
            };
            world.send(state, who, what)?;
        }
        (Reading::Awaited(version, lease), _) => {
            world.send(state, who, What::Expire(version, lease))?;
        }
        (Reading::Over(kept), phase) => {
            // It asked in line; or it ended a grant of its own.
            if !matches!(call.what, What::TryAgain(..)) && phase != Phase::Asking {
                client.ends(Phase::Idle);
            }
            if let Some(kept) = kept {
                let first = !matches!(call.what, What::TryAgain(..));
                tells(world, state, who, kept, (first, tell));
            }
        }
        _ => {}
    }
    Some(())
}

/// Tells the one whom the row is kept for. A sender that is the first to, and is refused, passes the turn on.
pub fn tells(world: &World, state: &mut State, who: Who, kept: Kept, (first, tell): (bool, Tell)) {
    match tell {
        Tell::Not => {}
        Tell::Sometime => state.fly(crate::message::Message {
            from: who,
            call: 0,
            sent: 0,
            what: What::Wake(kept.who, kept.attempt, kept.lease, kept.token, kept.until),
        }),
        Tell::Now => {
            let to = (kept.who, kept.attempt);
            let woken = is_woken(state, to, (kept.lease, kept.token, kept.until));
            if !woken && (first || world.design.passes_whoever_sends()) {
                world.send(state, who, What::Pass(kept.lease, kept.tries));
            }
        }
    }
}

/// A waiting task is told that it is its turn. Whether it still waited.
pub fn is_woken(
    state: &mut State,
    (who, attempt): (Who, Attempt),
    (lease, token, until): (LeaseNo, Count, Tick),
) -> bool {
    let Some(client) = state.clients.get_mut(usize::from(who)) else {
        return false;
    };
    if client.phase != Phase::Asking || client.attempt != attempt {
        return false;
    }
    client.ends(Phase::Holding(Handle {
        lease,
        token,
        until,
        confirmed: false,
    }));
    true
}

/// A waiting task is told that it waits in vain.
pub fn is_dismissed(state: &mut State, (who, attempt): (Who, Attempt)) {
    if let Some(client) = state.clients.get_mut(usize::from(who))
        && client.phase == Phase::Asking
        && client.attempt == attempt
    {
        client.ends(Phase::Idle);
    }
}

/// Lambdas of stopped executions live no longer than a Lambda may.
pub fn die_in_time(state: &mut State) {
    for client in &mut state.clients {
        if let Phase::Lingering(_, until) = client.phase
            && state.now >= until
        {
            client.ends(Phase::Gone);
        }
    }
}

impl Client {
    fn ends(&mut self, phase: Phase) {
        self.phase = phase;
        self.process.call = None;
        self.process.replies.clear();
        self.observed = None;
    }
}
