//! The repository's own template: what becomes of executions that are redriven after their key has passed on.

use std::collections::BTreeMap;
use std::process::Output;
use std::time::Duration;

use aws_sdk_lambda::{Client, primitives::Blob};
use aws_sdk_sfn::types::ExecutionStatus;
use leasehold_local::{Options, Stack, session_token};
use serde_json::{Value, json};

use leasehold_proof::fixture::{config, environment, eventually, scanned};
use leasehold_proof::program;

const INSPECT: &str = "arn:aws:lambda:us-east-1:123456789012:function:InspectFunction";

struct Fixture {
    stack: Stack,
    machine: String,
}

/// A machine that may be started through keys. It fails at first, and stays after a redrive.
async fn fixture(parameters: &[(&str, &str)]) -> Fixture {
    let parameters = parameters.iter();
    let parameters = parameters.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let stack = Stack::start(Options {
        engine: true,
        queue_delay: Some(Duration::from_millis(200)),
        parameters: parameters.collect::<BTreeMap<_, _>>(),
        environment: environment([
            ("LEASE_CLOCK_MARGIN_MS", "100"),
            ("LEASE_GUARD_MS", "100"),
            ("LEASE_LOOK_SECONDS", "1"),
        ]),
        ..scanned()
    });
    let stack = stack.await.unwrap_or_else(|error| panic!("{error}"));
    let definition = json!({
        "QueryLanguage": "JSONata",
        "StartAt": "Begin",
        "States": {
            "Begin": {"Type": "Choice", "Choices": [{"Condition": "{% $states.input.stays %}", "Next": "Stay"}], "Default": "Ask"},
            // Without a value before a redrive, so that the execution fails here.
            "Ask": {
                "Type": "Task",
                "Resource": "arn:aws:states:::lambda:invoke",
                "TimeoutSeconds": "{% $states.context.Execution.RedriveCount > 0 ? 60 %}",
                "Arguments": {"FunctionName": INSPECT, "Payload": {"key": "k"}},
                "Next": "Stay",
            },
            "Stay": {"Type": "Wait", "Seconds": 3600, "End": true},
        },
    });
    let create = stack.sfn().create_state_machine();
    let created = create
        .name("leasehold_started_test")
        .definition(definition.to_string())
        .role_arn("arn:aws:iam::123456789012:role/test")
        .send()
        .await
        .unwrap();
    let machine = created.state_machine_arn().to_owned();
    Fixture { stack, machine }
}

impl Fixture {
    async fn invoke(&self, function: &str, request: &Value) -> Value {
        let lambda = Client::new(&config(&self.stack.lambda_url()).await);
        let call = lambda.invoke().function_name(function);
        let call = call.payload(Blob::new(request.to_string()));
        let output = call.send().await.unwrap();
        serde_json::from_slice(output.payload().unwrap().as_ref()).unwrap()
    }

    /// Starts an execution through the key; its ARN.
    async fn start(&self, name: &str, stays: bool) -> String {
        let request = json!({"key": "k", "state_machine_arn": self.machine, "name": name, "input": {"stays": stays}});
        let answer = self.invoke("StartFunction", &request).await;
        answer["execution_arn"]
            .as_str()
            .unwrap_or_else(|| panic!("{answer}"))
            .to_owned()
    }

    async fn status(&self, execution: &str) -> ExecutionStatus {
        let describe = self.stack.sfn().describe_execution();
        let described = describe.execution_arn(execution).send().await.unwrap();
        described.status().clone()
    }

    async fn fails(&self, execution: &str) {
        eventually("the failure", async || {
            (self.status(execution).await == ExecutionStatus::Failed).then_some(())
        })
        .await;
    }

    async fn holder(&self) -> Option<String> {
        let seen = self.invoke("InspectFunction", &json!({"key": "k"})).await;
        let held = seen["state"] == "held";
        seen["lease"]["holder"]
            .as_str()
            .filter(|_| held)
            .map(str::to_owned)
    }

    async fn holds(&self, holder: Option<&str>) {
        eventually("the holder", async || {
            (self.holder().await.as_deref() == holder).then_some(())
        })
        .await;
    }

    async fn redrive(&self, execution: &str) {
        let redrive = self.stack.sfn().redrive_execution();
        redrive.execution_arn(execution).send().await.unwrap();
    }

    /// Why it was stopped.
    async fn stopped(&self, execution: &str) -> (String, String) {
        eventually("the stop", async || {
            let describe = self.stack.sfn().describe_execution();
            let described = describe.execution_arn(execution).send().await.unwrap();
            let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
            (*described.status() == ExecutionStatus::Aborted)
                .then(|| (text(described.error()), text(described.cause())))
        })
        .await
    }

