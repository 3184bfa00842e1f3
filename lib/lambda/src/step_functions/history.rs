//! Reads from an execution's history whether any task that it started can still be at work, and whether it received a
//! lease.

use std::collections::{HashMap, HashSet};

use aws_sdk_sfn::types::{HistoryEvent, HistoryEventType as Event};

use leasehold::{Receipt, Timestamp};

use crate::service_calls::instant;

/// An execution's events, added one after the other, from the first.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Tasks that were scheduled and have not certainly ended, each by the number of its first event. The children of a
    /// Distributed Map, which have histories of their own, are one.
    tasks: HashMap<i64, Task>,
    /// The task that an event belongs to.
    task_of: HashMap<i64, i64>,
    last: Option<(Event, Timestamp)>,
    redrives: i32,
}

#[derive(Debug, Default)]
struct Task {
    /// Whether it starts an execution and waits for its end.
    is_child: bool,
    /// Whether the history shows an end of it, which does not show that nothing of it is at work.
    has_ended: bool,
    /// The event whose data say more: the one that names the execution; what acquire answered, or its task token was answered.
    known_by: Option<i64>,
}

/// How an execution has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Succeeded,
    Otherwise,
}

impl History {
    pub(super) fn add(&mut self, event: &HistoryEvent) {
        let of = self.task_of.get(&event.previous_event_id()).copied();
        self.last = Some((event.r#type().clone(), instant(event.timestamp())));
        match event.r#type() {
            Event::TaskScheduled
            | Event::LambdaFunctionScheduled
            | Event::ActivityScheduled
            | Event::MapRunStarted => {
                let is_child = is_child(event);
                let task = Task {
                    is_child,
                    ..Task::default()
                };
                self.tasks.insert(event.id(), task);
                self.task_of.insert(event.id(), event.id());
            }
            Event::TaskStarted
            | Event::TaskSubmitted
            | Event::LambdaFunctionStarted
            | Event::ActivityStarted => {
                self.task_of.extend(of.map(|task| (event.id(), task)));
                let task = of.and_then(|task| self.tasks.get_mut(&task));
                if let Some(task) = task
                    && (task.is_child || is_by_token(event))
                    && *event.r#type() == Event::TaskSubmitted
                {
                    task.known_by = Some(event.id());
                }
            }
            Event::ExecutionRedriven => self.redrives += 1,
            _ => {}
        }
        let Some(of) = of else { return };
        if is_over(event) {
            self.tasks.remove(&of);
        } else if let Some(task) = self.tasks.get_mut(&of) {
            task.has_ended |= is_end(event);
            if *event.r#type() == Event::TaskSucceeded && is_by_token(event) {
                task.known_by = Some(event.id());
            }
        }
    }

    /// How the execution has ended, and when; none if it runs, or is about to run again.
    pub(super) fn end(&self) -> Option<(End, Timestamp)> {
        let (last, at) = self.last.as_ref()?;
        Some((end(last)?, *at))
    }

    /// Whether every task that was started has answered, and the history is complete.
    #[cfg(test)]
    fn all_answered(&self) -> bool {
        self.to_be_read().is_some_and(|events| events.is_empty())
    }

    /// The events whose data say whether anything is still at work: see [`Known`]. None if something may be whatever they
    /// say, or if the execution has not ended. Of one that has succeeded, what its history shows as ended has ended; but what an execution
    /// that it waited for has left says the history of that one.
    pub(super) fn to_be_read(&self) -> Option<Vec<ToBeRead>> {
        let (end, _) = self.end()?;
        let may_work = self.tasks.values().filter(|task| {
            let is_over = end == End::Succeeded && task.has_ended;
            !is_over || task.is_child && task.known_by.is_some()
        });
        may_work
            .map(|task| {
                Some(ToBeRead {
                    event: task.known_by?,
                    is_over_unread: end == End::Succeeded && task.has_ended,
                })
            })
            .collect()
    }

    /// How often it was redriven.
    pub(super) const fn redrives(&self) -> i32 {
        self.redrives
    }
}

/// An event whose data say whether a task is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ToBeRead {
    pub(super) event: i64,
    /// Whether the task has ended as long as nobody may read more.
    pub(super) is_over_unread: bool,
}

