//! What happens in a world of executions, one action at a time.

use std::sync::Mutex;

use dashmap::DashMap;
use leasehold::{
    Delivery, Outcome as ComesTo, StartStatus,
    store::{Settlement, Write},
    transition::Change,
};
use stateright::{Model, Property};

use super::{
    actions::{Action, Fate},
    flaws::{self, Flaw},
    invariants::{self, Invariant},
    library::{AnswerNo, AskNo, Call, EMPTY, Library, Next, NodeNo, Outcome, Table, TableNo},
    names::{self, Input, KeyNo, POOL, Tick, Who},
    render,
    scope::{Clocks, FirstCall, Kind, Scope},
    seam::{Answer, Ask},
    state::{Executing, Late, Phase, Seen, State, is_over},
    stops,
};

pub struct World {
    pub scope: Scope,
    pub flaw: Option<Flaw>,
    pub library: Library,
    /// What happens while it is looked ahead, if somebody wants to know.
    pub told: Option<Mutex<Vec<String>>>,
    /// Whether it is looked ahead from every state in which no function runs.
    pub looks_ahead: bool,
    /// What is broken, from states in which no function runs, if nothing goes wrong any more.
    pub ahead: DashMap<State, u32>,
    /// Whether the key is free in time, of tables with programs: at which time, before or after a restore.
    pub freed: DashMap<(TableNo, Tick, bool), bool>,
}

impl World {
    pub fn new(scope: Scope, flaw: Option<Flaw>, is_walked: bool) -> Self {
        let scope = match flaw {
            Some(Flaw::NoMargin) => Scope { margin: 0, ..scope },
            Some(Flaw::ClocksThatJump) => Scope {
                clocks: Clocks::Agree,
                ..scope
            },
            _ => scope,
        };
        Self {
            scope,
            flaw,
            library: Library::new(scope, is_walked),
            told: None,
            looks_ahead: !is_walked,
            ahead: DashMap::new(),
            freed: DashMap::new(),
        }
    }

    pub fn is(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    pub fn is_start(&self, who: Who) -> bool {
        matches!(self.scope.kinds[usize::from(who)], Kind::Start(_))
    }

    pub fn starts(&self) -> impl Iterator<Item = Who> {
        let all = 0..Who::try_from(self.scope.executions).unwrap_or(0);
        all.filter(|who| self.is_start(*who))
    }

    /// Which key it wants.
    pub fn key_of(&self, who: Who) -> KeyNo {
        self.scope.keys[usize::from(who)]
    }

    /// All keys that have rows, the pool included.
    pub fn keys(&self) -> std::ops::RangeInclusive<KeyNo> {
        let two = self.scope.kinds.contains(&Kind::Set);
        0..=self.scope.pool.map_or(KeyNo::from(two), |_| POOL)
    }

    pub fn has_starts(&self) -> bool {
        self.starts().next().is_some()
    }

    /// A call begins. It might as well have begun just before it reads the index.
    pub fn begin(&self, state: &mut State, call: Call) {
        let at = state.now + self.error_of(state, call);
        let has_floor = self.scope.restore && state.backup.is_none();
        let mut node = self.library.begin(call, at, has_floor);
        if let Next::Asks(ask) = self.library.next(node)
            && matches!(*self.library.ask(ask), Ask::Scan | Ask::HeldBy(_))
        {
            let answer = self.effect(state, ask, call);
            node = self.library.answered(node, at, answer);
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
        if let Call::Start(who, n, _) = call {
            state.executions[usize::from(who)].task.hears(n, outcome);
        }
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
                    if self.is_start(who) {
                        executing.phase = Phase::Released;
                    } else if state.left.round > 0 {
                        state.left.round -= 1;
                        executing.phase = Phase::Idle;
                        executing.stands();
                    } else {
                        is_over(executing, state.now, false, true);
                    }
                }
            }
            (Call::Prove(who, (lease, _), _), outcome) => {
                let has = self.library.table(state.table).held_by(who);
                let is_false = outcome == Outcome::Lost && has.is_some_and(|has| has.0 == lease);
                state.seen.must(!is_false, Invariant::L2);
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
            (Call::Ask(..) | Call::Extend(..) | Call::Return(..), outcome) => {
                self.program_hears(state, call, outcome);
            }
            (Call::Start(who, _, input), Outcome::Begun) => {
                let ran = state.executions[usize::from(who)].ran(input);
                state.seen.must(ran, Invariant::Lost);
                state.seen.answers((who, input), true);
            }
            (
                Call::Start(who, _, input),
                Outcome::Queued | Outcome::Settled | Outcome::NotStarted,
            ) => state.seen.answers((who, input), true),
            (Call::Start(who, _, input), Outcome::AnotherInput) => {
                state.seen.answers((who, input), false);
            }
            _ => {}
        }
    }

