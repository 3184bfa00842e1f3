//! Step Functions: what it says of executions, and what calls do there.

use std::time::Duration;

use leasehold::{
    Begun, Delivery, Execution, Holder, Outcome, Receipt, Redrives, Stands, StopFor, TaskToken,
    Timestamp,
};

use super::{
    flaws::Flaw,
    invariants::Invariant,
    library::Call,
    names::{self, CALLERS, Input, Who},
    scope::Budget,
    seam::{Answer, Ask},
    state::{Executing, Phase, Standing, State},
    world::World,
};

impl World {
    /// How Step Functions may answer: more than one way, if what happened is recent. A call that acts has no effect if it is
    /// answered like this.
    pub fn answers(&self, state: &State, ask: &Ask) -> Vec<Answer> {
        let of = match ask {
            Ask::Describe(holder)
            | Ask::Received(holder, _)
            | Ask::Input(holder)
            | Ask::Outcome(holder)
            | Ask::Redrives(holder)
            | Ask::Stop(holder, _) => names::who(holder),
            Ask::Begin(..) => return refusals(&state.left),
            Ask::Succeed(..) | Ask::Fail(..) if state.left.forbid > 0 => {
                return vec![Answer::Denied];
            }
            _ => return Vec::new(),
        };
        if let Some(of) = of.checked_sub(CALLERS) {
            return self.says_of_caller(state, of);
        }
        let Some(executing) = state.executions.get(usize::from(of)) else {
            return vec![Answer::Execution(Execution::Unknown)];
        };
        let mut all = Vec::new();
        let fails = state.left.throttle > 0 && !matches!(ask, Ask::Stop(..));
        // What is most recent comes first.
        for standing in executing.standings.iter().rev() {
            let says = match ask {
                Ask::Describe(_) => Answer::Execution(self.says(of, executing, standing)),
                Ask::Received(_, lease) => {
                    let mut shown = standing.shown.iter();
                    let is_shown = shown.any(|it| self.library.callers.is_lease(*it, lease));
                    Answer::Receipt(if self.is(Flaw::HistoriesAreNotRead) {
                        Receipt::Unreadable
                    } else if is_shown {
                        Receipt::Shown
                    } else {
                        let waits = standing.waits && !self.is(Flaw::WaitersAreTakenForDead);
                        Receipt::Missing { waits }
                    })
                }
                Ask::Input(_) => {
                    let began = executing.began.filter(|_| standing.began);
                    let began = began.filter(|_| !self.is(Flaw::NobodyAsks));
                    Answer::Input(began.map(|(_, text)| self.library.input(text)))
                }
                Ask::Outcome(_) => Answer::Outcome(self.comes_to(of, executing, standing)),
                Ask::Redrives(_) => {
                    Answer::Redrives(standing.began.then(|| redrives(executing, standing)))
                }
                _ if standing.began => continue,
                _ => Answer::Yes(false),
            };
            if !all.contains(&says) {
                all.push(says);
            }
        }
        let runs = Answer::Outcome(Outcome::Runs);
        if matches!(ask, Ask::Outcome(_)) && all.len() > 1 && all.contains(&runs) {
            // With what it has ended is shown later than that.
            all.push(Answer::Outcome(Outcome::Incomplete));
        }
        if state.left.forbid > 0 {
            all.push(Answer::Denied);
        }
        if fails {
            all.push(match ask {
                Ask::Received(..) => Answer::Receipt(Receipt::Unreadable),
                _ => Answer::Throttled,
            });
        }
        all
    }

    const fn believes_events(&self) -> bool {
        matches!(
            self.flaw,
            Some(Flaw::EventsAreBelieved | Flaw::ReapLooksUpBeforeItReads)
        )
    }

    fn says(&self, who: Who, executing: &Executing, standing: &Standing) -> Execution {
        if !standing.began {
            return if self.is(Flaw::UnknownIsOver) {
                Execution::Ended {
                    stopped_at: names::instant(0),
                    redrivable: false,
                    all_answered: true,
                }
            } else {
                Execution::Unknown
            };
        }
        let over = standing
            .over
            .or_else(|| executing.ended.filter(|_| self.believes_events()));
        let Some(end) = over.filter(|_| !self.is(Flaw::NobodyLooks)) else {
            return Execution::Running;
        };
        let keep = names::TICK * u32::from(self.scope.keep[usize::from(who)].unsigned_abs());
        let stopped_at = names::instant(end.stopped);
        let stopped_at = match self.flaw {
            Some(Flaw::KeepIsIgnored) => stopped_at.minus(keep + names::TICK),
            Some(Flaw::KeepEndsOnTime) => stopped_at.minus(names::TICK),
            // As if it had ended after whatever its redrive has written.
            Some(Flaw::ReapTrustsAStaleAnswer | Flaw::ReapLooksUpBeforeItReads) => {
                stopped_at.plus(names::TICK * 100)
            }
            Some(Flaw::ReapComparesClocksAsTheyAre) => {
                stopped_at.plus(names::TICK * u32::from(self.scope.margin.unsigned_abs()))
            }
            // As if it were the first end, whose grace is over.
            Some(Flaw::ProofsLeaveTheGrace) => Timestamp::from_millis(0),
            _ => stopped_at,
        };
        Execution::Ended {
            stopped_at,
            redrivable: end.redrivable && !self.is(Flaw::LooksTrustStaleAnswers),
            all_answered: end.all_answered
                || self.is(Flaw::NoGrace)
                || self.is(Flaw::WhatEndedIsReleasedAtOnce),
        }
    }

