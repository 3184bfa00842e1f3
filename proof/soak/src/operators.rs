//! Everybody else at the table: sweep on its schedule, an operator who evicts, a person who deletes rows, and one
//! who inspects.

use std::sync::atomic::{AtomicBool, Ordering};

use leasehold_proof::fixture::s;
use serde_json::json;

use crate::calls::{Answer, Caller, Reply};
use crate::context::Context;
use crate::fixture::{FLEETS, TABLE};
use crate::history::{ExtraEffect, Invocation, Op, Place, Response};
use crate::plan::Step;
use crate::rng::{choose, seeded};
use crate::watch::sleep_ms;

/// How long nobody may ask for a key before its row is deleted: what is still on its way has arrived by then.
const BEFORE_DELETION: u64 = 2_000;
/// And after: longer than any two clocks differ.
const AFTER_DELETION: u64 = 350;

/// Sweeps, as a schedule would, until it is stopped.
pub async fn sweep_until(context: &Context, stop: &AtomicBool) {
    let rng = &mut seeded(context.seed, &[context.round, 0x53e3]);
    let mut number = 0;
    while !stop.load(Ordering::Acquire) {
        let fleet = usize::try_from(rng.u64(..FLEETS.len() as u64)).unwrap_or(0);
        let after = rng.u64(300..=900);
        sweep(context, fleet, after, number).await;
        number += 1;
    }
}

/// One sweep.
pub async fn sweep(context: &Context, fleet: usize, after: u64, number: u64) {
    let caller = caller(context, "sweep", number);
    let step = Step {
        fleet,
        after,
        ..Step::CLEAN
    };
    let reply = caller.call("sweep", step, &json!({}), "").await;
    if let Answer::Error(name, _) = &reply.answer {
        caller.unexpected(&format!("sweep: {name}"));
    }
    if matches!(reply.answer, Answer::Well(_)) {
        context.swept.fetch_add(1, Ordering::AcqRel);
    }
    context.anywhere(&reply.op(Invocation::Sweep, Response::Done));
}

/// Inspects keys, and now and then evicts a holder.
pub async fn operate(context: &Context) {
    let rng = &mut seeded(context.seed, &[context.round, 0x0b5e]);
    let mut number = 0;
    while !context.is_over() {
        sleep_ms(rng.u64(50..=250)).await;
        let any: Vec<_> = context.keys.mutexes().cloned().collect();
        let evicted = [&context.keys.plain[..], &context.keys.lines].concat();
        let evicts = rng.u64(..100) < 25;
        let key = if evicts {
            choose(rng, &evicted).clone()
        } else {
            choose(rng, &any).clone()
        };
        let caller = caller(context, "operator", number);
        number += 1;
        let Some(token) = inspect(&caller, &key).await else {
            continue;
        };
        if evicts {
            force(&caller, &key, token).await;
        }
    }
}

/// The token of the key's holder.
async fn inspect(caller: &Caller<'_>, key: &str) -> Option<u64> {
    let reply = caller
        .call("inspect", Step::CLEAN, &json!({"key": key}), "")
        .await;
    let (response, token) = match &reply.answer {
        Answer::Well(answer) => {
            caller.context.history().messages.push(answer.to_string());
            if answer["lease"]["holder"].is_string() {
                let token = answer["lease"]["fencing_token"].as_u64();
                (caller.held(&answer["lease"]), token)
            } else {
                (Response::Nobody, None)
            }
        }
        Answer::Error(name, _) => {
            caller.unexpected(&format!("inspect: {name}"));
            (Response::Unknown, None)
        }
        Answer::Unknown => (Response::Unknown, None),
    };
    record(caller, key, &reply, Invocation::Inspect, response);
    token
}

async fn force(caller: &Caller<'_>, key: &str, token: u64) {
    let payload = json!({
        "operation": "force_release",
        "key": key,
        "who": "the soak",
        "why": "to see what becomes of it",
        "fencing_token": token,
    });
    let reply = caller.call("operate", Step::CLEAN, &payload, "").await;
    let response = match &reply.answer {
        Answer::Well(answer) => {
            caller.context.history().messages.push(answer.to_string());
            match answer["fencing_token"].as_u64() {
                Some(token) if answer["outcome"] == "forced" => Response::Forced { token },
                _ => Response::Nobody,
            }
        }
        Answer::Error(name, _) => {
            caller.unexpected(&format!("force_release: {name}"));
            Response::Unknown
        }
        Answer::Unknown => Response::Unknown,
    };
    record(caller, key, &reply, Invocation::Force { token }, response);
}

/// Deletes rows, each when nobody calls for it.
pub async fn delete(context: &Context) {
    let rng = &mut seeded(context.seed, &[context.round, 0xde1e]);
    let mut number = 0;
    while !context.is_over() {
        sleep_ms(rng.u64(500..=2000)).await;
        let at = usize::try_from(rng.u64(..context.gone.len() as u64)).unwrap_or(0);
        let _alone = context.gone[at].write().await;
        sleep_ms(BEFORE_DELETION).await;
        let key = &context.keys.gone[at];
        let begin = context.watch.now();
        let delete = context.fixture.direct.delete_item().table_name(TABLE);
        let delete = delete.key("pk", s(key)).key("sk", s("LEASE#0000"));
        delete.send().await.unwrap();
        let end = context.watch.now();
        let op = Op {
            begin,
            end,
            clock: context.watch.read_between(begin, end, 0),
            ask: Invocation::Delete,
            response: Response::Done,
            besides: ExtraEffect::Nothing,
            by: format!("somebody with other tools, {number}"),
        };
        let place = Place {
            key: key.clone(),
            permit: 0,
        };
        context.record(place, op);
        number += 1;
        sleep_ms(AFTER_DELETION).await;
    }
}

fn caller<'a>(context: &'a Context, who: &str, number: u64) -> Caller<'a> {
    let mark = format!("r{}-{who}-{number}. ", context.round);
    Caller::new(context, who.to_owned(), mark)
}

fn record(caller: &Caller<'_>, key: &str, reply: &Reply, ask: Invocation, response: Response) {
    let place = Place {
        key: key.to_owned(),
        permit: 0,
    };
    caller.context.record(place, reply.op(ask, response));
}
