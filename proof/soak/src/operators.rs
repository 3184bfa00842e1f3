//! Everybody else at the table: sweep on its schedule, an operator who evicts, somebody who deletes rows, somebody
//! who looks.

use std::sync::atomic::{AtomicBool, Ordering};

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::json;

use crate::calls::{Answer, Caller, Reply};
use crate::dice::Dice;
use crate::history::{Ask, Besides, Op, Place, Told};
use crate::plan::Step;
use crate::scene::Scene;
use crate::watch::rest;
use crate::world::{FLEETS, TABLE};

/// How long nobody may ask for a key before its row is deleted: what is still on its way has arrived by then.
const BEFORE_DELETION: u64 = 2_000;
/// And after: longer than any two clocks differ.
const AFTER_DELETION: u64 = 350;

/// Sweeps, as a schedule would, until told to stop.
pub async fn sweep_until(scene: &Scene, stop: &AtomicBool) {
    let dice = &mut Dice::new(scene.seed, &[scene.round, 0x53e3]);
    let mut number = 0;
    while !stop.load(Ordering::Acquire) {
        let fleet = usize::try_from(dice.below(FLEETS.len() as u64)).unwrap_or(0);
        let after = dice.between(300, 900);
        sweep(scene, fleet, after, number).await;
        number += 1;
    }
}

/// One sweep.
pub async fn sweep(scene: &Scene, fleet: usize, after: u64, number: u64) {
    let caller = caller(scene, "sweep", number);
    let step = Step {
        fleet,
        fault: None,
        after,
    };
    let reply = caller.call("sweep", step, &json!({}), "").await;
    if let Answer::Error(name, _) = &reply.answer {
        caller.unexpected(&format!("sweep: {name}"));
    }
    if matches!(reply.answer, Answer::Well(_)) {
        scene.swept.fetch_add(1, Ordering::AcqRel);
    }
    scene.anywhere(&reply.op(Ask::Sweep, Told::Done));
}

/// Looks at keys, and now and then evicts whoever holds one.
pub async fn operate(scene: &Scene) {
    let dice = &mut Dice::new(scene.seed, &[scene.round, 0x0b5e]);
    let mut number = 0;
    while !scene.is_over() {
        rest(dice.between(50, 250)).await;
        let any: Vec<_> = scene.keys.mutexes().cloned().collect();
        let evicts = dice.percent(25);
        let key = if evicts {
            dice.one(&scene.keys.plain).clone()
        } else {
            dice.one(&any).clone()
        };
        let caller = caller(scene, "operator", number);
        number += 1;
        let Some(token) = inspect(&caller, &key).await else {
            continue;
        };
        if evicts {
            force(&caller, &key, token).await;
        }
    }
}

/// The token of whoever holds the key.
async fn inspect(caller: &Caller<'_>, key: &str) -> Option<u64> {
    let reply = caller.call("inspect", STEP, &json!({"key": key}), "").await;
    let (told, token) = match &reply.answer {
        Answer::Well(answer) => {
            caller.scene.book().said.push(answer.to_string());
            if answer["lease"]["holder"].is_string() {
                let token = answer["lease"]["fencing_token"].as_u64();
                (caller.held(&answer["lease"]), token)
            } else {
                (Told::Nobody, None)
            }
        }
        Answer::Error(name, _) => {
            caller.unexpected(&format!("inspect: {name}"));
            (Told::Unknown, None)
        }
        Answer::Unknown => (Told::Unknown, None),
    };
    record(caller, key, &reply, Ask::Inspect, told);
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
    let reply = caller.call("operate", STEP, &payload, "").await;
    let told = match &reply.answer {
        Answer::Well(answer) => {
            caller.scene.book().said.push(answer.to_string());
            match answer["fencing_token"].as_u64() {
                Some(token) if answer["outcome"] == "forced" => Told::Forced { token },
                _ => Told::Nobody,
            }
        }
        Answer::Error(name, _) => {
            caller.unexpected(&format!("force_release: {name}"));
            Told::Unknown
        }
        Answer::Unknown => Told::Unknown,
    };
    record(caller, key, &reply, Ask::Force { token }, told);
}

/// Deletes rows, each when nobody asks for it.
pub async fn delete(scene: &Scene) {
    let dice = &mut Dice::new(scene.seed, &[scene.round, 0xde1e]);
    let mut number = 0;
    while !scene.is_over() {
        rest(dice.between(500, 2000)).await;
        let at = usize::try_from(dice.below(scene.gone.len() as u64)).unwrap_or(0);
        let _alone = scene.gone[at].write().await;
        rest(BEFORE_DELETION).await;
        let key = &scene.keys.gone[at];
        let begin = scene.watch.now();
        let delete = scene.world.direct.delete_item().table_name(TABLE);
        let delete = delete
            .key("pk", AttributeValue::S(key.clone()))
            .key("sk", AttributeValue::S("LEASE#0000".to_owned()));
        if let Err(error) = delete.send().await {
            let text = aws_sdk_dynamodb::error::DisplayErrorContext(&error).to_string();
            scene.give_up(crate::Error::Resource(text));
            return;
        }
        let end = scene.watch.now();
        let op = Op {
            begin,
            end,
            clock: scene.watch.read_between(begin, end, 0),
            ask: Ask::Delete,
            told: Told::Done,
            besides: Besides::Nothing,
            by: format!("somebody with other tools, {number}"),
        };
        let place = Place {
            key: key.clone(),
            permit: 0,
        };
        scene.record(place, op);
        number += 1;
        rest(AFTER_DELETION).await;
    }
}

const STEP: Step = Step {
    fleet: 0,
    fault: None,
    after: 0,
};

fn caller<'a>(scene: &'a Scene, who: &str, number: u64) -> Caller<'a> {
    let mark = format!("r{}-{who}-{number}. ", scene.round);
    Caller::new(scene, who.to_owned(), mark)
}

fn record(caller: &Caller<'_>, key: &str, reply: &Reply, ask: Ask, told: Told) {
    let place = Place {
        key: key.to_owned(),
        permit: 0,
    };
    caller.scene.record(place, reply.op(ask, told));
}
