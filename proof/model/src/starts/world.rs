//! A state of a world of starts, and what may happen next in it.

use dashmap::DashMap;
use stateright::{Model, Property};

use super::{
    calls::{Answer, By, Call, Fate, Step},
    design::{Input, Item, Status},
    flaws::Flaw,
    invariants::{self, Seen},
    rows::{Count, MOST, RowNo, Rows, Start, Tick},
    scope::{Budget, Scope},
    service::{Execution, Exempt, Status as Of},
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub now: Tick,
    pub row: RowNo,
    pub items: [Option<Item>; MOST],
    pub executions: [Execution; MOST],
    /// Starts whose first event is not delivered yet.
    pub expected: Vec<Start>,
    /// Calls of functions; in order, so that equal sets are equal.
    pub calls: Vec<Call>,
    /// Calls of `StartExecution` that arrive later or never.
    pub late: Vec<Late>,
    /// In which order the starts took their places.
    pub order: Vec<Start>,
    pub service: Service,
    pub left: Budget,
    pub seen: Seen,
}

/// A start, its input, the token that is passed, and until when the signature is good.
pub type Late = (Start, Input, Count, Tick);

/// How the service answers `StartExecution`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Service {
    Open,
    Throttles,
    /// For good: there is no such machine, or it may not be started.
    Denies,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Tick,
    Step(Call, Fate),
    Arrives(Late),
    /// The first event of a start, a duplicate, or one with another input.
    Event(Start),
    Again(Start),
    Other(Start),
    Looks,
    Succeeds(Start),
    Fails(Start),
    IsRedriven(Start),
    Releases(Start),
    Leaves(Start),
    Purges(Start),
    Repeats(Start),
    Others,
    IsForgotten(Start),
    Forces,
    Denies,
    Throttles,
    /// The event of an end is believed.
    Ended(Start),
}

pub struct World {
    pub scope: Scope,
    pub flaw: Option<Flaw>,
    pub rows: Rows,
    first_row: RowNo,
    /// What is broken, from states in which no function runs, if nothing goes wrong any more.
    pub settled: DashMap<State, u16>,
}

impl World {
    pub fn new(scope: Scope, flaw: Option<Flaw>) -> Self {
        let (rows, first_row) = Rows::new();
        Self {
            scope,
            flaw,
            rows,
            first_row,
            settled: DashMap::new(),
        }
    }

