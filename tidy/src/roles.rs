//! Least privilege: what each role in template.yaml may do, written down a second time.

use crate::stack::{differ, items, text};
use crate::tree::{Report, Tree};
use yaml_serde::Value;

/// What each role may do: the actions of a statement, and on what. Nothing else in the template may grant anything.
const ROLES: &[(&str, &[&str])] = &[
    (
        "AcquireRole",
        &[
            "dynamodb:ConditionCheckItem, dynamodb:GetItem, dynamodb:Query, dynamodb:UpdateItem on LeaseTable.Arn",
            "logs:CreateLogStream, logs:PutLogEvents on AcquireLogs.Arn",
        ],
    ),
    (
        "ExtendRole",
        &[
            "dynamodb:UpdateItem on LeaseTable.Arn",
            "logs:CreateLogStream, logs:PutLogEvents on ExtendLogs.Arn",
        ],
    ),
    (
        "ReleaseRole",
        &[
            "dynamodb:UpdateItem on LeaseTable.Arn",
            "logs:CreateLogStream, logs:PutLogEvents on ReleaseLogs.Arn",
        ],
    ),
    (
        "SweepRole",
        &[
            "dynamodb:Scan on ${LeaseTable.Arn}/index/held",
            "dynamodb:GetItem, dynamodb:UpdateItem on LeaseTable.Arn",
            "logs:CreateLogStream, logs:PutLogEvents on SweepLogs.Arn",
        ],
    ),
    (
        "InspectRole",
        &[
            "dynamodb:GetItem, dynamodb:Query on LeaseTable.Arn",
            "dynamodb:Query, dynamodb:Scan on ${LeaseTable.Arn}/index/held",
            "logs:CreateLogStream, logs:PutLogEvents on InspectLogs.Arn",
        ],
    ),
    (
        "OperateRole",
        &[
            "dynamodb:Query, dynamodb:UpdateItem on LeaseTable.Arn",
            "logs:CreateLogStream, logs:PutLogEvents on OperateLogs.Arn",
        ],
    ),
    // No state machine may invoke OperateFunction, which ends other people's leases.
    (
        "CriticalSectionStateMachine",
        &[
            "lambda:InvokeFunction on AcquireFunction.Arn, ExtendFunction.Arn, ReleaseFunction.Arn, StepFunctionArn",
        ],
    ),
    (
        "QueuedSectionStateMachine",
        &[
            "lambda:InvokeFunction on AcquireFunction.Arn, ExtendFunction.Arn, ReleaseFunction.Arn, StepFunctionArn",
        ],
    ),
    (
        "ObserveStateMachine",
        &[
            "lambda:InvokeFunction on AcquireFunction.Arn, ExtendFunction.Arn, ReleaseFunction.Arn, StepFunctionArn",
        ],
    ),
    (
        "SemaphoreStateMachine",
        &[
            "lambda:InvokeFunction on AcquireFunction.Arn, ExtendFunction.Arn, ReleaseFunction.Arn, StepFunctionArn",
        ],
    ),
    (
        "TransferStateMachine",
        &[
            "lambda:InvokeFunction on AcquireFunction.Arn, ReleaseFunction.Arn",
            "dynamodb:GetItem, dynamodb:PutItem, dynamodb:UpdateItem \
             on arn:${AWS::Partition}:dynamodb:${AWS::Region}:${AWS::AccountId}:table/${AccountsTableName}",
            "dynamodb:ConditionCheckItem on LeaseTable.Arn",
        ],
    ),
    (
        "WithLeaseStateMachine",
        &[
            "lambda:InvokeFunction on AcquireFunction.Arn, ExtendFunction.Arn, ReleaseFunction.Arn",
            "states:StartExecution on arn:${AWS::Partition}:states:${AWS::Region}:${AWS::AccountId}:stateMachine:${WrappedStateMachine}",
            // The only asterisk: an execution has no name before it runs.
            "states:DescribeExecution, states:GetExecutionHistory, states:StopExecution \
             on arn:${AWS::Partition}:states:${AWS::Region}:${AWS::AccountId}:execution:${WrappedStateMachine}:*",
            "events:DescribeRule, events:PutRule, events:PutTargets \
             on arn:${AWS::Partition}:events:${AWS::Region}:${AWS::AccountId}:rule/StepFunctionsGetEventsForStepFunctionsExecutionRule",
        ],
    ),
];

