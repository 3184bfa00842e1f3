//! A state of a world of executions, and what may happen next in it.

use dashmap::DashMap;
use leasehold::{Delivery, Execution, Receipt, Timestamp};
use stateright::{Model, Property};

use super::{
    flaws::{self, Flaw},
    invariants::{self, Invariant},
    library::{AskNo, Call, LeaseNo, Library, Next, NodeNo, Outcome, TableNo, Terms},
    names::{self, Tick, Who},
    scope::{Budget, Kind, Scope},
    seam::{Answer, Ask},
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub now: Tick,
    pub table: TableNo,
    pub executions: Vec<Executing>,
    /// What the program has, and from which tick on it no longer trusts it.
    pub program: Option<(LeaseNo, Tick)>,
    /// Calls under way; in order, so that equal sets are equal.
    pub calls: Vec<NodeNo>,
    /// Requests that their senders have given up on: each arrives later, or never.
    pub late: Vec<(AskNo, Call)>,
    /// Leases that an operator has taken away. Their holders may go on for a while.
    pub evicted: Vec<LeaseNo>,
    pub left: Budget,
    pub seen: Seen,
}

/// What has been seen so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seen {
    /// The largest token of a grant of each row.
    pub tokens: [u64; 2],
    /// When each row opens, as its last grant has said.
    pub opens_at: [Option<Timestamp>; 2],
    /// Requests that were granted the key, and not as if it had not been.
    pub granted: Vec<(Who, u8)>,
    /// Requests of which two calls were under way at once, and that may have been granted two permits.
    pub copied: Vec<(Who, u8)>,
    /// Requests that were sent away for a later one.
    pub superseded: Vec<(Who, u8)>,
    broken: u16,
}

impl Seen {
    pub const fn has(&self, broken: Invariant) -> bool {
        self.broken & (1 << broken as u8) != 0
    }

    pub fn must(&mut self, holds: bool, invariant: Invariant) {
        if !holds {
            self.broken |= 1 << invariant as u8;
        }
    }
}

/// An execution that wants the key once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Executing {
    pub phase: Phase,
    /// How many task tokens it has had, and which request it is at.
    pub tokens: u8,
    pub request: u8,
    /// What it was told that it has.
    pub lease: Option<LeaseNo>,
    /// How often it has released or proven that.
    pub calls: u8,
    /// Every lease that it was told of.
    pub shown: Vec<LeaseNo>,
    /// What a Lambda function of it still works under, and until when.
    pub work: Option<(LeaseNo, Tick)>,
    /// What Step Functions may say of it: since the last tick, the latest last.
    pub standings: Vec<Standing>,
    /// How it last ended.
    pub ended: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    Idle,
    /// Its task waits, with its latest token.
    Waiting,
    /// Its task has failed, or has timed out.
    Failed,
    /// It works under its lease.
    Section,
    Releasing,
    /// It carries on, and does not use the key.
    Without,
    /// It was redriven, and proves its lease before it goes on.
    Proving,
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct End {
    pub stopped: Tick,
    pub redrivable: bool,
    pub all_answered: bool,
}

/// What Step Functions says of an execution, and what its history shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Standing {
    pub over: Option<End>,
    pub shown: Vec<LeaseNo>,
    pub waits: bool,
}

impl Executing {
    fn new() -> Self {
        let standing = Standing {
            over: None,
            shown: Vec::new(),
            waits: false,
        };
        Self {
            phase: Phase::Idle,
            tokens: 0,
            request: 0,
            lease: None,
            calls: 0,
            shown: Vec::new(),
            work: None,
            standings: vec![standing],
            ended: None,
        }
    }

    pub fn runs(&self) -> bool {
        self.phase != Phase::Over
    }

    fn stands(&mut self) {
        let standing = Standing {
            over: self.ended.filter(|_| !self.runs()),
            shown: self.shown.clone(),
            waits: self.phase == Phase::Waiting,
        };
        if self.standings.last() != Some(&standing) {
            self.standings.push(standing);
        }
    }

    /// Whether its task waits with this token.
    fn waits_with(&self, token: u8) -> bool {
        self.phase == Phase::Waiting && self.tokens == token
    }
}

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
    Proves(Who),
    /// It succeeds without a release.
    Succeeds(Who),
    /// It fails or is stopped; with a Lambda function of it at work, or with none.
    Fails(Who, bool),
    WorkEnds(Who),
    IsRedriven(Who),
    Sweeps,
    Reaps(Who),
    Evicts,
    /// An operator sets the limit to 0, or takes that back.
    Limits(bool),
    ProgramAsks,
    ProgramExtends,
    ProgramReturns,
}

