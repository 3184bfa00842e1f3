//! An execution of a state machine, seen and steered through the Step Functions API alone.

use aws_sdk_sfn::Client;
use aws_sdk_sfn::operation::describe_execution::DescribeExecutionOutput;
use aws_sdk_sfn::types::{ExecutionStatus, HistoryEvent, HistoryEventType};
use leasehold::Timestamp;
use serde_json::Value;
use tokio::time::{Duration, sleep};

use crate::fixture::eventually;

/// How an execution ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// `SUCCEEDED`, `FAILED`, `ABORTED` or `TIMED_OUT`.
    pub status: String,
    /// The error name; empty if it succeeded.
    pub error: String,
    /// The cause; empty if it succeeded.
    pub cause: String,
    /// The output; null if it did not succeed.
    pub output: Value,
    /// How often it was redriven.
    pub redrives: i32,
}

/// An execution.
#[derive(Clone)]
pub struct Execution {
    /// Its ARN.
    pub arn: String,
    sfn: Client,
}

impl Execution {
    /// An execution that is there.
    pub fn of(sfn: &Client, arn: &str) -> Self {
        Self {
            arn: arn.to_owned(),
            sfn: sfn.clone(),
        }
    }

    /// Starts an execution of `machine`.
    pub async fn start(sfn: &Client, machine: &str, input: &Value) -> Self {
        let start = sfn.start_execution().state_machine_arn(machine);
        let started = start.input(input.to_string()).send().await.unwrap();
        Self::of(sfn, started.execution_arn())
    }

    /// What the service says of it.
    pub async fn describe(&self) -> DescribeExecutionOutput {
        let describe = self.sfn.describe_execution().execution_arn(&self.arn);
        describe.send().await.unwrap()
    }

    /// Whether the service knows it.
    pub async fn is_known(&self) -> bool {
        let describe = self.sfn.describe_execution().execution_arn(&self.arn);
        match describe.send().await {
            Ok(_) => true,
            Err(error) => {
                let error = error.into_service_error();
                assert!(error.is_execution_does_not_exist(), "{error:?}");
                false
            }
        }
    }

    /// Waits for the end.
    pub async fn ended(&self) -> Ended {
        let what = format!("the end of {}", self.arn);
        let ended = eventually(&what, async || {
            let described = self.describe().await;
            (*described.status() != ExecutionStatus::Running).then_some(described)
        });
        // One that hangs says where, before nobody waits for it any more.
        let late = async {
            sleep(Duration::from_secs(80)).await;
            let history = self.history().await;
            let last = history.0.iter().rev().take(4).map(HistoryEvent::r#type);
            let last: Vec<_> = last.collect();
            eprintln!("{what}: in {:?}, last events {last:?}", history.path());
            std::future::pending().await
        };
        let described = tokio::select! {
            described = ended => described,
            never = late => never,
        };
        let output = described.output();
        Ended {
            status: described.status().as_str().to_owned(),
            error: described.error().unwrap_or_default().to_owned(),
            cause: described.cause().unwrap_or_default().to_owned(),
            output: output.map_or(Value::Null, |text| serde_json::from_str(text).unwrap()),
            redrives: described.redrive_count().unwrap_or_default(),
        }
    }

    /// When it started and when it ended.
    pub async fn times(&self) -> [Timestamp; 2] {
        let described = self.describe().await;
        let times = [Some(described.start_date()), described.stop_date()];
        times.map(|date| timestamp(date.unwrap()))
    }

    /// Its history so far.
    pub async fn history(&self) -> History {
        let pages = self.sfn.get_execution_history().execution_arn(&self.arn);
        let events = pages.into_paginator().items().send();
        History(events.collect::<Result<_, _>>().await.unwrap())
    }

    /// Waits until its history shows something.
    pub async fn shows(&self, what: &str, seen: impl Fn(&History) -> bool) {
        let what = format!("{what} in {}", self.arn);
        eventually(&what, async || {
            let history = self.history().await;
            let (is_seen, is_over) = (seen(&history), history.is_over());
            assert!(is_seen || !is_over, "no {what}, but {:?}", history.path());
            is_seen.then_some(())
        })
        .await;
    }

    /// Waits until `state` was entered `nth` times.
    pub async fn reaches(&self, state: &str, nth: usize) {
        let entered =
            |history: &History| history.path().iter().filter(|s| *s == state).count() >= nth;
        self.shows(state, entered).await;
    }

    /// Waits until the task of `state`, entered for the `nth` time, has begun, and a little more, so that its function
    /// is at work.
    pub async fn in_task(&self, state: &str, nth: usize) {
        let begun = |history: &History| {
            let (mut entered, mut started) = (0, false);
            for event in &history.0 {
                if let Some(name) = entered_state(event) {
                    entered += usize::from(name == state);
                    started = false;
                } else if *event.r#type() == HistoryEventType::TaskStarted {
                    started = true;
                }
            }
            entered >= nth && started
        };
        self.shows(&format!("a task of {state}"), begun).await;
        sleep(Duration::from_millis(150)).await;
    }

