//! An execution: what it did, and what a test does to it.

use std::time::Duration;

use aws_sdk_sfn::types::{ExecutionStatus, HistoryEvent, HistoryEventType};
use leasehold::Timestamp;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

/// More than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How an execution ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExecutionStatus,
    pub error: String,
    pub cause: String,
    pub output: Value,
    pub redrives: i32,
}

impl Ended {
    /// The output of an execution that has to have succeeded.
    pub fn output(self) -> Value {
        assert_eq!(self.status, ExecutionStatus::Succeeded, "{self:?}");
        self.output
    }

    /// The cause of an execution that has to have failed with `error`.
    pub fn failed_with(self, error: &str) -> String {
        assert_eq!(self.status, ExecutionStatus::Failed, "{self:?}");
        assert_eq!(self.error, error, "{self:?}");
        self.cause
    }
}

/// An execution and what a test does to it.
#[derive(Clone)]
pub struct Execution {
    pub arn: String,
    pub sfn: aws_sdk_sfn::Client,
}

impl Execution {
    /// Another execution of the same service.
    pub fn other(&self, arn: &str) -> Self {
        Self {
            arn: arn.to_owned(),
            sfn: self.sfn.clone(),
        }
    }

    pub fn name(&self) -> &str {
        self.arn.rsplit(':').next().unwrap()
    }

    /// Waits for the end.
    pub async fn ended(&self) -> Ended {
        let ended = async {
            loop {
                let describe = self.sfn.describe_execution().execution_arn(&self.arn);
                let described = describe.send().await.unwrap();
                if *described.status() != ExecutionStatus::Running {
                    return Ended {
                        status: described.status().clone(),
                        error: described.error().unwrap_or_default().to_owned(),
                        cause: described.cause().unwrap_or_default().to_owned(),
                        output: described
                            .output()
                            .map_or(Value::Null, |text| serde_json::from_str(text).unwrap()),
                        redrives: described.redrive_count().unwrap_or_default(),
                    };
                }
                sleep(LOOK_EVERY).await;
            }
        };
        if let Ok(ended) = timeout(PATIENCE, ended).await {
            return ended;
        }
        panic!("still running in {:?}", self.path().await);
    }

    pub async fn stopped_at(&self) -> Timestamp {
        let describe = self.sfn.describe_execution().execution_arn(&self.arn);
        let described = describe.send().await.unwrap();
        let millis = described.stop_date().unwrap().to_millis().unwrap();
        Timestamp::from_millis(millis.try_into().unwrap())
    }

    pub async fn history(&self) -> Vec<HistoryEvent> {
        let pages = self.sfn.get_execution_history().execution_arn(&self.arn);
        let events = pages.into_paginator().items().send();
        events.collect::<Result<_, _>>().await.unwrap()
    }

    /// The states entered, in order.
    pub async fn path(&self) -> Vec<String> {
        let entered = |event: &HistoryEvent| {
            let details = event.state_entered_event_details();
            details.map(|details| details.name().to_owned())
        };
        self.history().await.iter().filter_map(entered).collect()
    }

    /// The states entered since the last redrive, in order.
    pub async fn since_redrive(&self) -> Vec<String> {
        let entered = |event: &HistoryEvent| {
            let details = event.state_entered_event_details();
            details.map(|details| details.name().to_owned())
        };
        let events = self.events_since_redrive().await;
        events.iter().filter_map(entered).collect()
    }

    /// How often the step function was really started since the last redrive.
    pub async fn steps_since_redrive(&self) -> usize {
        let events = self.events_since_redrive().await;
        let steps = events.iter().filter(|event| {
            let details = event.task_scheduled_event_details();
            details.is_some_and(|details| details.parameters().contains("StepFunction"))
        });
        steps.count()
    }

