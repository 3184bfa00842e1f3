//! What a widget's entry comes to over the time of a demo.

use std::collections::BTreeMap;

use leasehold_local::metrics::Datum;

use super::body::{Metric, What};

/// Everything of ours is in this namespace; the others are AWS's own.
pub(super) const NAMESPACE: &str = "Leasehold";
/// Into how many parts the time is cut for what is no sum.
const PARTS: f64 = 40.0;

/// A line to be drawn.
#[derive(Debug, PartialEq)]
pub(super) struct Series {
    pub(super) label: String,
    /// Seconds since the first datum, and the value.
    pub(super) points: Vec<(f64, f64)>,
    /// Whether a value stands until the next one.
    pub(super) steps: bool,
    /// The statistic over the whole time; none without data.
    pub(super) overall: Option<f64>,
}

/// The data of a demo.
pub(super) struct Data {
    every: Vec<Datum>,
    began: u64,
    /// How long it lasted, in seconds.
    pub(super) seconds: f64,
}

impl Data {
    pub(super) fn new(data: Vec<Datum>) -> Self {
        let began = data.iter().map(|datum| datum.at).min().unwrap_or(0);
        let ended = data.iter().map(|datum| datum.at).max().unwrap_or(0);
        Self {
            seconds: seconds(ended - began).max(1.0),
            every: data,
            began,
        }
    }

    /// How many data there are.
    pub(super) fn len(&self) -> usize {
        self.every.len()
    }

    /// The visible ones of a widget's entries; entries of AWS's own namespaces come to nothing.
    ///
    /// # Errors
    /// A sentence on an expression that is not understood here.
    pub(super) fn of(&self, metrics: &[Metric], period: u64) -> Result<Vec<Series>, String> {
        let visible = metrics.iter().filter(|metric| metric.visible);
        visible
            .filter_map(|metric| self.one(metric, metrics, period).transpose())
            .collect()
    }

    fn one(&self, metric: &Metric, all: &[Metric], period: u64) -> Result<Option<Series>, String> {
        match &metric.what {
            What::Expression(expression) => {
                let strange = || format!("{expression:?} is not a number times an entry");
                let (factor, id) = expression.split_once(" * ").ok_or_else(strange)?;
                let factor: f64 = factor.parse().map_err(|_| strange())?;
                let of = all.iter().find(|other| other.id == id && metric.id != id);
                let of = self.one(of.ok_or_else(strange)?, all, period)?;
                Ok(of.map(|series| Series {
                    label: metric.label.clone(),
                    points: (series.points.iter())
                        .map(|(at, value)| (*at, factor * value))
                        .collect(),
                    overall: series.overall.map(|value| factor * value),
                    ..series
                }))
            }
            What::Written {
                namespace,
                name,
                dimensions,
                stat,
            } if namespace == NAMESPACE => {
                let wanted: BTreeMap<_, _> = dimensions.iter().cloned().collect();
                let mut values: Vec<(f64, f64)> = (self.every.iter())
                    .filter(|datum| {
                        datum.namespace == *namespace
                            && datum.metric == *name
                            && datum.dimensions == wanted
                    })
                    .map(|datum| (seconds(datum.at - self.began), datum.value))
                    .collect();
                values.sort_by(|a, b| a.0.total_cmp(&b.0));
                let steps = stat == "Sum";
                let points = if steps {
                    // Whole seconds of a period are far below what a float tells apart.
                    #[expect(clippy::cast_precision_loss)]
                    self.sums(&values, period as f64)
                } else {
                    self.parts(&values, stat)?
                };
                let every: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
                Ok(Some(Series {
                    label: metric.label.clone(),
                    points,
                    steps,
                    overall: statistic(stat, &every)?,
                }))
            }
            What::Written { .. } => Ok(None),
        }
    }

    /// At each change, the sum of the period that ends there: what an alarm compares.
    fn sums(&self, values: &[(f64, f64)], period: f64) -> Vec<(f64, f64)> {
        let mut changes: Vec<(f64, f64)> = (values.iter())
            .flat_map(|(at, value)| [(*at, *value), (at + period, -value)])
            .filter(|(at, _)| *at <= self.seconds)
            .collect();
        changes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut sum = 0.0;
        let mut points = vec![(0.0, 0.0)];
        for (at, change) in changes {
            sum += change;
            points.push((at, sum));
        }
        points.push((self.seconds, sum));
        points
    }

    /// The statistic of each part of the time that has values, at its middle.
    fn parts(&self, values: &[(f64, f64)], stat: &str) -> Result<Vec<(f64, f64)>, String> {
        let part = self.seconds / PARTS;
        let mut points = Vec::new();
        let mut from = 0.0;
        while from <= self.seconds {
            let here: Vec<f64> = (values.iter())
                .filter(|(at, _)| (from..from + part).contains(at))
                .map(|(_, value)| *value)
                .collect();
            if let Some(value) = statistic(stat, &here)? {
                points.push(((from + part / 2.0).min(self.seconds), value));
            }
            from += part;
        }
        Ok(points)
    }
}

