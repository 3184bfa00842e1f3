//! `waiting.svg`: six panels, self-contained, readable on light and on dark paper.

use std::fmt::Write;

use super::lines::{HEIGHT, Panel, Scale, WIDTH};
use super::{Figures, Report};
use crate::contestants::Name;
use crate::ratio;

const MARGIN: f64 = 24.0;
const GAP: f64 = 30.0;
const HEAD: f64 = 84.0;

const STYLE: &str = "
  text { font: 12px system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1c2430; }
  .paper { fill: #ffffff; } .title { font-size: 17px; font-weight: 600; } .head { font-weight: 600; font-size: 13px; }
  .quiet { fill: #687385; } .middle { text-anchor: middle; } .end { text-anchor: end; } .grid { stroke: #e5e9ef; }
  polyline { fill: none; stroke-width: 2.2; stroke-linejoin: round; }
  polyline.queue { stroke: #1f8a70; } circle.queue { fill: #1f8a70; }
  polyline.polling { stroke: #1565c0; } circle.polling { fill: #1565c0; }
  polyline.dynamodb-lease { stroke: #c77700; } circle.dynamodb-lease { fill: #c77700; }
  polyline.python-dynamodb-lock { stroke: #8e44ad; } circle.python-dynamodb-lock { fill: #8e44ad; }
  @media (prefers-color-scheme: dark) {
    text { fill: #dbe2ea; } .paper { fill: #10151c; } .quiet { fill: #93a0b0; } .grid { stroke: #242d38; }
    polyline.queue { stroke: #2fae8e; } circle.queue { fill: #2fae8e; }
    polyline.polling { stroke: #64b5f6; } circle.polling { fill: #64b5f6; }
    polyline.dynamodb-lease { stroke: #f2a93c; } circle.dynamodb-lease { fill: #f2a93c; }
    polyline.python-dynamodb-lock { stroke: #c58be0; } circle.python-dynamodb-lock { fill: #c58be0; }
  }
";

/// What a panel shows of a run; nothing leaves a gap.
type Look = fn(&Figures) -> Option<f64>;

/// The picture of a report. A part without runs leaves its panels out.
pub(super) fn draw(report: &Report) -> String {
    let by_waiters: [(&str, Scale, Look); 5] = [
        ("requests per cycle", Scale::TenTimes, |run| {
            some(run, run.requests.per_cycle)
        }),
        (
            "requests per hand-over to another client",
            Scale::TenTimes,
            |run| run.requests_per_change,
        ),
        ("longest wait / mean wait", Scale::TenTimes, |run| {
            some(run, run.wait.longest_by_mean)
        }),
        ("hand-overs to another client", Scale::Percent, |run| {
            some(run, run.to_another)
        }),
        ("part of the time in use", Scale::Percent, |run| {
            some(run, run.utilisation)
        }),
    ];
    let mut panels: Vec<String> = Vec::new();
    if !report.by_waiters.is_empty() {
        panels.extend(by_waiters.iter().map(|(title, scale, look)| {
            panel(&report.by_waiters, Axis::Waiters, title, *scale, *look)
        }));
    }
    if !report.by_hold.is_empty() {
        panels.push(panel(
            &report.by_hold,
            Axis::Hold,
            "requests per cycle, if the key is held for long",
            Scale::TenTimes,
            |run| some(run, run.requests.per_cycle),
        ));
    }
    frame(report, &panels)
}

fn some(run: &Figures, value: f64) -> Option<f64> {
    (run.cycles > 0).then_some(value)
}

/// What rises from left to right.
#[derive(Clone, Copy)]
enum Axis {
    Waiters,
    Hold,
}

impl Axis {
    fn told(self) -> &'static str {
        match self {
            Self::Waiters => "clients that want the key",
            Self::Hold => "seconds that the key is held",
        }
    }

    fn of(self, run: &Figures) -> u64 {
        match self {
            Self::Waiters => u64::try_from(run.waiters).unwrap_or(u64::MAX),
            Self::Hold => run.hold_ms,
        }
    }

    fn label(self, step: u64) -> String {
        match self {
            Self::Waiters => step.to_string(),
            Self::Hold => ratio(step, 1000).to_string(),
        }
    }
}

fn panel(runs: &[Figures], axis: Axis, title: &str, scale: Scale, look: Look) -> String {
    let mut steps: Vec<u64> = runs.iter().map(|run| axis.of(run)).collect();
    steps.sort_unstable();
    steps.dedup();
    let series = names(runs).into_iter().map(|name| {
        let value = |step: &u64| {
            let mut runs = runs.iter();
            let run = runs.find(|run| run.contestant == name && axis.of(run) == *step);
            run.and_then(look)
        };
        (name, steps.iter().map(value).collect())
    });
    Panel {
        title,
        below: axis.told(),
        series: series.collect(),
        steps: steps.iter().map(|step| axis.label(*step)).collect(),
        scale,
    }
    .draw()
}

fn names(runs: &[Figures]) -> Vec<Name> {
    let mut names: Vec<Name> = runs.iter().map(|run| run.contestant).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn frame(report: &Report, panels: &[String]) -> String {
    let columns = panels.len().clamp(1, 3);
    let rows = panels.len().div_ceil(columns);
    let place = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
    let width = 2.0 * MARGIN + place(columns) * (WIDTH + GAP) - GAP;
    let height = HEAD + place(rows) * (HEIGHT + GAP) + MARGIN;
    let title = "What it costs to wait for a key";
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" aria-label=\"{title}\">\n  <style>{STYLE}  </style>\n  \
         <rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n  \
         <text class=\"title\" x=\"{MARGIN}\" y=\"32\">{title}</text>\n"
    );
    let all = [&report.by_waiters[..], &report.by_hold].concat();
    let mut x = MARGIN;
    for name in names(&all) {
        let name = name.told();
        let _ = writeln!(
            svg,
            r#"  <circle class="{name}" cx="{:.1}" cy="54" r="4.5"/><text x="{:.1}" y="58">{name}</text>"#,
            x + 5.0,
            x + 15.0
        );
        x += 40.0 + place(name.len()) * 6.6;
    }
    for (index, panel) in panels.iter().enumerate() {
        let (x, y) = (
            MARGIN + place(index % columns) * (WIDTH + GAP),
            HEAD + place(index / columns) * (HEIGHT + GAP),
        );
        let _ = write!(
            svg,
            "  <g transform=\"translate({x:.1} {y:.1})\">\n{panel}  </g>\n"
        );
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_has_its_point_and_a_run_without_cycles_has_none() {
        let run = |name, waiters, cycles| Figures {
            cycles,
            requests_per_change: None,
            ..Figures::nothing(name, waiters, 50)
        };
        let by_waiters = vec![
            run(Name::Polling, 8, 3),
            run(Name::Polling, 2, 3),
            run(Name::DynamodbLease, 2, 0),
        ];
        let drawn = draw(&Report::of(by_waiters, Vec::new()));
        assert_eq!(drawn.matches("<g ").count(), 5);
        // Two points in each panel but the one of what is missing, and one in the legend.
        let points = |class: &str| drawn.matches(&format!("<circle class=\"{class}\"")).count();
        assert_eq!((points("polling"), points("dynamodb-lease")), (9, 1));
        // The steps are in order.
        assert!(drawn.find(">2<") < drawn.find(">8<"));
    }
}