    /// An event asks for a start.
    fn asks_for_a_start(&self, state: &mut State, who: Who, input: Input) {
        let executing = &mut state.executions[usize::from(who)];
        if executing.tokens == 0 {
            executing.asked = state.now;
        }
        executing.tokens += 1;
        if self.scope.results {
            executing.task.waits_with(executing.tokens);
        }
        let call = Call::Start(who, executing.tokens, input);
        self.begin(state, call);
    }

    fn asks(&self, state: &mut State, who: Who, anew: bool) {
        if self.is_start(who) {
            return self.asks_for_a_start(state, who, 0);
        }
        if self.is_program(who) {
            return self.program_asks(state, who, anew);
        }
        self.waits(state, who, anew);
    }

    /// A task that waits in the queue.
    pub fn waits(&self, state: &mut State, who: Who, anew: bool) {
        let executing = &mut state.executions[usize::from(who)];
        if executing.tokens == 0 || anew {
            executing.asked = state.now;
        }
        executing.tokens += 1;
        executing.request += u8::from(anew);
        executing.phase = Phase::Waiting;
        executing.stands();
        let (request, token) = (executing.request, executing.tokens);
        let is_copy = |node: &NodeNo| matches!(self.library.call(*node), Call::Acquire(of, which, _) if (of, which) == (who, request));
        let is_late = |(_, call, _): &Late| matches!(call, Call::Acquire(of, which, _) if (*of, *which) == (who, request));
        if self.scope.permits.is_some()
            && (state.calls.iter().any(is_copy) || state.late.iter().any(is_late))
        {
            state.seen.copied.push((who, request));
        }
        self.begin(state, Call::Acquire(who, request, token));
    }