/// One of `CloudWatch`'s statistics; none of no values.
fn statistic(stat: &str, values: &[f64]) -> Result<Option<f64>, String> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(largest) = sorted.last() else {
        return Ok(None);
    };
    Ok(Some(match stat {
        "Sum" => sorted.iter().sum(),
        "Maximum" => *largest,
        _ => {
            let percent = stat.strip_prefix('p').and_then(|p| p.parse::<usize>().ok());
            let percent = percent.filter(|percent| *percent <= 100);
            let percent = percent.ok_or_else(|| format!("{stat:?} is no statistic known here"))?;
            let rank = (percent * sorted.len()).div_ceil(100).max(1);
            sorted[rank - 1]
        }
    }))
}

fn seconds(milliseconds: u64) -> f64 {
    // A demo lasts minutes.
    #[expect(clippy::cast_precision_loss)]
    let milliseconds = milliseconds as f64;
    milliseconds / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datum(name: &str, at: u64, value: f64) -> Datum {
        Datum {
            namespace: NAMESPACE.to_owned(),
            metric: name.to_owned(),
            unit: "Count".to_owned(),
            dimensions: BTreeMap::from([("Table".to_owned(), "t".to_owned())]),
            at,
            value,
        }
    }

    fn written(namespace: &str, name: &str, stat: &str) -> Metric {
        Metric {
            label: name.to_owned(),
            visible: true,
            id: name.to_lowercase(),
            what: What::Written {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                dimensions: vec![("Table".to_owned(), "t".to_owned())],
                stat: stat.to_owned(),
            },
        }
    }

    #[test]
    fn a_sum_is_that_of_the_period_before() {
        let data = Data::new(vec![
            datum("Lost", 1_000, 1.0),
            datum("Lost", 3_000, 2.0),
            datum("Other", 9_000, 7.0),
        ]);
        let drawn = data.of(&[written(NAMESPACE, "Lost", "Sum")], 5).unwrap();
        assert_eq!(
            drawn[0].points,
            [
                (0.0, 0.0),
                (0.0, 1.0),
                (2.0, 3.0),
                (5.0, 2.0),
                (7.0, 0.0),
                (8.0, 0.0)
            ]
        );
        assert_eq!((drawn[0].steps, drawn[0].overall), (true, Some(3.0)));
    }

    #[test]
    fn other_statistics_are_told_part_by_part_and_over_all() {
        let mut values: Vec<Datum> = (1..=100)
            .map(|n| datum("Wait", 1_000, f64::from(n)))
            .collect();
        values.push(datum("Wait", 41_000, 7.0));
        let data = Data::new(values);
        let drawn = data.of(
            &[
                written(NAMESPACE, "Wait", "Maximum"),
                written(NAMESPACE, "Wait", "p50"),
                written(NAMESPACE, "Wait", "p99"),
            ],
            300,
        );
        let drawn = drawn.unwrap();
        let values =
            |nth: usize| -> Vec<f64> { drawn[nth].points.iter().map(|(_, v)| *v).collect() };
        assert_eq!(
            (values(0), values(1), values(2)),
            (vec![100.0, 7.0], vec![50.0, 7.0], vec![99.0, 7.0])
        );
        assert_eq!(drawn[1].overall, Some(50.0));
        assert!(!drawn[0].steps);
    }

    #[test]
    fn an_expression_is_a_multiple_of_another_entry() {
        let data = Data::new(vec![datum("Clock", 0, 4.0)]);
        let twice = |expression: &str| Metric {
            label: "twice".to_owned(),
            visible: true,
            id: "twice".to_owned(),
            what: What::Expression(expression.to_owned()),
        };
        let hidden = || Metric {
            visible: false,
            ..written(NAMESPACE, "Clock", "Maximum")
        };
        let drawn = data.of(&[twice("2 * clock"), hidden()], 300).unwrap();
        assert_eq!(drawn.len(), 1);
        assert_eq!(
            (drawn[0].overall, drawn[0].label.as_str()),
            (Some(8.0), "twice")
        );
        for strange in ["clock + clock", "2 * nobody", "2 * twice", "x * clock"] {
            assert!(
                data.of(&[twice(strange), hidden()], 300).is_err(),
                "{strange}"
            );
        }
    }

    #[test]
    fn what_only_aws_has_and_other_dimensions_come_to_nothing() {
        let data = Data::new(vec![datum("Errors", 0, 4.0)]);
        assert_eq!(
            data.of(&[written("AWS/Lambda", "Errors", "Sum")], 300),
            Ok(vec![])
        );
        let mut other = datum("Errors", 0, 4.0);
        other
            .dimensions
            .insert("Operation".to_owned(), "acquire".to_owned());
        let drawn = Data::new(vec![other]).of(&[written(NAMESPACE, "Errors", "Sum")], 300);
        assert_eq!(drawn.unwrap()[0].overall, None);
        assert!(
            data.of(&[written(NAMESPACE, "Errors", "SampleCount")], 300)
                .is_err()
        );
    }
}
