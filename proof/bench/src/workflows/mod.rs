//! What a lease costs a workflow: states, events, requests and invocations, from the histories of executions.
//!
//! The shipped machines, AWS's semaphore sample and a loop without any library run on one stack ([`scenes`]). Each state
//! is there for the lease or for the caller's work ([`purposes`]), and only the former is counted.

pub mod calls;
mod chart;
pub mod crash;
pub mod crowd;
mod history;
pub mod hot_key;
pub mod ledger;
mod peers;
pub mod prices;
mod promises;
pub mod purposes;
pub mod scenes;
pub mod spent;
mod stage;
mod table;

pub use history::{History, State};

use serde_json::json;

use crate::measures::Measure;
use crate::parts::{Found, Ground};
use crate::picture::Picture;
use crate::{Error, tell};
use calls::Call;
use crash::Crash;
use crowd::Crowd;
use ledger::Counted;
use peers::{Asking, PUBLISHED};
use prices::Prices;
use scenes::{LOOP, SAMPLE, SAMPLE_LOOP, Scene, Wait};
use stage::Stage;

/// The sample's own round, shortened: the rest is arithmetic.
const SHORT: Asking = Asking {
    retries: 1,
    pause: 1,
};

/// What was seen on the stages.
#[derive(Default)]
struct Seen {
    alone: Vec<Scene>,
    waits: Vec<Wait>,
    calls: Vec<Call>,
    crowds: Vec<Crowd>,
    crashes: Vec<Crash>,
}

/// What takes long only because it waits has stages of its own.
pub(crate) async fn measure(ground: &Ground) -> Result<Found, Error> {
    let prices = Prices::read(ground.prices.as_deref())?;
    let quick = ground.quick;
    let (mut seen, sample, slow) =
        tokio::try_join!(see(quick), published_round(quick), published_crowds(quick))?;
    seen.waits.insert(0, sample);
    seen.crowds.extend(slow);
    seen.crowds.sort_by_key(|crowd| crowd.many);
    Ok(found(&seen, &prices))
}

/// These scenes alone, each with nobody in the way: what a test can wait for.
///
/// # Errors
/// As the whole part.
pub async fn glance(names: &[&str]) -> Result<Vec<Scene>, Error> {
    let stage = Stage::open().await?;
    let scenes = scenes::alone(&stage, |name| names.contains(&name)).await?;
    stage.close().await;
    Ok(scenes)
}

/// So many executions in line for one key, alone.
///
/// # Errors
/// As the whole part.
pub async fn glance_at_line(many: u32) -> Result<Crowd, Error> {
    let stage = Stage::open().await?;
    let crowd = crowd::crowd(&stage, scenes::OURS, many).await?;
    stage.close().await;
    Ok(crowd)
}

async fn see(quick: bool) -> Result<Seen, Error> {
    let stage = Stage::open().await?;
    let mut seen = Seen::default();
    tell("each machine once, with nobody in the way");
    // The one that waits for an extend takes its time.
    let picks = |name: &str| !quick || !name.ends_with("extended");
    seen.alone = scenes::alone(&stage, picks).await?;
    tell("and with somebody in the way");
    seen.alone.extend(scenes::waits_of_ours(&stage).await?);
    for who in [SAMPLE_LOOP, LOOP] {
        seen.waits
            .push(scenes::rounds_of(&stage, who, 2, SHORT).await?);
    }
    tell("and without a workflow");
    seen.calls = calls::calls(&stage).await?;
    tell("many at once for one key");
    let sizes: &[u32] = if quick { &[2, 8] } else { &[2, 8, 32] };
    seen.crowds = crowd::crowds(&stage, sizes).await?;
    tell("and one that is stopped in the middle");
    seen.crashes = crash::crashes(&stage, quick).await?;
    stage.close().await;
    Ok(seen)
}

/// A round of the sample as published takes more than a minute; quickly, a shorter one and arithmetic.
async fn published_round(quick: bool) -> Result<Wait, Error> {
    let stage = Stage::open().await?;
    let asking = if quick { SHORT } else { PUBLISHED };
    let wait = scenes::rounds_of(&stage, SAMPLE, 1, asking).await?;
    stage.close().await;
    Ok(wait)
}

/// So does a crowd of it.
async fn published_crowds(quick: bool) -> Result<Vec<Crowd>, Error> {
    if quick {
        return Ok(Vec::new());
    }
    let stage = Stage::open().await?;
    let mut crowds = Vec::new();
    for many in [2, 8] {
        crowds.push(crowd::crowd(&stage, SAMPLE, many).await?);
    }
    stage.close().await;
    Ok(crowds)
}

fn found(seen: &Seen, prices: &Prices) -> Found {
    let Seen {
        alone,
        waits,
        calls,
        crowds,
        crashes,
    } = seen;
    let mut measures = promises::sections(alone);
    measures.extend(promises::waits(alone, waits));
    measures.extend(promises::crowds(crowds));
    measures.extend(promises::crashes(crashes));
    let counted = Counted {
        alone,
        waits,
        crowds,
        calls,
    };
    let ledger = counted.rows(prices);
    measures.extend(ledger::measures(&ledger, prices));
    measures.extend(promises::hot_key(&ledger));
    let pictures = pictures(&measures, crowds);
    Found {
        title: "What a lease costs a workflow",
        told: [
            table::scenes(alone),
            table::crowds(crowds),
            table::crashes(crashes),
            table::ledger(&ledger, prices),
            table::hot_key(&ledger),
        ]
        .join("\n\n"),
        measures,
        pictures,
        raw: json!({ "alone": alone, "waits": waits, "crowds": crowds, "crashes": crashes, "calls": calls, "ledger": ledger, "prices": prices }),
    }
}

fn pictures(measures: &[Measure], crowds: &[Crowd]) -> Vec<Picture> {
    let most = crowds.iter().map(|crowd| crowd.many).max().unwrap_or(2);
    let contended = format!("{}, {most} executions at once", promises::PER_CONTENDED);
    let crowded = format!("cost of a lease, in a workflow, {most} at once");
    let transitions = chart::draw(
        "workflows-transitions",
        "State transitions that a lease takes",
        measures,
        &[
            (promises::PER_SECTION, "of a section, nobody in the way"),
            (&contended, &format!("of a section, {most} at once")),
            (promises::PER_WAIT, "of 10 minutes of waiting"),
        ],
    );
    let costs = chart::draw(
        "workflows-costs",
        "What a million leases cost, in USD, from the counts",
        measures,
        &[
            (
                "cost of a lease, from a program, without functions",
                "from a program",
            ),
            (
                "cost of a lease, in a workflow, nobody in the way",
                "in a workflow, nobody in the way",
            ),
            (&crowded, &format!("in a workflow, {most} at once")),
            (
                "cost of a lease, in a workflow, after 10 minutes of waiting",
                "in a workflow, after 10 minutes of waiting",
            ),
        ],
    );
    vec![transitions, costs]
}
