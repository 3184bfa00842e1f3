//! Small random definitions: one lease, and states that lead to one another.

use proptest::prelude::*;
use serde_json::{Value, json};

/// The target of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// One of the states in the middle.
    Inner(usize),
    /// Back to the acquire.
    Acquire,
    /// A release, and then success.
    Release,
    /// A release, and then failure.
    GiveBack,
    /// Failure, after which the work may still run.
    MayRun,
    Failed,
    Done,
}

#[derive(Debug, Clone)]
pub enum Limit {
    Seconds(u64),
    Absent,
    /// The time left until `safe_until`.
    Safe,
}

#[derive(Debug, Clone)]
pub enum Inner {
    Work {
        limit: Limit,
        /// Attempts after the function's own failure, and the seconds before each.
        again: (u64, u64),
        on_timeout: Option<Target>,
        on_all: Option<Target>,
        next: Target,
    },
    Extend {
        limit: u64,
        again: u64,
        on_lost: Option<Target>,
        on_all: Option<Target>,
        next: Target,
    },
    Wait(u64, Target),
    Choice(Vec<Target>, Option<Target>),
    /// Two functions in parallel.
    Both(u64, u64, Option<Target>, Target),
}

#[derive(Debug, Clone)]
pub struct Definition {
    pub jsonata: bool,
    pub ttl: u64,
    pub acquire_limit: u64,
    /// Attempts of the acquire after an unknown outcome.
    pub acquire_again: u64,
    /// The target of its failure.
    pub acquire_caught: Option<Target>,
    /// The target of a Choice that bypasses the acquire.
    pub around: Option<Target>,
    pub inner: Vec<Inner>,
}

pub fn definitions() -> impl Strategy<Value = Definition> {
    let head = (
        any::<bool>(),
        prop::sample::select(vec![60_u64, 120, 300]),
        1_u64..20,
        0_u64..3,
    );
    (head, 1_usize..5).prop_flat_map(|((jsonata, ttl, acquire_limit, acquire_again), count)| {
        let inner: Vec<_> = (0..count).map(|nth| inner(nth, count, jsonata)).collect();
        let strays = (stray(count, 3), stray(count, 9));
        (strays, inner).prop_map(move |((acquire_caught, around), inner)| Definition {
            jsonata,
            ttl,
            acquire_limit,
            acquire_again,
            acquire_caught,
            around,
            inner,
        })
    })
}

/// A rare edge to any state.
fn stray(count: usize, seldom: u32) -> impl Strategy<Value = Option<Target>> {
    let ends = vec![
        Target::Release,
        Target::GiveBack,
        Target::Failed,
        Target::Done,
    ];
    prop_oneof![
        seldom => Just(None),
        1 => prop::sample::select(ends).prop_map(Some),
        1 => (0..count).prop_map(|nth| Some(Target::Inner(nth))),
    ]
}

/// A state in the middle, which usually leads to the next one.
fn inner(nth: usize, count: usize, jsonata: bool) -> impl Strategy<Value = Inner> {
    let on = if nth + 1 == count {
        Target::Release
    } else {
        Target::Inner(nth + 1)
    };
    let next = prop_oneof![
        12 => Just(on),
        2 => Just(Target::Release),
        2 => (0..count).prop_map(Target::Inner),
        1 => prop::sample::select(vec![Target::Acquire, Target::Done, Target::GiveBack]),
    ];
    let all = prop_oneof![
        12 => Just(Some(Target::GiveBack)),
        1 => Just(None),
        1 => Just(Some(Target::Failed)),
        1 => (0..count).prop_map(|nth| Some(Target::Inner(nth))),
    ];
    let timeout = prop_oneof![8 => Just(Some(Target::MayRun)), 1 => Just(None)];
    let limit = prop_oneof![
        8 => (1_u64..60).prop_map(Limit::Seconds),
        1 => Just(Limit::Absent),
        if jsonata { 3 } else { 0 } => Just(Limit::Safe),
    ];
    let again = (0_u64..3, 1_u64..4);
    let lost = prop_oneof![8 => Just(Some(Target::Failed)), 1 => Just(None), 1 => Just(Some(Target::Acquire))];
    prop_oneof![
        5 => (limit, again, timeout, all.clone(), next.clone())
            .prop_map(|(limit, again, on_timeout, on_all, next)| Inner::Work { limit, again, on_timeout, on_all, next }),
        4 => (1_u64..20, 0_u64..2, lost, all.clone(), next.clone())
            .prop_map(|(limit, again, on_lost, on_all, next)| Inner::Extend { limit, again, on_lost, on_all, next }),
        2 => (1_u64..90, next.clone()).prop_map(|(seconds, next)| Inner::Wait(seconds, next)),
        2 => (prop::collection::vec(next.clone(), 1..3), prop::option::weighted(0.9, next.clone()))
            .prop_map(|(rules, default)| Inner::Choice(rules, default)),
        1 => (1_u64..60, 1_u64..60, prop_oneof![6 => Just(Some(Target::MayRun)), 1 => Just(None)], next)
            .prop_map(|(left, right, on_all, next)| Inner::Both(left, right, on_all, next)),
    ]
}

