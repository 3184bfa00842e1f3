//! Rules about template.yaml: what it names exists, and what exists is in it.

use crate::tree::{Report, Tree, words};
use yaml_serde::Value;

pub fn functions(tree: &Tree, report: &mut Report) {
    let mut verbs: Vec<&str> = tree
        .files("functions/", "/Cargo.toml")
        .filter_map(|(path, _)| path.split('/').nth(1))
        .collect();
    for (id, function) in of_type(tree, report, "AWS::Serverless::Function") {
        let verb = text(&function["Properties"]["CodeUri"]).replace("functions/", "");
        let directory = verbs.iter().position(|known| *known == verb);
        match directory {
            Some(at) => _ = verbs.remove(at),
            None => report.error(format!(
                "template.yaml: {id}: functions/{verb} does not exist, or is another one's"
            )),
        }
        let binary = text(&function["Metadata"]["BuildProperties"]["Binary"]);
        let manifest = tree
            .get(&format!("functions/{verb}/Cargo.toml"))
            .unwrap_or_default();
        if binary != verb
            || (directory.is_some() && !manifest.contains(&format!("name = \"{binary}\"")))
        {
            report.error(format!(
                "template.yaml: {id}: {binary} is not the binary of functions/{verb}"
            ));
        }
        if id.to_lowercase() != format!("{}function", verb.replace('-', "")) {
            report.error(format!(
                "template.yaml: {id}: not the logical id of functions/{verb}"
            ));
        }
        if tree
            .files(&format!("events/{verb}"), ".json")
            .next()
            .is_none()
        {
            report.error(format!("functions/{verb}: no events/{verb}*.json"));
        }
    }
    for verb in verbs {
        report.error(format!("functions/{verb}: not in template.yaml"));
    }
}

pub fn machines(tree: &Tree, report: &mut Report) {
    let mut files: Vec<&str> = tree
        .files("statemachines/", ".asl.json")
        .map(|(path, _)| path)
        .collect();
    for (id, machine) in of_type(tree, report, "AWS::Serverless::StateMachine") {
        let path = text(&machine["Properties"]["DefinitionUri"]);
        let Some(at) = files.iter().position(|known| *known == path) else {
            report.error(format!(
                "template.yaml: {id}: {path} does not exist, or is another one's"
            ));
            continue;
        };
        files.remove(at);
        // By these names the roles and the rule know the stack's own machines.
        let stem = path
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .replace(".asl.json", "");
        let name = text(&machine["Properties"]["Name"]);
        if name != format!("${{AWS::StackName}}-{stem}") {
            report.error(format!(
                "template.yaml: {id}: its Name is not the stack's and {stem}, but {name:?}"
            ));
        }
        let asked: Vec<String> = words(tree.get(&path).unwrap_or_default(), "${")
            .iter()
            .map(|name| name.replace("${", ""))
            .collect();
        let given = keys(&machine["Properties"]["DefinitionSubstitutions"]);
        differ(report, &asked, &given, |name| {
            format!("{path}: {id} does not substitute {name}")
        });
        differ(report, &given, &asked, |name| {
            format!("template.yaml: {id}: {path} does not ask for {name}")
        });
    }
    for path in files {
        report.error(format!("{path}: not in template.yaml"));
    }
}

pub fn environment(tree: &Tree, report: &mut Report) {
    let mut read: Vec<String> = tree
        .files("lib/src/", ".rs")
        // As a string literal; a constant may be called the same.
        .flat_map(|(_, content)| words(content, "\"LEASE_"))
        .map(|name| name.replace('"', ""))
        .collect();
    read.sort();
    read.dedup();
    if read.is_empty() {
        report.error("lib/src: no variable to look for");
    }
    let template = words(tree.get("template.yaml").unwrap_or_default(), "LEASE_");
    differ(report, &read, &template, |name| {
        format!("template.yaml: no {name}, which lib/src reads")
    });
    differ(report, &template, &read, |name| {
        format!("template.yaml: {name}, which lib/src does not read")
    });
    let documented = words(tree.get("README.md").unwrap_or_default(), "LEASE_");
    differ(report, &read, &documented, |name| {
        format!("README.md: no {name}, which lib/src reads")
    });
    differ(report, &documented, &read, |name| {
        format!("README.md: {name}, which lib/src does not read")
    });
}

/// One error for each of `names` that is not `known`.
pub fn differ(
    report: &mut Report,
    names: &[String],
    known: &[String],
    message: impl Fn(&str) -> String,
) {
    for name in names.iter().filter(|name| !known.contains(name)) {
        report.error(message(name));
    }
}

fn of_type(tree: &Tree, report: &mut Report, kind: &str) -> Vec<(String, Value)> {
    tree.resources(report)
        .into_iter()
        .filter(|(_, resource)| text(&resource["Type"]) == kind)
        .collect()
}

