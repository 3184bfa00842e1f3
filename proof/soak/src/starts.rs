//! Executions that are started through keys: who asks for them, again and again as queues deliver, and what becomes of each.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::calls::{Answer, Caller};
use crate::context::Context;
use crate::fixture::MACHINE;
use crate::history::{Run, StartAnswer, StartAsked, StartCall};
use crate::keys::PERMITS;
use crate::plan::Step;
use crate::rng::{choose, seeded};
use crate::watch::sleep_ms;

/// The ARN of the execution of this name.
fn started_arn(name: &str) -> String {
    let executions = MACHINE.replacen(":stateMachine:", ":execution:", 1);
    format!("{executions}:{name}")
}

/// As many of a key may wait, so that all have had their turn soon after the round.
const WAITING: usize = 4;
/// How often a call of unknown outcome is repeated.
const REPEATED: usize = 12;

/// Asks for executions through every key until the round is over.
pub async fn ask(context: &Context) {
    let keys = 0..context.keys.starts.len();
    join_all(keys.map(|number| ask_for(context, number))).await;
}

async fn ask_for(context: &Context, number: usize) {
    let key = &context.keys.starts[number];
    let actor = number as u64;
    let rng = &mut seeded(context.seed, &[context.round, 0x57a7, actor]);
    // Of the first keys all wait for their turn; the next two have permits.
    let (words, permits): (&[&str], u16) = match number {
        0 | 1 => (&["wait"], 1),
        2 => (&["wait"], PERMITS),
        3 => (&["wait", "skip"], PERMITS),
        4 => (&["wait", "latest"], 1),
        _ => (&["wait", "skip", "fail"], 1),
    };
    let mut count = 0;
    while !context.is_over() {
        sleep_ms(rng.u64(100..=500)).await;
        if waiting(context, key) >= WAITING {
            continue;
        }
        let name = format!("r{}-start-{number}-{count}", context.round);
        count += 1;
        let word = *choose(rng, words);
        let mut payload = json!({
            "key": key,
            "state_machine_arn": MACHINE,
            "name": name,
            "if_held": word,
            "pass_lease": true,
            "at_least_seconds": if rng.u64(..5) == 0 { 1 } else { 0 },
        });
        if permits > 1 {
            payload["permits"] = permits.into();
        }
        let copies = if rng.u64(..4) == 0 { 2 } else { 1 };
        let after = rng.u64(..200);
        let caller = Caller::new(context, started_arn(&name), format!("{name}. "));
        let calls = (0..copies).map(|copy| deliver(&caller, &payload, copy * after));
        let calls = join_all(calls).await.into_iter().flatten().collect();
        context.history().starts.push(StartAsked {
            key: key.clone(),
            execution: caller.holder.clone(),
            permits,
            waits: words == ["wait"],
            calls,
        });
    }
}

/// Calls until somebody answers.
async fn deliver(caller: &Caller<'_>, payload: &Value, after: u64) -> Vec<StartCall> {
    let mut calls = Vec::new();
    for _ in 0..REPEATED {
        let step = Step {
            after,
            ..Step::CLEAN
        };
        let reply = caller.call("start", step, payload, "").await;
        let answer = match &reply.answer {
            Answer::Well(answer) => match answer["outcome"].as_str() {
                Some("started") => StartAnswer::Started,
                Some("queued") => StartAnswer::Queued,
                Some("skipped") => StartAnswer::Skipped,
                Some("superseded") => StartAnswer::Superseded,
                _ => {
                    caller.unexpected(&format!("start: {answer}"));
                    StartAnswer::Unknown
                }
            },
            Answer::Error(name, _) if name == "Lease.Held" || name == "Lease.QueueFull" => {
                StartAnswer::Refused
            }
            Answer::Error(name, _) => {
                caller.unexpected(&format!("start: {name}"));
                StartAnswer::Unknown
            }
            Answer::Unknown => StartAnswer::Unknown,
        };
        calls.push(StartCall {
            begin: reply.begin,
            end: reply.end,
            answer,
        });
        if answer != StartAnswer::Unknown {
            break;
        }
    }
    calls
}

