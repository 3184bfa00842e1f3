//! Tasks that wait for the results of starts: what they may be told, and that they are.

use super::{
    super::shared::{End, SKEW, STALE, TaskResult},
    judge::{Judge, Record},
    world::World,
};
use leasehold::{Execution, Holder, IfHeld, ResultTo, StartStatus, TaskToken};

/// Who waits with a token, from here on: the task of a start, by its number.
pub const RESULTS: usize = 1_000_000;

/// What waits for results with its own execution, in their ARNs.
pub const CALLERS: &str = ":execution:calls:";

/// The execution whose task waits for the result of a start.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Asking {
    /// Whether it does.
    pub wants: bool,
    /// It is stopped, and the started one is to be stopped with it.
    caller: Option<Holder>,
    is_over: bool,
    /// The token of its task now.
    token: Option<String>,
    attempts: u32,
    /// Functions at work for it.
    calls: u32,
    /// The function of its task has answered, so that it waits for the result.
    waits: bool,
    /// Since when nothing else ends the execution, because that of its caller has ended.
    pub must_stop: Option<u64>,
    /// The execution has failed, perhaps before it was redriven.
    pub has_failed: bool,
    /// The task was told that the start has failed, since it did.
    pub was_refused: bool,
}

impl World {
    pub fn draw_asking(&mut self, who: usize) -> Asking {
        let wants = self.rng.bool();
        let stops = wants && self.rng.u8(..3) == 0;
        let caller = stops.then(|| {
            let arn = format!("arn:aws:states:eu-west-1:123456789012{CALLERS}c{who}");
            Holder::new(arn).expect("valid")
        });
        if let Some(caller) = &caller {
            let mut shared = self.shared.get();
            shared.set_execution(caller, Execution::Running);
        }
        Asking {
            wants,
            caller,
            ..Asking::default()
        }
    }

    /// What a call for this start has as its token, if the task has one. A task asks anew when its function has failed.
    pub fn asks_for_result(&mut self, who: usize) -> Option<ResultTo> {
        let (token, caller, execution) = self.judge(|judge| {
            let record = &mut judge.starts[who];
            let execution = record.start.execution();
            let asking = &mut record.asking;
            if !asking.wants || asking.is_over {
                return (None, None, execution);
            }
            if asking.token.is_none() {
                asking.attempts += 1;
                asking.token = Some(format!("r{who}.{}", asking.attempts));
            }
            asking.calls += u32::from(asking.token.is_some());
            (asking.token.clone(), asking.caller.clone(), execution)
        });
        let token = token?;
        let mut shared = self.shared.get();
        if !shared.tokens.contains_key(&token) {
            let waits = caller.as_ref().unwrap_or(&execution);
            shared.waits(&token, RESULTS + who, waits);
        }
        Some(ResultTo {
            task_token: TaskToken::new(token).expect("valid"),
            stop_with_caller: caller.is_some(),
            caller: caller.unwrap_or(execution),
        })
    }

    /// A function of a task has answered, or died.
    pub fn task_call_is_over(&mut self, who: usize, token: &TaskToken, is_well: bool) {
        let token = token.expose();
        let fails = self.judge(|judge| {
            let asking = &mut judge.starts[who].asking;
            asking.calls -= 1;
            if asking.token.as_deref() != Some(token) {
                return false;
            }
            if is_well {
                asking.waits = true;
            } else {
                (asking.token, asking.waits) = (None, false);
            }
            !is_well
        });
        if fails {
            self.shared.get().is_done(token);
        }
    }

    pub fn task_is_told(&mut self, who: usize, result: &TaskResult) {
        let mut shared = self.shared.get();
        shared.saw(match result {
            Ok(_) => "a result",
            Err(error) if error == "Failed" => "a failure as a result",
            Err(_) => "a refusal as a result",
        });
        shared.judge(|judge| judge.task_is_told(who, result));
    }

