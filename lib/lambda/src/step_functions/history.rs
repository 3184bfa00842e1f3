//! Reads from an execution's history whether any task that it started can still be at work, and whether it received a
//! lease.

use std::collections::{HashMap, HashSet};

use aws_sdk_sfn::types::{HistoryEvent, HistoryEventType as Event};

use leasehold::Receipt;

/// An execution's events, added one after the other, from the first.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Tasks that were scheduled and have not answered, each by the number of its first event.
    open: HashSet<i64>,
    /// The task that an event belongs to.
    task_of: HashMap<i64, i64>,
    /// Those of them of which the data of an event says more: one that starts an execution and waits for its end, with the
    /// event that names that; one that was answered by its task token, with the answer.
    known_by: HashMap<i64, Option<i64>>,
    /// Whether there are children of a Distributed Map, which have histories of their own.
    has_children: bool,
    has_ended: bool,
    redrives: i32,
}

impl History {
    pub(super) fn add(&mut self, event: &HistoryEvent) {
        let task = self.task_of.get(&event.previous_event_id()).copied();
        self.has_ended = false;
        match event.r#type() {
            Event::TaskScheduled | Event::LambdaFunctionScheduled | Event::ActivityScheduled => {
                self.open.insert(event.id());
                self.task_of.insert(event.id(), event.id());
                if is_child(event) {
                    self.known_by.insert(event.id(), None);
                }
            }
            Event::TaskStarted | Event::TaskSubmitted | Event::LambdaFunctionStarted => {
                self.task_of.extend(task.map(|task| (event.id(), task)));
                let child = task.and_then(|task| self.known_by.get_mut(&task));
                if let (Some(child), Event::TaskSubmitted) = (child, event.r#type()) {
                    *child = Some(event.id());
                }
            }
            Event::TaskSucceeded
            | Event::TaskFailed
            | Event::TaskStartFailed
            | Event::TaskSubmitFailed
            | Event::LambdaFunctionSucceeded
            | Event::LambdaFunctionFailed
                if is_over(event) =>
            {
                self.answered(task);
            }
            Event::TaskSucceeded if is_by_token(event) => {
                self.known_by
                    .extend(task.map(|task| (task, Some(event.id()))));
            }
            Event::ExecutionRedriven => self.redrives += 1,
            Event::MapRunStarted => self.has_children = true,
            Event::ExecutionSucceeded
            | Event::ExecutionFailed
            | Event::ExecutionAborted
            | Event::ExecutionTimedOut => self.has_ended = true,
            _ => {}
        }
    }

    fn answered(&mut self, task: Option<i64>) {
        if let Some(task) = task {
            self.open.remove(&task);
        }
    }

    /// Whether every task that was started has answered, and the history is complete.
    #[cfg(test)]
    fn all_answered(&self) -> bool {
        self.to_be_read().is_some_and(|events| events.is_empty())
    }

    /// The events whose data say whether anything is still at work: see [`Known`]. None if something may be whatever they
    /// say, or if the history is not complete.
    pub(super) fn to_be_read(&self) -> Option<Vec<i64>> {
        if !self.has_ended || self.has_children {
            return None;
        }
        let open = self.open.iter();
        open.map(|task| *self.known_by.get(task)?).collect()
    }

    /// How often it was redriven.
    pub(super) const fn redrives(&self) -> i32 {
        self.redrives
    }
}

/// The end of an execution's history, added backwards: whether it received a lease through a task token.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// Events that belong to a task which has ended, or was not begun.
    of_ended: HashSet<i64>,
    waits: bool,
    shown: bool,
}

