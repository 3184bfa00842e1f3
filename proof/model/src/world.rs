//! A state of a world, and what may happen next in it.

use stateright::{Model, Property};

use crate::{
    clients,
    design::Design,
    invariants,
    message::{Floor, Message, Operation},
    names::{CALLS, Count, FLOOR, SWEEPER, Tick, Who},
    oracle::Oracle,
    reading::Handle,
    rows::{ABSENT, FOREIGN, Reply, RowNo, Rows},
    scope::{Clocks, Scope},
    sweeper, table,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The true time.
    pub now: Tick,
    /// What is stored in the table.
    pub row: RowNo,
    pub clients: Vec<Client>,
    pub sweeper: Process,
    /// What may arrive, any number of times, and how often it has changed the row; in order, so that equal
    /// sets are equal.
    pub in_flight: Vec<(Message, u8)>,
    /// What is being reaped.
    pub reaping: Option<Reaping>,
    /// The row as it is in a backup, and what had been seen then: none once that was restored.
    pub backup: Option<Box<(RowNo, Oracle)>>,
    /// The token of the last guarded write that the resource accepted.
    pub fence: Count,
    pub jumps: u8,
    pub oracle: Oracle,
}

/// Something with a clock that makes calls, one at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Process {
    /// How far its clock is from the true time.
    pub error: Tick,
    /// How many calls it has made.
    pub calls: u8,
    /// The one whose answer it waits for.
    pub call: Option<Message>,
    /// What has been answered to that one. It may never get there.
    pub replies: Vec<Reply>,
}

/// A workflow: at most one lease at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    pub process: Process,
    /// Which acquire it is at.
    pub attempt: u8,
    pub phase: Phase,
    /// The version that it was refused by, and when.
    pub observed: Option<(Count, Tick)>,
    /// What a Lambda function still works with after its execution has ended, and until when it runs, by the true time.
    pub outlived_task: Option<(Handle, Tick)>,
    /// How its execution ended.
    pub ended: Option<End>,
    /// It was redriven, which it is once at most.
    pub redriven: bool,
    /// How it had ended before that, and until when Step Functions may still say so.
    pub before: Option<(End, Tick)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Between two acquires, or done.
    Idle,
    /// It wants the lease.
    Asking,
    Holding(Handle),
    /// It no longer believes that it holds.
    Releasing(Handle),
    /// Its execution has ended.
    Ended(Handle),
    /// It was redriven, and proves its lease before it continues.
    Proving(Handle),
    /// It died without a word.
    Crashed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Tick,
    Jump(Who, Tick),
    Arrives(Message),
    Hears(Who, Reply),
    /// The answer is lost.
    ResponseLost(Who),
    Asks(Who),
    AsksAgain(Who),
    Extends(Who),
    Releases(Who),
    Writes(Who),
    Crashes(Who),
    /// The execution ends, with any status; a Lambda function of an aborted branch continues.
    Fails(Who),
    IsRedriven(Who),
    Sweeps,
    /// Reap begins to clear what this execution left.
    Reaps(Who),
    /// Reap learns how the execution ended, and acts on it.
    ReapWrites(End),
    /// The table is restored from a backup, and every function deployed with a floor, before the next call.
    Restored,
    /// The row is deleted: by DynamoDB once it is free, or by a person before that.
    Purge,
}

/// What a reap knows before it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reaping {
    /// Whose it is.
    pub of: Who,
    /// What stood there when it set out.
    pub row: RowNo,
    /// How that one had ended by then, if it asked before it read.
    pub end: Option<End>,
}

/// How an execution ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct End {
    /// By a clock that is as far ahead as any may be.
    pub stopped_at: Tick,
    /// None of its tasks can still be running.
    pub all_answered: bool,
}

/// A scope in a design: what stateright explores.
pub struct World {
    pub scope: Scope,
    pub design: Design,
    pub rows: Rows,
}

impl World {
    pub fn new(scope: Scope, design: Design) -> Self {
        let scope = design.in_its_world(scope);
        let rows = Rows::new(scope, design);
        Self {
            scope,
            design,
            rows,
        }
    }

    /// What a process's clock says.
    pub const fn clock(state: &State, process: &Process) -> Tick {
        state.now + process.error
    }

