//! The template's functions, on the template's events: what becomes of a lease whose execution ends without giving it
//! back. Nobody here calls reap, and sweep runs only where a test calls it.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_lambda::{Client, primitives::Blob};
use leasehold::{Clock as _, SystemClock};
use leasehold_local::{Options, Stack};
use serde_json::{Value, json};

use leasehold_proof::fixture::{config, environment, eventually, s, scanned};

const FUNCTION: &str = "arn:aws:lambda:us-east-1:123456789012:function:AcquireFunction";
const INSPECT: &str = "arn:aws:lambda:us-east-1:123456789012:function:InspectFunction";

struct Fixture {
    stack: Stack,
    machine: String,
}

/// A machine that acquires and goes on as its input says, by a name that the rule knows.
async fn fixture() -> Fixture {
    let stack = Stack::start(Options {
        engine: true,
        queue_delay: Some(Duration::from_millis(200)),
        // So that seconds are long.
        environment: environment([
            ("LEASE_CLOCK_MARGIN_MS", "100"),
            ("LEASE_GUARD_MS", "100"),
            ("LEASE_REAP_GRACE_SECONDS", "60"),
        ]),
        ..scanned()
    });
    let stack = stack.await.unwrap_or_else(|error| panic!("{error}"));
    let definition = json!({
        "QueryLanguage": "JSONata",
        "StartAt": "Acquire",
        "States": {
            "Acquire": {
                "Type": "Task",
                "Resource": "arn:aws:states:::lambda:invoke",
                "Arguments": {
                    "FunctionName": FUNCTION,
                    "Payload": "{% $merge([{'holder': $states.context.Execution.Id}, $states.input.request]) %}",
                },
                "Output": "{% $states.input %}",
                "Next": "Then",
            },
            "Then": {
                "Type": "Choice",
                "Choices": [
                    {"Condition": "{% $states.input.then = 'succeed' %}", "Next": "Succeed"},
                    {"Condition": "{% $states.input.then = 'fail' %}", "Next": "Fail soon"},
                    {"Condition": "{% $states.input.then = 'work' %}", "Next": "Work"},
                ],
                "Default": "Stay",
            },
            // As long as clocks may be apart: a failure right after the grant might be seen as one before a redrive.
            "Fail soon": {"Type": "Wait", "Seconds": 1, "Next": "Fail"},
            "Succeed": {"Type": "Succeed"},
            "Fail": {"Type": "Fail", "Error": "Mine"},
            "Stay": {"Type": "Wait", "Seconds": 3600, "End": true},
            // Nobody ever answers its token.
            "Work": {
                "Type": "Task",
                "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken",
                "TimeoutSeconds": 3600,
                "Arguments": {"FunctionName": INSPECT, "Payload": {"key": "{% $states.input.key %}"}},
                "End": true,
            },
        },
    });
    let create = stack
        .sfn()
        .create_state_machine()
        .name("leasehold_leasing_test");
    let created = create
        .definition(definition.to_string())
        .role_arn("arn:aws:iam::123456789012:role/test")
        .send()
        .await
        .unwrap();
    let machine = created.state_machine_arn().to_owned();
    Fixture { stack, machine }
}

impl Fixture {
    /// Starts an execution that leases a key, for some seconds; its ARN.
    async fn start(&self, key: &str, ttl: u32, then: &str) -> String {
        let request = json!({"key": key, "ttl_seconds": ttl});
        self.start_with(&request, then).await
    }

    /// Starts one that leases a key for as long as it runs.
    async fn start_for_its_life(&self, key: &str, then: &str) -> String {
        let request = json!({"key": key, "lifetime": "execution"});
        self.start_with(&request, then).await
    }

    async fn start_with(&self, request: &Value, then: &str) -> String {
        let input = json!({"key": request["key"], "request": request, "then": then});
        let start = self.stack.sfn().start_execution();
        let started = start
            .state_machine_arn(&self.machine)
            .input(input.to_string());
        started.send().await.unwrap().execution_arn().to_owned()
    }