/// How many of a key have been accepted and have not begun, for all that their callers know.
fn waiting(context: &Context, key: &str) -> usize {
    let begun = begun(context);
    let history = context.history();
    let starts = history.starts.iter().filter(|start| start.key == key);
    starts
        .filter(|start| start.is_open() && !begun.contains(&start.execution))
        .count()
}

fn begun(context: &Context) -> HashSet<String> {
    runs(context).into_iter().map(|run| run.execution).collect()
}

/// The executions of the round.
pub fn runs(context: &Context) -> Vec<Run> {
    let own = started_arn(&format!("r{}-start-", context.round));
    let runs = context.fixture.step_functions.runs().into_iter();
    let runs = runs.filter(|run| run.execution.starts_with(&own));
    runs.map(|run| {
        let input: Value = serde_json::from_str(&run.input).unwrap_or_default();
        let token = &input["leasehold"]["fencing_token"];
        Run {
            execution: run.execution,
            token: token.as_u64().unwrap_or(0),
            from: context.watch.shown(run.from),
            until: run.until.map(|until| context.watch.shown(until)),
        }
    })
    .collect()
}

impl StartAsked {
    /// It was accepted, and nobody has heard that it is settled.
    fn is_open(&self) -> bool {
        let heard = |answer| self.calls.iter().any(|call| call.answer == answer);
        heard(StartAnswer::Queued)
            && !heard(StartAnswer::Skipped)
            && !heard(StartAnswer::Superseded)
    }
}

/// Lets executions take their time and end, until it is stopped. Of most ends an event is sent: late, twice, or not at all.
pub async fn work_until(context: &Arc<Context>, stop: &AtomicBool) {
    let (mut seen, mut at_work) = (HashSet::new(), JoinSet::new());
    while !stop.load(Ordering::Acquire) {
        for execution in begun(context) {
            if seen.insert(execution.clone()) {
                let (context, number) = (Arc::clone(context), seen.len() as u64);
                at_work.spawn(async move { work(&context, execution, number).await });
            }
        }
        sleep_ms(20).await;
    }
    at_work.join_all().await;
}

async fn work(context: &Context, execution: String, number: u64) {
    let rng = &mut seeded(context.seed, &[context.round, 0x3b0b, number]);
    let step_functions = &context.fixture.step_functions;
    step_functions.has_received(&execution, "{}");
    sleep_ms(rng.u64(20..=500)).await;
    let status = if rng.u64(..8) == 0 {
        "FAILED"
    } else {
        "SUCCEEDED"
    };
    step_functions.end(&execution, status);
    let caller = Caller::new(context, execution, format!("end {number}. "));
    for _ in 0..*choose(rng, &[0, 1, 1, 1, 2]) {
        let step = Step {
            after: rng.u64(..800),
            ..Step::CLEAN
        };
        let event = json!({
            "source": "aws.states",
            "detail-type": "Step Functions Execution Status Change",
            "detail": {"executionArn": caller.holder, "status": status},
        });
        let reply = caller.call("reap", step, &event, "").await;
        if let Answer::Error(name, _) = &reply.answer {
            caller.unexpected(&format!("reap: {name}"));
        }
    }
}

/// L4: waits until every accepted start has had its turn, or asks once more what became of it.
pub async fn drain(context: &Context, longest: Duration) {
    let since = Instant::now();
    loop {
        let all = context.keys.starts.iter();
        let open: usize = all.map(|key| waiting(context, key)).sum();
        if open == 0 || since.elapsed() > longest {
            return;
        }
        let begun = begun(context);
        let open: Vec<_> = {
            let history = context.history();
            let starts = history.starts.iter().enumerate();
            let open = starts
                .filter(|(_, start)| start.is_open() && !begun.contains(&start.execution))
                .filter(|(_, start)| !start.waits);
            open.map(|(at, start)| (at, start.clone())).collect()
        };
        for (at, start) in open {
            let name = start.execution.rsplit(':').next().unwrap_or_default();
            let caller = Caller::new(context, start.execution.clone(), format!("{name} again. "));
            let mut payload = json!({
                "key": start.key,
                "state_machine_arn": MACHINE,
                "name": name,
                "pass_lease": true,
            });
            if start.permits > 1 {
                payload["permits"] = start.permits.into();
            }
            let calls = deliver(&caller, &payload, 0).await;
            context.history().starts[at].calls.extend(calls);
        }
        sleep_ms(300).await;
    }
}
