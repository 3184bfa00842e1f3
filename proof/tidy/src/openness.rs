//! What is open to whom: trust, asterisks, ways in from outside, and what keeps the data. Beside the list of what each
//! role may do, which `roles` has.

use crate::stack::{conditional, items, text};
use crate::tree::{Report, Tree};
use yaml_serde::Value;

const STATES: &str = "arn:${AWS::Partition}:states:${AWS::Region}:${AWS::AccountId}";

/// Resources that end in an asterisk, after the prefix of Step Functions' ARNs, and why they have to.
const ASTERISKS: &[(&str, &str)] = &[
    (
        ":stateMachine:${AWS::StackName}-*",
        "the machines name the functions, and cannot be named by their roles as well",
    ),
    (
        ":execution:${AWS::StackName}-*:*",
        "an execution has no name before it runs",
    ),
    (
        ":execution:${LeasingStateMachine}:*",
        "an execution has no name before it runs",
    ),
    (
        ":execution:${WrappedStateMachine}:*",
        "an execution has no name before it runs",
    ),
];

/// Actions that IAM knows on every resource only: with these, and nothing else beside them, the resource is an asterisk.
const ON_EVERYTHING: &[&str] = &["xray:PutTelemetryRecords", "xray:PutTraceSegments"];

/// Parameters that may end in an asterisk, by their pattern never before the first letter.
const OPEN_PARAMETERS: &[&str] = &["LeasingStateMachine", "WrappedStateMachine"];
const SOME_LETTERS: &str = "[a-zA-Z0-9_-]+\\*?";

/// What may invoke a function: nothing that reaches here from outside of the account.
const EVENTS: &[&str] = &["DynamoDB", "SQS", "Schedule"];

/// Of each kind of resource what it says, and where.
const KEPT: &[(&str, &[(&str, &str)])] = &[
    (
        "AWS::DynamoDB::Table",
        &[
            ("DeletionPolicy", "Retain"),
            ("UpdateReplacePolicy", "Retain"),
            ("Properties.SSESpecification.SSEEnabled", "true"),
            (
                "Properties.SSESpecification.KMSMasterKeyId",
                "if HasKmsKey: KmsKeyArn",
            ),
            (
                "Properties.PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled",
                "true",
            ),
            ("Properties.DeletionProtectionEnabled", "true"),
        ],
    ),
    (
        "AWS::SQS::Queue",
        &[
            ("Properties.SqsManagedSseEnabled", "unless HasKmsKey: true"),
            ("Properties.KmsMasterKeyId", "if HasKmsKey: KmsKeyArn"),
        ],
    ),
    (
        "AWS::Logs::LogGroup",
        &[
            ("Properties.RetentionInDays", "LogRetentionDays"),
            ("Properties.KmsKeyId", "if HasKmsKey: KmsKeyArn"),
        ],
    ),
];

pub fn asterisks(tree: &Tree, report: &mut Report) {
    let mut all = 0;
    for (id, resource) in tree.resources(report) {
        let mut statements = Vec::new();
        below(&resource, "Statement", &mut statements);
        all += statements.len();
        for statement in statements.iter().flat_map(|list| items(list)) {
            for problem in problems_of(conditional(statement).1) {
                report.error(format!("template.yaml: {id}: {problem}"));
            }
        }
    }
    if all == 0 {
        report.error("template.yaml: no statement to look at");
    }
    let template = tree.get("template.yaml").unwrap_or_default();
    let template: Value = yaml_serde::from_str(template).unwrap_or_default();
    for parameter in OPEN_PARAMETERS {
        let pattern = text(&template["Parameters"][*parameter]["AllowedPattern"]);
        if pattern != SOME_LETTERS {
            report.error(format!(
                "template.yaml: {parameter}: {pattern:?} may allow an asterisk alone"
            ));
        }
    }
}

fn problems_of(statement: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    if text(&statement["Effect"]) != "Allow" {
        problems
            .push("a statement that does not allow is easily read for one that does".to_owned());
    }
    for not in ["NotAction", "NotResource", "NotPrincipal"] {
        if !statement[not].is_null() {
            problems.push(format!("{not} allows everything else"));
        }
    }
    let mut actions = items(&statement["Action"]).iter().map(text);
    let everywhere = actions.all(|action| ON_EVERYTHING.contains(&action.as_str()));
    for action in items(&statement["Action"]).iter().map(text) {
        if action.contains(['*', '?']) {
            problems.push(format!("{action} is more than one action"));
        }
    }
    for resource in items(&statement["Resource"]).iter().map(text) {
        let reasoned = |(own, _): &&(&str, &str)| resource.strip_prefix(STATES) == Some(own);
        if resource == "*" && everywhere {
            continue;
        }
        if resource.contains(['*', '?']) && ASTERISKS.iter().find(reasoned).is_none() {
            problems.push(format!(
                "{resource} has an asterisk without a written reason"
            ));
        }
    }
    let principal = &statement["Principal"];
    if !principal.is_null() {
        let service = text(&principal["Service"]);
        let alone = principal.as_mapping().is_some_and(|who| who.len() == 1);
        if !alone || !service.ends_with(".amazonaws.com") {
            problems.push(format!("{principal:?} is not one service"));
        }
    }
    problems
}