    pub fn is(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each action")]
    pub fn acts(&self, state: &mut State, action: Action) {
        let call = |step, start: Start, by| Call::new(step, start, by);
        match action {
            Action::Tick => {
                state.left.tick -= 1;
                self.passes(state);
            }
            Action::Step(taken, fate) => self.step(state, taken, fate),
            Action::Arrives(late) => {
                let place = state.late.iter().position(|other| *other == late);
                place.map(|place| state.late.remove(place));
                let (start, input, passed, _) = late;
                if state.service != Service::Throttles {
                    self.begins(state, start, (input, passed));
                }
            }
            Action::Event(start) => {
                state.expected.retain(|other| *other != start);
                state.begin(call(Step::PutItem, start, By::Start));
            }
            Action::Again(start) => {
                state.left.again -= 1;
                state.begin(call(Step::PutItem, start, By::Start));
            }
            Action::Other(start) => {
                state.left.other -= 1;
                state.begin(Call {
                    input: 1,
                    ..call(Step::PutItem, start, By::Start)
                });
            }
            Action::Looks => {
                state.left.look -= 1;
                state.begin(call(Step::ReadRow, 0, By::Look));
            }
            Action::Succeeds(start) => state.ends(start, Of::Succeeded),
            Action::Fails(start) => {
                state.left.fail -= 1;
                state.ends(start, Of::Failed);
            }
            Action::IsRedriven(start) => {
                state.left.redrive -= 1;
                let now = state.now;
                let execution = &mut state.executions[usize::from(start)];
                let kept = self.scope.keep > 0 && now <= execution.stopped + self.scope.keep;
                // Nobody can know of the others: they are the exception of S8.
                if !kept && execution.exempt == Exempt::No && !self.is(Flaw::RedrivesCount) {
                    execution.exempt = Exempt::Redriven;
                }
                execution.becomes(Of::Running, now);
            }
            Action::Releases(start) => {
                state.left.release -= 1;
                let token = self.rows.view(state.row).token;
                state.begin(Call {
                    token,
                    ..call(Step::Release, start, By::Release)
                });
            }
            Action::Leaves(start) => {
                state.left.leave -= 1;
                state.begin(call(Step::AskLeave, start, By::Look));
            }
            Action::Purges(start) => {
                state.left.purge -= 1;
                state.items[usize::from(start)] = None;
                state.seen.purged |= 1 << start;
                state.row = self.rows.forget(state.row);
            }
            Action::Repeats(start) => {
                state.left.repeat -= 1;
                if let Some(item) = &mut state.items[usize::from(start)] {
                    item.status = Status::Waiting;
                }
                state.order.retain(|other| *other != start);
                state.begin(call(Step::Join, start, By::Start));
            }
            Action::Others => {
                state.left.others -= 1;
                state.row = self.rows.forget(state.row);
            }
            Action::IsForgotten(start) => {
                state.left.forget -= 1;
                state.executions[usize::from(start)].is_forgotten();
            }
            Action::Forces => {
                state.left.force -= 1;
                let view = self.rows.view(state.row);
                let Some(start) = view.holder else { return };
                let step = match state.status(start) {
                    Some(Status::Waiting) if self.scope.at_once => Step::Mark,
                    Some(Status::Waiting) if !self.is(Flaw::ForcedIsFree) => Step::AskForce,
                    Some(Status::Failed) => Step::TakeBack,
                    // The operator's word, whether it runs or not.
                    _ => Step::End,
                };
                let input = state.items[usize::from(start)].map_or(0, |item| item.input);
                let version = view.version;
                state.begin(Call {
                    input,
                    version,
                    ..call(step, start, By::Operator)
                });
            }
            Action::Denies => {
                state.left.deny -= 1;
                state.service = match state.service {
                    Service::Denies => Service::Open,
                    Service::Open | Service::Throttles => Service::Denies,
                };
            }
            Action::Throttles => {
                state.left.throttle -= 1;
                state.service = match state.service {
                    Service::Throttles => Service::Open,
                    Service::Open | Service::Denies => Service::Throttles,
                };
            }
            Action::Ended(start) => {
                let version = self.rows.view(state.row).version;
                state.begin(Call {
                    version,
                    ..call(Step::End, start, By::Look)
                });
            }
        }
    }

    /// Half a minute passes.
    pub fn passes(&self, state: &mut State) {
        state.now += 1;
        let now = state.now;
        for execution in &mut state.executions {
            execution.settles();
        }
        if !self.scope.ever {
            state.late.retain(|(.., until)| now <= *until);
        }
    }

    /// Every call comes to its end, one after the other, and nothing goes wrong.
    pub fn finish(&self, state: &mut State) {
        while let Some(call) = state.calls.first().copied() {
            self.step(state, call, Fate::Answered(Answer::FRESH));
            invariants::check(self, state);
        }
    }

    fn actions_of(&self, state: &State, start: Start, actions: &mut Vec<Action>) {
        let left = &state.left;
        let execution = &state.executions[usize::from(start)];
        let item = state.items[usize::from(start)];
        let is = |status: Status| item.is_some_and(|item| item.status == status);
        let row = self.rows.view(state.row);
        let mut may = |budget: u8, action: Action| {
            if budget > 0 {
                actions.push(action);
            }
        };
        match execution.status {
            Of::Running => {
                may(1, Action::Succeeds(start));
                may(left.fail, Action::Fails(start));
                let releases = |call: &Call| (call.step, call.start) == (Step::Release, start);
                if row.holder == Some(start)
                    && execution.is_ours()
                    && !state.calls.iter().any(releases)
                    && execution.exempt != Exempt::Released
                {
                    may(left.release, Action::Releases(start));
                }
            }
            Of::Failed => may(left.redrive, Action::IsRedriven(start)),
            Of::Unknown | Of::Succeeded => {}
        }
        if self.is(Flaw::EventsAreBelieved) && execution.stopped >= 0 && row.holder == Some(start) {
            may(1, Action::Ended(start));
        }
        if !state.expected.contains(&start) {
            may(left.again, Action::Again(start));
        }
        may(left.other, Action::Other(start));
        let later = state.is_later(start);
        // It is kept for longer than any execution runs.
        let over = !execution.runs() || self.is(Flaw::ItemsAreGoneTooEarly);
        let served = is(Status::Served) && later && over;
        if served || is(Status::Failed) && self.is(Flaw::FailedItemsArePurged) {
            may(left.purge, Action::Purges(start));
        }
        if is(Status::Failed) && (execution.is_ours() || execution.status == Of::Unknown) {
            may(left.repeat, Action::Repeats(start));
        }
        let late = state.late.iter().any(|(late, ..)| *late == start);
        if execution.is_over() && later && !late && !is(Status::Waiting) {
            may(left.forget, Action::IsForgotten(start));
        }
        let queued = row.is_queued(start) || self.is(Flaw::WaitsEndBlindly);
        if is(Status::Waiting) && queued {
            may(left.leave, Action::Leaves(start));
        }
    }
}

impl State {
    fn ends(&mut self, start: Start, how: Of) {
        let execution = &mut self.executions[usize::from(start)];
        execution.becomes(how, self.now);
        if how == Of::Succeeded {
            execution.exempt = Exempt::No;
        }
    }

