//! `scale-table.svg` and `scale-line.svg`: what grows and what does not.

use super::cost::Cost;
use super::figures::{Figures, LOOKS, Look};
use super::lines::Depth;
use super::rows::{Rows, SWEEP};
use crate::picture::{Panel, Picture, Scale};

/// A line of a panel: its name, and its cost at a step.
type Series<T> = (&'static str, fn(&T) -> Option<&Cost>);
const OF_TABLE: [Series<Rows>; 4] = [
    ("acquire", |rows| rows.step("acquire, key with a row")),
    ("sweep", |rows| rows.step(SWEEP)),
    ("inspect", |rows| rows.step("inspect everything held")),
    ("scan", |rows| Some(&rows.scan)),
];

const OF_LINE: [Series<Depth>; 4] = [
    ("join", |depth| Some(&depth.join)),
    ("hand-over", |depth| Some(&depth.hand_over)),
    ("confirm", |depth| Some(&depth.confirm)),
    ("leave", |depth| Some(&depth.leave)),
];

impl Figures {
    /// The pictures; what was not measured has none.
    #[must_use]
    pub fn draw(&self) -> Vec<Picture> {
        let beside = |rows: &Rows| shortly(rows.free);
        let waiting = |depth: &Depth| depth.waiting.to_string();
        let table = picture(
            "scale-table",
            "What grows with the table",
            &panels(
                ["requests", "bytes", "read units"],
                "free rows in it",
                &self.rows,
                beside,
                &OF_TABLE,
            ),
            &OF_TABLE,
        );
        let line = picture(
            "scale-line",
            "What grows with the line",
            &panels(
                ["requests", "bytes", "write units"],
                "in line",
                &self.lines,
                waiting,
                &OF_LINE,
            ),
            &OF_LINE,
        );
        table.into_iter().chain(line).collect()
    }
}

fn picture<T>(
    name: &'static str,
    title: &'static str,
    panels: &[String],
    series: &[Series<T>],
) -> Option<Picture> {
    let names: Vec<&str> = series.iter().map(|(name, _)| *name).collect();
    (!panels.is_empty()).then(|| Picture::of_panels(name, title, &names, panels))
}

/// A panel for each of the things that are counted, of these names.
fn panels<T>(
    names: [&str; 3],
    below: &str,
    found: &[T],
    step: impl Fn(&T) -> String,
    series: &[Series<T>],
) -> Vec<String> {
    let looks = LOOKS
        .iter()
        .filter(|(name, _)| !found.is_empty() && names.contains(name));
    let panel = |(title, look): &Look| {
        let series = series.iter().map(|(name, cost)| {
            // What is not needed at all would lie on the floor, which is one.
            let value = |found| cost(found).map(look).filter(|value| *value > 0.0);
            let values = found.iter().map(value);
            (*name, values.collect())
        });
        Panel {
            title,
            below,
            steps: found.iter().map(&step).collect(),
            scale: Scale::TenTimes,
            series: series.collect(),
        }
        .draw()
    };
    looks.map(panel).collect()
}

/// As 10^4, where it is a power of ten.
fn shortly(number: u64) -> String {
    match number.checked_ilog10() {
        Some(power) if power > 2 && 10_u64.pow(power) == number => format!("10^{power}"),
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::rows::{InUse, Step};

    fn cost(requests: u64) -> Cost {
        Cost {
            requests,
            ..Cost::default()
        }
    }

    #[test]
    fn what_was_measured_has_its_points_and_what_was_not_has_no_picture() {
        let rows = |free| Rows {
            free,
            in_use: InUse::THOUSAND,
            filled_in_seconds: 0.0,
            steps: vec![Step {
                what: SWEEP,
                cost: cost(12),
            }],
            scan: cost(free),
        };
        let figures = Figures {
            rows: vec![rows(1), rows(10_000)],
            ..Figures::default()
        };
        let pictures = figures.draw();
        let [table] = &pictures[..] else {
            panic!("{}", pictures.len());
        };
        // In the legend, and at each step of the requests, the only thing that there was any of.
        assert_eq!(table.svg.matches("<g ").count(), 3);
        for (class, points) in [("sweep", 3), ("scan", 3), ("acquire", 1)] {
            let circle = format!("<circle class=\"{class}\"");
            assert_eq!(table.svg.matches(&circle).count(), points, "{class}");
        }
        assert!(table.svg.contains(">10^4<") && table.svg.contains(">10000<"));
    }
}
