//! The body of a `CloudWatch` dashboard, as far as it is drawn here.

use serde::Deserialize;
use serde_json::Value;

/// Widgets on a grid of 24 columns.
#[derive(Debug, Deserialize)]
pub(super) struct Body {
    pub(super) widgets: Vec<Widget>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Widget {
    #[serde(rename = "type")]
    pub(super) kind: Kind,
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) properties: Properties,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Text,
    Alarm,
    Metric,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Properties {
    pub(super) markdown: String,
    pub(super) title: String,
    /// ARNs of the alarms that are shown.
    pub(super) alarms: Vec<String>,
    metrics: Vec<Vec<Value>>,
    stat: String,
    /// In seconds.
    pub(super) period: u64,
    #[serde(rename = "yAxis")]
    axes: Axes,
    annotations: Annotations,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Axes {
    left: Axis,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Axis {
    label: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Annotations {
    horizontal: Vec<Line>,
}

/// A line across a widget: where an alarm begins.
#[derive(Debug, Deserialize)]
pub(super) struct Line {
    pub(super) label: String,
    pub(super) value: f64,
}

/// One entry of a widget's metrics.
#[derive(Debug, PartialEq)]
pub(super) struct Metric {
    pub(super) label: String,
    pub(super) visible: bool,
    pub(super) id: String,
    pub(super) what: What,
}

#[derive(Debug, PartialEq)]
pub(super) enum What {
    /// Computed from other entries, by their ids.
    Expression(String),
    /// What somebody writes.
    Written {
        namespace: String,
        name: String,
        /// Names and values, in order.
        dimensions: Vec<(String, String)>,
        /// `Sum`, `Maximum`, `p99` …
        stat: String,
    },
}

impl Properties {
    /// The unit, as the axis says it.
    pub(super) fn axis(&self) -> &str {
        &self.axes.left.label
    }

    pub(super) fn lines(&self) -> &[Line] {
        &self.annotations.horizontal
    }

    /// The entries of a widget.
    ///
    /// # Errors
    /// A sentence on the first entry that is not understood here.
    pub(super) fn metrics(&self) -> Result<Vec<Metric>, String> {
        self.metrics
            .iter()
            .map(|entry| self.metric(entry))
            .collect()
    }

    fn metric(&self, entry: &[Value]) -> Result<Metric, String> {
        let strange = || format!("{}: {entry:?} is not understood", self.title);
        let (options, names) = match entry.split_last() {
            Some((options @ Value::Object(_), names)) => (options, names),
            _ => (&Value::Null, entry),
        };
        let option = |name: &str| options[name].as_str().unwrap_or_default().to_owned();
        let names: Option<Vec<&str>> = names.iter().map(Value::as_str).collect();
        let names = names.ok_or_else(strange)?;
        // A full stop repeats the entry above; the template writes everything out.
        let what = match names.as_slice() {
            [] if options["expression"].is_string() => What::Expression(option("expression")),
            [namespace, name, dimensions @ ..]
                if dimensions.len().is_multiple_of(2) && !names.contains(&".") =>
            {
                let own = option("stat");
                What::Written {
                    namespace: (*namespace).to_owned(),
                    name: (*name).to_owned(),
                    dimensions: dimensions
                        .chunks_exact(2)
                        .map(|pair| (pair[0].to_owned(), pair[1].to_owned()))
                        .collect(),
                    stat: if own.is_empty() {
                        self.stat.clone()
                    } else {
                        own
                    },
                }
            }
            _ => return Err(strange()),
        };
        Ok(Metric {
            label: option("label"),
            visible: options["visible"].as_bool().unwrap_or(true),
            id: option("id"),
            what,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn widget(metrics: &Value) -> Properties {
        serde_json::from_value(
            json!({"title": "t", "stat": "Sum", "period": 300, "metrics": metrics}),
        )
        .unwrap()
    }

    #[test]
    fn an_entry_is_a_metric_or_an_expression() {
        let read = widget(&json!([
            ["Leasehold", "Lost", "Table", "t", {"label": "lost"}],
            ["Leasehold", "HeldTime", "Table", "t", {"label": "held", "stat": "p99", "visible": false, "id": "h"}],
            [{"expression": "2 * h", "label": "twice"}],
        ]))
        .metrics()
        .unwrap();
        let What::Written {
            stat, dimensions, ..
        } = &read[0].what
        else {
            panic!("{read:?}")
        };
        assert_eq!(stat, "Sum");
        assert_eq!(*dimensions, [("Table".to_owned(), "t".to_owned())]);
        assert_eq!((read[1].visible, read[1].id.as_str()), (false, "h"));
        assert_eq!(read[2].what, What::Expression("2 * h".to_owned()));
    }

    #[test]
    fn what_is_not_understood_is_not_drawn_as_something_else() {
        for entry in [
            json!(["Leasehold", "Lost", "Table", {"label": "half a dimension"}]),
            json!([".", ".", "Table", "t", {}]),
            json!([{"label": "nothing"}]),
            json!(["Leasehold", 5, {}]),
        ] {
            assert!(widget(&json!([entry])).metrics().is_err(), "{entry}");
        }
    }
}
