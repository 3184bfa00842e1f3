//! Tasks that wait for the results of starts, and what they are told.

use leasehold::{Delivery, Execution, Failure, Outcome as ComesTo, StartStatus};

use super::{
    flaws::Flaw,
    invariants::Invariant,
    library::Outcome,
    names::{self, Tick, Who},
    seam::{Answer, Ask},
    state::{Executing, Standing, State},
    world::World,
};

/// The error of an execution that has failed.
const FAILED: &str = "Failed";

/// The task that waits for the result of a start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Task {
    /// Its latest token: each try has its own.
    token: u8,
    pub waits: bool,
    told: Option<Told>,
    /// The function that brought this token has accepted the start.
    accepted: bool,
    /// When the execution of the task was stopped.
    over: Option<Tick>,
    /// Nothing else ends the started one, because of that.
    pub must_stop: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Told {
    Output,
    Failure,
    /// It has not begun, and never will.
    Refusal,
}

impl Task {
    pub fn waits_with(&mut self, token: u8) {
        (self.token, self.waits, self.accepted) = (token, true, false);
    }

    pub const fn is_accepted(&self) -> bool {
        self.accepted
    }

    pub const fn has_no_caller(&self) -> bool {
        self.over.is_some()
    }

    pub const fn is_waited_for_with(&self, token: u8) -> bool {
        self.waits && self.token == token
    }

    /// The function that brought this token has ended, or died: an error is the answer to the task.
    pub fn hears(&mut self, token: u8, outcome: Outcome) {
        let is_error = matches!(
            outcome,
            Outcome::Failed | Outcome::NotStarted | Outcome::AnotherInput
        );
        self.waits &= self.token != token || !is_error;
        self.accepted |= self.token == token && !is_error;
    }
}

impl Executing {
    /// The execution is stopped whose task waits for this one.
    pub fn loses_its_caller(&mut self, now: Tick) {
        let task = &mut self.task;
        // What has failed once was the result, whether or not it is redriven.
        let has_ended = self.ended.is_some();
        task.must_stop = task.waits && task.accepted && !has_ended;
        (task.waits, task.over) = (false, Some(now));
    }
}

impl World {
    /// What Step Functions says of the execution whose task waits for a start.
    pub fn says_of_caller(&self, state: &State, of: Who) -> Vec<Answer> {
        let over = state.executions[usize::from(of)].task.over;
        let seems_over = over.or_else(|| self.is(Flaw::CallersSeemOver).then_some(state.now));
        let ended = seems_over.map(|at| Execution::Ended {
            stopped_at: names::instant(at),
            redrivable: true,
            all_answered: true,
        });
        let runs = over.is_none_or(|at| at == state.now);
        let all = ended.into_iter().chain(runs.then_some(Execution::Running));
        all.map(Answer::Execution).collect()
    }

    /// What an execution has come to.
    pub fn comes_to(&self, who: Who, executing: &Executing, standing: &Standing) -> ComesTo {
        if executing.began.is_none() || !standing.began {
            return ComesTo::Unknown;
        }
        match standing.over {
            None if self.is(Flaw::ResultsComeEarly) => ComesTo::Ended(Some(Ok(names::output(who)))),
            None => ComesTo::Runs,
            Some(end) => ComesTo::Ended(Some(if end.redrivable {
                Err(Failure {
                    error: FAILED.to_owned(),
                    cause: String::new(),
                })
            } else {
                Ok(names::output(who))
            })),
        }
    }

    /// A call with the token of such a task.
    pub fn tells_a_task(&self, state: &mut State, ask: &Ask) -> Delivery {
        let (Ask::Succeed(token, text) | Ask::Fail(token, text)) = ask else {
            return Delivery::Refused;
        };
        let Some((who, token)) = names::of_result_token(token) else {
            return Delivery::Refused;
        };
        let table = self.library.table(state.table);
        let status = table.start(who).map(|(status, _)| status);
        // It may have been accepted anew.
        let is_purged = state.seen.purged & (1 << who) != 0;
        let executing = &mut state.executions[usize::from(who)];
        let has_begun = executing.began.is_some();
        let ended = executing.ended.filter(|_| !executing.runs());
        let (told, is_true) = match (ask, text.as_str()) {
            (Ask::Succeed(..), output) if output.contains(r#""outcome":"skipped""#) => {
                let is_skipped = matches!(status, Some(StartStatus::Skipped));
                (Told::Refusal, is_skipped && !has_begun)
            }
            (Ask::Succeed(..), output) => {
                let has_succeeded = ended.is_some_and(|end| !end.redrivable);
                (Told::Output, has_succeeded && output == names::output(who))
            }
            (_, FAILED) => {
                let has_failed = ended.is_some_and(|end| end.redrivable);
                (Told::Failure, has_failed || executing.redriven > 0)
            }
            (_, "Lease.Superseded") => {
                let is_away = matches!(status, Some(StartStatus::Superseded(_)));
                (Told::Refusal, is_away)
            }
            (_, "Lease.NotStarted" | "Lease.QueueTimeout") => {
                let never = matches!(status, Some(StartStatus::Failed(_) | StartStatus::Skipped));
                (Told::Refusal, never && !has_begun || is_purged)
            }
            _ => (Told::Refusal, is_purged && !has_begun),
        };
        // Each end of one that is redriven may be told, by whoever has seen it.
        let is_another = is_purged || executing.redriven > 0;
        let task = &mut executing.task;
        let is_same = task.told.is_none_or(|before| before == told) || is_another;
        let waits = task.is_waited_for_with(token);
        if waits {
            (task.waits, task.told) = (false, Some(told));
        }
        state.seen.must(is_true && is_same, Invariant::Tells);
        if waits {
            Delivery::Delivered
        } else {
            Delivery::Refused
        }
    }
}