    async fn leasehold(&self, arguments: &[&str]) -> Output {
        tokio::process::Command::new(program("leasehold"))
            .args(arguments)
            .args(["--table", "LeaseTable", "--region", "us-east-1"])
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("AWS_ACCESS_KEY_ID", "local")
            .env("AWS_SECRET_ACCESS_KEY", "local")
            .env("AWS_SESSION_TOKEN", session_token())
            .env("AWS_ENDPOINT_URL_DYNAMODB", self.stack.dynamodb_url())
            .env("AWS_ENDPOINT_URL_SFN", self.stack.sfn_url())
            .output()
            .await
            .unwrap()
    }
}

#[tokio::test]
async fn redrive_beside_next_is_stopped() {
    let fixture = fixture(&[]).await;
    let a = fixture.start("a", false).await;
    fixture.fails(&a).await;
    fixture.holds(None).await;
    let b = fixture.start("b", true).await;
    fixture.holds(Some(&b)).await;
    // In the console, while b has the key.
    fixture.redrive(&a).await;
    let (error, cause) = fixture.stopped(&a).await;
    assert_eq!(error, "Leasehold.Redriven");
    assert!(cause.contains(&b), "{cause}");
    assert!(cause.contains(&format!("leasehold redrive {a}")), "{cause}");
    assert_eq!(fixture.status(&b).await, ExecutionStatus::Running);
    assert_eq!(fixture.holder().await, Some(b));
    fixture.stack.stop().await;
}

#[tokio::test]
async fn sweep_stops_redrive_without_event() {
    let fixture = fixture(&[]).await;
    let a = fixture.start("a", false).await;
    fixture.fails(&a).await;
    fixture.holds(None).await;
    let b = fixture.start("b", true).await;
    fixture.stack.lose_events(Some(""));
    fixture.redrive(&a).await;
    eventually("a look", async || {
        fixture.invoke("SweepFunction", &json!({})).await;
        (fixture.status(&a).await == ExecutionStatus::Aborted).then_some(())
    })
    .await;
    assert_eq!(fixture.holder().await, Some(b));
    fixture.stack.stop().await;
}

#[tokio::test]
async fn redrive_takes_free_key_again() {
    let fixture = fixture(&[]).await;
    let a = fixture.start("a", false).await;
    fixture.fails(&a).await;
    fixture.holds(None).await;
    fixture.redrive(&a).await;
    fixture.holds(Some(&a)).await;
    let queued = fixture.start("b", true).await;
    assert_ne!(queued, a);
    assert_eq!(fixture.status(&a).await, ExecutionStatus::Running);
    fixture.stack.stop().await;
}

#[tokio::test]
async fn alarm_alone_stops_nothing() {
    let fixture = fixture(&[("RedrivenStarts", "alarm")]).await;
    let a = fixture.start("a", false).await;
    fixture.fails(&a).await;
    fixture.holds(None).await;
    let mut invocations = fixture.stack.functions().invocations();
    fixture.redrive(&a).await;
    eventually("the event", async || {
        let (invocation, payload) = crate::fixture::next(&mut invocations).await;
        let told = payload.to_string().contains("RUNNING");
        (invocation.function == "ReapFunction" && told).then_some(())
    })
    .await;
    assert_eq!(fixture.status(&a).await, ExecutionStatus::Running);
    assert_eq!(fixture.holder().await, None);
    fixture.stack.stop().await;
}

#[tokio::test]
async fn command_line_redrives_started_execution() {
    let fixture = fixture(&[]).await;
    let a = fixture.start("a", false).await;
    fixture.fails(&a).await;
    fixture.holds(None).await;
    let b = fixture.start("b", true).await;
    fixture.holds(Some(&b)).await;
    let refused = fixture.leasehold(&["redrive", &a]).await;
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(75), "{said}");
    assert_eq!(fixture.status(&a).await, ExecutionStatus::Failed);
    let stop = fixture.stack.sfn().stop_execution();
    stop.execution_arn(&b).send().await.unwrap();
    fixture.holds(None).await;
    let redriven = fixture.leasehold(&["redrive", &a]).await;
    let said = String::from_utf8(redriven.stdout).unwrap();
    assert_eq!(redriven.status.code(), Some(0), "{said}");
    assert!(said.contains("k is taken back"), "{said}");
    fixture.holds(Some(&a)).await;
    assert_eq!(fixture.status(&a).await, ExecutionStatus::Running);
    fixture.stack.stop().await;
}
