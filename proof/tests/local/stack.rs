//! The parts together, wired as a template says.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use aws_sdk_lambda::{Client, primitives::Blob};
use leasehold_local::{Error, Options, Outcome, Schedules, Stack};
use leasehold_proof::execution::Execution;
use leasehold_proof::lambda_config;
use serde_json::{Value, json};

fn options() -> Options {
    let here = std::env::current_exe().unwrap();
    let binaries = here.parent().unwrap().parent().unwrap().join("examples");
    // A filtered run (`cargo test --test …`) does not build examples by itself.
    assert!(
        binaries.join("echo").exists(),
        "build it first: cargo build --workspace --examples"
    );
    let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/stack.json");
    Options {
        template: Some(template),
        binaries: Some(binaries),
        ..Options::default()
    }
}

async fn environment(stack: &Stack) -> Value {
    let event = Blob::new(r#"{"do": "environment"}"#);
    let output = Client::from_conf(lambda_config(stack.lambda_url()).build())
        .invoke()
        .function_name("EchoFunction")
        .payload(event)
        .send()
        .await
        .unwrap();
    serde_json::from_slice(output.payload().unwrap().as_ref()).unwrap()
}

#[tokio::test]
async fn the_table_of_the_template_is_there_and_nothing_has_been_counted() {
    let stack = Stack::start(options()).await.unwrap();
    assert_eq!(stack.proxy().counts().total(), 0);
    leasehold::table::check(&stack.dynamodb(), "Rows")
        .await
        .unwrap();
    assert_eq!(stack.proxy().counts().total(), 2);
    stack.stop().await;
}

#[tokio::test]
async fn a_function_finds_its_table_and_the_local_endpoints_and_the_changes_asked_for() {
    let changes = |name: &str, value: Option<&str>| {
        BTreeMap::from([(name.to_owned(), value.map(str::to_owned))])
    };
    let options = Options {
        environment: BTreeMap::from([
            ("*".to_owned(), changes("COLOUR", Some("green"))),
            ("echo".to_owned(), changes("COLOUR", Some("red"))),
            (
                "EchoFunction".to_owned(),
                changes("AWS_ENDPOINT_URL_SFN", None),
            ),
        ]),
        ..options()
    };
    let stack = Stack::start(options).await.unwrap();
    let environment = environment(&stack).await;
    assert_eq!(environment["TABLE"], "Rows");
    assert_eq!(
        environment["AWS_ENDPOINT_URL_DYNAMODB"],
        stack.dynamodb_url()
    );
    assert_eq!(environment["COLOUR"], "red");
    assert!(environment.get("AWS_ENDPOINT_URL_SFN").is_none());
}

#[tokio::test]
async fn a_schedule_invokes_its_function_with_an_event() {
    let stack = Stack::start(Options {
        schedules: Schedules::Every(Duration::from_millis(20)),
        ..options()
    })
    .await
    .unwrap();
    let mut invocations = stack.functions().invocations();
    let event: Value = serde_json::from_str(&invocations.recv().await.unwrap().payload).unwrap();
    assert_eq!(
        (&event["source"], &event["detail-type"]),
        (&json!("aws.events"), &json!("Scheduled Event"))
    );
    assert_eq!(
        event["resources"][0],
        "arn:aws:events:us-east-1:123456789012:rule/EchoFunctionTimer"
    );
}

#[tokio::test]
async fn missing_binaries_are_named_with_the_way_to_build_them() {
    let empty = tempfile::tempdir().unwrap();
    let options = Options {
        binaries: Some(empty.path().to_owned()),
        ..options()
    };
    let error = Stack::start(options).await.err().unwrap();
    assert!(matches!(error, Error::MissingBinaries { .. }));
    let text = error.to_string();
    assert!(
        text.starts_with("no binary for echo in ") && text.contains("make"),
        "{text}"
    );
}

#[tokio::test]
async fn without_an_engine_state_machines_cannot_be_deployed() {
    let stack = Stack::start(options()).await.unwrap();
    let error = stack.deploy().await.unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("CreateStateMachine EchoStateMachine"),
        "{error}"
    );
}

#[tokio::test]
async fn a_state_machine_of_the_template_runs_its_function_and_its_ends_are_events() {
    let stack = Stack::start(Options {
        engine: true,
        ..options()
    })
    .await
    .unwrap();
    let mut invocations = stack.functions().invocations();
    let arns = stack.deploy().await.unwrap();
    let machine = &arns["EchoStateMachine"];
    let execution = Execution::start(&stack.sfn(), machine, &json!({"n": 1})).await;
    let ended = execution.ended().await;
    assert_eq!(ended.status, "SUCCEEDED", "{ended:?}");
    assert_eq!(ended.output["echo"], json!({"n": 1}));

    // Three invocations: RUNNING and SUCCEEDED from the rule, and the task itself, in any order.
    let mut statuses = Vec::new();
    while statuses.len() < 2 {
        let invocation = invocations.recv().await.unwrap();
        assert!(matches!(invocation.outcome, Outcome::Answer(_)));
        let event: Value = serde_json::from_str(&invocation.payload).unwrap();
        if event["source"] == "aws.states" {
            statuses.push(event["detail"]["status"].as_str().unwrap().to_owned());
        }
    }
    statuses.sort();
    assert_eq!(statuses, ["RUNNING", "SUCCEEDED"]);
    stack.stop().await;
}
