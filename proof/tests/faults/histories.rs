//! How far the histories of executions are read, from a server that has them as long and as deep as it is asked for.

use std::time::Duration;

use axum::{Router, http::HeaderMap, routing::post};
use leasehold::{Execution, Holder, Workflows as _};
use leasehold_lambda::StepFunctions;
use leasehold_proof::fixture::config;
use serde_json::{Value, json};

/// Answers about an execution with so many events, or with so many executions below it, by its name.
async fn answer(headers: HeaderMap, asked: String) -> String {
    let asked: Value = serde_json::from_str(&asked).unwrap();
    let arn = asked["executionArn"].as_str().unwrap();
    if headers["x-amz-target"] == "AWSStepFunctions.DescribeExecution" {
        let ended = json!({"executionArn": arn, "stateMachineArn": arn, "status": "ABORTED", "startDate": 1, "stopDate": 2});
        return ended.to_string();
    }
    let (machine, number) = arn.rsplit_once(':').unwrap();
    let number: usize = number.parse().unwrap();
    let mut events = if machine.ends_with(":long") {
        vec![json!({"type": "PassStateEntered"}); number - 1]
    } else if number == 0 {
        Vec::new()
    } else {
        let child = json!({"ExecutionArn": format!("{machine}:{}", number - 1)}).to_string();
        let task = json!({"resourceType": "states", "resource": "startExecution.sync:2", "region": "r", "parameters": "{}", "output": child});
        ["TaskScheduled", "TaskStarted", "TaskSubmitted"]
            .map(|kind| json!({"type": kind, format!("t{}EventDetails", &kind[1..]): task}))
            .into()
    };
    events.push(json!({"type": "ExecutionAborted"}));
    for (before, event) in events.iter_mut().enumerate() {
        event["timestamp"] = 1.into();
        event["id"] = (before + 1).into();
        event["previousEventId"] = before.into();
    }
    let from = asked["nextToken"].as_str();
    let from = from.map_or(0, |token| token.parse().unwrap());
    let to = events.len().min(from + 1000);
    let next = (to < events.len()).then(|| to.to_string());
    json!({"events": events[from..to], "nextToken": next}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn long_and_deep_histories_prove_nothing() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/", post(answer));
    let serving = tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
    let step_functions = StepFunctions::new(&config(&url).await);
    for (execution, proves) in [
        ("long:5000", true),
        ("long:5001", false),
        ("deep:3", true),
        ("deep:4", false),
    ] {
        let arn = format!("arn:aws:states:us-east-1:123456789012:execution:{execution}");
        let holder = Holder::new(arn).unwrap();
        let limit = Duration::from_secs(60);
        let told = step_functions.describe_execution(&holder, limit).await;
        let Ok(Execution::Ended { all_answered, .. }) = told else {
            panic!("{execution}: {told:?}");
        };
        assert_eq!(all_answered, proves, "{execution}");
    }
    serving.abort();
}
