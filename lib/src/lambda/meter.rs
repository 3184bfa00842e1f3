//! Metrics in CloudWatch's embedded format: one line an invocation, on standard output.

use std::io::Write as _;

use serde_json::{Map, Value, json};

use super::tally::Tally;
use crate::{
    clock::Timestamp,
    metrics::{METRICS, Metric},
    settings,
};

const NAMESPACE: &str = "Leasehold";
const TABLE: &str = "Table";
const OPERATION: &str = "Operation";

/// What all lines of a sandbox have in common.
pub(super) struct Meter {
    table: String,
    operation: &'static str,
    level: String,
}

impl Meter {
    pub(super) fn new(operation: &'static str) -> Self {
        Self {
            // Also if there is none: somebody has to hear of it.
            table: settings::table_name().unwrap_or_else(|| "none".to_owned()),
            operation,
            level: settings::log_level_name(),
        }
    }

    /// Writes the line. What cannot be written is lost: no answer waits for it.
    pub(super) fn write(&self, tally: &Tally, at: Timestamp) {
        let line = format!("{}\n", self.line(tally, at));
        let _ = std::io::stdout().lock().write_all(line.as_bytes());
    }

    fn line(&self, tally: &Tally, at: Timestamp) -> Value {
        let (mut of_table, mut of_operation) = (Vec::new(), Vec::new());
        let mut root = Map::new();
        for (metric, value) in tally.values() {
            let (name, unit) = METRICS[metric as usize];
            let definition = json!({"Name": name, "Unit": unit});
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
        // Without both Lambda takes the line for one of level INFO, and leaves it out if the level is above that.
        root.insert("level".to_owned(), self.level.as_str().into());
        root.insert("timestamp".to_owned(), at.to_string().into());
        Value::Object(root)
    }
}
