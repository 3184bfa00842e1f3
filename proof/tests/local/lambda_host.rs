//! The Lambda host with a real function process behind it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use aws_sdk_lambda::Client;
use aws_sdk_lambda::config::{Builder, retry::RetryConfig};
use aws_sdk_lambda::error::ProvideErrorMetadata as _;
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
use leasehold_local::{Code, Function, LambdaHost, Outcome};
use leasehold_proof::{example, fixture::config};
use serde_json::Value;

struct Bench {
    host: LambdaHost,
    client: Client,
    _logs: tempfile::TempDir,
}

async fn bench(change: impl FnOnce(&mut Function)) -> Bench {
    let mut function = Function {
        logical_id: "EchoFunction".to_owned(),
        verb: "echo".to_owned(),
        code: Code::Binary(example("echo")),
        environment: BTreeMap::new(),
        timeout: Duration::from_secs(5),
        here: None,
        memory_mb: 128,
        concurrency: 10,
    };
    change(&mut function);
    let logs = tempfile::tempdir().unwrap();
    let host = LambdaHost::start(logs.path(), 0).await.unwrap();
    host.register(function);
    let config = Builder::from(&config(&host.url()).await).retry_config(RetryConfig::disabled());
    Bench {
        client: Client::from_conf(config.build()),
        host,
        _logs: logs,
    }
}

impl Bench {
    async fn answer(&self, event: &str) -> Value {
        match self.host.invoke("echo", event).await.unwrap().outcome {
            Outcome::Answer(text) => serde_json::from_str(&text).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// What an invocation that has to fail returns.
    async fn failure(&self, event: &str) -> Value {
        match self.host.invoke("echo", event).await.unwrap().outcome {
            Outcome::FunctionError(text) => serde_json::from_str(&text).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn log(&self) -> String {
        self.host.log("echo").unwrap()
    }
}

#[tokio::test]
async fn function_is_killed_at_time_limit() {
    let bench = bench(|function| function.timeout = Duration::from_millis(300)).await;
    let pid = bench.answer("{}").await["pid"].clone();
    let error = bench.failure(r#"{"do": "sleep"}"#).await;
    assert_eq!(error["errorType"], "Sandbox.Timedout");
    let message = error["errorMessage"].as_str().unwrap();
    let expected = "Task timed out after 0.30 seconds";
    assert!(message.ends_with(expected), "{message}");
    // Gone, or waits for its parent to look.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
}

#[tokio::test]
async fn function_killed_before_answer_has_worked() {
    let bench = bench(|_| {}).await;
    let mut ends = bench.host.invocations();
    bench.host.kill_before_answer("echo", 1).unwrap();
    let error = bench.failure("{}").await;
    assert_eq!(error["errorType"], "Runtime.ExitError");
    let end = ends.recv().await.unwrap();
    assert!(bench.log().contains(&end.request_id), "the handler ran");
    bench.answer("{}").await;
}

#[tokio::test]
async fn function_killed_after_start_ran_nothing() {
    let bench = bench(|_| {}).await;
    bench.host.kill_after_start("echo", 1).unwrap();
    let error = bench.failure("{}").await;
    assert_eq!(error["errorType"], "Runtime.ExitError");
    assert!(!bench.log().contains("event"));
    bench.answer("{}").await;
}

#[tokio::test]
async fn call_beyond_concurrency_limit_is_throttled() {
    let bench = bench(|function| {
        (function.concurrency, function.timeout) = (1, Duration::from_millis(500));
    })
    .await;
    let busy = bench.failure(r#"{"do": "sleep"}"#);
    let refused = bench.client.invoke().function_name("echo").send();
    let (_, refused) = tokio::join!(busy, refused);
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Some("TooManyRequestsException"));
}

#[tokio::test]
async fn asynchronous_invocation_is_accepted_and_runs() {
    let bench = bench(|_| {}).await;
    let mut ends = bench.host.invocations();
    let invoke = bench.client.invoke().function_name("echo");
    let invoke = invoke.invocation_type(InvocationType::Event);
    let output = invoke.payload(Blob::new(r#"{"n": 1}"#)).send().await;
    assert_eq!(output.unwrap().status_code(), 202);
    let end = ends.recv().await.unwrap();
    assert_eq!(
        (&*end.function, &*end.payload),
        ("EchoFunction", r#"{"n": 1}"#)
    );
}

#[tokio::test]
async fn bad_invocation_is_refused_by_name() {
    let bench = bench(|_| {}).await;
    let large = format!("\"{}\"", "a".repeat(7 << 20));
    for (function, event, error) in [
        ("nobody", "{}", "ResourceNotFoundException"),
        ("echo", "{", "InvalidRequestContentException"),
        ("echo", &large, "RequestTooLargeException"),
    ] {
        let invoke = bench.client.invoke().function_name(function);
        let refused = invoke.payload(Blob::new(event)).send().await.unwrap_err();
        assert_eq!(refused.code(), Some(error));
    }
}

#[tokio::test]
async fn missing_binary_fails_its_invocation() {
    let bench =
        bench(|function| function.code = Code::Binary(PathBuf::from("/nowhere/echo"))).await;
    let error = bench.failure("{}").await;
    assert_eq!(error["errorType"], "Runtime.InvalidEntrypoint");
}
