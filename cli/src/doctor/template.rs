//! What a stack has: read from the templates that it is deployed from.

use std::sync::LazyLock;

use serde_json::{Map, Value};

/// The resources of a template, by their logical ids.
type Planned = Map<String, Value>;

pub(super) static STACK: LazyLock<Planned> =
    LazyLock::new(|| resources(include_str!("../../../local/template.json")));
pub(super) static MONITORING: LazyLock<Planned> =
    LazyLock::new(|| resources(include_str!("../../../local/monitoring.json")));

fn resources(template: &str) -> Planned {
    let mut template: Value = serde_json::from_str(template).expect("a test reads it");
    serde_json::from_value(template["Resources"].take()).expect("a test reads it")
}

/// The logical ids of the resources of this type.
pub(super) fn of_type(planned: &'static Planned, kind: &str) -> impl Iterator<Item = &'static str> {
    let found = planned.iter().filter(move |(_, one)| one["Type"] == kind);
    found.map(|(id, _)| id.as_str())
}

/// A function of the stack.
pub(super) struct Function {
    pub(super) id: &'static str,
    /// Its name among the functions of this repository.
    pub(super) verb: &'static str,
    /// In seconds.
    pub(super) timeout: i64,
    pub(super) runtime: &'static str,
    variables: &'static Value,
}

impl Function {
    /// Whether the template gives it this variable.
    pub(super) fn has(&self, variable: &str) -> bool {
        self.variables.get(variable).is_some()
    }
}

/// Every function of the stack.
pub(super) fn planned_functions() -> impl Iterator<Item = Function> {
    of_type(&STACK, "AWS::Lambda::Function").filter_map(|id| {
        let properties = &STACK[id]["Properties"];
        Some(Function {
            id,
            verb: properties["Code"]["S3Key"].as_str()?.rsplit('/').next()?,
            timeout: properties["Timeout"].as_i64()?,
            runtime: properties["Runtime"].as_str()?,
            variables: &properties["Environment"]["Variables"],
        })
    })
}
