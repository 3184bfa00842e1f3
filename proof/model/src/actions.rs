//! What may happen next in a state of a world of executions.

use leasehold::StartStatus;

use super::{
    flaws::Flaw,
    library::{Call, Next, NodeNo, Table},
    names::{self, Attempt, CALLERS, KeyNo, Tick, Who},
    scope::Kind,
    seam::Ask,
    state::{Executing, Phase, State},
    stops,
    world::World,
};

/// What befalls a request of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It takes effect, and the answer arrives; the n-th of those that Step Functions may give.
    Answered(usize),
    /// It takes effect, and there is no answer.
    AnswerLost,
    /// It takes effect later or never, and there is no answer.
    Late,
    /// It takes effect, and is sent again.
    SentAgain,
    /// Its sender dies before it.
    Dies,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Tick,
    Step(NodeNo, Fate),
    Arrives(usize),
    Asks(Who),
    /// With a new token; of the same request, or of a new one.
    Retries(Who),
    AsksAnew(Who),
    TimesOut(Who),
    CarriesOn(Who),
    GivesUp(Who),
    Releases(Who),
    /// It has a section of the same key, from begin to end.
    Nests(Who),
    Proves(Who),
    /// It succeeds without a release.
    Succeeds(Who),
    /// It fails or is stopped; with a Lambda function of it at work, or with none.
    Fails(Who, bool),
    WorkEnds(Who),
    IsRedriven(Who),
    Sweeps,
    Reaps(Who),
    Evicts(KeyNo),
    /// An operator sets the limit to 0, or takes that back.
    Limits(KeyNo, bool),
    Extends(Who),
    /// A program writes to the resource; and what it wrote gets there.
    Writes(Who),
    Lands(usize),
    Jumps(Who, Tick),
    SweeperJumps(Tick),
    Restores,
    Wipes,
    /// The index shows what the table is by now.
    Indexes,
    /// An operator freezes the key, or takes that back.
    Freezes(KeyNo, bool),
    /// The event of a start comes again, or its name with another input.
    Again(Who),
    Other(Who),
    Purges(Who),
    Repeats(Who),
    Dismisses(Who),
    /// An operator begins the start that has its turn.
    Begins(Who),
    /// The execution whose task waits for this start is stopped.
    CallerEnds(Who),
    /// The event that it runs again arrives.
    IsToldRedriven(Who),
}

impl World {
    /// What may happen next.
    pub fn may_happen(&self, state: &State, actions: &mut Vec<Action>) {
        let left = &state.left;
        for node in &state.calls {
            let Next::Asks(ask) = self.library.next(*node) else {
                continue;
            };
            let ask = self.library.ask(ask);
            let ways = self.answers(state, &ask).len();
            let ways = (ways + usize::from(ask.acts())).max(1);
            actions.extend((0..ways).map(|way| Action::Step(*node, Fate::Answered(way))));
            let told = ask.calls();
            if ask.acts() && (if told { left.lost } else { left.unheard }) > 0 {
                actions.push(Action::Step(*node, Fate::AnswerLost));
                actions.push(Action::Step(*node, Fate::Late));
                if !told {
                    actions.push(Action::Step(*node, Fate::SentAgain));
                }
            }
            if left.crash > 0 {
                actions.push(Action::Step(*node, Fate::Dies));
            }
        }
        actions.extend((0..state.late.len()).map(Action::Arrives));
        // No function runs for more than a minute, but one that is about to call and comes too late.
        let calls = |node: &NodeNo| match self.library.next(*node) {
            Next::Asks(ask) => matches!(*self.library.ask(ask), Ask::Begin(..)),
            Next::Ends(_) => false,
        };
        let is_short = self.next_tick(state) <= names::CALLS_WITHIN;
        let may_pass = is_short || state.calls.iter().all(calls);
        if left.tick > 0 && may_pass {
            actions.push(Action::Tick);
        }
        for (who, executing) in (0..).zip(&state.executions) {
            if self.is_program(who) {
                self.program_may(state, (who, executing), actions);
            } else {
                self.of_an_execution(state, (who, executing), actions);
            }
            if executing.work.is_some() {
                actions.push(Action::WorkEnds(who));
            }
            if left.reap > 0 && executing.ended.is_some() {
                actions.push(Action::Reaps(who));
            }
        }
        // Where minutes pass, no two sweeps run at once, so that the world is small.
        let sweeps = |node: &NodeNo| matches!(self.library.call(*node), Call::Sweep(_));
        let is_apart = self.scope.ticks.len() > 1 && state.calls.iter().any(sweeps);
        if left.look > 0 && !is_apart {
            actions.push(Action::Sweeps);
        }
        for key in self.scope.operated {
            let table = self.library.table(state.table);
            let first = table.view(*key, 0);
            if left.evict > 0 && first.lease.is_some() {
                actions.push(Action::Evicts(*key));
            }
            if left.freeze > 0 {
                let frozen = table.row(*key).is_some_and(|row| row.frozen.is_some());
                actions.push(Action::Freezes(*key, !frozen));
            }
            if left.limit > 0 {
                actions.push(Action::Limits(*key, !table.is_limited(*key)));
            }
        }
        if left.jump > 0 && left.look > 0 {
            let errors = [-self.scope.error, 0, self.scope.error].into_iter();
            let others = errors.filter(|error| *error != state.sweeper);
            actions.extend(others.map(Action::SweeperJumps));
        }
        if left.index > 0 && state.index != state.table {
            actions.push(Action::Indexes);
        }
        self.table_may(state, actions);
    }

