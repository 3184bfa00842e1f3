//! The act in `report.json`.

use serde::Serialize;

use super::super::measures::rounded;
use super::super::report::{Checked, checked};
use super::figures::Figures;
use super::{Act, GRACE_SECONDS, MACHINE, cast};

impl Act {
    /// The act as data. Instants are seconds since the demo began.
    pub(in super::super) fn report(&self, demo_began: u64) -> Report<'_> {
        let evidence = &self.evidence;
        let at = |instant: u64| rounded_between(demo_began, instant);
        let turns = evidence.turns();
        let waiters = evidence.waiters.iter().map(|waiter| {
            let story = &waiter.story;
            let turn = turns.iter().position(|turn| turn.holder == waiter.arn);
            Waited {
                name: &waiter.name,
                execution_arn: &waiter.arn,
                status: &story.status,
                turn: turn.map(|index| index + 1),
                asked: story.asked.map(at),
                woken: story.woken.map(at),
                confirmed: story.confirmed.map(at),
                came_in: turn.map(|index| at(turns[index].from)),
                went_out: turn.and_then(|index| turns[index].until).map(at),
                released: story.released.map(at),
                stopped: waiter.stopped.map(at),
                ended: story.ended.map(at),
            }
        });
        Report {
            key: cast::KEY,
            state_machine: MACHINE,
            began: at(evidence.began),
            given_back: at(evidence.given_back),
            place_given_up: evidence.place_gone.map(at),
            cleared: at(evidence.at_last.0),
            reap_grace_seconds: GRACE_SECONDS,
            checks: checked(&self.checks),
            figures: &self.figures,
            waiters: waiters.collect(),
        }
    }
}

#[allow(clippy::cast_precision_loss)] // Minutes in milliseconds.
fn rounded_between(from: u64, until: u64) -> f64 {
    rounded(until.saturating_sub(from) as f64 / 1000.0)
}

/// The act as data.
#[derive(Serialize)]
pub(in super::super) struct Report<'a> {
    key: &'a str,
    state_machine: &'a str,
    began: f64,
    /// When the demo, which held the key, gave it back.
    given_back: f64,
    /// When who was stopped waiting stood in line no more.
    place_given_up: Option<f64>,
    /// When nothing was left of the line.
    cleared: f64,
    reap_grace_seconds: u64,
    checks: Vec<Checked<'a>>,
    figures: &'a Figures,
    /// In the order of joining.
    waiters: Vec<Waited<'a>>,
}

#[derive(Serialize)]
struct Waited<'a> {
    name: &'a str,
    execution_arn: &'a str,
    status: &'a str,
    /// As which one it had the key.
    turn: Option<usize>,
    asked: Option<f64>,
    woken: Option<f64>,
    confirmed: Option<f64>,
    /// By the resource's record.
    came_in: Option<f64>,
    went_out: Option<f64>,
    released: Option<f64>,
    stopped: Option<f64>,
    ended: Option<f64>,
}
