//! The template made wrong, one thing at a time: each has to be found by the same means as the rehearsal's own.

use std::path::Path;

use leasehold_local::{CloudFormation, Error, Options, Stack};
use serde_json::{Value, json};

use super::{acts, options, parameters, world};
use world::World;

/// A fault, and a part of what has to be said of it.
struct Seeded {
    what: &'static str,
    /// The place in the template, as a JSON pointer, and what stands there then; null takes it away.
    change: (&'static str, fn() -> Value),
    said: &'static str,
}

const SEEDED: &[Seeded] = &[
    Seeded {
        what: "a Ref to nothing",
        change: (
            "/Resources/AcquireFunction/Properties/Environment/Variables/LEASE_TABLE",
            || json!({"Ref": "LeasesTable"}),
        ),
        said: "[LeasesTable]",
    },
    Seeded {
        what: "a GetAtt of nothing",
        change: (
            "/Resources/ReapFunction/Properties/Role",
            || json!({"Fn::GetAtt": ["ReaperRole", "Arn"]}),
        ),
        said: "ReaperRole",
    },
    Seeded {
        what: "a role for another function",
        change: (
            "/Resources/ReapFunction/Properties/Role",
            || json!({"Fn::GetAtt": ["SweepRole", "Arn"]}),
        ),
        said: "logs:CreateLogStream",
    },
    Seeded {
        what: "a rule that may not invoke its function",
        change: (
            "/Resources/ReapPermission/Properties/SourceArn",
            || json!({"Fn::GetAtt": ["SweepFunctionSchedule", "Arn"]}),
        ),
        said: "events.amazonaws.com is not authorized to perform: lambda:InvokeFunction",
    },
    Seeded {
        what: "a schedule without its permission",
        change: ("/Resources/SweepFunctionSchedulePermission", || Value::Null),
        said: "events.amazonaws.com is not authorized to perform: lambda:InvokeFunction",
    },
    Seeded {
        what: "a rule that may not send to its queue",
        change: ("/Resources/ReapQueuesPolicy", || Value::Null),
        said: "events.amazonaws.com is not authorized to perform: sqs:SendMessage",
    },
    Seeded {
        what: "a queue policy for one queue of two",
        change: (
            "/Resources/ReapQueuesPolicy/Properties/PolicyDocument/Statement/0/Resource/1",
            || Value::Null,
        ),
        said: "sqs:SendMessage on resource: arn:aws:sqs:us-east-1:123456789012:leasehold-ReapDeadLetterQueue",
    },
    Seeded {
        what: "a stream that nobody may read",
        change: (
            "/Resources/GrantRole/Properties/Policies/0/PolicyDocument/Statement/2",
            || Value::Null,
        ),
        said: "dynamodb:DescribeStream",
    },
    Seeded {
        what: "records that are given up and may go nowhere",
        change: (
            "/Resources/GrantRole/Properties/Policies/0/PolicyDocument/Statement/3",
            || Value::Null,
        ),
        said: "sqs:SendMessage",
    },
    Seeded {
        what: "a machine that names a function it may not invoke",
        change: (
            "/Resources/CriticalSectionStateMachine/Properties/DefinitionSubstitutions/ExtendFunction",
            || json!({"Fn::GetAtt": ["OperateFunction", "Arn"]}),
        ),
        said: "lambda:InvokeFunction on resource: arn:aws:lambda:us-east-1:123456789012:function:leasehold-OperateFunction",
    },
    Seeded {
        what: "a substitution that is missing",
        change: (
            "/Resources/WithLeaseStateMachine/Properties/DefinitionSubstitutions/ExtendFunction",
            || Value::Null,
        ),
        said: "a substitution is missing",
    },
    Seeded {
        what: "an index by another name",
        change: (
            "/Resources/LeaseTable/Properties/GlobalSecondaryIndexes/0/IndexName",
            || json!("holders"),
        ),
        said: "the library looks at the table",
    },
    Seeded {
        what: "a variable that cannot be read",
        change: (
            "/Resources/ExtendFunction/Properties/Environment/Variables/LEASE_GUARD_MS",
            || json!("soon"),
        ),
        said: "Lease.Misconfigured",
    },
    Seeded {
        what: "a variable that names another table",
        change: (
            "/Resources/AcquireFunction/Properties/Environment/Variables/LEASE_TABLE",
            || json!({"Ref": "AccountsTableName"}),
        ),
        said: "Lease.Denied",
    },
    Seeded {
        what: "an action that acquire needs",
        change: (
            "/Resources/AcquireRole/Properties/Policies/0/PolicyDocument/Statement/0/Action/2",
            || Value::Null,
        ),
        said: "not authorized to perform: dynamodb:Query",
    },
];

/// Makes the template wrong in each way; those that were not found, and how many there are.
pub(super) async fn play(
    cloudformation: &CloudFormation,
    template: &Path,
    out: &Path,
) -> (Vec<String>, usize) {
    let mut wrong = Vec::new();
    for (at, seeded) in SEEDED.iter().enumerate() {
        let out = out.join(format!("fault-{at}"));
        let told = match find(cloudformation, template, &out, seeded).await {
            Ok(told) => told,
            Err(error) => vec![crate::told(&error)],
        };
        if told.iter().any(|told| told.contains(seeded.said)) {
            println!("  found: {}", seeded.what);
        } else {
            let said = seeded.said;
            wrong.push(format!(
                "{} is not found: of {said:?} nothing is said, but {told:?}",
                seeded.what
            ));
        }
    }
    (wrong, SEEDED.len())
}

/// What the rehearsal says of the fault.
async fn find(
    cloudformation: &CloudFormation,
    template: &Path,
    out: &Path,
    seeded: &Seeded,
) -> Result<Vec<String>, Error> {
    let failed = |what: &str, message: String| Error::Call {
        what: format!("{what} {}", template.display()),
        message,
    };
    let text = std::fs::read_to_string(template).map_err(|e| failed("read", e.to_string()))?;
    let mut changed = serde_json::from_str(&text).map_err(|e| failed("parse", e.to_string()))?;
    if !change(&mut changed, seeded) {
        let place = seeded.change.0.to_owned();
        return Err(failed("find a place in", place));
    }
    let file = out.join("template.json");
    std::fs::create_dir_all(out)
        .and_then(|()| std::fs::write(&file, changed.to_string()))
        .map_err(|error| failed("change", error.to_string()))?;
    let created = cloudformation.create(&file, &parameters(), out).await?;
    let stack = Stack::start(Options {
        engine: false,
        ..options(&created, out)
    })
    .await?;
    let told = match World::functions(&stack, &created).await {
        Ok(world) => acts::by_a_person(&world).await,
        Err(error) => Err(crate::told(&error)),
    };
    let told = told.err().into_iter().chain(stack.roles().refused());
    let told = told.collect();
    stack.stop().await;
    Ok(told)
}

/// Puts the fault in its place; `false` when there is no such place.
fn change(template: &mut Value, seeded: &Seeded) -> bool {
    let (place, value) = seeded.change;
    let Some((parent, name)) = place.rsplit_once('/') else {
        return false;
    };
    match (template.pointer_mut(parent), value()) {
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
