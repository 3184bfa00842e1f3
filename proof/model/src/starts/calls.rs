//! The functions' calls: one request to the table or to Step Functions at a time.

use super::{
    design::{self, Arrival, Delays, Input, Item, Said, Status, Verdict},
    flaws::Flaw,
    invariants::Invariant,
    rows::{self, Count, RowNo, Start, TICK, Tick},
    service::{Began, Exempt, Status as Of},
    world::{Service, State, World},
};
use std::time::Duration;

/// How long a function runs at most, and how long a signed request is good: the same here.
const LONG: Tick = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    // A start.
    PutItem,
    Join,
    /// The row remembers that it was granted to this start before.
    AskRemembered,
    SettleRemembered(Status),
    // Whoever was granted the key, or has marked the row, begins the execution.
    /// Only after a grant without a queue: the item may have failed since.
    ReadItem,
    Call,
    Stop,
    AskExists,
    AskRefused,
    NoteRefusal,
    // A look.
    ReadRow,
    Ask,
    Mark,
    MarkServed,
    Fail,
    End,
    TakeBack,
    // A hand-over.
    ReadHead,
    GrantHead,
    LeaveHead,
    // The others.
    ReleaseItem,
    ReleaseRow,
    AskForce,
    AskLeave,
    Leave(Status),
}

/// Which function it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum By {
    Start,
    /// Sweep or reap.
    Look,
    Release,
    Operator,
}

/// A call under way: its next step, and what it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    pub step: Step,
    pub by: By,
    pub start: Start,
    pub input: Input,
    /// The version and the token of the row that it read or wrote.
    pub version: Count,
    pub token: Count,
    /// It wrote the grant, and so is the first to call.
    pub first: bool,
    /// When it wrote the grant or the mark.
    pub since: Tick,
}

/// What befalls a step of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The n-th of the answers that the service may give.
    Answered(usize),
    AnswerLost,
    /// It takes effect later or never, and there is no answer.
    Late,
    Dies,
}

impl Call {
    pub const fn new(step: Step, start: Start, by: By) -> Self {
        Self {
            step,
            by,
            start,
            input: 0,
            version: 0,
            token: 0,
            first: false,
            since: 0,
        }
    }

    const fn then(self, step: Step) -> Self {
        Self { step, ..self }
    }

    /// Whether it is to begin the execution, in its time.
    const fn begins(&self) -> bool {
        matches!(
            self.step,
            Step::ReadItem
                | Step::Call
                | Step::Stop
                | Step::AskExists
                | Step::AskRefused
                | Step::NoteRefusal
        )
    }

    /// Nothing of what it knew matters any more, but the version.
    const fn at(self, step: Step) -> Self {
        Self {
            version: self.version,
            ..Self::new(step, self.start, self.by)
        }
    }
}

impl World {
    pub fn step(&self, state: &mut State, call: Call, fate: Fate) {
        let place = state.calls.iter().position(|other| *other == call);
        place.map(|place| state.calls.remove(place));
        if call.begins() && state.now > call.since + LONG {
            // Its time is over.
            return;
        }
        let answer = match fate {
            Fate::Dies => {
                state.left.crash -= 1;
                return;
            }
            Fate::Late => {
                state.left.late -= 1;
                let until = state.now + LONG;
                let late = (call.start, call.input, self.passed(&call), until);
                state.late.push(late);
                state.late.sort_unstable();
                return;
            }
            Fate::AnswerLost => {
                state.left.lost -= 1;
                self.begins(state, call.start, (call.input, self.passed(&call)));
                return;
            }
            Fate::Answered(n) => n,
        };
        match call.step {
            Step::PutItem
            | Step::Join
            | Step::AskRemembered
            | Step::SettleRemembered(_)
            | Step::AskLeave
            | Step::Leave(_) => self.of_a_start(state, call, answer),
            _ if call.begins() => self.of_a_caller(state, call, answer),
            _ => self.of_a_look(state, call, answer),
        }
    }

