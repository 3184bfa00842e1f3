//! The cast of the demo: which executions there are, what each is to do, and how it is expected to end.

use serde_json::{Value, json};

/// The keys that are contended for, the first one's holder is stopped.
pub(super) const KEYS: [&str; 2] = ["orders/42", "deploy/staging"];
/// The state machine that the wrapper runs; its name is one that the template allows to be wrapped.
pub(super) const WRAPPED: &str = "leasehold-wrapped-demo";
/// How long the stopped execution holds before it is stopped.
pub(super) const STOP_AFTER_MS: u64 = 1_000;

/// What is special about an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Runs before all others, so that a cycle without contention can be counted.
    Alone,
    /// Is stopped in the middle of its section; its work, which nobody can stop, goes on for too long.
    Stopped,
    /// The process that acquires for it is killed before it can answer.
    Killed,
    /// Wraps another state machine in a lease.
    Wrapping,
    /// A critical section like any other.
    Section,
}

/// An execution to be started.
#[derive(Clone, Debug)]
pub(super) struct Role {
    pub(super) name: String,
    pub(super) key: &'static str,
    pub(super) part: Part,
    /// How long after the start of the crowd it starts.
    pub(super) after_ms: u64,
    ttl_seconds: f64,
    /// Length of the two steps; of a wrapped machine the first is all of it.
    work_seconds: [f64; 2],
}

impl Role {
    pub(super) const fn machine(&self) -> &'static str {
        match self.part {
            Part::Wrapping => "WithLeaseStateMachine",
            _ => "CriticalSectionStateMachine",
        }
    }

    pub(super) const fn expected_status(&self) -> &'static str {
        match self.part {
            Part::Stopped => "ABORTED",
            _ => "SUCCEEDED",
        }
    }

    /// The input of the execution; a wrapper needs the ARN of what it wraps.
    pub(super) fn input(&self, wrapped_arn: &str) -> Value {
        let [first, second] = self.work_seconds;
        match self.part {
            Part::Wrapping => json!({
                "key": self.key, "ttl_seconds": self.ttl_seconds, "state_machine_arn": wrapped_arn,
                "input": {"step": self.name, "work": {"seconds": first}},
            }),
            _ => json!({
                "key": self.key, "ttl_seconds": self.ttl_seconds,
                "first": {"seconds": first}, "second": {"seconds": second},
            }),
        }
    }
}

/// The executions of a run: the four with a part first, then sections on one key after the other.
pub(super) fn cast(executions: u16, seed: u64) -> Vec<Role> {
    let mut dice = Dice(seed);
    let [stopped_key, other_key] = KEYS;
    let mut roles = vec![
        role("alone", other_key, Part::Alone, 10.0, [0.4, 0.4]),
        // Its first step outlasts its lease by far: whoever takes over meets a writer that does not know.
        role("stopped", stopped_key, Part::Stopped, 5.0, [10.0, 0.0]),
        role("killed", other_key, Part::Killed, 10.0, [0.5, 0.5]),
        role("wrapping-1", other_key, Part::Wrapping, 6.0, [4.4, 0.0]),
        role("wrapping-2", stopped_key, Part::Wrapping, 6.0, [4.4, 0.0]),
    ];
    let special = u16::try_from(roles.len()).unwrap_or(u16::MAX);
    for number in 1..=executions.saturating_sub(special) {
        let key = KEYS[usize::from((number + 1) % 2)];
        let work = [dice.between(0.3, 0.9), dice.between(0.3, 0.9)];
        let name = format!("section-{number}");
        roles.push(role(&name, key, Part::Section, 10.0, work));
    }
    let mut after_ms = 0.0;
    let crowd = |role: &&mut Role| matches!(role.part, Part::Section | Part::Wrapping);
    for role in roles.iter_mut().filter(crowd) {
        after_ms += dice.between(60.0, 260.0);
        role.after_ms = whole(after_ms);
    }
    roles
}

fn role(
    name: &str,
    key: &'static str,
    part: Part,
    ttl_seconds: f64,
    work_seconds: [f64; 2],
) -> Role {
    Role {
        name: name.to_owned(),
        key,
        part,
        after_ms: 0,
        ttl_seconds,
        work_seconds,
    }
}

/// The machine to be wrapped: one step of work, which knows nothing of leases.
pub(super) fn wrapped_definition(step_arn: &str) -> String {
    json!({
        "Comment": "Work that knows nothing of leases.",
        "QueryLanguage": "JSONata",
        "StartAt": "Work",
        "States": {
            "Work": {
                "Type": "Task",
                "Comment": "Bounded, because whoever wraps it waits for it.",
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

/// `SplitMix64`: enough to vary lengths, and the same for the same seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Rounded to hundredths, so that an input is good to read.
    fn between(&mut self, low: f64, high: f64) -> f64 {
        let part = f64::from(u32::try_from(self.next() >> 32).unwrap_or(0)) / f64::from(u32::MAX);
        ((low + (high - low) * part) * 100.0).round() / 100.0
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Milliseconds of a minute, never negative.
fn whole(ms: f64) -> u64 {
    ms.max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_is_the_same_cast_and_another_is_another() {
        let works = |seed| {
            let cast = cast(12, seed);
            let all = cast.iter().map(|role| (role.work_seconds, role.after_ms));
            all.collect::<Vec<_>>()
        };
        assert_eq!(works(1), works(1));
        assert_ne!(works(1), works(2));
    }

    #[test]
    fn every_key_has_a_crowd_and_both_machines() {
        let cast = cast(12, 1);
        assert_eq!(cast.len(), 12);
        for key in KEYS {
            let on_key = |part| cast.iter().any(|role| role.key == key && role.part == part);
            assert!(on_key(Part::Section) && on_key(Part::Wrapping), "{key}");
        }
        let stopped = cast.iter().find(|role| role.part == Part::Stopped).unwrap();
        assert_eq!(
            (stopped.key, stopped.expected_status()),
            (KEYS[0], "ABORTED")
        );
    }
}
