//! Small random machines, and specifications for them.

use proptest::prelude::*;
use serde_json::{Value, json};

/// How many states lead to one another. An end and a failure are added.
const MOST: usize = 6;

/// A function, a read, and a job that the service stops.
pub const RESOURCES: [&str; 3] = [
    "arn:aws:states:::lambda:invoke",
    "arn:aws:states:::dynamodb:getItem",
    "arn:aws:states:::ecs:runTask.sync",
];

#[derive(Debug, Clone)]
pub enum Step {
    Task {
        /// One of [`RESOURCES`].
        resource: usize,
        limit: Option<u32>,
        again: u32,
        /// The names and the target.
        catch: Vec<(Vec<&'static str>, usize)>,
    },
    /// The target of the rule, and whether there is a Default.
    Choice(usize, bool),
    Pass,
    Wait(u32),
    /// Two parallel tasks, or one alone, and the target of a failure.
    Both(bool, Option<usize>),
}

#[derive(Debug, Clone)]
pub struct Machine {
    pub jsonata: bool,
    pub yaml: bool,
    /// Each state with its target.
    pub steps: Vec<(Step, usize)>,
}

/// The section of a specification.
#[derive(Debug, Clone)]
pub struct Section {
    pub members: Vec<usize>,
    pub ttl: u32,
    pub mode: usize,
    pub bound: bool,
    pub leave: bool,
}

pub fn machines() -> impl Strategy<Value = Machine> {
    (any::<bool>(), any::<bool>(), 2..=MOST).prop_flat_map(|(jsonata, yaml, count)| {
        let steps: Vec<_> = (0..count).map(|nth| step(nth, count)).collect();
        steps.prop_map(move |steps| Machine {
            jsonata,
            yaml,
            steps,
        })
    })
}

fn step(nth: usize, count: usize) -> impl Strategy<Value = (Step, usize)> {
    // Usually the next state, sometimes any. `count` is an end, `count + 1` a failure.
    let next = prop_oneof![8 => Just(nth + 1), 1 => 0..count + 2];
    let anywhere = prop_oneof![3 => count..count + 2, 1 => 0..count];
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
        clauses
    });
    let limit = prop_oneof![8 => (1_u32..90).prop_map(Some), 1 => Just(None)];
    let step = prop_oneof![
        6 => (prop::sample::select(vec![0_usize, 0, 1, 2]), limit, 0_u32..2, catch).prop_map(|(resource, limit, again, catch)| Step::Task { resource, limit, again, catch }),
        2 => (anywhere.clone(), prop::bool::weighted(0.9)).prop_map(|(to, default)| Step::Choice(to, default)),
        1 => Just(Step::Pass),
        1 => (1_u32..60).prop_map(Step::Wait),
        1 => (any::<bool>(), prop::option::of(anywhere)).prop_map(|(two, to)| Step::Both(two, to)),
    ];
    (step, next)
}

pub fn sections(count: usize) -> impl Strategy<Value = Section> {
    let members = (0..count, 1..=count)
        .prop_map(move |(from, many)| (from..count.min(from + many)).collect());
    let ttl = prop::sample::select(vec![60_u32, 200, 400, 1000]);
    (members, ttl, 0_usize..5, any::<bool>(), any::<bool>()).prop_map(
        |(members, ttl, mode, bound, leave)| Section {
            members,
            ttl,
            mode,
            bound,
            leave,
        },
    )
}

pub fn name(nth: usize) -> String {
    format!("S{nth}")
}

impl Machine {
    /// The machine as a definition.
    pub fn written(&self) -> Value {
        let mut states = serde_json::Map::new();
        for (nth, (step, next)) in self.steps.iter().enumerate() {
            states.insert(name(nth), self.state(nth, step, *next));
        }
        let count = self.steps.len();
        states.insert(name(count), json!({"Type": "Succeed"}));
        states.insert(name(count + 1), json!({"Type": "Fail", "Error": "Own.End"}));
        let language = if self.jsonata { "JSONata" } else { "JSONPath" };
        json!({"QueryLanguage": language, "StartAt": name(0), "States": states})
    }

    /// The specification as a text.
    pub fn text(&self) -> String {
        let written = self.written();
        if self.yaml {
            yaml_serde::to_string(&written).unwrap()
        } else {
            format!("{written:#}")
        }
    }

    fn task(&self, limit: Option<u32>) -> Value {
        let arguments = if self.jsonata {
            "Arguments"
        } else {
            "Parameters"
        };
        let mut task = json!({"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", arguments: {"FunctionName": "step"}});
        if let Some(limit) = limit {
            task["TimeoutSeconds"] = limit.into();
        }
        task
    }

    fn state(&self, nth: usize, step: &Step, next: usize) -> Value {
        let mut state = match step {
            Step::Task {
                resource,
                limit,
                again,
                catch,
            } => {
                let mut task = self.task(*limit);
                task["Resource"] = RESOURCES[*resource].into();
                if *again > 0 {
                    task["Retry"] = json!([{"ErrorEquals": ["Own.Busy"], "MaxAttempts": again}]);
                }
                if !catch.is_empty() {
                    task["Catch"] = catch
                        .iter()
                        .map(|(names, to)| json!({"ErrorEquals": names, "Next": name(*to)}))
                        .collect();
                }
                task
            }
            Step::Choice(to, default) => {
                let mut rule = if self.jsonata {
                    json!({"Condition": "{% $states.input.x %}"})
                } else {
                    json!({"Variable": "$.x", "IsPresent": true})
                };
                rule["Next"] = name(*to).into();
                let mut choice = json!({"Type": "Choice", "Choices": [rule]});
                if *default {
                    choice["Default"] = name(next).into();
                }
                return choice;
            }
            Step::Pass => json!({"Type": "Pass"}),
            Step::Wait(seconds) => json!({"Type": "Wait", "Seconds": seconds}),
            Step::Both(two, to) => {
                let branch = |side: &str| {
                    let mut task = self.task(Some(20));
                    task["End"] = true.into();
                    let inner = format!("S{nth}{side}");
                    json!({"StartAt": inner, "States": {inner.clone(): task}})
                };
                let sides = if *two { vec!["L", "R"] } else { vec!["L"] };
                let branches: Vec<Value> = sides.into_iter().map(branch).collect();
                let mut both = json!({"Type": "Parallel", "Branches": branches});
                if let Some(to) = to {
                    both["Catch"] = json!([{"ErrorEquals": ["States.ALL"], "Next": name(*to)}]);
                }
                both
            }
        };
        state["Next"] = name(next).into();
        state
    }
}

impl Section {
    pub fn spec(&self, jsonata: bool) -> String {
        let states: Vec<String> = self.members.iter().map(|nth| name(*nth)).collect();
        let mut spec = format!(
            "machine: m\nsections:\n  - name: G\n    states: [{}]\n    ttl_seconds: {}\n    key: {}\n",
            states.join(", "),
            self.ttl,
            if jsonata {
                "\"{% $states.input.k %}\""
            } else {
                "$.k"
            },
        );
        spec.push_str(
            [
                "",
                "    mode: queue\n    wait_seconds: 60\n",
                "    permits: 3\n",
                "    mode: skip\n",
                "    mode: fail\n",
            ][self.mode],
        );
        if self.bound {
            spec.push_str("    bound: lease\n");
        }
        if self.leave {
            spec.push_str("    unfinished: leave\n");
        }
        spec
    }
}