impl Received {
    /// Adds the event before those that were added. `proof` is the lease id, which is in no other output.
    pub(super) fn add(&mut self, event: &HistoryEvent, proof: &str) {
        let is_of_ended = self.of_ended.contains(&event.id());
        match event.r#type() {
            Event::TaskSucceeded => {
                let output = event.task_succeeded_event_details();
                let output = output.and_then(|details| details.output());
                self.shown |= output.is_some_and(|output| output.contains(proof));
                self.of_ended.insert(event.previous_event_id());
            }
            Event::TaskFailed
            | Event::TaskTimedOut
            | Event::TaskStartFailed
            | Event::TaskSubmitFailed => {
                self.of_ended.insert(event.previous_event_id());
            }
            Event::TaskSubmitted | Event::TaskStarted if is_of_ended => {
                self.of_ended.insert(event.previous_event_id());
            }
            Event::TaskScheduled if !is_of_ended => {
                let resource = event.task_scheduled_event_details();
                self.waits |= resource.is_some_and(|details| {
                    let resource = details.resource();
                    resource.ends_with(".waitForTaskToken")
                });
            }
            _ => {}
        }
    }

    pub(super) const fn receipt(&self) -> Receipt {
        if self.shown {
            Receipt::Shown
        } else {
            Receipt::Missing { waits: self.waits }
        }
    }
}

/// Whether the task has certainly ended with this event: a call of a Lambda function, or a single request. For
/// all other tasks that is not certain. A child execution may leave a function at work. A job may continue after the
/// call that watched it failed. Anybody who has the token of a task or an activity can end it while others work on
/// it; also the function that was invoked with the token may still be at work then.
fn is_over(event: &HistoryEvent) -> bool {
    let succeeded = event.task_succeeded_event_details();
    let lambda = event.lambda_function_failed_event_details();
    match event.r#type() {
        Event::TaskSucceeded => succeeded.is_some_and(|d| match d.resource_type() {
            "lambda" => d.resource() == "invoke",
            kind => is_request(kind, d.resource()),
        }),
        Event::TaskFailed | Event::TaskStartFailed | Event::TaskSubmitFailed => failure(event)
            .is_some_and(|(kind, resource, error)| match (kind, resource) {
                ("lambda", "invoke") => is_an_answer(error),
                ("lambda", "invoke.waitForTaskToken") => error.starts_with("Lease."),
                ("states", start) if start.starts_with("startExecution") => {
                    NOT_STARTED.contains(&error)
                }
                (kind, resource) => is_request(kind, resource) && is_an_answer(error),
            }),
        // A function that is named as the state's resource.
        Event::LambdaFunctionSucceeded => true,
        Event::LambdaFunctionFailed => {
            lambda.is_some_and(|d| is_an_answer(d.error().unwrap_or(UNNAMED)))
        }
        _ => false,
    }
}

/// What failed, by the type and the name of its resource, and the error: a task, its start, or its submission.
fn failure(event: &HistoryEvent) -> Option<(&str, &str, &str)> {
    let (kind, resource, error) = if let Some(task) = event.task_failed_event_details() {
        (task.resource_type(), task.resource(), task.error())
    } else if let Some(start) = event.task_start_failed_event_details() {
        (start.resource_type(), start.resource(), start.error())
    } else {
        let submission = event.task_submit_failed_event_details()?;
        (
            submission.resource_type(),
            submission.resource(),
            submission.error(),
        )
    };
    Some((kind, resource, error.unwrap_or(UNNAMED)))
}

/// Whether a task starts an execution and waits for its end.
fn is_child(event: &HistoryEvent) -> bool {
    event.task_scheduled_event_details().is_some_and(|details| {
        details.resource_type() == "states" && details.resource().starts_with("startExecution.sync")
    })
}

/// What the data of an event say of a task that has not certainly ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// It waited for the end of this execution, which has a history of its own.
    Child(String),
    /// It was acquire, which answered it with a lease of this execution: nothing else works on it.
    Over,
    /// It may be at work.
    Nothing,
}