fn keys(mapping: &Value) -> Vec<String> {
    mapping
        .as_mapping()
        .into_iter()
        .flatten()
        .map(|(key, _)| text(key))
        .collect()
}

/// A sequence, or the one value that stands for it.
pub fn items(value: &Value) -> &[Value] {
    match value {
        Value::Null => &[],
        Value::Sequence(items) => items,
        one => std::slice::from_ref(one),
    }
}

/// What stands in a list under a condition (`!If [condition, value, !Ref AWS::NoValue]`), with the condition; what stands
/// there always, without.
pub fn conditional(value: &Value) -> (Option<String>, &Value) {
    if let Value::Tagged(tagged) = value
        && tagged.tag == "If"
        && let [condition, then, otherwise] = items(&tagged.value)
        && text(otherwise) == "AWS::NoValue"
    {
        return (Some(text(condition)), then);
    }
    (None, value)
}

/// A scalar as written; `!GetAtt A.B` and `!Ref A` as what they point to, `!Sub` as its text.
pub fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Tagged(tagged) => text(&tagged.value),
        Value::Null => String::new(),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::errors;

    const FUNCTION: &str = "Resources:\n  AcquireFunction:\n    Type: AWS::Serverless::Function\n    \
        Metadata: {BuildProperties: {Binary: acquire}}\n    Properties: {CodeUri: functions/acquire, Role: x}\n";
    const MANIFEST: (&str, &str) = ("functions/acquire/Cargo.toml", "name = \"acquire\"");
    const EVENT: (&str, &str) = ("events/acquire-held.json", "{}");

    #[test]
    fn a_function_is_a_directory_a_binary_a_logical_id_and_an_event() {
        assert!(errors(functions, &[("template.yaml", FUNCTION), MANIFEST, EVENT]).is_empty());
        assert_eq!(
            errors(functions, &[("template.yaml", FUNCTION), MANIFEST]).len(),
            1,
            "no event"
        );
        assert_eq!(
            errors(functions, &[("template.yaml", FUNCTION), EVENT]).len(),
            1,
            "no directory"
        );
        assert_eq!(
            errors(functions, &[("template.yaml", "Resources: {}"), MANIFEST]),
            ["functions/acquire: not in template.yaml"]
        );
        let other_binary = FUNCTION.replace("Binary: acquire", "Binary: extend");
        assert_eq!(
            errors(
                functions,
                &[("template.yaml", &other_binary), MANIFEST, EVENT]
            )
            .len(),
            1
        );
        let other_id = FUNCTION.replace("AcquireFunction", "GrantFunction");
        assert_eq!(
            errors(functions, &[("template.yaml", &other_id), MANIFEST, EVENT]).len(),
            1
        );
    }

    #[test]
    fn a_machine_is_a_file_with_its_substitutions() {
        let template = "Resources: {M: {Type: 'AWS::Serverless::StateMachine', Properties: \
            {Name: '${AWS::StackName}-m', DefinitionUri: statemachines/m.asl.json, \
            DefinitionSubstitutions: {ExtendFunction: x}}}}";
        let machine = |content| {
            [
                ("template.yaml", template),
                ("statemachines/m.asl.json", content),
            ]
        };
        assert!(errors(machines, &machine("\"${ExtendFunction}\"")).is_empty());
        assert_eq!(
            errors(machines, &machine("\"${ReleaseFunction}\"")).len(),
            2
        );
        assert_eq!(errors(machines, &[("template.yaml", template)]).len(), 1);
        let generated = template.replace("Name: '${AWS::StackName}-m', ", "");
        assert_eq!(
            errors(
                machines,
                &[
                    ("template.yaml", &generated),
                    ("statemachines/m.asl.json", "\"${ExtendFunction}\"")
                ]
            ),
            ["template.yaml: M: its Name is not the stack's and m, but \"\""]
        );
        assert_eq!(
            errors(
                machines,
                &[
                    ("template.yaml", "Resources: {}"),
                    ("statemachines/n.asl.json", "{}")
                ]
            ),
            ["statemachines/n.asl.json: not in template.yaml"]
        );
    }

    #[test]
    fn a_variable_is_read_given_and_documented() {
        let tree = |template, readme| {
            [
                ("lib/src/config.rs", "\"LEASE_TABLE\""),
                ("template.yaml", template),
                ("README.md", readme),
            ]
        };
        assert!(errors(environment, &tree("LEASE_TABLE: x", "`LEASE_TABLE`")).is_empty());
        assert_eq!(
            errors(environment, &tree("", "LEASE_TABLE")),
            ["template.yaml: no LEASE_TABLE, which lib/src reads"]
        );
        assert_eq!(
            errors(environment, &tree("LEASE_TABLE: x", "LEASE_TABLES")),
            [
                "README.md: no LEASE_TABLE, which lib/src reads",
                "README.md: LEASE_TABLES, which lib/src does not read"
            ]
        );
    }
}
