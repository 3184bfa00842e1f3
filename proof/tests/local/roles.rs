//! Functions and state machines are held to the roles of the template, on every local stack.

use std::path::PathBuf;

use aws_sdk_lambda::Client;
use aws_sdk_lambda::config::{Builder, Credentials};
use aws_sdk_lambda::primitives::Blob;
use leasehold_local::{Options, Stack, session_token};
use leasehold_proof::fixture::{config, scanned};
use serde_json::{Value, json};

/// The repository's template with one value, at a JSON pointer, changed.
fn changed(directory: &tempfile::TempDir, place: &str, change: impl FnOnce(&mut Value)) -> PathBuf {
    let own = Options::default().root.join("local/template.json");
    let mut template: Value = serde_json::from_str(&std::fs::read_to_string(own).unwrap()).unwrap();
    change(template.pointer_mut(place).expect(place));
    let file = directory.path().join("template.json");
    std::fs::write(&file, template.to_string()).unwrap();
    file
}

/// Where the actions of a role's statement are.
fn actions(role: &str, statement: usize) -> String {
    format!("/Resources/{role}/Properties/Policies/0/PolicyDocument/Statement/{statement}/Action")
}

fn without(action: &str) -> impl FnOnce(&mut Value) {
    move |actions| {
        let actions = actions.as_array_mut().unwrap();
        let before = actions.len();
        actions.retain(|allowed| allowed != action);
        assert_eq!(actions.len(), before - 1, "{action}");
    }
}

async fn start(template: Option<PathBuf>) -> Result<Stack, leasehold_local::Error> {
    Stack::start(Options {
        template,
        ..scanned()
    })
    .await
}

/// Invokes as the owner of this access key id.
async fn invoke(stack: &Stack, key: &str, function: &str, event: Value) -> Result<Value, String> {
    let credentials =
        Credentials::new(key, "local", Some(session_token().to_owned()), None, "test");
    let config =
        Builder::from(&config(&stack.lambda_url()).await).credentials_provider(credentials);
    let client = Client::from_conf(config.build());
    let invoke = client.invoke().function_name(function);
    let sent = invoke.payload(Blob::new(event.to_string())).send().await;
    let output = sent.map_err(|error| error.into_service_error().to_string())?;
    Ok(serde_json::from_slice(output.payload().unwrap().as_ref()).unwrap())
}

#[tokio::test]
async fn machine_role_invokes_only_named_functions() {
    let stack = start(None).await.unwrap();
    let inspect = json!({"key": "a"});
    let machine = "WithLeaseStateMachineRole";
    let denied = invoke(&stack, machine, "InspectFunction", inspect.clone()).await;
    let denied = denied.unwrap_err();
    assert!(denied.contains("AccessDenied"), "{denied}");
    assert_eq!(stack.roles().refused().len(), 1);
    let refused = invoke(&stack, machine, "StartFunction", json!({})).await;
    assert_eq!(refused.unwrap()["errorType"], "Lease.Invalid");
    let shown = invoke(&stack, "somebody", "InspectFunction", inspect).await;
    assert_eq!(shown.unwrap()["outcome"], "absent");
    stack.stop().await;
}

/// Nobody listens where the runner is said to be, so what is let through gets no answer.
#[tokio::test]
async fn callback_needs_listed_function() {
    let function = |name: &str| format!("arn:aws:lambda:us-east-1:123456789012:function:{name}");
    let all = [("LEASE_EXECUTIONS".to_owned(), Some("*".to_owned()))];
    let options = Options {
        parameters: [("DurableFunction".to_owned(), function("orders"))].into(),
        durable_runner: Some("http://127.0.0.1:9".to_owned()),
        environment: [("acquire".to_owned(), all.into())].into(),
        ..scanned()
    };
    let stack = Stack::start(options).await.unwrap();
    for (name, error) in [
        ("orders", "Lease.Unavailable"),
        ("elsewhere", "Lease.Denied"),
    ] {
        let event = json!({"key": name, "holder": format!("{}:7/durable-execution/a/b", function(name)),
            "callback_id": "YQ==", "wait_seconds": 60});
        let answer = invoke(&stack, "nobody", "AcquireFunction", event).await;
        assert_eq!(answer.unwrap()["errorType"], error, "{name}");
    }
    let refused = stack.roles().refused();
    let [refused] = &refused[..] else {
        panic!("{refused:?}");
    };
    assert!(
        refused.contains("lambda:SendDurableExecutionCallbackSuccess"),
        "{refused}"
    );
    stack.stop().await;
}

#[tokio::test]
async fn stack_with_unusable_rule_is_refused() {
    let logs = "/Resources/InspectRole/Properties/Policies/0/PolicyDocument/Statement/2/Resource";
    let other = |id: &str| json!({"Fn::GetAtt": [id, "Arn"]});
    let directory = tempfile::tempdir().unwrap();
    let source = "/Resources/SweepFunctionSchedulePermission/Properties/SourceArn";
    let source = changed(&directory, source, |arn| *arn = other("ReapQueue"));
    refuses(source, "lambda:InvokeFunction").await;
    let logs = changed(&directory, logs, |arn| *arn = other("ReapLogs"));
    refuses(logs, "logs:PutLogEvents").await;
    let queue = without("sqs:ReceiveMessage");
    let queue = changed(&directory, &actions("ReapRole", 2), queue);
    refuses(queue, "sqs:ReceiveMessage").await;

    let queues =
        "/Resources/ReapDeadLetterQueuePolicy/Properties/PolicyDocument/Statement/0/Action";
    let queues = changed(&directory, queues, |action| {
        *action = json!("sqs:ReceiveMessage");
    });
    let queue = "arn:aws:sqs:us-east-1:123456789012:ReapDeadLetterQueue";
    refuses(queues, &format!("sqs:SendMessage on resource: {queue}")).await;
    let shared = "/Resources/CriticalSectionStateMachineRole/Properties/ManagedPolicyArns";
    let shared = changed(&directory, shared, |policies| {
        policies.as_array_mut().unwrap().remove(1);
    });
    refuses(shared, "lambda:InvokeFunction").await;
    let named =
        "/Resources/CriticalSectionStateMachine/Properties/DefinitionSubstitutions/ExtendFunction";
    let named = changed(&directory, named, |arn| *arn = other("OperateFunction"));
    let function = "arn:aws:lambda:us-east-1:123456789012:function:OperateFunction";
    refuses(
        named,
        &format!("lambda:InvokeFunction on resource: {function}"),
    )
    .await;
}

async fn refuses(template: PathBuf, action: &str) {
    let refused = start(Some(template)).await.err().unwrap().to_string();
    let said = format!("not authorized to perform: {action}");
    assert!(refused.contains(&said), "{refused}");
}
