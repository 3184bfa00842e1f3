//! What a run is held to. Counts and ratios only: how fast this machine is does not enter.

use serde::Serialize;

use crate::report::Figures;

/// Requests that a contended cycle may take, apart from confirming and cleaning up.
const REQUESTS: f64 = 3.0;
/// What the counts of two runs may differ by and still be the same: a cycle that an edge of the window cut.
const SAME: f64 = 0.05;
/// The waiters with which utilisation and waits are judged, with 50 ms holds.
const JUDGED_WAITERS: usize = 32;
const JUDGED_HOLD_MS: u64 = 50;
/// How much longer than the mean the longest wait may be.
const SPREAD: f64 = 1.25;
/// The part of the time in which the key has to be of use.
const UTILISATION: f64 = 0.9;

/// A promise, and whether it was kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// What was promised, with the figure that was found.
    pub promise: String,
    /// Whether it was kept.
    pub kept: bool,
}

/// Judges all runs. Of everybody it is asked that nobody is inside with another; the rest of who promises it.
#[must_use]
pub fn judge(runs: &[Figures]) -> Vec<Verdict> {
    let mut verdicts = vec![alone(runs)];
    let promising: Vec<&Figures> = runs
        .iter()
        .filter(|run| run.contestant.promises())
        .collect();
    verdicts.extend(promises(&promising));
    verdicts
}

fn alone(runs: &[Figures]) -> Verdict {
    let overlaps: u64 = runs.iter().map(|run| run.overlaps).sum();
    Verdict {
        promise: format!(
            "never two inside at once: {overlaps} overlaps in {} runs",
            runs.len()
        ),
        kept: overlaps == 0,
    }
}

/// What the queue promises; nothing if it did not run.
fn promises(runs: &[&Figures]) -> Vec<Verdict> {
    let spent = || runs.iter().map(|run| run.requests.per_cycle);
    let (Some(most), Some(least)) = (spent().reduce(f64::max), spent().reduce(f64::min)) else {
        return Vec::new();
    };
    let cycles = runs.iter().map(|run| run.cycles).min().unwrap_or(0);
    let errors: u64 = runs.iter().flat_map(|run| run.errors.values()).sum();
    let mut verdicts = vec![
        Verdict {
            promise: format!(
                "at most {REQUESTS} requests per cycle: at most {most:.2}, in each run {cycles} cycles or more"
            ),
            kept: most <= REQUESTS + SAME && cycles > 0,
        },
        Verdict {
            promise: format!(
                "as many however many wait, and however long: {least:.2} to {most:.2}"
            ),
            kept: most - least <= SAME,
        },
        Verdict {
            promise: format!("no call fails: {errors} did"),
            kept: errors == 0,
        },
    ];
    let judged = runs
        .iter()
        .find(|run| run.waiters == JUDGED_WAITERS && run.hold_ms == JUDGED_HOLD_MS);
    if let Some(run) = judged {
        let (spread, utilisation) = (run.wait.longest_by_mean, run.utilisation);
        verdicts.extend([
            Verdict {
                promise: format!("{JUDGED_WAITERS} waiters, {JUDGED_HOLD_MS} ms: longest wait at most {SPREAD} times the mean: {spread:.2}"),
                kept: spread <= SPREAD,
            },
            Verdict {
                promise: format!("{JUDGED_WAITERS} waiters, {JUDGED_HOLD_MS} ms: utilisation at least {UTILISATION}: {utilisation:.3}"),
                kept: utilisation >= UTILISATION,
            },
        ]);
    }
    verdicts
}

#[cfg(test)]
mod tests;
