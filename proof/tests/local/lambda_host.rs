//! The Lambda host with a real function process behind it, called through the real SDK.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use aws_sdk_lambda::config::retry::RetryConfig;
use aws_sdk_lambda::error::ProvideErrorMetadata;
use aws_sdk_lambda::operation::invoke::InvokeOutput;
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
use leasehold_local::{Function, LambdaHost, Outcome};
use leasehold_proof::lambda_config;
use serde_json::{Value, json};

struct Bench {
    host: LambdaHost,
    client: aws_sdk_lambda::Client,
    _logs: tempfile::TempDir,
}

fn echo() -> Function {
    let here = std::env::current_exe().unwrap();
    let target = here.parent().unwrap().parent().unwrap();
    let binary = target.join("examples/echo");
    // A filtered run (`cargo test --test …`) does not build examples by itself.
    assert!(
        binary.exists(),
        "build it first: cargo build --workspace --examples"
    );
    Function {
        logical_id: "EchoFunction".to_owned(),
        verb: "echo".to_owned(),
        binary,
        environment: BTreeMap::from([("COLOUR".to_owned(), "green".to_owned())]),
        timeout: Duration::from_secs(5),
        memory_mb: 128,
        concurrency: 10,
    }
}

async fn bench(function: Function) -> Bench {
    let logs = tempfile::tempdir().unwrap();
    let host = LambdaHost::start(logs.path(), 0).await.unwrap();
    host.register(function);
    let config = lambda_config(host.url()).retry_config(RetryConfig::disabled());
    Bench {
        host,
        client: aws_sdk_lambda::Client::from_conf(config.build()),
        _logs: logs,
    }
}

impl Bench {
    async fn invoke(&self, event: Value) -> InvokeOutput {
        self.client
            .invoke()
            .function_name("EchoFunction")
            .payload(Blob::new(event.to_string()))
            .send()
            .await
            .unwrap()
    }

    async fn failure(&self, event: Value) -> Value {
        let output = self.invoke(event).await;
        assert_eq!(output.function_error(), Some("Unhandled"));
        assert_eq!(output.status_code(), 200);
        payload(&output)
    }
}

fn payload(output: &InvokeOutput) -> Value {
    serde_json::from_slice(output.payload().unwrap().as_ref()).unwrap()
}

fn is_running(pid: u64) -> bool {
    // A zombie is over; only its parent has not looked yet.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .unwrap_or("")
            .trim_start()
            .starts_with('Z')
    })
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "waited in vain: {what}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn an_answer_comes_back_whatever_the_function_is_called() {
    let bench = bench(echo()).await;
    for name in [
        "EchoFunction",
        "echo",
        "EchoFunction:$LATEST",
        "arn:aws:lambda:us-east-1:123456789012:function:EchoFunction",
        "arn:aws:lambda:us-east-1:123456789012:function:EchoFunction:$LATEST",
    ] {
        let event = Blob::new(r#"{"hello": "ö"}"#);
        let output = bench
            .client
            .invoke()
            .function_name(name)
            .payload(event)
            .send()
            .await
            .unwrap();
        assert_eq!(output.function_error(), None, "{name}");
        assert_eq!(output.executed_version(), Some("$LATEST"));
        let answer = payload(&output);
        assert_eq!(answer["echo"], json!({"hello": "ö"}));
        assert_eq!(
            answer["arn"],
            "arn:aws:lambda:us-east-1:123456789012:function:EchoFunction"
        );
        assert!(
            bench
                .host
                .log("echo")
                .unwrap()
                .contains(answer["request_id"].as_str().unwrap())
        );
    }
}

#[tokio::test]
async fn an_idle_sandbox_is_used_again() {
    let bench = bench(echo()).await;
    let first = payload(&bench.invoke(json!({})).await);
    let second = payload(&bench.invoke(json!({})).await);
    assert_eq!(first["pid"], second["pid"]);
    assert_ne!(first["request_id"], second["request_id"]);
}