    /// Waits until the `nth` attempt of `state`, since it was last entered, waits for its callback.
    pub async fn waits_in(&self, state: &str, nth: usize) {
        let waits = |history: &History| {
            let (mut here, mut attempts, mut waits) = (false, 0, false);
            for event in &history.0 {
                if let Some(name) = entered_state(event) {
                    (here, attempts, waits) = (name == state, 0, false);
                } else if *event.r#type() == HistoryEventType::TaskScheduled {
                    (attempts, waits) = (attempts + 1, false);
                } else if *event.r#type() == HistoryEventType::TaskSubmitted {
                    waits = true;
                }
            }
            here && attempts >= nth && waits
        };
        self.shows(&format!("a callback of {state}"), waits).await;
    }

    /// Stops it and waits for its end.
    pub async fn stop(&self) {
        let stop = self.sfn.stop_execution().execution_arn(&self.arn);
        stop.error("Test.Stop").send().await.unwrap();
        assert_eq!(self.ended().await.status, "ABORTED");
    }

    /// Starts it again where it ended.
    pub async fn redrive(&self) {
        let redrive = self.sfn.redrive_execution().execution_arn(&self.arn);
        redrive.send().await.unwrap();
    }

    /// The executions of `machine` that were started for this one, the first one first: their names begin alike, or it has asked start
    /// for them by name.
    pub async fn children(&self, machine: &str) -> Vec<Self> {
        let pages = self.sfn.list_executions().state_machine_arn(machine);
        let listed = pages.into_paginator().items().send();
        let listed: Vec<_> = listed.collect::<Result<_, _>>().await.unwrap();
        let name = self.arn.rsplit(':').next().unwrap();
        let stem = &name[..name.len().min(40)];
        let asked = self.history().await.asked_names();
        let mut ours: Vec<_> = listed
            .iter()
            .filter(|child| {
                let name = child.name();
                name.starts_with(stem) || asked.iter().any(|asked| asked == name)
            })
            .collect();
        ours.sort_by_key(|child| *child.start_date());
        let of = |child: &&aws_sdk_sfn::types::ExecutionListItem| {
            Self::of(&self.sfn, child.execution_arn())
        };
        ours.iter().map(of).collect()
    }
}

/// The events of an execution, in order.
pub struct History(pub Vec<HistoryEvent>);

impl History {
    /// The states entered.
    pub fn path(&self) -> Vec<String> {
        let entered = self.0.iter().filter_map(entered_state);
        entered.map(str::to_owned).collect()
    }

    /// The names in the payloads of its tasks.
    fn asked_names(&self) -> Vec<String> {
        let scheduled = self.0.iter().filter_map(|event| {
            let parameters = event.task_scheduled_event_details()?.parameters();
            let parameters: Value = serde_json::from_str(parameters).ok()?;
            Some(parameters["Payload"]["name"].as_str()?.to_owned())
        });
        scheduled.collect()
    }

    /// Whether it has ended, and was not redriven since.
    fn is_over(&self) -> bool {
        let last = self.0.last().map(HistoryEvent::r#type);
        let ends = ["Succeeded", "Failed", "Aborted", "TimedOut"];
        last.is_some_and(|last| {
            ends.iter()
                .any(|end| last.as_str() == format!("Execution{end}"))
        })
    }

    /// What happened since the last redrive.
    pub fn since_redrive(mut self) -> Self {
        let redriven = |event: &HistoryEvent| event.r#type().as_str() == "ExecutionRedriven";
        let at = self.0.iter().rposition(redriven).expect("a redrive");
        Self(self.0.split_off(at))
    }

    /// The time limit of each task that was begun, and its parameters.
    pub fn tasks(&self) -> Vec<(Option<i64>, Value)> {
        let scheduled = self.0.iter().filter_map(|event| {
            let details = event.task_scheduled_event_details()?;
            let parameters = serde_json::from_str(details.parameters()).unwrap();
            Some((details.timeout_in_seconds(), parameters))
        });
        scheduled.collect()
    }

    /// How often a function was begun, by a part of its ARN.
    pub fn calls(&self, function: &str) -> usize {
        let of = |(_, task): &&(Option<i64>, Value)| task.to_string().contains(function);
        self.tasks().iter().filter(of).count()
    }

    /// The names of the errors by which tasks failed.
    pub fn failures(&self) -> Vec<String> {
        let failed = self.0.iter().filter_map(|event| {
            let details = event.task_failed_event_details()?;
            Some(details.error().unwrap_or_default().to_owned())
        });
        failed.collect()
    }

    /// What tasks were answered, by functions or by a holder of the token, the last one first.
    fn answers(&self) -> impl Iterator<Item = Value> {
        self.0.iter().rev().filter_map(|event| {
            let output = event.task_succeeded_event_details()?.output()?;
            let mut output: Value = serde_json::from_str(output).unwrap();
            Some(match output.get_mut("Payload") {
                Some(payload) => payload.take(),
                None => output,
            })
        })
    }

    /// The last answer with this field.
    pub fn answer_with(&self, field: &str) -> Option<Value> {
        self.answers().find(|answer| !answer[field].is_null())
    }

    /// The handle that was last answered; of several that were answered together the first.
    pub fn handle(&self) -> Option<Value> {
        self.answers().find_map(|answer| {
            let handles = [answer.get("lease"), answer.pointer("/leases/0")];
            let handle = handles.into_iter().flatten().find(|one| !one.is_null());
            handle.cloned()
        })
    }

    /// When a state was first entered.
    pub fn entered(&self, state: &str) -> Timestamp {
        let mut events = self.0.iter();
        let entered = events.find(|event| entered_state(event) == Some(state));
        timestamp(entered.unwrap().timestamp())
    }

    /// When a state was first entered, and when another was last left.
    pub fn times(&self, first: &str, last: &str) -> [Timestamp; 2] {
        let left = self.0.iter().rfind(|event| {
            let details = event.state_exited_event_details();
            details.is_some_and(|details| details.name() == last)
        });
        [self.entered(first), timestamp(left.unwrap().timestamp())]
    }
}

fn entered_state(event: &HistoryEvent) -> Option<&str> {
    Some(event.state_entered_event_details()?.name())
}

fn timestamp(date: &aws_sdk_sfn::primitives::DateTime) -> Timestamp {
    Timestamp::from_millis(date.to_millis().unwrap().try_into().unwrap())
}