    fn of_a_start(&self, state: &mut State, call: Call, answer: usize) {
        let start = usize::from(call.start);
        match call.step {
            Step::PutItem => {
                let item = state.items[start];
                let arrival = item.map_or(Arrival::Joins, |item| {
                    if self.is(Flaw::InputsAreNotCompared) {
                        return design::arrival(item, item.input);
                    }
                    design::arrival(item, call.input)
                });
                if item.is_none() {
                    state.items[start] = Some(Item {
                        status: Status::Waiting,
                        input: call.input,
                    });
                }
                state
                    .seen
                    .answers((call.start, call.input), arrival != Arrival::AnotherInput);
                if arrival == Arrival::Joins {
                    state.begin(call.at(Step::Join));
                }
            }
            Step::Join => {
                let row = self.rows.view(state.row);
                if row.has(call.start) {
                    return;
                }
                if row.remembered.contains(&call.start) {
                    state.begin(call.at(Step::AskRemembered));
                } else if row.holder.is_none() && row.queue.is_empty() {
                    if let Some(after) = self.rows.grant(state.row, call.start, state.now) {
                        state.takes_place(call.start);
                        self.granted(state, after, (call.start, call.by), Step::ReadItem);
                    }
                } else if let Some(after) = self.rows.join(state.row, call.start, state.now) {
                    state.takes_place(call.start);
                    state.row = after;
                }
            }
            Step::AskRemembered => {
                let said = state.said(&call, answer);
                let status = design::fate(said, Status::Served);
                state.begin(call.at(Step::SettleRemembered(status)));
            }
            Step::SettleRemembered(status) => state.settle(call.start, status),
            Step::AskLeave => {
                let mut status = design::fate(state.said(&call, answer), Status::Failed);
                if self.is(Flaw::FailsUnasked) {
                    status = Status::Failed;
                }
                if self.is(Flaw::WaitsEndBlindly) {
                    state.settle(call.start, Status::Failed);
                } else {
                    state.begin(call.at(Step::Leave(status)));
                }
            }
            // One transaction.
            Step::Leave(status) => {
                let raises = !self.is(Flaw::LeavesKeepTheVersion);
                if let Some(after) = self.rows.leave(state.row, call.start, raises)
                    && state.waits(call.start)
                {
                    state.row = after;
                    state.settle(call.start, status);
                }
            }
            _ => {}
        }
    }

