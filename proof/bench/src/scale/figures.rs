//! Everything that was found, and the measures that come of it.

use serde::Serialize;

use super::cost::Cost;
use super::keeps_up::KeepsUp;
use super::lines::Depth;
use super::load::{self, Loaded};
use super::permits::Semaphore;
use super::rows::{Rows, SWEEP};
use super::several::Set;
use crate::measures::Measure;
use crate::{ratio, rounded};

/// Who finds what has expired by a scan of all rows.
pub const SCAN: &str = "scan of the table";

/// What was found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// Beside more and more free rows.
    pub rows: Vec<Rows>,
    /// In deeper and deeper lines.
    pub lines: Vec<Depth>,
    /// A sweep behind those who were served.
    pub keeps_up: Vec<KeepsUp>,
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

impl Figures {
    /// The measures.
    #[must_use]
    pub fn measures(&self) -> Vec<Measure> {
        let mut measures = self.of_rows();
        measures.extend(self.of_lines());
        measures.extend(self.keeps_up.iter().map(|found| {
            let name = format!(
                "served waiters that one sweep a minute keeps up with, {} lines, {} ms a request",
                found.lines, found.latency_ms
            );
            Measure::new(name, "1/s", found.served_per_second)
        }));
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
            let pairs = || fewest.steps.iter().zip(&rows.steps);
            let differ = pairs().filter(|(few, many)| few.cost != many.cost);
            let name = format!(
                "operations, of {}, whose requests, bytes or units beside {} free rows are not those beside {}",
                pairs().count(),
                rows.free,
                fewest.free
            );
            measures.push(Measure::new(name, "operations", count(differ)).at_most(0.0));
        }
        measures.extend(self.by_what_is_in_use());
        measures
    }

    /// What follows the number of those who hold and wait, beside the largest table.
    fn by_what_is_in_use(&self) -> Vec<Measure> {
        let Some(rows) = self.rows.last() else {
            return Vec::new();
        };
        let in_use = rows.in_use;
        let leases = in_use.held + in_use.lines;
        let each = [
            ("inspect everything held", "lease that is listed", leases),
            (
                "sweep, all extended",
                "lease that is held beyond its first deadline and left alone",
                leases,
            ),
            ("sweep, all leases over", "lease that is freed", leases),
            (
                "sweep, all waits over",
                "waiter who is sent away",
                in_use.lines * in_use.waiting,
            ),
        ];
        let measures = each.into_iter().filter_map(|(what, each, number)| {
            let cost = rows.step(what)?;
            let name = format!("requests per {each}, in a walk over {number}");
            let measure = Measure::new(name, "requests", rounded(ratio(cost.requests, number)));
            Some(measure.note(format!("{what}: {}", cost.operations())))
        });
        measures.collect()
    }

    fn of_lines(&self) -> Vec<Measure> {
        let mut measures = Vec::new();
        for depth in &self.lines {
            let waiting = depth.waiting;
            let [join, over] = [&depth.join, &depth.hand_over].map(|cost| cost.units.write);
            let bytes = ratio(depth.hand_over.bytes(), 1);
            measures.extend([
                Measure::new(
                    format!("write units to join a line as number {waiting}"),
                    "write units",
                    join,
                ),
                Measure::new(
                    format!("write units to hand over with {waiting} in line"),
                    "write units",
                    over,
                ),
                Measure::new(
                    format!("bytes to hand over with {waiting} in line"),
                    "bytes",
                    bytes,
                ),
            ]);
        }
        let Some(deepest) = self.lines.last() else {
            return measures;
        };
        let waiting = deepest.waiting;
        let steps = [
            ("to join a line as number", deepest.join.requests, 1.0),
            (
                "to hand over, in a line of",
                deepest.hand_over.requests,
                2.0,
            ),
        ];
        measures.extend(steps.map(|(what, requests, most)| {
            let name = format!("requests {what} {waiting}");
            Measure::new(name, "requests", ratio(requests, 1)).at_most(most)
        }));
        let differ = self.lines.iter().filter(|depth| {
            let of = |depth: &Depth| {
                let steps = [&depth.join, &depth.leave, &depth.hand_over, &depth.confirm];
                steps.map(|cost| cost.by_operation.clone())
            };
            of(depth) != of(deepest)
        });
        let name = format!(
            "depths, of {}, at which other requests are sent than at {waiting}",
            self.lines.len()
        );
        measures.push(Measure::new(name, "depths", count(differ)).at_most(0.0));
        measures
    }

    fn of_permits(&self) -> Vec<Measure> {
        let mut measures = Vec::new();
        for semaphore in &self.permits {
            let of = format!("one of {} permits", semaphore.permits);
            let (free, full) = (&semaphore.free, &semaphore.full);
            measures.extend([
                Measure::new(
                    format!("requests to get {of}"),
                    "requests",
                    ratio(free.requests, 1),
                ),
                Measure::new(
                    format!("read units to get {of}, all used before"),
                    "read units",
                    free.units.read,
                ),
                Measure::new(
                    format!("read units to be refused {of}"),
                    "read units",
                    full.units.read,
                ),
            ]);
        }
        measures
    }

    fn of_several(&self) -> Vec<Measure> {
        let mut measures = Vec::new();
        for set in &self.several {
            let of = format!("to acquire {} keys at once", set.keys);
            let cost = &set.acquire;
            measures.extend([
                Measure::new(
                    format!("requests {of}"),
                    "requests",
                    ratio(cost.requests, 1),
                ),
                Measure::new(format!("write units {of}"), "write units", cost.units.write),
                Measure::new(format!("read units {of}"), "read units", cost.units.read),
            ]);
        }
        let Some(most) = self.several.last() else {
            return measures;
        };
        let keys = u64::try_from(most.keys).unwrap_or(u64::MAX);
        for (what, cost) in [("extend", &most.extend), ("release", &most.release)] {
            let name = format!("requests per key to {what} {keys} keys");
            measures.push(Measure::new(name, "requests", ratio(cost.requests, keys)).at_most(1.0));
        }
        measures
    }
}

fn count(of: impl Iterator) -> f64 {
    ratio(u64::try_from(of.count()).unwrap_or(u64::MAX), 1)
}
