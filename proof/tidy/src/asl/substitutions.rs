//! What stands for a name in a machine is, in the template, something of the kind that the name stands for.

use crate::stack::{differ, text};
use crate::tree::{Report, Tree, words};
use serde_json::Value as Json;
use yaml_serde::Value;

/// Of the stack's own template and of the examples'.
pub fn kinds(tree: &Tree, report: &mut Report) {
    let own = tree.files("template.yaml", "template.yaml");
    let mut looked_at = 0;
    for (path, source) in own.chain(tree.files("examples/", "template.yaml")) {
        match yaml_serde::from_str::<Value>(source) {
            Ok(template) => looked_at += of_template(tree, path, &template, report),
            Err(error) => report.error(format!("{path}: {error}")),
        }
    }
    if looked_at == 0 {
        report.error("template.yaml: no substitution to look at");
    }
}

/// How many uses of a substitution were looked at.
fn of_template(tree: &Tree, path: &str, template: &Value, report: &mut Report) -> usize {
    let mut looked_at = 0;
    for (id, machine) in template["Resources"].as_mapping().into_iter().flatten() {
        let properties = &machine["Properties"];
        let file = text(&properties["DefinitionUri"]);
        if file.is_empty() {
            continue;
        }
        let (id, file) = (text(id), crate::proofs::from_root(path, &file));
        let Some(source) = tree.get(&file) else {
            report.error(format!("{path}: {id}: {file} does not exist"));
            continue;
        };
        let definition: Json = serde_json::from_str(source).unwrap_or_default();
        let given = properties["DefinitionSubstitutions"].as_mapping();
        let given: Vec<(String, &Value)> = given
            .into_iter()
            .flatten()
            .map(|(name, value)| (text(name), value))
            .collect();
        let asked = words(source, "${");
        let asked: Vec<String> = asked.iter().map(|name| name.replace("${", "")).collect();
        let names: Vec<String> = given.iter().map(|(name, _)| name.clone()).collect();
        differ(report, &asked, &names, |name| {
            format!("{path}: {id} gives nothing for {name} of {file}")
        });
        differ(report, &names, &asked, |name| {
            format!("{path}: {id}: {file} does not ask for {name}")
        });
        for (name, value) in given {
            let mut fields = Vec::new();
            uses(&definition, "", &format!("${{{name}}}"), &mut fields);
            fields.sort_unstable();
            fields.dedup();
            for field in fields {
                looked_at += 1;
                if !is_of_kind(template, field, &name, value) {
                    let value = text(value);
                    report.error(format!(
                        "{path}: {id}: {value} is not what {file} needs as its {field} for {name}"
                    ));
                }
            }
        }
    }
    looked_at
}

/// The fields whose text has `wanted` in it.
fn uses<'a>(value: &'a Json, field: &'a str, wanted: &str, found: &mut Vec<&'a str>) {
    match value {
        Json::String(text) if text.contains(wanted) => {
            // In the midst of a text it would be part of a name that nobody checks.
            let whole = text == wanted;
            found.push(if whole { field } else { "part of a text" });
        }
        Json::Array(items) => items
            .iter()
            .for_each(|item| uses(item, field, wanted, found)),
        Json::Object(fields) => fields
            .iter()
            .for_each(|(name, value)| uses(value, name, wanted, found)),
        _ => {}
    }
}

/// Whether `value` is for `field` what it has to be: of the template's own resources the one of that name; of a stack beside
/// or inside this one the output of that name; of the user's a parameter that takes nothing else.
fn is_of_kind(template: &Value, field: &str, name: &str, value: &Value) -> bool {
    let Value::Tagged(tagged) = value else {
        return false;
    };
    let (tag, target) = (tagged.tag.to_string(), text(&tagged.value));
    let parameter = &template["Parameters"][target.as_str()];
    let kind = |id: &str| text(&template["Resources"][id]["Type"]);
    match (field, tag.as_str()) {
        ("FunctionName", "!GetAtt") => {
            target == format!("{name}.Arn") && kind(name) == "AWS::Serverless::Function"
        }
        ("FunctionName", "!Ref") => text(&parameter["AllowedPattern"]).contains(":function:"),
        ("TableName", "!Ref") if parameter.is_null() => {
            target == name && kind(name) == "AWS::DynamoDB::Table"
        }
        ("TableName", "!Ref") => target == format!("{name}Name"),
        ("StateMachineArn" | "state_machine_arn", "!Ref") => {
            target == format!("{name}StateMachine")
                && kind(&target) == "AWS::Serverless::StateMachine"
        }
        ("StateMachineArn" | "state_machine_arn", "!GetAtt" | "!ImportValue") => {
            let output = target.rsplit(['.', '-']).next();
            output == Some(&format!("{name}StateMachineArn"))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::errors;

    /// An example beside the stack: files relative to its template, machines of its own and of Leasehold's.
    #[test]
    fn an_example_gives_what_its_machine_asks_for() {
        let found = |given: &str| {
            let template = format!(
                "Resources: {{BookStateMachine: {{Type: 'AWS::Serverless::StateMachine'}}, TakeStateMachine: {{Type: \
                 'AWS::Serverless::StateMachine', Properties: {{DefinitionUri: ../take.asl.json, \
                 DefinitionSubstitutions: {{{given}}}}}}}}}"
            );
            let machine = r#"{"StateMachineArn": "${WithLease}", "state_machine_arn": "${Book}"}"#;
            errors(
                kinds,
                &[
                    ("examples/one/after/template.yaml", &template),
                    ("examples/one/take.asl.json", machine),
                ],
            )
        };
        let fine =
            "Book: !Ref BookStateMachine, WithLease: !ImportValue x-WithLeaseStateMachineArn";
        assert_eq!(found(fine), [""; 0]);
        assert_eq!(
            found(&fine.replace("!ImportValue x-", "!GetAtt Nested.Outputs.")),
            [""; 0]
        );
        for (from, to) in [
            ("!Ref Book", "!Ref Take"),
            ("x-WithLease", "x-CriticalSection"),
            ("WithLease: !", "Within: !"),
            ("!Ref BookStateMachine", "a-name"),
        ] {
            assert_ne!(found(&fine.replace(from, to)), [""; 0], "{to}");
        }
    }
}
