//! What befalls processes and the wire as a whole: they are killed, stopped, slowed down; and Step Functions, which
//! fails on its own.

use leasehold_local::Fault;

use crate::dice::Dice;
use crate::scene::Scene;
use crate::watch::rest;
use crate::world::{FLEETS, VERBS, function};

/// What can go wrong with a call back.
const CALLS_BACK: &[Fault] = &[
    Fault::LoseAnswer,
    Fault::ResetAnswer,
    Fault::LoseRequest,
    Fault::Throttle,
    Fault::ServerError,
    Fault::HangAnswer,
    Fault::Hang,
];

/// Goes on until the round is over, and leaves everything in order.
pub async fn reign(scene: &Scene) {
    tokio::join!(kill(scene), stop(scene), slow(scene), silence(scene));
}

async fn kill(scene: &Scene) {
    let dice = &mut Dice::new(scene.seed, &[scene.round, 0x1111]);
    while !scene.is_over() {
        rest(dice.between(200, 900)).await;
        let name = any(dice);
        let host = &scene.world.host;
        let (what, done) = match dice.below(3) {
            // All of its processes, in the middle of whatever they do.
            0 => {
                let registered = host.function(&name);
                (
                    "kill -9",
                    registered.map(|function| host.register(function)),
                )
            }
            1 => ("kill before the answer", host.kill_before_answer(&name, 1)),
            _ => ("kill after the start", host.kill_after_start(&name, 1)),
        };
        match done {
            Ok(()) => scene.befell(what, &name),
            Err(error) => scene.give_up(error.into()),
        }
    }
}

/// For longer than many leases last.
async fn stop(scene: &Scene) {
    let dice = &mut Dice::new(scene.seed, &[scene.round, 0x2222]);
    while !scene.is_over() {
        rest(dice.between(500, 1500)).await;
        let name = any(dice);
        let millis = dice.between(800, 3800);
        let host = &scene.world.host;
        scene.befell("stopped", &format!("{name} for {millis} ms"));
        let stopped = host.freeze(&name);
        rest(millis).await;
        if let Err(error) = stopped.and_then(|_| host.thaw(&name)) {
            scene.give_up(error.into());
        }
    }
}

async fn slow(scene: &Scene) {
    let dice = &mut Dice::new(scene.seed, &[scene.round, 0x3333]);
    while !scene.is_over() {
        rest(dice.between(1500, 4000)).await;
        let (millis, length) = if dice.percent(20) {
            (600, 400)
        } else {
            (dice.between(20, 150), dice.between(200, 800))
        };
        scene.befell("slow", &format!("by {millis} ms for {length} ms"));
        let latency = |millis| std::time::Duration::from_millis(millis);
        scene.world.proxy.set_latency(latency(millis));
        rest(length).await;
        scene.world.proxy.set_latency(latency(0));
    }
}

async fn silence(scene: &Scene) {
    let dice = &mut Dice::new(scene.seed, &[scene.round, 0x4444]);
    while !scene.is_over() {
        rest(dice.between(200, 800)).await;
        let fault = *dice.one(CALLS_BACK);
        scene.disturbed(format!("call back: {fault:?}"));
        scene.world.calls_back.inject(fault, "*", 1);
    }
}

fn any(dice: &mut Dice) -> String {
    let fleet = usize::try_from(dice.below(FLEETS.len() as u64)).unwrap_or(0);
    let verb: &&str = dice.one(VERBS);
    function(verb, fleet)
}
