//! The repository's own template: what reaches reap.

use std::time::Duration;

use leasehold_local::{Invocation, Options, Stack};
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;

use leasehold_proof::fixture::{event, scanned};

use crate::fixture::next;

/// In an event that is not for reap.
const STRANGE: &str = "strange";

async fn stack(parameters: impl IntoIterator<Item = (String, String)>) -> Stack {
    // `make test` has built the functions; the error says so otherwise.
    Stack::start(Options {
        queue_delay: Some(Duration::from_millis(30)),
        parameters: parameters.into_iter().collect(),
        ..scanned()
    })
    .await
    .unwrap_or_else(|error| panic!("{error}"))
}

#[tokio::test]
async fn execution_end_reaches_reap_once() {
    let stack = stack([]).await;
    let mut invocations = stack.functions().invocations();
    stack.proxy().reset();
    stack.put_event(&event("reap-running-again"));
    let of = |machine: &str, execution: &str| {
        let mut event = event("reap-aborted");
        for (name, kind) in [
            ("stateMachineArn", format!("stateMachine:{machine}")),
            ("executionArn", format!("execution:{machine}:{execution}")),
        ] {
            event["detail"][name] = json!(format!("arn:aws:states:us-east-1:123456789012:{kind}"));
        }
        event
    };
    // A machine of another stack, whose name begins with one of this stack's, and one that is not in the list.
    for machine in ["leasehold-with-lease-2", "somebody-elses"] {
        stack.put_event(&of(machine, STRANGE));
    }
    let of_a_user = of("leasehold_leasing_orders", "mine");
    for whole in [event("reap-aborted"), event("reap-succeeded"), of_a_user] {
        assert!(whole["detail"]["input"].is_string(), "{whole}");
        stack.put_event(&whole);
        // No input, no output: nothing that the execution worked on rests in a queue.
        let (execution, status) = (&whole["detail"]["executionArn"], &whole["detail"]["status"]);
        let passed = json!({"detail": {"executionArn": execution, "status": status}});
        reaches_reap_once(&stack, &mut invocations, &passed).await;
    }
    stack.stop().await;
}

#[tokio::test]
async fn durable_end_reaches_reap_once() {
    let functions = ["orders-*", "bills"]
        .map(|name| format!("arn:aws:lambda:us-east-1:123456789012:function:{name}"));
    let stack = stack([("DurableFunction".to_owned(), functions.join(","))]).await;
    let mut invocations = stack.functions().invocations();
    stack.proxy().reset();
    let of = |function: &str, execution: &str, status: &str| {
        let mut event = event("reap-durable");
        let arn = format!("arn:aws:lambda:us-east-1:123456789012:function:{function}");
        event["detail"]["durableExecutionArn"] =
            json!(format!("{arn}/durable-execution/{execution}/1"));
        // Its qualifier is optional.
        event["detail"]["functionArn"] = json!(arn.rsplit_once(':').unwrap().0);
        event["detail"]["status"] = json!(status);
        event
    };
    for (function, status) in [("orders:1", "FAILED"), ("orders-x:1", "RUNNING")] {
        stack.put_event(&of(function, STRANGE, status));
    }
    for whole in [
        of("orders-x:$LATEST", "a", "FAILED"),
        of("bills:12", "b", "TIMED_OUT"),
        of("bills:12", "c", "STOPPED"),
        of("bills:12", "d", "SUCCEEDED"),
    ] {
        stack.put_event(&whole);
        let (execution, status) = (
            &whole["detail"]["durableExecutionArn"],
            &whole["detail"]["status"],
        );
        let passed = json!({"detail": {"durableExecutionArn": execution, "status": status}});
        reaches_reap_once(&stack, &mut invocations, &passed).await;
    }
    stack.stop().await;
}

/// How long a message that goes back would take to come again, and more.
const LONG: Duration = Duration::from_millis(400);

/// Waits until reap has had this, and finds that it does not come again.
async fn reaches_reap_once(stack: &Stack, invocations: &mut Receiver<Invocation>, passed: &Value) {
    let mut times = 0;
    loop {
        let came = next(invocations);
        let (invocation, payload) = if times == 0 {
            came.await
        } else {
            match tokio::time::timeout(LONG, came).await {
                Ok(came) => came,
                Err(_) => break,
            }
        };
        assert_eq!(invocation.function, "ReapFunction");
        for record in payload["Records"].as_array().unwrap() {
            let names = |record: &Value| record.as_object().unwrap().keys().cloned().collect();
            let sample: Vec<_> = names(&event("reap-later")["Records"][0]);
            assert_eq!(names(record), sample);
            let body = record["body"].as_str().unwrap();
            assert!(!body.contains(STRANGE), "{body}");
            assert_eq!(serde_json::from_str::<Value>(body).unwrap(), *passed);
            times += 1;
        }
    }
    assert_eq!(times, 1, "{passed}");
    // It holds nothing: that is one read of the index.
    let counts = stack.proxy().counts();
    assert_eq!((counts.of("Query"), counts.total()), (1, 1), "{counts:?}");
    stack.proxy().reset();
}