/// Who takes a role on: the functions' roles Lambda, and nobody else.
pub fn trust(tree: &Tree, report: &mut Report) {
    for (id, role) in of_type(tree, report, "AWS::IAM::Role") {
        let trusted = items(&role["Properties"]["AssumeRolePolicyDocument"]["Statement"]);
        let as_written = trusted.iter().map(|statement| {
            let who = text(&statement["Principal"]["Service"]);
            format!("{who}: {}", text(&statement["Action"]))
        });
        if as_written.collect::<Vec<_>>() != ["lambda.amazonaws.com: sts:AssumeRole"] {
            report.error(format!(
                "template.yaml: {id}: somebody else than Lambda may take this role on"
            ));
        }
    }
}

/// Whether anything can be reached from outside of the account.
pub fn ways_in(tree: &Tree, report: &mut Report) {
    for (id, resource) in tree.resources(report) {
        let (kind, properties) = (text(&resource["Type"]), &resource["Properties"]);
        if kind == "AWS::Lambda::Url" || !properties["FunctionUrlConfig"].is_null() {
            report.error(format!("template.yaml: {id}: a function URL"));
        }
        let events = properties["Events"].as_mapping().into_iter().flatten();
        for (name, event) in events {
            let event = text(&event["Type"]);
            if !EVENTS.contains(&event.as_str()) {
                let name = text(name);
                report.error(format!(
                    "template.yaml: {id}: {name} is a way in of the kind {event:?}"
                ));
            }
        }
    }
}

/// What keeps the data when somebody makes a mistake, and from whoever finds a disk.
pub fn keeping(tree: &Tree, report: &mut Report) {
    for (kind, wishes) in KEPT {
        for (id, resource) in of_type(tree, report, kind) {
            for (path, wish) in *wishes {
                let found = path.split('.').fold(&resource, |value, name| &value[name]);
                let said = said(found);
                if said != *wish {
                    report.error(format!(
                        "template.yaml: {id}: {path} is {said:?}, not {wish}"
                    ));
                }
            }
        }
    }
}

/// A value as text, with the condition under which it stands there.
fn said(value: &Value) -> String {
    let plain = |value: &Value| match value.as_bool() {
        Some(yes) => yes.to_string(),
        None => text(value),
    };
    let Value::Tagged(tagged) = value else {
        return plain(value);
    };
    match items(&tagged.value) {
        [condition, then, nothing] if tagged.tag == "If" && text(nothing) == "AWS::NoValue" => {
            format!("if {}: {}", text(condition), plain(then))
        }
        [condition, nothing, then] if tagged.tag == "If" && text(nothing) == "AWS::NoValue" => {
            format!("unless {}: {}", text(condition), plain(then))
        }
        _ => plain(value),
    }
}

fn of_type(tree: &Tree, report: &mut Report, kind: &str) -> Vec<(String, Value)> {
    let mut resources = tree.resources(report);
    resources.retain(|(_, resource)| text(&resource["Type"]) == kind);
    if resources.is_empty() {
        report.error(format!("template.yaml: no {kind} to look at"));
    }
    resources
}