pub fn roles(tree: &Tree, report: &mut Report) {
    let resources = tree.resources(report);
    for (id, resource) in &resources {
        let properties = &resource["Properties"];
        if !properties["ManagedPolicyArns"].is_null() {
            report.error(format!(
                "template.yaml: {id}: a managed policy allows more than is written here"
            ));
        }
        if text(&resource["Type"]) == "AWS::Serverless::Function" && properties["Role"].is_null() {
            report.error(format!(
                "template.yaml: {id}: without a Role, SAM attaches a managed policy"
            ));
        }
        let granted = items(&properties["Policies"])
            .iter()
            .flat_map(statements)
            .collect::<Vec<_>>();
        let written = ROLES
            .iter()
            .find(|(role, _)| role == id)
            .map_or(&[][..], |(_, statements)| *statements);
        let written: Vec<String> = written
            .iter()
            .map(|statement| (*statement).to_owned())
            .collect();
        differ(report, &granted, &written, |statement| {
            format!("template.yaml: {id} may {statement}, which is not written down")
        });
        differ(report, &written, &granted, |statement| {
            format!("template.yaml: {id} may not {statement}, which is written down")
        });
    }
    for (role, _) in ROLES
        .iter()
        .filter(|(role, _)| !resources.iter().any(|(id, _)| id == role))
    {
        report.error(format!(
            "template.yaml: {role} is written down and does not exist"
        ));
    }
}

/// The statements of a policy as text. What is no inline statement (a managed policy, a policy template) comes out as itself.
fn statements(policy: &Value) -> Vec<String> {
    let document = if policy["PolicyDocument"].is_null() {
        policy
    } else {
        &policy["PolicyDocument"]
    };
    if document["Statement"].is_null() {
        return vec![format!("{document:?}")];
    }
    let list = |value: &Value| items(value).iter().map(text).collect::<Vec<_>>().join(", ");
    items(&document["Statement"])
        .iter()
        .map(|statement| {
            format!(
                "{} on {}",
                list(&statement["Action"]),
                list(&statement["Resource"])
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::errors;

    const TEMPLATE: &str = include_str!("../../template.yaml");

    /// The real template holds; each of these changes to it does not.
    #[test]
    fn a_role_is_held_to_the_written_list() {
        assert_eq!(errors(roles, &[("template.yaml", TEMPLATE)]), [""; 0]);
        for (from, to) in [
            ("Action: dynamodb:UpdateItem", "Action: dynamodb:*"),
            (
                "Action: dynamodb:Scan\n                Resource: !Sub ${LeaseTable.Arn}/index/held",
                "Action: dynamodb:Scan\n                Resource: '*'",
            ),
            ("      Role: !GetAtt AcquireRole.Arn\n", ""),
            (
                "              Service: lambda.amazonaws.com",
                "              Service: lambda.amazonaws.com\n      ManagedPolicyArns: [x]",
            ),
            (
                "      Role: !GetAtt AcquireRole.Arn\n",
                "      Role: !GetAtt AcquireRole.Arn\n      Policies: [DynamoDBCrudPolicy: {TableName: x}]\n",
            ),
            ("  SweepRole:", "  SweeperRole:"),
        ] {
            let changed = TEMPLATE.replace(from, to);
            assert_ne!(changed, TEMPLATE, "{from} is not in the template");
            assert_ne!(
                errors(roles, &[("template.yaml", &changed)]),
                [""; 0],
                "{to}"
            );
        }
    }

    #[test]
    fn no_machine_may_invoke_the_operators_function() {
        let machines: Vec<&str> = ROLES
            .iter()
            .map(|(role, _)| *role)
            .filter(|role| role.ends_with("StateMachine"))
            .collect();
        assert_eq!(machines.len(), 6);
        for machine in machines {
            let (before, after) = TEMPLATE.split_once(&format!("\n  {machine}:\n")).unwrap();
            let line = "                - !GetAtt AcquireFunction.Arn\n";
            let more = format!("{line}                - !GetAtt OperateFunction.Arn\n");
            let changed = format!("{before}\n  {machine}:\n{}", after.replacen(line, &more, 1));
            let found = errors(roles, &[("template.yaml", &changed)]);
            assert!(
                found
                    .iter()
                    .any(|error| error.contains(machine) && error.contains("OperateFunction.Arn")),
                "{machine}: {found:?}"
            );
        }
    }
}