const MAY_RUN: [&str; 6] = [
    "States.Timeout",
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.Unknown",
];

fn name(target: Target) -> String {
    match target {
        Target::Inner(nth) => format!("S{nth}"),
        other => format!("{other:?}"),
    }
}

impl Definition {
    /// The definition as a state machine.
    pub fn written(&self) -> Value {
        let mut states = serde_json::Map::new();
        let request = if self.jsonata {
            json!({"key": "k", "holder": "{% $states.context.Execution.Id %}", "request_id": "{% $states.context.State.EnteredTime %}",
                "ttl_seconds": self.ttl})
        } else {
            json!({"key": "k", "holder.$": "$$.Execution.Id", "request_id.$": "$$.State.EnteredTime", "ttl_seconds": self.ttl})
        };
        let mut acquire = self.call("acquire", &request);
        acquire["TimeoutSeconds"] = self.acquire_limit.into();
        acquire["Retry"] = json!([{"ErrorEquals": ["Lease.Unavailable"], "MaxAttempts": self.acquire_again, "IntervalSeconds": 2, "BackoffRate": 1}]);
        acquire["Next"] = name(Target::Inner(0)).into();
        if let Some(target) = self.acquire_caught {
            acquire["Catch"] = json!([self.caught(&["States.ALL"], &name(target))]);
        }
        states.insert("Acquire".into(), acquire);
        for (nth, inner) in self.inner.iter().enumerate() {
            states.insert(format!("S{nth}"), self.inner(inner));
        }
        for (from, to) in [("Release", "Done"), ("GiveBack", "Failed")] {
            let mut release = self.call("release", &self.handle());
            release["TimeoutSeconds"] = 10.into();
            release["Catch"] = json!([self.caught(&["States.ALL"], to)]);
            release["Next"] = to.into();
            states.insert(from.into(), release);
        }
        states.insert("Done".into(), json!({"Type": "Succeed"}));
        for fail in ["Failed", "MayRun"] {
            states.insert(fail.into(), json!({"Type": "Fail", "Error": fail}));
        }
        let around = self.around.map(|target| {
            let choice = Inner::Choice(vec![target], Some(Target::Acquire));
            states.insert("Around".into(), self.inner(&choice));
            "Around"
        });
        let language = if self.jsonata { "JSONata" } else { "JSONPath" };
        json!({"QueryLanguage": language, "StartAt": around.unwrap_or("Acquire"), "States": states})
    }

    fn handle(&self) -> Value {
        if self.jsonata {
            json!({"lease": "{% $lease %}"})
        } else {
            json!({"lease.$": "$.held.lease"})
        }
    }

    /// A task that calls a function and keeps its result in the place of the handle.
    fn call(&self, function: &str, payload: &Value) -> Value {
        let resource = "arn:aws:states:::lambda:invoke";
        if self.jsonata {
            json!({"Type": "Task", "Resource": resource, "Arguments": {"FunctionName": function, "Payload": payload},
                "Assign": {"lease": "{% $states.result.Payload.lease %}"}, "Output": "{% $states.input %}"})
        } else {
            json!({"Type": "Task", "Resource": resource, "Parameters": {"FunctionName": function, "Payload": payload},
                "ResultSelector": {"lease.$": "$.Payload.lease"}, "ResultPath": "$.held"})
        }
    }

