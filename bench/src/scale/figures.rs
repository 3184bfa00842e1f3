//! Everything that was found, and the measures that come of it.

use serde::Serialize;

use super::cost::Cost;
use super::lines::Depth;
use super::load::{self, Loaded};
use super::permits::Semaphore;
use super::rows::{Rows, SWEEP};
use super::several::Set;
use crate::measures::Measure;
use crate::ratio;

/// Who finds what has expired by a scan of all rows.
pub const SCAN: &str = "scan of the table";

/// What was found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// Beside more and more free rows.
    pub rows: Vec<Rows>,
    /// In deeper and deeper lines.
    pub lines: Vec<Depth>,
    /// With more and more permits.
    pub permits: Vec<Semaphore>,
    /// With more and more keys in one acquire.
    pub several: Vec<Set>,
    /// Under load from more and more processes.
    pub loads: Vec<Loaded>,
}

/// Of a cost, a number and its unit.
pub(super) type Look = (&'static str, fn(&Cost) -> f64);

/// What is told of each cost.
pub(super) const LOOKS: [Look; 4] = [
    ("requests", |cost| ratio(cost.requests, 1)),
    ("bytes", |cost| ratio(cost.bytes(), 1)),
    ("write units", |cost| cost.units.write),
    ("read units", |cost| cost.units.read),
];

/// Of a cost, everything that is not nothing.
fn looks(cost: &Cost) -> impl Iterator<Item = (&'static str, f64)> {
    let found = LOOKS.iter().map(|(unit, look)| (*unit, look(cost)));
    found.filter(|(_, value)| *value > 0.0)
}

impl Figures {
    /// The measures.
    #[must_use]
    pub fn measures(&self) -> Vec<Measure> {
        let mut measures = self.of_rows();
        measures.extend(self.of_lines());
        measures.extend(self.of_permits());
        measures.extend(self.of_several());
        measures.extend(load::measures::measures(&self.loads));
        measures
    }

    fn of_rows(&self) -> Vec<Measure> {
        let mut measures = Vec::new();
        let Some(fewest) = self.rows.first() else {
            return measures;
        };
        for rows in &self.rows {
            let Some((sweep, least)) = rows.step(SWEEP).zip(fewest.step(SWEEP)) else {
                continue;
            };
            let in_use = rows.in_use;
            let leases = in_use.held + in_use.lines;
            let waiting = in_use.lines * in_use.waiting;
            let beside = format!(
                "of a sweep that frees nothing, {leases} held and {waiting} waiting, beside {} free rows",
                rows.free
            );
            // It writes nothing.
            for (unit, look) in LOOKS.into_iter().filter(|(_, look)| look(sweep) > 0.0) {
                let measure = Measure::new(format!("{unit} {beside}"), unit, look(sweep))
                    .peer(SCAN, look(&rows.scan))
                    .at_most(look(least));
                measures.push(measure.note(format!(
                    "the target is what it takes beside {} free rows; the scan looks for what is held and over, and reads every row",
                    fewest.free
                )));
            }
        }
        for rows in self.rows.iter().skip(1) {
            for (unit, look) in LOOKS {
                let pairs = || fewest.steps.iter().zip(&rows.steps);
                let differ = pairs().filter(|(few, many)| {
                    let apart = look(&few.cost) - look(&many.cost);
                    apart.abs() > f64::EPSILON
                });
                let name = format!(
                    "operations, of {}, whose {unit} beside {} free rows are not those beside {}",
                    pairs().count(),
                    rows.free,
                    fewest.free
                );
                let differ = u64::try_from(differ.count()).unwrap_or(u64::MAX);
                measures.push(Measure::new(name, "operations", ratio(differ, 1)).at_most(0.0));
            }
        }
        measures
    }

    fn of_lines(&self) -> Vec<Measure> {
        let mut measures = Vec::new();
        for depth in &self.lines {
            let waiting = depth.waiting;
            let steps = [
                ("to join a line as number", &depth.join, Some(1.0)),
                ("to hand over with a line of", &depth.hand_over, Some(2.0)),
                ("to leave from the end of a line of", &depth.leave, None),
            ];
            for (what, cost, requests) in steps {
                for (unit, value) in looks(cost) {
                    let measure = Measure::new(format!("{unit} {what} {waiting}"), unit, value);
                    measures.push(match requests.filter(|_| unit == "requests") {
                        Some(most) => measure.at_most(most),
                        None => measure,
                    });
                }
            }
        }
        measures
    }

    fn of_permits(&self) -> Vec<Measure> {
        let mut measures = Vec::new();
        for semaphore in &self.permits {
            let permits = semaphore.permits;
            for (what, cost) in [
                ("free and all used before", &semaphore.free),
                ("all but one held", &semaphore.last),
                ("all held", &semaphore.full),
            ] {
                for (unit, value) in looks(cost) {
                    let name = format!("{unit} to ask for one of {permits} permits, {what}");
                    measures.push(Measure::new(name, unit, value));
                }
            }
        }
        measures
    }

    fn of_several(&self) -> Vec<Measure> {
        let mut measures = Vec::new();
        for set in &self.several {
            for (what, cost) in [
                ("acquire", &set.acquire),
                ("extend", &set.extend),
                ("release", &set.release),
            ] {
                for (unit, value) in looks(cost) {
                    let name = format!("{unit} to {what} {} keys at once", set.keys);
                    measures.push(Measure::new(name, unit, value));
                }
            }
        }
        measures
    }
}
