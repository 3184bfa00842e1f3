//! Executions of a plain machine and of what was woven of it, step by step, under the same fortune: the same states in the same order,
//! and the same end; and whatever is guarded is done under a lease.

use serde_json::Value;

/// So many states are gone through; a loop may go on for ever.
const LONGEST: usize = 60;
/// What becomes of a task.
const FORTUNES: [&str; 6] = ["", "", "", "Own.Error", "States.Timeout", "Lambda.Unknown"];

/// What was seen of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The author's states, in order.
    pub states: Vec<String>,
    /// The error it ended with; empty for none, nothing if it was not gone through to the end.
    pub end: Option<String>,
}

/// How it stands with the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lease {
    Free,
    Held,
    /// A task was left that may be at work.
    Left,
}

/// What becomes of the nth task: by the seed alone, so that both machines meet the same.
fn fortune(seed: u64, nth: usize) -> &'static str {
    let mut mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(nth as u64 + 1));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^= mixed >> 27;
    FORTUNES[usize::try_from(mixed % FORTUNES.len() as u64).unwrap()]
}

fn catches(clause: &Value, error: &str) -> bool {
    let names = clause["ErrorEquals"].as_array().unwrap().iter();
    names.map(|name| name.as_str().unwrap()).any(|name| {
        name == error
            || name == "States.ALL"
            || (name == "States.TaskFailed" && error != "States.Timeout")
    })
}

fn may_run(error: &str) -> bool {
    matches!(error, "States.Timeout" | "Lambda.Unknown")
}

/// Goes through a machine; `members` are done under a lease, if it is woven.
pub fn walk(machine: &Value, seed: u64, members: Option<&[String]>) -> Result<Seen, String> {
    let states = &machine["States"];
    let mut seen = Seen {
        states: Vec::new(),
        end: None,
    };
    let mut lease = Lease::Free;
    let mut last_error = "";
    let mut at = machine["StartAt"].as_str().unwrap().to_owned();
    let (mut tasks, mut choices) = (0, 0);
    while seen.states.len() < LONGEST {
        let state = &states[&at];
        let is_ours = at.starts_with('G');
        if !is_ours {
            seen.states.push(at.clone());
            let inside = members.is_some_and(|members| members.contains(&at));
            if members.is_some() && inside != (lease == Lease::Held) {
                return Err(format!("in {at} the lease is {lease:?}"));
            }
        }
        let kind = state["Type"].as_str().unwrap();
        match kind {
            "Succeed" => seen.end = Some(String::new()),
            "Fail" => {
                let own = state["Error"].as_str().unwrap();
                seen.end = Some(if is_ours {
                    last_error.to_owned()
                } else {
                    own.to_owned()
                });
            }
            _ => {}
        }
        if seen.end.is_some() {
            break;
        }
        let function = state
            .pointer("/Arguments/FunctionName")
            .or_else(|| state.pointer("/Parameters/FunctionName"));
        match function.and_then(Value::as_str).unwrap_or_default() {
            "${AcquireFunction}" => lease = Lease::Held,
            "${ExtendFunction}" if lease != Lease::Held => {
                return Err(format!("{at} extends what is {lease:?}"));
            }
            "${ReleaseFunction}" if lease != Lease::Held => {
                return Err(format!("{at} releases what is {lease:?}"));
            }
            "${ReleaseFunction}" => lease = Lease::Free,
            _ => {}
        }
        if is_ours
            && state["Assign"]
                .as_object()
                .is_some_and(|assign| assign.get("g_lease") == Some(&Value::Null))
        {
            lease = Lease::Left;
        }
        let mut error = "";
        if !is_ours && matches!(kind, "Task" | "Parallel") {
            error = fortune(seed, tasks);
            tasks += 1;
        }
        if error.is_empty() {
            let next = if kind == "Choice" {
                choices += 1;
                let by_rule = !is_ours && fortune(!seed, choices).is_empty();
                if by_rule {
                    &state["Choices"][0]["Next"]
                } else {
                    &state["Default"]
                }
            } else {
                &state["Next"]
            };
            let Some(next) = next.as_str() else {
                seen.end = Some(String::new());
                break;
            };
            at = next.to_owned();
            continue;
        }
        last_error = error;
        let clauses = state["Catch"].as_array();
        let clause =
            clauses.and_then(|clauses| clauses.iter().find(|clause| catches(clause, error)));
        let Some(clause) = clause else {
            seen.end = Some(error.to_owned());
            break;
        };
        at = clause["Next"].as_str().unwrap().to_owned();
        let is_open = may_run(error)
            || state["Branches"]
                .as_array()
                .is_some_and(|branches| branches.len() > 1);
        let released = states[&at].to_string().contains("ReleaseFunction");
        if is_open && released && members.is_some() && lease == Lease::Held {
            return Err(format!("{at} releases over {error}"));
        }
    }
    // What is held in the end is left to what may be at work.
    let is_open = may_run(last_error) || lease != Lease::Held;
    if seen.end.is_some() && members.is_some() && !is_open && !last_error.is_empty() {
        return Err(format!("the lease is {lease:?} after {last_error}"));
    }
    if seen.end.as_deref() == Some("") && lease == Lease::Held {
        return Err("the lease is held after the end".to_owned());
    }
    Ok(seen)
}