    fn of_a_caller(&self, state: &mut State, call: Call, answer: usize) {
        match call.step {
            Step::ReadItem => {
                let item = state.items[usize::from(call.start)];
                match design::settled(item.map(|item| item.status)) {
                    None => {
                        let input = item.map_or(0, |item| item.input);
                        state.begin(Call {
                            input,
                            ..call.then(Step::Call)
                        });
                    }
                    Some(verdict) => state.follows(&call, verdict),
                }
            }
            Step::Call => match state.service {
                // It keeps its turn.
                Service::Throttles => self.is_throttled(state, &call),
                Service::Denies if call.first && !self.is(Flaw::RefusedByAnyIsOver) => {
                    if self.is(Flaw::FailsUnasked) {
                        state.begin(call.then(Step::Fail));
                    } else {
                        state.begin(call.then(Step::AskRefused));
                    }
                }
                Service::Denies if self.is(Flaw::RefusedByAnyIsOver) => {
                    state.begin(call.then(Step::Fail));
                }
                Service::Denies => state.begin(call.then(Step::NoteRefusal)),
                Service::Open => {
                    let with = (call.input, self.passed(&call));
                    match self.begins(state, call.start, with) {
                        Began::Yes if call.by == By::Operator => {
                            state.begin(call.then(Step::Stop));
                        }
                        Began::Yes => {}
                        Began::Exists if self.is(Flaw::ExistsIsAFailure) => {
                            state.begin(call.at(Step::Fail));
                        }
                        Began::Exists => state.begin(call.then(Step::AskExists)),
                    }
                }
            },
            Step::Stop => {
                let now = state.now;
                let execution = &mut state.executions[usize::from(call.start)];
                if execution.runs() {
                    execution.becomes(Of::Failed, now);
                }
            }
            Step::AskExists => {
                let mut said = state.said(&call, answer);
                let passed = state.executions[usize::from(call.start)].passed;
                if self.is(Flaw::WholeInputsAreCompared) && passed != self.passed(&call) {
                    said = Said::AnotherInput;
                }
                if said != Said::Unknown {
                    let verdict = self.verdict(state, &call, said);
                    state.follows(&call, verdict);
                }
            }
            Step::AskRefused => {
                let said = state.said(&call, answer);
                match self.verdict(state, &call, said) {
                    _ if said == Said::Unknown => state.begin(call.then(Step::Fail)),
                    verdict => state.follows(&call, verdict),
                }
            }
            Step::NoteRefusal => {
                let row = self.rows.view(state.row);
                let noted = row.telling.is_none_or(|told| told.refused_at.is_some());
                if row.token == call.token && !noted {
                    let version = row.version;
                    state.row = self
                        .rows
                        .note_refusal(state.row, version, state.now)
                        .unwrap_or(state.row);
                }
            }
            _ => {}
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each step")]
    fn of_a_look(&self, state: &mut State, call: Call, answer: usize) {
        match call.step {
            Step::ReadRow => {
                let row = self.rows.view(state.row);
                let mut starts = 0..self.scope.starts;
                let lost = starts.find(|start| state.waits(*start) && !row.has(*start));
                if let Some(start) = lost
                    && !self.is(Flaw::NobodyJoinsAgain)
                {
                    state.begin(Call::new(Step::Join, start, By::Look));
                    return;
                }
                let Some(start) = row.holder else {
                    state.begin(Call::new(Step::ReadHead, 0, By::Look));
                    return;
                };
                let item = state.items[usize::from(start)];
                let look = Call {
                    version: row.version,
                    input: item.map_or(0, |item| item.input),
                    ..Call::new(Step::Ask, start, By::Look)
                };
                match design::settled(item.map(|item| item.status)) {
                    Some(Verdict::End) if self.is(Flaw::ItemsAreNotRead) => state.begin(look),
                    Some(verdict) => state.follows(&look, verdict),
                    None => state.begin(look),
                }
            }
            Step::Ask => {
                let said = state.said(&call, answer);
                let mut verdict = self.verdict(state, &call, said);
                if said == Said::Unknown && self.is(Flaw::UnknownIsOver) {
                    verdict = Verdict::End;
                }
                if verdict == Verdict::Begin && self.is(Flaw::NobodyBegins) {
                    verdict = Verdict::Keep;
                }
                state.follows(&call, verdict);
            }
            Step::AskForce => {
                let said = state.said(&call, answer);
                let verdict = match (design::settled(state.status(call.start)), said) {
                    (Some(verdict), _) => verdict,
                    (None, Said::Unknown) => {
                        state.row = self
                            .rows
                            .note_refusal(state.row, call.version, state.now)
                            .unwrap_or(state.row);
                        return;
                    }
                    (None, Said::AnotherInput) => Verdict::Fail,
                    // The operator's word.
                    (None, Said::Running | Said::Ended { .. }) => Verdict::Served,
                };
                state.follows(&call, verdict);
            }
            Step::Mark => {
                let marked = self.rows.mark(state.row, call.version, state.now);
                if let Some(after) = marked {
                    if !self.is(Flaw::LooksDoNotMark) {
                        state.row = after;
                    }
                    let row = self.rows.view(state.row);
                    state.begin(Call {
                        token: row.token,
                        version: row.version,
                        since: state.now,
                        ..call.then(Step::Call)
                    });
                }
            }
            Step::MarkServed => {
                state.settle(call.start, Status::Served);
                state.is_taken(&call);
                if self.is(Flaw::ServedItemsAreDeleted) {
                    state.items[usize::from(call.start)] = None;
                }
                state.begin(call.at(Step::End));
            }
            Step::End => {
                let mut version = call.version;
                if self.is(Flaw::LooksEndWhateverIsThere) {
                    version = self.rows.view(state.row).version;
                }
                if let Some(after) = self.rows.end(state.row, version) {
                    state.is_taken(&call);
                    state.row = after;
                    state.begin(Call::new(Step::ReadHead, 0, call.by));
                }
            }
            Step::TakeBack => {
                if let Some(after) = self.rows.take_back(state.row, call.version) {
                    state.row = after;
                    state.begin(Call::new(Step::ReadHead, 0, call.by));
                }
            }
            // One transaction.
            Step::Fail => {
                let after = if self.is(Flaw::FailedIsRemembered) {
                    self.rows.end(state.row, call.version)
                } else {
                    self.rows.take_back(state.row, call.version)
                };
                match after {
                    Some(after) if state.waits(call.start) => {
                        state.row = after;
                        state.settle(call.start, Status::Failed);
                        state.begin(Call::new(Step::ReadHead, 0, call.by));
                    }
                    // Somebody has marked since.
                    None if call.first => state.begin(call.then(Step::NoteRefusal)),
                    _ => {}
                }
            }
            Step::ReadHead => {
                let row = self.rows.view(state.row);
                let (None, Some(start)) = (row.holder, row.queue.first().copied()) else {
                    return;
                };
                let item = state.items[usize::from(start)];
                let step = if state.waits(start) {
                    Step::GrantHead
                } else {
                    Step::LeaveHead
                };
                state.begin(Call {
                    version: row.version,
                    input: item.map_or(0, |item| item.input),
                    ..Call::new(step, start, call.by)
                });
            }
            Step::GrantHead => {
                let head = self.rows.view(state.row).queue.first() == Some(&call.start);
                let after = self.rows.grant_to_head(state.row, call.version, state.now);
                match after.filter(|_| head) {
                    Some(after) => {
                        let with = (call.start, call.by);
                        self.granted(state, after, with, Step::Call);
                    }
                    None => state.begin(Call::new(Step::ReadHead, 0, call.by)),
                }
            }
            Step::LeaveHead => {
                if let Some(after) = self.rows.leave(state.row, call.start, false)
                    && !state.waits(call.start)
                {
                    state.row = after;
                }
                state.begin(Call::new(Step::ReadHead, 0, call.by));
            }
            Step::ReleaseItem => {
                state.settle(call.start, Status::Served);
                state.begin(call.then(Step::ReleaseRow));
            }
            Step::ReleaseRow => {
                if let Some(after) = self.rows.release(state.row, call.token) {
                    state.row = after;
                    state.begin(Call::new(Step::ReadHead, 0, call.by));
                }
            }
            _ => {}
        }
    }

    /// A grant was written; who wrote it begins the execution, if it may.
    fn granted(&self, state: &mut State, after: RowNo, (start, by): (Start, By), step: Step) {
        let before = self.rows.view(state.row).token;
        state.row = if self.is(Flaw::GrantsKeepTheToken) && step == Step::Call {
            self.rows.keep_token(state.row, after)
        } else {
            after
        };
        let row = self.rows.view(state.row);
        state.seen.must(row.token > before, Invariant::S1);
        if by == By::Release {
            return;
        }
        let unread = step == Step::ReadItem && self.is(Flaw::ItemsAreNotReadAgain);
        state.begin(Call {
            step: if unread { Step::Call } else { step },
            by: By::Start,
            start,
            input: state.items[usize::from(start)].map_or(0, |item| item.input),
            version: row.version,
            token: row.token,
            first: true,
            since: state.now,
        });
    }

    fn is_throttled(&self, state: &mut State, call: &Call) {
        if !self.is(Flaw::ThrottledGoesToTheBack) || self.rows.view(state.row).queue.is_empty() {
            return;
        }
        let back = self.rows.take_back(state.row, call.version);
        if let Some(row) = back.and_then(|row| self.rows.join(row, call.start, state.now)) {
            state.row = row;
            state.begin(Call::new(Step::ReadHead, 0, call.by));
        }
    }

    /// The token that is passed in the input.
    fn passed(&self, call: &Call) -> Count {
        if self.scope.passes { call.token } else { 0 }
    }

    /// `StartExecution` takes effect.
    pub fn begins(&self, state: &mut State, start: Start, with: (Input, Count)) -> Began {
        let now = state.now;
        let execution = &mut state.executions[usize::from(start)];
        let unknown = execution.status == Of::Unknown;
        if self.is(Flaw::NamesAreRandom) {
            state.seen.must(unknown, Invariant::Twice);
        }
        let began = execution.begin(with, now);
        if unknown {
            let place = state.order.iter().position(|other| *other == start);
            let before = state.order.iter().take(place.unwrap_or(0));
            let overtaken = before.filter(|other| {
                let never = state.executions[usize::from(**other)].status == Of::Unknown;
                never && state.waits(**other)
            });
            let none = overtaken.count() == 0;
            state.seen.must(none, Invariant::L3);
        }
        began
    }

    fn verdict(&self, state: &State, call: &Call, said: Said) -> Verdict {
        let row = self.rows.view(state.row);
        let telling = row.telling.filter(|_| row.version == call.version);
        let mut delays = Delays {
            function: TICK,
            signature: TICK,
            answer: TICK,
        };
        match self.flaw {
            Some(Flaw::AnswersAreFresh) => delays.answer = Duration::ZERO,
            Some(Flaw::CallsAreNeverLate) => delays.signature = Duration::ZERO,
            Some(Flaw::FunctionsAreFast) => delays.function = Duration::ZERO,
            Some(Flaw::CancelledIsOver) => {
                delays = Delays {
                    function: Duration::ZERO,
                    signature: Duration::ZERO,
                    answer: Duration::ZERO,
                }
            }
            _ => {}
        }
        let keep = rows::length(self.scope.keep);
        design::verdict(telling, said, (keep, delays), rows::instant(state.now))
    }
}

impl State {
    /// How many answers there may be.
    pub fn answers(&self, call: &Call) -> usize {
        match call.step {
            Step::AskRemembered
            | Step::AskExists
            | Step::AskRefused
            | Step::Ask
            | Step::AskForce
            | Step::AskLeave => self.executions[usize::from(call.start)].views().count(),
            _ => 1,
        }
    }

    fn said(&self, call: &Call, answer: usize) -> Said {
        let execution = &self.executions[usize::from(call.start)];
        let input = match call.step {
            // Their item is read with the row.
            Step::AskRemembered | Step::AskLeave => {
                self.items[usize::from(call.start)].map_or(0, |item| item.input)
            }
            _ => call.input,
        };
        let view = execution.views().nth(answer);
        view.map_or(Said::Unknown, |view| view.says(input))
    }

    /// What a verdict leads to.
    fn follows(&mut self, call: &Call, verdict: Verdict) {
        let step = match verdict {
            Verdict::Keep => return,
            Verdict::Begin => {
                self.begin(Call {
                    input: call.input,
                    ..call.at(Step::Mark)
                });
                return;
            }
            Verdict::Served => Step::MarkServed,
            Verdict::Fail => Step::Fail,
            Verdict::End => Step::End,
            Verdict::TakeBack => Step::TakeBack,
        };
        self.begin(call.at(step));
    }

    pub fn status(&self, start: Start) -> Option<Status> {
        self.items[usize::from(start)].map(|item| item.status)
    }

    pub fn waits(&self, start: Start) -> bool {
        self.status(start) == Some(Status::Waiting)
    }

    /// An item that waits does so no longer.
    fn settle(&mut self, start: Start, status: Status) {
        if let Some(item) = &mut self.items[usize::from(start)]
            && item.status == Status::Waiting
        {
            item.status = status;
        }
    }

    /// An operator takes the lease of an execution that runs.
    fn is_taken(&mut self, call: &Call) {
        let execution = &mut self.executions[usize::from(call.start)];
        if call.by == By::Operator && execution.runs() {
            execution.exempt = Exempt::Forced;
        }
    }

    fn takes_place(&mut self, start: Start) {
        if !self.order.contains(&start) {
            self.order.push(start);
        }
    }
}
