//! What a million critical sections cost in each mode, from the counts of this run.

use serde::Serialize;

use super::calls::{Call, bill};
use super::crowd::Crowd;
use super::prices::{Bill, Prices};
use super::scenes::{LOOP, OURS, POLLING, SAMPLE, SAMPLE_LOOP, Scene, Wait};
use crate::measures::Measure;
use crate::rounded;

const TEN_MINUTES: f64 = 600.0;
/// How often ours asks when it polls, at the mean and at last: a random part of 10 s.
const POLLS_EVERY: f64 = 5.0;

/// One way to have a section, and what it costs.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What is bought.
    pub mode: String,
    /// From whom.
    pub who: &'static str,
    /// What one is made of.
    pub bill: Bill,
    /// What a million of them costs.
    pub million: f64,
}

/// What the ledger is made from.
pub(super) struct Counted<'a> {
    pub(super) alone: &'a [Scene],
    pub(super) waits: &'a [Wait],
    pub(super) crowds: &'a [Crowd],
    pub(super) calls: &'a [Call],
}

impl Counted<'_> {
    fn call(&self, name: &str, who: &str) -> Bill {
        let mut calls = self.calls.iter();
        let call = calls.find(|call| call.name == name && call.who == who);
        call.map_or_else(Bill::default, Call::bill)
    }

    /// What an extend takes in a workflow; the shipped sections have one each, and peers none.
    fn extend(&self) -> Bill {
        Bill {
            transitions: 1.0,
            ..self.call("an extend", OURS)
        }
    }

    fn scene(&self, name: &str) -> Bill {
        let mut scenes = self.alone.iter();
        let scene = scenes.find(|scene| scene.name == name);
        scene.map_or_else(Bill::default, |scene| self.section(scene))
    }

    /// A section of a scene, as if nobody had extended.
    fn section(&self, scene: &Scene) -> Bill {
        let by = &scene.purposes;
        let transitions = by.lease.transitions + by.waiting.transitions;
        let all = bill(&scene.spent, crate::ratio(transitions, 1));
        let sections = crate::ratio(scene.executions, 1);
        let extends = crate::ratio(scene.extends, 1);
        let extend = self.extend().each(1.0 / extends.max(f64::MIN_POSITIVE));
        let extend = Bill {
            // Counted apart already.
            transitions: 0.0,
            ..extend
        };
        let less = if scene.extends == 0 {
            all
        } else {
            all.less(&extend)
        };
        less.each(sections)
    }

    pub(super) fn rows(&self, prices: &Prices) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut row = |mode: &str, who, bill: Bill| {
            let million = bill.million(prices);
            let mode = mode.to_owned();
            rows.push(Row {
                mode,
                who,
                bill,
                million,
            });
        };
        let lock = self.call("a lock", OURS);
        let functionless = |bill: Bill| Bill {
            invocations: 0.0,
            ..bill
        };
        let mode = "from a program, without functions";
        row(mode, OURS, functionless(lock));
        for who in ["dynamodb-lease", "direct calls"] {
            row(mode, who, self.call("a lock", who));
        }
        row("by the functions, called directly", OURS, lock);
        let mode = "in a workflow, nobody in the way";
        row(mode, OURS, self.scene("critical-section"));
        for who in [SAMPLE, SAMPLE_LOOP, LOOP] {
            row(mode, who, self.scene(who));
        }
        row(
            "in a workflow, in line, nobody in the way",
            OURS,
            self.scene("queued-section"),
        );
        for crowd in self.crowds {
            let mode = format!("in a workflow, {} at once", crowd.many);
            row(&mode, crowd.scene.who, self.section(&crowd.scene));
        }
        let mode = "in a workflow, after 10 minutes of waiting";
        row(mode, OURS, self.scene("queued-section, after a wait"));
        let polls = TEN_MINUTES / POLLS_EVERY;
        let poll = Bill {
            transitions: polls,
            invocations: polls,
            write_units: polls,
            read_units: 0.0,
        };
        row(mode, POLLING, sum(&self.scene("critical-section"), &poll));
        for wait in self.waits {
            let rounds = TEN_MINUTES / wait.round_seconds;
            let waited = Bill {
                transitions: rounds * wait.transitions,
                invocations: 0.0,
                write_units: rounds * wait.writes(),
                read_units: rounds * wait.reads(),
            };
            row(mode, wait.who, sum(&self.scene(wait.who), &waited));
        }
        let mode = "a permit of a semaphore, in a workflow";
        row(mode, OURS, self.scene("semaphore, 5 items").each(5.0));
        row(mode, SAMPLE, self.scene(SAMPLE));
        let pair = self.call("two keys at once", OURS);
        row("two keys at once, by the functions", OURS, pair);
        let tidied = self.scene("critical-section").less(&lock);
        row("two keys at once, in a workflow", OURS, sum(&pair, &tidied));
        let mode = "a workflow that knows nothing of leases, wrapped";
        let first_wait = Bill {
            // It is entered before the first extend is due.
            transitions: 1.0,
            ..Bill::default()
        };
        row(mode, OURS, sum(&self.scene("with-lease"), &first_wait));
        rows
    }
}

