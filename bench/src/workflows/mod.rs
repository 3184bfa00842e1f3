//! What a lease costs a workflow: states, events, requests and invocations, from the histories of executions.
//!
//! The shipped machines, AWS's semaphore sample and a loop without any library run on one stack ([`scenes`]). Each state
//! is there for the lease or for the caller's work ([`purposes`]), and only the former is counted.

pub mod crash;
pub mod crowd;
mod history;
mod peers;
mod promises;
pub mod purposes;
pub mod scenes;
pub mod spent;
mod stage;
mod table;

pub use history::{History, State};

use serde_json::json;

use crate::parts::{Found, Ground};
use crate::{Error, tell};
use peers::{Asking, PUBLISHED};
use scenes::{LOOP, SAMPLE, SAMPLE_LOOP};
use stage::Stage;

/// The sample's own round, shortened: the rest is arithmetic.
const SHORT: Asking = Asking {
    retries: 1,
    pause: 1,
};

pub(crate) async fn measure(ground: &Ground) -> Result<Found, Error> {
    let stage = Stage::open().await?;
    tell("each machine once, with nobody in the way");
    let mut alone = scenes::alone(&stage).await?;
    tell("and with somebody in the way");
    alone.extend(scenes::waits_of_ours(&stage).await?);
    let asking = if ground.quick { SHORT } else { PUBLISHED };
    let mut waits = Vec::new();
    for (who, rounds) in [(SAMPLE, 1), (SAMPLE_LOOP, 2), (LOOP, 2)] {
        waits.push(scenes::rounds_of(&stage, who, rounds, asking).await?);
    }
    tell("many at once for one key");
    let sizes: &[u32] = if ground.quick { &[2, 8] } else { &[2, 8, 32] };
    let crowds = crowd::crowds(&stage, sizes).await?;
    tell("and one that is stopped in the middle");
    let crashes = crash::crashes(&stage).await?;
    stage.close().await;

    let mut measures = promises::sections(&alone);
    measures.extend(promises::waits(&alone, &waits));
    Ok(Found {
        title: "What a lease costs a workflow",
        told: table::scenes(&alone),
        measures,
        pictures: Vec::new(),
        raw: json!({ "alone": alone, "waits": waits, "crowds": crowds, "crashes": crashes }),
    })
}