    /// The execution of a task is stopped, which waits for a start.
    pub fn caller_ends(&mut self, who: usize) {
        let now = self.now();
        let (caller, token) = self.judge(|judge| {
            let record = &mut judge.starts[who];
            record.dismissing = true;
            let asking = &mut record.asking;
            asking.is_over = true;
            // What has failed once was the result, whether or not it is redriven.
            asking.must_stop = (asking.waits && !asking.has_failed).then_some(now);
            asking.waits = false;
            (asking.caller.clone(), asking.token.take())
        });
        let mut shared = self.shared.get();
        if let Some(token) = token {
            shared.is_done(&token);
        }
        if let Some(caller) = caller {
            shared.saw("a caller is stopped");
            shared.end(&caller, End::Stopped, true);
        }
    }
}

impl Record {
    fn may_be_told(&self, result: &TaskResult) -> bool {
        let has_succeeded = || {
            let ended = self.run().and_then(|run| run.ended);
            ended.is_some_and(|(_, _, success)| success)
        };
        match result {
            // By each call that finds it so.
            Ok(output) if output.contains(r#""outcome":"skipped""#) => {
                self.start.if_held == IfHeld::Skip && self.status == Some(StartStatus::Skipped)
            }
            Ok(output) => *output == format!("\"{}\"", self.start.execution()) && has_succeeded(),
            Err(error) => match error.as_str() {
                "Failed" => self.asking.has_failed,
                // It may have been repeated since.
                "Lease.NotStarted" | "Lease.QueueTimeout" => {
                    self.puts > 1
                        || !matches!(self.status, Some(StartStatus::Waiting | StartStatus::Begun))
                }
                "Lease.Superseded" => matches!(self.status, Some(StartStatus::Superseded(_))),
                _ => false,
            },
        }
    }
}

impl Judge {
    fn task_is_told(&mut self, who: usize, result: &TaskResult) {
        let record = &mut self.starts[who];
        (record.asking.token, record.asking.waits) = (None, false);
        record.asking.was_refused |= matches!(result, Err(error) if error.starts_with("Lease."));
        if !record.may_be_told(result) {
            let (name, says) = (record.name().to_owned(), record.says());
            self.is_wrong(format!(
                "the task of {name} is told {result:?}, and its item is {says}"
            ));
        }
    }

    /// An execution is stopped because its caller has ended.
    pub fn stops_with_caller(&mut self, execution: &Holder) {
        let starts = self.starts.iter();
        let mut of_it = starts.filter(|record| record.start.execution() == *execution);
        let Some(record) = of_it.next() else { return };
        if !record.asking.is_over {
            let name = record.name().to_owned();
            self.is_wrong(format!("{name} is stopped, and its caller runs"));
        }
    }

    /// All tasks were answered, but for those whose executions nobody may ask about.
    pub fn nobody_waits_for_results(&mut self, unaskable: bool) {
        let is_left = |record: &&Record| record.asking.waits && !(record.fickle && unaskable);
        let waiting = self.starts.iter().filter(is_left);
        let waiting: Vec<_> = waiting.map(|record| record.name().to_owned()).collect();
        for name in waiting {
            self.is_wrong(format!("stuck: the task of {name} was not answered"));
        }
    }

    /// Without faults what was to stop with its caller is stopped, or leaves the queue, at the first look that shows its end; unless
    /// nobody may ask about the machine that comes and goes.
    pub fn nobody_outlives_its_caller(&mut self, look: u64, pause: u64, unaskable: bool, now: u64) {
        let most = look + STALE + 2 * pause + 4 * SKEW;
        let calm_since = self.calm_since;
        let is_late = |record: &&Record| {
            let since = record.asking.must_stop;
            since.is_some_and(|at| at.max(calm_since) + most < now)
                && (record.runs() || record.waits())
                && !(unaskable && record.fickle)
        };
        let late = self.starts.iter().filter(is_late);
        let late: Vec<_> = late
            .map(|record| (record.name().to_owned(), record.says()))
            .collect();
        for (name, says) in late {
            self.is_wrong(format!(
                "{name} is {says}, and its caller has ended long since"
            ));
        }
    }

    pub fn can_lose_caller(&self, who: usize) -> bool {
        let asking = &self.starts[who].asking;
        asking.caller.is_some() && !asking.is_over
    }
}
