//! Executions that are started through keys: who asks for them, again and again as queues deliver.
//!
//! `executions` is what becomes of each, `tasks` who waits for that, and `drain` the end of a round, when all have had their turn.

mod drain;
mod executions;
mod tasks;

use std::collections::BTreeMap;

use fastrand::Rng;
use futures_util::future::join_all;
use serde_json::json;

use crate::calls::{Answer, Caller, Reply};
use crate::context::Context;
use crate::fixture::{FLEETS, MACHINE};
use crate::history::{Run, StartAnswer, StartAsked, StartCall};
use crate::keys::PERMITS;
use crate::plan::Step;
use crate::rng::{choose, seeded};
use crate::watch::sleep_ms;

pub use drain::drain;
pub use executions::{run_until, runs};
use tasks::Drawn;
pub use tasks::{Task, Told, are_told};

/// How executions are started through one key.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// What the starts do while somebody else has the key.
    if_held: &'static [&'static str],
    /// How many of them may run at once.
    permits: u16,
    /// How many seconds a failed one keeps the key for a redrive, which comes.
    keep_seconds: u64,
    /// Some wait for a second, and no longer.
    gives_up: bool,
    /// They are passed the handle of their lease, and prove it.
    has_handle: bool,
    /// They need a permit of the round's pool besides.
    in_pool: bool,
}

const WAITS: Way = Way {
    if_held: &["wait"],
    permits: 1,
    keep_seconds: 0,
    gives_up: false,
    has_handle: false,
    in_pool: false,
};

/// How many of the round may have a permit of its pool at once.
pub const POOL: u16 = 3;

/// One for each key.
pub const WAYS: [Way; 12] = [
    WAITS,
    Way {
        has_handle: true,
        ..WAITS
    },
    Way {
        permits: PERMITS,
        ..WAITS
    },
    Way {
        if_held: &["wait", "skip"],
        permits: PERMITS,
        ..WAITS
    },
    Way {
        if_held: &["wait", "latest"],
        ..WAITS
    },
    Way {
        if_held: &["wait", "wait", "skip", "fail"],
        gives_up: true,
        ..WAITS
    },
    Way {
        keep_seconds: 2,
        ..WAITS
    },
    Way {
        if_held: &["wait", "replace"],
        ..WAITS
    },
    Way {
        in_pool: true,
        ..WAITS
    },
    Way {
        in_pool: true,
        keep_seconds: 2,
        has_handle: true,
        ..WAITS
    },
    Way {
        in_pool: true,
        permits: PERMITS,
        ..WAITS
    },
    Way {
        in_pool: true,
        if_held: &["wait", "latest", "replace"],
        ..WAITS
    },
];

/// As many of a key may wait, so that all have had their turn soon after the round.
const WAITING: usize = 4;
/// As many ask for a key at the same time.
const CALLERS: u64 = 2;
/// How often a call of unknown outcome is repeated.
const REPEATED: usize = 12;

impl Way {
    fn draw(&self, rng: &mut Rng, key: &str, name: &str) -> StartAsked {
        let if_held = *choose(rng, self.if_held);
        let at_least = u64::from(rng.u64(..5) == 0);
        let mut request = json!({
            "key": key,
            "state_machine_arn": MACHINE,
            "name": name,
            "input": {"name": name},
            "if_held": if_held,
            "pass_lease": if self.has_handle { json!("handle") } else { json!(true) },
            "at_least_seconds": at_least,
            "keep_seconds": self.keep_seconds,
        });
        if self.permits > 1 {
            request["permits"] = self.permits.into();
        }
        let pool = self.in_pool.then(|| {
            let round = key.split('/').next().unwrap_or_default();
            format!("{round}/pool")
        });
        if let Some(name) = &pool {
            request["pool"] = json!({"name": name, "permits": POOL});
        }
        let gives_up = self.gives_up && if_held == "wait" && rng.bool();
        if gives_up {
            request["wait_seconds"] = 1.into();
        }
        let is_newest = |word: &&str| ["latest", "replace"].contains(word);
        StartAsked {
            key: key.to_owned(),
            execution: started_arn(name),
            request,
            is_certain: if_held == "wait" && !gives_up && !self.if_held.iter().any(is_newest),
            permits: self.permits,
            pool,
            if_held,
            leaves: false,
            at_least: at_least * 1_000_000,
            keep: self.keep_seconds * 1_000_000,
            calls: Vec::new(),
        }
    }
}

/// The ARN of the execution of this name.
fn started_arn(name: &str) -> String {
    let executions = MACHINE.replacen(":stateMachine:", ":execution:", 1);
    format!("{executions}:{name}")
}

/// The name of this execution.
fn name_of(execution: &str) -> &str {
    execution.rsplit(':').next().unwrap_or_default()
}

/// The start of the name of every execution that is started in the round.
fn own_prefix(context: &Context) -> String {
    format!("r{}-start-", context.round)
}