/// What the type of the last event says: how the execution has ended.
pub(super) const fn end(last: &Event) -> Option<End> {
    match last {
        Event::ExecutionSucceeded => Some(End::Succeeded),
        Event::ExecutionFailed | Event::ExecutionAborted | Event::ExecutionTimedOut => {
            Some(End::Otherwise)
        }
        _ => None,
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

/// Whether the task ends with this event. One that timed out has not, and neither has one of which Step Functions heard nothing.
fn is_end(event: &HistoryEvent) -> bool {
    let failed = event.lambda_function_failed_event_details();
    let unstarted = event.lambda_function_start_failed_event_details();
    match event.r#type() {
        Event::TaskSucceeded
        | Event::LambdaFunctionSucceeded
        | Event::LambdaFunctionScheduleFailed
        | Event::ActivitySucceeded
        | Event::ActivityFailed
        | Event::ActivityScheduleFailed
        | Event::MapRunSucceeded => true,
        Event::TaskFailed | Event::TaskStartFailed | Event::TaskSubmitFailed => {
            failure(event).is_some_and(|(.., error)| is_heard(error))
        }
        Event::LambdaFunctionFailed | Event::LambdaFunctionStartFailed => {
            let error = failed.and_then(|details| details.error());
            let error = error.or(unstarted.and_then(|details| details.error()));
            error.is_some_and(is_heard)
        }
        _ => false,
    }
}

/// Whether the task has certainly ended with this event, whatever became of its execution: a call of a Lambda function, or a single request. For
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
    /// It was acquire, which answered it with a lease of this execution, or with a place in the queue: nothing works on it.
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
    let Some(mut output) = read else {
        return Known::Nothing;
    };
    if submitted.is_some() {
        if let Some(child) = output["ExecutionArn"].as_str() {
            return Known::Child(child.to_owned());
        }
        // What the function that was called with the token has returned.
        output = output["Payload"].take();
    }
    let lease = &output["lease"];
    let has_it = output["outcome"] == "acquired"
        && lease["lease_id"].is_string()
        && lease["holder"] == execution;
    // The ticket of a place is a time in milliseconds.
    let ticket = output["ticket"].as_u64().unwrap_or_default();
    let waits = output["outcome"] == "queued"
        && ticket > MILLISECONDS_OF_2001
        && output.as_object().is_some_and(|fields| fields.len() == 2);
    if has_it || waits {
        Known::Over
    } else {
        Known::Nothing
    }
}

const MILLISECONDS_OF_2001: u64 = 1_000_000_000_000;

