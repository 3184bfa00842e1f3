//! Task tokens on the engine: each is one attempt's, answered once.

use aws_sdk_sfn::error::ProvideErrorMetadata;
use leasehold_local::{Invocation, Options, Stack};
use serde_json::{Value, json};
use tokio::sync::broadcast;

use leasehold_proof::execution::{Ended, Execution};
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

    async fn start(&self, wish: &str, seconds: u32) -> Waiting {
        let invocations = self.stack.functions().invocations();
        let input = json!({"do": wish, "seconds": seconds});
        let execution = Execution::start(&self.stack.sfn(), &self.machine, &input).await;
        Waiting {
            execution,
            invocations,
        }
    }

    /// How an answer to a token is taken: "taken", or the error's name.
    async fn succeed(&self, token: &str) -> String {
        let send = self.stack.sfn().send_task_success().task_token(token);
        taken(send.output(r#"{"lease": 1}"#).send().await)
    }

    async fn fail(&self, token: &str) -> String {
        let send = self.stack.sfn().send_task_failure().task_token(token);
        taken(send.error("Lease.QueueTimeout").cause("late").send().await)
    }
}

fn taken<T>(sent: Result<T, impl ProvideErrorMetadata>) -> String {
    let error = sent.err();
    let name = error
        .as_ref()
        .map(|error| error.code().unwrap_or("no name"));
    name.unwrap_or("taken").to_owned()
}

/// An execution that waits.
struct Waiting {
    execution: Execution,
    invocations: broadcast::Receiver<Invocation>,
}

impl Waiting {
    /// The token of the next attempt of this execution.
    async fn token(&mut self) -> String {
        // Tokens carry nothing of their execution, so the history says whose they are.
        loop {
            let (_, payload) = next(&mut self.invocations).await;
            if let Some(token) = payload["token"].as_str()
                && self.tokens().await.iter().any(|own| own == token)
            {
                return token.to_owned();
            }
        }
    }

    /// The tokens of all attempts so far.
    async fn tokens(&self) -> Vec<String> {
        let history = self.execution.history().await;
        let token = |(_, task): (_, Value)| Some(task["Payload"]["token"].as_str()?.to_owned());
        history.tasks().into_iter().filter_map(token).collect()
    }

    async fn ended(&self) -> Ended {
        self.execution.ended().await
    }
}

fn with_fixture<F: Future<Output = ()>>(test: impl FnOnce(&'static Fixture) -> F) {
    FIXTURE.run(Fixture::build, test);
}

#[test]
fn token_is_answered_once() {
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
        assert_eq!(ended.output, json!({"lease": 1}));
        assert_eq!(fixture.succeed(&token).await, "TaskTimedOut");
        assert_eq!(fixture.fail(&token).await, "TaskTimedOut");
    });
}

#[test]
fn one_of_many_answers_is_taken() {
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
fn retry_after_failure_has_another_token() {
    with_fixture(async |fixture| {
        let mut waiting = fixture.start("bomb", 60).await;
        let first = waiting.token().await;
        let second = waiting.token().await;
        assert_ne!(first, second);
        assert_eq!(fixture.succeed(&first).await, "TaskTimedOut");
        assert_eq!(fixture.succeed(&second).await, "taken");
        assert_eq!(waiting.ended().await.status, "SUCCEEDED");
    });
}

#[test]
fn token_of_ended_task_is_refused() {
    with_fixture(async |fixture| {
        let mut stopped = fixture.start("nothing", 60).await;
        let token = stopped.token().await;
        stopped.execution.stop().await;
        // The state is left a moment after the execution.
        let refused = async || (fixture.fail(&token).await == "TaskTimedOut").then_some(());
        eventually("a refusal", refused).await;

        let mut late = fixture.start("nothing", 1).await;
        let token = late.token().await;
        // No failure of the task: it is not retried.
        assert_eq!(late.ended().await.error, "States.Timeout");
        assert_eq!(fixture.succeed(&token).await, "TaskTimedOut");
    });
}

#[test]
fn early_answer_ends_wait() {
    with_fixture(async |fixture| {
        let mut waiting = fixture.start("dawdle", 60).await;
        let token = eventually("a token", async || waiting.tokens().await.pop()).await;
        assert_eq!(fixture.succeed(&token).await, "taken");
        assert_eq!(waiting.ended().await.status, "SUCCEEDED");
        while let Ok(invocation) = waiting.invocations.try_recv() {
            assert!(
                !invocation.payload.contains(&token),
                "the function still runs"
            );
        }
    });
}