#[tokio::test]
async fn a_function_error_is_a_success_with_a_header() {
    let bench = bench(echo()).await;
    let error = bench.failure(json!({"do": "fail"})).await;
    assert_eq!(error["errorMessage"], "as you wished");
}

#[tokio::test]
async fn an_exit_ends_the_invocation_and_the_next_one_gets_a_new_process() {
    let bench = bench(echo()).await;
    let error = bench.failure(json!({"do": "exit"})).await;
    assert_eq!(error["errorType"], "Runtime.ExitError");
    assert!(
        error["errorMessage"]
            .as_str()
            .unwrap()
            .ends_with("Runtime exited with error: exit status 7"),
        "{error}"
    );
    assert_eq!(bench.invoke(json!({})).await.function_error(), None);
}

#[tokio::test]
async fn a_process_that_never_asks_for_work_ends_the_invocation() {
    let mut function = echo();
    function
        .environment
        .insert("ECHO_EXITS_AT_ONCE".to_owned(), "1".to_owned());
    let error = bench(function).await.failure(json!({})).await;
    assert_eq!(error["errorType"], "Runtime.ExitError");
}

#[tokio::test]
async fn a_late_function_is_killed_at_its_time_limit() {
    let mut function = echo();
    function.timeout = Duration::from_millis(300);
    let bench = bench(function).await;
    let pid = payload(&bench.invoke(json!({})).await)["pid"]
        .as_u64()
        .unwrap();
    let error = bench.failure(json!({"do": "sleep"})).await;
    assert_eq!(error["errorType"], "Sandbox.Timedout");
    assert!(
        error["errorMessage"]
            .as_str()
            .unwrap()
            .ends_with("Task timed out after 0.30 seconds"),
        "{error}"
    );
    assert!(!is_running(pid));
}

#[tokio::test]
async fn killed_before_the_answer_the_work_is_done_and_nobody_hears_of_it() {
    let bench = bench(echo()).await;
    let mut ends = bench.host.invocations();
    bench.host.kill_before_answer("echo", 1).unwrap();
    let error = bench.failure(json!({})).await;
    assert_eq!(error["errorType"], "Runtime.ExitError");
    let end = ends.recv().await.unwrap();
    assert!(matches!(end.outcome, Outcome::FunctionError(_)));
    assert!(
        bench.host.log("echo").unwrap().contains(&end.request_id),
        "the handler ran"
    );
    assert_eq!(bench.invoke(json!({})).await.function_error(), None);
}

#[tokio::test]
async fn killed_after_the_start_nothing_of_the_handler_has_run() {
    let bench = bench(echo()).await;
    bench.host.kill_after_start("echo", 1).unwrap();
    let error = bench.failure(json!({})).await;
    assert_eq!(error["errorType"], "Runtime.ExitError");
    assert!(!bench.host.log("echo").unwrap().contains("event"));
    assert_eq!(bench.invoke(json!({})).await.function_error(), None);
}

#[tokio::test]
async fn a_frozen_sandbox_goes_on_where_it_stopped() {
    let bench = bench(echo()).await;
    let pid = payload(&bench.invoke(json!({})).await)["pid"]
        .as_u64()
        .unwrap();
    let state = || {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .unwrap()
            .contains(") T ")
    };
    assert_eq!(bench.host.freeze("echo").unwrap(), 1);
    until("the process is stopped", state).await;
    let waiting = bench.host.invoke("echo", "{}");
    let thawing = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(bench.host.thaw("echo").unwrap(), 1);
    };
    let (invocation, ()) = tokio::join!(waiting, thawing);
    let Outcome::Answer(answer) = invocation.unwrap().outcome else {
        panic!("no answer")
    };
    assert_eq!(serde_json::from_str::<Value>(&answer).unwrap()["pid"], pid);
}

