//! The state machines, and what is asked of their states: one file for each kind of question.

pub mod calls;
pub mod errors;
pub mod language;
pub mod limits;
pub mod paths;
pub mod substitutions;

use crate::tree::{Report, Tree};
use serde_json::Value;

/// Where state machines stand that are ours, and whether each of their states has to give its reason.
const FOLDERS: &[(&str, bool)] = &[("statemachines/", true), ("examples/", false)];

/// The document that shows one.
const README: &str = "README.md";

/// A state machine.
pub struct Machine {
    /// Its file, or the document that shows it.
    pub place: String,
    pub definition: Value,
    /// Whether it comes with the stack. The others are read beside a text that explains them.
    pub shipped: bool,
}

/// A state, wherever it stands in its machine.
pub struct Site<'a> {
    /// For a message: the machine's place, and the names on the way to the state.
    pub place: String,
    pub name: &'a str,
    pub state: &'a Value,
    /// The states beside it, itself included.
    pub beside: &'a Value,
    pub shipped: bool,
}

/// Every machine that parses; an error for each that does not, and if there is none to look at.
pub fn machines(tree: &Tree, report: &mut Report) -> Vec<Machine> {
    let mut machines = Vec::new();
    let mut parse = |place: &str, text: &str, shipped| match serde_json::from_str(text) {
        Ok(definition) => machines.push(Machine {
            place: place.to_owned(),
            definition,
            shipped,
        }),
        Err(error) => report.error(format!("{place}: {error}")),
    };
    let mut found = 0;
    for (folder, shipped) in FOLDERS {
        for (path, text) in tree.files(folder, ".asl.json") {
            parse(path, text, *shipped);
            found += usize::from(*shipped);
        }
    }
    let readme = tree.get(README);
    let shown = shown(readme.unwrap_or_default());
    for text in &shown {
        parse(README, text, false);
    }
    if readme.is_some() && shown.is_empty() {
        report.error(format!("{README}: shows no state machine"));
    }
    if found == 0 {
        report.error("statemachines/: no state machine to look at");
    }
    machines
}

/// The state machines in the blocks of a document.
fn shown(document: &str) -> Vec<&str> {
    let blocks = document.split("\n```").skip(1).step_by(2);
    blocks
        .filter_map(|block| block.strip_prefix("json\n"))
        .filter(|text| text.contains("\"StartAt\""))
        .collect()
}

/// Every state of every machine, also inside Parallel and Map.
pub fn sites(machines: &[Machine]) -> Vec<Site<'_>> {
    let mut sites = Vec::new();
    for machine in machines {
        for scope in scopes(machine) {
            for (name, state) in scope.states["States"].as_object().into_iter().flatten() {
                sites.push(Site {
                    place: format!("{}: {name}", scope.place),
                    name,
                    state,
                    beside: &scope.states["States"],
                    shipped: machine.shipped,
                });
            }
        }
    }
    sites
}

/// What has a `StartAt` and `States`: a machine itself, a branch, the processor of a Map.
pub struct Scope<'a> {
    pub place: String,
    pub states: &'a Value,
}

/// A machine's scopes, each after the one that it stands in.
pub fn scopes(machine: &Machine) -> Vec<Scope<'_>> {
    let mut scopes = vec![Scope {
        place: machine.place.clone(),
        states: &machine.definition,
    }];
    let mut next = 0;
    while next < scopes.len() {
        let mut inner = Vec::new();
        let scope = &scopes[next];
        for (name, state) in scope.states["States"].as_object().into_iter().flatten() {
            let place = format!("{}: {name}", scope.place);
            let below = list(&state["Branches"])
                .iter()
                .chain([&state["ItemProcessor"], &state["Iterator"]])
                .filter(|below| below.is_object());
            inner.extend(below.map(|states| Scope {
                place: place.clone(),
                states,
            }));
        }
        scopes.extend(inner);
        next += 1;
    }
    scopes
}

impl Site<'_> {
    /// The function that is called here: an ARN or a name, or the substitution that will become one.
    pub fn called(&self) -> Option<&str> {
        called(self.state)
    }
}

