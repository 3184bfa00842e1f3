//! Least privilege: what each role in template.yaml may do, and who may use a resource, written down a second time.

use crate::stack::{conditional, differ, items, text};
use crate::tree::{Report, Tree};
use yaml_serde::Value;

/// Who waits for a callback: the machines of the stack, by the beginning of their names, and the user's own.
macro_rules! machines {
    ($actions:literal, $kind:literal, $rest:literal) => {
        concat!(
            $actions,
            " on arn:${AWS::Partition}:states:${AWS::Region}:${AWS::AccountId}:",
            $kind,
            ":${AWS::StackName}-*",
            $rest,
            ", arn:${AWS::Partition}:states:${AWS::Region}:${AWS::AccountId}:",
            $kind,
            ":${LeasingStateMachine}",
            $rest
        )
    };
}

/// Who uses the table while it has a key of the user's.
macro_rules! key {
    ($actions:literal, $service:literal) => {
        concat!(
            "if HasKmsKey: through ",
            $service,
            ".${AWS::Region}.${AWS::URLSuffix}: ",
            $actions,
            " on KmsKeyArn"
        )
    };
    () => {
        key!("kms:Decrypt", "dynamodb")
    };
}

/// Only for those who ask for traces; IAM knows these two on every resource only.
macro_rules! traces {
    () => {
        "if TracesAreSent: xray:PutTelemetryRecords, xray:PutTraceSegments on *"
    };
}