    /// A new call of a process, on its way; nothing if no more calls are to be made in this world.
    pub fn send(&self, state: &mut State, who: Who, what: Operation) -> Option<Message> {
        let token = match what {
            Operation::Release(_, token) => token,
            // Without having read the row.
            Operation::Grant(..) => FLOOR,
            _ => self.rows.facts(state.row).token,
        };
        let floor = self.floor(state, token);
        self.send_by(state, who, what, floor)
    }

    /// What a sender knows of the floor that has read a row with this token.
    pub fn floor(&self, state: &State, token: Count) -> Floor {
        Floor::of(self.scope.restore && state.backup.is_none(), token)
    }

    /// The same, for a row that is known to be above the floor, or below it.
    pub fn send_by(
        &self,
        state: &mut State,
        who: Who,
        what: Operation,
        floor: Floor,
    ) -> Option<Message> {
        let made = state.clients.iter().map(|client| client.process.calls);
        let made: u8 = made.chain([state.sweeper.calls]).sum();
        let now = state.now;
        let process = state.process(who);
        if made >= self.scope.calls + self.scope.spent || process.calls + 1 >= CALLS {
            return None;
        }
        process.calls += 1;
        let message = Message {
            from: who,
            call: process.calls,
            sent: now + process.error,
            what,
            floor,
        };
        process.call = Some(message);
        process.replies.clear();
        state.put_in_flight(message);
        Some(message)
    }
}

impl State {
    pub fn of(&self, who: Who) -> &Process {
        match who {
            SWEEPER => &self.sweeper,
            _ => &self.clients[usize::from(who)].process,
        }
    }

    pub fn process(&mut self, who: Who) -> &mut Process {
        match who {
            SWEEPER => &mut self.sweeper,
            _ => &mut self.clients[usize::from(who)].process,
        }
    }

    pub fn put_in_flight(&mut self, message: Message) {
        let place = self
            .in_flight
            .binary_search_by_key(&message, |(flies, _)| *flies);
        if let Err(place) = place {
            self.in_flight.insert(place, (message, 0));
        }
    }

    /// A message has changed the row. An extend may do so each time it arrives, if by nothing but the version: two
    /// times stand for any number.
    pub fn took_effect(&mut self, message: Message) {
        for (flies, times) in &mut self.in_flight {
            *times += u8::from(*flies == message);
        }
        self.in_flight.retain(|(_, times)| *times < 2);
    }

    /// Each client, with its number.
    pub fn whos(&self) -> impl Iterator<Item = (Who, &Client)> {
        (0..).zip(&self.clients)
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let error = self.scope.error;
        let errors: &[Tick] = if self.scope.wrong_from_the_start {
            &[-error, error]
        } else {
            &[0]
        };
        let mut worlds: Vec<Vec<Tick>> = vec![Vec::new()];
        let processes = self.scope.clients + usize::from(self.scope.sweep);
        for n in 0..processes {
            // Clients are alike, so it does not matter which of them has which clock. If the first one holds from the
            // beginning, a waiter does most harm if its clock is ahead, and the sweeper if its clock is as wrong as possible.
            let sweeps = n == self.scope.clients;
            let alike = |errors_of: &[Tick], error: Tick| match errors_of {
                [first, ..] if self.scope.branches && sweeps => error == -first,
                [_, ..] if self.scope.branches => error > 0,
                [.., last] => sweeps || *last <= error,
                [] => true,
            };
            let more = |errors_of: Vec<Tick>| {
                let errors = errors.iter().filter(|error| alike(&errors_of, **error));
                let longer = errors.map(|error| [errors_of.clone(), vec![*error]].concat());
                longer.collect::<Vec<_>>()
            };
            worlds = worlds.into_iter().flat_map(more).collect();
        }
        let strange: &[RowNo] = if self.scope.strangers {
            &[FOREIGN]
        } else {
            &[ABSENT]
        };
        let worlds = worlds
            .iter()
            .flat_map(|errors| strange.iter().map(move |row| (errors, *row)));
        let worlds = worlds.map(|(errors, row)| self.beginning(errors, row));
        if self.scope.past > 0 {
            return worlds.filter_map(|state| self.with_a_past(state)).collect();
        }
        if self.scope.spent == 0 {
            return worlds.collect();
        }
        let held = worlds.filter_map(|state| self.with_others_behind(state));
        if !self.scope.restore {
            return held.collect();
        }
        let kept = |state: &State| {
            let state = self.next_state(state, Action::Releases(0))?;
            let call = state.clients[0].process.call?;
            self.next_state(&state, Action::Arrives(call))
        };
        let both = held.flat_map(|state| [kept(&state), Some(state)]);
        let backed_up = |state: State| State {
            in_flight: Vec::new(),
            backup: Some(Box::new((state.row, state.oracle.clone()))),
            ..state
        };
        both.flatten().map(backed_up).collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let whos = state.whos().map(|(who, _)| who);
        let heard = |who: &Who| !state.of(*who).replies.is_empty();
        if self.scope.once
            && let Some(who) = whos.chain([SWEEPER]).find(heard)
        {
            clients::response_actions(state, who, actions);
            return actions.push(Action::ResponseLost(who));
        }
        if state.now < self.scope.ticks {
            actions.push(Action::Tick);
        }
        actions.extend(
            state
                .in_flight
                .iter()
                .map(|(message, _)| Action::Arrives(*message)),
        );
        clients::actions(self, state, actions);
        sweeper::actions(self, state, actions);
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::Tick => {
                state.now += 1;
                clients::end_in_time(&mut state);
            }
            Action::Jump(who, error) => {
                state.process(who).error = error;
                state.jumps += 1;
            }
            Action::Arrives(message) => {
                if self.scope.once {
                    state.in_flight.retain(|(flies, _)| *flies != message);
                }
                table::takes(self, &mut state, message);
            }
            Action::ResponseLost(who) => {
                state.process(who).call = None;
                state.process(who).replies.clear();
            }
            Action::Hears(SWEEPER, _) => {
                state.sweeper.call = None;
                state.sweeper.replies.clear();
            }
            Action::Hears(who, reply) => clients::on_response(self, &mut state, who, reply)?,
            Action::Sweeps => sweeper::sweeps(self, &mut state)?,
            Action::Reaps(who) => sweeper::reaps(self, &mut state, who),
            Action::ReapWrites(end) => sweeper::reap_writes(self, &mut state, end)?,
            Action::Restored => table::restored(&mut state)?,
            Action::Purge => table::purged(&mut state),
            of_a_client => clients::perform(self, &mut state, of_a_client)?,
        }
        invariants::look(self, &mut state);
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        invariants::properties()
    }
}

