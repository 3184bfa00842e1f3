//! What an execution's history proves: that no task which it started can still be at work.

use std::collections::{HashMap, HashSet};

use aws_sdk_sfn::types::{HistoryEvent, HistoryEventType as Event};

/// An execution's events, taken in one after the other, from the first.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Tasks that were scheduled and have not answered, each by the number of its first event.
    open: HashSet<i64>,
    /// The task that an event belongs to.
    task_of: HashMap<i64, i64>,
    /// The children of a Distributed Map have histories of their own.
    has_children: bool,
    has_ended: bool,
}

impl History {
    pub(super) fn add(&mut self, event: &HistoryEvent) {
        let task = self.task_of.get(&event.previous_event_id()).copied();
        self.has_ended = false;
        match event.r#type() {
            Event::TaskScheduled | Event::LambdaFunctionScheduled | Event::ActivityScheduled => {
                self.open.insert(event.id());
                self.task_of.insert(event.id(), event.id());
            }
            Event::TaskStarted
            | Event::TaskSubmitted
            | Event::LambdaFunctionStarted
            | Event::ActivityStarted => {
                self.task_of.extend(task.map(|task| (event.id(), task)));
            }
            Event::TaskSucceeded | Event::LambdaFunctionSucceeded | Event::ActivitySucceeded => {
                self.answered(task);
            }
            Event::TaskFailed | Event::LambdaFunctionFailed | Event::ActivityFailed
                if error_of(event).is_some_and(is_an_answer) =>
            {
                self.answered(task);
            }
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

    /// Whether every task that was started has answered, and the history is there to its end.
    pub(super) fn all_answered(&self) -> bool {
        self.has_ended && !self.has_children && self.open.is_empty()
    }
}

fn error_of(event: &HistoryEvent) -> Option<&str> {
    let task = event.task_failed_event_details().map(|d| d.error());
    let lambda = event
        .lambda_function_failed_event_details()
        .map(|d| d.error());
    let activity = event.activity_failed_event_details().map(|d| d.error());
    task.or(lambda).or(activity).flatten()
}

/// Whether this error is the task's own word, or Step Functions' that the task did not run. What
/// else Step Functions says of a task leaves open whether that one is still at work.
fn is_an_answer(error: &str) -> bool {
    let unheard = error.starts_with("States.")
        || error.starts_with("Lambda.")
        || error.ends_with("SdkClientException");
    !unheard || error == "Lambda.TooManyRequestsException"
}

#[cfg(test)]
mod tests {
    use aws_sdk_sfn::types::TaskFailedEventDetails;
    use aws_smithy_types::DateTime;

    use super::*;

    /// The history of these events: each its type, the one before it, and the error of a failure.
    fn history(events: &[(Event, i64, &str)]) -> bool {
        let mut history = History::default();
        for (id, (kind, previous, error)) in (1..).zip(events) {
            let failed = TaskFailedEventDetails::builder()
                .resource_type("lambda")
                .resource("invoke")
                .error(*error);
            let event = HistoryEvent::builder()
                .timestamp(DateTime::from_secs(1))
                .r#type(kind.clone())
                .id(id)
                .previous_event_id(*previous)
                .set_task_failed_event_details(failed.build().ok().filter(|_| !error.is_empty()));
            history.add(&event.build().expect("complete"));
        }
        history.all_answered()
    }

    #[test]
    fn a_task_without_an_answer_may_still_be_at_work() {
        use Event::{
            ExecutionAborted, ExecutionFailed, ExecutionStarted, ExecutionSucceeded, MapRunStarted,
            TaskFailed, TaskScheduled, TaskStarted, TaskSucceeded, TaskTimedOut,
        };
        let one = |last: Event, error| {
            history(&[
                (ExecutionStarted, 0, ""),
                (TaskScheduled, 1, ""),
                (TaskStarted, 2, ""),
                (last, 3, error),
                (ExecutionFailed, 4, ""),
            ])
        };
        assert!(one(TaskSucceeded, ""));
        for own in [
            "Payment.Declined",
            "Sandbox.Timedout",
            "Lambda.TooManyRequestsException",
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
        // One branch failed, and the other was aborted with its task under way.
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
        // Not there to its end.
        assert!(!history(&[
            (ExecutionStarted, 0, ""),
            (TaskScheduled, 1, "")
        ]));
        assert!(!history(&[]));
        // It was redriven, and runs.
        assert!(!history(&[
            (ExecutionStarted, 0, ""),
            (ExecutionFailed, 1, ""),
            (Event::ExecutionRedriven, 2, ""),
        ]));
    }
}
