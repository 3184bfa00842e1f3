//! Task tokens on the engine: each is one attempt's, answered once.

use aws_sdk_sfn::error::ProvideErrorMetadata as _;
use aws_sdk_sfn::operation::describe_execution::DescribeExecutionOutput;
use aws_sdk_sfn::types::ExecutionStatus;
use leasehold_local::{Fault, Invocation, Options, Stack};
use serde_json::{Value, json};
use tokio::sync::broadcast;

use leasehold_proof::fixture::{Shared, eventually};

use crate::fixture::{next, options};

/// One stack for all of these, since the engine takes two seconds to start.
static FIXTURE: Shared<Fixture> = Shared::new();

struct Fixture {
    stack: Stack,
    machine: String,
}

impl Fixture {
    async fn build() -> Self {
        let stack = Stack::start(Options {
            engine: true,
            ..options()
        })
        .await
        .unwrap();
        let machine = stack.deploy().await.unwrap()["WaitingStateMachine"].clone();
        Self { stack, machine }
    }

    async fn start(&self, wish: &str, seconds: u32) -> Waiting<'_> {
        let invocations = self.stack.functions().invocations();
        let start = self.stack.sfn().start_execution();
        let input = json!({"do": wish, "seconds": seconds});
        let started = start
            .state_machine_arn(&self.machine)
            .input(input.to_string())
            .send()
            .await
            .unwrap();
        let arn = started.execution_arn().to_owned();
        Waiting {
            fixture: self,
            arn,
            invocations,
        }
    }

    /// How an answer to a token is taken: "taken", or the error's name.
    async fn succeed(&self, token: &str) -> String {
        let send = self.stack.sfn().send_task_success().task_token(token);
        match send.output(r#"{"lease": 1}"#).send().await {
            Ok(_) => "taken".to_owned(),
            Err(error) => error.code().unwrap_or("no name").to_owned(),
        }
    }

    async fn fail(&self, token: &str) -> String {
        let send = self.stack.sfn().send_task_failure().task_token(token);
        match send.error("Lease.QueueTimeout").cause("late").send().await {
            Ok(_) => "taken".to_owned(),
            Err(error) => error.code().unwrap_or("no name").to_owned(),
        }
    }
}

/// An execution that waits.
struct Waiting<'a> {
    fixture: &'a Fixture,
    arn: String,
    invocations: broadcast::Receiver<Invocation>,
}

impl Waiting<'_> {
    /// The token of the next attempt of this execution.
    async fn token(&mut self) -> String {
        // Tokens carry nothing of their execution, so the history says whose they are.
        loop {
            let (_, payload) = next(&mut self.invocations).await;
            if let Some(token) = payload["token"].as_str()
                && self.history().await.contains(token)
            {
                return token.to_owned();
            }
        }
    }

    async fn history(&self) -> String {
        let history = self.fixture.stack.sfn().get_execution_history();
        let history = history.execution_arn(&self.arn).send().await.unwrap();
        let scheduled = history.events().iter();
        scheduled
            .filter_map(|event| event.task_scheduled_event_details())
            .map(|details| details.parameters().to_owned())
            .collect()
    }

    async fn ended(&self) -> DescribeExecutionOutput {
        eventually("what is looked for", async || {
            let describe = self.fixture.stack.sfn().describe_execution();
            let described = describe.execution_arn(&self.arn).send().await.unwrap();
            (*described.status() != ExecutionStatus::Running).then_some(described)
        })
        .await
    }
}