#[tokio::test]
async fn one_more_than_the_concurrency_limit_is_throttled() {
    let mut function = echo();
    function.concurrency = 2;
    let bench = bench(function).await;
    let call = || bench.host.invoke("echo", r#"{"do": "sleep", "ms": 500}"#);
    let (a, b, c) = tokio::join!(call(), call(), call());
    let throttled = [a, b, c].map(|end| end.unwrap().outcome == Outcome::Throttled);
    assert_eq!(throttled, [false, false, true]);

    let (_, _, refused) = tokio::join!(
        call(),
        call(),
        bench.client.invoke().function_name("echo").send()
    );
    assert_eq!(
        refused.unwrap_err().code(),
        Some("TooManyRequestsException")
    );
}

#[tokio::test]
async fn an_asynchronous_invocation_is_accepted_and_runs() {
    let bench = bench(echo()).await;
    let mut ends = bench.host.invocations();
    let request = bench
        .client
        .invoke()
        .function_name("echo")
        .invocation_type(InvocationType::Event);
    let output = request
        .payload(Blob::new(r#"{"n": 1}"#))
        .send()
        .await
        .unwrap();
    assert_eq!(output.status_code(), 202);
    let end = ends.recv().await.unwrap();
    assert_eq!(
        (end.function.as_str(), end.payload.as_str()),
        ("EchoFunction", r#"{"n": 1}"#)
    );
}

#[tokio::test]
async fn what_cannot_be_invoked_is_refused_by_name() {
    let bench = bench(echo()).await;
    let unknown = bench
        .client
        .invoke()
        .function_name("nobody")
        .send()
        .await
        .unwrap_err();
    assert_eq!(unknown.code(), Some("ResourceNotFoundException"));
    let malformed = bench
        .client
        .invoke()
        .function_name("echo")
        .payload(Blob::new("{"))
        .send()
        .await
        .unwrap_err();
    assert_eq!(malformed.code(), Some("InvalidRequestContentException"));
    let large = Blob::new(format!("\"{}\"", "a".repeat(7 << 20)));
    let large = bench
        .client
        .invoke()
        .function_name("echo")
        .payload(large)
        .send()
        .await
        .unwrap_err();
    assert_eq!(large.code(), Some("RequestTooLargeException"));
}

#[tokio::test]
async fn a_missing_binary_is_reported_in_the_invocation() {
    let mut function = echo();
    function.binary = PathBuf::from("/nowhere/echo");
    let error = bench(function).await.failure(json!({})).await;
    assert_eq!(error["errorType"], "Runtime.InvalidEntrypoint");
}

#[tokio::test]
async fn the_environment_is_the_functions_own() {
    let bench = bench(echo()).await;
    let environment = payload(&bench.invoke(json!({"do": "environment"})).await);
    assert_eq!(environment["COLOUR"], "green");
    assert_eq!(environment["AWS_LAMBDA_FUNCTION_NAME"], "EchoFunction");
    assert_eq!(environment["AWS_REGION"], "us-east-1");
    assert!(
        environment.get("CARGO_MANIFEST_DIR").is_none(),
        "inherited from the test"
    );
}

#[tokio::test]
async fn replacing_a_function_replaces_its_processes() {
    let bench = bench(echo()).await;
    let before = payload(&bench.invoke(json!({})).await);
    let mut changed = bench.host.function("echo").unwrap();
    changed
        .environment
        .insert("COLOUR".to_owned(), "red".to_owned());
    bench.host.register(changed);
    let environment = payload(&bench.invoke(json!({"do": "environment"})).await);
    assert_eq!(environment["COLOUR"], "red");
    until("the old process is gone", || {
        !is_running(before["pid"].as_u64().unwrap())
    })
    .await;
}

#[tokio::test]
async fn stopping_or_dropping_the_host_ends_its_processes() {
    let stopped = bench(echo()).await;
    let pid = payload(&stopped.invoke(json!({})).await)["pid"]
        .as_u64()
        .unwrap();
    stopped.host.stop().await;
    assert!(!is_running(pid));

    let dropped = bench(echo()).await;
    let pid = payload(&dropped.invoke(json!({})).await)["pid"]
        .as_u64()
        .unwrap();
    drop(dropped);
    until("the process is gone", || !is_running(pid)).await;
}