    /// A request takes effect, and is answered.
    fn effect(&self, state: &mut State, number: AskNo, call: Call) -> AnswerNo {
        let ask = self.library.ask(number);
        if let Some(answer) = self.calls(state, (&ask, call)) {
            return self.library.answer(answer);
        }
        if matches!(*ask, Ask::Scan | Ask::HeldBy(_)) {
            let lags = self.scope.budget.index > 0;
            let index = if lags { state.index } else { state.table };
            return self.library.effect(index, number).1;
        }
        let before = self.library.table(state.table);
        if self
            .flaw
            .is_some_and(|flaw| flaws::is_lost(flaw, &before, &ask, call))
        {
            return self.library.answer(Answer::None);
        }
        let written = match self.flaw {
            Some(flaw) => {
                let ask = flaws::written(flaw, &before, (*ask).clone(), call);
                self.library.ask_no(&ask)
            }
            None => number,
        };
        let table = if self.is(Flaw::StrangersAreOverwritten) {
            self.library.without_strangers(state.table)
        } else {
            state.table
        };
        let (table, answer) = self.library.effect(table, written);
        let left_out = |flaw| flaws::is_not_written(flaw, &before, &ask);
        if table != state.table && !self.flaw.is_some_and(left_out) {
            let table = match (self.flaw, ask.writes()) {
                (
                    Some(Flaw::BegunItemsAreDeleted),
                    [.., Write::Settle(item, Settlement::Begun { .. })],
                ) => self.library.deleted(table, &item.name),
                (Some(Flaw::WhoJoinsIsFirst), [Write::Row(at, Change::Join(_)), ..]) => {
                    self.library.with_last_first(table, at)
                }
                (Some(Flaw::ReleaseDeletesTheRow), [Write::Row(_, Change::Release(_))]) => {
                    self.library.without_rows(table)
                }
                _ => table,
            };
            state.table = table;
            let after = self.library.table(table);
            invariants::wrote(self, state, (&ask, call), (&before, &after));
        }
        if let (Some(Flaw::ItemsAreReadOnce), Ask::Read(items)) = (self.flaw, &*ask) {
            state.table = self.library.without_items(state.table, items);
        }
        match self.flaw {
            Some(flaw) => {
                let answer = self.library.answered_with(answer);
                let answer = flaws::answered(flaw, &ask, answer);
                self.library.answer(answer)
            }
            None => answer,
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
        if let (Ask::Stop(execution, why), true) = (&*ask, fate != Fate::Dies) {
            stops::is_sent(self, state, names::who(execution), *why);
        }
        let answer = match fate {
            Fate::Dies => {
                state.left.crash -= 1;
                self.ends(state, call, Outcome::Failed);
                return Some(());
            }
            Fate::Late => {
                state.left.loses(&ask);
                state.late.push((number, call, state.now));
                state.late.sort_unstable();
                self.no_answer(&ask)
            }
            Fate::AnswerLost => {
                state.left.loses(&ask);
                self.effect(state, number, call);
                self.no_answer(&ask)
            }
            Fate::Answered(0) if ask.acts() => self.effect(state, number, call),
            Fate::Answered(which) => match self.answers(state, &ask) {
                all if all.is_empty() => self.effect(state, number, call),
                mut all => {
                    let answer = all.swap_remove(which - usize::from(ask.acts()));
                    state.left.refuses(&answer);
                    if let (Ask::Input(of), Answer::Denied) = (&*ask, &answer) {
                        state.seen.unasked |= 1 << names::who(of);
                    }
                    self.forgets_too_early(state, &ask, &answer);
                    self.library.answer(answer)
                }
            },
            Fate::SentAgain => return None,
        };
        let at = state.now + self.error_of(state, call);
        let node = self.library.answered(node, at, answer);
        self.goes_on(state, node);
        Some(())
    }

    /// Whoever learns what a task is to be told deletes its item at once.
    fn forgets_too_early(&self, state: &mut State, ask: &Ask, answer: &Answer) {
        if let (Ask::Outcome(execution), Answer::Outcome(ComesTo::Ended(_))) = (ask, answer)
            && self.is(Flaw::TasksAreForgottenFirst)
        {
            let who = names::who(execution);
            state.table = self.library.without_task(state.table, who);
        }
    }

    fn no_answer(&self, ask: &Ask) -> AnswerNo {
        self.library.answer(match ask {
            Ask::Succeed(..) if self.is(Flaw::NoAnswerIsARefusal) => {
                Answer::Delivery(Delivery::Refused)
            }
            _ => Answer::None,
        })
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let beginning = |(clocks, sweeper)| self.beginning(clocks, sweeper);
        self.clocks().into_iter().map(beginning).collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.may_happen(state, actions);
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
    fn beginning(&self, clocks: Vec<Tick>, sweeper: Tick) -> State {
        let kinds = self.scope.kinds.iter().take(self.scope.executions);
        let mut state = State {
            now: self.scope.error,
            table: if self.scope.stranger {
                self.library.strange()
            } else {
                EMPTY
            },
            executions: kinds.map(|kind| Executing::new(*kind)).collect(),
            sweeper,
            index: EMPTY,
            backup: self.scope.restore.then(Box::default),
            writes: Vec::new(),
            fence: 0,
            calls: Vec::new(),
            late: Vec::new(),
            evicted: Vec::new(),
            left: self.scope.budget,
            seen: Seen::default(),
        };
        for (executing, clock) in state.executions.iter_mut().zip(clocks) {
            executing.clock = clock;
        }
        if let Some(runs) = self.scope.foreign {
            let text = names::input(names::FOREIGN);
            let text = self.library.input_no(text.as_str());
            let executing = &mut state.executions[0];
            executing.began = Some((names::FOREIGN, text));
            executing.phase = Phase::Without;
            if !runs {
                is_over(executing, 0, false, true);
            }
            executing.standings.clear();
            executing.stands();
        }
        for _ in 0..self.scope.past {
            self.has_had_the_key(&mut state);
        }
        for who in 0..self.scope.begun {
            self.asks(&mut state, who, false);
            self.makes_the_first_call(&mut state);
        }
        state.left = self.scope.budget;
        state.index = state.table;
        if self.scope.restore {
            let seen = state.seen.granted.clone();
            state.backup = Some(Box::new((state.table, seen)));
        }
        state
    }

    /// The first program has had the key, and has released it. The request that it was granted to comes again, some time.
    fn has_had_the_key(&self, state: &mut State) {
        self.asks(state, 0, true);
        if let Some(node) = state.calls.first().copied()
            && let Next::Asks(ask) = self.library.next(node)
        {
            state.late.push((ask, self.library.call(node), state.now));
        }
        self.finish(state);
        let released = self.program_releases(state, 0);
        debug_assert!(released.is_some(), "it has the key");
        self.finish(state);
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each action")]
    pub fn acts(&self, state: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Tick => {
                let ticks = self.next_tick(state);
                state.left.tick -= 1;
                self.passes(state, ticks);
            }
            Action::Step(node, fate) => self.steps(state, node, fate)?,
            Action::Arrives(place) => {
                let (ask, call, _) = state.late.remove(place);
                self.effect(state, ask, call);
            }
            Action::Asks(who) => {
                let again = state.executions[usize::from(who)].tokens > 0;
                self.asks(
                    state,
                    who,
                    self.is_program(who) || again && !self.is_start(who),
                );
            }
            Action::Retries(who) => {
                state.left.retry -= u8::from(!self.is_program(who));
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
            Action::GivesUp(who) if self.is_program(who) => {
                state.executions[usize::from(who)].rests();
            }
            Action::GivesUp(who) => {
                let executing = &mut state.executions[usize::from(who)];
                let releasing = executing.phase == Phase::Releasing;
                if releasing {
                    executing.lease = None;
                }
                is_over(executing, state.now, !releasing, true);
            }
            Action::Releases(who) if self.is_program(who) => self.program_releases(state, who)?,
            Action::Releases(who) => {
                let executing = &mut state.executions[usize::from(who)];
                if executing.phase == Phase::Releasing {
                    state.left.retry -= 1;
                } else if self.is_start(who) {
                    state.left.release -= 1;
                }
                executing.phase = Phase::Releasing;
                // A workflow waits for its branches before it releases.
                executing.work = None;
                executing.calls += 1;
                let call = Call::Release(who, executing.handle()?, executing.calls);
                self.begin(state, call);
            }
            Action::Nests(who) => {
                state.left.nest -= 1;
                let executing = &mut state.executions[usize::from(who)];
                executing.calls += 1;
                // No attempt of its own acquire has this number.
                let n = names::NESTED + executing.calls;
                let as_its_own = self.is(Flaw::ReenteredIsReleased);
                self.begin(state, Call::Nests(who, n, as_its_own));
            }
            Action::Proves(who) if self.is_program(who) => self.program_extends(state, who)?,
            Action::Extends(who) => {
                state.left.ask -= 1;
                self.program_extends(state, who)?;
            }
            Action::Writes(who) => {
                state.left.write -= 1;
                let lease = state.executions[usize::from(who)].lease?;
                let token = self.library.callers.token_of(lease);
                let place = state.writes.partition_point(|other| *other < token);
                state.writes.insert(place, token);
            }
            Action::Lands(place) => self.lands(state, place),
            Action::Jumps(who, error) => {
                state.left.jump -= 1;
                state.executions[usize::from(who)].clock = error;
            }
            Action::SweeperJumps(error) => {
                state.left.jump -= 1;
                state.sweeper = error;
            }
            Action::Indexes => {
                state.left.index -= 1;
                state.index = state.table;
            }
            Action::Freezes(key, on) => {
                state.left.freeze -= 1;
                let call = Call::Freeze(state.left.freeze, key, on);
                self.begin(state, call);
            }
            Action::Restores => self.restores(state)?,
            Action::Wipes => self.wipes(state),
            Action::Proves(who) => {
                let executing = &mut state.executions[usize::from(who)];
                executing.calls += 1;
                let call = Call::Prove(who, executing.handle()?, executing.calls);
                self.begin(state, call);
            }
            Action::Succeeds(who) => {
                let is_late = stops::is_to_be_stopped(self, state, who);
                let counts = is_late || !self.is_start(who);
                state.left.end = state.left.end.saturating_sub(counts.into());
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
                // Nobody hears what an earlier call of it comes to.
                state.executions[usize::from(who)].calls += 1;
                let guarded = self.scope.guarded[usize::from(who)];
                let keep = self.scope.keep[usize::from(who)];
                let executing = &mut state.executions[usize::from(who)];
                executing.redriven += 1;
                executing.redriven_at = state.now;
                if self.is_start(who) {
                    let kept = executing
                        .ended
                        .is_some_and(|end| keep > 0 && state.now <= end.stopped + keep);
                    let kept = kept && executing.lease.is_some();
                    // Nobody can know of the others: they are the exception of S8.
                    executing.phase = if kept || self.is(Flaw::RedrivesCount) {
                        Phase::Section
                    } else {
                        executing.lease = None;
                        executing.beside = Some(state.now);
                        Phase::Without
                    };
                    executing.stands();
                } else if executing.lease.is_none() {
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
            Action::Evicts(key) => {
                state.left.evict -= 1;
                let call = Call::Evict(state.left.evict, key);
                self.begin(state, call);
            }
            Action::Limits(key, none) => {
                state.left.limit -= 1;
                let call = Call::Limit(state.left.limit, key, none);
                self.begin(state, call);
            }
            Action::Again(who) => {
                state.left.again -= 1;
                self.asks_for_a_start(state, who, 0);
            }
            Action::Other(who) => {
                state.left.other -= 1;
                self.asks_for_a_start(state, who, 1);
            }
            Action::Purges(who) => {
                state.left.purge -= 1;
                // Whoever has failed waits for somebody to repeat it.
                let failed =
                    |table: &Table| matches!(table.start(who), Some((StartStatus::Failed(_), _)));
                if !failed(&self.library.table(state.table)) {
                    state.seen.purged |= 1 << who;
                }
                state.table = self.library.purged(state.table, who);
                state.seen.granted.retain(|((of, _), _)| *of != who);
            }
            Action::Repeats(who) => {
                state.left.repeat -= 1;
                let call = Call::Repeat(who, state.left.repeat);
                self.begin(state, call);
            }
            Action::Dismisses(who) => {
                state.left.dismiss -= 1;
                let call = Call::Dismiss(who, state.left.dismiss);
                self.begin(state, call);
            }
            Action::Begins(who) => {
                state.left.begin -= 1;
                let call = Call::Begin(who, state.left.begin);
                self.begin(state, call);
            }
            Action::CallerEnds(who) => {
                state.left.caller -= 1;
                let now = state.now;
                state.executions[usize::from(who)].loses_its_caller(now);
            }
            Action::IsToldRedriven(who) => {
                state.left.reap -= 1;
                let call = Call::Redriven(who, state.left.reap);
                self.begin(state, call);
            }
        }
        Some(())
    }

    fn makes_the_first_call(&self, state: &mut State) {
        while self.scope.first_call != FirstCall::Answered
            && let Some(node) = state.calls.first().copied()
            && let Next::Asks(ask) = self.library.next(node)
        {
            let is_it = matches!(*self.library.ask(ask), Ask::Begin(..));
            if is_it && self.scope.first_call == FirstCall::Slow {
                return;
            }
            let fate = if is_it { Fate::Late } else { Fate::Answered(0) };
            self.steps(state, node, fate);
        }
        self.finish(state);
    }

    /// Every call comes to its end, one after the other, and nothing goes wrong.
    pub fn finish(&self, state: &mut State) {
        while let Some(node) = state.calls.first().copied() {
            if self.steps(state, node, Fate::Answered(0)).is_none() {
                return;
            }
            if let Some(told) = &self.told {
                let step = Action::Step(node, Fate::Answered(0));
                let step = render::step(self, &step, state);
                told.lock().expect("no thread has panicked").push(step);
            }
        }
    }

    /// How much time passes next, in half minutes.
    pub fn next_tick(&self, state: &State) -> Tick {
        let lengths = self.scope.ticks;
        let taken = usize::from(self.scope.budget.tick - state.left.tick);
        lengths[taken.min(lengths.len() - 1)]
    }

    /// So many half minutes pass.
    pub fn passes(&self, state: &mut State, ticks: Tick) {
        state.now += ticks;
        let now = state.now;
        for executing in &mut state.executions {
            if executing.beside.is_some() && executing.phase == Phase::Without {
                executing.beside = Some(now);
            }
            executing.work = executing.work.filter(|(_, until)| now < *until);
            let latest = executing.standings.pop();
            if !self.is(Flaw::AnswersAreOlder) {
                executing.standings.clear();
            }
            executing.standings.extend(latest);
        }
        if !self.is(Flaw::CallsAreLater) {
            state
                .late
                .retain(|(.., sent)| now <= sent + names::SIGNATURE);
        }
        // Whoever was to call by now, and has not, does not call any more; and no function lives for longer than it may.
        let calls = std::mem::take(&mut state.calls);
        for node in calls {
            let begun = self.library.begun(node) - self.error_of(state, self.library.call(node));
            let is_old = begun + self.scope.life < now;
            let is_over = match self.library.next(node) {
                Next::Asks(ask) => {
                    matches!(*self.library.ask(ask), Ask::Begin(_, _, until) if until < now)
                }
                Next::Ends(_) => false,
            };
            let is_over = is_over || is_old;
            if is_over && !self.is(Flaw::FunctionsAreSlower) {
                self.ends(state, self.library.call(node), Outcome::Failed);
            } else {
                state.calls.push(node);
            }
        }
    }
}
