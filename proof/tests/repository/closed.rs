//! What no review may let through: a way in from outside the account, a right to operate, data that goes with the stack, logs that
//! stay for ever, a function that leaves no trace.

use crate::exposure::list;
use crate::stack::{SAMPLES, TEMPLATE, TRANSLATED, text};
use crate::{Files, Rule, SeededEdit};
use serde_json::{Value, json};

pub const RULES: &[(&str, Rule, &[SeededEdit])] = &[
    (
        "nothing is reached from outside the account, no role operates, and only Lambda and Step Functions have roles",
        closed,
        &[
            (
                TEMPLATE,
                "AWS::Lambda::EventInvokeConfig",
                "AWS::Lambda::Url",
            ),
            (TEMPLATE, "lambda.amazonaws.com", "ec2.amazonaws.com"),
            (SAMPLES, "\"Service\"", "\"AWS\""),
            (TEMPLATE, "\"aws:SourceArn\"", "\"aws:SourceArns\""),
            (MINIMAL, "\"SourceArn\"", "\"SourceAccount\""),
            (
                TEMPLATE,
                "\"lambda:InvokeFunction\",\n       \"Resource\": [\n        {\n         \"Fn::GetAtt\": [\n          \"AcquireFunction\"",
                "\"lambda:InvokeFunction\",\n       \"Resource\": [\n        {\n         \"Fn::GetAtt\": [\n          \"OperateFunction\"",
            ),
        ],
    ),
    (
        "the table can be recovered and outlives the stack, what is stored has the key that is given, and logs end",
        kept,
        &[
            (TEMPLATE, "\"RetainExceptOnCreate\"", "\"Delete\""),
            (
                MINIMAL,
                "\"UpdateReplacePolicy\": \"Retain\"",
                "\"UpdateReplacePolicy\": \"Delete\"",
            ),
            (
                MINIMAL,
                "\"PointInTimeRecoveryEnabled\": true",
                "\"PointInTimeRecoveryEnabled\": false",
            ),
            (
                TEMPLATE,
                "\"IsProtected\",\n      true,",
                "\"IsProtected\",\n      false,",
            ),
            (MINIMAL, "\"Default\": \"true\"", "\"Default\": \"false\""),
            (TEMPLATE, "\"SSEEnabled\": true", "\"SSEEnabled\": false"),
            (TEMPLATE, "\"SqsManagedSseEnabled\"", "\"SqsManaged\""),
            (TEMPLATE, "\"RetentionInDays\"", "\"Retention\""),
            (TEMPLATE, "\"LogGroup\":", "\"LogGroups\":"),
        ],
    ),
    (
        "with Tracing=Active every function is traced, and may send its traces",
        traced,
        &[
            (TEMPLATE, "\"TracingConfig\"", "\"TracingConfiguration\""),
            (TEMPLATE, "\"TracesAreSent\",", "\"IsMonitored\","),
            (TEMPLATE, "\"xray:PutTraceSegments\"", "\"xray:PutTraces\""),
        ],
    ),
];

const MINIMAL: &str = "local/minimal.json";

/// The types of resources that open nothing by themselves. Whoever needs another one says here, or in [`closed`], why it is closed.
const CLOSED: [&str; 16] = [
    "AWS::CloudFormation::Stack",
    "AWS::CloudWatch::Alarm",
    "AWS::CloudWatch::Dashboard",
    "AWS::DynamoDB::Table",
    "AWS::Events::Rule",
    "AWS::IAM::ManagedPolicy",
    "AWS::IAM::Role",
    "AWS::Lambda::EventInvokeConfig",
    "AWS::Lambda::EventSourceMapping",
    "AWS::Lambda::Function",
    "AWS::Logs::LogGroup",
    "AWS::Logs::MetricFilter",
    "AWS::Logs::QueryDefinition",
    "AWS::SQS::Queue",
    "AWS::SQS::QueuePolicy",
    "AWS::StepFunctions::StateMachine",
];

/// Every template, translated.
fn templates(files: &Files) -> impl Iterator<Item = (&'static str, Value)> {
    let read = |file| serde_json::from_str(files.text(file)).unwrap_or_default();
    TRANSLATED
        .into_iter()
        .chain([MINIMAL])
        .map(move |file| (file, read(file)))
}

fn resources(template: &Value) -> impl Iterator<Item = (&String, &Value)> {
    template["Resources"].as_object().into_iter().flatten()
}

fn closed(files: &Files) -> Vec<String> {
    let mut wrong = Vec::new();
    for (file, template) in templates(files) {
        for (id, resource) in resources(&template) {
            let (kind, properties) = (text(&resource["Type"]), &resource["Properties"]);
            let mut found = Vec::new();
            statements(properties, &mut found);
            let is_open = match kind.as_str() {
                "AWS::Lambda::Permission" => {
                    properties["Principal"] != "events.amazonaws.com"
                        || !is_own(&template, &properties["SourceArn"])
                }
                kind => !CLOSED.contains(&kind),
            };
            if is_open || found.iter().any(|one| !is_closed(&template, one)) {
                wrong.push(format!("{file}: {id} opens the stack"));
            }
            // A policy of AWS's own grants what nobody reviews here.
            if text(&properties["ManagedPolicyArns"]).contains("arn:") {
                wrong.push(format!("{file}: {id} has a policy from elsewhere"));
            }
        }
    }
    wrong
}

/// Every statement of every policy below.
fn statements<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| statements(item, found)),
        Value::Object(fields) => {
            found.extend(fields.get("Statement").into_iter().flat_map(list));
            fields.values().for_each(|value| statements(value, found));
        }
        _ => {}
    }
}