/// Whether this is an event of a function that is called with a task token: it has returned, or the token was answered. Anybody who has
/// the token may have answered it while others work on it.
fn is_by_token(event: &HistoryEvent) -> bool {
    let (submitted, succeeded) = (
        event.task_submitted_event_details(),
        event.task_succeeded_event_details(),
    );
    let submitted = submitted.map(|details| (details.resource_type(), details.resource()));
    let of = succeeded.map(|details| (details.resource_type(), details.resource()));
    of.or(submitted) == Some(("lambda", "invoke.waitForTaskToken"))
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

/// A failure without a name says nothing.
const UNNAMED: &str = "States.";

/// Errors of Lambda for a call that it did not take: no such function, no capacity.
const REJECTED: [&str; 2] = [
    "Lambda.ResourceNotFoundException",
    "Lambda.TooManyRequestsException",
];

/// Whether this error comes from the task itself, or says that the task did not run. After any other error of Step
/// Functions the task may still be at work.
fn is_an_answer(error: &str) -> bool {
    !error.starts_with("States.") && is_heard(error)
}

/// Whether anything was heard of the task at all.
fn is_heard(error: &str) -> bool {
    let unheard = error.starts_with("Lambda.") || error.ends_with("SdkClientException");
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

    /// Each kind of task, with what Step Functions calls its resource.
    const KINDS: [(&str, &str); 20] = [
        ("apigateway", "invoke"),
        ("athena", "startQueryExecution.sync"),
        ("aws-sdk:s3", "putObject"),
        ("aws-sdk:sfn", "startSyncExecution"),
        ("batch", "submitJob.sync"),
        ("bedrock", "invokeModel"),
        ("codebuild", "startBuild.sync"),
        ("dynamodb", "updateItem"),
        ("ecs", "runTask.sync"),
        ("ecs", "runTask.waitForTaskToken"),
        ("elasticmapreduce", "addStep.sync"),
        ("eventbridge", "putEvents"),
        ("glue", "startJobRun.sync"),
        ("http", "invoke"),
        ("lambda", "invoke"),
        ("lambda", "invoke.waitForTaskToken"),
        ("sns", "publish"),
        ("sqs", "sendMessage.waitForTaskToken"),
        ("states", "startExecution"),
        ("states", "startExecution.waitForTaskToken"),
    ];

    #[test]
    fn after_success_what_ended_is_over() {
        use Event::{
            ActivityFailed, ActivityScheduled, ActivityStarted, ActivitySucceeded,
            ActivityTimedOut, ExecutionAborted, ExecutionFailed, ExecutionStarted,
            ExecutionSucceeded, ExecutionTimedOut, LambdaFunctionScheduled, LambdaFunctionStarted,
            LambdaFunctionSucceeded, LambdaFunctionTimedOut, MapRunAborted, MapRunFailed,
            MapRunStarted, MapRunSucceeded, TaskFailed, TaskScheduled, TaskStarted,
            TaskStateAborted, TaskSubmitFailed, TaskSubmitted, TaskSucceeded, TaskTimedOut,
        };
        let ends = |of_task, task: &[Event], error, end| {
            let events: Vec<_> = std::iter::once(&ExecutionStarted)
                .chain(task)
                .chain([&end])
                .zip(0..)
                .map(|(event, before)| (event.clone(), before, error))
                .collect();
            of(of_task, &events).all_answered()
        };
        for kind in KINDS {
            let task = |last: Event, error| {
                let task = [TaskScheduled, TaskStarted, TaskSubmitted, last];
                ends(kind, &task, error, ExecutionSucceeded)
            };
            assert!(task(TaskSucceeded, ""), "{kind:?}");
            for heard in [
                "Mine",
                "States.TaskFailed",
                "Lambda.TooManyRequestsException",
            ] {
                assert!(task(TaskFailed, heard), "{kind:?} {heard}");
                assert!(task(TaskSubmitFailed, heard), "{kind:?} {heard}");
            }
            assert!(!task(TaskFailed, "Any.SdkClientException"), "{kind:?}");
            assert!(!task(TaskTimedOut, "States.Timeout"), "{kind:?}");
            assert!(!task(TaskStateAborted, ""), "{kind:?}");
            // After any other end only what is certain counts.
            for end in [ExecutionFailed, ExecutionAborted, ExecutionTimedOut] {
                let task = [TaskScheduled, TaskStarted, TaskSubmitted, TaskSucceeded];
                let is_certain = matches!(kind, ("dynamodb", _) | ("lambda", "invoke"));
                assert_eq!(ends(kind, &task, "", end), is_certain, "{kind:?}");
            }
        }
        let activity = |last| [ActivityScheduled, ActivityStarted, last];
        let function = |last| [LambdaFunctionScheduled, LambdaFunctionStarted, last];
        for (task, is_over) in [
            (&activity(ActivitySucceeded)[..], true),
            (&activity(ActivityFailed), true),
            (&activity(ActivityTimedOut), false),
            (&function(LambdaFunctionSucceeded), true),
            (&function(LambdaFunctionTimedOut), false),
            (&[MapRunStarted, MapRunSucceeded], true),
            (&[MapRunStarted, MapRunFailed], false),
            (&[MapRunStarted, MapRunAborted], false),
        ] {
            let none = ("", "");
            let over = ends(none, task, "", ExecutionSucceeded);
            assert_eq!(over, is_over, "{task:?}");
        }
        let map_run = [MapRunStarted, MapRunSucceeded];
        assert!(!ends(("", ""), &map_run, "", ExecutionFailed));
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
            ExecutionAborted, ExecutionStarted, ExecutionSucceeded, TaskScheduled, TaskStarted,
            TaskSubmitted, TaskSucceeded, TaskTimedOut,
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
        let by = |event, is_over_unread| {
            let one = ToBeRead {
                event,
                is_over_unread,
            };
            Some(vec![one])
        };
        assert_eq!(read(&ended), by(4, false));
        // The success of its task is not that of what it has left.
        let succeeded = [&started[..], &[TaskSucceeded, ExecutionSucceeded]].concat();
        assert_eq!(read(&succeeded), by(4, true));
        let timed_out = [&started[..], &[TaskTimedOut, ExecutionSucceeded]].concat();
        assert_eq!(read(&timed_out), by(4, false));
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
        // It waits for another key, until it is cut off.
        let returned = |payload: &str| {
            let submitted = TaskSubmittedEventDetails::builder()
                .resource_type("lambda")
                .resource("invoke.waitForTaskToken")
                .output(format!(r#"{{"Payload":{payload}}}"#));
            let mut event = event(Event::TaskSubmitted, 3, "");
            event.task_succeeded_event_details = None;
            event.task_submitted_event_details = submitted.build().ok();
            event
        };
        let queued = returned(r#"{"outcome":"queued","ticket":1795228800125}"#);
        assert_eq!(known(&queued, "arn"), Known::Over);
        assert_eq!(known(&returned(ours), "arn"), Known::Over);
        for others in [
            r#"{"outcome":"queued","ticket":17}"#,
            r#"{"outcome":"queued","ticket":1795228800125,"execution_arn":"a"}"#,
            r#"{"outcome":"done"}"#,
            "null",
        ] {
            assert_eq!(known(&returned(others), "arn"), Known::Nothing, "{others}");
        }
        let mut history = History::default();
        history.add(&event(Event::TaskScheduled, 2, ""));
        history.add(&queued);
        history.add(&event(Event::ExecutionAborted, 4, ""));
        let read = history.to_be_read();
        assert_eq!(read.map(|read| read[0].event), Some(3));
        let mut history = History::default();
        let kinds = [
            Event::TaskScheduled,
            Event::TaskSucceeded,
            Event::ExecutionAborted,
        ];
        for (id, kind) in (1..).zip(kinds) {
            history.add(&event(kind, id, ""));
        }
        let one = ToBeRead {
            event: 2,
            is_over_unread: false,
        };
        assert_eq!(history.to_be_read(), Some(vec![one]));
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
