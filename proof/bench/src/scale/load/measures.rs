//! What the loads come to.

use super::client::Name;
use super::{Load, Loaded};
use crate::measures::Measure;
use crate::{ratio, rounded};

/// What is added up over all loads.
type Sum = fn(&Loaded) -> u64;

impl Load {
    /// Under what, but for the number of processes and who asks.
    fn told(&self) -> String {
        let chosen = if self.exponent > 0.0 {
            format!("chosen unevenly (Zipf {})", self.exponent)
        } else {
            "chosen alike".to_owned()
        };
        format!("{} keys {chosen}", self.keys)
    }

    fn is_beside(&self, other: &Self) -> bool {
        self.told() == other.told()
    }
}

/// The measures of all loads: ours, and beside them the others' under the same circumstances.
#[must_use]
pub fn measures(loads: &[Loaded]) -> Vec<Measure> {
    let ours: Vec<&Loaded> = of(loads, Name::Leasehold).collect();
    let mut measures = Vec::new();
    for run in &ours {
        let same = |other: &&Loaded| {
            other.load.is_beside(&run.load) && other.load.processes == run.load.processes
        };
        let at = format!("{} processes, {}", run.load.processes, run.load.told());
        let measure = |name: &str, unit: &str, look: fn(&Loaded) -> f64| {
            let measure = Measure::new(format!("{name}, {at}"), unit, rounded(look(run)));
            others()
                .into_iter()
                .fold(measure, |measure, name| match of(loads, name).find(same) {
                    Some(other) => measure.peer(name.as_peer(), rounded(look(other))),
                    None => measure,
                })
        };
        measures.extend([
            measure("requests per granted section", "requests", |run| {
                ratio(run.cost.requests, run.sections)
            })
            .note(
                "with those that were refused. dynamodb-lease does not extend within so short a section",
            ),
            measure(
                "requests per granted section, less those refused",
                "requests",
                Loaded::per_section,
            )
            .at_most(ratio(run.load.name.per_section(), 1)),
            measure("write units per granted section", "write units", |run| {
                run.cost.units.write / ratio(run.sections.max(1), 1)
            })
            .note("what was refused included, as one unit for each KB of the row"),
        ]);
        let alone = |name| {
            let mut runs = of(loads, name);
            runs.find(|other| other.load.is_beside(&run.load) && other.load.processes == 1)
        };
        if let Some(one) = alone(Name::Leasehold).filter(|_| run.load.processes > 1) {
            let name = format!("sections per second of {at}, by those of one process");
            let faster = |run: &Loaded, one: &Loaded| rounded(run.per_second / one.per_second);
            let measure = Measure::new(name, "ratio", faster(run, one)).note(
                "how many times as much is bounded by this machine, on which the processes and the database share the cores",
            );
            let beside = others()
                .into_iter()
                .filter_map(|name| Some((name, of(loads, name).find(same)?, alone(name)?)));
            measures.push(beside.fold(measure, |measure, (name, run, one)| {
                measure.peer(name.as_peer(), faster(run, one))
            }));
        }
    }
    if ours.is_empty() {
        return measures;
    }
    let sums: [(&str, Sum); 3] = [
        (
            "sections that began before another of the same key had ended",
            |run| run.overlaps,
        ),
        ("fencing tokens that did not rise", |run| run.tokens_back),
        ("calls that failed", Loaded::failed),
    ];
    for (name, look) in sums {
        let sum = |name| ratio(of(loads, name).map(look).sum(), 1);
        let measure = Measure::new(
            format!("{name}, in all loads"),
            "in all loads",
            sum(Name::Leasehold),
        );
        let beside = others()
            .into_iter()
            // Without tokens there are none that could go back.
            .filter(|other| of(loads, *other).next().is_some() && !name.contains("tokens"));
        let measure = beside.fold(measure, |measure, name| {
            measure.peer(name.as_peer(), sum(name))
        });
        measures.push(measure.at_most(0.0));
    }
    measures
}

const fn others() -> [Name; 2] {
    [Name::DynamodbLease, Name::DirectCalls]
}

fn of(loads: &[Loaded], name: Name) -> impl Iterator<Item = &Loaded> {
    loads.iter().filter(move |run| run.load.name == name)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::scale::cost::Cost;

    fn loaded(name: Name, processes: u32, requests: u64) -> Loaded {
        Loaded {
            load: Load {
                name,
                processes,
                tasks: 4,
                sections: 10,
                keys: 1000,
                exponent: 0.0,
                latency: Duration::ZERO,
            },
            sections: 10,
            refused: 2,
            errors: [].into(),
            overlaps: 0,
            tokens_back: 0,
            per_second: f64::from(processes),
            cost: Cost {
                requests,
                ..Cost::default()
            },
        }
    }

    fn missed(loads: &[Loaded]) -> Vec<String> {
        let missed = measures(loads).into_iter().filter(Measure::missed);
        missed.map(|measure| measure.name).collect()
    }

    #[test]
    fn each_promise_can_be_broken_by_itself() {
        assert_eq!(missed(&[loaded(Name::Leasehold, 1, 32)]), [""; 0]);
        let more = missed(&[loaded(Name::Leasehold, 1, 33)]);
        let name =
            "requests per granted section, less those refused, 1 processes, 1000 keys chosen alike";
        assert_eq!(more, [name]);
        let changes: [fn(&mut Loaded); 3] = [
            |run| run.overlaps = 1,
            |run| run.tokens_back = 1,
            |run| run.errors = [("no".to_owned(), 1)].into(),
        ];
        for change in changes {
            let mut run = loaded(Name::Leasehold, 1, 32);
            change(&mut run);
            assert_eq!(missed(&[run]).len(), 1);
        }
    }

    #[test]
    fn the_others_stand_beside_and_are_held_to_nothing() {
        let loads = [
            loaded(Name::Leasehold, 1, 32),
            loaded(Name::Leasehold, 4, 32),
            loaded(Name::DynamodbLease, 1, 22),
            loaded(Name::DynamodbLease, 4, 62),
        ];
        let measures = measures(&loads);
        assert!(!measures.iter().any(Measure::missed));
        let of = |start: &str| {
            let mut measures = measures.iter();
            measures
                .find(|measure| measure.name.starts_with(start))
                .unwrap()
        };
        let per = of("requests per granted section, 4");
        assert!((per.ours - 3.2).abs() < 1e-9, "{per:?}");
        assert!((per.peers["dynamodb-lease"] - 6.2).abs() < 1e-9, "{per:?}");
        let times = of("sections per second of 4");
        assert!((times.ours - 4.0).abs() < 1e-9, "{times:?}");
        assert!(
            (times.peers["dynamodb-lease"] - 4.0).abs() < 1e-9,
            "{times:?}"
        );
    }
}
