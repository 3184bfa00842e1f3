//! Faults seeded into the template, one at a time. The rehearsal's own means must find each.

use std::path::Path;

use leasehold_local::{Error, Options, Stack};
use serde_json::{Value, json};

use super::world::World;
use super::{acts, options};

/// A fault, and a part of the message that must report it.
struct Seeded {
    what: &'static str,
    /// The place in the template, as a JSON pointer.
    place: &'static str,
    /// The new value. Null removes the old one.
    value: fn() -> Value,
    said: &'static str,
}

/// One of each kind.
const SEEDED: &[Seeded] = &[
    Seeded {
        what: "a reference to nothing",
        place: "/Resources/ReapFunction/Properties/Role",
        value: || json!({"Fn::GetAtt": ["ReaperRole", "Arn"]}),
        said: "GetAtt ReaperRole.Arn: no such resource",
    },
    Seeded {
        what: "a role for another function",
        place: "/Resources/ReapFunction/Properties/Role",
        value: || json!({"Fn::GetAtt": ["SweepRole", "Arn"]}),
        said: "logs:CreateLogStream",
    },
    Seeded {
        what: "a schedule that may not invoke its function",
        place: "/Resources/SweepFunctionSchedulePermission",
        value: || Value::Null,
        said: "events.amazonaws.com is not authorized to perform: lambda:InvokeFunction",
    },
    Seeded {
        what: "a rule that may send to one queue of two",
        place: "/Resources/ReapQueuesPolicy/Properties/PolicyDocument/Statement/0/Resource/1",
        value: || Value::Null,
        said: "sqs:SendMessage on resource: arn:aws:sqs:us-east-1:123456789012:ReapDeadLetterQueue",
    },
    Seeded {
        what: "a stream that nobody may read",
        place: "/Resources/GrantRole/Properties/Policies/0/PolicyDocument/Statement/1",
        value: || Value::Null,
        said: "dynamodb:DescribeStream",
    },
    Seeded {
        what: "a machine without the policy that it shares",
        place: "/Resources/SemaphoreStateMachineRole/Properties/ManagedPolicyArns/1",
        value: || Value::Null,
        said: "not authorized to perform: lambda:InvokeFunction",
    },
    Seeded {
        what: "a nested stack without one of its parameters",
        place: "/Resources/MonitoringStack/Properties/Parameters/LeaseTable",
        value: || Value::Null,
        said: "the parameter LeaseTable has no value",
    },
    Seeded {
        what: "an output that a nested stack does not have",
        place: "/Outputs/ObserveStateMachineArn/Value",
        value: || json!({"Fn::GetAtt": ["SamplesStack", "Outputs.Observed"]}),
        said: "GetAtt SamplesStack.Outputs.Observed: no such attribute",
    },
    Seeded {
        what: "a machine that names a function it may not invoke",
        place: "/Resources/CriticalSectionStateMachine/Properties/DefinitionSubstitutions/ExtendFunction",
        value: || json!({"Fn::GetAtt": ["OperateFunction", "Arn"]}),
        said: "lambda:InvokeFunction on resource: arn:aws:lambda:us-east-1:123456789012:function:OperateFunction",
    },
    Seeded {
        what: "a substitution that is missing",
        place: "/Resources/WithLeaseStateMachine/Properties/DefinitionSubstitutions/ExtendFunction",
        value: || Value::Null,
        said: "wants ${ExtendFunction}",
    },
    Seeded {
        what: "an index by another name",
        place: "/Resources/LeaseTable/Properties/GlobalSecondaryIndexes/0/IndexName",
        value: || json!("holders"),
        said: "the library checks the table",
    },
    Seeded {
        what: "a variable that cannot be read",
        place: "/Resources/ExtendFunction/Properties/Environment/Variables/LEASE_GUARD_MS",
        value: || json!("soon"),
        said: "Lease.Misconfigured",
    },
    Seeded {
        what: "a variable that names another table",
        place: "/Resources/AcquireFunction/Properties/Environment/Variables/LEASE_TABLE",
        value: || json!({"Ref": "AccountsTableName"}),
        said: "Lease.Denied",
    },
    Seeded {
        what: "an action that acquire needs",
        place: "/Resources/AcquireRole/Properties/Policies/0/PolicyDocument/Statement/0/Action/2",
        value: || Value::Null,
        said: "not authorized to perform: dynamodb:Query",
    },
];

/// Seeds each fault, and returns those that were not found, and how many there are.
pub(super) async fn play(template: &Path, out: &Path) -> (Vec<String>, usize) {
    let mut wrong = Vec::new();
    for (at, seeded) in SEEDED.iter().enumerate() {
        let found = find(template, &out.join(format!("fault-{at}")), seeded).await;
        let said = found.unwrap_or_else(|error| vec![crate::in_full(&error)]);
        if said.iter().any(|said| said.contains(seeded.said)) {
            println!("  found: {}", seeded.what);
        } else {
            let Seeded {
                what, said: wanted, ..
            } = seeded;
            wrong.push(format!(
                "{what} is not found: expected {wanted:?}, but the rehearsal said {said:?}"
            ));
        }
    }
    (wrong, SEEDED.len())
}

/// The rehearsal's message about the fault.
async fn find(template: &Path, out: &Path, seeded: &Seeded) -> Result<Vec<String>, Error> {
    let failed = |what: &str, message: String| Error::Call {
        what: format!("{what} {}", template.display()),
        message,
    };
    let text = std::fs::read_to_string(template).map_err(|e| failed("read", e.to_string()))?;
    let mut changed = serde_json::from_str(&text).map_err(|e| failed("parse", e.to_string()))?;
    if !change(&mut changed, seeded) {
        return Err(failed("find a place in", seeded.place.to_owned()));
    }
    let file = out.join("template.json");
    std::fs::create_dir_all(out)
        .and_then(|()| std::fs::write(&file, changed.to_string()))
        .map_err(|error| failed("change", error.to_string()))?;
    let stack = Stack::start(Options {
        engine: false,
        ..options(&file, out)
    })
    .await?;
    let shown = match World::functions(&stack).await {
        Ok(world) => acts::by_a_person(&world).await,
        Err(error) => Err(crate::in_full(&error)),
    };
    let said = shown.err().into_iter().chain(stack.roles().refused());
    let said = said.collect();
    stack.stop().await;
    Ok(said)
}

/// Seeds the fault. Returns `false` if there is no such place.
fn change(template: &mut Value, seeded: &Seeded) -> bool {
    let Some((parent, name)) = seeded.place.rsplit_once('/') else {
        return false;
    };
    match (template.pointer_mut(parent), (seeded.value)()) {
        (Some(Value::Object(fields)), Value::Null) => fields.remove(name).is_some(),
        (Some(Value::Object(fields)), value) => fields.insert(name.to_owned(), value).is_some(),
        (Some(Value::Array(items)), Value::Null) => match name.parse::<usize>() {
            Ok(at) if at < items.len() => {
                items.remove(at);
                true
            }
            _ => false,
        },
        _ => false,
    }
}
