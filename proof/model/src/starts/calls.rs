//! The functions' calls: one request to the table or to Step Functions at a time.

use std::time::Duration;

use leasehold::row::Telling;

use super::{
    design::{self, Arrival, Delays, Input, Item, Said, Status, Verdict},
    flaws::Flaw,
    invariants::Invariant,
    rows::{self, Count, RowNo, Start, TICK, Tick},
    service::{Began, Exempt, Status as Of},
    world::{Service, State, World},
};

/// How long a function runs at most, and how long a signed request is good: the same here.
const LONG: Tick = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    // A start.
    PutItem,
    Join,
    /// The item was there before, so that its execution may have begun and given the key back.
    Rejoin,
    /// It neither holds the key nor waits for it.
    AskOrphan,
    /// The row remembers that it was granted to this start before.
    AskRemembered,
    /// The item waits no longer.
    Settle(Status, Next),
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
    /// The item is served, or gone.
    AskServed,
    Mark,
    Fail,
    End,
    TakeBack,
    // A hand-over.
    ReadHead,
    GrantHead,
    LeaveHead,
    // The others.
    Release,
    AskForce,
    AskLeave,
    Leave(Status),
}

/// What follows when the item is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Next {
    Nothing,
    End,
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
    Answered(Answer),
    AnswerLost,
    /// It takes effect later or never, and there is no answer.
    Late,
    Dies,
    /// It takes effect, and whoever called dies.
    DiesAfter,
}

/// An answer of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which of those that it may give.
    pub number: usize,
    /// Anything may happen before the item is settled by it; otherwise that is done at once.
    pub slow: bool,
}

