//! How the histories of executions are read, and how far, from a server that has them as long and as deep as it is asked for.

use std::time::Duration;

use axum::{
    Router,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use leasehold::{Answer, Engine as _, Error, Execution, Failure, Holder, Outcome, Question};
use leasehold_lambda::StepFunctions;
use leasehold_proof::fixture::config;
use serde_json::{Value, json};

/// Answers about an execution with so many events, or with so many executions below it, by its name; or with such an end. The history of
/// one that is secret may not be read, and of one that has a secret child, that of the child.
async fn answer(headers: HeaderMap, asked: String) -> (StatusCode, String) {
    let asked: Value = serde_json::from_str(&asked).unwrap();
    let arn = asked["executionArn"].as_str().unwrap();
    if headers["x-amz-target"] == "AWSStepFunctions.DescribeExecution" {
        assert!(!arn.contains(":succeeded:"), "its history says all");
        let ended = json!({"executionArn": arn, "stateMachineArn": arn, "status": "ABORTED", "startDate": 1, "stopDate": 2});
        return (StatusCode::OK, ended.to_string());
    }
    let (machine, number) = arn.rsplit_once(':').unwrap();
    if machine.ends_with(":secret") {
        let refused = json!({"__type": "KmsAccessDeniedException"});
        return (StatusCode::BAD_REQUEST, refused.to_string());
    }
    let number: usize = number.parse().unwrap();
    let mut events = if machine.ends_with(":long") {
        vec![json!({"type": "PassStateEntered"}); number - 1]
    } else if number == 0 {
        Vec::new()
    } else {
        let below = machine.replace(":succeeded", ":secret");
        let child = json!({"ExecutionArn": format!("{below}:{}", number - 1)}).to_string();
        let task = json!({"resourceType": "states", "resource": "startExecution.sync:2", "region": "r", "parameters": "{}", "output": child});
        ["TaskScheduled", "TaskStarted", "TaskSubmitted"]
            .map(|kind| json!({"type": kind, format!("t{}EventDetails", &kind[1..]): task}))
            .into()
    };
    if machine.ends_with(":succeeded") {
        let output = json!({"output": "[1]", "outputDetails": {"truncated": false}});
        events.push(json!({"type": "TaskSucceeded", "taskSucceededEventDetails": events[2]["taskSubmittedEventDetails"]}));
        events
            .push(json!({"type": "ExecutionSucceeded", "executionSucceededEventDetails": output}));
    } else {
        events.push(json!({"type": "ExecutionAborted", "executionAbortedEventDetails": {"cause": "by hand"}}));
    }
    for (before, event) in events.iter_mut().enumerate() {
        event["timestamp"] = 1.into();
        event["id"] = (before + 1).into();
        event["previousEventId"] = before.into();
    }
    let from = asked["nextToken"].as_str();
    let from = from.map_or(0, |token| token.parse().unwrap());
    if asked["reverseOrder"] == true {
        events.reverse();
    }
    let most = asked["maxResults"].as_u64().unwrap();
    let to = events.len().min(from + usize::try_from(most).unwrap());
    let next = (to < events.len()).then(|| to.to_string());
    let page = json!({"events": events[from..to], "nextToken": next});
    (StatusCode::OK, page.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn long_and_deep_histories_prove_nothing() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/", post(answer));
    let serving = tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
    let step_functions = StepFunctions::new(&config(&url).await);
    let stopped = Ok(Outcome::Ended(Some(Err(Failure {
        error: "Lease.Aborted".to_owned(),
        cause: "by hand".to_owned(),
    }))));
    let unread = Ok(Outcome::Ended(None));
    for (execution, proves, outcome) in [
        ("long:5000", true, &stopped),
        ("long:5001", false, &stopped),
        ("deep:3", true, &stopped),
        ("deep:4", false, &stopped),
        ("secret:1", false, &unread),
        // What may not be read of its child takes nothing from its success.
        (
            "succeeded:1",
            true,
            &Ok(Outcome::Ended(Some(Ok("[1]".to_owned())))),
        ),
    ] {
        let arn = format!("arn:aws:states:us-east-1:123456789012:execution:{execution}");
        let holder = Holder::new(arn).unwrap();
        let limit = Duration::from_secs(60);
        let ask = |question| step_functions.ask(question, limit);
        let told = ask(Question::Outcome(holder.clone())).await;
        let told = told.and_then(Outcome::try_from);
        assert_eq!(
            &told.map_err(|error| error.to_string()),
            outcome,
            "{execution}"
        );
        // What does not show its input yet is nobody else's.
        if !execution.starts_with("succeeded") {
            let input = ask(Question::Input(holder.clone())).await;
            assert!(matches!(input, Err(Error::Unavailable { .. })), "{input:?}");
        }
        let told = ask(Question::Describe(holder.clone())).await;
        let Ok(Answer::Execution(Execution::Ended { all_answered, .. })) = told else {
            panic!("{execution}: {told:?}");
        };
        assert_eq!(all_answered, proves, "{execution}");
    }
    serving.abort();
}