    async fn events_since_redrive(&self) -> Vec<HistoryEvent> {
        let mut history = self.history().await;
        let redriven = history
            .iter()
            .rposition(|event| event.r#type().as_str() == "ExecutionRedriven");
        history.split_off(redriven.unwrap())
    }

    /// Waits until `state` has been entered `nth` times.
    pub async fn reaches(&self, state: &str, nth: usize) {
        let start = Instant::now();
        loop {
            let path = self.path().await;
            if path.iter().filter(|entered| *entered == state).count() >= nth {
                return;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "{state} is not reached: {path:?}"
            );
            sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until the task of `state` has begun its `nth` run, and a little more, so that its function works.
    pub async fn in_task(&self, state: &str, nth: usize) {
        let start = Instant::now();
        loop {
            let (mut entered, mut started) = (0, false);
            for event in self.history().await {
                if let Some(details) = event.state_entered_event_details() {
                    entered += usize::from(details.name() == state);
                    started = false;
                } else if *event.r#type() == HistoryEventType::TaskStarted {
                    started = true;
                }
            }
            if entered >= nth && started {
                return sleep(Duration::from_millis(150)).await;
            }
            assert!(start.elapsed() < PATIENCE, "{state} has not begun");
            sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until the function of `state` has answered its `nth` attempt since it was last entered, and a callback is
    /// waited for.
    pub async fn waits_in(&self, state: &str, nth: usize) {
        let start = Instant::now();
        loop {
            let (mut here, mut attempts, mut waits) = (false, 0, false);
            for event in self.history().await {
                if let Some(details) = event.state_entered_event_details() {
                    (here, attempts, waits) = (details.name() == state, 0, false);
                } else if *event.r#type() == HistoryEventType::TaskScheduled {
                    (attempts, waits) = (attempts + 1, false);
                } else if *event.r#type() == HistoryEventType::TaskSubmitted {
                    waits = true;
                }
            }
            if here && attempts >= nth && waits {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{state} does not wait");
            sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until it was told that somebody else has the key.
    pub async fn refused(&self) {
        let start = Instant::now();
        loop {
            let held = self.history().await.into_iter().any(|event| {
                let details = event.task_failed_event_details();
                details.is_some_and(|details| details.error() == Some("Lease.Held"))
            });
            if held {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "nobody refuses it");
            sleep(LOOK_EVERY).await;
        }
    }

    /// The handle that the last grant or extend returned.
    pub async fn lease(&self) -> Value {
        let answers = self.answers().await;
        let mut with_lease = answers.iter().filter(|answer| answer["lease"].is_object());
        with_lease.next().expect("an execution with a lease")["lease"].clone()
    }

    /// How acquire answered: its whole answer, of the last grant.
    pub async fn grant(&self) -> Value {
        let answers = self.answers().await;
        let mut grants = answers
            .into_iter()
            .filter(|answer| answer["grant"].is_string());
        grants.next().expect("an execution with a grant")
    }

    /// What tasks were answered, the last one first: by functions, or by whoever had a task token.
    async fn answers(&self) -> Vec<Value> {
        let history = self.history().await.into_iter().rev();
        let answers = history.filter_map(|event| {
            let output = event.task_succeeded_event_details()?.output()?;
            let output: Value = serde_json::from_str(output).unwrap();
            Some(output.get("Payload").cloned().unwrap_or(output))
        });
        answers.collect()
    }

    /// Stops the execution and waits for its end.
    pub async fn stop(&self) {
        let stop = self.sfn.stop_execution().execution_arn(&self.arn);
        stop.error("Test.Stop").send().await.unwrap();
        assert_eq!(self.ended().await.status, ExecutionStatus::Aborted);
    }

    pub async fn redrive(&self) {
        let redrive = self.sfn.redrive_execution().execution_arn(&self.arn);
        redrive.send().await.unwrap();
    }

    /// The executions of `machine` whose names begin like this one's: those that with-lease started for it.
    pub async fn children(&self, machine: &str) -> Vec<Self> {
        let list = self.sfn.list_executions().state_machine_arn(machine);
        let listed = list.send().await.unwrap();
        let stem = &self.name()[..self.name().len().min(40)];
        let ours = listed
            .executions()
            .iter()
            .filter(|child| child.name().starts_with(stem));
        ours.map(|child| self.other(child.execution_arn()))
            .collect()
    }

    /// Waits for the `nth` child.
    pub async fn child(&self, machine: &str, nth: usize) -> Self {
        let start = Instant::now();
        loop {
            // The newest comes first.
            if let Some(child) = self.children(machine).await.iter().rev().nth(nth - 1) {
                return child.clone();
            }
            assert!(start.elapsed() < PATIENCE, "no child {nth}");
            sleep(LOOK_EVERY).await;
        }
    }
}
