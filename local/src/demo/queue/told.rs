//! What a person reads while the act is on: one line per hand-over, the order of joining beside that of holding.

use super::super::facts;
use super::super::view;
use super::cast::Part;
use super::evidence::{Evidence, Turn};

/// Tells the act; instants count from the beginning of the whole demo.
pub(super) struct Told {
    pub(super) began: u64,
}

impl Told {
    pub(super) fn line(&self, text: &str) {
        view::show(&format!("{:6.2} s  {text}\n", self.at(facts::now())));
    }

    pub(super) fn head() {
        view::show("            came  has it  who         the key lay idle\n");
    }

    /// Somebody has come in: who, as which one, and how long nobody was inside before.
    pub(super) fn turn(&self, evidence: &Evidence, turns: &[Turn], number: usize) {
        let turn = &turns[number];
        let before = number.checked_sub(1).map(|before| &turns[before]);
        let came = evidence
            .waiters
            .iter()
            .position(|waiter| waiter.arn == turn.holder);
        let idle = match before {
            None => format!(
                "{} after the demo gave it back",
                length(evidence.given_back, turn.from)
            ),
            Some(before) => {
                let idle = length(before.until.unwrap_or(before.from), turn.from);
                let name = evidence.name(&before.holder);
                let stopped = evidence.waiter(&before.holder);
                let why = match stopped.and_then(|one| one.stopped) {
                    Some(_) => ", which never released: its grace, then sweep",
                    None => "",
                };
                format!("{idle} after {name}{why}")
            }
        };
        let number = (number + 1).to_string();
        self.row(turn.from, came, &number, evidence.name(&turn.holder), &idle);
    }

    pub(super) fn stopped(&self, evidence: &Evidence, index: usize) {
        let waiter = &evidence.waiters[index];
        let how = match waiter.part {
            Part::StoppedHolding => "STOPPED while it holds; its step works on",
            _ => "STOPPED while it waits",
        };
        let at = waiter.stopped.unwrap_or(evidence.began);
        self.row(at, Some(index), "", &waiter.name, how);
    }

    pub(super) fn place_gone(&self, evidence: &Evidence) {
        let index = evidence.index_of(Part::StoppedWaiting);
        let name = index.map_or("", |index| &evidence.waiters[index].name);
        let at = evidence.place_gone.unwrap_or(evidence.began);
        self.row(at, index, "", name, "its place is given up");
    }

    fn row(&self, at: u64, came: Option<usize>, turn: &str, name: &str, text: &str) {
        let came = came.map_or(String::new(), |index| (index + 1).to_string());
        let at = self.at(at);
        view::show(&format!(
            "{at:6.2} s  {came:>6}  {turn:>6}  {name:<10}  {text}\n"
        ));
    }

    #[allow(clippy::cast_precision_loss)] // Minutes in milliseconds.
    fn at(&self, instant: u64) -> f64 {
        instant.saturating_sub(self.began) as f64 / 1000.0
    }
}

#[allow(clippy::cast_precision_loss)] // Minutes in milliseconds.
fn length(from: u64, until: u64) -> String {
    format!("{:.2} s", until.saturating_sub(from) as f64 / 1000.0)
}
