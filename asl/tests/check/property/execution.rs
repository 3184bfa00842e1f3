//! All executions of a small definition, second by second: the second opinion.
//!
//! The state of an execution is its position and the age of its lease. Beyond a certain age all ages are equal, so there are
//! finitely many states, and all are visited. Every attempt takes no time or its whole limit. Every call fails in every possible way.

use serde_json::Value;
use std::collections::HashSet;

/// The clock margin and the guard, which are subtracted from a lease.
const LOST_SECONDS: u64 = 3;

/// The execution's state of the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Lease {
    /// It was never granted.
    Never,
    /// It was released, or is lost.
    Over,
    /// Seconds since it was last granted or extended.
    Held(u64),
    /// The same, and an abandoned function may still be running.
    Abandoned(u64),
}

impl Lease {
    /// After a grant has ended.
    fn over(self) -> Self {
        match self {
            Self::Never => Self::Never,
            _ => Self::Over,
        }
    }

    /// After a function was abandoned.
    fn abandoned(self) -> Self {
        match self {
            Self::Held(age) => Self::Abandoned(age),
            other => other,
        }
    }
}

struct Walk<'a> {
    states: &'a Value,
    /// How many seconds a lease can be trusted.
    trusted: u64,
    seen: HashSet<(&'a str, Lease)>,
    open: Vec<(&'a str, Lease)>,
    /// The states that work under the lease or use its handle, and the states before it.
    with: HashSet<&'a str>,
    without: HashSet<&'a str>,
    fault: Option<String>,
}

/// The fault of a definition, if there is one.
pub fn worst(definition: &Value) -> Option<String> {
    let states = &definition["States"];
    let ttl = &arguments(&states["Acquire"])["Payload"]["ttl_seconds"];
    let mut walk = Walk {
        states,
        trusted: ttl.as_u64().unwrap() - LOST_SECONDS,
        seen: HashSet::new(),
        open: Vec::new(),
        with: HashSet::new(),
        without: HashSet::new(),
        fault: None,
    };
    walk.go(definition["StartAt"].as_str().unwrap(), Lease::Never);
    while let (Some((at, lease)), None) = (walk.open.pop(), &walk.fault) {
        walk.step(at, lease);
    }
    let both = walk.with.intersection(&walk.without).next();
    let unprotected = both.map(|at| format!("{at} is done with the lease and without it"));
    walk.fault.or(unprotected)
}

fn arguments(task: &Value) -> &Value {
    task.get("Arguments").unwrap_or(&task["Parameters"])
}

/// All times that the attempts which a Retry allows may take, with the waits between them.
fn times(limit: u64, retry: &Value) -> Vec<u64> {
    let number = |key: &str| retry[0][key].as_u64().unwrap_or_default();
    let mut all = vec![0, limit];
    let mut before = vec![0];
    let mut wait = number("IntervalSeconds");
    for _ in 0..number("MaxAttempts") {
        let failed = before
            .iter()
            .flat_map(|time| [time + wait, time + wait + limit]);
        before = failed.collect();
        all.extend(before.iter().flat_map(|time| [*time, time + limit]));
        wait *= number("BackoffRate");
    }
    all.sort_unstable();
    all.dedup();
    all
}

impl<'a> Walk<'a> {
    fn later(&self, lease: Lease, seconds: u64) -> Lease {
        let add = |age: u64| (age + seconds).min(self.trusted + 1);
        match lease {
            Lease::Never | Lease::Over => lease,
            Lease::Held(age) => Lease::Held(add(age)),
            Lease::Abandoned(age) => Lease::Abandoned(add(age)),
        }
    }

    fn wrong(&mut self, what: String) {
        self.fault.get_or_insert(what);
    }

    fn go(&mut self, to: &'a str, lease: Lease) {
        if self.seen.insert((to, lease)) {
            self.open.push((to, lease));
        }
    }

    /// Goes on along a state's Next.
    fn on(&mut self, state: &'a Value, lease: Lease) {
        self.go(state["Next"].as_str().unwrap(), lease);
    }

    /// Goes to the target of an error, or to the end of the execution.
    fn fail(&mut self, state: &'a Value, error: &str, lease: Lease) {
        let mut clauses = state["Catch"].as_array().into_iter().flatten();
        let clause = clauses.find(|clause| {
            let mut names = clause["ErrorEquals"].as_array().unwrap().iter();
            names.any(|name| name == error || name == "States.ALL")
        });
        let to = clause.and_then(|clause| clause["Next"].as_str());
        self.go(to.unwrap_or("Failed"), lease);
    }

    fn step(&mut self, at: &'a str, lease: Lease) {
        let state = &self.states[at];
        let limit = &state["TimeoutSeconds"];
        match state["Type"].as_str().unwrap() {
            "Task" => match arguments(state)["FunctionName"].as_str().unwrap() {
                "acquire" => self.acquire(state, limit.as_u64().unwrap(), lease),
                "extend" => self.extend(at, state, limit.as_u64().unwrap(), lease),
                "release" => {
                    self.takes_handle(at, lease);
                    self.on(state, lease.over());
                }
                _ => self.work(at, state, lease),
            },
            "Wait" => {
                let after = self.later(lease, state["Seconds"].as_u64().unwrap());
                self.on(state, after);
            }
            "Choice" => {
                for rule in state["Choices"].as_array().unwrap() {
                    self.on(rule, lease);
                }
                self.go(state["Default"].as_str().unwrap_or("Failed"), lease);
            }
            "Parallel" => self.both(at, state, lease),
            _ => {
                if let Lease::Held(_) = lease {
                    self.wrong(format!("ends at {at} without a release"));
                }
            }
        }
    }

    /// An extend or a release needs a handle, even of an ended lease.
    fn takes_handle(&mut self, at: &'a str, lease: Lease) {
        let met = match lease {
            Lease::Never => &mut self.without,
            _ => &mut self.with,
        };
        met.insert(at);
    }

    fn acquire(&mut self, state: &'a Value, limit: u64, lease: Lease) {
        if let Lease::Held(_) = lease {
            self.wrong("acquires although it has the lease already".to_owned());
        }
        // The first attempt was granted the lease, and each response but the last was lost.
        for age in times(limit, &state["Retry"]) {
            let granted = self.later(Lease::Held(0), age);
            self.on(state, granted);
        }
        self.fail(state, "", lease.over());
    }

    /// Work that begins now and takes this long.
    fn works(&mut self, at: &'a str, lease: Lease, seconds: u64) -> Lease {
        match lease {
            Lease::Held(_) => _ = self.with.insert(at),
            Lease::Never => _ = self.without.insert(at),
            Lease::Over | Lease::Abandoned(_) => {}
        }
        let after = self.later(lease, seconds);
        if let Lease::Held(age) | Lease::Abandoned(age) = after
            && seconds > 0
            && age > self.trusted
        {
            self.wrong("works when the lease cannot be trusted any more".to_owned());
        }
        after
    }

    fn work(&mut self, at: &'a str, state: &'a Value, lease: Lease) {
        let is_safe = state["TimeoutSeconds"].is_string();
        let limit = match (state["TimeoutSeconds"].as_u64(), lease) {
            (Some(seconds), _) => seconds,
            (None, _) if !is_safe => self.trusted * 10,
            (None, Lease::Held(age) | Lease::Abandoned(age)) => {
                // No time is left, so the limit has no value and nothing begins.
                self.fail(state, "", lease);
                match self.trusted.saturating_sub(age) {
                    0 => return,
                    left => left,
                }
            }
            (None, Lease::Never | Lease::Over) => return self.fail(state, "", lease),
        };
        for seconds in times(limit, &state["Retry"]) {
            // Every attempt computes the remaining time again.
            if is_safe && seconds > limit {
                continue;
            }
            let after = self.works(at, lease, seconds);
            self.on(state, after);
            self.fail(state, "", after);
            self.fail(state, "States.Timeout", after.abandoned());
        }
    }

    fn extend(&mut self, at: &'a str, state: &'a Value, limit: u64, lease: Lease) {
        self.takes_handle(at, lease);
        if lease == Lease::Never {
            return self.fail(state, "", lease);
        }
        self.fail(state, "Lease.Lost", Lease::Over);
        if lease == Lease::Over {
            return;
        }
        for seconds in times(limit, &state["Retry"]) {
            let after = self.later(lease, seconds);
            self.fail(state, "", after);
        }
        for age in [0, limit] {
            let age = age.min(self.trusted + 1);
            let extended = match lease {
                Lease::Abandoned(_) => Lease::Abandoned(age),
                _ => Lease::Held(age),
            };
            self.on(state, extended);
        }
    }

    fn both(&mut self, at: &'a str, state: &'a Value, lease: Lease) {
        let limit = |side: usize, name: &str| {
            let task = &state["Branches"][side]["States"][name];
            task["TimeoutSeconds"].as_u64().unwrap()
        };
        let (left, right) = (limit(0, "Left"), limit(1, "Right"));
        for seconds in [0, left, right] {
            let after = self.works(at, lease, seconds);
            // The other one is still running.
            self.fail(state, "", after.abandoned());
        }
        let after = self.works(at, lease, left.max(right));
        self.on(state, after);
        self.on(state, lease);
    }
}
