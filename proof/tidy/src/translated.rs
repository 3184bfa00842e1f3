//! The template as SAM translates it: what it makes of a function's events and of a state machine's policies has to be on the
//! written list too. `tidy translated target/template.json`.

use crate::roles::{ROLES, granted};
use crate::stack::{differ, items, text};
use crate::tree::Report;
use yaml_serde::value::{Tag, TaggedValue};
use yaml_serde::{Mapping, Value};

/// What SAM grants by itself, and that template.yaml does not show.
const GENERATED: &[(&str, &[&str])] = &[(
    "SweepFunctionSchedulePermission",
    &[
        "events.amazonaws.com from SweepFunctionSchedule.Arn: lambda:InvokeFunction on SweepFunction",
    ],
)];

/// Types that grant something, and that nobody here knows how to read.
const UNREAD: &[&str] = &["AWS::IAM::ManagedPolicy", "AWS::Lambda::Url"];

/// Holds a translated template to the written list of roles.
pub fn roles(translated: &str, report: &mut Report) {
    let template: Value = match yaml_serde::from_str(translated) {
        Ok(template) => template,
        Err(error) => return report.error(error.to_string()),
    };
    let nothing = Mapping::new();
    let resources = template["Resources"].as_mapping().unwrap_or(&nothing);
    let mut seen = Vec::new();
    for (id, resource) in resources {
        let (id, resource) = (text(id), short(resource.clone()));
        let kind = text(&resource["Type"]);
        let granted = granted(&resource);
        let properties = &resource["Properties"];
        if UNREAD.contains(&kind.as_str()) {
            report.error(format!("{id}: a {kind} is on no list"));
        }
        if !items(&properties["ManagedPolicyArns"]).is_empty() {
            report.error(format!(
                "{id}: a managed policy allows more than is written"
            ));
        }
        if kind == "AWS::IAM::Role" {
            trust(&id, properties, report);
        }
        let Some((name, written)) = written(&id, &kind) else {
            if kind == "AWS::IAM::Role" || !granted.is_empty() {
                report.error(format!("{id}: a {kind} that is not written down"));
            }
            continue;
        };
        seen.push(name);
        let written: Vec<String> = written.iter().map(|&one| one.to_owned()).collect();
        differ(report, &granted, &written, |statement| {
            format!("{id} may {statement}, which is not written down")
        });
        differ(report, &written, &granted, |statement| {
            format!("{id} may not {statement}, which is written down")
        });
    }
    for (name, _) in ROLES.iter().chain(GENERATED) {
        if !seen.contains(name) {
            report.error(format!("{name} is written down and was not made"));
        }
    }
}

