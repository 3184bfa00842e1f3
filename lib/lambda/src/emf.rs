//! Metrics in CloudWatch's embedded format: one line per invocation, on standard output.

use std::io::Write as _;

use leasehold::{
    Timestamp,
    metrics::{Counts, Metric},
};
use serde_json::{Map, Value, json};

use crate::environment;

const NAMESPACE: &str = "Leasehold";
const TABLE: &str = "Table";
const OPERATION: &str = "Operation";

/// What all lines of a sandbox share.
pub(crate) struct EmfWriter {
    table: String,
    operation: &'static str,
}

impl EmfWriter {
    pub(crate) fn new(operation: &'static str) -> Self {
        Self {
            // A missing table name must be counted too.
            table: environment::table_name(environment::variable)
                .unwrap_or_else(|| "none".to_owned()),
            operation,
        }
    }

    /// Writes the line. If that fails the line is lost; no response waits for it.
    pub(crate) fn write(&self, counts: &Counts, at: Timestamp) {
        let line = format!("{}\n", self.line(counts, at));
        let _ = std::io::stdout().lock().write_all(line.as_bytes());
    }

    fn line(&self, counts: &Counts, at: Timestamp) -> Value {
        let (mut of_table, mut of_operation) = (Vec::new(), Vec::new());
        let mut root = Map::new();
        for (metric, value) in counts.values() {
            let name = metric.name();
            let definition = json!({"Name": name, "Unit": metric.unit()});
            match metric {
                Metric::Latency => of_operation.push(definition),
                _ => of_table.push(definition),
            }
            root.insert(name.to_owned(), value.into());
        }
        let directives = [
            (&[TABLE] as &[&str], of_table),
            (&[TABLE, OPERATION], of_operation),
        ]
        .into_iter()
        .filter(|(_, metrics)| !metrics.is_empty())
        .map(|(dimensions, metrics)| {
            json!({"Namespace": NAMESPACE, "Dimensions": [dimensions], "Metrics": metrics})
        });
        let directives: Vec<_> = directives.collect();
        root.insert(
            "_aws".to_owned(),
            json!({"Timestamp": at.as_millis(), "CloudWatchMetrics": directives}),
        );
        root.insert(TABLE.to_owned(), self.table.as_str().into());
        root.insert(OPERATION.to_owned(), self.operation.into());
        // Not the configured level: at ERROR every invocation would look like an error.
        root.insert("level".to_owned(), "INFO".into());
        root.insert("timestamp".to_owned(), at.to_string().into());
        Value::Object(root)
    }
}

#[cfg(test)]
mod tests {
    use leasehold::metrics::METRICS;

    use super::*;

    fn meter() -> EmfWriter {
        EmfWriter {
            table: "leases".to_owned(),
            operation: "release",
        }
    }

    const AT: Timestamp = Timestamp::from_millis(1_795_230_000_120);

    #[test]
    fn line_is_one_metric_object() {
        let mut counts = Counts::default();
        counts.add(Metric::HeldTime, 5_000);
        counts.add(Metric::QueueDepth, 0);
        counts.add(Metric::Latency, 12);
        assert_eq!(
            meter().line(&counts, AT).to_string(),
            r#"{"HeldTime":5000,"Latency":12,"Operation":"release","QueueDepth":0,"Table":"leases","#
                .to_owned()
                + r#""_aws":{"CloudWatchMetrics":["#
                + r#"{"Dimensions":[["Table"]],"Metrics":[{"Name":"HeldTime","Unit":"Milliseconds"},"#
                + r#"{"Name":"QueueDepth","Unit":"Count"}],"Namespace":"Leasehold"},"#
                + r#"{"Dimensions":[["Table","Operation"]],"Metrics":[{"Name":"Latency","Unit":"Milliseconds"}],"#
                + r#""Namespace":"Leasehold"}],"Timestamp":1795230000120},"#
                + r#""level":"INFO","timestamp":"2026-11-21T03:00:00.120Z"}"#
        );
    }

    #[test]
    fn no_counts_list_no_metrics() {
        let mut counts = Counts::default();
        counts.add(Metric::Latency, 0);
        let line = meter().line(&counts, AT);
        let directives = line["_aws"]["CloudWatchMetrics"].as_array();
        assert_eq!(directives.expect("a list").len(), 1);
    }

    #[test]
    fn cloudwatch_takes_names_and_units() {
        for (name, unit) in METRICS {
            assert!(name.len() <= 255 && name.chars().all(|c| c.is_ascii_alphabetic()));
            assert!(["Count", "Milliseconds"].contains(&unit), "{name}: {unit}");
            assert!(![TABLE, OPERATION, "_aws", "level", "timestamp"].contains(&name));
        }
    }
}