/// What this event of the history of `execution` says.
pub(super) fn known(event: &HistoryEvent, execution: &str) -> Known {
    let submitted = event.task_submitted_event_details();
    let succeeded = event.task_succeeded_event_details();
    let output = submitted.and_then(|details| details.output());
    let output = output.or(succeeded.and_then(|details| details.output()));
    let read = output.and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
    let Some(output) = read else {
        return Known::Nothing;
    };
    if submitted.is_some() {
        let child = output["ExecutionArn"].as_str();
        return child.map_or(Known::Nothing, |child| Known::Child(child.to_owned()));
    }
    let lease = &output["lease"];
    let ours = output["outcome"] == "acquired" && lease["lease_id"].is_string();
    if ours && lease["holder"] == execution {
        Known::Over
    } else {
        Known::Nothing
    }
}

/// Whether a function was called with a task token that was answered. Anybody who has the token may have answered it while
/// others work on it.
fn is_by_token(event: &HistoryEvent) -> bool {
    event.task_succeeded_event_details().is_some_and(|details| {
        details.resource_type() == "lambda" && details.resource() == "invoke.waitForTaskToken"
    })
}

/// Whether a task is one request, which has ended when it was answered: to `DynamoDB`, or to Step Functions about another
/// execution.
fn is_request(kind: &str, resource: &str) -> bool {
    match kind {
        "dynamodb" | "aws-sdk:dynamodb" => true,
        "aws-sdk:sfn" => matches!(
            resource,
            "describeExecution" | "getExecutionHistory" | "stopExecution"
        ),
        _ => false,
    }
}

/// Errors with which Step Functions refuses to start an execution.
const NOT_STARTED: [&str; 4] = [
    "StepFunctions.InvalidNameException",
    "StepFunctions.InvalidArnException",
    "StepFunctions.InvalidExecutionInputException",
    "StepFunctions.StateMachineDoesNotExistException",
];

/// A failure without a name proves nothing.
const UNNAMED: &str = "States.";

/// Errors of Lambda for a call that it did not take: no such function, no capacity.
const REJECTED: [&str; 2] = [
    "Lambda.ResourceNotFoundException",
    "Lambda.TooManyRequestsException",
];

/// Whether this error comes from the task itself, or says that the task did not run. After any other error of Step
/// Functions the task may still be at work.
fn is_an_answer(error: &str) -> bool {
    let unheard = error.starts_with("States.")
        || error.starts_with("Lambda.")
        || error.ends_with("SdkClientException");
    !unheard || REJECTED.contains(&error)
}

#[cfg(test)]
mod tests {
    use aws_sdk_sfn::types::{
        TaskFailedEventDetails, TaskScheduledEventDetails, TaskStartFailedEventDetails,
        TaskSubmitFailedEventDetails, TaskSubmittedEventDetails, TaskSucceededEventDetails,
    };
    use aws_smithy_types::DateTime;

    use super::*;

    /// The history of these events. Each has its type, the number of the event before it, and the error of a failure.
    fn history(events: &[(Event, i64, &str)]) -> History {
        of(("lambda", "invoke"), events)
    }

    fn of((kind, resource): (&str, &str), events: &[(Event, i64, &str)]) -> History {
        let mut history = History::default();
        for (id, (event, previous, error)) in (1..).zip(events) {
            let failed = TaskFailedEventDetails::builder()
                .resource_type(kind)
                .resource(resource)
                .set_error(Some((*error).to_owned()).filter(|error| !error.is_empty()));
            let unstarted = TaskStartFailedEventDetails::builder()
                .resource_type(kind)
                .resource(resource)
                .set_error(failed.get_error().clone());
            let unsubmitted = TaskSubmitFailedEventDetails::builder()
                .resource_type(kind)
                .resource(resource)
                .set_error(failed.get_error().clone());
            let (unstarted, unsubmitted) = (unstarted.build().ok(), unsubmitted.build().ok());
            let succeeded = TaskSucceededEventDetails::builder()
                .resource_type(kind)
                .resource(resource);
            let (failed, succeeded) = (failed.build().ok(), succeeded.build().ok());
            let built = HistoryEvent::builder()
                .timestamp(DateTime::from_secs(1))
                .r#type(event.clone())
                .id(id)
                .previous_event_id(*previous)
                .set_task_failed_event_details(failed.filter(|_| *event == Event::TaskFailed))
                .set_task_start_failed_event_details(
                    unstarted.filter(|_| *event == Event::TaskStartFailed),
                )
                .set_task_submit_failed_event_details(
                    unsubmitted.filter(|_| *event == Event::TaskSubmitFailed),
                )
                .set_task_succeeded_event_details(
                    succeeded.filter(|_| *event == Event::TaskSucceeded),
                );
            history.add(&built.build().expect("complete"));
        }
        history
    }

