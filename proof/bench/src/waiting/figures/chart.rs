//! `waiting.svg`: seven panels.

use super::Figures;
use crate::picture::{Panel, Picture, Scale};
use crate::ratio;
use crate::waiting::contestants::Name;

/// What a panel shows of a run; nothing leaves a gap.
type Look = fn(&Figures) -> Option<f64>;

/// The picture. A part without runs leaves its panels out.
pub(crate) fn draw(by_waiters: &[Figures], by_hold: &[Figures], by_latency: &[Figures]) -> Picture {
    let looks: [(&str, Scale, Look); 5] = [
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
    if !by_waiters.is_empty() {
        panels.extend(
            looks
                .iter()
                .map(|(title, scale, look)| panel(by_waiters, Axis::Waiters, title, *scale, *look)),
        );
    }
    if !by_hold.is_empty() {
        panels.push(panel(
            by_hold,
            Axis::Hold,
            "requests per cycle, if the key is held for long",
            Scale::TenTimes,
            |run| some(run, run.requests.per_cycle),
        ));
    }
    if !by_latency.is_empty() {
        panels.push(panel(
            by_latency,
            Axis::Latency,
            "part of the time in use, from afar",
            Scale::Percent,
            |run| some(run, run.utilisation),
        ));
    }
    let all = [by_waiters, by_hold, by_latency].concat();
    let names: Vec<&str> = names(&all).into_iter().map(Name::told).collect();
    Picture::of_panels(
        "waiting",
        "What it costs to wait for a key",
        &names,
        &panels,
    )
}

fn some(run: &Figures, value: f64) -> Option<f64> {
    (run.cycles > 0).then_some(value)
}

/// What rises from left to right.
#[derive(Clone, Copy)]
enum Axis {
    Waiters,
    Hold,
    Latency,
}

impl Axis {
    fn told(self) -> &'static str {
        match self {
            Self::Waiters => "clients that want the key",
            Self::Hold => "seconds that the key is held",
            Self::Latency => "milliseconds to the database",
        }
    }

    fn of(self, run: &Figures) -> u64 {
        match self {
            Self::Waiters => u64::try_from(run.waiters).unwrap_or(u64::MAX),
            Self::Hold => run.hold_ms,
            Self::Latency => run.latency_ms,
        }
    }

    fn label(self, step: u64) -> String {
        match self {
            Self::Waiters | Self::Latency => step.to_string(),
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
        (name.told(), steps.iter().map(value).collect())
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
        let drawn = draw(&by_waiters, &[], &[]).svg;
        assert_eq!(drawn.matches("<g ").count(), 5);
        // Two points in each panel but the one of what is missing, and one in the legend.
        let points = |class: &str| drawn.matches(&format!("<circle class=\"{class}\"")).count();
        assert_eq!((points("polling"), points("dynamodb-lease")), (9, 1));
        // The steps are in order.
        assert!(drawn.find(">2<") < drawn.find(">8<"));
    }
}