    fn work(&self) -> Value {
        let resource = "arn:aws:states:::lambda:invoke";
        if self.jsonata {
            json!({"Type": "Task", "Resource": resource, "Arguments": {"FunctionName": "step"}, "Output": "{% $states.input %}"})
        } else {
            json!({"Type": "Task", "Resource": resource, "Parameters": {"FunctionName": "step"}, "ResultPath": "$.result"})
        }
    }

    fn caught(&self, errors: &[&str], next: &str) -> Value {
        if self.jsonata {
            json!({"ErrorEquals": errors, "Next": next})
        } else {
            json!({"ErrorEquals": errors, "ResultPath": "$.failure", "Next": next})
        }
    }

    fn inner(&self, inner: &Inner) -> Value {
        let mut catch = Vec::new();
        let mut meets = |errors: &[&str], target: &Option<Target>| {
            catch.extend(target.map(|target| self.caught(errors, &name(target))));
        };
        let mut state = match inner {
            Inner::Work {
                limit,
                again,
                on_timeout,
                on_all,
                ..
            } => {
                meets(&MAY_RUN, on_timeout);
                meets(&["States.ALL"], on_all);
                let mut work = self.work();
                match limit {
                    Limit::Seconds(seconds) => work["TimeoutSeconds"] = (*seconds).into(),
                    Limit::Absent => {}
                    Limit::Safe => {
                        let left = "{% ($left := $floor(($toMillis($lease.safe_until) - $millis()) / 1000); $left >= 1 ? $left) %}";
                        work["TimeoutSeconds"] = left.into();
                    }
                }
                work["Retry"] = json!([{"ErrorEquals": ["Own.Error"], "MaxAttempts": again.0, "IntervalSeconds": again.1, "BackoffRate": 2}]);
                work
            }
            Inner::Extend {
                limit,
                again,
                on_lost,
                on_all,
                ..
            } => {
                meets(&["Lease.Lost"], on_lost);
                meets(&["States.ALL"], on_all);
                let mut extend = self.call("extend", &self.handle());
                extend["TimeoutSeconds"] = (*limit).into();
                extend["Retry"] = json!([{"ErrorEquals": ["Lease.Unavailable"], "MaxAttempts": again, "IntervalSeconds": 1}]);
                extend
            }
            Inner::Wait(seconds, _) => json!({"Type": "Wait", "Seconds": seconds}),
            Inner::Choice(rules, default) => {
                let rule = |target: &Target| {
                    if self.jsonata {
                        json!({"Condition": "{% $states.input.x %}", "Next": name(*target)})
                    } else {
                        json!({"Variable": "$.x", "IsPresent": true, "Next": name(*target)})
                    }
                };
                let mut choice = json!({"Type": "Choice", "Choices": rules.iter().map(rule).collect::<Vec<_>>()});
                if let Some(target) = default {
                    choice["Default"] = name(*target).into();
                }
                return choice;
            }
            Inner::Both(left, right, on_all, _) => {
                meets(&["States.ALL"], on_all);
                let side = |at: &str, limit: &u64| {
                    let mut work = self.work();
                    work["TimeoutSeconds"] = (*limit).into();
                    work["End"] = true.into();
                    json!({"StartAt": at, "States": {at: work}})
                };
                let mut both = json!({"Type": "Parallel", "Branches": [side("Left", left), side("Right", right)]});
                let (key, to) = if self.jsonata {
                    ("Output", "{% $states.input %}")
                } else {
                    ("ResultPath", "$.results")
                };
                both[key] = to.into();
                both
            }
        };
        if !catch.is_empty() {
            state["Catch"] = catch.into();
        }
        let (Inner::Work { next, .. }
        | Inner::Extend { next, .. }
        | Inner::Wait(_, next)
        | Inner::Both(.., next)) = inner
        else {
            return state;
        };
        state["Next"] = name(*next).into();
        state
    }
}
