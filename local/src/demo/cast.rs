//! The executions of the demo: the work of each, and how it is expected to end.

use serde::Serialize;
use serde_json::{Value, json};

/// The contended keys. The holder of the first one is stopped.
pub(super) const KEYS: [&str; 2] = ["orders/42", "deploy/staging"];
/// The key of the queue.
pub(super) const QUEUE_KEY: &str = "payouts/eu";
/// How many executions queue for it.
pub(super) const WAITERS: u16 = 16;
/// The state machine that the wrapper runs. The template allows machines of such names to be wrapped.
pub(super) const WRAPPED: &str = "leasehold_wrapped_demo";

const STOPPED_HOLDING: u16 = 7;
const STOPPED_WAITING: u16 = 11;

/// The special part of an execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Scenario {
    /// It is stopped in the middle of its section. Its work cannot be stopped, and goes on for too long.
    Stopped,
    /// The process of its acquire is killed before it can respond.
    Killed,
    /// It wraps another state machine in a lease.
    Wrapping,
    /// It runs an ordinary critical section.
    #[default]
    Section,
    /// It queues, gets the lease, and ends.
    Waits,
    /// It is stopped while it queues.
    StoppedWaiting,
    /// It is stopped while it holds the lease. Its work goes on for a while.
    StoppedHolding,
}

/// An execution to start.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlannedExecution {
    pub(super) name: String,
    pub(super) key: &'static str,
    pub(super) part: Scenario,
    /// Its start, counted from the start of the crowd.
    pub(super) after_ms: u64,
    /// None if its lease lasts while it runs.
    ttl_seconds: Option<f64>,
    /// Lengths of the two steps. A wrapped machine has only the first.
    work_seconds: [f64; 2],
}

impl PlannedExecution {
    pub(super) const fn machine(&self) -> &'static str {
        match self.part {
            Scenario::Wrapping => "WithLeaseStateMachine",
            Scenario::Waits | Scenario::StoppedWaiting | Scenario::StoppedHolding => {
                "QueuedSectionStateMachine"
            }
            _ => "CriticalSectionStateMachine",
        }
    }

    pub(super) const fn expected_status(&self) -> &'static str {
        match self.part {
            Scenario::Stopped | Scenario::StoppedWaiting | Scenario::StoppedHolding => "ABORTED",
            _ => "SUCCEEDED",
        }
    }

    /// The input of the execution. A wrapper needs the ARN of the wrapped machine.
    pub(super) fn input(&self, wrapped_arn: &str) -> Value {
        let [first, second] = self.work_seconds;
        let mut input = json!({"key": self.key});
        if self.machine() == "WithLeaseStateMachine" {
            input["state_machine_arn"] = json!(wrapped_arn);
            input["input"] = json!({"step": self.name, "work": {"seconds": first}});
            return input;
        }
        input["first"] = json!({"seconds": first});
        input["second"] = json!({"seconds": second});
        match self.ttl_seconds {
            Some(ttl) => input["ttl_seconds"] = json!(ttl),
            None => input["wait_seconds"] = json!(300),
        }
        input
    }
}

/// The executions of the first act: first those with a special part, then sections on the keys in turn.
pub(super) fn contenders(executions: u16, seed: u64) -> Vec<PlannedExecution> {
    let mut random = fastrand::Rng::with_seed(seed);
    // Rounded to hundredths, so that inputs are easy to read.
    let mut between =
        |low: f64, high: f64| ((low + (high - low) * random.f64()) * 100.0).round() / 100.0;
    let [stopped_key, other_key] = KEYS;
    let role = |name: &str, key, part, ttl_seconds, work_seconds| PlannedExecution {
        name: name.to_owned(),
        key,
        part,
        after_ms: 0,
        ttl_seconds,
        work_seconds,
    };
    let mut roles = vec![
        role(
            "killed",
            other_key,
            Scenario::Killed,
            Some(10.0),
            [0.5, 0.5],
        ),
        // Its first step outlasts its own lease. Whoever is next takes over, because nobody queues for this key.
        role(
            "stopped",
            stopped_key,
            Scenario::Stopped,
            Some(5.0),
            [20.0, 0.0],
        ),
        role(
            "wrapping-1",
            other_key,
            Scenario::Wrapping,
            None,
            [2.4, 0.0],
        ),
        role(
            "wrapping-2",
            other_key,
            Scenario::Wrapping,
            None,
            [2.4, 0.0],
        ),
    ];
    let special = u16::try_from(roles.len()).unwrap_or(u16::MAX);
    for number in 1..=executions.saturating_sub(special) {
        let key = KEYS[usize::from((number + 1) % 2)];
        let work = [between(0.3, 0.9), between(0.3, 0.9)];
        let name = format!("section-{number}");
        roles.push(role(&name, key, Scenario::Section, Some(10.0), work));
    }
    let mut after_ms = 0;
    let crowd =
        |role: &&mut PlannedExecution| matches!(role.part, Scenario::Section | Scenario::Wrapping);
    for role in roles.iter_mut().filter(crowd) {
        after_ms += random.u64(60..260);
        role.after_ms = after_ms;
    }
    roles
}

/// The executions of the second act, in the order of their start.
pub(super) fn waiters() -> Vec<PlannedExecution> {
    let role = |number| {
        let (part, first) = match number {
            STOPPED_HOLDING => (Scenario::StoppedHolding, 1.5),
            STOPPED_WAITING => (Scenario::StoppedWaiting, 0.1),
            _ => (Scenario::Waits, 0.1),
        };
        PlannedExecution {
            name: format!("waiter-{number}"),
            key: QUEUE_KEY,
            part,
            after_ms: 0,
            ttl_seconds: None,
            work_seconds: [first, 0.0],
        }
    };
    (1..=WAITERS).map(role).collect()
}

/// The machine to be wrapped: one step of work without a lease.
pub(super) fn wrapped_definition(step_arn: &str) -> String {
    json!({
        "Comment": "Work without a lease.",
        "QueryLanguage": "JSONata",
        "StartAt": "Work",
        "States": {
            "Work": {
                "Type": "Task",
                "Comment": "Bounded, because the wrapper waits for it.",
                "Resource": "arn:aws:states:::lambda:invoke",
                "TimeoutSeconds": 30,
                "Arguments": {"FunctionName": step_arn, "Payload": "{% $states.input %}"},
                "Output": "{% $states.result.Payload %}",
                "End": true,
            }
        }
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_fixes_who_takes_part() {
        let cast = contenders(12, 1);
        assert_eq!(cast, contenders(12, 1));
        assert_ne!(cast, contenders(12, 2));
        assert_eq!(cast.len(), 12);
        let on_key = |key, part| cast.iter().any(|role| role.key == key && role.part == part);
        for (key, wraps) in KEYS.into_iter().zip([false, true]) {
            assert!(on_key(key, Scenario::Section), "{key}");
            assert_eq!(on_key(key, Scenario::Wrapping), wraps, "{key}");
        }
    }
}