impl World {
    fn beginning(&self, errors: &[Tick], row: RowNo) -> State {
        let process = |n: usize| Process {
            error: errors.get(n).copied().unwrap_or(0),
            ..Process::default()
        };
        State {
            now: -self.scope.since,
            row,
            clients: (0..self.scope.clients)
                .map(|n| Client {
                    process: process(n),
                    attempt: 0,
                    phase: Phase::Idle,
                    observed: None,
                    outlived_task: None,
                    ended: None,
                    redriven: false,
                    before: None,
                })
                .collect(),
            sweeper: process(self.scope.clients),
            in_flight: Vec::new(),
            reaping: None,
            backup: self
                .scope
                .restore
                .then(|| Box::new((row, Oracle::default()))),
            fence: Count::MIN,
            jumps: 0,
            oracle: Oracle::default(),
        }
    }

    /// The first client has the key. The others have seen it; their calls are still under way.
    fn with_others_behind(&self, mut state: State) -> Option<State> {
        for who in (0..).take(self.scope.clients) {
            state = self.next_state(&state, Action::Asks(who))?;
            state = self.with_its_calls_made(state, who)?;
        }
        state.now = 0;
        Some(state)
    }

    /// The first client has had the key a few times, and released it. Its acquires are still under way.
    fn with_a_past(&self, mut state: State) -> Option<State> {
        for _ in 0..self.scope.past {
            state = self.next_state(&state, Action::Asks(0))?;
            state = self.with_its_calls_made(state, 0)?;
            let asked = state.in_flight.clone();
            state = self.next_state(&state, Action::Releases(0))?;
            state = self.with_its_calls_made(state, 0)?;
            state.in_flight = asked;
        }
        Some(state)
    }

    /// Each of its calls arrives, and is answered, until it has no more to make.
    fn with_its_calls_made(&self, mut state: State, who: Who) -> Option<State> {
        while let Some(call) = state.process(who).call {
            state = self.next_state(&state, Action::Arrives(call))?;
            let reply = *state.process(who).replies.last()?;
            state = self.next_state(&state, Action::Hears(who, reply))?;
        }
        Some(state)
    }

    /// Whether no two may believe at once that they hold.
    pub fn is_exclusive(&self) -> bool {
        self.scope.clocks != Clocks::Differ
    }
}
