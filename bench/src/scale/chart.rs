//! `scale.svg`: what grows and what does not.

use super::cost::Cost;
use super::figures::Figures;
use super::rows::{Rows, SWEEP};
use crate::picture::{Panel, Picture, Scale};
use crate::ratio;

/// A line of a panel: its name, and its cost at a step.
type Series<'a, T> = (&'a str, fn(&T) -> Option<&Cost>);
type Look = fn(&Cost) -> f64;

const REQUESTS: Look = |cost| ratio(cost.requests, 1);
const BYTES: Look = |cost| ratio(cost.bytes(), 1);

impl Figures {
    /// The picture.
    #[must_use]
    pub fn draw(&self) -> Picture {
        let rows: [Series<Rows>; 4] = [
            ("sweep", |rows| rows.step(SWEEP)),
            ("acquire", |rows| rows.step("acquire, key with a row")),
            ("inspect", |rows| rows.step("inspect everything held")),
            ("scan", |rows| Some(&rows.scan)),
        ];
        let beside = |rows: &Rows| shortly(rows.free);
        let mut panels = Vec::new();
        if !self.rows.is_empty() {
            for (title, look) in [("requests", REQUESTS), ("bytes", BYTES)] {
                let below = "free rows in the table";
                panels.push(panel(title, below, &self.rows, beside, &rows, look));
            }
        }
        if !self.lines.is_empty() {
            let series: [Series<super::lines::Depth>; 3] = [
                ("join", |depth| Some(&depth.join)),
                ("hand-over", |depth| Some(&depth.hand_over)),
                ("leave", |depth| Some(&depth.leave)),
            ];
            let depth = |depth: &super::lines::Depth| depth.waiting.to_string();
            for (title, look) in [("requests", REQUESTS), ("bytes", BYTES)] {
                panels.push(panel(title, "in line", &self.lines, depth, &series, look));
            }
        }
        let names = [
            "sweep",
            "acquire",
            "inspect",
            "scan",
            "join",
            "hand-over",
            "leave",
        ];
        Picture::of_panels(
            "scale",
            "What grows with a table and with a line",
            &names,
            &panels,
        )
    }
}

fn panel<T>(
    title: &str,
    below: &str,
    found: &[T],
    step: impl Fn(&T) -> String,
    series: &[Series<T>],
    look: Look,
) -> String {
    let series = series.iter().map(|(name, cost)| {
        let values = found.iter().map(|found| cost(found).map(look));
        (*name, values.collect())
    });
    Panel {
        title,
        below,
        steps: found.iter().map(step).collect(),
        scale: Scale::TenTimes,
        series: series.collect(),
    }
    .draw()
}

/// As 10^4, where it is a power of ten.
fn shortly(number: u64) -> String {
    match number.checked_ilog10() {
        Some(power) if power > 2 && 10_u64.pow(power) == number => format!("10^{power}"),
        _ => number.to_string(),
    }
}