/// Everything that stands under this name, however deep.
fn below<'a>(value: &'a Value, wanted: &str, found: &mut Vec<&'a Value>) {
    match value {
        Value::Sequence(items) => items.iter().for_each(|item| below(item, wanted, found)),
        Value::Mapping(fields) => {
            for (name, value) in fields {
                if name.as_str() == Some(wanted) {
                    found.push(value);
                }
                below(value, wanted, found);
            }
        }
        Value::Tagged(tagged) => below(&tagged.value, wanted, found),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::errors;

    const TEMPLATE: &str = include_str!("../../../template.yaml");

    /// The real template holds; each of these changes to it does not.
    fn bites(rule: fn(&Tree, &mut Report), faults: &[(&str, &str)]) {
        assert_eq!(errors(rule, &[("template.yaml", TEMPLATE)]), [""; 0]);
        for (from, to) in faults {
            let changed = TEMPLATE.replacen(from, to, 1);
            assert_ne!(changed, TEMPLATE, "{from} is not in the template");
            let found = errors(rule, &[("template.yaml", &changed)]);
            assert_ne!(found, [""; 0], "{to}");
        }
    }

    #[test]
    fn an_asterisk_needs_a_reason() {
        bites(
            asterisks,
            &[
                ("Action: dynamodb:UpdateItem", "Action: dynamodb:*"),
                ("Action: dynamodb:UpdateItem", "Action: dynamodb:Update?tem"),
                ("Action: dynamodb:UpdateItem", "NotAction: dynamodb:Scan"),
                ("Resource: !GetAtt LeaseTable.Arn", "Resource: '*'"),
                (
                    "Action: [xray:PutTelemetryRecords, xray:PutTraceSegments]",
                    "Action: [xray:PutTraceSegments, dynamodb:Scan]",
                ),
                (
                    "            Resource: \"*\"\n",
                    "            Resource: arn:*\n",
                ),
                (
                    "Resource: !GetAtt LeaseTable.Arn",
                    "Resource: !Sub ${LeaseTable.Arn}/*",
                ),
                ("Resource: !GetAtt LeaseTable.Arn", "NotResource: x"),
                ("Resource: !Ref KmsKeyArn", "Resource: '*'"),
                ("Action: kms:Decrypt", "Action: kms:*"),
                ("stateMachine:${AWS::StackName}-*", "stateMachine:*"),
                ("stateMachine:${AWS::StackName}-*", "execution:*"),
                ("- Effect: Allow", "- Effect: Deny"),
                (
                    "              Service: lambda.amazonaws.com",
                    "              AWS: '*'",
                ),
                (
                    "              Service: lambda.amazonaws.com",
                    "              Service: lambda.amazonaws.com\n              AWS: x",
                ),
                (
                    "AllowedPattern: \"[a-zA-Z0-9_-]+\\\\*?\"",
                    "AllowedPattern: \"[a-zA-Z0-9_-]*\\\\*?\"",
                ),
                (
                    "      BillingMode: PAY_PER_REQUEST\n",
                    "      BillingMode: PAY_PER_REQUEST\n      ResourcePolicy: {PolicyDocument: {Statement: \
                     [{Effect: Allow, Principal: '*', Action: dynamodb:Scan}]}}\n",
                ),
            ],
        );
    }

    #[test]
    fn lambda_alone_takes_a_role_on() {
        bites(
            trust,
            &[
                (
                    "Service: lambda.amazonaws.com",
                    "Service: states.amazonaws.com",
                ),
                ("Service: lambda.amazonaws.com", "AWS: '123456789012'"),
                (
                    "Action: sts:AssumeRole",
                    "Action: [sts:AssumeRole, sts:TagSession]",
                ),
            ],
        );
    }

    #[test]
    fn nothing_is_reached_from_outside() {
        bites(
            ways_in,
            &[
                (
                    "      CodeUri: functions/acquire\n",
                    "      CodeUri: functions/acquire\n      FunctionUrlConfig: {AuthType: NONE}\n",
                ),
                ("          Type: Schedule\n", "          Type: HttpApi\n"),
                (
                    "    Type: AWS::Lambda::Permission\n",
                    "    Type: AWS::Lambda::Url\n",
                ),
            ],
        );
    }

    #[test]
    fn data_is_kept() {
        bites(
            keeping,
            &[
                ("    DeletionPolicy: Retain\n", ""),
                ("        SSEEnabled: true\n", "        SSEEnabled: false\n"),
                (
                    "PointInTimeRecoveryEnabled: true",
                    "PointInTimeRecoveryEnabled: false",
                ),
                ("      DeletionProtectionEnabled: true\n", ""),
                (
                    "      SqsManagedSseEnabled: !If [HasKmsKey, !Ref AWS::NoValue, true]\n",
                    "      SqsManagedSseEnabled: !If [HasKmsKey, !Ref AWS::NoValue, false]\n",
                ),
                (
                    "      KmsMasterKeyId: !If [HasKmsKey, !Ref KmsKeyArn, !Ref AWS::NoValue]\n",
                    "",
                ),
                (
                    "      KmsKeyId: !If [HasKmsKey, !Ref KmsKeyArn, !Ref AWS::NoValue]\n",
                    "",
                ),
                (
                    "        KMSMasterKeyId: !If [HasKmsKey,",
                    "        KMSMasterKeyId: !If [HasAlarmTopic,",
                ),
                ("      RetentionInDays: !Ref LogRetentionDays\n", ""),
            ],
        );
    }
}
