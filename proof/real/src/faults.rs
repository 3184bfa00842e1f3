//! What befalls processes and the wire as a whole: they are killed, stopped, slowed down; and Step Functions, which
//! fails on its own.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use leasehold_local::Fault;

use crate::plan::{choose, percent, seeded};
use crate::round::Round;
use crate::watch::sleep_ms;
use crate::world::{FLEETS, VERBS, function};

/// What can go wrong with a call back.
const CALLS_BACK: &[Fault] = &[
    Fault::LoseAnswer,
    Fault::ResetAnswer,
    Fault::LoseRequest,
    Fault::LateRequest,
    Fault::Throttle,
    Fault::ServerError,
    Fault::HangAnswer,
    Fault::Hang,
];

/// Goes on until the round is over, and leaves everything in order.
pub async fn inject(round: Arc<Round>) {
    let rng = |purpose| seeded(round.seed, &[round.number, purpose]);
    tokio::join!(
        kill(&round, rng(0x1111)),
        stop(&round, rng(0x2222)),
        slow(&round, rng(0x3333)),
        silence(&round, rng(0x4444))
    );
    let world = &round.world;
    for (proxy, whose) in [(&world.proxy, ""), (&world.calls_back, "call back ")] {
        for fault in proxy.happened() {
            round.fault(format!("{whose}{fault:?}"));
        }
        proxy.reset();
    }
}

async fn kill(round: &Round, mut rng: Rng) {
    while !round.is_over() {
        sleep_ms(rng.u64(200..=900)).await;
        let name = any(&mut rng);
        let host = &round.world.host;
        let (what, done) = match rng.u64(..3) {
            // All of its processes, in the middle of whatever they do.
            0 => {
                let registered = host.function(&name);
                let killed = registered.map(|function| host.register(function));
                ("kill -9", killed)
            }
            1 => ("kill before the answer", host.kill_before_answer(&name, 1)),
            _ => ("kill after the start", host.kill_after_start(&name, 1)),
        };
        done.unwrap();
        round.fault(what.to_owned());
    }
}

/// For longer than many leases last.
async fn stop(round: &Round, mut rng: Rng) {
    while !round.is_over() {
        sleep_ms(rng.u64(500..=1500)).await;
        let name = any(&mut rng);
        round.fault("stopped".to_owned());
        round.world.host.freeze(&name).unwrap();
        sleep_ms(rng.u64(800..=3800)).await;
        round.world.host.thaw(&name).unwrap();
    }
}

async fn slow(round: &Round, mut rng: Rng) {
    while !round.is_over() {
        sleep_ms(rng.u64(1500..=4000)).await;
        let (millis, length) = if percent(&mut rng, 20) {
            (600, 400)
        } else {
            (rng.u64(20..=150), rng.u64(200..=800))
        };
        round.fault("slow".to_owned());
        round.world.proxy.set_latency(Duration::from_millis(millis));
        sleep_ms(length).await;
        round.world.proxy.set_latency(Duration::ZERO);
    }
}

async fn silence(round: &Round, mut rng: Rng) {
    while !round.is_over() {
        sleep_ms(rng.u64(200..=800)).await;
        let fault = choose(&mut rng, CALLS_BACK);
        round.world.calls_back.inject(fault, "*", 1);
    }
}

fn any(rng: &mut Rng) -> String {
    function(choose(rng, VERBS), rng.usize(..FLEETS.len()))
}
