//! AWS Step Functions.

use std::{ops::ControlFlow, time::Duration};

use aws_config::SdkConfig;
use aws_sdk_sfn::{
    Client,
    client::customize::CustomizableOperation,
    config::{Builder, StalledStreamProtectionConfig, http::HttpResponse},
    error::{ProvideErrorMetadata, SdkError},
    operation::get_execution_history::GetExecutionHistoryError,
    types::{ExecutionStatus, HistoryEvent, IncludedData},
};
use aws_smithy_types::retry::RetryConfig;

#[cfg(feature = "https-client")]
use leasehold::Connection;
use leasehold::{
    Answer, Begun, Call, Delivery, Engine, Error, Execution, ExecutionName, Failure, Holder,
    LeaseId, Question, Receipt, StateMachineArn, StopFor, TaskToken, Timestamp, stopwatch,
};

use crate::service_calls::{CALL, delivered, failed, instant, is_one_of, timeouts};

mod history;
mod outcome;
mod redrives;

use history::{End, History, Known, Received, known};

/// AWS Step Functions, through its API.
#[derive(Clone, Debug)]
pub struct StepFunctions {
    client: Client,
}

impl StepFunctions {
    /// The ambient configuration (Region, credentials chain, `AWS_ENDPOINT_URL_SFN` …) with pinned
    /// time limits and without retries.
    #[cfg(feature = "https-client")]
    pub async fn from_env() -> Self {
        Self::new(&Connection::ambient().await)
    }

    /// From your own configuration, with pinned time limits and without retries.
    #[must_use]
    pub fn new(ambient: &SdkConfig) -> Self {
        let config = Builder::from(ambient)
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts(CALL))
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
        Self {
            client: Client::from_conf(config.build()),
        }
    }
}

/// The most pages of a history, of a thousand events each; a longer history decides nothing.
const PAGES: usize = 5;

/// How deep the executions are nested that are followed; what is deeper may be at work.
const DEPTH: usize = 3;

/// Which events of a history to read, and how.
#[derive(Clone, Copy)]
struct Reading {
    with_data: bool,
    backwards: bool,
    /// The events of a page.
    most: i32,
}

impl Reading {
    const A_PAGE: i32 = 1000;
}

type Unread = SdkError<GetExecutionHistoryError, HttpResponse>;