pub fn called(state: &Value) -> Option<&str> {
    // The older way: the function is the task's resource itself.
    let is_function =
        |resource: &&str| resource.starts_with("${") || resource.contains(":function:");
    if let Some(resource) = state["Resource"].as_str().filter(is_function) {
        return Some(bare(resource));
    }
    let arguments = if state["Arguments"].is_null() {
        &state["Parameters"]
    } else {
        &state["Arguments"]
    };
    arguments["FunctionName"].as_str().map(bare)
}

/// The name in a substitution, or at the end of an ARN.
fn bare(function: &str) -> &str {
    let name = function.rsplit(":function:").next().unwrap_or(function);
    name.strip_prefix("${")
        .and_then(|name| name.strip_suffix('}'))
        .unwrap_or(name)
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The names that a retrier or a catcher is for.
pub fn error_equals(handler: &Value) -> impl Iterator<Item = &str> {
    list(&handler["ErrorEquals"])
        .iter()
        .filter_map(Value::as_str)
}

/// The functions of template.yaml by logical id; an error if there are none.
pub fn our_functions(tree: &Tree, report: &mut Report) -> Vec<String> {
    let resources = tree.resources(report);
    let functions: Vec<String> = resources
        .into_iter()
        .filter(|(_, resource)| {
            crate::stack::text(&resource["Type"]) == "AWS::Serverless::Function"
        })
        .map(|(id, _)| id)
        .collect();
    if functions.is_empty() {
        report.error("template.yaml: no function to look for");
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_found_in_folders_and_in_the_readme() {
        let text = "Text\n```json\n{\"a\": 1}\n```\nand\n```json\n{\"StartAt\": \"A\"}\n```\n";
        let tree = Tree::of(&[
            ("statemachines/x.asl.json", "{}"),
            ("examples/one/y.asl.json", "{}"),
            ("elsewhere/z.asl.json", "{}"),
            (README, text),
        ]);
        let mut report = Report::default();
        let found = machines(&tree, &mut report);
        let places: Vec<_> = found.iter().map(|machine| machine.place.as_str()).collect();
        assert_eq!(
            places,
            [
                "statemachines/x.asl.json",
                "examples/one/y.asl.json",
                README
            ]
        );
        assert_eq!(found[2].definition["StartAt"], "A");
        assert_eq!(report.errors, [""; 0]);
    }

    #[test]
    fn states_are_found_inside_branches_and_maps() {
        let definition = serde_json::json!({"States": {
            "Both": {"Branches": [{"States": {"Inner": {}}}]},
            "Each": {"ItemProcessor": {"States": {"Item": {}}}}}});
        let machine = Machine {
            place: "x".to_owned(),
            definition,
            shipped: true,
        };
        let machines = [machine];
        let places: Vec<_> = sites(&machines)
            .into_iter()
            .map(|site| site.place)
            .collect();
        assert_eq!(
            places,
            ["x: Both", "x: Each", "x: Both: Inner", "x: Each: Item"]
        );
    }

    #[test]
    fn a_function_is_called_in_several_ways() {
        for state in [
            serde_json::json!({"Arguments": {"FunctionName": "${ExtendFunction}"}}),
            serde_json::json!({"Parameters": {"FunctionName": "ExtendFunction"}}),
            serde_json::json!({"Resource": "${ExtendFunction}"}),
            serde_json::json!({"Resource": "arn:aws:lambda:us-east-1:123456789012:function:ExtendFunction"}),
        ] {
            assert_eq!(called(&state), Some("ExtendFunction"), "{state}");
        }
        let other =
            serde_json::json!({"Resource": "arn:aws:states:::states:startExecution.sync:2"});
        assert_eq!(called(&other), None);
    }

    #[test]
    fn what_does_not_parse_is_an_error() {
        let mut report = Report::default();
        assert!(machines(&Tree::of(&[("statemachines/x.asl.json", "{")]), &mut report).is_empty());
        assert_eq!(report.errors.len(), 1);
    }
}