    #[test]
    fn unanswered_task_may_still_work() {
        use Event::{
            ExecutionFailed, ExecutionStarted, ExecutionSucceeded, TaskFailed, TaskScheduled,
            TaskStarted, TaskSucceeded, TaskTimedOut,
        };
        let history = |events: &[_]| history(events).all_answered();
        let task = |resource, last: Event, error| {
            let events = [
                (ExecutionStarted, 0, ""),
                (TaskScheduled, 1, ""),
                (TaskStarted, 2, ""),
                (last, 3, error),
                (ExecutionFailed, 4, ""),
            ];
            of(resource, &events).all_answered()
        };
        let one = |last, error| task(("lambda", "invoke"), last, error);
        // A child's branch, a job, or a function behind a gateway may still be at work.
        for (kind, resource) in [
            ("states", "startExecution.sync:2"),
            ("states", "startExecution"),
            ("aws-sdk:sfn", "startSyncExecution"),
            ("batch", "submitJob.sync"),
            ("apigateway", "invoke"),
            ("sqs", "sendMessage.waitForTaskToken"),
        ] {
            assert!(
                !task((kind, resource), TaskSucceeded, ""),
                "{kind} {resource}"
            );
            assert!(
                !task((kind, resource), TaskFailed, "Mine"),
                "{kind} {resource}"
            );
        }
        for (kind, resource) in [
            ("dynamodb", "updateItem"),
            ("aws-sdk:dynamodb", "updateItem"),
            ("aws-sdk:sfn", "getExecutionHistory"),
        ] {
            assert!(task((kind, resource), TaskSucceeded, ""));
            assert!(!task(
                (kind, resource),
                TaskFailed,
                "Sfn.SdkClientException"
            ));
        }
        // Without its type, or the name of its failure, it is not certain.
        assert!(!one(TaskFailed, ""));
        for kind in [TaskSucceeded, TaskFailed, Event::LambdaFunctionFailed] {
            let mut history = History::default();
            for (id, kind) in (1..).zip([TaskScheduled, kind, ExecutionFailed]) {
                let event = HistoryEvent::builder().timestamp(DateTime::from_secs(1));
                let event = event.r#type(kind).id(id).previous_event_id(id - 1);
                history.add(&event.build().expect("complete"));
            }
            assert!(!history.all_answered());
        }
        // Whoever has a step's token may have ended it. Only the errors of our own queue say that nothing was begun.
        let token = ("lambda", "invoke.waitForTaskToken");
        assert!(!task(token, TaskSucceeded, ""));
        assert!(task(token, TaskFailed, "Lease.QueueTimeout"));
        assert!(!task(token, TaskFailed, "Mine"));
        assert!(one(TaskSucceeded, ""));
        for own in [
            "Payment.Declined",
            "Sandbox.Timedout",
            "Lambda.TooManyRequestsException",
            "Lambda.ResourceNotFoundException",
        ] {
            assert!(one(TaskFailed, own), "{own}");
        }
        for unheard in [
            "Lambda.SdkClientException",
            "Lambda.Unknown",
            "States.TaskFailed",
            "DynamoDb.SdkClientException",
        ] {
            assert!(!one(TaskFailed, unheard), "{unheard}");
        }
        assert!(!one(TaskTimedOut, ""));
        assert!(history(&[
            (ExecutionStarted, 0, ""),
            (ExecutionSucceeded, 1, "")
        ]));
    }