fn sum(one: &Bill, other: &Bill) -> Bill {
    one.less(&other.each(-1.0))
}

/// A measure for each mode, ours beside the others'.
pub(super) fn measures(rows: &[Row], prices: &Prices) -> Vec<Measure> {
    let unit = format!("{} per million critical sections", prices.currency);
    let ours = rows.iter().filter(|row| row.who == OURS);
    let measures = ours.map(|own| {
        let name = format!("cost of a lease, {}", own.mode);
        let measure = Measure::new(name, &unit, rounded(own.million)).note(format!(
            "{}, prices of {}; a function is taken to have {} MB for {} ms; the work's own, logs, queues and storage are left out",
            prices.region, prices.date, prices.assumed.memory_mb, prices.assumed.billed_ms
        ));
        let others = rows.iter().filter(|row| row.mode == own.mode && row.who != OURS);
        others.fold(measure, |measure, row| measure.peer(row.who, rounded(row.million)))
    });
    measures.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflows::history::{History, State};
    use crate::workflows::spent::{Asked, Spent};

    fn spent(sections: u64, states: &[(&str, u64)], writes: f64) -> Spent {
        let states = states.iter().map(|(name, entered)| {
            let state = State {
                entered: *entered,
                retried: 0,
                events: 5 * entered,
            };
            ((*name).to_owned(), state)
        });
        Spent {
            sections,
            history: History {
                states: states.collect(),
                events: 0,
            },
            sections_asked: Asked {
                write_units: writes,
                ..Asked::default()
            },
            invocations: [("AcquireFunction".to_owned(), 3 * sections)].into(),
            ..Spent::default()
        }
    }

    #[test]
    fn a_section_is_priced_without_its_extend_and_by_itself() {
        let states = [("Acquire", 2), ("First", 2), ("Extend", 2), ("Release", 2)];
        let scene = Scene::new("critical-section", OURS, spent(2, &states, 10.0));
        let mut extend = spent(1, &[], 1.0);
        extend.invocations = [("ExtendFunction".to_owned(), 1)].into();
        let calls = [Call {
            name: "an extend",
            who: OURS,
            spent: extend,
        }];
        let counted = Counted {
            alone: &[scene],
            waits: &[],
            crowds: &[],
            calls: &calls,
        };
        let found = counted.scene("critical-section");
        // Ten units of two sections, less one for each extend; three invocations, less that of the extend.
        let expected = Bill {
            transitions: 2.0,
            invocations: 2.0,
            write_units: 4.0,
            read_units: 0.0,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_mode_is_one_measure_with_the_others_beside_ours() {
        let prices = Prices::read(None).unwrap();
        let row = |who, transitions| Row {
            mode: "in a workflow".to_owned(),
            who,
            bill: Bill::default(),
            million: transitions * 25.0,
        };
        let found = measures(&[row(OURS, 2.0), row(SAMPLE, 5.0)], &prices);
        let [measure] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(measure.unit, "USD per million critical sections");
        assert!((measure.ours - 50.0).abs() < 1e-9);
        assert!((measure.peers[SAMPLE] - 125.0).abs() < 1e-9);
        assert!(measure.note.as_ref().unwrap().contains("2025"));
    }
}