pub struct World {
    pub scope: Scope,
    pub flaw: Option<Flaw>,
    pub library: Library,
    /// Whether those who wait are served if nothing goes wrong any more.
    pub served: DashMap<State, bool>,
}

impl World {
    pub fn new(scope: Scope, flaw: Option<Flaw>) -> Self {
        let terms = Terms {
            keep: scope.keep,
            wait: scope.wait,
            latest: scope.latest,
            permits: scope.permits,
            at_least: scope.at_least,
        };
        Self {
            scope,
            flaw,
            library: Library::new(terms),
            served: DashMap::new(),
        }
    }

    pub fn is(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// A call begins. It might as well have begun just before it reads the index.
    pub fn begin(&self, state: &mut State, call: Call) {
        let mut node = self.library.begin(call, state.now);
        if let Next::Asks(ask) = self.library.next(node)
            && matches!(*self.library.ask(ask), Ask::Scan | Ask::HeldBy(_))
        {
            let (_, answer) = self.library.effect(state.table, ask);
            node = self.library.answered(node, state.now, answer);
        }
        self.goes_on(state, node);
    }

    /// A call stands at this node now.
    fn goes_on(&self, state: &mut State, node: NodeNo) {
        match self.library.next(node) {
            Next::Asks(_) => {
                let place = state.calls.partition_point(|other| *other < node);
                state.calls.insert(place, node);
            }
            Next::Ends(outcome) => self.ends(state, self.library.call(node), outcome),
        }
    }

    fn ends(&self, state: &mut State, call: Call, outcome: Outcome) {
        match (call, outcome) {
            (Call::Acquire(who, _, token), Outcome::Failed | Outcome::Consumed) => {
                let executing = &mut state.executions[usize::from(who)];
                let spent = outcome == Outcome::Consumed;
                let told = !executing.shown.is_empty() || !state.evicted.is_empty();
                if executing.waits_with(token) {
                    executing.phase = Phase::Failed;
                    executing.stands();
                    state.seen.must(!spent || told, Invariant::L2);
                }
            }
            (Call::Release(who, ..), Outcome::Done) => {
                let executing = &mut state.executions[usize::from(who)];
                if executing.phase == Phase::Releasing {
                    executing.lease = None;
                    is_over(executing, state.now, false, true);
                }
            }
            (Call::Prove(who, ..), outcome) => {
                let executing = &mut state.executions[usize::from(who)];
                if executing.phase != Phase::Proving {
                    return;
                }
                match outcome {
                    Outcome::Done => executing.phase = Phase::Section,
                    Outcome::Lost => {
                        executing.lease = None;
                        self.asks(state, who, true);
                    }
                    _ => {}
                }
            }
            (Call::Ask(_) | Call::Extend(..), Outcome::Has(lease, until)) => {
                state.program = Some((lease, until));
            }
            (Call::Extend(..), Outcome::Lost) | (Call::Return(_), _) => state.program = None,
            _ => {}
        }
    }

    fn asks(&self, state: &mut State, who: Who, anew: bool) {
        let executing = &mut state.executions[usize::from(who)];
        executing.tokens += 1;
        executing.request += u8::from(anew);
        executing.phase = Phase::Waiting;
        executing.stands();
        let (request, token) = (executing.request, executing.tokens);
        let is_copy = |node: &NodeNo| matches!(self.library.call(*node), Call::Acquire(of, which, _) if (of, which) == (who, request));
        let is_late = |(_, call): &(AskNo, Call)| matches!(call, Call::Acquire(of, which, _) if (*of, *which) == (who, request));
        if self.scope.permits.is_some()
            && (state.calls.iter().any(is_copy) || state.late.iter().any(is_late))
        {
            state.seen.copied.push((who, request));
        }
        self.begin(state, Call::Acquire(who, request, token));
    }

    /// How Step Functions may answer: more than one way, if what happened is recent.
    pub fn answers(&self, state: &State, ask: &Ask) -> Vec<Answer> {
        let mut all = Vec::new();
        match ask {
            Ask::Describe(holder) => {
                let who = names::who(holder);
                let Some(executing) = state.executions.get(usize::from(who)) else {
                    return vec![Answer::Execution(Execution::Unknown)];
                };
                let mut said = Vec::new();
                for standing in &executing.standings {
                    let says = self.says(who, executing, standing);
                    if !said.contains(&says) {
                        said.push(says);
                    }
                }
                all.extend(said.into_iter().map(Answer::Execution));
            }
            Ask::Received(holder, lease) => {
                let lease = self.library.lease_no(lease);
                let executing = &state.executions[usize::from(names::who(holder))];
                let mut said = Vec::new();
                for standing in &executing.standings {
                    let says = if self.is(Flaw::HistoriesAreNotRead) {
                        Receipt::Unreadable
                    } else if standing.shown.contains(&lease) {
                        Receipt::Shown
                    } else {
                        let waits = standing.waits && !self.is(Flaw::WaitersAreTakenForDead);
                        Receipt::Missing { waits }
                    };
                    if !said.contains(&says) {
                        said.push(says);
                    }
                }
                all.extend(said.into_iter().map(Answer::Receipt));
            }
            _ => {}
        }
        // What is most recent comes first.
        all.reverse();
        all
    }

    fn says(&self, who: Who, executing: &Executing, standing: &Standing) -> Execution {
        let over = standing
            .over
            .or_else(|| executing.ended.filter(|_| self.is(Flaw::EventsAreBelieved)));
        let Some(end) = over.filter(|_| !self.is(Flaw::NobodyLooks)) else {
            return Execution::Running;
        };
        let keep = names::TICK * u32::from(self.scope.keep[usize::from(who)].unsigned_abs());
        let stopped_at = names::instant(end.stopped);
        let stopped_at = match self.flaw {
            Some(Flaw::KeepIsIgnored) => stopped_at.minus(keep + names::TICK),
            Some(Flaw::KeepEndsOnTime) => stopped_at.minus(names::TICK),
            // As if it were the first end, whose grace is over.
            Some(Flaw::ProofsLeaveTheGrace) => Timestamp::from_millis(0),
            _ => stopped_at,
        };
        Execution::Ended {
            stopped_at,
            redrivable: end.redrivable && !self.is(Flaw::LooksTrustStaleAnswers),
            all_answered: end.all_answered || self.is(Flaw::NoGrace),
        }
    }

    /// A request takes effect, and is answered.
    fn effect(&self, state: &mut State, number: AskNo, call: Call) -> Answer {
        let ask = self.library.ask(number);
        match &*ask {
            Ask::Succeed(token, output) => {
                let lease = self.library.told(output);
                let waits = waiting_with(state, token);
                waits.map_or(Answer::Delivery(Delivery::Refused), |executing| {
                    executing.phase = Phase::Section;
                    executing.lease = Some(lease);
                    executing.shown.push(lease);
                    executing.stands();
                    Answer::Delivery(Delivery::Delivered)
                })
            }
            Ask::Fail(token) => {
                let waits = waiting_with(state, token).filter(|_| !self.is(Flaw::NobodyIsSentAway));
                let Some(executing) = waits else {
                    return Answer::Delivery(Delivery::Refused);
                };
                executing.phase = Phase::Failed;
                executing.stands();
                Answer::Delivery(Delivery::Delivered)
            }
            _ => {
                let before = self.library.table(state.table);
                let written = match self.flaw {
                    Some(flaw) => {
                        let ask = flaws::written(flaw, &before, (*ask).clone(), call);
                        self.library.ask_no(&ask)
                    }
                    None => number,
                };
                let (table, answer) = self.library.effect(state.table, written);
                let left_out = |flaw| flaws::is_not_written(flaw, &before, &ask);
                if table != state.table && !self.flaw.is_some_and(left_out) {
                    let after = self.library.table(table);
                    state.table = table;
                    invariants::wrote(state, (&ask, call), &before, &after);
                }
                self.library.answered_with(answer)
            }
        }
    }

    fn steps(&self, state: &mut State, node: NodeNo, fate: Fate) -> Option<()> {
        let Next::Asks(number) = self.library.next(node) else {
            return None;
        };
        let ask = self.library.ask(number);
        let call = self.library.call(node);
        if fate == Fate::SentAgain {
            state.left.unheard -= 1;
            self.effect(state, number, call);
            return Some(());
        }
        let place = state.calls.iter().position(|other| *other == node)?;
        state.calls.remove(place);
        let answer = match fate {
            Fate::Dies => {
                state.left.crash -= 1;
                self.ends(state, call, Outcome::Failed);
                return Some(());
            }
            Fate::Late => {
                state.left.loses(&ask);
                state.late.push((number, call));
                state.late.sort_unstable();
                self.no_answer(&ask)
            }
            Fate::AnswerLost => {
                state.left.loses(&ask);
                self.effect(state, number, call);
                self.no_answer(&ask)
            }
            Fate::Answered(which) => match self.answers(state, &ask) {
                all if all.is_empty() => self.effect(state, number, call),
                mut all => all.swap_remove(which),
            },
            Fate::SentAgain => return None,
        };
        let answer = self.library.answer(answer);
        let node = self.library.answered(node, state.now, answer);
        self.goes_on(state, node);
        Some(())
    }

    fn no_answer(&self, ask: &Ask) -> Answer {
        match ask {
            Ask::Succeed(..) if self.is(Flaw::NoAnswerIsARefusal) => {
                Answer::Delivery(Delivery::Refused)
            }
            _ => Answer::None,
        }
    }
}

/// The execution whose task waits with this token.
fn waiting_with<'a>(
    state: &'a mut State,
    token: &leasehold::TaskToken,
) -> Option<&'a mut Executing> {
    let (who, token) = names::of_token(token)?;
    let executing = state.executions.get_mut(usize::from(who))?;
    executing.waits_with(token).then_some(executing)
}