    async fn row(&self, key: &str) -> BTreeMap<String, AttributeValue> {
        let get = self.stack.dynamodb().get_item().table_name("LeaseTable");
        let get = get
            .key("pk", s(key))
            .key("sk", s("LEASE#0000"))
            .consistent_read(true);
        let row = get.send().await.unwrap().item.unwrap_or_default();
        row.into_iter().collect()
    }

    /// Waits until somebody holds the key; until when, in milliseconds since the epoch.
    async fn held(&self, key: &str) -> u64 {
        eventually("what is looked for", async || {
            let row = self.row(key).await;
            let expires_at = row.get("expires_at")?.as_n().unwrap().parse().unwrap();
            row.contains_key("holder").then_some(expires_at)
        })
        .await
    }

    /// Waits until the key was leased, and nobody holds it any more; how the lease ended.
    async fn freed(&self, key: &str) -> String {
        eventually("what is looked for", async || {
            let row = self.row(key).await;
            row.get("ended").map(|ended| ended.as_s().unwrap().clone())
        })
        .await
    }

    async fn stop(&self, execution: &str) {
        let stop = self.stack.sfn().stop_execution();
        stop.execution_arn(execution).send().await.unwrap();
    }
}

#[tokio::test]
async fn ended_execution_frees_its_leases() {
    let fixture = fixture().await;
    fixture.start("fail", 3600, "fail").await;
    assert_eq!(fixture.freed("fail").await, "released");
    fixture.start_for_its_life("succeed", "succeed").await;
    assert_eq!(fixture.freed("succeed").await, "released");

    // The first notification meets a function that dies; the message comes back.
    let functions = fixture.stack.functions();
    functions.kill_after_start("ReapFunction", 1).unwrap();
    fixture.start_for_its_life("late", "succeed").await;
    assert_eq!(fixture.freed("late").await, "released");
    fixture.stack.stop().await;
}

/// Stops it some time after it was granted its lease, as in life: later than by what clocks may be apart.
async fn stop_later(fixture: &Fixture, key: &str, execution: &str) -> u64 {
    let until = fixture.held(key).await;
    let granted = until - 3_600_000;
    let later = async || (SystemClock.now().as_millis() > granted + 500).then_some(());
    eventually("later", later).await;
    fixture.stop(execution).await;
    until
}

#[tokio::test]
async fn execution_stopped_at_work_keeps_grace() {
    let fixture = fixture().await;
    let execution = fixture.start("stopped", 3600, "work").await;
    let before = stop_later(&fixture, "stopped", &execution).await;
    let after = eventually("what is looked for", async || {
        let until = fixture.held("stopped").await;
        (until != before).then_some(until)
    });
    // An hour from then, and now a minute from now.
    let cut = Duration::from_millis(before - after.await);
    assert!(
        cut > Duration::from_mins(58) && cut <= Duration::from_mins(59),
        "{cut:?}"
    );
    // All that it ever started has answered: nothing can be at work.
    let execution = fixture.start("idle", 3600, "stay").await;
    stop_later(&fixture, "idle", &execution).await;
    assert_eq!(fixture.freed("idle").await, "released");
    fixture.stack.stop().await;
}

#[tokio::test]
async fn sweep_frees_key_without_event() {
    let fixture = fixture().await;
    fixture.stack.lose_events(Some(""));
    fixture.start("lost", 1, "succeed").await;
    fixture.held("lost").await;
    let swept = eventually("what is looked for", async || {
        let lambda = Client::new(&config(&fixture.stack.lambda_url()).await);
        let sweep = lambda.invoke().function_name("SweepFunction");
        let output = sweep.payload(Blob::new("{}")).send().await.unwrap();
        let answer: Value = serde_json::from_slice(output.payload().unwrap().as_ref()).unwrap();
        (answer["freed"] == 1).then_some(answer)
    });
    assert_eq!(swept.await["outcome"], "swept");
    assert_eq!(fixture.freed("lost").await, "expired");
    fixture.stack.stop().await;
}