    /// What a call to Step Functions does, and is answered. None if the request is the table's.
    pub fn calls(&self, state: &mut State, (ask, call): (&Ask, Call)) -> Option<Answer> {
        Some(match ask {
            Ask::Succeed(token, _) | Ask::Fail(token, _)
                if names::of_result_token(token).is_some() =>
            {
                Answer::Delivery(self.tells_a_task(state, ask))
            }
            Ask::Succeed(token, output) => {
                let (told, until) = self.library.told(output);
                let waits = waiting_with(state, token);
                waits.map_or(Answer::Delivery(Delivery::Refused), |executing| {
                    executing.phase = Phase::Section;
                    executing.shown.push(told.0);
                    executing.has_until(told, until);
                    Answer::Delivery(Delivery::Delivered)
                })
            }
            Ask::Fail(token, error) => {
                let waits = waiting_with(state, token).filter(|_| !self.is(Flaw::NobodyIsSentAway));
                let Some(executing) = waits else {
                    return Some(Answer::Delivery(Delivery::Refused));
                };
                executing.phase = Phase::Failed;
                executing.stands();
                let asked = executing.asked;
                let is_over = state.now >= asked + self.scope.wait;
                let is_late = error == "Lease.QueueTimeout";
                state.seen.must(!is_late || is_over, Invariant::Early);
                Answer::Delivery(Delivery::Delivered)
            }
            Ask::Waits(token) => Answer::Yes(
                self.is(Flaw::DeadTokensAreStored)
                    || waiting_with(state, token).is_some()
                    || names::of_result_token(token).is_some_and(|(who, token)| {
                        let task = &state.executions[usize::from(who)].task;
                        task.is_waited_for_with(token)
                    }),
            ),
            Ask::Begin(holder, input, _) => self.begins(state, (names::who(holder), call), input),
            Ask::Stop(_, StopFor::Caller) if self.is(Flaw::CalledOnesRunOn) => Answer::Yes(true),
            Ask::Stop(_, StopFor::Redrive) if self.is(Flaw::RedrivenOnesRunOn) => Answer::Yes(true),
            Ask::Stop(holder, _) => stops(state, holder),
            _ => return None,
        })
    }

    /// `StartExecution`: once for each name.
    fn begins(&self, state: &mut State, (who, call): (Who, Call), input: &str) -> Answer {
        if self.is(Flaw::NobodyBegins) && matches!(call, Call::Sweep(_) | Call::Reap(..)) {
            return Answer::None;
        }
        let lease = self.library.table(state.table).held_by(who);
        let passed = self.library.passed(input);
        let text = self.library.input_no(input);
        let with: (Input, u32) = (names::of_input(input), text);
        let executing = &mut state.executions[usize::from(who)];
        match executing.began {
            None => {}
            Some(_) if self.is(Flaw::NamesAreUsedAgain) => state.seen.must(false, Invariant::Twice),
            Some(before) if executing.runs() && before == with => {
                return Answer::Begun(Begun::Began);
            }
            Some(_) => return Answer::Begun(Begun::NameInUse),
        }
        executing.began = Some(with);
        executing.phase = Phase::Section;
        // What it is passed may be what another call was granted before.
        let has = lease.or(passed);
        (executing.lease, executing.permit) = (has.map(|has| has.0), has.and_then(|has| has.1));
        executing.stands();
        Answer::Begun(Begun::Began)
    }
}

/// For good, because there is no such machine or it may not be started, or for now.
fn refusals(left: &Budget) -> Vec<Answer> {
    let refused = Begun::Refused("there is no such machine".to_owned());
    let all = [
        (left.deny, Answer::Begun(refused)),
        (left.throttle, Answer::Throttled),
        (left.forbid, Answer::Denied),
    ];
    let may = all.into_iter().filter(|(left, _)| *left > 0);
    may.map(|(_, answer)| answer).collect()
}

fn redrives(executing: &Executing, standing: &Standing) -> Redrives {
    let stands = match standing.over {
        None => Stands::Runs,
        Some(end) if end.redrivable => Stands::Redrivable,
        Some(_) => Stands::Final,
    };
    // Late in its half minute: whatever was written in it before was written before.
    let late = Duration::from_millis(900);
    let at = (standing.redriven > 0).then(|| names::instant(executing.redriven_at).plus(late));
    let count = standing.redriven.into();
    Redrives { stands, count, at }
}

/// `StopExecution`, while a Lambda function of it may be at work.
fn stops(state: &mut State, holder: &Holder) -> Answer {
    let who = names::who(holder);
    let executing = &state.executions[usize::from(who)];
    if executing.runs() {
        // What gives its lease back has nothing else at work.
        let works = executing.phase != Phase::Releasing;
        state.ends_with(who, true, works);
    }
    Answer::Yes(state.executions[usize::from(who)].began.is_some())
}

/// The execution whose task waits with this token.
fn waiting_with<'a>(state: &'a mut State, token: &TaskToken) -> Option<&'a mut Executing> {
    let (who, token) = names::of_token(token)?;
    let executing = state.executions.get_mut(usize::from(who))?;
    executing.waits_with(token).then_some(executing)
}
