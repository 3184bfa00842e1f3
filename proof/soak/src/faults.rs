//! What befalls processes and the wire as a whole: they are killed, stopped, slowed down; and Step Functions, which
//! fails on its own.

use leasehold_local::Fault;

use crate::context::Context;
use crate::fixture::{FLEETS, VERBS, function};
use crate::rng::{choose, seeded};
use crate::watch::sleep_ms;
use fastrand::Rng;

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
pub async fn inject_faults(context: &Context) {
    tokio::join!(
        kill(context),
        stop(context),
        slow(context),
        silence(context)
    );
}

async fn kill(context: &Context) {
    let rng = &mut seeded(context.seed, &[context.round, 0x1111]);
    while !context.is_over() {
        sleep_ms(rng.u64(200..=900)).await;
        let name = any(rng);
        let host = &context.fixture.host;
        let (what, done) = match rng.u64(..3) {
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
        done.unwrap();
        context.record_fault(what, &name);
    }
}

/// For longer than many leases last.
async fn stop(context: &Context) {
    let rng = &mut seeded(context.seed, &[context.round, 0x2222]);
    while !context.is_over() {
        sleep_ms(rng.u64(500..=1500)).await;
        let name = any(rng);
        let millis = rng.u64(800..=3800);
        let host = &context.fixture.host;
        context.record_fault("stopped", &format!("{name} for {millis} ms"));
        host.freeze(&name).unwrap();
        sleep_ms(millis).await;
        host.thaw(&name).unwrap();
    }
}

async fn slow(context: &Context) {
    let rng = &mut seeded(context.seed, &[context.round, 0x3333]);
    while !context.is_over() {
        sleep_ms(rng.u64(1500..=4000)).await;
        let (millis, length) = if rng.u64(..100) < 20 {
            (600, 400)
        } else {
            (rng.u64(20..=150), rng.u64(200..=800))
        };
        context.record_fault("slow", &format!("by {millis} ms for {length} ms"));
        let latency = |millis| std::time::Duration::from_millis(millis);
        context.fixture.proxy.set_latency(latency(millis));
        sleep_ms(length).await;
        context.fixture.proxy.set_latency(latency(0));
    }
}

async fn silence(context: &Context) {
    let rng = &mut seeded(context.seed, &[context.round, 0x4444]);
    while !context.is_over() {
        sleep_ms(rng.u64(200..=800)).await;
        let fault = *choose(rng, CALLS_BACK);
        context.note_disturbance(format!("call back: {fault:?}"));
        context.fixture.calls_back.inject(fault, "*", 1);
    }
}

fn any(rng: &mut Rng) -> String {
    let fleet = usize::try_from(rng.u64(..FLEETS.len() as u64)).unwrap_or(0);
    let verb: &&str = choose(rng, VERBS);
    function(verb, fleet)
}