/// What each role may do: the actions of a statement, and on what. Of what says by itself who may use it: who, from
/// where, and that. Nothing else in the template may grant anything.
pub const ROLES: &[(&str, &[&str])] = &[
    (
        "AcquireRole",
        &[
            "dynamodb:ConditionCheckItem, dynamodb:GetItem, dynamodb:Query, dynamodb:UpdateItem on LeaseTable.Arn",
            machines!("states:SendTaskSuccess", "stateMachine", ""),
            "logs:CreateLogStream, logs:PutLogEvents on AcquireLogs.Arn",
            key!(),
            traces!(),
        ],
    ),
    (
        "ExtendRole",
        &[
            "dynamodb:UpdateItem on LeaseTable.Arn",
            "logs:CreateLogStream, logs:PutLogEvents on ExtendLogs.Arn",
            key!(),
            traces!(),
        ],
    ),
    (
        "ReleaseRole",
        &[
            "dynamodb:GetItem, dynamodb:UpdateItem on LeaseTable.Arn",
            machines!("states:SendTaskSuccess", "stateMachine", ""),
            "logs:CreateLogStream, logs:PutLogEvents on ReleaseLogs.Arn",
            key!(),
            traces!(),
        ],
    ),
    (
        "SweepRole",
        &[
            "dynamodb:Scan on ${LeaseTable.Arn}/index/held",
            "dynamodb:DeleteItem, dynamodb:GetItem, dynamodb:UpdateItem on LeaseTable.Arn",
            machines!(
                "states:SendTaskFailure, states:SendTaskSuccess",
                "stateMachine",
                ""
            ),
            "logs:CreateLogStream, logs:PutLogEvents on SweepLogs.Arn",
            key!(),
            traces!(),
        ],
    ),
    (
        "GrantRole",
        &[
            "dynamodb:GetItem, dynamodb:UpdateItem on LeaseTable.Arn",
            machines!("states:SendTaskSuccess", "stateMachine", ""),
            "dynamodb:DescribeStream, dynamodb:GetRecords, dynamodb:GetShardIterator, dynamodb:ListStreams on LeaseTable.StreamArn",
            "sqs:SendMessage on GrantDeadLetterQueue.Arn",
            "logs:CreateLogStream, logs:PutLogEvents on GrantLogs.Arn",
            key!(),
            key!("kms:Decrypt, kms:GenerateDataKey", "sqs"),
            traces!(),
        ],
    ),
    (
        "ReapRole",
        &[
            "dynamodb:Query on ${LeaseTable.Arn}/index/held",
            "dynamodb:GetItem, dynamodb:UpdateItem on LeaseTable.Arn",
            machines!("states:SendTaskSuccess", "stateMachine", ""),
            machines!(
                "states:DescribeExecution, states:GetExecutionHistory",
                "execution",
                ":*"
            ),
            "sqs:DeleteMessage, sqs:GetQueueAttributes, sqs:ReceiveMessage on ReapLaterQueue.Arn",
            "logs:CreateLogStream, logs:PutLogEvents on ReapLogs.Arn",
            key!(),
            key!("kms:Decrypt", "sqs"),
            traces!(),
        ],
    ),
    (
        "ReapPermission",
        &["events.amazonaws.com from ExecutionEndRule.Arn: lambda:InvokeFunction on ReapFunction"],
    ),
    (
        "ReapQueuesPolicy",
        &[
            "events.amazonaws.com from ExecutionEndRule.Arn: sqs:SendMessage on ReapLaterQueue.Arn, ReapDeadLetterQueue.Arn",
        ],
    ),
    (
        "InspectRole",
        &[
            "dynamodb:GetItem, dynamodb:Query on LeaseTable.Arn",
            "dynamodb:Query, dynamodb:Scan on ${LeaseTable.Arn}/index/held",
            "logs:CreateLogStream, logs:PutLogEvents on InspectLogs.Arn",
            key!(),
            traces!(),
        ],
    ),
    (
        "OperateRole",
        &[
            "dynamodb:Query, dynamodb:UpdateItem on LeaseTable.Arn",
            "logs:CreateLogStream, logs:PutLogEvents on OperateLogs.Arn",
            key!(),
            traces!(),
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
            key!(),
        ],
    ),
    (
        "WithLeaseStateMachine",
        &[
            "lambda:InvokeFunction on AcquireFunction.Arn, ExtendFunction.Arn, ReleaseFunction.Arn",
            "states:StartExecution on arn:${AWS::Partition}:states:${AWS::Region}:${AWS::AccountId}:stateMachine:${WrappedStateMachine}",
            // An execution has no name before it runs.
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
        let granted = granted(resource);
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

/// Everything that a resource grants, as text.
pub fn granted(resource: &Value) -> Vec<String> {
    let properties = &resource["Properties"];
    let mut granted = items(&properties["Policies"])
        .iter()
        .flat_map(statements)
        .collect::<Vec<_>>();
    if !properties["PolicyDocument"].is_null() {
        let whose = items(&properties["Roles"]).iter().map(text);
        let whose = whose.collect::<Vec<_>>().join(", ");
        let said = statements(properties).into_iter();
        granted.extend(said.map(|statement| match whose.as_str() {
            "" => statement,
            roles => format!("{roles}: {statement}"),
        }));
    }
    if text(&resource["Type"]) == "AWS::Lambda::Permission" {
        granted.push(format!(
            "{} from {}: {} on {}",
            text(&properties["Principal"]),
            text(&properties["SourceArn"]),
            text(&properties["Action"]),
            text(&properties["FunctionName"]),
        ));
    }
    granted
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
            let (condition, statement) = conditional(statement);
            let condition = condition.map(|name| format!("if {name}: "));
            format!(
                "{}{}{} on {}",
                condition.unwrap_or_default(),
                who(statement),
                list(&statement["Action"]),
                list(&statement["Resource"])
            )
        })
        .collect()
}

/// Who may, where a statement says so: it then has to say from where, too, or somebody else's rule could. Or through which
/// service only.
fn who(statement: &Value) -> String {
    let (principal, condition) = (&statement["Principal"], &statement["Condition"]);
    if principal.is_null() && condition.is_null() {
        return String::new();
    }
    let service = &condition["StringEquals"]["kms:ViaService"];
    if principal.is_null() && !service.is_null() {
        return format!("through {}: ", text(service));
    }
    let source = &condition["ArnEquals"]["aws:SourceArn"];
    format!("{} from {}: ", text(&principal["Service"]), text(source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::errors;

    const TEMPLATE: &str = include_str!("../../../template.yaml");

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
            (
                "                - TracesAreSent\n",
                "                - IsMonitored\n",
            ),
            (
                "                - HasKmsKey\n",
                "                - IsMonitored\n",
            ),
            (
                "kms:ViaService: !Sub dynamodb.${AWS::Region}.${AWS::URLSuffix}",
                "kms:ViaService: !Sub s3.${AWS::Region}.${AWS::URLSuffix}",
            ),
            ("Action: kms:Decrypt", "Action: [kms:Decrypt, kms:Encrypt]"),
            ("      SourceArn: !GetAtt ExecutionEndRule.Arn\n", ""),
            (
                "aws:SourceArn: !GetAtt ExecutionEndRule.Arn",
                "aws:SourceArn: '*'",
            ),
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