    #[test]
    fn refused_start_started_nothing() {
        use Event::{
            ExecutionFailed, ExecutionStarted, TaskFailed, TaskScheduled, TaskStartFailed,
            TaskStarted, TaskSubmitFailed,
        };
        let ends = [TaskFailed, TaskStartFailed, TaskSubmitFailed];
        for (error, over) in [
            ("StepFunctions.InvalidNameException", true),
            ("StepFunctions.StateMachineDoesNotExistException", true),
            ("StepFunctions.ExecutionAlreadyExistsException", false),
            ("StepFunctions.SdkClientException", false),
        ] {
            for end in &ends {
                let events = [
                    (ExecutionStarted, 0, ""),
                    (TaskScheduled, 1, ""),
                    (TaskStarted, 2, ""),
                    (end.clone(), 3, error),
                    (ExecutionFailed, 4, ""),
                ];
                let read = of(("states", "startExecution.sync:2"), &events);
                assert_eq!(read.all_answered(), over, "{error} {end:?}");
            }
        }
    }

    #[test]
    fn incomplete_history_proves_nothing() {
        use Event::{
            ExecutionAborted, ExecutionFailed, ExecutionStarted, MapRunStarted, TaskFailed,
            TaskScheduled, TaskStarted,
        };
        let history = |events: &[_]| history(events).all_answered();
        // One branch failed, and the other was aborted while its task was at work.
        assert!(!history(&[
            (ExecutionStarted, 0, ""),
            (TaskScheduled, 1, ""),
            (TaskScheduled, 1, ""),
            (TaskStarted, 2, ""),
            (TaskStarted, 3, ""),
            (TaskFailed, 4, "Mine"),
            (ExecutionFailed, 6, ""),
        ]));
        assert!(!history(&[
            (ExecutionStarted, 0, ""),
            (MapRunStarted, 1, ""),
            (ExecutionAborted, 2, ""),
        ]));
        // The history is not complete.
        assert!(!history(&[
            (ExecutionStarted, 0, ""),
            (TaskScheduled, 1, "")
        ]));
        assert!(!history(&[]));
        // It was redriven, and runs.
        let redriven = super::tests::history(&[
            (ExecutionStarted, 0, ""),
            (ExecutionFailed, 1, ""),
            (Event::ExecutionRedriven, 2, ""),
        ]);
        assert_eq!((redriven.all_answered(), redriven.redrives()), (false, 1));
    }

