//! What starts a machine under a lease, as the guides show it: a rule, a queue and a schedule beside the template.

use std::path::Path;

use leasehold_local::{Options, Stack};
use leasehold_proof::execution::Execution;
use leasehold_proof::fixture::{eventually, scanned};
use leasehold_proof::root;
use serde_json::{Map, Value, json};

const MACHINE: &str = "arn:aws:states:us-east-1:123456789012:stateMachine:leasehold_started_orders";

/// The resources of the guides, of which the stack's own are no imports here.
fn resources() -> Map<String, Value> {
    let guides = ["one-at-a-time", "cron", "limits-and-sqs"];
    let pages = guides.map(|name| {
        let page = root().join(format!("docs/guides/{name}.md"));
        std::fs::read_to_string(page).unwrap()
    });
    let snippets = pages
        .iter()
        .flat_map(|page| page.split("\n```yaml\n").skip(1));
    let mut all = Map::new();
    for snippet in snippets.map(|rest| rest.split("\n```").next().unwrap()) {
        let read: yaml_serde::Value = yaml_serde::from_str(snippet).unwrap();
        let Value::Object(resources) = plain(read) else {
            panic!("no resources: {snippet}");
        };
        all.extend(resources);
    }
    all
}

/// As JSON, with the functions of CloudFormation by their long names.
fn plain(value: yaml_serde::Value) -> Value {
    use yaml_serde::Value as Yaml;
    match value {
        Yaml::Tagged(tagged) => {
            let argument = plain(tagged.value);
            let text = argument.as_str().unwrap();
            match (tagged.tag.to_string().as_str(), text) {
                ("!ImportValue", "leasehold-StartFunctionArn") => {
                    json!({"Fn::GetAtt": ["StartFunction", "Arn"]})
                }
                ("!ImportValue", "leasehold-StartRoleName") => json!({"Ref": "StartRole"}),
                ("!GetAtt", path) => {
                    let (id, attribute) = path.split_once('.').unwrap();
                    json!({"Fn::GetAtt": [id, attribute]})
                }
                ("!Sub", text) => {
                    let machines = ["${Orders}", "${Report}"];
                    let text = machines
                        .iter()
                        .fold(text.to_owned(), |text, name| text.replace(name, MACHINE));
                    json!({"Fn::Sub": text})
                }
                (tag, text) => panic!("{tag} {text}"),
            }
        }
        Yaml::Mapping(entries) => {
            let entries = entries.into_iter();
            let entries =
                entries.map(|(name, value)| (name.as_str().unwrap().to_owned(), plain(value)));
            Value::Object(entries.collect())
        }
        Yaml::Sequence(items) => Value::Array(items.into_iter().map(plain).collect()),
        other => serde_json::to_value(other).unwrap(),
    }
}

/// A rule whose events go to the queue of the guide, since nothing else here sends to one.
fn sender() -> [(String, Value); 2] {
    let queue = json!({"Fn::GetAtt": ["OrdersToStart", "Arn"]});
    let rule = json!({"Type": "AWS::Events::Rule", "Properties": {
        "EventPattern": {"source": ["till"]},
        "Targets": [{"Id": "queue", "Arn": queue, "InputTransformer": {
            "InputPathsMap": {"request": "$.detail"}, "InputTemplate": "<request>",
        }}],
    }});
    let statement = json!({"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "sqs:SendMessage",
        "Resource": queue, "Condition": {"ArnEquals": {"aws:SourceArn": {"Fn::GetAtt": ["Sender", "Arn"]}}}});
    let policy = json!({"Type": "AWS::SQS::QueuePolicy", "Properties": {
        "Queues": [{"Ref": "OrdersToStart"}], "PolicyDocument": {"Statement": [statement]},
    }});
    [
        ("Sender".to_owned(), rule),
        ("SenderMay".to_owned(), policy),
    ]
}

async fn stack(directory: &Path, resources: Map<String, Value>) -> Stack {
    let template = std::fs::read_to_string(root().join("local/template.json")).unwrap();
    let mut template: Value = serde_json::from_str(&template).unwrap();
    let all = template["Resources"].as_object_mut().unwrap();
    all.extend(resources);
    all.extend(sender());
    let file = directory.join("template.json");
    std::fs::write(&file, template.to_string()).unwrap();
    let stack = Stack::start(Options {
        template: Some(file),
        engine: true,
        ..scanned()
    });
    stack.await.unwrap_or_else(|error| panic!("{error}"))
}

/// Once there are as many executions, their names.
async fn names(stack: &Stack, count: usize) -> Vec<String> {
    let sfn = stack.sfn();
    let names = eventually("executions", async || {
        let listed = sfn
            .list_executions()
            .state_machine_arn(MACHINE)
            .send()
            .await
            .unwrap();
        let names = listed.executions().iter().map(|one| one.name().to_owned());
        let names: Vec<_> = names.collect();
        (names.len() >= count).then_some(names)
    });
    names.await
}

#[tokio::test]
async fn rule_queue_and_schedule_start_machines() {
    let directory = tempfile::tempdir().unwrap();
    let mut resources = resources();
    let nightly = resources.remove("Nightly").unwrap();
    resources.remove("SchedulerRole").unwrap();
    let schedule = &nightly["Properties"]["Target"]["Input"]["Fn::Sub"];
    let stack = stack(directory.path(), resources).await;
    let create = stack
        .sfn()
        .create_state_machine()
        .name("leasehold_started_orders");
    let create = create
        .definition(r#"{"StartAt": "Work", "States": {"Work": {"Type": "Pass", "End": true}}}"#);
    let create = create.role_arn("arn:aws:iam::123456789012:role/test");
    assert_eq!(create.send().await.unwrap().state_machine_arn(), MACHINE);

    // EventBridge may deliver an event twice.
    let event = json!({"id": "event-1", "source": "shop", "detail-type": "OrderPlaced", "detail": {"order": "42", "price": 7}});
    stack.put_event(&event);
    stack.put_event(&event);
    assert_eq!(names(&stack, 1).await, ["event-1"]);
    let run = Execution::of(
        &stack.sfn(),
        &format!(
            "{}:event-1",
            MACHINE.replace(":stateMachine:", ":execution:")
        ),
    );
    assert_eq!(run.ended().await.status, "SUCCEEDED");
    let input: Value = serde_json::from_str(run.describe().await.input().unwrap()).unwrap();
    assert_eq!(input, event["detail"]);

    let message = json!({"key": "orders/43", "state_machine_arn": MACHINE, "name": "message-1"});
    stack.put_event(&json!({"source": "till", "detail-type": "any", "detail": message}));
    assert!(names(&stack, 2).await.contains(&"message-1".to_owned()));

    // Nothing here runs a schedule: its input is a request.
    let request = schedule
        .as_str()
        .unwrap()
        .replace("<aws.scheduler.execution-id>", "night-1");
    let request = serde_json::from_str(&request).unwrap();
    let started = stack.functions().call("start", &request).await.unwrap();
    assert_eq!(started["outcome"], "started");
    assert_eq!(names(&stack, 3).await.len(), 3);
    stack.stop().await;
}
