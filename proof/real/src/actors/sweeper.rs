//! Who cleans up after dead processes: sweep on its schedule, and the events of executions that have ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;
use serde_json::json;

use crate::call::Answer;
use crate::plan::{Step, choose, seeded};
use crate::round::Round;
use crate::world::FLEETS;

/// Sweeps, as a schedule would, until it is stopped.
pub async fn sweep(round: Arc<Round>, stop: Arc<AtomicBool>) {
    let rng = &mut seeded(round.seed, &[round.number, 0x53e3]);
    while !stop.load(Ordering::Acquire) {
        let call = Step {
            fleet: rng.usize(..FLEETS.len()),
            fault: None,
            after: rng.u64(300..=900),
        };
        let reply = round.call("sweep", "sweep", call, &json!({}), "").await;
        match reply.answer {
            Answer::Well(_) => round.is_swept(),
            answer => round.unknown("sweep", "sweep", &answer, ()),
        }
    }
}

/// The calls that tell of an end: of most one, late; or two, or none.
pub(super) fn calls(rng: &mut Rng) -> Vec<Step> {
    let calls = choose(rng, &[0, 1, 1, 1, 2]);
    (0..calls).map(|_| Step::draw(rng, 800)).collect()
}

/// Tells reap that the execution has ended.
pub(super) async fn tell(round: &Round, execution: &str, status: &str, calls: &[Step]) {
    let event = json!({
        "source": "aws.states",
        "detail-type": "Step Functions Execution Status Change",
        "detail": {"executionArn": execution, "status": status},
    });
    let text = format!("{execution}\"");
    for step in calls {
        let reply = round.call(execution, "reap", *step, &event, &text).await;
        if !matches!(reply.answer, Answer::Well(_)) {
            round.unknown(execution, "reap", &reply.answer, ());
        }
    }
}