impl Answer {
    /// It is true now.
    pub const FRESH: Self = Self {
        number: 0,
        slow: false,
    };
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
        if call.step == Step::Call && self.is(Flaw::ServedBeforeTheCall) {
            state.settle(call.start, Status::Served);
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
            Fate::AnswerLost | Fate::DiesAfter => {
                let dies = fate == Fate::DiesAfter;
                state.left.crash -= u8::from(dies);
                state.left.lost -= u8::from(!dies);
                self.begins(state, call.start, (call.input, self.passed(&call)));
                return;
            }
            Fate::Answered(answer) => answer,
        };
        state.left.slow -= u8::from(answer.slow);
        match call.step {
            Step::PutItem
            | Step::Join
            | Step::Rejoin
            | Step::AskOrphan
            | Step::AskRemembered
            | Step::Settle(..)
            | Step::AskLeave
            | Step::Leave(_) => self.of_a_start(state, call, answer),
            _ if call.begins() => self.of_a_caller(state, call, answer),
            _ => self.of_a_look(state, call, answer),
        }
    }

    fn of_a_start(&self, state: &mut State, call: Call, answer: Answer) {
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
                    let again = item.is_some() && !self.is(Flaw::DuplicatesDoNotAsk);
                    state.begin(call.at(if again { Step::Rejoin } else { Step::Join }));
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
                        self.granted(state, after, call.start, Step::ReadItem);
                    }
                } else if let Some(after) = self.rows.join(state.row, call.start, state.now) {
                    state.takes_place(call.start);
                    state.row = after;
                }
            }
            Step::Rejoin if self.rows.view(state.row).has(call.start) => {}
            Step::Rejoin => state.begin(call.at(Step::AskOrphan)),
            Step::AskOrphan => match design::fate(state.said(&call, answer)) {
                Some(status) => self.learns(state, &call, (status, Next::Nothing), answer),
                None => state.begin(call.at(Step::Join)),
            },
            Step::AskRemembered => {
                let fate = design::fate(state.said(&call, answer));
                let status = fate.unwrap_or(Status::Served);
                self.learns(state, &call, (status, Next::Nothing), answer);
            }
            Step::Settle(status, next) => self.settles(state, &call, (status, next)),
            Step::AskLeave => {
                let fate = design::fate(state.said(&call, answer));
                let mut status = fate.unwrap_or(Status::Failed);
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

    fn of_a_caller(&self, state: &mut State, call: Call, answer: Answer) {
        match call.step {
            Step::ReadItem => {
                let waits = state.waits(call.start);
                state.begin(if waits {
                    call.then(Step::Call)
                } else {
                    state.looks_at(&call)
                });
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
                        Began::Yes => {
                            let served = (Status::Served, Next::Nothing);
                            self.learns(state, &call, served, answer);
                        }
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
                self.learns(state, &call, (Status::Served, Next::Nothing), answer);
            }
            Step::AskExists => {
                let mut said = state.said(&call, answer);
                let passed = state.executions[usize::from(call.start)].passed;
                if self.is(Flaw::WholeInputsAreCompared) && passed != self.passed(&call) {
                    said = Said::AnotherInput;
                }
                if said != Said::Unknown {
                    let verdict = self.verdict(state, &call, said);
                    self.follows(state, &call, (said, verdict), answer);
                }
            }
            Step::AskRefused => {
                let said = state.said(&call, answer);
                match self.verdict(state, &call, said) {
                    _ if said == Said::Unknown => state.begin(call.then(Step::Fail)),
                    verdict => self.follows(state, &call, (said, verdict), answer),
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
    fn of_a_look(&self, state: &mut State, call: Call, answer: Answer) {
        match call.step {
            Step::ReadRow => {
                let row = self.rows.view(state.row);
                let mut starts = 0..self.scope.starts;
                let lost = starts.find(|start| state.waits(*start) && !row.has(*start));
                if let Some(start) = lost
                    && !self.is(Flaw::NobodyJoinsAgain)
                {
                    let step = if self.is(Flaw::LooksJoinUnasked) {
                        Step::Join
                    } else {
                        Step::AskOrphan
                    };
                    state.begin(Call::new(step, start, By::Look));
                    return;
                }
                let Some(start) = row.holder else {
                    state.begin(Call::new(Step::ReadHead, 0, By::Look));
                    return;
                };
                let look = Call {
                    version: row.version,
                    ..Call::new(Step::Ask, start, By::Look)
                };
                state.begin(state.looks_at(&look));
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
                self.follows(state, &call, (said, verdict), answer);
            }
            Step::AskServed => {
                let said = state.said(&call, answer);
                match self.verdict_of_served(state, &call, said) {
                    Verdict::End => state.begin(call.at(Step::End)),
                    Verdict::Begin => state.begin(call.then(Step::Mark)),
                    Verdict::Keep | Verdict::Fail => {}
                }
            }
            Step::AskForce => {
                let said = state.said(&call, answer);
                let verdict = match said {
                    Said::Unknown => {
                        state.row = self
                            .rows
                            .note_refusal(state.row, call.version, state.now)
                            .unwrap_or(state.row);
                        return;
                    }
                    Said::AnotherInput => Verdict::Fail,
                    // The operator's word.
                    Said::Running | Said::Ended { .. } => Verdict::End,
                };
                self.follows(state, &call, (said, verdict), answer);
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
                        self.granted(state, after, call.start, Step::Call);
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
            Step::Release => {
                if let Some(after) = self.rows.release(state.row, call.token) {
                    state.executions[usize::from(call.start)].exempt = Exempt::Released;
                    if self.is(Flaw::ReleasesMarkTheItem) {
                        state.settle(call.start, Status::Served);
                        return;
                    }
                    state.row = after;
                    state.begin(Call::new(Step::ReadHead, 0, call.by));
                }
            }
            _ => {}
        }
    }

    /// A grant was written; who wrote it begins the execution, if it may.
    fn granted(&self, state: &mut State, after: RowNo, start: Start, step: Step) {
        let before = self.rows.view(state.row).token;
        state.row = if self.is(Flaw::GrantsKeepTheToken) && step == Step::Call {
            self.rows.keep_token(state.row, after)
        } else {
            after
        };
        let row = self.rows.view(state.row);
        state.seen.must(row.token > before, Invariant::S1);
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
        let again = execution.forgotten || self.is(Flaw::NamesAreRandom) && !unknown;
        state.seen.must(!again, Invariant::Twice);
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
        let now = rows::instant(state.now);
        design::verdict(self.telling(state, call), said, self.times(), now)
    }

    fn verdict_of_served(&self, state: &State, call: &Call, said: Said) -> Verdict {
        let now = rows::instant(state.now);
        match self.flaw {
            Some(Flaw::ServedIsOver) if said == Said::Unknown => return Verdict::End,
            Some(Flaw::ForgottenIsKept) if said == Said::Unknown => return Verdict::Keep,
            Some(Flaw::ForgottenBeginsAgain) if said == Said::Unknown => return Verdict::Begin,
            _ => {}
        }
        design::verdict_of_served(self.telling(state, call), said, self.times(), now)
    }

    /// None if the row has changed since it was read.
    fn telling(&self, state: &State, call: &Call) -> Option<Telling> {
        let row = self.rows.view(state.row);
        row.telling.filter(|_| row.version == call.version)
    }

    /// How long a lease is kept for a redrive, and how late a call may be.
    fn times(&self) -> (Duration, Delays) {
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
        (rows::length(self.scope.keep), delays)
    }

    /// What follows from an answer and its verdict. The item waited; if the answer shows that it began, it is marked first.
    fn follows(
        &self,
        state: &mut State,
        call: &Call,
        (said, verdict): (Said, Verdict),
        answer: Answer,
    ) {
        let next = match verdict {
            Verdict::End => Next::End,
            _ => Next::Nothing,
        };
        if said.began() {
            self.learns(state, call, (Status::Served, next), answer);
            return;
        }
        let step = match verdict {
            Verdict::Keep => return,
            Verdict::Begin => {
                state.begin(Call {
                    input: call.input,
                    ..call.at(Step::Mark)
                });
                return;
            }
            Verdict::Fail => Step::Fail,
            Verdict::End => Step::End,
        };
        state.begin(call.at(step));
    }

    /// What is known now settles the item: at once, or later.
    fn learns(
        &self,
        state: &mut State,
        call: &Call,
        (status, next): (Status, Next),
        answer: Answer,
    ) {
        if answer.slow {
            state.begin(call.at(Step::Settle(status, next)));
        } else {
            self.settles(state, call, (status, next));
        }
    }

    fn settles(&self, state: &mut State, call: &Call, (status, next): (Status, Next)) {
        state.settle(call.start, status);
        if self.is(Flaw::ServedItemsAreDeleted) && status == Status::Served {
            state.items[usize::from(call.start)] = None;
        }
        if next == Next::End {
            state.begin(call.at(Step::End));
        }
    }
}

impl State {
    /// Whether an answer settles the item.
    pub fn settled_by(&self, call: &Call, answer: Answer) -> bool {
        match call.step {
            Step::Call => self.service == Service::Open,
            Step::Stop => true,
            Step::Ask | Step::AskExists | Step::AskRefused | Step::AskForce | Step::AskOrphan => {
                self.said(call, answer).began()
            }
            _ => false,
        }
    }

    /// How many answers there may be.
    pub fn answers(&self, call: &Call) -> usize {
        match call.step {
            Step::AskRemembered
            | Step::AskExists
            | Step::AskRefused
            | Step::AskOrphan
            | Step::Ask
            | Step::AskServed
            | Step::AskForce
            | Step::AskLeave => self.executions[usize::from(call.start)].views().count(),
            _ => 1,
        }
    }

    fn said(&self, call: &Call, answer: Answer) -> Said {
        let execution = &self.executions[usize::from(call.start)];
        let input = match call.step {
            // Their item is read with the row.
            Step::AskOrphan | Step::AskRemembered | Step::AskLeave => {
                self.items[usize::from(call.start)].map_or(0, |item| item.input)
            }
            _ => call.input,
        };
        let view = execution.views().nth(answer.number);
        view.map_or(Said::Unknown, |view| view.says(input))
    }

    /// The next step of a look that has read the holder's item together with the row or after it.
    fn looks_at(&self, call: &Call) -> Call {
        let item = self.items[usize::from(call.start)];
        let step = match item.map(|item| item.status) {
            Some(Status::Waiting) => Step::Ask,
            Some(Status::Failed) => Step::TakeBack,
            Some(Status::Served) | None => Step::AskServed,
        };
        // Without an item any execution of the name counts.
        let execution = self.executions[usize::from(call.start)];
        Call {
            input: item.map_or(execution.input, |item| item.input),
            ..call.at(step)
        }
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
