//! The executions that were started: they take their time and end, some are redriven, and most ends send events.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{name_of, own_prefix, started_arn, tasks};
use crate::calls::{Answer, Caller, Handle};
use crate::context::Context;
use crate::history::{Belief, Denial, Run};
use crate::plan::Step;
use crate::rng::{choose, seeded};
use crate::watch::sleep_ms;

/// The executions of the round, each time that they ran.
#[must_use]
pub fn runs(context: &Context) -> Vec<Run> {
    let own = started_arn(&own_prefix(context));
    let runs = context.fixture.step_functions.runs().into_iter();
    let runs = runs.filter(|run| run.execution.starts_with(&own));
    runs.map(|run| {
        let input: Value = serde_json::from_str(&run.input).unwrap_or_default();
        let lease = &input["leasehold"];
        Run {
            token: lease["fencing_token"].as_u64().unwrap_or(0),
            permit: lease["permit"].as_u64().unwrap_or(0),
            is_redrive: run.is_redrive,
            from: context.watch.shown(run.from),
            until: run.until.map(|until| context.watch.shown(until)),
            status: run.status,
            is_answered: run.is_answered,
            execution: run.execution,
        }
    })
    .collect()
}

/// Lets executions run to their ends, until it is stopped.
pub async fn run_until(context: &Arc<Context>, stop: &AtomicBool) {
    let (mut seen, mut at_work) = (HashSet::new(), JoinSet::new());
    while !stop.load(Ordering::Acquire) {
        for call in context.fixture.step_functions.calls() {
            let name = call.body["name"].as_str().unwrap_or_default().to_owned();
            let is_own =
                call.operation == "StartExecution" && name.starts_with(&own_prefix(context));
            if is_own && seen.insert(name.clone()) {
                let context = Arc::clone(context);
                at_work.spawn(async move { work(&context, &name).await });
            }
        }
        tasks::hear(context);
        sleep_ms(20).await;
    }
    at_work.join_all().await;
}

async fn work(context: &Context, name: &str) {
    let purpose: Vec<_> = name.bytes().map(u64::from).collect();
    let rng = &mut seeded(context.seed, &purpose);
    let execution = started_arn(name);
    let caller = &Caller::new(context, execution, format!("{name} runs. "));
    let service = &context.fixture.step_functions;
    let input = service.input_of(&caller.holder).unwrap_or_default();
    let input: Value = serde_json::from_str(&input).unwrap_or_default();
    let lease = &input["leasehold"]["lease"];
    let handle = (!lease.is_null()).then(|| caller.handle(lease)).flatten();
    // Of the others a task may still be at work.
    if handle.is_some() || rng.u64(..4) > 0 {
        service.has_received(&caller.holder, "{}");
    }
    let from = context.watch.now();
    sleep_ms(works_for(rng)).await;
    if let Some(handle) = handle {
        prove(caller, rng, &handle).await;
        context.history().beliefs.push(Belief {
            place: handle.place,
            token: handle.token,
            from,
            holder: caller.holder.clone(),
            until: context.watch.now(),
            by: format!("{}{}", caller.mark, caller.holder),
        });
        // What has failed after a proof may have been redriven, for all that anybody knows for half a minute.
        return end(caller, rng, "SUCCEEDED").await;
    }
    if rng.u64(..6) > 0 {
        return end(caller, rng, "SUCCEEDED").await;
    }
    let (ended, keeps) = (Instant::now(), keep_of(context, name));
    let (mut others, after) = (rng.fork(), rng.u64(100..=900));
    let redriven = async {
        sleep_ms(after).await;
        if keeps > ended.elapsed() + Duration::from_millis(200) {
            service.run(&caller.holder);
            sleep_ms(works_for(rng)).await;
            end(caller, rng, "SUCCEEDED").await;
        }
    };
    tokio::join!(end(caller, &mut others, "FAILED"), redriven);
}

/// In milliseconds; often for longer than others take to ask.
fn works_for(rng: &mut Rng) -> u64 {
    let longest = *choose(rng, &[100, 300, 1500]);
    rng.u64(20..=longest)
}

/// How long the key stays with the execution after a failure.
fn keep_of(context: &Context, name: &str) -> Duration {
    let history = context.history();
    let mut starts = history.starts.iter();
    let asked = starts.find(|start| name_of(&start.execution) == name);
    Duration::from_micros(asked.map_or(0, |start| start.keep))
}

/// S12: the lease of an execution that runs is not over.
async fn prove(caller: &Caller<'_>, rng: &mut Rng, handle: &Handle) {
    for _ in 0..rng.u64(1..=2) {
        let step = Step {
            fault: None,
            ..Step::draw(rng, 300)
        };
        let payload = json!({"lease": handle.raw});
        let reply = caller.call("extend", step, &payload, "").await;
        match &reply.answer {
            Answer::Error(name, _) if name == "Lease.Lost" => {
                caller.context.history().denials.push(Denial {
                    place: handle.place.clone(),
                    token: handle.token,
                    at: reply.end,
                });
            }
            Answer::Well(answer) if answer["outcome"] == "extended" => {}
            Answer::Unknown => {}
            other => caller.unexpected(&format!("extend of a start's lease: {other:?}")),
        }
    }
}

/// Ends, unless it was stopped before. Of most ends an event is sent: late, twice, or not at all.
async fn end(caller: &Caller<'_>, rng: &mut Rng, status: &'static str) {
    let service = &caller.context.fixture.step_functions;
    let status = if service.is_running(&caller.holder) {
        status
    } else {
        "ABORTED"
    };
    service.end(&caller.holder, status);
    for _ in 0..*choose(rng, &[0, 1, 1, 1, 2]) {
        let event = json!({
            "source": "aws.states",
            "detail-type": "Step Functions Execution Status Change",
            "detail": {"executionArn": caller.holder, "status": status},
        });
        let text = format!("{}\"", caller.holder);
        let reply = caller
            .call("reap", Step::draw(rng, 800), &event, &text)
            .await;
        if let Answer::Error(name, _) = &reply.answer {
            caller.unexpected(&format!("reap: {name}"));
        }
    }
}
