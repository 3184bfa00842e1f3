//! The second act: executions wait in line for one key, and are woken one after the other. One is stopped while it
//! waits, another while it holds.

mod cast;
mod director;
mod drawing;
mod evidence;
mod figures;
mod line;
mod meters;
mod report;
mod story;
mod summary;
mod told;
mod verdict;

use leasehold_local::{Error, Stack};

use super::facts;
use super::resource::Audit;
use super::verdict::{self as verdict_of, Check};
use director::Director;
use evidence::Evidence;
use figures::Figures;
use line::Line;
use meters::Meters;
pub(super) use report::Report;
use told::Told;

/// The state machine that waits in line.
pub(super) const MACHINE: &str = "QueuedSectionStateMachine";
/// Instead of the template's 900: longer than the one step lasts that can be under way when its execution is stopped.
const GRACE_SECONDS: u64 = 3;

/// The act, played and judged.
pub(super) struct Act {
    evidence: Evidence,
    figures: Figures,
    pub(super) checks: Vec<Check>,
}

/// Plays the act to its end.
pub(super) async fn play(
    stack: &Stack,
    sfn: aws_sdk_sfn::Client,
    machine: &str,
    demo_began: u64,
) -> Result<Act, Error> {
    let grace = ("LEASE_REAP_GRACE_SECONDS", GRACE_SECONDS.to_string());
    let meters = Meters::install(stack, &[grace]).await?;
    let director = Director {
        stack,
        sfn,
        machine: machine.to_owned(),
    };
    let told = Told { began: demo_began };
    let lease = director.take_key().await?;
    let began = facts::now();
    told.line(&format!(
        "the demo itself holds {}; {} executions line up for it",
        cast::KEY,
        cast::WAITERS
    ));
    let before = meters.read();
    let waiters = director.line_up().await?;
    let mut evidence = Evidence {
        began,
        waiters,
        full: Line::look(stack).await?,
        given_back: began,
        place_gone: None,
        at_last: (began, Line::default()),
        audit: Audit::default(),
    };
    told.line("all stand in line; the demo gives the key back");
    Told::head();
    director.play(&lease, &mut evidence, &told).await?;
    let figures = Figures::of(&evidence, &before, &meters.read());
    let checks = verdict::judge(&evidence, GRACE_SECONDS * 1000);
    Ok(Act {
        evidence,
        figures,
        checks,
    })
}

impl Act {
    /// The picture.
    pub(super) fn draw(&self) -> String {
        drawing::draw(&self.evidence, verdict_of::passed(&self.checks))
    }
}
