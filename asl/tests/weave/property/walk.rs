//! Executions of a plain machine and of its woven form, step by step, with the same outcomes of tasks. They visit the same states in
//! the same order and end alike, and every guarded state runs under a lease.

use serde_json::Value;

/// The most states of an execution, because a loop may be endless.
const LONGEST: usize = 60;
/// The outcome of a task.
const FORTUNES: [&str; 6] = ["", "", "", "Own.Error", "States.Timeout", "Lambda.Unknown"];

/// The observation of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The author's states, in order.
    pub states: Vec<String>,
    /// The error at its end. Empty for success, none if the walk did not reach the end.
    pub end: Option<String>,
}

/// The execution's state of the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lease {
    Free,
    Held,
    /// An abandoned task may still be running.
    Left,
}

/// The outcome of the nth task. It depends only on the seed, so it is the same for both machines.
fn fortune(seed: u64, nth: usize) -> &'static str {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..=nth)
        .map(|_| FORTUNES[rng.usize(..FORTUNES.len())])
        .last()
        .unwrap()
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

/// The section of a woven machine.
#[derive(Clone, Copy)]
pub struct Woven<'a> {
    pub members: &'a [String],
    /// The lease lasts as long as the execution.
    pub of_execution: bool,
}

/// Walks through a machine. If it is woven, the members of its section run under a lease.
pub fn walk(machine: &Value, seed: u64, woven: Option<Woven<'_>>) -> Result<Seen, String> {
    let mut walk = Walk {
        states: &machine["States"],
        seed,
        members: woven.map(|woven| woven.members),
        of_execution: woven.is_some_and(|woven| woven.of_execution),
        lease: Lease::Free,
        error: "",
        tasks: 0,
        choices: 0,
        met: Seen {
            states: Vec::new(),
            end: None,
        },
    };
    let mut at = machine["StartAt"].as_str().unwrap().to_owned();
    while walk.met.states.len() < LONGEST && walk.met.end.is_none() {
        walk.enter(&at)?;
        walk.call(&at)?;
        if let Some(next) = walk.leave(&at)? {
            at = next;
        }
    }
    walk.ended()?;
    Ok(walk.met)
}

struct Walk<'a> {
    states: &'a Value,
    seed: u64,
    members: Option<&'a [String]>,
    of_execution: bool,
    lease: Lease,
    /// The last one.
    error: &'static str,
    tasks: usize,
    choices: usize,
    met: Seen,
}

impl Walk<'_> {
    fn enter(&mut self, at: &str) -> Result<(), String> {
        let state = &self.states[at];
        let is_ours = at.starts_with('G');
        if !is_ours {
            self.met.states.push(at.to_owned());
            let inside = self
                .members
                .is_some_and(|members| members.iter().any(|member| member == at));
            let kind = state["Type"].as_str().unwrap();
            let ends = self.of_execution && matches!(kind, "Succeed" | "Fail");
            if self.members.is_some() && !ends && inside != (self.lease == Lease::Held) {
                return Err(format!("in {at} the lease is {:?}", self.lease));
            }
        }
        match state["Type"].as_str().unwrap() {
            "Succeed" => self.met.end = Some(String::new()),
            "Fail" if is_ours => self.met.end = Some(self.error.to_owned()),
            "Fail" => self.met.end = Some(state["Error"].as_str().unwrap().to_owned()),
            _ => {}
        }
        Ok(())
    }

    /// The effect of this state on the lease.
    fn call(&mut self, at: &str) -> Result<(), String> {
        let state = &self.states[at];
        let arguments = state.get("Arguments").or_else(|| state.get("Parameters"));
        let function = arguments.and_then(|arguments| arguments["FunctionName"].as_str());
        self.lease = match (function.unwrap_or_default(), self.lease) {
            ("${AcquireFunction}", _) => Lease::Held,
            ("${ReleaseFunction}", Lease::Held) => Lease::Free,
            ("${ReleaseFunction}" | "${ExtendFunction}", lease) if lease != Lease::Held => {
                return Err(format!("{at} is about a lease that is {lease:?}"));
            }
            (_, lease) => lease,
        };
        let assigned = state["Assign"].as_object();
        if assigned.is_some_and(|assigned| assigned.get("g_lease") == Some(&Value::Null)) {
            self.lease = Lease::Left;
        }
        Ok(())
    }

    /// The next state. None at the end.
    fn leave(&mut self, at: &str) -> Result<Option<String>, String> {
        if self.met.end.is_some() {
            return Ok(None);
        }
        let state = &self.states[at];
        let kind = state["Type"].as_str().unwrap();
        let is_ours = at.starts_with('G');
        let mut error = "";
        if !is_ours && matches!(kind, "Task" | "Parallel") {
            error = fortune(self.seed, self.tasks);
            self.tasks += 1;
        }
        if error.is_empty() {
            let mut next = &state["Next"];
            if kind == "Choice" {
                self.choices += 1;
                let by_rule = !is_ours && fortune(!self.seed, self.choices).is_empty();
                next = if by_rule {
                    &state["Choices"][0]["Next"]
                } else {
                    &state["Default"]
                };
            }
            if next.is_null() {
                let end = if kind == "Choice" {
                    "States.NoChoiceMatched"
                } else {
                    ""
                };
                self.met.end = Some(end.to_owned());
            }
            return Ok(next.as_str().map(str::to_owned));
        }
        self.error = error;
        let clauses = state["Catch"].as_array();
        let Some(clause) =
            clauses.and_then(|clauses| clauses.iter().find(|clause| catches(clause, error)))
        else {
            self.met.end = Some(error.to_owned());
            return Ok(None);
        };
        let next = clause["Next"].as_str().unwrap();
        let branches = state["Branches"].as_array().map_or(0, Vec::len);
        // A Parallel contains functions.
        let resource = state["Resource"].as_str().unwrap_or("lambda");
        let is_left = match error {
            "States.Timeout" => !resource.ends_with("getItem"),
            _ => may_run(error) && resource.contains("lambda"),
        };
        let is_open = is_left || branches > 1;
        let releases = self.states[next].to_string().contains("ReleaseFunction");
        if is_open && releases && self.members.is_some() && self.lease == Lease::Held {
            return Err(format!("{next} releases over {error}"));
        }
        // An execution lease stays where a failure does not show what is still running.
        let stays = self
            .members
            .is_some_and(|members| members.iter().any(|member| member == at))
            && !self
                .members
                .is_some_and(|members| members.iter().any(|member| member == next))
            && !next.starts_with('G');
        if self.of_execution && stays && (is_open || branches > 0) {
            self.lease = Lease::Left;
        }
        Ok(Some(next.to_owned()))
    }

    /// A lease that is held at the end belongs to work that may still be running.
    fn ended(&self) -> Result<(), String> {
        let is_held = self.met.end.is_some() && self.lease == Lease::Held;
        if is_held && !may_run(self.error) && !self.of_execution {
            return Err(format!("the lease is held after {:?}", self.met.end));
        }
        Ok(())
    }
}
