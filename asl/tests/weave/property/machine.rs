//! Small random machines, and specifications for them.

use crate::random::{in_json_path, name, put};
use proptest::prelude::*;
use serde_json::{Value, json};

/// How many states lead to one another. An end and a failure are added.
const MOST: usize = 6;

/// A function, a read, and a job that the service stops.
const RESOURCES: [&str; 3] = [
    "arn:aws:states:::lambda:invoke",
    "arn:aws:states:::dynamodb:getItem",
    "arn:aws:states:::ecs:runTask.sync",
];

#[derive(Debug, Clone)]
pub struct Machine {
    pub jsonata: bool,
    pub yaml: bool,
    pub definition: Value,
}

/// The section of a specification.
#[derive(Debug, Clone)]
pub struct Section {
    pub members: Vec<usize>,
    /// None of an execution lease.
    pub ttl: Option<u32>,
    if_held: usize,
    bound: bool,
    leave: bool,
}

/// A machine, and two sections of it.
pub fn machines() -> impl Strategy<Value = (Machine, Section, Section)> {
    (any::<bool>(), any::<bool>(), 2..=MOST).prop_flat_map(|(jsonata, yaml, count)| {
        let steps: Vec<_> = (0..count).map(|nth| step(nth, count)).collect();
        let machine = steps.prop_map(move |steps| {
            let mut states = json!({name(count): {"Type": "Succeed"},
                name(count + 1): {"Type": "Fail", "Error": "Own.End"}});
            for (nth, step) in steps.into_iter().enumerate() {
                states[name(nth)] = step;
            }
            let mut definition =
                json!({"QueryLanguage": "JSONata", "StartAt": name(0), "States": states});
            if !jsonata {
                in_json_path(&mut definition);
            }
            Machine {
                jsonata,
                yaml,
                definition,
            }
        });
        (machine, sections(count), sections(count))
    })
}

fn step(nth: usize, count: usize) -> impl Strategy<Value = Value> {
    // Usually the next state, sometimes any. `count` is an end, `count + 1` a failure.
    let next = prop_oneof![8 => Just(nth + 1), 1 => 0..count + 2];
    let anywhere = prop_oneof![3 => count..count + 2, 1 => 0..count].prop_map(name);
    let names = prop::sample::select(vec![
        vec!["Own.Error"],
        vec!["States.Timeout"],
        vec!["Own.Error", "States.Timeout", "Lambda.Unknown"],
        vec!["States.TaskFailed"],
    ]);
    let clauses = prop::collection::vec((names, anywhere.clone()), 0..2);
    let all = prop::option::weighted(0.4, anywhere.clone());
    let catch = (clauses, all).prop_map(|(mut clauses, all)| {
        clauses.extend(all.map(|to| (vec!["States.ALL"], to)));
        let clauses = clauses.into_iter();
        clauses
            .map(|(names, to)| json!({"ErrorEquals": names, "Next": to}))
            .collect::<Value>()
    });
    let limit = prop_oneof![8 => (1_u32..90).prop_map(Value::from), 1 => Just(Value::Null)];
    let resource = prop::sample::select(vec![0_usize, 0, 1, 2]);
    let aborted = prop::option::of(anywhere.clone());
    let step = prop_oneof![
        6 => (resource, limit, any::<bool>(), catch).prop_map(|(resource, limit, again, catch)| {
            let mut task = task(RESOURCES[resource], limit);
            if again {
                task["Retry"] = json!([{"ErrorEquals": ["Own.Busy"], "MaxAttempts": 1}]);
            }
            put(&mut task, "Catch", catch);
            task
        }),
        // Its Default is the next state.
        2 => (anywhere, prop::bool::weighted(0.9)).prop_map(|(to, default)| {
            let rule = json!({"Condition": "{% $states.input.x %}", "Next": to});
            json!({"Type": "Choice", "Choices": [rule], "Default": default})
        }),
        1 => Just(json!({"Type": "Pass"})),
        1 => (1_u32..60).prop_map(|seconds| json!({"Type": "Wait", "Seconds": seconds})),
        1 => (any::<bool>(), aborted).prop_map(move |(two, to)| {
            let branch = |side: &str| {
                let mut task = task(RESOURCES[0], 20.into());
                task["End"] = true.into();
                let inner = format!("S{nth}{side}");
                json!({"StartAt": inner, "States": {inner.clone(): task}})
            };
            let sides = if two { vec!["L", "R"] } else { vec!["L"] };
            let branches: Vec<Value> = sides.into_iter().map(branch).collect();
            let mut both = json!({"Type": "Parallel", "Branches": branches});
            if let Some(to) = to {
                both["Catch"] = json!([{"ErrorEquals": ["States.ALL"], "Next": to}]);
            }
            both
        }),
    ];
    (step, next).prop_map(|(mut step, next)| {
        match step.get("Default").map(|default| *default == true) {
            Some(true) => step["Default"] = name(next).into(),
            Some(false) => _ = step.as_object_mut().unwrap().remove("Default"),
            None => step["Next"] = name(next).into(),
        }
        step
    })
}

fn task(resource: &str, limit: Value) -> Value {
    let mut task =
        json!({"Type": "Task", "Resource": resource, "Arguments": {"FunctionName": "step"}});
    put(&mut task, "TimeoutSeconds", limit);
    task
}

fn sections(count: usize) -> impl Strategy<Value = Section> {
    let members = (0..count, 1..=count)
        .prop_map(move |(from, many)| (from..count.min(from + many)).collect());
    let ttl = prop::sample::select(vec![
        None,
        None,
        Some(60_u32),
        Some(200),
        Some(400),
        Some(1000),
    ]);
    (members, ttl, 0_usize..5, any::<bool>(), any::<bool>()).prop_map(
        |(members, ttl, if_held, bound, leave)| Section {
            members,
            ttl,
            if_held,
            bound,
            leave,
        },
    )
}

impl Machine {
    /// The definition as a text.
    pub fn text(&self) -> String {
        if self.yaml {
            yaml_serde::to_string(&self.definition).unwrap()
        } else {
            format!("{:#}", self.definition)
        }
    }
}

impl Section {
    pub fn spec(&self, jsonata: bool) -> String {
        let states: Vec<String> = self.members.iter().map(|nth| name(*nth)).collect();
        let key = if jsonata {
            "\"{% $states.input.k %}\""
        } else {
            "$.k"
        };
        let if_held = [
            "",
            ", if_held: wait",
            ", permits: 3, at_least_seconds: 60",
            ", if_held: skip",
            ", if_held: fail",
        ][self.if_held];
        let lifetime = match self.ttl {
            Some(ttl) => format!(
                ", ttl_seconds: {ttl}{}{}",
                if self.bound { ", bound: lease" } else { "" },
                if self.leave {
                    ", unfinished: leave"
                } else {
                    ""
                }
            ),
            None if self.bound || !jsonata => ", keep_seconds: 60".to_owned(),
            None => String::new(),
        };
        format!(
            "machine: m\nsections:\n  - {{name: G, states: [{}], key: {key}{if_held}{lifetime}}}\n",
            states.join(", ")
        )
    }
}