impl StepFunctions {
    /// Reads the history, until `each` has enough. Returns whether it was read to there, or to its end, within `limit`.
    async fn read_history(
        &self,
        execution: &Holder,
        reading: Reading,
        limit: Duration,
        mut each: impl FnMut(HistoryEvent) -> ControlFlow<()> + Send,
    ) -> Result<bool, Unread> {
        let (mut next, began) = (None, stopwatch());
        for _ in 0..PAGES {
            let call = self.client.get_execution_history();
            let call = call.execution_arn(execution.as_str());
            let call = call.include_execution_data(reading.with_data);
            let call = call.reverse_order(reading.backwards);
            let call = call.max_results(reading.most).set_next_token(next);
            let left = limit.saturating_sub(began.elapsed());
            let page = within(call.customize(), left).send().await?;
            for event in page.events {
                if each(event).is_break() {
                    return Ok(true);
                }
            }
            next = page.next_token;
            if next.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The history of an execution, and whether it was read to its beginning. Of one that has not ended it is only the last event.
    async fn history(
        &self,
        execution: &Holder,
        limit: Duration,
    ) -> Result<(History, bool), Unread> {
        let mut events = Vec::new();
        // Without input and output, because a KMS key of the state machine may protect them.
        let reading = Reading {
            with_data: false,
            backwards: true,
            most: Reading::A_PAGE,
        };
        let read = self.read_history(execution, reading, limit, |event| {
            let runs = events.is_empty() && history::end(event.r#type()).is_none();
            events.push(event);
            if runs {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        let is_whole = read.await?;
        let mut history = History::default();
        events.iter().rev().for_each(|event| history.add(event));
        Ok((history, is_whole))
    }

    /// The last event of its history, if that shows one.
    pub(crate) async fn last_event(
        &self,
        execution: &Holder,
        with_data: bool,
        limit: Duration,
    ) -> Result<Option<HistoryEvent>, Unread> {
        let mut last = None;
        let reading = Reading {
            with_data,
            backwards: true,
            most: 1,
        };
        let read = self.read_history(execution, reading, limit, |event| {
            last = Some(event);
            ControlFlow::Break(())
        });
        read.await?;
        Ok(last)
    }

    /// Whether every task of an execution with this history has answered, those of the executions that it waited for
    /// included.
    async fn all_answered(
        &self,
        execution: &Holder,
        (history, is_whole): &(History, bool),
        depth: usize,
        limit: Duration,
    ) -> bool {
        let began = stopwatch();
        let left = || limit.saturating_sub(began.elapsed());
        let Some(to_be_read) = history.to_be_read().filter(|_| *is_whole) else {
            return false;
        };
        if to_be_read.is_empty() {
            return true;
        }
        let mut all_known = Vec::new();
        let reading = Reading {
            with_data: true,
            backwards: false,
            most: Reading::A_PAGE,
        };
        let read = self.read_history(execution, reading, left(), |event| {
            let known_by = to_be_read.iter().find(|one| one.event == event.id());
            all_known.extend(known_by.map(|one| (*one, known(&event, execution.as_str()))));
            ControlFlow::Continue(())
        });
        match read.await {
            Ok(true) if all_known.len() == to_be_read.len() => {}
            Ok(_) => return false,
            Err(error) => {
                let may_not = is_one_of(&error, &NOT_READ);
                unread(execution, error);
                return may_not && to_be_read.iter().all(|one| one.is_over_unread);
            }
        }
        for (event, one) in all_known {
            let child = match one {
                Known::Over => continue,
                Known::Child(child) if depth > 0 => Holder::new(child),
                Known::Child(_) | Known::Nothing => return false,
            };
            let Ok(child) = child else {
                return false;
            };
            let history = match self.history(&child, left()).await {
                Ok(history) => history,
                Err(error) if event.is_over_unread && is_one_of(&error, &NOT_READ) => continue,
                Err(error) => {
                    unread(&child, error);
                    return false;
                }
            };
            // On the heap, because it is recursive.
            if !Box::pin(self.all_answered(&child, &history, depth - 1, left())).await {
                return false;
            }
        }
        true
    }

    /// What `DescribeExecution` says of an execution that has ended without success, by its history, if that may be read: it may have
    /// been redriven since. One response may be older than the other.
    async fn described(
        &self,
        execution: &Holder,
        history: Option<(History, bool)>,
        limit: Duration,
    ) -> Result<Execution, Error> {
        let began = stopwatch();
        let call = self.client.describe_execution();
        let call = call.execution_arn(execution.as_str());
        let call = call.included_data(IncludedData::MetadataOnly);
        let described = match within(call.customize(), limit).send().await {
            Ok(described) => described,
            Err(error) if is_one_of(&error, &NOT_KNOWN) => return Ok(Execution::Unknown),
            Err(error) => {
                let what = format!("execution {execution}");
                return Err(failed("states:DescribeExecution", what, error));
            }
        };
        let runs = matches!(
            described.status(),
            ExecutionStatus::Running | ExecutionStatus::PendingRedrive
        );
        let Some(stopped) = described.stop_date().filter(|_| !runs) else {
            return Ok(Execution::Running);
        };
        let redrives = described.redrive_count().unwrap_or_default();
        let all_answered = match history {
            Some((shown, _)) if shown.redrives() > redrives => return Ok(Execution::Running),
            Some(history) if history.0.redrives() == redrives => {
                let left = limit.saturating_sub(began.elapsed());
                self.all_answered(execution, &history, DEPTH, left).await
            }
            _ => false,
        };
        Ok(Execution::Ended {
            stopped_at: instant(stopped),
            redrivable: *described.status() != ExecutionStatus::Succeeded,
            all_answered,
        })
    }

    async fn looked_up(&self, execution: &Holder, limit: Duration) -> Result<Execution, Error> {
        let began = stopwatch();
        let left = || limit.saturating_sub(began.elapsed());
        let history = match self.history(execution, limit).await {
            Ok(history) => history,
            Err(error) if is_one_of(&error, &NOT_KNOWN) => return Ok(Execution::Unknown),
            Err(error) if is_one_of(&error, &NOT_READ) => {
                unread(execution, error);
                return self.described(execution, None, left()).await;
            }
            Err(error) => {
                let what = format!("execution {execution}");
                return Err(failed("states:GetExecutionHistory", what, error));
            }
        };
        match history.0.end() {
            None => Ok(Execution::Running),
            Some((End::Otherwise, _)) => self.described(execution, Some(history), left()).await,
            Some((End::Succeeded, stopped_at)) => Ok(Execution::Ended {
                stopped_at,
                redrivable: false,
                all_answered: self.all_answered(execution, &history, DEPTH, left()).await,
            }),
        }
    }
}

/// No such execution is known, or the holder is not one.
const NOT_KNOWN: [&str; 2] = ["ExecutionDoesNotExist", "InvalidArn"];

/// What the KMS key of a state machine refuses.
const NOT_DECRYPTED: [&str; 2] = ["KmsAccessDeniedException", "KmsInvalidStateException"];

/// The same, or what the role may not read.
const NOT_READ: [&str; 3] = [NOT_DECRYPTED[0], NOT_DECRYPTED[1], "AccessDeniedException"];

/// A history that cannot be read is counted, and decides nothing.
fn unread(execution: &Holder, error: Unread) {
    let what = format!("execution {execution}");
    let error = failed("states:GetExecutionHistory", what, error);
    error.count();
    let problem = error.in_full();
    tracing::warn!(%execution, problem, "its history could not be read");
}

/// How much earlier than its grant the task may have begun that asked for it. A waiter's began earlier still, but its
/// answer came later.
const BEFORE_THE_GRANT: Duration = Duration::from_mins(15);

impl StepFunctions {
    /// What the history shows, read backwards to the grant.
    async fn receipt(
        &self,
        (execution, lease_id, since): (&Holder, &LeaseId, Timestamp),
        limit: Duration,
    ) -> Receipt {
        let mut received = Received::default();
        let since = since.minus(BEFORE_THE_GRANT);
        let reading = Reading {
            with_data: true,
            backwards: true,
            most: Reading::A_PAGE,
        };
        let read = self.read_history(execution, reading, limit, |event| {
            if instant(event.timestamp()) < since {
                return ControlFlow::Break(());
            }
            received.add(&event, lease_id.expose());
            ControlFlow::Continue(())
        });
        match read.await {
            Ok(true) => received.receipt(),
            Ok(false) => Receipt::Unreadable,
            Err(error) => {
                unread(execution, error);
                Receipt::Unreadable
            }
        }
    }
}

fn within<T, E, B>(
    operation: CustomizableOperation<T, E, B>,
    limit: Duration,
) -> CustomizableOperation<T, E, B> {
    operation.config_override(Builder::new().timeout_config(timeouts(limit)))
}

impl StepFunctions {
    async fn succeed(
        &self,
        (holder, token): (&Holder, &TaskToken),
        output: String,
        limit: Duration,
    ) -> Result<Delivery, Error> {
        served_here(holder)?;
        let call = self.client.send_task_success();
        let call = call.task_token(token.expose()).output(output);
        let sent = within(call.customize(), limit).send().await.map(drop);
        delivered("states:SendTaskSuccess", A_TASK_TOKEN, sent, &REFUSALS)
    }

    async fn fail(
        &self,
        (holder, token): (&Holder, &TaskToken),
        Failure { error, cause }: Failure,
        limit: Duration,
    ) -> Result<Delivery, Error> {
        served_here(holder)?;
        let call = self.client.send_task_failure();
        let call = call.task_token(token.expose()).error(error).cause(cause);
        let sent = within(call.customize(), limit).send().await.map(drop);
        delivered("states:SendTaskFailure", A_TASK_TOKEN, sent, &REFUSALS)
    }

    async fn waits(
        &self,
        (holder, token): (&Holder, &TaskToken),
        limit: Duration,
    ) -> Result<bool, Error> {
        served_here(holder)?;
        let call = self.client.send_task_heartbeat();
        let call = call.task_token(token.expose());
        let sent = within(call.customize(), limit).send().await.map(drop);
        let delivery = delivered("states:SendTaskHeartbeat", A_TASK_TOKEN, sent, &REFUSALS)?;
        Ok(delivery == Delivery::Delivered)
    }

    /// One page, of those that began last.
    async fn running(
        &self,
        machine: &StateMachineArn,
        limit: Duration,
    ) -> Result<Vec<Holder>, Error> {
        let call = self.client.list_executions();
        let call = call.state_machine_arn(machine.as_str());
        let call = call.status_filter(ExecutionStatus::Running);
        let call = call.max_results(1000);
        match within(call.customize(), limit).send().await {
            Ok(listed) => {
                let listed = listed.executions().iter();
                let listed = listed.filter_map(|one| Holder::new(one.execution_arn()).ok());
                Ok(listed.collect())
            }
            Err(error) => Err(failed("states:ListExecutions", machine.to_string(), error)),
        }
    }

    async fn start(
        &self,
        (machine, name): (&StateMachineArn, &ExecutionName),
        input: String,
        limit: Duration,
    ) -> Result<Begun, Error> {
        let call = self.client.start_execution();
        let call = call.state_machine_arn(machine.as_str());
        let call = call.name(name.as_str()).input(input);
        match within(call.customize(), limit).send().await {
            Ok(begun) if begun.execution_arn().contains(":express:") => {
                Ok(Begun::Refused(format!(
                    "{machine} is an Express state machine, whose end Step Functions does not tell; it did begin"
                )))
            }
            Ok(_) => Ok(Begun::Began),
            Err(error) if is_one_of(&error, &["ExecutionAlreadyExists"]) => Ok(Begun::NameInUse),
            Err(error) if is_refused_for_good(&error) => {
                let (code, message) = (error.code(), error.message());
                let code = code.unwrap_or("no code");
                Ok(Begun::Refused(format!(
                    "{code}: {}",
                    message.unwrap_or("no message")
                )))
            }
            Err(error) => Err(failed("states:StartExecution", machine.to_string(), error)),
        }
    }

    async fn input(&self, execution: &Holder, limit: Duration) -> Result<Option<String>, Error> {
        let call = self.client.describe_execution();
        let call = call.execution_arn(execution.as_str());
        match within(call.customize(), limit).send().await {
            // It may show some time after the status.
            Ok(described) => described.input.map(Some).ok_or_else(|| Error::Unavailable {
                problem: format!("Step Functions does not show the input of {execution} yet"),
                source: None,
            }),
            Err(error) if is_one_of(&error, &NOT_KNOWN) => Ok(None),
            Err(error) => {
                let what = format!("execution {execution}");
                Err(failed("states:DescribeExecution", what, error))
            }
        }
    }

    /// What it answers; of how executions stand only if it looks, so that for a function that never does the code that reads such
    /// responses is not linked.
    pub(crate) async fn answer<const LOOKS: bool>(
        &self,
        question: Question,
        limit: Duration,
    ) -> Result<Answer, Error> {
        Ok(match question {
            Question::Succeed(to, token, output) => {
                self.succeed((&to, &token), output, limit).await?.into()
            }
            Question::Fail(to, token, failure) => {
                self.fail((&to, &token), failure, limit).await?.into()
            }
            Question::Waits(who, token) => self.waits((&who, &token), limit).await?.into(),
            // Also before a start begins that stops with its caller.
            Question::Describe(execution) => self.looked_up(&execution, limit).await?.into(),
            Question::Start(machine, name, input) => {
                self.start((&machine, &name), input, limit).await?.into()
            }
            Question::Stop(execution, cause, StopFor::Another) => {
                let error = "Leasehold.Replaced";
                self.stop(&execution, error, cause, limit).await?.into()
            }
            Question::Outcome(execution) => self.outcome_of(&execution, limit).await?.into(),
            Question::Input(execution) => self.input(&execution, limit).await?.into(),
            Question::Running(machine) if LOOKS => self.running(&machine, limit).await?.into(),
            Question::Received(holder, lease, since) if LOOKS => {
                self.receipt((&holder, &lease, since), limit).await.into()
            }
            Question::Redrives(execution) if LOOKS => {
                self.redrives_of(&execution, limit).await?.into()
            }
            Question::Stop(execution, cause, why) if LOOKS => {
                let error = match why {
                    StopFor::Caller => "Leasehold.CallerEnded",
                    _ => "Leasehold.Redriven",
                };
                self.stop(&execution, error, cause, limit).await?.into()
            }
            _ => return Err(never_looks()),
        })
    }
}

fn never_looks() -> Error {
    Error::Misconfigured {
        problem:
            "this function cannot ask how executions stand: serve it by a `Function` with `that_looks`"
                .to_owned(),
        source: None,
    }
}

impl Engine for StepFunctions {
    fn ask(&self, question: Question, limit: Duration) -> Call<'_, Answer> {
        Box::pin(self.answer::<true>(question, limit))
    }
}

/// The refusals of a start that pass by themselves, or are no answer of the service to this request: limits, and credentials
/// that have expired or cannot be read. Whatever else Step Functions answers, it answers again: also what the KMS key of a state
/// machine refuses.
const TRANSIENT: [&str; 14] = [
    "ExecutionLimitExceeded",
    "ThrottlingException",
    "Throttling",
    "TooManyRequestsException",
    "RequestLimitExceeded",
    "KmsThrottlingException",
    "ServiceQuotaExceededException",
    "ServiceUnavailable",
    "InternalFailure",
    "InternalServerError",
    "ExpiredTokenException",
    "RequestExpired",
    "InvalidSignatureException",
    "UnrecognizedClientException",
];

/// Whether the service answered that this start is refused, and would be refused again. A fault of the service's own is none.
fn is_refused_for_good<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> bool {
    let SdkError::ServiceError(refusal) = error else {
        return false;
    };
    let is_transient = error.code().is_none_or(|code| TRANSIENT.contains(&code));
    refusal.raw().status().is_client_error() && !is_transient
}

/// A durable execution waits with no task token. Asked by one, Step Functions would say that nobody waits, and the place would be lost.
fn served_here(holder: &Holder) -> Result<(), Error> {
    if holder.is_durable_execution() {
        return Err(Error::Misconfigured {
            problem: "Step Functions cannot tell a durable execution: use ExecutionServices"
                .to_owned(),
            source: None,
        });
    }
    Ok(())
}

/// The token itself is a secret.
const A_TASK_TOKEN: &str = "a task token";
const REFUSALS: [&str; 3] = ["InvalidToken", "TaskDoesNotExist", "TaskTimedOut"];

#[cfg(test)]
mod tests {
    use aws_sdk_sfn::{error::ErrorMetadata, operation::start_execution::StartExecutionError};
    use aws_smithy_types::body::SdkBody;

    use super::*;

    #[test]
    fn only_transient_errors_are_retried() {
        for (code, status, for_good) in [
            ("StateMachineDoesNotExist", 400, true),
            ("AccessDeniedException", 400, true),
            ("KmsAccessDeniedException", 400, true),
            ("KmsInvalidStateException", 400, true),
            ("Whatever comes next", 400, true),
            ("KmsThrottlingException", 400, false),
            ("ExecutionLimitExceeded", 400, false),
            ("ThrottlingException", 400, false),
            ("ExpiredTokenException", 400, false),
            ("StateMachineDoesNotExist", 500, false),
        ] {
            let said = ErrorMetadata::builder().code(code).build();
            let status = u16::try_into(status).expect("a status");
            let answer = HttpResponse::new(status, SdkBody::empty());
            let error = SdkError::service_error(StartExecutionError::generic(said), answer);
            assert_eq!(is_refused_for_good(&error), for_good, "{code}");
        }
    }

    #[test]
    fn durable_execution_is_not_notified() {
        let holder = |arn: &str| Holder::new(arn).expect("valid");
        let durable =
            "arn:aws:lambda:eu-west-1:123456789012:function:orders:7/durable-execution/a/b";
        assert!(served_here(&holder(durable)).is_err());
        let standard = "arn:aws:states:eu-west-1:123456789012:execution:orders:1";
        assert!(served_here(&holder(standard)).is_ok());
    }
}