fn with_fixture<F: Future<Output = ()>>(test: impl FnOnce(&'static Fixture) -> F) {
    FIXTURE.run(Fixture::build, test);
}

#[test]
fn a_token_is_answered_once_and_what_is_no_token_never() {
    with_fixture(async |fixture| {
        let mut waiting = fixture.start("nothing", 60).await;
        let token = waiting.token().await;
        assert!(
            token.len() > 500,
            "as long as the service's: {}",
            token.len()
        );
        assert_eq!(fixture.succeed("no token").await, "InvalidToken");
        assert_eq!(fixture.succeed(&token).await, "taken");
        let ended = waiting.ended().await;
        let output: Value = serde_json::from_str(ended.output().unwrap()).unwrap();
        assert_eq!(output, json!({"lease": 1}));
        assert_eq!(fixture.succeed(&token).await, "TaskTimedOut");
        assert_eq!(fixture.fail(&token).await, "TaskTimedOut");
    });
}

#[test]
fn of_many_answers_at_once_one_is_taken() {
    with_fixture(async |fixture| {
        let mut waiting = fixture.start("nothing", 60).await;
        let token: &str = waiting.token().await.leak();
        let answers: Vec<_> = (0..32)
            .map(|_| tokio::spawn(fixture.succeed(token)))
            .collect();
        let mut replies = Vec::new();
        for answer in answers {
            replies.push(answer.await.unwrap());
        }
        replies.sort();
        let mut expected = vec!["TaskTimedOut"; 31];
        expected.push("taken");
        assert_eq!(replies, expected);
    });
}

#[test]
fn a_failure_is_the_tasks_own_with_name_and_cause() {
    with_fixture(async |fixture| {
        let mut waiting = fixture.start("nothing", 60).await;
        let first = waiting.token().await;
        assert_eq!(fixture.fail(&first).await, "taken");
        // The machine retries any failure, once, with another token.
        let second = waiting.token().await;
        assert_eq!(fixture.succeed(&first).await, "TaskTimedOut");
        assert_eq!(fixture.fail(&second).await, "taken");
        let ended = waiting.ended().await;
        assert_eq!(ended.error(), Some("Lease.QueueTimeout"));
        assert_eq!(ended.cause(), Some("late"));
    });
}

#[test]
fn a_function_that_fails_ends_its_attempt_and_the_next_has_another_token() {
    with_fixture(async |fixture| {
        let mut waiting = fixture.start("bomb", 60).await;
        let first = waiting.token().await;
        let second = waiting.token().await;
        assert_ne!(first, second);
        assert_eq!(fixture.succeed(&first).await, "TaskTimedOut");
        assert_eq!(fixture.succeed(&second).await, "taken");
        assert_eq!(*waiting.ended().await.status(), ExecutionStatus::Succeeded);
    });
}

#[test]
fn the_token_of_a_task_that_is_over_is_refused() {
    with_fixture(async |fixture| {
        let mut stopped = fixture.start("nothing", 60).await;
        let token = stopped.token().await;
        let stop = fixture.stack.sfn().stop_execution();
        stop.execution_arn(&stopped.arn).send().await.unwrap();
        assert_eq!(*stopped.ended().await.status(), ExecutionStatus::Aborted);
        // The state is left a moment after the execution.
        let refused = async || (fixture.fail(&token).await == "TaskTimedOut").then_some(());
        eventually("a refusal", refused).await;

        let mut late = fixture.start("nothing", 1).await;
        let token = late.token().await;
        // No failure of the task: it is not retried.
        assert_eq!(late.ended().await.error(), Some("States.Timeout"));
        assert_eq!(fixture.succeed(&token).await, "TaskTimedOut");
    });
}

#[test]
fn every_end_is_an_event_and_so_is_a_redrive() {
    with_fixture(async |fixture| {
        let mut waiting = fixture.start("nothing", 60).await;
        waiting.token().await;
        let stop = fixture.stack.sfn().stop_execution();
        stop.execution_arn(&waiting.arn).send().await.unwrap();
        let ended = async |waiting: &mut Waiting<'_>, status: &str| loop {
            let (_, payload) = next(&mut waiting.invocations).await;
            let detail = &payload["detail"];
            if detail["executionArn"] == *waiting.arn && detail["status"] == status {
                return detail.clone();
            }
        };
        ended(&mut waiting, "ABORTED").await;

        let redrive = fixture.stack.sfn().redrive_execution();
        redrive.execution_arn(&waiting.arn).send().await.unwrap();
        let token = waiting.token().await;
        assert_eq!(fixture.succeed(&token).await, "taken");
        let detail = ended(&mut waiting, "SUCCEEDED").await;
        assert_eq!(detail["redriveCount"], 1);

        let mut late = fixture.start("nothing", 1).await;
        ended(&mut late, "FAILED").await;
    });
}

#[test]
fn what_functions_send_to_the_engine_can_be_counted_and_lost() {
    with_fixture(async |fixture| {
        let proxy = fixture.stack.sfn_proxy().unwrap();
        let functions = fixture.stack.functions().functions();
        for function in functions {
            assert_eq!(function.environment["AWS_ENDPOINT_URL_SFN"], proxy.url());
        }
        let config = fixture.stack.sfn().config().to_builder();
        let through = aws_sdk_sfn::Client::from_conf(config.endpoint_url(proxy.url()).build());
        let before = proxy.counts();
        let mut waiting = fixture.start("nothing", 60).await;
        let token = waiting.token().await;
        proxy.inject_matching(Fault::LoseRequest, "SendTaskSuccess", &token, 1);
        proxy.inject_matching(Fault::Throttle, "SendTaskSuccess", &token, 1);
        proxy.inject_matching(Fault::Denied, "SendTaskSuccess", &token, 1);
        let send = || {
            let send = through.send_task_success().task_token(&token);
            send.output("{}").send()
        };
        // The SDK repeats what was lost and what was throttled, by itself.
        let denied = send().await.unwrap_err();
        assert_eq!(denied.code(), Some("AccessDeniedException"));
        let action = "not authorized to perform: states:SendTaskSuccess (injected)";
        assert_eq!(denied.message(), Some(action));
        proxy.inject_matching(Fault::LoseAnswer, "SendTaskSuccess", &token, 1);
        // It was accepted, and the answer was lost: the retry is refused.
        assert!(
            send()
                .await
                .unwrap_err()
                .into_service_error()
                .is_task_timed_out()
        );
        assert_eq!(*waiting.ended().await.status(), ExecutionStatus::Succeeded);
        assert_eq!(proxy.pending_faults(), 0);
        assert_eq!(proxy.counts().since(&before).of("SendTaskSuccess"), 5);
    });
}

#[test]
fn an_answer_that_overtakes_its_function_ends_the_wait_at_once() {
    with_fixture(async |fixture| {
        let mut waiting = fixture.start("dawdle", 60).await;
        let token = eventually("what is looked for", async || {
            let history = waiting.history().await;
            let scheduled: Value = serde_json::from_str(&history).ok()?;
            let token = scheduled["Payload"]["token"].as_str();
            token.map(str::to_owned)
        });
        let token = token.await;
        assert_eq!(fixture.succeed(&token).await, "taken");
        assert_eq!(*waiting.ended().await.status(), ExecutionStatus::Succeeded);
        while let Ok(invocation) = waiting.invocations.try_recv() {
            assert!(
                !invocation.payload.contains(&token),
                "the function still runs"
            );
        }
    });
}