/// The list for a resource, by its own name or by that of the state machine that SAM has made the role for.
fn written(id: &str, kind: &str) -> Option<(&'static str, &'static [&'static str])> {
    if kind == "AWS::StepFunctions::StateMachine" {
        // What it may do, its role says.
        return None;
    }
    let machine = id.strip_suffix("Role").filter(|_| kind == "AWS::IAM::Role");
    let mut lists = ROLES.iter().chain(GENERATED).copied();
    lists.find(|(name, _)| {
        *name == id || machine.is_some_and(|of| of.ends_with("StateMachine") && *name == of)
    })
}

/// A function's role is for Lambda alone, a state machine's for Step Functions alone.
fn trust(id: &str, properties: &Value, report: &mut Report) {
    let service = if id.ends_with("StateMachineRole") {
        "states.amazonaws.com"
    } else {
        "lambda.amazonaws.com"
    };
    let statements = items(&properties["AssumeRolePolicyDocument"]["Statement"]);
    let trusted: Vec<String> = statements
        .iter()
        .flat_map(|statement| {
            let principal = statement["Principal"].as_mapping().into_iter().flatten();
            principal.flat_map(|(kind, who)| {
                let kind = text(kind);
                items(who)
                    .iter()
                    .map(move |who| format!("{kind} {}", text(who)))
            })
        })
        .collect();
    if trusted != [format!("Service {service}")] {
        report.error(format!(
            "{id}: is taken on by {trusted:?}, and not by {service}"
        ));
    }
}

/// The short forms of intrinsic functions, which the list is written in, for the long ones.
fn short(value: Value) -> Value {
    match value {
        Value::Sequence(items) => Value::Sequence(items.into_iter().map(short).collect()),
        Value::Mapping(fields) => {
            if fields.len() == 1
                && let Some((name, argument)) = fields.iter().next()
                && let Some(name) = name.as_str()
                && let Some(tag) = name
                    .strip_prefix("Fn::")
                    .or((name == "Ref").then_some(name))
            {
                let argument = match (tag, argument) {
                    ("GetAtt", Value::Sequence(path)) => {
                        let path: Vec<String> = path.iter().map(text).collect();
                        Value::String(path.join("."))
                    }
                    (_, argument) => short(argument.clone()),
                };
                return Value::Tagged(Box::new(TaggedValue {
                    tag: Tag::new(tag),
                    value: argument,
                }));
            }
            let fields = fields.into_iter().map(|(name, field)| (name, short(field)));
            Value::Mapping(fields.collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(resources: &str) -> Vec<String> {
        let mut report = Report::default();
        roles(&format!("{{\"Resources\": {{{resources}}}}}"), &mut report);
        let unmade = |error: &String| !error.ends_with("was not made");
        report.errors.into_iter().filter(unmade).collect()
    }

    fn extend_role(statement: &str, more: &str) -> String {
        format!(
            r#""ExtendRole": {{"Type": "AWS::IAM::Role", "Properties": {{
                "AssumeRolePolicyDocument": {{"Statement": [{{"Principal": {{"Service": "lambda.amazonaws.com"}}}}]}},
                "Policies": [{{"PolicyDocument": {{"Statement": [
                    {statement},
                    {{"Action": ["logs:CreateLogStream", "logs:PutLogEvents"],
                      "Resource": {{"Fn::GetAtt": ["ExtendLogs", "Arn"]}}}},
                    {{"Fn::If": ["HasKmsKey",
                      {{"Action": "kms:Decrypt", "Resource": {{"Ref": "KmsKeyArn"}}, "Condition": {{"StringEquals": {{
                        "kms:ViaService": {{"Fn::Sub": "dynamodb.${{AWS::Region}}.${{AWS::URLSuffix}}"}}}}}}}},
                      {{"Ref": "AWS::NoValue"}}]}},
                    {{"Fn::If": ["TracesAreSent",
                      {{"Action": ["xray:PutTelemetryRecords", "xray:PutTraceSegments"], "Resource": "*"}},
                      {{"Ref": "AWS::NoValue"}}]}}]}}}}]{more}}}}}"#
        )
    }

    const UPDATE: &str =
        r#"{"Action": "dynamodb:UpdateItem", "Resource": {"Fn::GetAtt": ["LeaseTable", "Arn"]}}"#;

    #[test]
    fn a_translated_role_is_held_to_the_written_list() {
        assert_eq!(errors(&extend_role(UPDATE, "")), [""; 0]);
        let wider = UPDATE.replace("UpdateItem", "*");
        assert_eq!(errors(&extend_role(&wider, "")).len(), 2);
        let elsewhere = UPDATE.replace("LeaseTable", "OtherTable");
        assert_eq!(errors(&extend_role(&elsewhere, "")).len(), 2);
        let managed = r#", "ManagedPolicyArns": ["arn:aws:iam::aws:policy/AdministratorAccess"]"#;
        assert_eq!(errors(&extend_role(UPDATE, managed)).len(), 1);
        let trusting =
            extend_role(UPDATE, "").replace("lambda.amazonaws.com", "states.amazonaws.com");
        assert_eq!(errors(&trusting).len(), 1);
    }

    #[test]
    fn nothing_else_may_grant_anything() {
        for unknown in [
            extend_role(UPDATE, "").replace("ExtendRole", "ExtenderRole"),
            format!(
                r#""P": {{"Type": "AWS::IAM::Policy", "Properties": {{"PolicyDocument": {{"Statement": [{UPDATE}]}}}}}}"#
            ),
            r#""P": {"Type": "AWS::Lambda::Permission", "Properties": {"Principal": "*"}}"#
                .to_owned(),
        ] {
            assert_ne!(errors(&unknown), [""; 0], "{unknown}");
        }
    }

    #[test]
    fn what_is_written_down_has_to_be_made() {
        let mut report = Report::default();
        roles("{\"Resources\": {}}", &mut report);
        assert_eq!(report.errors.len(), ROLES.len() + GENERATED.len());
    }
}