/// It ends. Whatever of it is at work goes on for as long as a Lambda function may.
fn is_over(executing: &mut Executing, now: Tick, redrivable: bool, all_answered: bool) {
    executing.phase = Phase::Over;
    executing.ended = Some(End {
        stopped: now,
        redrivable,
        all_answered: all_answered && executing.work.is_none(),
    });
    executing.stands();
}

impl State {
    fn ends_with(&mut self, who: Who, redrivable: bool, works: bool) {
        let now = self.now;
        let executing = &mut self.executions[usize::from(who)];
        if works && let Some(lease) = executing.lease {
            executing.work = Some((lease, now + 1));
        }
        is_over(executing, now, redrivable, !works);
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State {
            now: 0,
            table: super::library::EMPTY,
            executions: vec![Executing::new(); self.scope.executions],
            program: None,
            calls: Vec::new(),
            late: Vec::new(),
            evicted: Vec::new(),
            left: self.scope.budget,
            seen: Seen::default(),
        };
        if self.scope.program {
            self.begin(&mut state, Call::Ask(0));
            self.finish(&mut state);
        }
        for who in 0..self.scope.begun {
            self.asks(&mut state, who, false);
            self.finish(&mut state);
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let left = &state.left;
        for node in &state.calls {
            let Next::Asks(ask) = self.library.next(*node) else {
                continue;
            };
            let ask = self.library.ask(ask);
            let ways = self.answers(state, &ask).len().max(1);
            actions.extend((0..ways).map(|way| Action::Step(*node, Fate::Answered(way))));
            let told = matches!(*ask, Ask::Succeed(..) | Ask::Fail(_));
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
        if left.tick > 0 {
            actions.push(Action::Tick);
        }
        for (who, executing) in (0..).zip(&state.executions) {
            self.of_an_execution(state, (who, executing), actions);
        }
        if left.look > 0 {
            actions.push(Action::Sweeps);
        }
        if left.evict > 0 && self.library.table(state.table).view(0).lease.is_some() {
            actions.push(Action::Evicts);
        }
        if left.limit > 0 {
            let limited = self.library.table(state.table).view(0).limited;
            actions.push(Action::Limits(!limited));
        }
        if self.scope.program {
            let busy = state.calls.iter().any(|node| {
                let call = self.library.call(*node);
                matches!(call, Call::Ask(_) | Call::Extend(..) | Call::Return(_))
            });
            match state.program {
                _ if busy => {}
                None if left.ask > 0 => actions.push(Action::ProgramAsks),
                Some(_) => {
                    if left.ask > 0 {
                        actions.push(Action::ProgramExtends);
                    }
                    actions.push(Action::ProgramReturns);
                }
                None => {}
            }
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        self.acts(&mut state, action)?;
        invariants::look(self, &mut state);
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        invariants::properties()
    }
}

impl World {
    fn of_an_execution(
        &self,
        state: &State,
        (who, executing): (Who, &Executing),
        actions: &mut Vec<Action>,
    ) {
        let left = &state.left;
        let releases = |node: &NodeNo| matches!(self.library.call(*node), Call::Release(of, ..) | Call::Prove(of, ..) if of == who);
        let busy = state.calls.iter().any(releases);
        let kind = self.scope.kinds[usize::from(who)];
        match executing.phase {
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
            Phase::Section => {
                actions.push(Action::Releases(who));
                if left.end > 0 {
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
                let may = end.is_some() && (guarded || executing.lease.is_none() || kept);
                if left.redrive > 0 && may {
                    actions.push(Action::IsRedriven(who));
                }
            }
            Phase::Releasing | Phase::Proving | Phase::Without => {}
        }
        if executing.work.is_some() {
            actions.push(Action::WorkEnds(who));
        }
        if left.reap > 0 && executing.ended.is_some() {
            actions.push(Action::Reaps(who));
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each action")]
    pub fn acts(&self, state: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Tick => {
                state.left.tick -= 1;
                passes(state);
            }
            Action::Step(node, fate) => self.steps(state, node, fate)?,
            Action::Arrives(place) => {
                let (ask, call) = state.late.remove(place);
                self.effect(state, ask, call);
            }
            Action::Asks(who) => self.asks(state, who, false),
            Action::Retries(who) => {
                state.left.retry -= 1;
                self.asks(state, who, false);
            }
            Action::AsksAnew(who) => {
                state.left.retry -= 1;
                self.asks(state, who, true);
            }
            Action::TimesOut(who) => {
                state.left.timeout -= 1;
                let executing = &mut state.executions[usize::from(who)];
                executing.phase = Phase::Failed;
                executing.stands();
            }
            Action::CarriesOn(who) => {
                state.executions[usize::from(who)].phase = Phase::Without;
            }
            Action::GivesUp(who) => {
                let executing = &mut state.executions[usize::from(who)];
                let releasing = executing.phase == Phase::Releasing;
                if releasing {
                    executing.lease = None;
                }
                is_over(executing, state.now, !releasing, true);
            }
            Action::Releases(who) => {
                let executing = &mut state.executions[usize::from(who)];
                if executing.phase == Phase::Releasing {
                    state.left.retry -= 1;
                }
                executing.phase = Phase::Releasing;
                // A workflow waits for its branches before it releases.
                executing.work = None;
                executing.calls += 1;
                let call = Call::Release(who, executing.lease?, executing.calls);
                self.begin(state, call);
            }
            Action::Proves(who) => {
                let executing = &mut state.executions[usize::from(who)];
                executing.calls += 1;
                let call = Call::Prove(who, executing.lease?, executing.calls);
                self.begin(state, call);
            }
            Action::Succeeds(who) => {
                state.left.end -= 1;
                state.executions[usize::from(who)].work = None;
                state.executions[usize::from(who)].lease = None;
                state.ends_with(who, false, false);
            }
            Action::Fails(who, works) => {
                state.left.fail -= 1;
                state.ends_with(who, true, works);
            }
            Action::WorkEnds(who) => state.executions[usize::from(who)].work = None,
            Action::IsRedriven(who) => {
                state.left.redrive -= 1;
                let guarded = self.scope.guarded[usize::from(who)];
                let executing = &mut state.executions[usize::from(who)];
                if executing.lease.is_none() {
                    self.asks(state, who, true);
                } else {
                    executing.phase = if guarded {
                        Phase::Proving
                    } else {
                        Phase::Section
                    };
                    executing.stands();
                }
            }
            Action::Sweeps => {
                state.left.look -= 1;
                let call = Call::Sweep(state.left.look);
                self.begin(state, call);
            }
            Action::Reaps(who) => {
                state.left.reap -= 1;
                let call = Call::Reap(who, state.left.reap);
                self.begin(state, call);
            }
            Action::Evicts => {
                state.left.evict -= 1;
                let call = Call::Evict(state.left.evict);
                self.begin(state, call);
            }
            Action::Limits(none) => {
                state.left.limit -= 1;
                let call = Call::Limit(state.left.limit, none);
                self.begin(state, call);
            }
            Action::ProgramAsks => {
                state.left.ask -= 1;
                let call = Call::Ask(state.left.ask + 1);
                self.begin(state, call);
            }
            Action::ProgramExtends => {
                state.left.ask -= 1;
                let (lease, _) = state.program?;
                let call = Call::Extend(lease, state.left.ask);
                self.begin(state, call);
            }
            Action::ProgramReturns => {
                // It no longer works under it.
                let (lease, _) = state.program.take()?;
                self.begin(state, Call::Return(lease));
            }
        }
        Some(())
    }

    /// Every call comes to its end, one after the other, and nothing goes wrong.
    pub fn finish(&self, state: &mut State) {
        while let Some(node) = state.calls.first().copied() {
            if self.steps(state, node, Fate::Answered(0)).is_none() {
                return;
            }
        }
    }
}

/// Half a minute passes.
pub fn passes(state: &mut State) {
    state.now += 1;
    let now = state.now;
    for executing in &mut state.executions {
        executing.work = executing.work.filter(|(_, until)| now < *until);
        let latest = executing.standings.pop();
        executing.standings.clear();
        executing.standings.extend(latest);
    }
}
