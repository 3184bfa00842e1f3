//! What stands for a name in a machine is, in template.yaml, a resource of the kind that the name stands for.

use crate::stack::text;
use crate::tree::{Report, Tree};
use serde_json::Value as Json;
use yaml_serde::Value;

pub fn kinds(tree: &Tree, report: &mut Report) {
    let resources = tree.resources(report);
    let template = tree.get("template.yaml").unwrap_or_default();
    let template: Value = yaml_serde::from_str(template).unwrap_or_default();
    let mut looked_at = 0;
    for (id, machine) in &resources {
        let properties = &machine["Properties"];
        let Some(given) = properties["DefinitionSubstitutions"].as_mapping() else {
            continue;
        };
        let path = text(&properties["DefinitionUri"]);
        let definition = tree.get(&path).unwrap_or_default();
        let definition: Json = serde_json::from_str(definition).unwrap_or_default();
        for (name, value) in given {
            let name = text(name);
            let mut fields = Vec::new();
            uses(&definition, "", &format!("${{{name}}}"), &mut fields);
            fields.sort_unstable();
            fields.dedup();
            for field in fields {
                looked_at += 1;
                if !is_of_kind(&template, field, &name, value) {
                    let value = text(value);
                    report.error(format!(
                        "template.yaml: {id}: {value} is not what {path} needs as its {field} for {name}"
                    ));
                }
            }
        }
    }
    if looked_at == 0 {
        report.error("template.yaml: no substitution to look at");
    }
}

/// The fields whose text has `wanted` in it.
fn uses<'a>(value: &'a Json, field: &'a str, wanted: &str, found: &mut Vec<&'a str>) {
    match value {
        Json::String(text) if text.contains(wanted) => {
            // In the midst of a text it would be part of a name that nobody checks.
            found.push(if text == wanted {
                field
            } else {
                "part of a text"
            });
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

/// Whether `value` is for `field` what it has to be: of ours the resource of that very name; of the user's a parameter that
/// takes nothing else.
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
        _ => false,
    }
}