    fn of_an_execution(
        &self,
        state: &State,
        (who, executing): (Who, &Executing),
        actions: &mut Vec<Action>,
    ) {
        let left = &state.left;
        let releases = |node: &NodeNo| matches!(self.library.call(*node), Call::Release(of, ..) | Call::Prove(of, ..) | Call::Nests(of, ..) if of == who);
        let busy = state.calls.iter().any(releases);
        let kind = self.scope.kinds[usize::from(who)];
        if self.is_start(who) {
            self.of_a_start(state, (who, executing), actions);
        }
        let ends_by_itself = self.is_start(who) && !stops::is_to_be_stopped(self, state, who);
        match executing.phase {
            Phase::Idle if self.is_start(who) => {}
            Phase::Idle => actions.push(Action::Asks(who)),
            Phase::Waiting => {
                if left.timeout > 0 {
                    actions.push(Action::TimesOut(who));
                }
                if left.fail > 0 {
                    actions.push(Action::Fails(who, false));
                }
            }
            Phase::Failed => {
                if left.retry > 0 {
                    actions.push(Action::Retries(who));
                    if kind == Kind::AsksAnew {
                        actions.push(Action::AsksAnew(who));
                    }
                }
                actions.push(if kind == Kind::CarriesOn {
                    Action::CarriesOn(who)
                } else {
                    Action::GivesUp(who)
                });
            }
            Phase::Without | Phase::Released if self.is_start(who) => {
                if ends_by_itself || left.end > 0 {
                    actions.push(Action::Succeeds(who));
                }
            }
            // It waits for the end of its section.
            Phase::Section if busy => {}
            Phase::Section => {
                if left.nest > 0 {
                    actions.push(Action::Nests(who));
                }
                let is_start = self.is_start(who);
                let has = |lease| self.library.callers.has_handle(lease);
                if !is_start || left.release > 0 && executing.handle().is_some_and(has) {
                    actions.push(Action::Releases(who));
                }
                if ends_by_itself || left.end > 0 {
                    actions.push(Action::Succeeds(who));
                }
                if left.fail > 0 {
                    actions.push(Action::Fails(who, false));
                    actions.push(Action::Fails(who, true));
                }
            }
            // No call of it is under way: it died, or failed.
            Phase::Releasing if !busy => {
                if left.retry > 0 {
                    actions.push(Action::Releases(who));
                }
                actions.push(Action::GivesUp(who));
            }
            Phase::Proving if !busy => {
                actions.push(Action::Proves(who));
                if left.fail > 0 {
                    actions.push(Action::Fails(who, false));
                }
            }
            Phase::Over => {
                let end = executing.ended.filter(|end| end.redrivable);
                let guarded = self.scope.guarded[usize::from(who)];
                let kept = end.is_some_and(|end| {
                    state.now <= end.stopped + self.scope.keep[usize::from(who)]
                });
                let free = guarded || executing.lease.is_none() || self.is_start(who);
                let may = end.is_some() && (free || kept);
                if left.redrive > 0 && may && self.is_time_to_redrive(state, who) {
                    actions.push(Action::IsRedriven(who));
                }
            }
            Phase::Releasing | Phase::Proving | Phase::Without | Phase::Released => {}
        }
    }

    /// Where several are redriven, and that is looked at, every other one has lost its key before.
    fn is_time_to_redrive(&self, state: &State, who: Who) -> bool {
        let is_any = !self.scope.watches || state.left.redrive % 2 == 1;
        is_any || self.library.table(state.table).held_by(who).is_none()
    }

    /// Whether this request is in the queue of its key.
    pub fn waits_in_queue(&self, table: &Table, who: Who, by: Attempt) -> bool {
        let mut queue = table.queue(self.key_of(who)).iter();
        queue.any(|request| names::whose(request) == Some((who, by)))
    }

    /// What concerns a start, whether its execution runs or not.
    fn of_a_start(
        &self,
        state: &State,
        (who, executing): (Who, &Executing),
        actions: &mut Vec<Action>,
    ) {
        let left = &state.left;
        if executing.tokens == 0 {
            return actions.push(Action::Asks(who));
        }
        let table = self.library.table(state.table);
        let status = table.start(who).map(|(status, _)| status);
        let failed = matches!(status, Some(StartStatus::Failed(_)));
        let waits = status == Some(&StartStatus::Waiting);
        // No function runs that knew it, and it is kept for longer than any execution runs.
        let over = !executing.runs() && !self.waits_in_queue(&table, who, names::START);
        let over = over && table.held_by(who).is_none() || self.is(Flaw::ItemsAreGoneTooEarly);
        let settled =
            status.is_some() && !waits && (!failed || self.is(Flaw::FailedItemsArePurged));
        let purged = settled && over && state.calls.is_empty() && executing.standings.len() == 1;
        let calls = !executing.task.has_no_caller();
        if left.reap > 0 && !calls {
            actions.push(Action::Reaps(CALLERS + who));
        }
        // Before that there is nothing that could stop with it.
        let begins = executing.runs() || executing.task.is_accepted();
        let may = [
            (left.caller, calls && begins, Action::CallerEnds(who)),
            (left.again, calls, Action::Again(who)),
            (left.other, calls, Action::Other(who)),
            (left.purge, purged, Action::Purges(who)),
            (left.repeat, failed, Action::Repeats(who)),
            (left.dismiss, failed || waits, Action::Dismisses(who)),
            (left.begin, waits, Action::Begins(who)),
            (
                left.reap,
                executing.redriven > 0,
                Action::IsToldRedriven(who),
            ),
        ];
        let may = may.into_iter().filter(|(left, may, _)| *left > 0 && *may);
        actions.extend(may.map(|(_, _, action)| action));
    }
}