/// Starts by what was heard of them in the end, and what their executions did.
#[must_use]
pub fn count(starts: &[StartAsked], runs: &[Run]) -> BTreeMap<&'static str, u64> {
    let heard = starts.iter().map(|start| match start.last_heard() {
        None | Some(StartAnswer::Unknown) => "of unknown outcome",
        Some(StartAnswer::Started) => "started",
        Some(StartAnswer::Queued) => "queued",
        Some(StartAnswer::Skipped) => "skipped",
        Some(StartAnswer::Superseded(_)) => "superseded",
        Some(StartAnswer::Failed) => "gave up",
        Some(StartAnswer::Refused) => "refused",
    });
    let redriven = runs.iter().filter(|run| run.is_redrive);
    let stopped = runs.iter().filter(|run| run.status == "ABORTED");
    let copies = starts.iter().filter(|start| start.calls.len() > 1);
    let mut counts = BTreeMap::new();
    let others = redriven.map(|_| "redriven");
    let others = others.chain(stopped.map(|_| "stopped"));
    let others = others.chain(copies.map(|_| "asked for again"));
    for kind in heard.chain(others) {
        *counts.entry(kind).or_default() += 1;
    }
    counts
}

/// Asks for executions through every key until the round is over.
pub async fn ask(context: &Context) {
    let all = (0..WAYS.len()).flat_map(|way| (0..CALLERS).map(move |caller| (way, caller)));
    join_all(all.map(|(way, caller)| ask_for(context, way, caller))).await;
}

async fn ask_for(context: &Context, way: usize, caller: u64) {
    let key = &context.keys.starts[way];
    let rng = &mut seeded(context.seed, &[context.round, 0x57a7, way as u64, caller]);
    let mut count = 0;
    while !context.is_over() {
        sleep_ms(rng.u64(200..=1200)).await;
        if waiting(context, key) >= WAITING {
            continue;
        }
        let name = format!("{}{way}-{caller}-{count}", own_prefix(context));
        count += 1;
        let mut asked = WAYS[way].draw(rng, key, &name);
        // What is refused is the answer of the call alone.
        if asked.if_held != "fail"
            && let Some(task) = Drawn::draw(rng, !WAYS[way].has_handle)
        {
            tasks::wait(context, &mut asked, task);
        }
        let copies = 1 + u64::from(rng.u64(..4) == 0);
        let steps: Vec<_> = (0..copies).map(|_| Step::draw(rng, 200)).collect();
        let place = {
            let mut history = context.history();
            history.starts.push(asked.clone());
            history.starts.len() - 1
        };
        let calls = steps.iter().map(|step| deliver(context, &asked, *step));
        let calls = join_all(calls).await.into_iter().flatten();
        context.history().starts[place].calls.extend(calls);
    }
}

/// How many of a key wait, for all that their callers know.
fn waiting(context: &Context, key: &str) -> usize {
    let open = drain::open(context);
    open.iter().filter(|(_, start)| start.key == key).count()
}

/// Calls until somebody answers: the first time with the fault of the step, then by the other fleets.
async fn deliver(context: &Context, asked: &StartAsked, first: Step) -> Vec<StartCall> {
    let name = name_of(&asked.execution);
    let caller = Caller::new(context, asked.execution.clone(), format!("{name}. "));
    // Nothing but this start has it in its requests.
    let text = format!("{name}\"");
    let mut calls = Vec::new();
    for repeated in 0..REPEATED {
        let step = if repeated == 0 {
            first
        } else {
            Step {
                fleet: (first.fleet + repeated) % FLEETS.len(),
                fault: None,
                after: 50,
            }
        };
        let reply = caller.call("start", step, &asked.request, &text).await;
        let answer = answer(&caller, asked, &reply);
        let is_known = answer != StartAnswer::Unknown;
        calls.push(StartCall {
            begin: reply.begin,
            end: reply.end,
            answer,
        });
        if is_known {
            break;
        }
    }
    calls
}

fn answer(caller: &Caller<'_>, asked: &StartAsked, reply: &Reply) -> StartAnswer {
    let known = match &reply.answer {
        Answer::Well(answer) if answer["execution_arn"] == asked.execution.as_str() => {
            match answer["outcome"].as_str() {
                Some("started") => Some(StartAnswer::Started),
                Some("queued") => Some(StartAnswer::Queued),
                Some("skipped") if asked.if_held == "skip" || asked.leaves => {
                    Some(StartAnswer::Skipped)
                }
                Some("superseded") => {
                    let by = answer["by"].as_str().unwrap_or_default();
                    Some(StartAnswer::Superseded(by.to_owned()))
                }
                _ => None,
            }
        }
        Answer::Well(_) => None,
        Answer::Error(name, _) => match (name.as_str(), asked.if_held) {
            ("Lease.Held", "fail") => Some(StartAnswer::Refused),
            ("Lease.NotStarted", "wait") if !asked.request["wait_seconds"].is_null() => {
                Some(StartAnswer::Failed)
            }
            _ => None,
        },
        Answer::Unknown => return StartAnswer::Unknown,
    };
    known.unwrap_or_else(|| {
        caller.unexpected(&format!("start: {:?}", reply.answer));
        StartAnswer::Unknown
    })
}
