//! What the runs are held to. Counts and ratios only: how fast this machine is does not enter.

use crate::measures::Measure;
use crate::rounded;
use crate::waiting::contestants::Name;
use crate::waiting::figures::Figures;

/// Requests that a contended cycle may take, apart from confirming and cleaning up.
const REQUESTS: f64 = 3.0;
/// What the counts of two runs may differ by and still be the same: a cycle that an edge of the window cut.
const SAME: f64 = 0.05;
const CUT: &str = "0.05 more would be taken for the same: a cycle that an edge of the window cut";
/// The waiters with which utilisation and waits are judged, with 50 ms holds.
const JUDGED_WAITERS: usize = 32;
const JUDGED_HOLD_MS: u64 = 50;
/// How much longer than the mean the longest wait may be.
const SPREAD: f64 = 1.25;
/// The part of the time in which the key may be of no use.
const IDLE: f64 = 0.1;

/// A figure of a run; nothing if the run has none.
type Look = fn(&Figures) -> Option<f64>;
/// What is added up over all runs.
type Sum = fn(&Figures) -> u64;

/// The measures of all runs, wherever they were looked at: ours is the queue. Without it there is nothing to tell but the
/// figures themselves.
#[must_use]
pub fn measures(by_waiters: &[Figures], others: &[Figures]) -> Vec<Measure> {
    let all = [by_waiters, others].concat();
    let queue = || all.iter().filter(|run| run.contestant == Name::Queue);
    let spent = || queue().map(|run| run.requests.per_cycle);
    let (Some(most), Some(least)) = (spent().reduce(f64::max), spent().reduce(f64::min)) else {
        return Vec::new();
    };
    let mut measures: Vec<Measure> = queue().flat_map(|run| of_run(run, &all)).collect();
    measures.push(
        Measure::new(
            "requests per contended cycle, most of all runs less fewest",
            "requests",
            rounded(most - least),
        )
        .within(0.0, SAME)
        .note(CUT),
    );
    let sum = |name, look: Sum| {
        let runs = all.iter().filter(|run| run.contestant == name);
        f64::from(u32::try_from(runs.map(look).sum::<u64>()).unwrap_or(u32::MAX))
    };
    let sums: [(&str, Sum); 2] = [
        ("entries while another was inside", |run| run.overlaps),
        ("calls that failed", |run| run.errors.values().sum()),
    ];
    for (name, look) in sums {
        // Both are ours.
        let ours = sum(Name::Queue, look) + sum(Name::Polling, look);
        let measure = Measure::new(name, "in all runs", ours).at_most(0.0);
        let others = names(&all).filter(|name| ![Name::Queue, Name::Polling].contains(name));
        measures.push(others.fold(measure, |measure, name| {
            measure.peer(name.as_peer(), sum(name, look))
        }));
    }
    measures
}

/// What one run of the queue came to, beside the others under the same circumstances.
fn of_run(run: &Figures, all: &[Figures]) -> Vec<Measure> {
    let beside: Vec<&Figures> = all
        .iter()
        .filter(|other| {
            other.contestant != Name::Queue && other.circumstances() == run.circumstances()
        })
        .collect();
    let at = run.told_circumstances();
    let measure = |name: &str, unit: &str, look: Look| {
        let ours = look(run).map(|ours| Measure::new(format!("{name}, {at}"), unit, ours))?;
        Some(
            beside
                .iter()
                .fold(ours, |measure, other| match look(other) {
                    Some(value) => measure.peer(other.contestant.as_peer(), value),
                    None => measure,
                }),
        )
    };
    let judged =
        run.waiters == JUDGED_WAITERS && run.hold_ms == JUDGED_HOLD_MS && run.latency_ms == 0;
    let held_to = |measure: Measure, target: f64| {
        if judged {
            measure.at_most(target)
        } else {
            measure
        }
    };
    let waits = measure("longest wait / mean wait", "ratio", |run| {
        (run.cycles > 0).then_some(run.wait.longest_by_mean)
    });
    let open = beside.iter().any(|other| other.wait.longest_goes_on);
    [
        // Of no cycle there is no figure, and the target is missed.
        measure("requests per contended cycle", "requests", |run| {
            Some(if run.cycles > 0 { run.requests.per_cycle } else { f64::MAX })
        })
        .map(|measure| measure.within(REQUESTS, SAME).note(CUT)),
        measure("write units per contended cycle, all in all", "write units", |run| {
            let all = [&run.requests, &run.aside].map(|spent| spent.write_units + spent.refused_units);
            (run.cycles > 0).then(|| rounded(all.iter().sum()))
        }),
        measure("requests per hand-over to another client", "requests", |run| {
            run.requests_per_change
        }),
        waits.map(|measure| held_to(measure, SPREAD)).map(|measure| {
            if open {
                measure.note("who waited still when the window closed counts for as long: for some it is more")
            } else {
                measure
            }
        }),
        measure("part of the time in which nobody was inside", "ratio", |run| {
            Some(rounded(1.0 - run.utilisation))
        })
        .map(|measure| held_to(measure, IDLE)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn names(runs: &[Figures]) -> impl Iterator<Item = Name> {
    let mut names: Vec<Name> = runs.iter().map(|run| run.contestant).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter()
}

#[cfg(test)]
mod tests;