    /// Days later: no function runs that knew it, and what the service says of it is settled.
    fn is_later(&self, start: Start) -> bool {
        self.calls.is_empty() && self.now > self.executions[usize::from(start)].at
    }

    pub fn begin(&mut self, call: Call) {
        let place = self.calls.partition_point(|other| *other < call);
        self.calls.insert(place, call);
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut executions = [Execution::NONE; MOST];
        if let Some(status) = self.scope.foreign {
            executions[0] = Execution::foreign(status);
        }
        vec![State {
            now: 0,
            row: self.first_row,
            items: [None; MOST],
            executions,
            expected: (0..self.scope.starts).collect(),
            calls: Vec::new(),
            late: Vec::new(),
            order: Vec::new(),
            service: Service::Open,
            left: self.scope.budget,
            seen: Seen::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let left = &state.left;
        let mut last = None;
        for call in &state.calls {
            if last == Some(*call) {
                continue;
            }
            last = Some(*call);
            for number in 0..state.answers(call) {
                let soon = Answer {
                    number,
                    slow: false,
                };
                actions.push(Action::Step(*call, Fate::Answered(soon)));
                if left.slow > 0 && state.settled_by(call, soon) {
                    let slow = Answer { slow: true, ..soon };
                    actions.push(Action::Step(*call, Fate::Answered(slow)));
                }
            }
            if call.step == Step::Call && state.service == Service::Open && left.lost > 0 {
                actions.push(Action::Step(*call, Fate::AnswerLost));
            }
            if call.step == Step::Call && left.late > 0 {
                actions.push(Action::Step(*call, Fate::Late));
            }
            if call.step == Step::Call && state.service == Service::Open && left.crash > 0 {
                actions.push(Action::Step(*call, Fate::DiesAfter));
            }
            if left.crash > 0 {
                actions.push(Action::Step(*call, Fate::Dies));
            }
        }
        actions.extend(state.late.iter().copied().map(Action::Arrives));
        actions.extend(state.expected.iter().copied().map(Action::Event));
        for start in 0..self.scope.starts {
            self.actions_of(state, start, actions);
        }
        let mut may = |budget: u8, action: Action| {
            if budget > 0 {
                actions.push(action);
            }
        };
        may(left.look, Action::Looks);
        if self.rows.view(state.row).holder.is_some() {
            may(left.force, Action::Forces);
        }
        let row = self.rows.view(state.row);
        let mut starts = 0..self.scope.starts;
        if row.holder.is_none() && row.queue.is_empty() && starts.all(|start| state.is_later(start))
        {
            may(left.others, Action::Others);
        }
        may(left.deny, Action::Denies);
        may(left.throttle, Action::Throttles);
        may(left.tick, Action::Tick);
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        self.acts(&mut state, action);
        invariants::check(self, &mut state);
        invariants::look_ahead(self, &mut state);
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        invariants::properties()
    }
}