    /// The numbered event, of a task that starts an execution and waits for its end.
    fn of_child(kind: Event, id: i64, previous: i64) -> HistoryEvent {
        let (types, resource) = ("states", "startExecution.sync:2");
        let scheduled = TaskScheduledEventDetails::builder()
            .resource_type(types)
            .resource(resource)
            .region("eu-west-1")
            .parameters("");
        let submitted = TaskSubmittedEventDetails::builder()
            .resource_type(types)
            .resource(resource)
            .output(r#"{"ExecutionArn":"arn:of:the:child","StartDate":1}"#);
        let (scheduled, submitted) = (scheduled.build().ok(), submitted.build().ok());
        let event = HistoryEvent::builder()
            .timestamp(DateTime::from_secs(1))
            .id(id)
            .previous_event_id(previous)
            .set_task_scheduled_event_details(scheduled.filter(|_| kind == Event::TaskScheduled))
            .set_task_submitted_event_details(submitted.filter(|_| kind == Event::TaskSubmitted));
        event.r#type(kind).build().expect("complete")
    }

    #[test]
    fn nested_execution_has_own_history() {
        use Event::{
            ExecutionAborted, ExecutionStarted, TaskScheduled, TaskStarted, TaskSubmitted,
        };
        let read = |kinds: &[Event]| {
            let mut history = History::default();
            for (id, kind) in (1..).zip(kinds) {
                history.add(&of_child(kind.clone(), id, id - 1));
            }
            history.to_be_read()
        };
        let started = [ExecutionStarted, TaskScheduled, TaskStarted, TaskSubmitted];
        let ended = [&started[..], &[ExecutionAborted]].concat();
        assert_eq!(read(&ended), Some(vec![4]));
        assert_eq!(read(&started), None, "it has not ended");
        // It may have been started, and nothing names it.
        let unnamed = [
            ExecutionStarted,
            TaskScheduled,
            TaskStarted,
            ExecutionAborted,
        ];
        assert_eq!(read(&unnamed), None);
        let named = of_child(TaskSubmitted, 4, 3);
        let child = Known::Child("arn:of:the:child".to_owned());
        assert_eq!(known(&named, "arn"), child);
    }

    #[test]
    fn acquire_ends_with_token_answer() {
        let event = |kind, id, output: &str| {
            let succeeded = TaskSucceededEventDetails::builder()
                .resource_type("lambda")
                .resource("invoke.waitForTaskToken")
                .output(output);
            let event = HistoryEvent::builder()
                .timestamp(DateTime::from_secs(1))
                .r#type(kind)
                .id(id)
                .previous_event_id(id - 1)
                .task_succeeded_event_details(succeeded.build().expect("complete"));
            event.build().expect("complete")
        };
        let of = |output| known(&event(Event::TaskSucceeded, 2, output), "arn");
        let ours = r#"{"outcome":"acquired","lease":{"lease_id":"c0ffee","holder":"arn"}}"#;
        assert_eq!(of(ours), Known::Over);
        for others in [
            r#"{"outcome":"acquired","lease":{"lease_id":"c0ffee","holder":"another"}}"#,
            r#"{"outcome":"done","lease":{"lease_id":"c0ffee","holder":"arn"}}"#,
            r#"{"outcome":"acquired"}"#,
            "",
        ] {
            assert_eq!(of(others), Known::Nothing, "{others}");
        }
        let mut history = History::default();
        let kinds = [
            Event::TaskScheduled,
            Event::TaskSucceeded,
            Event::ExecutionAborted,
        ];
        for (id, kind) in (1..).zip(kinds) {
            history.add(&event(kind, id, ""));
        }
        assert_eq!(history.to_be_read(), Some(vec![2]));
    }

    #[test]
    fn history_shows_answer_of_token() {
        use Event::{TaskScheduled, TaskStarted, TaskSucceeded, TaskTimedOut};
        let receipt = |kinds: &[Event]| {
            let mut received = Received::default();
            for (at, kind) in kinds.iter().enumerate().rev() {
                let id = i64::try_from(at + 1).expect("few");
                let event = HistoryEvent::builder()
                    .timestamp(DateTime::from_secs(1))
                    .r#type(kind.clone())
                    .id(id)
                    .previous_event_id(id - 1);
                let scheduled = TaskScheduledEventDetails::builder()
                    .resource_type("lambda")
                    .resource("invoke.waitForTaskToken")
                    .region("eu-west-1")
                    .parameters("");
                let succeeded = TaskSucceededEventDetails::builder()
                    .resource_type("lambda")
                    .resource("invoke.waitForTaskToken")
                    .output(r#"{"lease":{"lease_id":"c0ffee"}}"#);
                let event = event
                    .task_scheduled_event_details(scheduled.build().expect("complete"))
                    .task_succeeded_event_details(succeeded.build().expect("complete"));
                received.add(&event.build().expect("complete"), "c0ffee");
            }
            received.receipt()
        };
        let (waits, over) = (
            Receipt::Missing { waits: true },
            Receipt::Missing { waits: false },
        );
        assert_eq!(receipt(&[TaskScheduled, TaskStarted]), waits);
        assert_eq!(receipt(&[TaskScheduled, TaskStarted, TaskTimedOut]), over);
        assert_eq!(
            receipt(&[TaskScheduled, TaskStarted, TaskSucceeded]),
            Receipt::Shown
        );
    }
}