/// A role's statement lets nobody operate. A resource's lets in a service alone: what runs as a role, or what a resource of this stack
/// sends.
fn is_closed(template: &Value, statement: &Value) -> bool {
    let principal = &statement["Principal"];
    if principal.is_null() {
        return statement["NotAction"].is_null()
            && statement["NotResource"].is_null()
            && !(statement.to_string().contains("lambda:Invoke")
                && statement["Resource"]
                    .to_string()
                    .contains("OperateFunction"));
    }
    let services = list(&principal["Service"]);
    let is_service = principal.as_object().is_some_and(|by| by.len() == 1) && !services.is_empty();
    if list(&statement["Action"])
        .iter()
        .all(|action| action == "sts:AssumeRole")
    {
        let trusted = ["lambda.amazonaws.com", "states.amazonaws.com"];
        return is_service
            && services
                .iter()
                .all(|service| trusted.iter().any(|one| service == one));
    }
    let sources = list(&statement["Condition"]["ArnEquals"]["aws:SourceArn"]);
    is_service && !sources.is_empty() && sources.iter().all(|source| is_own(template, source))
}

/// Whether this is the ARN of a resource of the same template.
fn is_own(template: &Value, arn: &Value) -> bool {
    let arn = if arn["Fn::If"].is_null() {
        arn
    } else {
        &arn["Fn::If"][1]
    };
    let id = arn["Fn::GetAtt"][0].as_str();
    id.is_some_and(|id| !template["Resources"][id].is_null())
}

fn kept(files: &Files) -> Vec<String> {
    let mut wrong = Vec::new();
    for (file, template) in templates(files) {
        for (id, resource) in resources(&template) {
            let properties = &resource["Properties"];
            let is_kept = match text(&resource["Type"]).as_str() {
                "AWS::DynamoDB::Table" => {
                    let protected = json!({"Fn::Equals": [{"Ref": "DeletionProtection"}, "true"]});
                    // Without a key that is given, DynamoDB takes one of its own.
                    let key = &properties["SSESpecification"]["Fn::If"];
                    resource["DeletionPolicy"] == "RetainExceptOnCreate"
                        && resource["UpdateReplacePolicy"] == "Retain"
                        && properties["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"]
                            == true
                        && properties["DeletionProtectionEnabled"]
                            == json!({"Fn::If": ["IsProtected", true, false]})
                        && template["Conditions"]["IsProtected"] == protected
                        && template["Parameters"]["DeletionProtection"]["Default"] == "true"
                        && (!has_key(&template)
                            || key[0] == "HasKmsKey"
                                && key[1]["SSEEnabled"] == true
                                && text(&key[1]["KMSMasterKeyId"]) == "KmsKeyArn")
                }
                "AWS::SQS::Queue" => {
                    properties["SqsManagedSseEnabled"]["Fn::If"][2] == true
                        && is_encrypted(&properties["KmsMasterKeyId"])
                }
                "AWS::Logs::LogGroup" => {
                    let days = &properties["RetentionInDays"];
                    let days = match days["Ref"].as_str() {
                        Some(parameter) => &template["Parameters"][parameter]["Default"],
                        None => days,
                    };
                    days.as_u64().is_some()
                        && (!has_key(&template) || is_encrypted(&properties["KmsKeyId"]))
                }
                "AWS::Lambda::Function" => {
                    let group = text(&properties["LoggingConfig"]["LogGroup"]);
                    template["Resources"][&group]["Type"] == "AWS::Logs::LogGroup"
                }
                _ => true,
            };
            if !is_kept {
                wrong.push(format!(
                    "{file}: {id} is lost, is open to read, or stays for ever"
                ));
            }
        }
    }
    wrong
}

fn has_key(template: &Value) -> bool {
    !template["Parameters"]["KmsKeyArn"].is_null()
}

fn is_encrypted(key: &Value) -> bool {
    key["Fn::If"][0] == "HasKmsKey" && text(&key["Fn::If"][1]) == "KmsKeyArn"
}

fn traced(files: &Files) -> Vec<String> {
    let template: Value = serde_json::from_str(files.text(TEMPLATE)).unwrap_or_default();
    let policy =
        &template["Resources"]["TracingPolicy"]["Properties"]["PolicyDocument"]["Statement"][0];
    let sends = json!(["xray:PutTelemetryRecords", "xray:PutTraceSegments"]);
    let mut wrong = Vec::new();
    if policy["Action"] != sends || policy["Resource"] != "*" {
        wrong.push("TracingPolicy does not let traces be sent".to_owned());
    }
    let attached =
        json!({"Fn::If": ["TracesAreSent", {"Ref": "TracingPolicy"}, {"Ref": "AWS::NoValue"}]});
    let active = json!({"Fn::Equals": [{"Ref": "Tracing"}, "Active"]});
    for (id, function) in resources(&template) {
        let properties = &function["Properties"];
        let role = text(&properties["Role"]["Fn::GetAtt"][0]);
        let policies = &template["Resources"][&role]["Properties"]["ManagedPolicyArns"];
        let is_traced = properties["TracingConfig"]["Mode"] == json!({"Ref": "Tracing"})
            && template["Conditions"]["TracesAreSent"] == active
            && list(policies).contains(&attached);
        if function["Type"] == "AWS::Lambda::Function" && !is_traced {
            wrong.push(format!("{id} is not traced, or may not send its traces"));
        }
    }
    wrong
}
