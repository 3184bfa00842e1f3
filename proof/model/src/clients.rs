//! Clients: workflows that acquire, extend, release and write, and die.

use crate::{
    message::{Floor, Operation},
    names::{Count, Tick, Who},
    reading::{Handle, Reading},
    rows::Reply,
    scope::{Clocks, Scope},
    world::{Action, Client, End, Phase, State, World},
};

impl Client {
    /// The lease that it works with, if it continues as a holder.
    pub fn believes_held(&self, scope: &Scope, now: Tick) -> Option<Handle> {
        let ((Phase::Holding(handle), _) | (_, Some((handle, _)))) =
            (self.phase, self.outlived_task)
        else {
            return None;
        };
        let error = if scope.branches {
            -scope.error
        } else {
            self.process.error
        };
        (now + error < handle.until).then_some(handle)
    }

    /// Its execution ends; with a Lambda of it at work, or with none if every task has answered.
    fn fails(&mut self, scope: &Scope, now: Tick, handle: Handle, all_answered: bool) {
        self.ends(Phase::Ended(handle));
        if !all_answered {
            self.outlived_task = Some((handle, now + scope.grace));
        }
        self.ended = Some(End {
            stopped_at: now + scope.error,
            all_answered: all_answered && self.outlived_task.is_none(),
        });
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
                response_actions(state, who, actions);
                continue;
            }
            Phase::Asking => actions.push(Action::AsksAgain(who)),
            Phase::Holding(_) => {
                actions.push(Action::Extends(who));
                // Not while a Lambda function from before a redrive is running: a workflow can know that, a table cannot.
                if client.outlived_task.is_none() {
                    actions.push(Action::Releases(who));
                }
                if scope.writes {
                    actions.push(Action::Writes(who));
                }
                if scope.branches {
                    actions.push(Action::Fails(who));
                }
            }
            Phase::Releasing(_) => actions.push(Action::Releases(who)),
            Phase::Ended(_) => {
                if !client.redriven {
                    actions.push(Action::IsRedriven(who));
                }
                continue;
            }
            Phase::Proving(_) => actions.push(Action::Extends(who)),
            Phase::Crashed => continue,
        }
        actions.push(Action::Crashes(who));
        if scope.jumps > state.jumps {
            let errors = [-scope.error, 0, scope.error].into_iter();
            let others = errors.filter(|error| *error != client.process.error);
            actions.extend(others.map(|error| Action::Jump(who, error)));
        }
        response_actions(state, who, actions);
    }
}

/// The answers that may reach a process.
pub fn response_actions(state: &State, who: Who, actions: &mut Vec<Action>) {
    let process = state.of(who);
    if process.call.is_some() {
        let replies = process.replies.iter();
        actions.extend(replies.map(|reply| Action::Hears(who, *reply)));
    }
}

/// A client does something of its own accord.
pub fn perform(world: &World, state: &mut State, action: Action) -> Option<()> {
    let (Action::Asks(who)
    | Action::AsksAgain(who)
    | Action::Extends(who)
    | Action::Releases(who)
    | Action::Writes(who)
    | Action::Crashes(who)
    | Action::Fails(who)
    | Action::IsRedriven(who)) = action
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
        (Action::Extends(_), Phase::Holding(handle) | Phase::Proving(handle)) => {
            extends(world, state, who, handle)
        }
        (Action::Releases(_), Phase::Holding(handle) | Phase::Releasing(handle)) => {
            state.clients[n].phase = Phase::Releasing(handle);
            let what = Operation::Release(handle.lease, handle.token);
            world.send(state, who, what).map(drop)
        }
        (Action::Writes(_), phase) => {
            let Phase::Holding(handle) = phase else {
                return None;
            };
            // It believes that it holds; its write may arrive long after that has ended.
            state.clients[n].believes_held(&world.scope, state.now)?;
            state.put_in_flight(crate::message::Message {
                from: who,
                call: 0,
                sent: 0,
                what: Operation::ResourceWrite(handle.token),
                floor: Floor::None,
            });
            Some(())
        }
        (Action::Crashes(_), Phase::Holding(handle) | Phase::Proving(handle))
            if world.scope.branches =>
        {
            state.clients[n].fails(&world.scope, state.now, handle, true);
            Some(())
        }
        (Action::Crashes(_), _) => {
            // When does not matter: it does not come back.
            state.clients[n].ends(Phase::Crashed);
            state.clients[n].ended = Some(End {
                stopped_at: 0,
                all_answered: state.clients[n].outlived_task.is_none(),
            });
            Some(())
        }
        (Action::Fails(_), Phase::Holding(handle)) => {
            state.clients[n].fails(&world.scope, state.now, handle, false);
            Some(())
        }
        (Action::IsRedriven(_), Phase::Ended(handle)) => {
            let client = &mut state.clients[n];
            client.phase = Phase::Proving(handle);
            client.redriven = true;
            let until = state.now + world.scope.stale;
            let late = client.ended.take().filter(|_| until > state.now);
            client.before = late.map(|end| (end, until));
            extends(world, state, who, handle)
        }
        _ => None,
    }
}

fn extends(world: &World, state: &mut State, who: Who, handle: Handle) -> Option<()> {
    let what = Operation::Extend(handle.lease, handle.token);
    world.send(state, who, what).map(drop)
}

fn asks(world: &World, state: &mut State, who: Who) -> Option<()> {
    let client = &state.clients[usize::from(who)];
    let attempt = client.attempt;
    let what = match (world.scope.clocks, client.observed) {
        (Clocks::Unasked, Some((version, since))) => {
            // Its Wait state has ended.
            if state.now <= since + world.scope.ttl {
                return None;
            }
            Operation::Grant(attempt, Some(version))
        }
        // A version that no row has: a first ask that trusts no clock.
        (Clocks::Unasked, None) => Operation::Grant(attempt, Some(Count::MIN / 4)),
        _ => Operation::Grant(attempt, None),
    };
    world.send(state, who, what).map(drop)
}

/// An answer to its call reaches a client.
pub fn on_response(world: &World, state: &mut State, who: Who, reply: Reply) -> Option<()> {
    let n = usize::from(who);
    let call = state.clients[n].process.call.take()?;
    state.clients[n].process.replies.clear();
    let reading = world.rows.reading(call, reply);
    let clock = World::clock(state, &state.clients[n].process);
    let client = &mut state.clients[n];
    match (reading, client.phase) {
        (Reading::Has(handle), Phase::Asking | Phase::Holding(_) | Phase::Proving(_)) => {
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
        (Reading::Consumed | Reading::Lost | Reading::Over, _) => lost(world, state, who),
        (Reading::Suits(floor), _) => {
            world.send_by(state, who, call.what, floor)?;
        }
        _ => {}
    }
    Some(())
}

/// It no longer has its lease. If it believed that it had, its execution fails, while a Lambda function of another branch continues.
fn lost(world: &World, state: &mut State, who: Who) {
    let client = &mut state.clients[usize::from(who)];
    match client.phase {
        Phase::Holding(handle) if world.scope.branches => {
            client.fails(&world.scope, state.now, handle, false);
        }
        Phase::Proving(handle) => client.fails(&world.scope, state.now, handle, true),
        _ => client.ends(Phase::Idle),
    }
}

/// A Lambda function runs no longer than its limit, and answers of Step Functions are no older than their limit.
pub fn end_in_time(state: &mut State) {
    let now = state.now;
    for client in &mut state.clients {
        client.outlived_task = client.outlived_task.filter(|(_, until)| now < *until);
        client.before = client.before.filter(|(_, until)| now < *until);
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
